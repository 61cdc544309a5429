"""A drill whose process is killed between and inside any two steps is resumed on another host."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from k2ktui.drill.checks.catalog import CATALOG, checks_that_stop
from k2ktui.drill.operations import resume_drill, verify_drill
from k2ktui.drill.ownership import Actor
from k2ktui.drill.store import TakenOver
from k2ktui.engine.drill.checks import DrillKind, DrillPhase
from k2ktui.engine.drill.model import ChangeStatus, DrillStatus, PhaseStatus, ResumeOptions
from k2ktui.engine.drill.steps import failed_phase
from k2ktui.errors import Refused
from k2ktui.kafka.admin.acls import allow_writes, denied_topics
from k2ktui.kafka.clients import source_cluster, target_cluster
from k2ktui.runtime.node import KafkaNode
from k2ktui.sync.drill.guard import refuse_fenced
from k2ktui.sync.operations import read_entry, read_journal
from tests.support.clusters.kafka import TIMEOUT, Out, eventually, produce
from tests.support.clusters.secure import SecureNode
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.drill.runs import MAY, QUICK, Pair, Yes, kill_at, settled

# What holds is awaited for long: the machine may be busy.
QUICKLY = ("--frozen", "1", "--wait", "300", "--watch", "10", "--accept", ",".join(CATALOG))
TO_THE_TARGET = (
    "preflight-begun",
    "preflight-ended",
    "fence-producers-intended",
    "fence-producers-made",
    "fence-producers-ended",
    "drain-begun",
    "stop-consumers-ended",
    "apply-intended",
    "apply-made",
    "verify-begun",
    "fence-replicator-intended",
    "fence-replicator-made",
    "open-target-begun",
)
AFTER_IT = ("watch-clients-begun", "report-begun", "report-ended")


@pytest.fixture
def pair(tmp_path: Path, source: KafkaNode, target: KafkaNode) -> Pair:
    return Pair(tmp_path, source, target)


@pytest.fixture
def fenced(tmp_path: Path, secure: SecureNode, target: KafkaNode) -> Pair:
    """A pair whose source has access rules, with which a drill fences producers."""
    return Pair(tmp_path, secure.node, target)


def kill_through(pair: Pair, steps: tuple[str, ...], *yes: str) -> str:
    """Kill a planned drill at each of these steps, one process each; return its id."""
    crash, drill_id = pair.directory / "crash", ""
    for step in steps:
        begun = ("resume", drill_id) if drill_id else ("planned", "--fence", "acl", *QUICKLY)
        kill_at(f"drill-{step}", crash, "drill", *begun, "-f", pair.file, *yes)
        (drill,) = pair.drills()
        drill_id = drill.id
    return drill_id


def denied(pair: Pair) -> frozenset[str]:
    return denied_topics(source_cluster(pair.flow.config), pair.topics)


@pytest.mark.slow
def test_killed_at_every_step_nothing_is_done_twice_and_nothing_forgotten(fenced: Pair) -> None:
    pair = fenced
    drill_id = kill_through(pair, (*TO_THE_TARGET, *AFTER_IT), "--yes-to", "all")
    k2ktui("drill", "resume", drill_id, "-f", pair.file, "--yes-to", "all", code=None)
    drill, problems = verify_drill(settled(pair.flow), drill_id)
    assert drill.status is DrillStatus.DONE and problems == []
    for number, group in enumerate(pair.groups):
        assert pair.target_offsets(group) == pair.expected_offsets(number)
    entries = [
        read_entry(pair.flow.config, header.id)
        for header in read_journal(pair.flow.config)
        if header.operation == "apply"
    ]
    rows = [
        (row.write.group, row.write.topic, row.write.partition)
        for entry in entries
        for row in entry.rows
        if row.outcome == "applied"
    ]
    assert set(Counter(rows).values()) == {1} and len(rows) == 8
    (rules, *_) = [change for change in drill.changes if change.kind == "acls"]
    assert rules.status is ChangeStatus.MADE
    assert len([event for event in drill.events if "about to: deny Write" in event.text]) == 1
    # After the end: the operator opens the source again, or not.
    assert denied(pair) == set(pair.topics)
    allow_writes(source_cluster(pair.flow.config), pair.topics)


@pytest.mark.slow
def test_an_abort_that_is_killed_is_completed(fenced: Pair) -> None:
    pair = fenced
    drill_id = kill_through(pair, TO_THE_TARGET[-2:-1], "--yes-to", "all")
    for step in ("restore-epochs", "restore-offsets", "apply-undone", "restore-acls"):
        kill_at(
            f"drill-{step}", pair.directory / "crash", "drill", "abort", drill_id, "-f", pair.file
        )
    refused = k2ktui("drill", "resume", drill_id, "-f", pair.file, code=5)
    assert "is being aborted" in refused.stderr
    shown = k2ktui("drill", "show", drill_id, "-f", pair.file).stdout
    assert f"Continue it: k2ktui drill abort {drill_id} -f FILE" in shown
    k2ktui("drill", "abort", drill_id, "-f", pair.file)
    drill, problems = verify_drill(settled(pair.flow), drill_id)
    assert drill.status is DrillStatus.ABORTED and problems == []
    assert {change.status for change in drill.changes} == {ChangeStatus.UNDONE}
    eventually(lambda: not denied(pair), "the access rules are as before")
    for group in pair.groups:
        assert set(pair.target_offsets(group).values()) == {None}
    refuse_fenced(pair.flow.config, target_cluster(pair.flow.config))


@pytest.mark.slow
def test_a_phase_that_was_not_confirmed_waits(pair: Pair) -> None:
    done = k2ktui("drill", "planned", "-f", pair.file, *QUICKLY, code=5)
    assert "apply must be confirmed" in done.stderr
    assert "--yes-to apply" in done.stderr
    (drill,) = pair.drills()
    with pytest.raises(Refused, match="is open"):
        pair.start(DrillKind.PLANNED)
    pair.start(DrillKind.REHEARSE)  # changes nothing that the open one needs
    assert set(pair.target_offsets(pair.groups[0]).values()) == {None}
    shown = k2ktui("drill", "show", drill.id, "-f", pair.file).stdout
    assert "  6 apply             stopped" in shown
    assert "No process acts on it" in shown
    assert f"Continue it: k2ktui drill resume {drill.id} -f FILE" in shown
    assert k2ktui_json("drill", "show", drill.id, "-f", pair.file)["acting"] is False
    k2ktui("drill", "resume", drill.id, "-f", pair.file, "--yes-to", "apply", code=5)
    assert pair.target_offsets(pair.groups[0]) == pair.expected_offsets(0)
    shown = k2ktui("drill", "show", drill.id, "-f", pair.file).stdout
    assert "Next, fence-replicator" in shown and "You can still go back" in shown
    reply = k2ktui_json("drill", "abort", drill.id, "-f", pair.file)
    assert reply["status"] == "aborted"


@pytest.mark.slow
def test_a_second_operator_watches_and_acts_only_after_taking_over(
    pair: Pair, source: KafkaNode
) -> None:
    ended, lost = threading.Event(), []

    def write() -> None:
        while not ended.wait(0.1):
            produce(source, pair.topics[0], [Out(b"more", b"k", 1)])

    def act() -> None:
        try:
            # A producer on a busy machine may write nothing for a second.
            pair.start(DrillKind.PLANNED, replace(QUICK, frozen_s=300.0, wait_s=300.0))
        except TakenOver as error:
            lost.append(error)

    threads = [threading.Thread(target=action, daemon=True) for action in (write, act)]
    for thread in threads:
        thread.start()
    try:
        fenced, topic = DrillPhase.FENCE_PRODUCERS, pair.topics[0]
        written = f"{topic}-1, by a producer without id on {topic} 1 ("
        (drill,) = eventually(pair.drills, "the drill is there")
        eventually(
            lambda: f"still written: {written}" in pair.drills()[0].record(fenced).live,
            "the other operator sees what it waits for, and who it is",
        )
        (drill,) = pair.drills()
        assert any("still written to the source: " in event.text for event in drill.events)
        shown = k2ktui("drill", "show", drill.id, "-f", pair.file).stdout
        assert "  3 fence-producers   running" in shown and "acts on it, last seen" in shown
        refused = k2ktui("drill", "resume", drill.id, "-f", pair.file, code=5)
        assert "acts on drill" in refused.stderr and "--take-over" in refused.stderr
        k2ktui("drill", "abort", drill.id, "-f", pair.file, "--take-over")
        eventually(lambda: lost, "the first operator's process has ended")
    finally:
        ended.set()
        for thread in threads:
            thread.join(TIMEOUT)
    (drill,) = pair.drills()
    assert drill.status is DrillStatus.ABORTED
    assert any("taken over from" in event.text for event in drill.events)


@pytest.mark.slow
def test_a_planned_drill_continues_as_a_disaster(pair: Pair) -> None:
    """The phases that need the source are dropped; here the source is only said to be lost.

    Options that do not fit the drill are refused from then on.
    """
    done = k2ktui("drill", "planned", "-f", pair.file, *QUICKLY, code=5)
    assert "apply must be confirmed" in done.stderr
    (drill,) = pair.drills()
    operator = Yes()
    failed = resume_drill(
        Actor(pair.flow, [str(pair.file)], MAY, operator),
        drill.id,
        ResumeOptions(as_disaster=True),
    )
    assert failed.kind is DrillKind.DISASTER
    record = failed.record(DrillPhase.SOURCE_LOST)
    assert record.status is PhaseStatus.FAILED and record.live == "the source answers"
    assert failed.status is DrillStatus.OPEN
    refused = k2ktui("drill", "resume", drill.id, "-f", pair.file, "--from-fence", code=5)
    assert "(disaster) has no phase fence-producers" in refused.stderr
    refused = k2ktui("drill", "resume", drill.id, "-f", pair.file, "--tail", "replay", code=2)
    assert "is no failback" in refused.stderr
    (after,) = pair.drills()
    assert (after.options, after.phases) == (failed.options, failed.phases)


@pytest.mark.slow
def test_findings_that_stopped_a_drill_are_accepted_later(pair: Pair) -> None:
    stopped = pair.start(DrillKind.PLANNED, replace(QUICK, accepted=()))
    result = failed_phase(stopped)
    assert result is not None and result.phase is DrillPhase.PREFLIGHT
    ids = [check.id for check in checks_that_stop(stopped)]
    assert ids and result.live.startswith(f"stopped by {', '.join(ids)}; ")
    text = k2ktui("drill", "resume", stopped.id, "-f", pair.file, code=None).stderr
    assert f"1 preflight: failed: stopped by {', '.join(ids)}" in text
    k2ktui("drill", "resume", stopped.id, "-f", pair.file, "--accept", ",".join(ids), code=None)
    (resumed,) = pair.drills()
    assert resumed.record(DrillPhase.PREFLIGHT).status is PhaseStatus.DONE
    assert resumed.options.accepted == tuple(ids)
    (event,) = [event for event in resumed.events if "accepted findings" in event.text]
    assert event.text == f"accepted findings of {', '.join(ids)}" and event.who == resumed.owner
