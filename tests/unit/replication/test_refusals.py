"""Whose fault it is that the target refuses mappings or positions."""

from __future__ import annotations

import pytest

from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.kafka.producer_id import Producer
from k2ktui.replication.copying.batch_sender import BatchRefused, PartitionsUnavailable
from k2ktui.replication.copying.lap_failures import FailedLap, JoinRefused
from k2ktui.replication.copying.outgoing_batch import OutgoingBatch, TargetPartition
from k2ktui.replication.copying.partition_faults import refused_fault
from k2ktui.replication.copying.partition_reader import PartitionReader
from k2ktui.replication.copying.slot_settings import CommitPolicy
from k2ktui.replication.copying.slot_task import (
    Assignment,
    CopyPath,
    Fault,
    FaultKind,
    Route,
    SlotTask,
    StateTopics,
)
from k2ktui.replication.copying.state_records import StateRecords

COMMITS = ("commits", 0)
SOURCES = [SourcePartition("t", number) for number in range(8)]
TOPICS = StateTopics("p", "p", 1, *COMMITS, "mappings", 3)
ASSIGNMENTS = tuple(
    Assignment(
        source,
        Position(7, 0, -1, "", 1, 0, "t", source.partition),
        Route(CopyPath.VERBATIM, "t", source.partition, 8),
    )
    for source in SOURCES
)
TASK = SlotTask(0, Producer("p.0", 1, 1), True, TOPICS, CommitPolicy(1.0, 1.0, 1), ASSIGNMENTS)


def state_batch(where: TargetPartition) -> OutgoingBatch:
    return OutgoingBatch(where, memoryview(bytes(99)), 1)


class Lap:
    """The partitions of a lap; ``dirty`` have records to commit."""

    def __init__(self, *dirty: int) -> None:
        self.readers = [PartitionReader(assignment) for assignment in ASSIGNMENTS]
        self.state = StateRecords(TASK)
        self.failed = self.with_waiting()
        for number in dirty:
            self.readers[number].handed = 9

    def refuse(self, where: TargetPartition, code: int) -> list[Fault]:
        return self.failed.batch_faults(BatchRefused(state_batch(where), code, ""))

    def with_waiting(self, *waiting: OutgoingBatch) -> FailedLap:
        return FailedLap(TASK, self.readers, self.state, waiting)

    def of(self, where: TargetPartition) -> set[SourcePartition]:
        return {reader.source for reader in self.readers if where in self.state.targets(reader)}


MAPPING = next(iter(StateRecords(TASK).targets(PartitionReader(ASSIGNMENTS[0])) - {COMMITS}))


def sources_of(faults: list[Fault]) -> set[SourcePartition]:
    sources = [fault.source for fault in faults]
    assert len(sources) == len(set(sources))
    return set(sources)


@pytest.mark.parametrize(
    ("code", "kind", "hint"),
    [
        (29, FaultKind.UNAUTHORIZED, "Grant it Describe and Write on topic mappings"),
        (3, FaultKind.REFUSED, "Restore topic mappings on the target"),
        (44, FaultKind.REFUSED, "See the target broker's log"),
        (999, FaultKind.REFUSED, "See the target broker's log"),
    ],
)
def test_all_partitions_whose_mapping_goes_there_are_at_fault(
    code: int, kind: FaultKind, hint: str
) -> None:
    lap = Lap(0)
    faults = lap.refuse(MAPPING, code)
    assert sources_of(faults) == lap.of(MAPPING)
    assert 1 < len(faults) < len(SOURCES)
    for fault in faults:
        assert fault.kind is kind and fault.hint.startswith(hint) and fault.offset == 7
        assert fault.message.startswith(
            f"mappings-{MAPPING[1]} on the target rejected the mapping of {fault.source} from "
            "offset 7 on: "
        )


@pytest.mark.parametrize("code", [29, 32, 44])
def test_a_partition_whose_records_are_refused_says_that_it_is_retried(code: int) -> None:
    outgoing = OutgoingBatch(("t", 0), memoryview(b"r" * 99), 1, 7)
    fault = refused_fault(BatchRefused(outgoing, code, ""), SOURCES[0])
    assert fault.hint.endswith(" The copy is retried automatically.")
    assert fault.hint.count("retried") == 1


def test_only_partitions_with_records_have_a_mapping_that_is_too_large() -> None:
    lap = Lap(0)
    (fault,) = lap.refuse(MAPPING, 10)
    assert (fault.source, fault.kind) == (SOURCES[0], FaultKind.REFUSED)
    assert "a record of 99 bytes exceeds its max.message.bytes" in fault.message


def test_all_partitions_need_the_commit_topic() -> None:
    faults = Lap(0).refuse(COMMITS, 87)
    assert sources_of(faults) == set(SOURCES)
    assert "rejected the position of t-0 from offset 7 on: INVALID_RECORD (87)" in faults[0].message


def test_what_the_coordinator_refuses_is_at_fault_once() -> None:
    """Of a partition whose own target is refused as well, that is the reason."""
    lap = Lap(0, 1)
    batches = [
        OutgoingBatch(("t", number), memoryview(bytes(5)), 1, 7, owner=reader)
        for number, reader in enumerate(lap.readers[:2])
    ]
    refused = JoinRefused({("t", 0): 29, MAPPING: 29})
    assert str(refused) == (
        "t-0 on the target cannot be added to a transaction: TOPIC_AUTHORIZATION_FAILED (29), "
        "and 1 more"
    )
    faults = lap.with_waiting(*batches, state_batch(MAPPING)).join_faults(refused)
    assert sources_of(faults) == lap.of(MAPPING)
    (own,) = [fault for fault in faults if fault.source == SOURCES[0]]
    assert own.message.startswith("t-0 on the target rejected t-0 at offset 7: ")


def test_partitions_wait_for_their_mapping_and_all_of_them_for_the_commit_topic() -> None:
    lap = Lap(0)

    def wait_for(where: TargetPartition) -> set[SourcePartition]:
        failed = PartitionsUnavailable({where: "it has no leader"})
        return sources_of(lap.failed.unavailable_faults(failed))

    for transactional in (False, True):
        lap.state.transactional = transactional
        assert wait_for(("t", 3)) == {SOURCES[3]}
        assert wait_for(COMMITS) == set(), "the slot waits"
        # Of the partitions of a transaction, its coordinator says which ones stay unavailable.
        assert wait_for(MAPPING) == (set() if transactional else lap.of(MAPPING))
