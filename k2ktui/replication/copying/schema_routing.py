"""Gives records the schema ids of the target's registry, before they are routed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from k2ktui.engine.schema_rule import SchemaRule
from k2ktui.log.records import I64, U8, Records
from k2ktui.log.schema_id_batches import UnknownIds, map_batch, map_records
from k2ktui.log.schema_id_columns import UsedId
from k2ktui.replication.copying import partition_faults
from k2ktui.replication.copying.partition_reader import PartitionReader
from k2ktui.replication.copying.schema_lookups import KnownSchemas
from k2ktui.replication.slot_task import Fault, UnknownSchemas


@dataclass(frozen=True, slots=True)
class RoutableRecords:
    """The records of a partition's next batch as they are routed.

    Attributes:
        records: with their final ids.
        data: has their keys, each at ``key_starts`` with ``key_lengths`` (-1 for none).
        unknown: the records that were passed through with an unknown id, for the operator.
        fault: stops the partition after these records.
    """

    records: Records
    data: U8
    key_starts: I64
    key_lengths: I64
    unknown: UnknownSchemas | None = None
    fault: Fault | None = None


class SchemaIdStage:
    """Replaces the schema ids of the records of one slot in one lap.

    Args:
        known: target ids that were looked up.

    ``unknown`` has the records with unknown ids that were copied.
    """

    def __init__(self, known: KnownSchemas) -> None:
        self._known = known
        self.unknown: list[UnknownSchemas] = []

    def take_whole(
        self, reader: PartitionReader, rule: SchemaRule, limit: int
    ) -> memoryview | None:
        """Take the partition's next batch, and return it with the target's ids.

        Returns:
            None if records of it have unknown ids and cannot be copied, or if it becomes larger
            than ``limit`` bytes (0 for no limit); nothing was taken.

        Raises:
            CorruptBatch: its bytes do not follow the format; nothing was taken.
            UnresolvedSchemas: ids were not looked up yet; nothing was taken.
        """
        batch = reader.ready[0]
        found = map_batch(batch, rule, self._known.of(reader.source.topic), limit)
        if found is None:
            return None
        if found.unknown:
            last = batch.base_offset + int(found.unknown.rows[-1])
            self.unknown.append(_count(reader, found.unknown, last))
            self._known.forget(reader.source.topic, found.unknown.by_row.values())
        reader.take()
        return found.view

    def map_records(
        self, reader: PartitionReader, records: Records, rule: SchemaRule
    ) -> RoutableRecords:
        """Return records of the partition's next batch with the target's ids; ``take`` follows.

        Raises:
            CorruptBatch: a record does not follow the format.
            UnresolvedSchemas: ids were not looked up yet.
        """
        found = map_records(records, rule, self._known.of(reader.source.topic))
        starts, lengths = found.key_starts, found.key_lengths
        if not found.unknown:
            return RoutableRecords(found.records, found.data, starts, lengths)
        rows, refused = found.unknown.rows, found.unknown.refused
        passes = rule.on_unknown == "passthrough"
        stops = [row for row in rows.tolist() if not passes or row in refused]
        if not stops:
            passed = _count(reader, found.unknown, int(records.offsets[rows[-1]]))
            self._known.forget(reader.source.topic, found.unknown.by_row.values())
            return RoutableRecords(found.records, found.data, starts, lengths, passed)
        first = stops[0]
        fault = self._fault(reader, found.unknown.by_row[first], int(records.offsets[first]))
        kept = found.records.take(np.arange(first))
        unknown: UnknownSchemas | None = None
        before = UnknownIds({r: found.unknown.by_row[r] for r in rows.tolist() if r < first})
        if before:
            unknown = _count(reader, before, int(records.offsets[before.rows[-1]]))
        return RoutableRecords(kept, found.data, starts[:first], lengths[:first], unknown, fault)

    def _fault(self, reader: PartitionReader, used: UsedId, offset: int) -> Fault:
        refusal = self._known.refusal(reader.source.topic, used)
        if refusal is not None:
            return partition_faults.refused_schema_fault(reader.source, refusal, used[0], offset)
        return partition_faults.unknown_schema_fault(reader.source, *used, offset)

    def take(self, reader: PartitionReader, found: RoutableRecords) -> None:
        """Take the next batch; only up to the record that stops the partition, if one does."""
        if found.unknown is not None:
            self.unknown.append(found.unknown)
        if found.fault is None:
            reader.take()
            return
        fault = found.fault
        reader.take_before(fault.offset)
        reader.stop(fault.kind, fault.message, fault.hint, fault.offset)


def _count(reader: PartitionReader, unknown: UnknownIds, last: int) -> UnknownSchemas:
    part, schema_id = unknown.by_row[int(unknown.rows[-1])]
    return UnknownSchemas(reader.source, len(unknown), last, part, schema_id.value)
