"""What was read of a topic of MirrorMaker 2 does not outlive the topic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from kafka.record.default_records import DefaultRecordBatchBuilder

from k2ktui.engine.records.state import SourcePartition
from k2ktui.errors import K2kError
from k2ktui.kafka.clients import TopicDescription
from k2ktui.log.batch import split_batches
from k2ktui.log.fetcher import PartitionRequest
from k2ktui.mm2.flows import topic_tail
from k2ktui.mm2.flows.formats import (
    Checkpoint,
    ConnectorPartition,
    GroupPartition,
    checkpoint_key,
    checkpoint_value,
    connect_offset_key,
    connect_offset_value,
)
from k2ktui.mm2.flows.settings import parse_settings
from k2ktui.mm2.flows.topics import MirrorTopics
from k2ktui.mm2.mirror_flow import MirrorFlow

FILE = b"""
clusters = A, B
A.bootstrap.servers = a:9092
B.bootstrap.servers = b:9092
A->B.enabled = true
"""
T0, T1 = SourcePartition("t", 0), SourcePartition("t", 1)


class Stored:
    """A topic in memory with one partition: stands for its cluster and for what fetches from it."""

    label = "target"

    def __init__(self) -> None:
        self.topic_id, self.exists, self.trouble = "1", True, ""
        self.records: list[tuple[bytes, bytes]] = []

    def create_again(self) -> None:
        self.topic_id, self.records = f"{self.topic_id}1", []

    def describe(self, names: list[str]) -> Mapping[str, object]:
        description = TopicDescription(names[0], self.topic_id, 1, 1) if self.exists else None
        return {names[0]: description}

    def run(
        self, wants: Mapping[tuple[str, int], PartitionRequest], timeout: float, size: int
    ) -> None:
        for want in wants.values():
            if self.trouble:
                want.refuse(self.trouble)
                continue
            builder = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, 1 << 20)
            for at, (key, value) in enumerate(self.records):
                builder.append(at, 1, key, value, [])
            for batch in split_batches(bytes(builder.build())):
                want.add_batch(batch)
            want.advance(len(self.records))
            want.finish()


@pytest.fixture
def stored(monkeypatch: pytest.MonkeyPatch) -> Stored:
    monkeypatch.setattr(topic_tail, "Fetcher", lambda cluster: cluster)
    return Stored()


@pytest.fixture
def topics(stored: Stored) -> MirrorTopics:
    flow = MirrorFlow.of(parse_settings(FILE, "mm2.properties", {}).flow(""))
    cluster: Any = stored
    return MirrorTopics(flow.properties, cluster, cluster)


def position(at: SourcePartition, last: int) -> tuple[bytes, bytes]:
    key = connect_offset_key(ConnectorPartition("MirrorSourceConnector", "A", at))
    return key, connect_offset_value(last)


def test_positions_of_the_old_topic_are_forgotten(topics: MirrorTopics, stored: Stored) -> None:
    stored.records += [position(T0, 5), position(T1, 6)]
    topics.read_positions()
    topics.read_positions()
    assert topics.positions == {T0: 5, T1: 6}
    stored.create_again()
    stored.records.append(position(T0, 1))
    topics.read_positions()
    assert topics.positions == {T0: 1}


def test_checkpoints_of_the_old_topic_are_forgotten(topics: MirrorTopics, stored: Stored) -> None:
    at = GroupPartition("g", "A.t", 0)
    stored.records.append((checkpoint_key(at), checkpoint_value(Checkpoint(at, 5, 7, ""))))
    topics.read_checkpoints()
    assert list(topics.checkpoints) == [at]
    stored.create_again()
    topics.read_checkpoints()
    assert topics.checkpoints == {}


def test_a_read_that_fails_after_the_re_creation(topics: MirrorTopics, stored: Stored) -> None:
    """Nothing is forgotten until the new topic was read; then all of the old one is."""
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


def test_a_topic_that_is_not_found_for_a_moment(topics: MirrorTopics, stored: Stored) -> None:
    stored.records.append(position(T0, 5))
    topics.read_positions()
    stored.exists = False
    topics.read_positions()
    stored.exists = True
    topics.read_positions()
    assert topics.positions == {T0: 5}
