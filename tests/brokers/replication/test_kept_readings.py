"""Laps that go on with the fetch sessions of the lap before, on real brokers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from kafka.protocol.consumer import FetchRequest

from k2ktui.engine.records.cluster_pair import UNKNOWN_PAIR
from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.kafka.producer_id import Producer
from k2ktui.kafka.wire.cluster import Loop, Wire
from k2ktui.kafka.wire.transactions import init_producer
from k2ktui.replication.copying import kept_readings, worker
from k2ktui.replication.copying import slot as slot_module
from k2ktui.replication.copying.slot_settings import CommitPolicy, FetchSettings
from k2ktui.replication.copying.slot_task import (
    Assignment,
    CopyPath,
    FaultKind,
    LapOutcome,
    Route,
    SlotResult,
    SlotTask,
    StateTopics,
)
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import (
    TIMEOUT,
    create_topic,
    delete_before,
    delete_topic,
    eventually,
    produce,
    read_all,
    unique_name,
)

pytestmark = pytest.mark.slow

_PARTITIONS = 3
_LAP_S = 2.0


class Slot:
    """A slot of one topic, whose laps run in this process, each with a new epoch."""

    def __init__(self, source: KafkaNode, target: KafkaNode) -> None:
        self.topic = create_topic(source, partitions=_PARTITIONS)
        self.copy = create_topic(target, partitions=_PARTITIONS)
        self.commits = create_topic(target)
        self.source = {"bootstrap_servers": [source.bootstrap], "client_id": unique_name("lap")}
        self.target = {"bootstrap_servers": [target.bootstrap]}
        self.loop = Loop()
        self.wires = [Wire(self.loop, cluster, "test") for cluster in (self.source, self.target)]
        for wire in self.wires:
            self.loop.run(partial(wire.open, TIMEOUT))
        self.token = Producer(unique_name("slot"))
        self.topic_id = self.read_id()
        self.positions = {
            at: Position(0, 0, -1, self.topic_id, 1, 0, self.copy, at.partition)
            for at in (SourcePartition(self.topic, number) for number in range(_PARTITIONS))
        }

    def read_id(self) -> str:
        topics = self.loop.run(lambda: self.wires[0].metadata([self.topic]))
        return str(topics[self.topic].topic_id)

    def lap(self, **changes: Any) -> SlotResult:
        """Run a lap, and adopt its positions as the driver does."""
        self.token = self.loop.run(lambda: init_producer(self.wires[1], self.token, 60_000))
        assignments = tuple(
            Assignment(at, position, Route(CopyPath.VERBATIM, self.copy, at.partition, _PARTITIONS))
            for at, position in self.positions.items()
        )
        state = StateTopics("p", self.copy, 1, self.commits, 0, "", 0)
        task = SlotTask(0, self.token, True, state, CommitPolicy(_LAP_S), assignments)
        result = worker.run_slot(replace(task, **changes), (self.source, self.target))
        self.positions.update(result.positions)
        return result

    def lap_until(self, happened: Callable[[SlotResult], object]) -> SlotResult:
        """Run laps until something happens in one: on a busy machine, a lap may end before that."""

        def lap() -> SlotResult | None:
            result = self.lap()
            assert result.outcome is LapOutcome.DONE, result.error
            return result if happened(result) else None

        result: SlotResult = eventually(lap, "it happens in a lap")
        return result

    def copy_until(self, records: int) -> None:
        """Run laps until they have copied as many records."""
        while records > 0:
            records -= self.lap_until(lambda lap: lap.stats.records).stats.records
        assert records == 0

    def close(self) -> None:
        worker._disconnect((self.source, self.target))  # noqa: SLF001 - it runs no more laps
        for wire in self.wires:
            wire.close()
        self.loop.close()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """The partitions that each fetch request asks for, by number; [-1] closes a session."""
    fetches: list[list[int]] = []
    post = Wire.post

    def noted(self: Wire, request: Any, *args: Any) -> Any:
        if isinstance(request, FetchRequest):
            numbers = [
                partition.partition for topic in request.topics for partition in topic.partitions
            ]
            fetches.append([-1] if request.session_epoch == -1 else sorted(numbers))
        return post(self, request, *args)

    monkeypatch.setattr(Wire, "post", noted)
    return fetches


@pytest.fixture
def slot(
    source: KafkaNode,
    target: KafkaNode,
    asked: list[list[int]],  # from the first lap on
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Slot]:
    """A slot of which a lap has left its fetch session."""
    monkeypatch.setattr(kept_readings, "_FEWEST", 1)
    # An answer that comes later than that ends the session.
    monkeypatch.setattr(slot_module, "_LAST_ANSWER_S", TIMEOUT)
    slot = Slot(source, target)
    try:
        eventually(lambda: slot.lap().outcome is LapOutcome.DONE, "a lap connects in its time")
        yield slot
    finally:
        slot.close()


def values(node: KafkaNode, topic: str) -> list[bytes]:
    return sorted(got.value or b"" for got in read_all(node, topic, isolation="read_committed"))


def test_the_next_lap_copies_what_came_and_asks_only_for_what_has_changed(
    slot: Slot, asked: list[list[int]], source: KafkaNode, target: KafkaNode
) -> None:
    assert [0, 1, 2] in asked
    produce(source, slot.topic, [b"1", b"2"])
    slot.copy_until(2)
    expected = [b"1", b"2"]
    for number in range(3):
        produce(source, slot.topic, [b"%d" % (3 + number)])
        expected.append(b"%d" % (3 + number))
        asked.clear()
        result = slot.lap_until(lambda lap: lap.stats.records)
        assert result.stats.records == 1
        assert asked[0] == [] and [0, 1, 2] not in asked and [-1] not in asked
        assert {at.partition for at in result.log_bounds} == {0, 1, 2}
        assert result.log_bounds[SourcePartition(slot.topic, 0)].end == len(expected)
    assert values(target, slot.copy) == expected


def test_a_position_that_was_set_meanwhile_counts(
    slot: Slot, source: KafkaNode, target: KafkaNode
) -> None:
    produce(source, slot.topic, [b"1", b"2"])
    slot.copy_until(2)
    at = SourcePartition(slot.topic, 0)
    slot.positions[at] = replace(slot.positions[at], offset=1)
    slot.copy_until(1)
    assert values(target, slot.copy) == [b"1", b"2", b"2"]


@pytest.mark.parametrize(
    "changes",
    [
        {"recoveries": 1},
        {"fetch": FetchSettings(max_bytes=1 << 20)},
        {"state_topics": StateTopics("p", "other", 1, "c", 0, "", 0)},
    ],
)
def test_a_lap_begins_anew_after_a_failure_and_with_other_settings(
    slot: Slot, asked: list[list[int]], changes: dict[str, Any]
) -> None:
    asked.clear()
    assert slot.lap(**changes).outcome is LapOutcome.DONE
    assert [0, 1, 2] in asked
    assert ([-1] in asked) == ("state_topics" not in changes), "what is not used is closed"


def test_a_lap_that_fails_keeps_nothing(slot: Slot, asked: list[list[int]]) -> None:
    asked.clear()
    clusters = replace(UNKNOWN_PAIR, source="another")
    assert slot.lap(clusters=clusters).outcome is LapOutcome.FAILED
    assert slot.lap().outcome is LapOutcome.DONE
    assert [0, 1, 2] in asked


def test_a_partition_fewer_begins_anew(slot: Slot, asked: list[list[int]]) -> None:
    slot.positions.popitem()
    asked.clear()
    assert slot.lap().outcome is LapOutcome.DONE
    assert asked[0] == [-1] and asked[1] == [0, 1]


def test_a_topic_that_was_created_again_is_noticed(
    slot: Slot, source: KafkaNode, target: KafkaNode
) -> None:
    produce(source, slot.topic, [b"1", b"2"])
    slot.copy_until(2)
    delete_topic(source, slot.topic)
    create_topic(source, slot.topic, partitions=_PARTITIONS)
    produce(source, slot.topic, [b"a", b"b", b"c"])
    while slot.read_id() == slot.topic_id:
        pass
    result = slot.lap_until(lambda lap: lap.faults)
    assert {fault.kind for fault in result.faults} == {FaultKind.RECREATED}
    assert values(target, slot.copy) == [b"1", b"2"]


def test_deleted_records_are_noticed(slot: Slot, source: KafkaNode) -> None:
    produce(source, slot.topic, [b"1", b"2"])
    slot.copy_until(2)
    produce(source, slot.topic, [b"3", b"4"])
    delete_before(source, slot.topic, 4)
    result = slot.lap_until(lambda lap: lap.faults)
    assert [fault.kind for fault in result.faults] == [FaultKind.TRUNCATED]
    assert result.stats.records == 0
