"""Whose fault it is that the target refuses a batch, or a partition in the transaction.

A refused copy is a fault of its source partition. Mapping ranges and positions have no source
partition of their own: without them, no partition whose mapping or position goes there is copied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from k2ktui.engine.state import SourcePartition
from k2ktui.kafka.codes import TOO_LARGE, code_name
from k2ktui.replication.copying import partition_faults
from k2ktui.replication.copying.outgoing_batch import OutgoingBatch, TargetPartition
from k2ktui.replication.copying.partition_reader import PartitionReader
from k2ktui.replication.copying.state_records import StateRecords
from k2ktui.replication.copying.writer import BatchRefused
from k2ktui.replication.slot_task import Fault
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


def batch_faults(
    refused: BatchRefused,
    where: TargetPartition,
    readers: Sequence[PartitionReader],
    state: StateRecords,
) -> list[Fault]:
    """Return the faults after the target refused a batch.

    Args:
        refused: the batch and the reason.
        where: its target partition.
        readers: the partitions of the lap.
        state: where their mappings and positions go.
    """
    outgoing = refused.outgoing
    if outgoing.reader is not None:
        return [partition_faults.refused_fault(refused, outgoing.reader.source, where)]
    return _state_faults(refused, where, readers, state)


def join_faults(
    refused: JoinRefused,
    in_flight: Mapping[OutgoingBatch, TargetPartition],
    readers: Sequence[PartitionReader],
    state: StateRecords,
) -> list[Fault]:
    """Return the faults after the coordinator refused partitions, at most one of a partition.

    Args:
        refused: the partitions and the reasons.
        in_flight: where batches that were not acknowledged go.
        readers: the partitions of the lap.
        state: where their mappings and positions go.
    """
    faults: dict[SourcePartition, Fault] = {}
    for outgoing, where in in_flight.items():
        code, owner = refused.codes.get(where), outgoing.reader
        if code is not None and owner is not None and owner.source not in faults:
            faults[owner.source] = partition_faults.refused_fault(
                BatchRefused(outgoing, code, ""), owner.source, where
            )
    nothing = OutgoingBatch(memoryview(b""), 0)
    for where, code in refused.codes.items():
        for fault in _state_faults(BatchRefused(nothing, code, ""), where, readers, state):
            faults.setdefault(fault.source, fault)
    return list(faults.values())


def _state_faults(
    refused: BatchRefused,
    where: TargetPartition,
    readers: Sequence[PartitionReader],
    state: StateRecords,
) -> list[Fault]:
    """Return the faults of all partitions that need ``where`` for their mapping or position.

    Only records can be too large, so that those without records in the batch are not at fault.
    """
    what = "position" if state.holds_positions(where) else "mapping"
    return [
        partition_faults.refused_state_fault(refused, reader.source, what, where, reader.committed)
        for reader in readers
        if where in state.targets(reader) and (reader.dirty or refused.code not in TOO_LARGE)
    ]
