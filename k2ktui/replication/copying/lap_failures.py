"""How a lap ends that fails, and which partitions are at fault.

A refused copy is a fault of its source partition. Mapping ranges and positions have no source
partition of their own: without them, no partition whose mapping or position goes there is copied.
Every failure ends the lap in one of these ways, and the driver goes on from what the target has
committed: this holds I7.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class FailedLap:
    """What is known of a lap that fails.

    Attributes:
        task: the slot's task.
        readers: its partitions.
        state: where their mappings and positions go.
        waiting: the batches that were not acknowledged.
    """

    task: SlotTask
    readers: Sequence[PartitionReader]
    state: StateRecords
    waiting: Sequence[OutgoingBatch]

    def explain(self, failure: Exception, target: Wire) -> tuple[LapOutcome, str, list[Fault]]:
        """Return how the lap ends, why, and the faults of partitions.

        Args:
            failure: one of ``LAP_FAILURES``.
            target: connection to the target cluster.
        """
        outcome, error, faults = LapOutcome.FAILED, str(failure), list[Fault]()
        match failure:
            case Fenced():
                outcome = LapOutcome.FENCED
            case CoordinatorError():
                outcome = LapOutcome.FENCED if failure.code in FENCED else LapOutcome.FAILED
                faults += self._refusal_faults(failure)
                outage = target.outage() if outcome is LapOutcome.FAILED and not faults else None
                if outage is not None:
                    error = f"{error}; {outage.message}"
                    faults += self._login_faults(outage)
            case PartitionsUnavailable():
                faults += self.unavailable_faults(failure)
            case SlotFailed():
                faults += self._refusal_faults(CoordinatorError(failure.code, "Produce"))
            case ConnectionFailed():
                error = failure.message if isinstance(failure, LoginFailed) else error
                faults += self._login_faults(failure)
            case BatchRefused():
                topic, partition = failure.outgoing.target
                error = f"{safe_text(topic)}-{partition} on the target rejected a batch: "
                error += code_name(failure.code)
                faults += self.batch_faults(failure)
            case JoinRefused():
                faults += self.join_faults(failure)
        return outcome, error, faults

    def _refusal_faults(self, failure: CoordinatorError) -> list[Fault]:
        """Return those of all partitions if the target refuses the producer or its transaction."""
        if failure.code not in REFUSALS:
            return []
        return task_faults(self.task, coordinator_refused(failure, self.task.state_topics.group))

    def _login_faults(self, failure: ConnectionFailed) -> list[Fault]:
        """Return those of all partitions if a cluster refuses the login."""
        return task_faults(self.task, failure) if isinstance(failure, LoginFailed) else []

    def unavailable_faults(self, failed: PartitionsUnavailable) -> list[Fault]:
        """Return those of all partitions that wait for an unavailable target partition.

        While the commit topic is unavailable, all wait: no position can be read either. If one of
        the mapping topic is, the driver learns from the transaction whether it stays so, if there
        is one.
        """
        state = self.state
        sent = {
            (outgoing.owner.source, outgoing.target)
            for outgoing in self.waiting
            if outgoing.owner is not None
        }
        return [
            partition_faults.UNAVAILABLE.at(
                reader.source, reader.assignment.position.offset, target=target, reason=reason
            )
            for target, reason in failed.reasons.items()
            if not state.holds_positions(target)
            for reader in self.readers
            if target == _only_target(reader)
            or (not state.transactional and target in state.targets(reader))
            or (reader.source, target) in sent
        ]

    def batch_faults(self, refused: BatchRefused) -> list[Fault]:
        """Return those of a batch that the target refused."""
        owner = refused.outgoing.owner
        if owner is not None:
            return [partition_faults.refused_fault(refused, owner.source)]
        return self._state_faults(refused)

    def join_faults(self, refused: JoinRefused) -> list[Fault]:
        """Return those of what the coordinator refused, at most one of a partition."""
        faults: dict[SourcePartition, Fault] = {}
        for outgoing in self.waiting:
            code, owner = refused.codes.get(outgoing.target), outgoing.owner
            if code is not None and owner is not None and owner.source not in faults:
                faults[owner.source] = partition_faults.refused_fault(
                    BatchRefused(outgoing, code, ""), owner.source
                )
        for where, code in refused.codes.items():
            nothing = OutgoingBatch(where, memoryview(b""), 0)
            for fault in self._state_faults(BatchRefused(nothing, code, "")):
                faults.setdefault(fault.source, fault)
        return list(faults.values())

    def _state_faults(self, refused: BatchRefused) -> list[Fault]:
        """Return those of all partitions whose mapping or position goes where it was refused.

        Only records can be too large, so that those without records in the batch are not at fault.
        """
        where = refused.outgoing.target
        what = "position" if self.state.holds_positions(where) else "mapping"
        return [
            partition_faults.refused_state_fault(refused, reader.source, what, reader.committed)
            for reader in self.readers
            if where in self.state.targets(reader)
            and (reader.dirty or refused.code not in TOO_LARGE)
        ]


def task_faults(task: SlotTask, why: K2kError) -> list[Fault]:
    """Return the faults of all partitions of a task that a cluster refuses to copy."""
    positions = {assignment.source: assignment.position for assignment in task.assignments}
    return partition_faults.slot_faults(positions, why, positions)


def _only_target(reader: PartitionReader) -> TargetPartition | None:
    """Return where all records of a partition go; None if that depends on their keys."""
    route = reader.assignment.route
    return None if route.partition is None else (route.topic, route.partition)
