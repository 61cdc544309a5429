"""How a lap ends that fails, and which partitions are at fault.

A refused copy is a fault of its source partition. Mapping ranges and positions have no source
partition of their own: without them, no partition whose mapping or position goes there is copied.
Every failure ends the lap in one of these ways, and the driver goes on from what the target has
committed: this holds I7.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from k2ktui.engine.records.state import SourcePartition
from k2ktui.errors import ConnectionFailed, K2kError, LoginFailed
from k2ktui.kafka.wire.cluster import CoordinatorError, OutcomeUnknown, Wire
from k2ktui.kafka.wire.codes import FENCED, REFUSALS, TOO_LARGE, code_name
from k2ktui.replication.copying import partition_faults
from k2ktui.replication.copying.batch_sender import (
    BatchRefused,
    Fenced,
    PartitionsUnavailable,
    SlotFailed,
)
from k2ktui.replication.copying.outgoing_batch import OutgoingBatch, TargetPartition
from k2ktui.replication.copying.partition_reader import PartitionReader
from k2ktui.replication.copying.slot_task import Fault, LapOutcome, SlotTask
from k2ktui.replication.copying.state_records import StateRecords
from k2ktui.replication.fencing_errors import coordinator_refused
from k2ktui.text import safe_text


class JoinRefused(Exception):
    """The coordinator refuses to add target partitions to the transaction."""

    def __init__(self, codes: Mapping[TargetPartition, int]) -> None:
        (topic, partition), code = next(iter(codes.items()))
        more = f", and {len(codes) - 1} more" if len(codes) > 1 else ""
        super().__init__(
            f"{safe_text(topic)}-{partition} on the target cannot be added to a transaction: "
            f"{code_name(code)}{more}"
        )
        self.codes = codes


#: What ends a lap; any other exception is a defect.
LAP_FAILURES = (
    Fenced,
    CoordinatorError,
    SlotFailed,
    OutcomeUnknown,
    ConnectionFailed,
    BatchRefused,
    JoinRefused,
)


def explain_failure(
    failure: Exception,
    task: SlotTask,
    target: Wire,
    readers: Sequence[PartitionReader],
    state: StateRecords,
    waiting: Sequence[OutgoingBatch],
) -> tuple[LapOutcome, str, list[Fault]]:
    """Return how the lap ends, why, and the faults of partitions.

    Args:
        failure: one of ``LAP_FAILURES``.
        task: the slot's task.
        target: connection to the target cluster.
        readers: the partitions of the lap.
        state: where their mappings and positions go.
        waiting: the batches that were not acknowledged.
    """
    outcome, error, faults = LapOutcome.FAILED, str(failure), list[Fault]()
    match failure:
        case Fenced():
            outcome = LapOutcome.FENCED
        case CoordinatorError():
            outcome = LapOutcome.FENCED if failure.code in FENCED else LapOutcome.FAILED
            faults += _refusal_faults(failure, task)
            outage = target.outage() if outcome is LapOutcome.FAILED and not faults else None
            if outage is not None:
                error = f"{error}; {outage.message}"
                faults += _login_faults(outage, task)
        case PartitionsUnavailable():
            faults += unavailable_faults(failure, readers, waiting, state)
        case SlotFailed():
            faults += _refusal_faults(CoordinatorError(failure.code, "Produce"), task)
        case ConnectionFailed():
            error = failure.message if isinstance(failure, LoginFailed) else error
            faults += _login_faults(failure, task)
        case BatchRefused():
            topic, partition = failure.outgoing.target
            error = f"{safe_text(topic)}-{partition} on the target rejected a batch: "
            error += code_name(failure.code)
            faults += batch_faults(failure, readers, state)
        case JoinRefused():
            faults += join_faults(failure, waiting, readers, state)
    return outcome, error, faults


def _refusal_faults(failure: CoordinatorError, task: SlotTask) -> list[Fault]:
    """Return the faults of all partitions if the target refuses the producer or its transaction."""
    if failure.code not in REFUSALS:
        return []
    return _faults_of_all(coordinator_refused(failure, task.state_topics.group), task)


def _login_faults(failure: ConnectionFailed, task: SlotTask) -> list[Fault]:
    """Return the faults of all partitions if a cluster refuses the login."""
    return _faults_of_all(failure, task) if isinstance(failure, LoginFailed) else []


def _faults_of_all(why: K2kError, task: SlotTask) -> list[Fault]:
    positions = {assignment.source: assignment.position for assignment in task.assignments}
    return partition_faults.slot_faults(positions, why, positions)


def unavailable_faults(
    failed: PartitionsUnavailable,
    readers: Sequence[PartitionReader],
    waiting: Iterable[OutgoingBatch],
    state: StateRecords,
) -> list[Fault]:
    """Return the faults of all partitions that wait for an unavailable target partition.

    While the commit topic is unavailable, all wait: no position can be read either. If one of the
    mapping topic is, the driver learns from the transaction whether it stays so, if there is one.

    Args:
        failed: the target partitions.
        readers: the partitions of the lap.
        waiting: the batches that were not acknowledged.
        state: where mappings go.
    """
    sent = {
        (outgoing.owner.source, outgoing.target)
        for outgoing in waiting
        if outgoing.owner is not None
    }
    return [
        partition_faults.unavailable_fault(
            reader.source, target, reason, reader.assignment.position.offset
        )
        for target, reason in failed.reasons.items()
        if not state.holds_positions(target)
        for reader in readers
        if target == _only_target(reader)
        or (not state.transactional and target in state.targets(reader))
        or (reader.source, target) in sent
    ]


def _only_target(reader: PartitionReader) -> TargetPartition | None:
    """Return where all records of a partition go; None if that depends on their keys."""
    route = reader.assignment.route
    return None if route.partition is None else (route.topic, route.partition)


def batch_faults(
    refused: BatchRefused, readers: Sequence[PartitionReader], state: StateRecords
) -> list[Fault]:
    """Return the faults after the target refused a batch.

    Args:
        refused: the batch and the reason.
        readers: the partitions of the lap.
        state: where their mappings and positions go.
    """
    owner = refused.outgoing.owner
    if owner is not None:
        return [partition_faults.refused_fault(refused, owner.source)]
    return _state_faults(refused, readers, state)


def join_faults(
    refused: JoinRefused,
    waiting: Iterable[OutgoingBatch],
    readers: Sequence[PartitionReader],
    state: StateRecords,
) -> list[Fault]:
    """Return the faults after the coordinator refused partitions, at most one of a partition.

    Args:
        refused: the partitions and the reasons.
        waiting: the batches that were not acknowledged.
        readers: the partitions of the lap.
        state: where their mappings and positions go.
    """
    faults: dict[SourcePartition, Fault] = {}
    for outgoing in waiting:
        code, owner = refused.codes.get(outgoing.target), outgoing.owner
        if code is not None and owner is not None and owner.source not in faults:
            faults[owner.source] = partition_faults.refused_fault(
                BatchRefused(outgoing, code, ""), owner.source
            )
    for where, code in refused.codes.items():
        nothing = OutgoingBatch(where, memoryview(b""), 0)
        for fault in _state_faults(BatchRefused(nothing, code, ""), readers, state):
            faults.setdefault(fault.source, fault)
    return list(faults.values())


def _state_faults(
    refused: BatchRefused, readers: Sequence[PartitionReader], state: StateRecords
) -> list[Fault]:
    """Return the faults of all partitions whose mapping or position goes where a batch was refused.

    Only records can be too large, so that those without records in the batch are not at fault.
    """
    where = refused.outgoing.target
    what = "position" if state.holds_positions(where) else "mapping"
    return [
        partition_faults.refused_state_fault(refused, reader.source, what, reader.committed)
        for reader in readers
        if where in state.targets(reader) and (reader.dirty or refused.code not in TOO_LARGE)
    ]
