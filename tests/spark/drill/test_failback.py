"""Failback on real clusters with real pipelines; a plain consumer says what each group has read."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import yaml

from k2ktui.drill.checks.catalog import CATALOG
from k2ktui.drill.operations import abort_drill, verify_drill
from k2ktui.engine.drill.checks import DrillKind, DrillPhase
from k2ktui.engine.drill.model import ChangeKind, ChangeStatus, DrillStatus, PhaseStatus
from k2ktui.engine.drill.tail import TailChoice
from k2ktui.errors import K2kError, Refused
from k2ktui.kafka.clients import Cluster, source_cluster, target_cluster
from k2ktui.runtime.node import KafkaNode
from k2ktui.sync.drill.guard import refuse_fenced
from tests.support.clusters.kafka import START_S, eventually
from tests.support.commands.acting import acting
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.drill.failback import Workload
from tests.support.drill.hooks import hook, sh
from tests.support.drill.runs import MAY, Yes, keep_commits, kill_at
from tests.support.records.numbered import Identity

NOTHING_LEFT = "every record of the old source is on the new primary"


@pytest.fixture
def work(tmp_path: Path, source: KafkaNode, target: KafkaNode) -> Iterator[Workload]:
    made = Workload(tmp_path, source, target)
    yield made
    made.close()


@pytest.fixture
def lost(tmp_path: Path, target: KafkaNode) -> Iterator[Workload]:
    """A workload whose source the test may kill."""
    node = KafkaNode("lost", tmp_path / "lost").start(START_S)
    made = Workload(tmp_path, node, target)
    yield made
    made.close()
    node.close()


def begin(work: Workload) -> None:
    """Let both groups read something on the source."""
    work.write(work.a, 100)
    work.forward.catch_up()
    work.consume(work.a, work.groups[0], 20)
    work.consume(work.a, work.groups[1], 5)


def work_on_the_other_side(work: Workload) -> None:
    """Write on the target; one group reads everything, the other one a part."""
    work.write(work.b, 40)
    work.consume(work.b, work.groups[0])
    work.consume(work.b, work.groups[1], 50)


def pair_state(file: Path) -> tuple[str, str, bool]:
    """Return what a pipeline says of its pair: where the workload is, and which drill says so."""
    shown = k2ktui_json("status", "-f", file)["pair_state"]
    return shown["phase"], shown["drill"], shown["moved"]


def leave_a_tail(work: Workload) -> set[Identity]:
    """Fail over; something is written to the old source although it is no longer in use."""
    begin(work)
    work.fail_over()
    work.write(work.a, 30)
    work_on_the_other_side(work)
    work.copy_back()
    return {(b"a", b"%d" % n) for n in range(100, 130)}


def waits_for_the_tail(work: Workload) -> bool:
    """Whether an open failback waits until the forward pipeline has copied the tail."""
    with suppress(K2kError):  # a busy cluster may not answer in time; it is asked again
        return any(
            "not copied yet" in failback.record(DrillPhase.TAIL).live
            for failback in work.failbacks()
            if not failback.is_over
        )
    return False


def read_on(
    work: Workload,
    left_out: frozenset[Identity] | set[Identity] = frozenset(),
    copy: Callable[[], object] | None = None,
) -> None:
    """Work on the old source again: every group has read each record once, but those left out.

    Args:
        work: the workload.
        left_out: what no group reads.
        copy: waits until the forward pipeline has caught up; by default it is started for this.
    """
    work.write(work.a, 30)
    for group in work.groups:
        work.consume(work.a, group)
        expected = Counter(
            {
                identity: n
                for identity, n in work.content(work.a).items()
                if identity not in left_out
            }
        )
        assert Counter(work.read[group]) == expected, group
    (copy or work.forward.catch_up)()
    assert set(work.content(work.a).values()) == {1}
    assert work.content(work.b) == Counter(
        {identity: n for identity, n in work.content(work.a).items() if identity not in left_out}
    )


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_there_and_back_every_group_reads_each_record_once(work: Workload) -> None:
    begin(work)
    away = work.fail_over()
    work_on_the_other_side(work)
    work.copy_back()
    assert pair_state(work.file) == ("failed over", away.id, True)
    assert pair_state(work.back) == ("replicating", away.id, False)
    reverse = k2ktui_json("status", "-f", work.back, "--groups")["failover"]
    assert reverse["rpo_records"] == 0, reverse
    with pytest.raises(Refused, match="was fenced by drill"):
        refuse_fenced(work.flow.config, target_cluster(work.flow.config))
    operator = Yes()
    # The reverse pipeline's file has hooks of its own: those of the forward one are not copied.
    reverse = yaml.safe_load(work.back.read_text())
    assert "hooks" not in reverse.get("drill", {})
    switch = 'echo "$K2KTUI_DRILL_KIND to $K2KTUI_DRILL_TARGET" >> clients'
    hooks = [hook("before", "open-target", sh(switch))]
    work.back.write_text(yaml.safe_dump({**reverse, "drill": {"hooks": hooks}}))
    drill = work.fail_back(operator)
    assert drill.status is DrillStatus.DONE, drill
    assert drill.record(DrillPhase.TAIL).live == NOTHING_LEFT
    assert [step for step, _ in operator.asked] == [
        DrillPhase.APPLY,
        DrillPhase.FENCE_REPLICATOR,
        "before-open-target",
        DrillPhase.OPEN_TARGET,
    ]
    told = [f"failback to {work.a.bootstrap}"]
    assert (work.back.parent / "clients").read_text().splitlines() == told
    assert "0 read again, 0 skipped" in operator.asked[0][1]
    assert pair_state(work.file) == ("replicating", drill.id, False)
    assert pair_state(work.back) == ("failed over", drill.id, True)
    assert {phase.status for phase in drill.phases} == {PhaseStatus.DONE}
    refuse_fenced(work.flow.config, target_cluster(work.flow.config))
    read_on(work)
    assert verify_drill(work.reverse_flow, drill.id)[1] == []
    with pytest.raises(Refused, match="has already moved the groups back"):
        work.fail_back()


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_after_a_disaster_the_tail_is_copied_late_and_groups_return_exactly(lost: Workload) -> None:
    begin(lost)
    keep_commits(lost.flow.config)
    lost.write(lost.a, 30)
    lost.a.kill()
    lost.fail_over(DrillKind.DISASTER)
    work_on_the_other_side(lost)
    lost.a.start(START_S)
    lost.write_reverse()
    lost.copy_back()
    listed = lost.fail_back(wait_s=300.0)
    assert not listed.is_over
    tail_phase = listed.record(DrillPhase.TAIL)
    assert tail_phase.status is PhaseStatus.FAILED
    assert tail_phase.live.startswith("30 records on 2 partitions, of ")
    assert f"{lost.topic}-0: 15 records, offsets 50 to 64, of " in tail_phase.findings[0]
    assert "keys" not in "".join(tail_phase.findings)
    assert "--tail CHOICE" in tail_phase.findings[-1]
    operator = Yes()

    def act() -> None:
        """What an operator starts while the drill waits."""
        eventually(lambda: waits_for_the_tail(lost), "the drill waits for the pipeline", 180)
        lost.forward.catch_up()
        for group in lost.groups:
            lost.consume(lost.b, group)
        lost.copy_back()

    with acting(act):
        drill = lost.resume(listed, operator, tail=TailChoice.REPLAY)
    assert drill.status is DrillStatus.DONE, drill
    asked = dict(operator.asked)
    assert "30 records on 2 partitions" in asked[DrillPhase.TAIL]
    assert "0 read again, 0 skipped" in asked[DrillPhase.APPLY]
    assert [(span.records, span.first) for span in drill.tail] == [(15, 50), (15, 50)]
    read_on(lost)
    keep_commits(lost.flow.config)
    lost.a.kill()
    rows = k2ktui_json("plan", "-f", lost.file, code=None, timeout=180)["rows"]
    assert {(row["basis"], row["reread"], row["skipped"]) for row in rows} == {("end", 0, 0)}


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_an_exported_tail_is_in_files_and_stays_on_the_old_source(
    work: Workload, tmp_path: Path
) -> None:
    tail = leave_a_tail(work)
    directory = tmp_path / "exported"
    operator = Yes()
    drill = work.fail_back(
        operator, tail=TailChoice.EXPORT, export_to=str(directory), show_keys=True
    )
    assert drill.status is DrillStatus.DONE, drill
    effect = dict(operator.asked)[DrillPhase.TAIL]
    assert f"write them to {directory}" in effect and "leave them on the old source" in effect
    assert "first keys: 100, 102, 104" in drill.record(DrillPhase.TAIL).findings[0]
    assert directory.stat().st_mode & 0o777 == 0o700
    files = sorted(directory.iterdir())
    assert [file.name for file in files] == [f"{work.topic}-{n}.jsonl" for n in range(2)]
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
    rows = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    assert [row["offset"] for row in rows] == [*range(50, 65)] * 2
    exported = set()
    for row in rows:
        assert base64.b64decode(row["key"]) == base64.b64decode(row["value"])
        headers = {name: base64.b64decode(value) for name, value in row["headers"]}
        exported.add((headers["origin"], headers["number"]))
    assert exported == tail
    read_on(work, tail)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_discarded_tail_is_never_copied_and_an_abort_takes_that_back(work: Workload) -> None:
    tail = leave_a_tail(work)
    before = work.flow.open_mappings(*clusters(work)).positions()
    refuses = Yes(frozenset({DrillPhase.APPLY}))
    with pytest.raises(Refused, match="apply was not confirmed"):
        work.fail_back(refuses, tail=TailChoice.DISCARD)
    effect = dict(refuses.asked)[DrillPhase.APPLY]
    assert "0 read again, 0 skipped" in effect
    (drill,) = work.failbacks()
    after = work.flow.open_mappings(*clusters(work)).positions()
    assert {at.offset for at in after.values()} == {65}
    aborted = abort_drill(work.reverse_flow, drill.id, [str(work.back)], MAY, Yes())
    assert aborted.status is DrillStatus.ABORTED
    assert {change.status for change in aborted.changes} == {ChangeStatus.UNDONE}
    now = work.flow.open_mappings(*clusters(work)).positions()
    assert {at: (p.offset, p.gaps) for at, p in now.items()} == {
        at: (p.offset, p.gaps) for at, p in before.items()
    }
    with pytest.raises(Refused, match="was fenced by drill"):
        refuse_fenced(work.flow.config, target_cluster(work.flow.config))
    drill = work.fail_back(tail=TailChoice.DISCARD)
    assert drill.status is DrillStatus.DONE, drill
    assert "they stay on the old source" in drill.record(DrillPhase.TAIL).live
    read_on(work, tail)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_an_abort_after_a_replay_says_what_stays_and_the_way_back_begins_again(
    work: Workload,
) -> None:
    tail = leave_a_tail(work)

    def act() -> None:
        """What an operator starts while the drill waits."""
        eventually(lambda: waits_for_the_tail(work), "the drill waits for the pipeline", 180)
        work.forward.catch_up()
        work.copy_back()

    refuses = Yes(frozenset({DrillPhase.APPLY}))
    with acting(act), pytest.raises(Refused, match="apply was not confirmed"):
        work.fail_back(refuses, tail=TailChoice.REPLAY, wait_s=300.0)
    (drill,) = work.failbacks()
    aborted = abort_drill(work.reverse_flow, drill.id, [str(work.back)], MAY, Yes())
    assert aborted.status is DrillStatus.ABORTED
    kept = [change.kind for change in aborted.changes if change.status is ChangeStatus.KEPT]
    assert kept == [ChangeKind.TAIL]
    (problem,) = [blocker for blocker in aborted.blockers if "what was copied" in blocker]
    assert problem.endswith("stays on the new primary") and f"{work.topic}-0" in problem
    with pytest.raises(Refused, match="was fenced by drill"):
        refuse_fenced(work.flow.config, target_cluster(work.flow.config))
    assert set(work.content(work.b)) >= tail
    for group in work.groups:
        work.consume(work.b, group)
    work.copy_back()
    again = work.fail_back()
    assert again.status is DrillStatus.DONE, again
    assert again.record(DrillPhase.TAIL).live == NOTHING_LEFT
    read_on(work)


def clusters(work: Workload) -> tuple[Cluster, Cluster]:
    return source_cluster(work.flow.config), target_cluster(work.flow.config)


STEPS = (
    "source-back-begun",
    "tail-begun",
    "tail-intended",
    "tail-intended",
    "tail-made",
    "tail-ended",
    "apply-intended",
    "fence-replicator-made",
    "open-target-ended",
    "reverse-intended",
    "reverse-made",
    "report-begun",
)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_killed_at_every_step_it_continues_where_it_was(work: Workload) -> None:
    tail = leave_a_tail(work)
    options = ("--frozen", "1", "--wait", "30", "--watch", "10", "--accept", ",".join(CATALOG))
    drill_id = ""
    for step in STEPS:
        begun = ("resume", drill_id) if drill_id else ("failback", "--tail", "export", *options)
        yes = ("-f", work.back, "--yes-to", "all")
        kill_at(f"drill-{step}", work.directory / "crash-drill", "drill", *begun, *yes)
        (drill,) = work.failbacks()
        drill_id = drill.id
    k2ktui("drill", "resume", drill_id, "-f", work.back, "--yes-to", "all", code=None)
    drill, problems = verify_drill(work.reverse_flow, drill_id)
    assert drill.status is DrillStatus.DONE and problems == []
    files = sorted((work.directory / f"{work.back.stem}-tail-{drill_id}").iterdir())
    assert sum(len(file.read_text().splitlines()) for file in files) == len(tail)
    read_on(work, tail)
