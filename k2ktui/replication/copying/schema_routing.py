"""Gives records the schema ids of the target's registry, before they are routed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from k2ktui.engine.schemas.ids import SchemaRule, describe_schema_id
from k2ktui.engine.transforms.dead_letters import describe_unknown_schema, schema_step
from k2ktui.engine.transforms.header_names import OriginHeader
from k2ktui.log.records import I64, U8, Records
from k2ktui.log.schema_id_batches import UnknownIds, map_batch, map_records
from k2ktui.log.schema_id_columns import UsedId
from k2ktui.replication.copying.dead_letters import make_letters
from k2ktui.replication.copying.known_schemas import KnownSchemas
from k2ktui.replication.copying.partition_faults import REFUSED_SCHEMA, UNKNOWN_SCHEMA
from k2ktui.replication.copying.partition_reader import PartitionReader
from k2ktui.replication.copying.slot_task import Fault, UnknownSchemas


@dataclass(frozen=True, slots=True)
class RoutableRecords:
    """The records of a partition's next batch as they are routed.

    Attributes:
        records: with their final ids.
        data: has their keys, each at ``key_starts`` with ``key_lengths`` (-1 for none).
        unknown: the records with an unknown id that were passed through or are dead letters, for
            the operator.
        fault: stops the partition after these records.
        letters: dead letters, of records that are not in ``records``.
    """

    records: Records
    data: U8
    key_starts: I64
    key_lengths: I64
    unknown: UnknownSchemas | None = None
    fault: Fault | None = None
    letters: Records | None = None


class SchemaIdStage:
    """Replaces the schema ids of the records of one slot in one lap.

    Args:
        known: target ids that were looked up.
        pipeline: name of the pipeline, for dead letters.
        origin: header that marks where records came from, for dead letters.
    """

    def __init__(
        self, known: KnownSchemas, pipeline: str, origin: OriginHeader | None = None
    ) -> None:
        self._known = known
        self._pipeline, self._origin = pipeline, origin

    def map_batch(
        self, reader: PartitionReader, rule: SchemaRule
    ) -> tuple[memoryview, UnknownSchemas | None] | None:
        """Return the partition's next batch with the target's ids.

        Returns:
            Its bytes, and the records with unknown ids that are passed through. None if records of
            it have unknown ids and cannot be copied.

        Raises:
            CorruptBatch: its bytes do not follow the format.
            UnresolvedSchemas: ids were not looked up yet.
        """
        batch = reader.ready.first
        mapped = map_batch(batch, rule, self._known.of(reader.source.topic))
        if mapped is None:
            return None
        if not mapped.unknown:
            return mapped.view, None
        last = batch.base_offset + int(mapped.unknown.rows[-1])
        self._known.forget(reader.source.topic, mapped.unknown.by_row.values())
        return mapped.view, _count(reader, mapped.unknown, last, rule)

    def map_records(
        self, reader: PartitionReader, records: Records, rule: SchemaRule
    ) -> RoutableRecords:
        """Return records of the partition's next batch with the target's ids.

        Raises:
            CorruptBatch: a record does not follow the format.
            UnresolvedSchemas: ids were not looked up yet.
        """
        mapped = map_records(records, rule, self._known.of(reader.source.topic))
        starts, lengths = mapped.key_starts, mapped.key_lengths
        if not mapped.unknown:
            return RoutableRecords(mapped.records, mapped.data, starts, lengths)
        by_row, refused = mapped.unknown.by_row, mapped.unknown.refused
        stops = [row for row in sorted(by_row) if rule.on_unknown == "fail" or row in refused]
        fault: Fault | None = None
        end = len(records)
        if stops:
            end = stops[0]
            fault = self._fault(reader, by_row[end], int(records.offsets[end]))
        kept = np.arange(end)
        letters: Records | None = None
        unknown: UnknownSchemas | None = None
        others = UnknownIds({row: used for row, used in by_row.items() if row < end})
        if others:
            last = int(records.offsets[others.rows[-1]])
            unknown = _count(reader, others, last, rule)
            if rule.on_unknown == "deadLetter":
                letters = self._make_letters(reader, records, others)
                kept = np.delete(kept, others.rows)
            self._known.forget(reader.source.topic, others.by_row.values())
        return RoutableRecords(
            mapped.records.take(kept),
            mapped.data,
            starts[kept],
            lengths[kept],
            unknown,
            fault,
            letters,
        )

    def _make_letters(
        self, reader: PartitionReader, records: Records, unknown: UnknownIds
    ) -> Records:
        """Return the dead letters of records with unknown ids, which are as on the source."""
        rows = unknown.rows
        used = [unknown.by_row[row] for row in rows.tolist()]
        causes = [(schema_step(part), describe_unknown_schema(part, id_)) for part, id_ in used]
        return make_letters(reader, records.take(rows), causes, self._pipeline, self._origin)

    def _fault(self, reader: PartitionReader, used: UsedId, offset: int) -> Fault:
        source, (part, schema_id) = reader.source, used
        refusal = self._known.refusal(source.topic, used)
        if refusal is not None:
            reason, fix = refusal.message, refusal.hint
            return REFUSED_SCHEMA.at(source, offset, part=part, reason=reason, fix=fix)
        described = describe_schema_id(schema_id)
        return UNKNOWN_SCHEMA.at(source, offset, part=part, schema_id=described)


def _count(
    reader: PartitionReader, unknown: UnknownIds, last: int, rule: SchemaRule
) -> UnknownSchemas:
    part, schema_id = unknown.by_row[int(unknown.rows[-1])]
    dead = reader.assignment.route.dead_letters
    topic = dead.topic if dead is not None and rule.on_unknown == "deadLetter" else ""
    return UnknownSchemas(reader.source, len(unknown), last, part, schema_id.value, topic)
