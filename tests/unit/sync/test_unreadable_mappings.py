"""What is not known when the commit topic or the opposite mapping topic cannot be read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from k2ktui.compare.plan import ComparisonChoice, plan_comparison
from k2ktui.engine.mapping.both_directions import translate_both_ways
from k2ktui.engine.mapping.ranges import MappingRanges
from k2ktui.engine.mapping.replica import Replica, TargetLog
from k2ktui.engine.mapping.translate import Basis
from k2ktui.engine.records.run_record import Run
from k2ktui.errors import TimedOut
from k2ktui.kafka.clients import Cluster, TopicDescription, source_cluster, target_cluster
from k2ktui.log.content import ContentReader
from k2ktui.replication.fencing_errors import UnreadableRecords
from k2ktui.replication.ownership.commit_state import CommitState, CommitStatesReader
from k2ktui.sync.flow import Flow
from k2ktui.sync.mapping.opposite_mappings import OppositeMappings
from k2ktui.sync.mapping.pipeline_mappings import PipelineMappings
from k2ktui.sync.mapping.source import CopierState, Copies
from k2ktui.sync.moves.snapshot import CheckedCopies, SnapshotReader
from tests.support.pipelines.telemetry import ORDERS_0, ORDERS_1, pipeline, position


@pytest.fixture
def unreadable_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit topic with a position, and a record of a moved topic that cannot be read."""
    state = CommitState(Run(3, 1), {ORDERS_0: position(7)}, unreadable_moves=1)
    monkeypatch.setattr(Cluster, "find", lambda _, name: TopicDescription(name, "", 1, 1))
    monkeypatch.setattr(CommitStatesReader, "read", lambda *_: {"p": state})


@pytest.mark.usefixtures("unreadable_moves")
def test_moves_that_cannot_be_read_do_not_hide_the_positions() -> None:
    config = pipeline()
    copier = PipelineMappings(config, target_cluster(config)).read_copier()
    assert copier.positions == {ORDERS_0: position(7)}
    for _ in range(2):
        with pytest.raises(UnreadableRecords, match="1 record of moved topics"):
            copier.find_moved()
    chosen = PipelineMappings(config, target_cluster(config), some_topics=True).read_copier()
    assert chosen.positions == copier.positions and not chosen.find_moved()


@pytest.mark.usefixtures("unreadable_moves")
def test_a_comparison_without_topics_says_that_moves_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = pipeline()
    copier = PipelineMappings(config, target_cluster(config)).read_copier()
    checked = CheckedCopies(Copies(copier, {}), {}, {}, {}, {})
    monkeypatch.setattr(SnapshotReader, "find_whole_copies", lambda *_: checked)
    with pytest.raises(UnreadableRecords, match="1 record of moved topics"):
        plan_comparison(Flow(config), ComparisonChoice(lambda _: True), lambda: "")


def test_opposite_mappings_that_cannot_be_read_leave_all_rows_unmapped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Their topic is asked once: ranges are loaded later only of mappings that were read."""
    sources, read = [ORDERS_0, ORDERS_1], []

    def read_copier(mappings: PipelineMappings) -> CopierState:
        return CopierState(dict.fromkeys(sources, position(10)))

    def fail(*arguments: Any) -> None:
        read.append(arguments)
        raise TimedOut("topic opposite-mappings was not read in 30 s")

    monkeypatch.setattr(PipelineMappings, "read_copier", read_copier)
    monkeypatch.setattr(PipelineMappings, "read", fail)
    config = pipeline(features={"bidirectionalReplication": "enabled"})
    clusters = source_cluster(config), target_cluster(config)
    opposite = OppositeMappings(config, *clusters)
    ranges = MappingRanges()
    ranges.append(np.array([0]), np.array([0]), np.array([10], np.int32))
    replicas = {
        at: Replica(position(10), {(at.topic, at.partition): ranges}, mapped=10) for at in sources
    }
    logs = {(at.topic, at.partition): TargetLog(0, 10) for at in sources}

    opposite.read({at: {4} for at in sources})
    contents = ContentReader(clusters[1])
    joined = opposite.join(replicas, logs, {at: {4} for at in sources}, ({}, {}), contents)
    rows = translate_both_ways(replicas, dict.fromkeys(sources, 4), logs, joined)

    reason = "its mappings cannot be read: topic opposite-mappings was not read in 30 s"
    assert [(row.basis, row.offset) for row in rows] == [(Basis.UNMAPPED, None)] * 2
    assert {row.reason for row in rows} == {opposite.note} == {f"opposite pipeline: {reason}"}
    assert len(read) == 1
