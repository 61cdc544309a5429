"""What was read of a topic of MirrorMaker 2 does not outlive the topic."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from k2ktui.engine.state import SourcePartition
from k2ktui.errors import K2kError
from k2ktui.kafka.clients import TopicDescription, source_cluster, target_cluster
from k2ktui.log.record import KafkaRecord
from k2ktui.mm2.formats import (
    Checkpoint,
    ConnectorPartition,
    GroupPartition,
    checkpoint_key,
    checkpoint_value,
    connect_offset_key,
    connect_offset_value,
)
from k2ktui.mm2.mirror_flow import MirrorFlow
from k2ktui.mm2.settings import parse_settings
from k2ktui.mm2.topic_tail import TopicTail, _New
from k2ktui.mm2.topics import MirrorTopics

FILE = b"""
clusters = A, B
A.bootstrap.servers = a:9092
B.bootstrap.servers = b:9092
A->B.enabled = true
"""
T0, T1 = SourcePartition("t", 0), SourcePartition("t", 1)


class Stored:
    """A topic in memory with one partition: stands for the cluster and the fetcher of a tail."""

    label = "target"

    def __init__(self, tail: TopicTail) -> None:
        self.topic, self.topic_id, self.exists, self.trouble = tail.topic, "1", True, ""
        self.records: list[tuple[bytes, bytes]] = []
        tail._cluster = self  # type: ignore[assignment]
        tail._fetcher = self  # type: ignore[assignment]

    def create_again(self) -> None:
        self.topic_id, self.records = f"{self.topic_id}1", []

    def describe(self, names: list[str]) -> Mapping[str, object]:
        found = TopicDescription(self.topic, self.topic_id, 1, 1) if self.exists else None
        return {self.topic: found}

    def run(self, wants: Mapping[tuple[str, int], _New], timeout: float, size: int) -> None:
        for want in wants.values():
            want.trouble = self.trouble
            rows = [*enumerate(self.records)][want.next :]
            want.found += [KafkaRecord(at, key, value, (), 1) for at, (key, value) in rows]
            want.next = len(self.records)


@pytest.fixture
def topics() -> MirrorTopics:
    flow = MirrorFlow.of(parse_settings(FILE, "mm2.properties", {}).flow(""))
    config = flow.config
    return MirrorTopics(flow.properties, source_cluster(config), target_cluster(config))


def position(at: SourcePartition, last: int) -> tuple[bytes, bytes]:
    key = connect_offset_key(ConnectorPartition("MirrorSourceConnector", "A", at))
    return key, connect_offset_value(last)


def test_positions_of_the_old_topic_are_forgotten(topics: MirrorTopics) -> None:
    stored = Stored(topics._positions.tail)
    stored.records += [position(T0, 5), position(T1, 6)]
    topics.read_positions()
    topics.read_positions()
    assert topics.positions == {T0: 5, T1: 6}
    stored.create_again()
    stored.records.append(position(T0, 1))
    topics.read_positions()
    assert topics.positions == {T0: 1}


def test_checkpoints_of_the_old_topic_are_forgotten(topics: MirrorTopics) -> None:
    stored = Stored(topics._checkpoints.tail)
    at = GroupPartition("g", "A.t", 0)
    stored.records.append((checkpoint_key(at), checkpoint_value(Checkpoint(at, 5, 7, ""))))
    topics.read_checkpoints()
    assert list(topics.checkpoints) == [at]
    stored.create_again()
    topics.read_checkpoints()
    assert topics.checkpoints == {}


def test_a_read_that_fails_after_the_re_creation(topics: MirrorTopics) -> None:
    """Nothing is forgotten until the new topic was read; then all of the old one is."""
    stored = Stored(topics._positions.tail)
    stored.records += [position(T0, 5), position(T1, 6)]
    topics.read_positions()
    stored.create_again()
    stored.records.append(position(T0, 1))
    stored.trouble = "no leader"
    with pytest.raises(K2kError, match="no leader"):
        topics.read_positions()
    assert topics.positions == {T0: 5, T1: 6}
    stored.trouble = ""
    topics.read_positions()
    assert topics.positions == {T0: 1}


def test_a_topic_that_is_not_found_for_a_moment(topics: MirrorTopics) -> None:
    stored = Stored(topics._positions.tail)
    stored.records.append(position(T0, 5))
    topics.read_positions()
    stored.exists = False
    topics.read_positions()
    stored.exists = True
    topics.read_positions()
    assert topics.positions == {T0: 5}
