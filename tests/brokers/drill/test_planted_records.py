"""A drill's record is data: who may write to the state topic can make a drill do nothing more."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from k2ktui.drill.operations import abort_drill
from k2ktui.drill.ownership import Actor
from k2ktui.engine.drill.changes import EVERYONE, dump_names
from k2ktui.engine.drill.checks import DrillKind, DrillPhase
from k2ktui.engine.drill.model import (
    ChangeKind,
    ChangeStatus,
    DrillOptions,
    DrillStatus,
    new_phases,
)
from k2ktui.engine.moves.journal import JournalRow, JournalRows
from k2ktui.errors import Refused
from k2ktui.jobs.local_jobs import list_jobs, this_host
from k2ktui.jobs.manager import StopMode, stop_job
from k2ktui.kafka.admin.quotas import Quota, producer_quotas
from k2ktui.kafka.clients import source_cluster, target_cluster
from k2ktui.runtime.node import KafkaNode
from k2ktui.sync.drill.guard import refuse_fenced
from k2ktui.sync.moves.plans import plan_options
from k2ktui.sync.moves.snapshot import take_snapshot
from k2ktui.sync.operations import apply_plan, plan_snapshot, read_journal
from k2ktui.sync.store import StateStore
from tests.support.clusters.brokers import Brokers
from tests.support.clusters.kafka import TIMEOUT, admin, eventually
from tests.support.clusters.other_hosts import other_host
from tests.support.commands.cli import k2ktui
from tests.support.drill.planted import PLANTED_ID, change, plant, planted
from tests.support.drill.recorded_changes import dump_rates
from tests.support.drill.runs import MAY, Pair, Yes, kill_at, remove_quotas, set_quotas
from tests.support.oracle.group_offsets import commit_offsets
from tests.support.pipelines.copied import committed

pytestmark = pytest.mark.slow


@pytest.fixture
def pair(
    tmp_path: Path, source: KafkaNode, target: KafkaNode, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Pair]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    yield Pair(tmp_path, source, target)
    remove_quotas(source)
    for job in list_jobs():
        stop_job(job, MAY, StopMode.KILL)


def test_the_next_rehearsal_starts_no_program_that_a_record_names(
    pair: Pair, target: KafkaNode, tmp_path: Path
) -> None:
    marker, program = tmp_path / "started", tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {marker}\n")
    program.chmod(0o755)
    file = tmp_path / "planted.yaml"
    python = f"spark:\n  config:\n    spark.pyspark.python: {program}\n"
    file.write_text(pair.file.read_text() + python)
    job = {"host": this_host(), "files": [str(file)], "telemetry": False, "cwd": str(tmp_path)}
    config = pair.flow.config
    plant(
        config, target, planted(config, DrillKind.REHEARSE, change(ChangeKind.JOB, json.dumps(job)))
    )
    rehearsal = pair.start(DrillKind.REHEARSE)
    assert rehearsal.status is DrillStatus.DONE
    assert list_jobs() == [], "no job was started"
    assert not marker.exists()


def test_a_rehearsal_has_only_shadow_groups(
    pair: Pair, source: KafkaNode, target: KafkaNode
) -> None:
    config, at = pair.flow.config, source_cluster(pair.flow.config)
    files = [str(pair.file)]
    plan = plan_snapshot(take_snapshot(pair.flow), plan_options(config), files)
    apply_plan(config, plan, files, MAY)
    set_quotas(at, Quota(EVERYONE, 1e9))
    quotas = producer_quotas(at)
    plant(
        config,
        target,
        planted(
            config,
            DrillKind.REHEARSE,
            change(ChangeKind.QUOTAS, dump_rates([]), dump_rates([(EVERYONE, 1.0)])),
            change(ChangeKind.OFFSETS, "", dump_names([plan.id])),
        ),
    )
    pair.start(DrillKind.REHEARSE)
    for number, group in enumerate(pair.groups):
        assert pair.target_offsets(group) == pair.expected_offsets(number), "not undone"
    assert producer_quotas(at) == quotas


def test_another_host_s_rehearsal_is_aborted_only_if_a_person_agrees(
    pair: Pair, target: KafkaNode
) -> None:
    """Its process was killed; whether it still runs, only its host knows."""
    crash, failpoint = pair.directory / "crash", "drill-shadow-groups-committed"
    kill_at(
        failpoint, crash, "drill", "rehearse", "-f", pair.file, environment=other_host("bastion-2")
    )
    (killed,) = pair.drills()
    left = shadow_groups(target, killed.id)
    assert left
    unattended = Yes()
    rehearsal = pair.start(DrillKind.REHEARSE, operator=unattended)
    assert rehearsal.status is DrillStatus.DONE and len(unattended.shown_lines) == 1
    assert shadow_groups(target, killed.id) == left
    assert {drill.id: drill.status for drill in pair.drills()}[killed.id] is DrillStatus.OPEN
    person = Yes(is_person=True)
    pair.start(DrillKind.REHEARSE, operator=person)
    (lines,) = person.shown_lines
    assert "bastion-2 has begun the rehearsal" in lines[0]
    assert {drill.id: drill.status for drill in pair.drills()}[killed.id] is DrillStatus.ABORTED
    assert not shadow_groups(target, killed.id)


def shadow_groups(node: KafkaNode, drill_id: str) -> list[str]:
    with_admin = admin(node)
    listed = with_admin.list_consumer_groups().result(TIMEOUT).valid
    return sorted(
        listed_group.group_id
        for listed_group in listed
        if f".drill.{drill_id}." in listed_group.group_id
    )


def test_a_planted_record_changes_nothing_unless_a_person_agrees(
    pair: Pair, source: KafkaNode, target: KafkaNode
) -> None:
    config, at = pair.flow.config, source_cluster(pair.flow.config)
    set_quotas(at, Quota(EVERYONE, 1e9))
    quotas = change(ChangeKind.QUOTAS, dump_rates([]), dump_rates([(EVERYONE, 1.0)]))
    plant(config, target, planted(config, DrillKind.PLANNED, quotas))
    line = "producer quota of client-id default, user default on the source: 1e+09 bytes/s → none"
    for verb in ("resume", "abort"):
        refused = k2ktui("drill", verb, PLANTED_ID, "-f", pair.file, code=5)
        # A resume sets no quota.
        assert (line in refused.stderr) == (verb == "abort")
        assert "It is not proven" in refused.stderr
        (drill,) = pair.drills()
        assert drill.events == () and [quota.rate for quota in producer_quotas(at)] == [1e9]
    person = Yes(is_person=True)
    aborted = abort_drill(Actor(pair.flow, [str(pair.file)], MAY, person), PLANTED_ID)
    assert aborted.status is DrillStatus.ABORTED and f"  {line}" in person.shown_lines[0]
    eventually(lambda: not producer_quotas(at), "what was shown is restored")


def test_a_planted_record_is_not_taken_for_a_drill_s_own(pair: Pair, target: KafkaNode) -> None:
    """The drill is real, and its record is replaced by one that an abort would act on."""
    refuses = Yes(frozenset({DrillPhase.FENCE_REPLICATOR}))
    with pytest.raises(Refused, match="not confirmed"):
        pair.start(DrillKind.PLANNED, operator=refuses)
    (drill,) = pair.drills()
    aside = replace(drill, changes=())
    plant(pair.flow.config, target, aside)
    refused = k2ktui("drill", "resume", drill.id, "-f", pair.file, code=5)
    assert "not written with the drill's transactional id" in refused.stderr
    # What only refuses holds all the same.
    fence = replace(change(ChangeKind.EPOCHS), status=ChangeStatus.MADE)
    plant(pair.flow.config, target, replace(drill, changes=(fence,)))
    with pytest.raises(Refused, match="fenced by drill"):
        refuse_fenced(pair.flow.config, target_cluster(pair.flow.config))
    # The real one again, by its owner's own producer id.
    plant(pair.flow.config, target, drill)
    k2ktui("drill", "abort", drill.id, "-f", pair.file, code=5)
    person = Yes(is_person=True)
    assert abort_drill(Actor(pair.flow, [str(pair.file)], MAY, person), drill.id).is_over
    shown = "\n".join(person.shown_lines[0])
    offset = pair.expected_offsets(0)[pair.topics[0], 0]
    at = f"group {pair.groups[0]}, {pair.topics[0]}-0 on the target"
    assert f"{at}: {offset} → no offset" in shown


def test_a_record_with_phases_of_another_kind_is_refused(pair: Pair, target: KafkaNode) -> None:
    config = pair.flow.config
    hidden = replace(planted(config, DrillKind.REHEARSE), phases=new_phases(DrillKind.PLANNED))
    plant(config, target, hidden)
    refused = k2ktui("drill", "resume", PLANTED_ID, "-f", pair.file, code=5)
    assert "its phases are not those of a rehearsal" in refused.stderr


@pytest.mark.parametrize("version", ["2.8", "3.9"])
def test_an_old_coordinator_may_not_say_who_wrote_a_drill(
    tmp_path: Path, source: KafkaNode, brokers: Brokers, version: str
) -> None:
    (old,) = brokers(version)
    pair = Pair(tmp_path, source, old)
    with pytest.raises(Refused, match="not confirmed"):
        pair.start(DrillKind.PLANNED, operator=Yes(frozenset({DrillPhase.FENCE_REPLICATOR})))
    (drill,) = pair.drills()
    says = version == "3.9"
    done = k2ktui("drill", "abort", drill.id, "-f", pair.file, code=0 if says else 5)
    if says:
        return
    assert "brokers before Kafka 3.0 do not say who writes for a drill" in done.stderr
    assert pair.target_offsets(pair.groups[0]) == pair.expected_offsets(0)
    person = Yes(is_person=True)
    assert abort_drill(Actor(pair.flow, [str(pair.file)], MAY, person), drill.id).is_over
    assert set(pair.target_offsets(pair.groups[0]).values()) == {None}


def test_a_planted_journal_entry_moves_no_group(pair: Pair) -> None:
    """It claims to be of the plan of a drill that is aborted by its operator."""
    with pytest.raises(Refused, match="not confirmed"):
        pair.start(DrillKind.PLANNED, operator=Yes(frozenset({DrillPhase.FENCE_REPLICATOR})))
    (drill,) = pair.drills()
    config = pair.flow.config
    group, topic = f"{pair.copied.name}-victim", pair.topics[0]
    commit_offsets(pair.target, group, {(topic, 0): 15})
    (real,) = [entry for entry in read_journal(config) if entry.operation == "apply"]
    row = JournalRow(topic, 0, 0, "", 15, "", "applied")
    store = StateStore(config, target_cluster(config))
    entry = replace(real, id="20260101-000000-beef")
    store.put([JournalRows(entry.id, group, (row,)), entry])
    store.close()
    aborted = abort_drill(Actor(pair.flow, [str(pair.file)], MAY, Yes()), drill.id)
    assert committed(pair.target, group, [(topic, 0)]) == {(topic, 0): 15}
    (problem,) = [blocker for blocker in aborted.blockers if "does not have the rows" in blocker]
    assert f"journal entry {entry.id}" in problem
    assert set(pair.target_offsets(pair.groups[0]).values()) == {None}


def test_no_path_is_taken_from_a_record(pair: Pair, target: KafkaNode, tmp_path: Path) -> None:
    """Neither a file that is read, whose addresses get secrets, nor a directory that is written."""
    planted_path = str(tmp_path / "planted")
    config = pair.flow.config
    for option, options, verbs in (
        ("--forward", DrillOptions(forward=planted_path), ("resume", "abort")),
        ("--export-to", DrillOptions(export_to=planted_path), ("resume",)),
    ):
        plant(config, target, planted(config, DrillKind.FAILBACK, options=options))
        for verb in verbs:
            refused = k2ktui("drill", verb, PLANTED_ID, "-f", pair.file, code=5).stderr
            assert f"was begun with {option} {planted_path}" in refused
            assert f"Repeat the command with {option}" in refused
    abort_drill(Actor(pair.flow, [str(pair.file)], MAY, Yes()), PLANTED_ID)
    assert not Path(planted_path).exists()
