"""Thousands of partitions: a lap packs and unpacks what has changed since the last one."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import pytest

from k2ktui.engine.pickled import UnpickledOnUse
from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.kafka.producer_id import Producer
from k2ktui.replication.copying import packed_tasks as module
from k2ktui.replication.copying.packed_tasks import TaskPacker, TaskUnpacker
from k2ktui.replication.copying.slot_settings import CommitPolicy
from k2ktui.replication.copying.slot_task import (
    Assignment,
    CopyPath,
    LapOutcome,
    Route,
    SizeLimit,
    SlotResult,
    SlotTask,
    StateTopics,
)
from k2ktui.replication.slots import SlotState


def assignment(number: int, offset: int = 0) -> Assignment:
    position = Position(offset, 0, -1, "", 1, 0, "t", number)
    route = Route(CopyPath.VERBATIM, "t", number, 1000)
    return Assignment(SourcePartition("t", number), position, route)


def task(assignments: list[Assignment], epoch: int = 0) -> SlotTask:
    topics = StateTopics("p", "p", 1, "c", 0, "m", 1)
    producer = Producer("p.0", 7, epoch)
    return SlotTask(0, producer, True, topics, CommitPolicy(1.0), tuple(assignments))


class Counted:
    """``pickle``, counting what it packs and unpacks."""

    def __init__(self) -> None:
        self.packed = self.unpacked = 0

    def dumps(self, value: Any) -> bytes:
        self.packed += len(value) if isinstance(value, tuple) else 0
        return pickle.dumps(value)

    def loads(self, data: bytes) -> Any:
        parts = pickle.loads(data)
        self.unpacked += len(parts) if isinstance(parts, tuple) else 0
        return parts


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    counted = Counted()
    monkeypatch.setattr(module, "pickle", counted)
    return counted


def test_only_chunks_with_a_changed_partition_are_packed_and_unpacked_again(
    counted: Counted,
) -> None:
    packer, worker = TaskPacker(), TaskUnpacker()
    assignments = [assignment(number) for number in range(1000)]
    first = task(assignments)
    assert worker.unpack(packer.pack(first)) == first
    assert (counted.packed, counted.unpacked) == (1000, 1000)
    # The driver makes assignments again for each lap.
    second = task([replace(made) for made in assignments], epoch=1)
    assert worker.unpack(packer.pack(second)) == second
    assert (counted.packed, counted.unpacked) == (1000, 1000)
    assignments[250] = assignment(250, offset=9)
    assignments[777] = replace(assignments[777], until=5)
    third = task(assignments, epoch=2)
    assert worker.unpack(packer.pack(third)) == third
    assert (counted.packed, counted.unpacked) == (1200, 1200)


def test_a_changed_route_or_limit_reaches_the_worker() -> None:
    packer, worker = TaskPacker(), TaskUnpacker()
    assignments = [assignment(number) for number in range(3)]
    worker.unpack(packer.pack(task(assignments)))
    assignments[1] = replace(assignments[1], route=replace(assignments[1].route, partition=7))
    assert worker.unpack(packer.pack(task(assignments))).assignments[1].route.partition == 7
    assignments[1] = replace(assignments[1], size_limit=SizeLimit(9000, 20_000))
    assert worker.unpack(packer.pack(task(assignments))).assignments[1] == assignments[1]


def test_partitions_that_leave_or_join_a_slot_reach_the_worker() -> None:
    packer, worker = TaskPacker(), TaskUnpacker()
    assignments = [assignment(number) for number in range(250)]
    for changed in (
        assignments,
        assignments[:101],
        [],
        assignments[50:],
        [*assignments, assignment(999)],
    ):
        assert worker.unpack(packer.pack(task(changed))) == task(changed)


def test_a_worker_that_has_not_had_the_slot_before_gets_all_of_it() -> None:
    packer = TaskPacker()
    packed = task([assignment(number) for number in range(250)])
    packer.pack(packed)
    assert TaskUnpacker().unpack(pickle.loads(pickle.dumps(packer.pack(packed)))) == packed


def test_partitions_that_have_not_moved_keep_the_position_that_the_driver_knows() -> None:
    one, two, three = (assignment(number) for number in range(3))
    slot, moved = SlotState(0, 0), replace(one.position, offset=9)
    slot.copied = one.source, two.source
    known = {task.source: task.position for task in (one, two, three)}
    failed = SlotResult(0, LapOutcome.FAILED, {one.source: moved})
    assert slot.adopt(failed, known) is failed and known[one.source] is one.position
    done = SlotResult(0, LapOutcome.DONE, {one.source: moved})
    positions = slot.adopt(done, known).positions
    assert known[one.source] is moved
    assert (
        dict(positions.items()) == dict(positions) == {one.source: moved, two.source: two.position}
    )
    assert three.source not in positions and len(positions) == 2
    assert positions[two.source] is two.position, "it would be packed again"


def test_a_mapping_is_unpickled_when_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    received = pickle.loads(pickle.dumps(UnpickledOnUse({SourcePartition("t", 1): 5})))
    calls: list[bytes] = []
    load = pickle.loads

    def counted(data: bytes) -> Any:
        calls.append(data)
        return load(data)

    monkeypatch.setattr(pickle, "loads", counted)
    assert not calls
    assert received == {SourcePartition("t", 1): 5} and len(received) == 1
    assert received.get(SourcePartition("t", 2)) is None
    assert len(calls) == 1
