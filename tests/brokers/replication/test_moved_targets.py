"""The target of a moved topic belongs to its applications: discoveries do nothing to it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from k2ktui.engine.records.moved_topic import MovedTopics, moved_topic_key
from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.kafka.clients import source_cluster
from k2ktui.replication.ownership.topic_moves import read_moved
from k2ktui.replication.preflight.committed import read_committed
from k2ktui.replication.preflight.explain import explain_pipeline
from k2ktui.replication.topics.discovery import TopicDiscovery, TopicSnapshot
from k2ktui.replication.topics.pair_topics import PairTopicsReader
from k2ktui.runtime.node import KafkaNode
from tests.brokers.replication.test_many_partitions import NothingCommitted
from tests.support.clusters.kafka import (
    Out,
    create_topic,
    eventually,
    grow_topic,
    produce,
    unique_name,
)
from tests.support.pipelines.copied import Copied, only

GROWN = 3


class Moving:
    """A topic that moves and one that stays, each with one partition on both clusters."""

    def __init__(self, copied: Copied) -> None:
        self.copied, source = copied, copied.source
        self.moves, self.stays = unique_name("moves"), unique_name("stays")
        copied.settings = only(self.moves, self.stays)
        for topic in (self.moves, self.stays):
            create_topic(source, topic)
            produce(source, topic, [b"1", b"2"])
            copied.copy(topic)
        self._config = copied.config
        self._source = source_cluster(copied.config)
        self._topics = PairTopicsReader(copied.config, self._source, copied.cluster)

    def make_discovery(
        self, is_wanted: Callable[[SourcePartition], bool] | None = None
    ) -> TopicDiscovery:
        """Return a discovery; all share what they read, as the slots of a run do."""
        cluster = self.copied.cluster
        return TopicDiscovery(
            self._config, self._source, cluster, self._topics, NothingCommitted(), is_wanted
        )

    def grow(self) -> None:
        for topic in (self.moves, self.stays):
            grow_topic(self.copied.source, topic, GROWN)

    def partitions(self) -> tuple[int, int]:
        """How many partitions of either topic the target has."""
        topics = [self.copied.cluster.find(topic) for topic in (self.moves, self.stays)]
        moves, stays = (topic.partitions if topic else 0 for topic in topics)
        return moves, stays

    def positions(self) -> dict[SourcePartition, Position]:
        return dict(read_committed(self._config, self.copied.cluster).positions)

    def moved(self) -> MovedTopics:
        return read_moved(self._config, self.copied.cluster)

    def release(self) -> None:
        copied, key = self.copied, moved_topic_key(self.copied.name, self.moves)
        produce(copied.target, copied.commits, [Out(None, key)])


@pytest.fixture
def moving(source: KafkaNode, target: KafkaNode, tmp_path: Path) -> Moving:
    return Moving(Copied(tmp_path, source, target))


def topics_of(snapshot: TopicSnapshot) -> set[str]:
    return {at.topic for at in snapshot.routes}


def test_it_does_not_grow_with_its_source(moving: Moving) -> None:
    moving.copied.move(moving.moves)
    moving.grow()
    discovery, moved = moving.make_discovery(), moving.moved()
    snapshot = discovery.discover(moving.positions(), moved=moved)
    assert moving.partitions() == (1, GROWN)
    assert topics_of(snapshot) == {moving.stays} and not snapshot.faults
    begin = moving.make_discovery().start_positions(moving.positions(), moved)
    assert {at.topic for at in begin} == {moving.stays}

    moving.release()
    snapshot = discovery.discover(moving.positions(), moved=moving.moved())
    assert moving.partitions() == (GROWN, GROWN)
    assert topics_of(snapshot) == {moving.moves, moving.stays} and not snapshot.faults


def test_a_driver_that_does_not_know_of_the_move_leaves_it_alone(moving: Moving) -> None:
    """It is fenced by the move, and finds that out at its next record only."""
    discovery = moving.make_discovery()
    assert topics_of(discovery.discover(moving.positions())) == {moving.moves, moving.stays}
    moving.copied.move(moving.moves)
    moving.grow()
    snapshot = discovery.discover(moving.positions())
    assert moving.partitions() == (1, GROWN)
    assert topics_of(snapshot) == {moving.stays} and not snapshot.faults


def test_a_slot_that_knows_of_a_release_reads_again(moving: Moving) -> None:
    """What another slot has read before lacks the topic."""
    moving.copied.move(moving.moves)
    first, second = (moving.make_discovery(lambda _: True) for _ in range(2))
    first.discover(moving.positions(), moved=moving.moved())
    moving.release()
    assert topics_of(second.discover(moving.positions())) == {moving.moves, moving.stays}


def test_no_other_topic_is_copied_into_it(
    source: KafkaNode, target: KafkaNode, tmp_path: Path
) -> None:
    """Here, one that appears on the source after the move."""
    copied = Copied(tmp_path, source, target)
    stem = unique_name("merged")
    sink = {"topic": {"static": stem}, "partition": "source"}
    copied.settings = {"replication": [{"source": {"topic": f"{stem}-.*"}}, {"sink": sink}]}
    create_topic(source, f"{stem}-a")
    create_topic(target, stem)
    copied.put_position(f"{stem}-a", 0, 0, 0, stem)
    move = copied.move(f"{stem}-a", target=stem)
    later = create_topic(source, f"{stem}-b")
    cluster = source_cluster(copied.config)
    eventually(lambda: later in cluster.topic_names(), "it is listed")
    reader = PairTopicsReader(copied.config, cluster, copied.cluster)
    discovery = TopicDiscovery(copied.config, cluster, copied.cluster, reader, NothingCommitted())
    committed = read_committed(copied.config, copied.cluster)
    snapshot = discovery.discover(committed.positions, moved=committed.moved)
    (fault,) = snapshot.faults
    assert fault.source.topic == later and move.drill in fault.message and not snapshot.routes
    rows = {row.topic: row for row in explain_pipeline(copied.config)}
    assert rows[later].path is None and move.drill in rows[later].reason
