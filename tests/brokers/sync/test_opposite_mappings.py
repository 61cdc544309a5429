"""Groups translated with the mappings of both directions, read from real brokers."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.drill.checks import DrillKind
from k2ktui.engine.drill.model import Drill, DrillFigures, new_phases
from k2ktui.engine.mapping.replica import Replica, TargetLog
from k2ktui.engine.mapping.translate import Basis
from k2ktui.engine.moves.groups import GroupRow, make_group_rows, snapshot_notes
from k2ktui.engine.moves.journal import JournalHeader, StateRecord
from k2ktui.engine.records.cluster_pair import ClusterPair
from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.kafka.clients import source_cluster, target_cluster
from k2ktui.log.content import ContentReader
from k2ktui.runtime.node import KafkaNode
from k2ktui.sync.flow import Flow
from k2ktui.sync.mapping import opposite_mappings
from k2ktui.sync.mapping.opposite_mappings import OppositeMappings
from k2ktui.sync.moves.snapshot import take_snapshot
from k2ktui.sync.store import StateStore
from tests.support.clusters.kafka import (
    Out,
    create_topic,
    delete_topic,
    produce,
)
from tests.support.oracle.group_offsets import commit_offsets
from tests.support.pipelines.copied import Copied

SIDES = ("source", "target")
NOW_MS = int(time.time() * 1000)


@dataclass
class TwoWays:
    """A topic with ten records of side a and four of side b, each copied to the other.

    On both sides: 0 to 9 are those of a, 10 to 13 those of b.
    """

    there: Copied
    back: Copied
    topic: str

    def settings(self, mode: str = "provenance") -> None:
        """Enable both directions; each file names the topics of the other."""
        for own, other in ((self.there, self.back), (self.back, self.there)):
            own.settings = {
                "features": {
                    "autoCreateControlTopics": "enabled",
                    "bidirectionalReplication": "enabled",
                },
                "bidirectional": {
                    "mode": mode,
                    "opposite": {"commitTopic": other.commits, "mappingTopic": other.mappings},
                },
            }

    def row(self, committed: int, on_target: int | None = None) -> tuple[GroupRow, list[str]]:
        """Return the row of a group that goes back, and the notes."""
        group = self.back.group(f"at-{committed}")
        commit_offsets(self.back.source, group, {(self.topic, 0): committed})
        if on_target is not None:
            commit_offsets(self.back.target, group, {(self.topic, 0): on_target})
        snapshot = take_snapshot(Flow(self.back.config))
        (row,) = (row for row in make_group_rows(snapshot) if row.group == group)
        return row, snapshot_notes(snapshot)


@pytest.fixture
def two_ways(source: KafkaNode, target: KafkaNode, tmp_path: Path) -> TwoWays:
    topic = create_topic(source)
    produce(source, topic, [Out(b"a%d" % n) for n in range(10)])
    for side in ("there", "back"):
        (tmp_path / side).mkdir()
    there = Copied(tmp_path / "there", source, target, prior=0)
    back = Copied(tmp_path / "back", target, source, prior=0)
    made = TwoWays(there, back, topic)
    made.settings()
    there.copy(topic)
    there.put_run()
    natives = [Out(b"b%d" % n) for n in range(4)]
    landed = zip(produce(target, topic, natives), produce(source, topic, natives), strict=True)
    back.record(topic, 0, dict(landed), position=14, start=0)
    back.put_run()
    return made


def place(row: GroupRow) -> tuple[int | None, Basis, int | None, int | None]:
    return row.translated_offset, row.basis, row.reread, row.skipped


def test_each_record_by_the_mapping_that_copied_it(two_ways: TwoWays) -> None:
    for committed in (0, 7, 10, 12):
        row, notes = two_ways.row(committed)
        assert (place(row), notes) == ((committed, Basis.EXACT, 0, 0), [])
    row, notes = two_ways.row(14, on_target=12)
    assert (place(row), notes) == ((14, Basis.END, 0, 0), [])
    assert (row.divergence, row.reread_now, row.skipped_now) == (-2, 2, 0)
    row, _ = two_ways.row(3, on_target=6)
    assert (row.divergence, row.reread_now, row.skipped_now) == (3, 0, 3), "those came from a"


def test_a_record_that_was_not_copied_is_unread(two_ways: TwoWays) -> None:
    produce(two_ways.there.source, two_ways.topic, [Out(b"late")])
    row, _ = two_ways.row(14)
    assert place(row) == (14, Basis.EXACT, 0, 0)
    assert "records from offset 14 on were not copied to the source" in row.reason


def test_what_is_not_reached_in_the_log_is_bounded(
    two_ways: TwoWays, monkeypatch: pytest.MonkeyPatch
) -> None:
    produce(two_ways.there.source, two_ways.topic, [Out(b"late")])
    monkeypatch.setattr(opposite_mappings, "_MOST", 0)
    row, _ = two_ways.row(14)
    assert place(row) == (14, Basis.END, 0, 0)
    assert "whether records from offset 14 on were copied to the source is unknown" in row.reason


def test_before_the_opposite_pipeline_has_run(two_ways: TwoWays) -> None:
    two_ways.there.commits = f"{two_ways.there.commits}-none"
    two_ways.settings()
    row, notes = two_ways.row(12)
    assert place(row) == (12, Basis.EXACT, 0, 0)
    (note,) = notes
    assert "no pipeline has copied from the target to the source yet" in note
    two_ways.settings("cluster")
    row, _ = two_ways.row(12)
    assert (row.translated_offset, row.basis) == (None, Basis.UNMAPPED)
    assert "another program may: its offsets are unknown" in row.reason


def opened(at_ms: int) -> Drill:
    phases = new_phases(DrillKind.PLANNED)
    figures = DrillFigures(opened_ms=at_ms)
    facts = ("d", DrillKind.PLANNED, "p", "s", "t", "1")
    return Drill(*facts, started_ms=at_ms, started_by="me", phases=phases, figures=figures)


@pytest.mark.parametrize(
    "failover", [JournalHeader("j", NOW_MS, "me", "apply"), opened(NOW_MS)], ids=["plan", "drill"]
)
def test_an_opposite_pipeline_is_missed_only_after_a_failover(
    two_ways: TwoWays, failover: StateRecord
) -> None:
    """A pipeline that may be reversed some day is no reason for a note."""
    settings = dict(two_ways.back.settings)
    del settings["bidirectional"]
    two_ways.back.settings = settings
    row, notes = two_ways.row(12)
    assert (place(row), notes) == ((12, Basis.EXACT, 0, 0), [])
    config = two_ways.back.config
    with closing(StateStore(config, target_cluster(config))) as store:
        store.put([JournalHeader("k", NOW_MS, "me", "sync")])
        assert two_ways.row(12)[1] == []
        store.put([failover])
    (note,) = two_ways.row(12)[1]
    assert "no pipeline has copied from the target to the source yet" in note


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda both: setattr(both.there, "mappings", "others"), "with mappings in"),
        (
            lambda both: both.there.put_run(ClusterPair("", "", ""), term=2),
            "its run record is of an earlier release",
        ),
    ],
)
def test_mappings_that_cannot_be_read(
    two_ways: TwoWays, change: Callable[[TwoWays], None], reason: str
) -> None:
    change(two_ways)
    two_ways.settings()
    row, notes = two_ways.row(12)
    assert (row.translated_offset, row.basis) == (None, Basis.UNMAPPED)
    assert "opposite pipeline: its mappings cannot be read" in row.reason and reason in row.reason
    assert any("opposite pipeline" in note for note in notes)


def test_a_mapping_topic_that_was_deleted_is_bounded(two_ways: TwoWays) -> None:
    delete_topic(two_ways.there.target, two_ways.there.mappings)
    row, _ = two_ways.row(14)
    assert place(row) == (0, Basis.BOUNDED, 14, 0)
    assert "whether 10 target offsets from 0 on were read is unknown" in row.reason


def test_a_file_without_the_feature_does_not_translate(two_ways: TwoWays) -> None:
    """The pipeline itself left records out: translating the others alone could skip some."""
    two_ways.back.put_run(term=3, bidirectional="provenance")
    two_ways.back.settings = {}
    row, _ = two_ways.row(12)
    assert (row.translated_offset, row.basis) == (None, Basis.UNMAPPED)
    assert "features.bidirectionalReplication is disabled in this file" in row.reason


def test_a_lost_source_and_a_mapping_that_retention_has_cut() -> None:
    """Groups before what is missing may have records of the target to read; nothing is asked."""
    sides = {side: {"kafka": {"common": {"bootstrap.servers": "127.0.0.1:1"}}} for side in SIDES}
    both = {"features": {"bidirectionalReplication": "enabled"}}
    config = PipelineConfig.model_validate({"name": "p", **sides, **both})
    opposite_mappings = OppositeMappings(config, source_cluster(config), target_cluster(config))
    at, there = SourcePartition("t", 0), ("t", 0)
    position = Position(100, 0, -1, "", 1, 0, *there)
    asked: Any = ({there: TargetLog(0, 50)}, {}, ({}, {}), ContentReader(target_cluster(config)))
    opposite_mappings.read({}, "no answer")
    try:
        whole = opposite_mappings.join({at: Replica(position)}, *asked)
        assert whole == {} and "names no record there" in opposite_mappings.note
        cut = opposite_mappings.join({at: Replica(position, complete_from=60)}, *asked)
        assert cut[there].returned == {at: 60}
    finally:
        opposite_mappings.close()
