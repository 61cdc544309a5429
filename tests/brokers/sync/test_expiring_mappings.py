"""Mappings that groups need, while the mapping topic's retention deletes the older ones."""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.mapping.translate import Basis
from k2ktui.engine.records.state import (
    Covers,
    Landed,
    MappingRange,
    SourcePartition,
    position_key,
    position_value,
    read_mapping_record,
)
from k2ktui.errors import Refused
from k2ktui.replication.ownership.commit_state import CommitStatesReader
from k2ktui.replication.preflight.checks import CheckOutcome
from k2ktui.runtime.node import KafkaNode
from k2ktui.sync.commit_snapshots import CommitSnapshotRunner
from k2ktui.sync.flow import Flow
from k2ktui.sync.loop.poll import SyncLoop
from k2ktui.sync.mapping import republish as mapping_republish
from k2ktui.sync.mapping.keeper import MappingKeeper, check_mappings
from k2ktui.sync.moves.plans import make_pipeline_plan, plan_options
from k2ktui.sync.moves.snapshot import take_snapshot
from tests.support.clusters.kafka import (
    TIMEOUT,
    Out,
    alter_topic,
    create_topic,
    delete_before,
    delete_topic,
    end_offsets,
    eventually,
    produce,
    read_all,
    start_offsets,
)
from tests.support.commands.cli import k2ktui
from tests.support.oracle.group_offsets import commit_offsets
from tests.support.pipelines.copied import Copied

HOUR_MS = 3_600_000
# Long enough for a busy machine: a repeat is due in the second half of it.
RETENTION_MS = 40_000
PRIOR = 7
NO_SOURCE = {"source": {"kafka": {"common": {"bootstrap.servers": "127.0.0.1:9"}}}}


@pytest.fixture
def topic(copied: Copied) -> str:
    """A copied topic of 200 records with groups at its start, in its middle and at its end."""
    return copy_topic(copied)


def copy_topic(copied: Copied) -> str:
    name = create_topic(copied.source)
    produce(copied.source, name, [b"%d" % n for n in range(200)])
    copied.put_run()
    copied.copy(name)
    for stem, at in {"start": 0, "middle": 101, "end": 200}.items():
        commit_offsets(copied.source, copied.group(stem), {(name, 0): at})
    return name


def set_retention(copied: Copied, milliseconds: int, **more: str) -> None:
    values = {"retention_ms": str(milliseconds), "segment_ms": "1000", **more}
    alter_topic(copied.target, copied.mappings, **values)


def without_source(copied: Copied) -> PipelineConfig:
    """Return the file with an address of the source where nothing answers."""
    settings, copied.settings = copied.settings, {**copied.settings, **NO_SOURCE}
    try:
        return copied.config
    finally:
        copied.settings = settings


def await_expiry(meanwhile: Callable[[], object], *pipelines: Copied) -> None:
    """Wait until what is mapped now, and what is repeated until then, has been deleted."""

    def have_expired(ends: list[int]) -> bool:
        meanwhile()
        starts = (start_offsets(each.target, each.mappings)[0] for each in pipelines)
        return all(start >= end for start, end in zip(starts, ends, strict=True))

    for _ in range(2):
        ends = [end_offsets(each.target, each.mappings)[0] for each in pipelines]
        eventually(partial(have_expired, ends), "the topics have deleted what they had")


def keep_commits(copied: Copied) -> None:
    """Write the commits of the source's groups, as each run and ``sync`` does."""
    said: list[str] = []
    CommitSnapshotRunner(copied.config, said.append).do_once()
    assert said == []


def translated(config: PipelineConfig) -> dict[str, tuple[int | None, Basis]]:
    """Return the offset and the basis of each group."""
    snapshot = take_snapshot(Flow(config))
    plan = make_pipeline_plan(snapshot, plan_options(config))
    return {row.group.rpartition("-")[2]: (row.proposed, row.basis) for row in plan.rows}


EVERYTHING: Mapping[str, tuple[int | None, Basis]] = {
    "start": (PRIOR, Basis.EXACT),
    "middle": (PRIOR + 101, Basis.EXACT),
    "end": (PRIOR + 200, Basis.END),
}


@pytest.mark.slow
def test_a_run_and_a_sync_each_keep_them_while_the_source_is_down(
    copied: Copied, topic: str, source: KafkaNode, target: KafkaNode, tmp_path: Path
) -> None:
    """Of one pipeline a run without ``sync``, of another one ``sync`` without a run.

    A run needs no right on the source and no answer of it: groups are those of the snapshots.
    """
    synced = Copied(tmp_path, source, target)
    copy_topic(synced)
    for each in (copied, synced):
        keep_commits(each)
    run_config, sync_config = map(without_source, (copied, synced))
    for each in (copied, synced):
        set_retention(each, RETENTION_MS)
    said, expiries = list[str](), list[float | None]()
    with (
        MappingKeeper(run_config, said.append, feed=expiries.append),
        contextlib.closing(SyncLoop(Flow(sync_config))) as loop,
    ):

        def turn() -> None:
            loop.turn()
            time.sleep(2.0)  # it has an interval, too: turn after turn would take a whole core

        await_expiry(turn, copied, synced)
    assert translated(run_config) == translated(sync_config) == EVERYTHING
    assert said == []
    lives = [at or 0.0 for at in expiries]
    assert lives[0] > 0 and lives == sorted(lives), "what is written again lives longer"


def test_only_the_run_that_leads_keeps_them(copied: Copied, topic: str, target: KafkaNode) -> None:
    """After a failover of the leader, the next one does."""
    keep_commits(copied)
    set_retention(copied, HOUR_MS)
    said, expiries, leads = list[str](), list[float | None](), [False]
    keeper = MappingKeeper(copied.config, said.append, lambda: leads[0], expiries.append)
    keeper.do_once()
    assert expiries == [None]
    leads[0] = True
    keeper.do_once()
    assert said == [] and len(expiries) == 2
    assert expiries[1] == pytest.approx(time.time() + HOUR_MS / 1000, abs=600)


def test_without_snapshots_of_groups_nothing_is_known_to_be_needed(
    copied: Copied, topic: str
) -> None:
    """A run without the right to list groups, beside which no ``sync`` ever ran."""
    said, expiries = list[str](), list[float | None]()
    MappingKeeper(without_source(copied), said.append, feed=expiries.append).do_once()
    assert said == [] and expiries == [None]
    check = check_mappings(copied.config)
    assert check.outcome is CheckOutcome.UNKNOWN and "no snapshot" in check.detail


def test_how_long_they_live_is_said(copied: Copied, topic: str) -> None:
    """By ``check`` and ``status``, in text and JSON; no line where nothing expires."""
    keep_commits(copied)
    shown = k2ktui("status", "-f", copied.file).stdout
    assert re.search(r"Mappings that groups need: the first expires in 6 d 23 h", shown)
    now = time.time()
    for arguments in ((), ("--groups",)):
        status = json.loads(k2ktui("status", "-f", copied.file, "--json", *arguments).stdout)
        assert status["mappings_expire_at"] == pytest.approx(now + 7 * 86_400, abs=600)
    assert check_mappings(copied.config).outcome is CheckOutcome.PASS
    set_retention(copied, 60_000_000, retention_bytes="1000000000")
    assert "Mappings that groups need" not in k2ktui("status", "-f", copied.file).stdout
    check = check_mappings(copied.config)
    assert check.outcome is CheckOutcome.UNKNOWN and "retention.bytes" in check.detail
    set_retention(copied, -1, retention_bytes="-1")
    assert "Mappings that groups need" not in k2ktui("status", "-f", copied.file).stdout
    assert check_mappings(copied.config).detail.endswith("expires")
    lose_mappings(copied)
    check = check_mappings(copied.config)
    assert check.outcome is CheckOutcome.WARN and f"groups need of {topic}-0" in check.detail


def test_a_failure_is_named_as_what_it_is(
    copied: Copied, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is no journal that cannot be written."""

    def refuse(*_: object) -> None:
        raise Refused("not authorized to write to the mapping topic")

    monkeypatch.setattr(mapping_republish, "read_expiry", refuse)
    with contextlib.closing(SyncLoop(Flow(copied.config))) as loop:
        notes = loop.turn().notes
    expected = "mappings that consumer groups need are not written again before they expire: not"
    assert any(note.startswith(expected) for note in notes)


def test_what_the_target_has_lost_is_not_written_again(
    copied: Copied, source: KafkaNode, target: KafkaNode
) -> None:
    """The planted fault: 200 records were copied, and of the target's log, the first 120 are left.

    Once the mapping that the target contradicts had expired, a repeat would look like a new one.
    """
    name = create_topic(source)
    produce(source, name, [b"%d" % n for n in range(200)])
    copied.put_run()
    copied.copy(name, list(read_all(source, name))[:120])
    copied.record(name, 0, {n: PRIOR + n for n in range(200)}, 200, 0)
    for stem, at in {"kept": 50, "lost": 150}.items():
        commit_offsets(source, copied.group(stem), {(name, 0): at})
    keep_commits(copied)
    mapping = read_all(target, copied.mappings)[-1]
    old_ms = int(time.time() * 1000) - HOUR_MS * 2 // 3
    produce(target, copied.mappings, [Out(mapping.value, mapping.key, timestamp=old_ms)])
    old = end_offsets(target, copied.mappings)[0]
    delete_before(target, copied.mappings, old - 1)
    set_retention(copied, HOUR_MS)
    said: list[str] = []
    MappingKeeper(copied.config, said.append).do_once()
    delete_before(target, copied.mappings, old)
    repeats = [read_mapping_record(got.key, got.value) for got in read_all(target, copied.mappings)]
    assert [repeat.covers for repeat in repeats] == [Covers(50, 120)]
    assert [repeat.ranges for repeat in repeats] == [(MappingRange(50, PRIOR + 50, 70),)]
    assert [repeat.term for repeat in repeats] == [copied.term]
    groups = translated(copied.config)
    assert groups["kept"] == (PRIOR + 50, Basis.EXACT) and groups["lost"][1] is Basis.UNMAPPED
    assert said == []


# Expired mappings, by content.
def put_landed(copied: Copied, topic: str, end: int, landed_first: int = PRIOR) -> None:
    """Write the position as a run does, which says how far it has written."""
    state = CommitStatesReader(copied.cluster, copied.name)
    try:
        description = copied.cluster.find(copied.commits)
        assert description is not None
        (position,) = state.read(description, TIMEOUT)[copied.name].positions.values()
    finally:
        state.close()
    landed = (Landed(topic, 0, landed_first, end),)
    entry = position_value(replace(position, landed=landed))
    key = position_key(copied.name, SourcePartition(topic, 0))
    produce(copied.target, copied.commits, [Out(entry, key)])


def lose_mappings(copied: Copied) -> None:
    delete_before(copied.target, copied.mappings, end_offsets(copied.target, copied.mappings)[0])


def test_groups_of_expired_mappings_are_found_by_content(copied: Copied, topic: str) -> None:
    """Each record is compared from the end of what the pipeline has written."""
    lose_mappings(copied)
    assert translated(copied.config)["middle"][1] is Basis.UNMAPPED, "how far is not known"
    put_landed(copied, topic, PRIOR + 200)
    done = k2ktui("plan", "-f", copied.file, code=None)
    assert re.search(r"records were compared on both clusters", done.stdout)
    assert translated(copied.config)["middle"] == (PRIOR + 101, Basis.EXACT)
    # Without the source, there is nothing to compare.
    keep_commits(copied)
    assert translated(without_source(copied))["middle"][1] is Basis.UNMAPPED


@pytest.mark.parametrize("alike", [False, True])
def test_records_of_other_programs_lie_between(
    copied: Copied, source: KafkaNode, target: KafkaNode, alike: bool
) -> None:
    """A record that is unique is found; of equal ones, it is not known which is whose copy."""
    name, at_ms = create_topic(source), int(time.time() * 1000) - HOUR_MS
    outs = [Out(b"same" if alike else b"%d" % n, timestamp=at_ms) for n in range(200)]
    produce(source, name, outs)
    copied.put_run()
    copied.copy(name)
    produce(target, name, outs[-1:])
    commit_offsets(source, copied.group("middle"), {(name, 0): 101})
    lose_mappings(copied)
    put_landed(copied, name, PRIOR + 201, PRIOR + 200)
    offset, basis = translated(copied.config)["middle"]
    if alike:
        assert basis is Basis.UNMAPPED
    else:
        assert (offset, basis) == (PRIOR + 101, Basis.EXACT)


@pytest.mark.parametrize("alike", [False, True])
def test_between_mappings_that_are_left_records_are_compared_or_a_bound_is_given(
    copied: Copied, source: KafkaNode, target: KafkaNode, alike: bool
) -> None:
    """One mapping record of five is lost; a record of another program follows each ten copies."""
    name, at_ms = create_topic(source), int(time.time() * 1000) - HOUR_MS
    values = [b"same" if alike else b"%d" % n for n in range(50)]
    produce(source, name, [Out(value, timestamp=at_ms) for value in values])
    copied.put_run()
    landed = copied.copy(name, step=10)[name, 0]
    for stem, at in {"before": 5, "within": 15, "after": 25}.items():
        commit_offsets(source, copied.group(stem), {(name, 0): at})
    whole = translated(copied.config)
    kept = read_all(target, copied.mappings)
    delete_topic(target, copied.mappings)
    create_topic(target, copied.mappings)
    produce(target, copied.mappings, [Out(got.value, got.key) for got in (kept[0], *kept[2:])])
    expected = {**whole, "within": (landed[9] + 1, Basis.BOUNDED)} if alike else whole
    assert translated(copied.config) == expected


def test_a_far_record_is_found_by_its_time(
    copied: Copied, source: KafkaNode, target: KafkaNode
) -> None:
    """The offsets of the target have drifted by far more than what is searched around an anchor."""
    name, count, began = create_topic(source), 30_000, int(time.time() * 1000) - HOUR_MS
    produce(source, name, [Out(b"%d" % n, timestamp=began + n) for n in range(count)])
    copied.put_run()
    create_topic(target, name)
    pairs: dict[int, int] = {}
    for first in range(0, count, 10_000):
        part = [Out(b"%d" % n, timestamp=began + n) for n in range(first, first + 10_000)]
        offsets = produce(target, name, part)
        pairs |= zip(range(first, first + 10_000), offsets, strict=True)
        produce(target, name, [Out(b"native", timestamp=began + first + 10_000)] * 6_000)
    copied.record(name, 0, pairs, count, 0)
    commit_offsets(source, copied.group("far"), {(name, 0): 12_345})
    lose_mappings(copied)
    put_landed(copied, name, end_offsets(target, name)[0])
    assert translated(copied.config)["far"] == (pairs[12_345], Basis.EXACT)
