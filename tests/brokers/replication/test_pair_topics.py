"""The slots of one run read the topics of both clusters together."""

from __future__ import annotations

import threading
from dataclasses import replace
from functools import partial
from time import monotonic

import pytest

from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.errors import K2kError, TimedOut
from k2ktui.replication.copying.slot_task import FaultKind
from k2ktui.replication.topics import discovery
from k2ktui.replication.topics.discovery import TopicDiscovery, TopicSnapshot
from k2ktui.replication.topics.pair_topics import PairTopicsReader
from k2ktui.runtime.node import KafkaNode
from k2ktui.runtime.shared_reading import SharedReading
from tests.brokers.replication.test_many_partitions import Asked, NothingCommitted, config
from tests.support.clusters.kafka import (
    TIMEOUT,
    create_topic,
    delete_topic,
    eventually,
    unique_name,
)

SLOTS = 4
DESCRIBING = "describing topics"


def is_of(slot: int, at: SourcePartition) -> bool:
    """Whether a partition belongs to a slot."""
    return at.partition % SLOTS == slot


class Slots:
    """The discoveries of the slots of one run, and the clusters that they ask."""

    def __init__(self, source: KafkaNode, target: KafkaNode, stem: str) -> None:
        pipeline = config(source, target, stem)
        self.source = Asked(pipeline.source, "source")
        self.target = Asked(pipeline.target, "target")
        topics = PairTopicsReader(pipeline, self.source, self.target)
        self._each = [
            TopicDiscovery(
                pipeline,
                self.source,
                self.target,
                topics,
                NothingCommitted(),
                partial(is_of, slot),
            )
            for slot in range(SLOTS)
        ]
        self.division = TopicDiscovery(
            pipeline, self.source, self.target, topics, NothingCommitted()
        )
        self._positions: list[dict[SourcePartition, Position]] = [{} for _ in self._each]

    def discover(self, slot: int) -> TopicSnapshot:
        """Discover as the driver of a slot does."""
        known = self._positions[slot]
        snapshot = self._each[slot].discover(known)
        known.update({at: p for at, p in snapshot.begin.items() if at not in known})
        return snapshot

    def discover_all(self) -> list[TopicSnapshot]:
        return [self.discover(slot) for slot in range(SLOTS)]

    def copies(self, slot: int, at: SourcePartition) -> bool:
        """Whether a slot's next discovery finds a partition."""
        return at in self.discover(slot).routes

    def move(self, slot: int, at: SourcePartition, topic_id: str) -> None:
        """Note what another run has committed: a position in a newer topic of that name."""
        self._positions[slot][at] = replace(self._positions[slot][at], topic_id=topic_id)


def test_slots_share_a_reading_and_see_what_is_new(
    source: KafkaNode, target: KafkaNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    stem = unique_name("pairs")
    topic = create_topic(source, f"{stem}-a", partitions=SLOTS)
    slots = Slots(source, target, stem)
    first = slots.discover_all()
    assert [set(snapshot.routes) for snapshot in first] == [
        {SourcePartition(topic, n)} for n in range(SLOTS)
    ]
    created = [note for snapshot in first for note in snapshot.notes]
    assert len(created) == len(set(created)), "what was done to a topic is reported once"
    slots.source.take(DESCRIBING)
    with monkeypatch.context() as patch:
        patch.setattr(discovery, "_SHARED_S", 3600.0)  # however long this takes
        slots.discover_all()
    assert slots.source.take(DESCRIBING) <= 1
    other = create_topic(source, f"{stem}-b", partitions=SLOTS)
    for slot in range(SLOTS):
        at = SourcePartition(other, slot)
        eventually(partial(slots.copies, slot, at), "the new topic")
    assert slots.source.take(DESCRIBING) <= SLOTS


def test_slots_that_start_share_what_the_division_has_read(
    source: KafkaNode, target: KafkaNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(discovery, "_SHARED_MANY_S", 3600.0)  # however long this test takes
    stem = unique_name("pairs")
    topic = create_topic(source, f"{stem}-a", partitions=SLOTS)
    slots = Slots(source, target, stem)
    everything = {SourcePartition(topic, n): 0 for n in range(SLOTS)}
    positions = slots.division.start_positions({})
    assert {at: position.offset for at, position in positions.items()} == everything
    slots.source.take(DESCRIBING)
    first = slots.discover_all()
    assert slots.source.take(DESCRIBING) == 0
    assert {at for snapshot in first for at in snapshot.routes} == everything.keys()
    # What is created in the meantime is found nevertheless.
    other = create_topic(source, f"{stem}-b", partitions=SLOTS)
    eventually(partial(slots.copies, 0, SourcePartition(other, 0)), "the new topic")


def test_a_slot_reads_again_before_it_takes_a_topic_for_another_one(
    source: KafkaNode, target: KafkaNode
) -> None:
    """Another slot's reading may be older than a position that this slot has read since."""
    stem = unique_name("pairs")
    topic = create_topic(source, f"{stem}-a", partitions=SLOTS)
    slots = Slots(source, target, stem)
    slots.discover_all()
    delete_topic(source, topic)
    create_topic(source, topic, partitions=SLOTS)
    fresh = slots.source.find(topic)
    assert fresh is not None
    slots.move(1, SourcePartition(topic, 1), fresh.topic_id)
    assert not [fault for fault in slots.discover(1).faults if fault.kind is FaultKind.RECREATED]
    assert [fault.source.partition for fault in slots.discover(2).faults] == [2]


def test_threads_that_wait_for_a_reading_share_the_next_one() -> None:
    shared, may_end = SharedReading[int](), threading.Event()
    begun, asked, readings = list[int](), list[float](), list[int]()

    def read() -> int:
        begun.append(1)
        assert may_end.wait(TIMEOUT)
        return len(begun)

    def ask() -> None:
        asked.append(since := monotonic())
        readings.append(shared.get(read, since))

    first = threading.Thread(target=ask)
    first.start()
    eventually(lambda: begun, "the first one reads")
    others = [threading.Thread(target=ask) for _ in range(8)]
    for other in others:
        other.start()
    eventually(lambda: len(asked) == 9, "all have asked")
    may_end.set()
    for thread in (first, *others):
        thread.join(TIMEOUT)
    assert len(readings) == 9 and len(begun) == 2


def test_a_cluster_that_does_not_answer_is_waited_for_once() -> None:
    shared, asked = SharedReading[int](), []

    def fail() -> int:
        asked.append(1)
        raise TimedOut("no answer")

    since = monotonic()
    for _ in range(3):
        with pytest.raises(K2kError, match="no answer"):
            shared.get(fail, since)
    assert len(asked) == 1
    assert shared.get(lambda: 7, monotonic()) == 7
