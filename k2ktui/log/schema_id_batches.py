"""Other schema ids in whole batches and in decoded records, without taking records apart."""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np

from k2ktui.engine.schemas.ids import SchemaRule
from k2ktui.log.batch import (
    COMPRESSION_MASK,
    HEADER_BYTES,
    PREFIX_BYTES,
    Batch,
    CorruptBatch,
)
from k2ktui.log.compress import compress
from k2ktui.log.records import I64, U8, Records, locate_records
from k2ktui.log.schema_id_columns import (
    REFUSED,
    KnownIds,
    RecordBuffer,
    RecordIds,
    UsedId,
    find_record_ids,
)

_LENGTH_AT = 8


class UnresolvedSchemas(Exception):
    """Records have ids that were not looked up yet; nothing was changed."""

    def __init__(self, ids: frozenset[UsedId]) -> None:
        super().__init__(ids)
        self.ids = ids


@dataclass(frozen=True, slots=True)
class UnknownIds:
    """Ids that have no target id, by the rows of the records that have them.

    Attributes:
        by_row: one of them for each row.
        refused: the rows with an id of a schema that the target lacks.
    """

    by_row: dict[int, UsedId]
    refused: frozenset[int] = frozenset()

    def __len__(self) -> int:
        return len(self.by_row)

    @property
    def rows(self) -> I64:
        """The rows, ascending."""
        return np.array(sorted(self.by_row), dtype=np.int64)


@dataclass(frozen=True, slots=True)
class MappedBatch:
    """A batch with the target's ids.

    Attributes:
        view: its bytes; those of the source batch if it was not compressed. The checksum is wrong.
        is_changed: whether an id has changed.
        unknown: its ids without a target id.
    """

    view: memoryview
    is_changed: bool
    unknown: UnknownIds


@dataclass(frozen=True, slots=True)
class MappedRecords:
    """Records with the target's ids; ``unknown`` as in :class:`MappedBatch`.

    ``data`` has the keys, each at ``key_starts`` with ``key_lengths`` (-1 for none).
    """

    records: Records
    data: U8
    key_starts: I64
    key_lengths: I64
    unknown: UnknownIds


def map_batch(batch: Batch, rule: SchemaRule, known: KnownIds) -> MappedBatch | None:
    """Replace the schema ids of a v2 batch.

    Args:
        batch: the batch; changed in place if it is not compressed.
        rule: whose ids are replaced.
        known: target ids.

    Returns:
        None if it has ids without a target id and the rule does not pass such records through;
        nothing was changed.

    Raises:
        CorruptBatch: its bytes do not follow the format.
        UnresolvedSchemas: ids are not in ``known``.
    """
    try:
        located = locate_records((batch,))
    except CorruptBatch as error:
        raise CorruptBatch(f"the batch at offset {batch.base_offset}: {error}") from error
    body, tails, ends = located.body, located.tail_starts, located.tail_ends
    buffer = RecordBuffer(np.frombuffer(body, dtype=np.uint8), body, tails, ends)
    ids = find_record_ids(buffer, rule.parts)
    used = _resolved(ids, known)
    unknown = _unknown(ids, used)
    if unknown.refused or (len(unknown) and rule.on_unknown != "passthrough"):
        return None
    if not _changes(used):
        return MappedBatch(batch.view, False, unknown)
    codec = batch.attributes & COMPRESSION_MASK
    if not codec:
        # The records end with the batch, whether its header is in front of them in ``body`` or not.
        ids.replace(np.frombuffer(batch.view, dtype=np.uint8)[-len(body) :], used)
        return MappedBatch(batch.view, True, unknown)
    changed = bytearray(body)
    ids.replace(np.frombuffer(changed, dtype=np.uint8), used)
    data = bytearray(batch.view[:HEADER_BYTES])
    data += compress(codec, bytes(changed))
    struct.pack_into(">i", data, _LENGTH_AT, len(data) - PREFIX_BYTES)
    return MappedBatch(memoryview(data), True, unknown)


def map_records(records: Records, rule: SchemaRule, known: KnownIds) -> MappedRecords:
    """Replace the schema ids of records; ids without a target id stay.

    Raises:
        CorruptBatch: a record does not follow the format.
        UnresolvedSchemas: ids are not in ``known``.
    """
    lengths = np.fromiter(map(len, records.tails), dtype=np.int64, count=len(records))
    ends = np.cumsum(lengths)
    starts = ends - lengths
    raw = b"".join(records.tails)
    ids = find_record_ids(
        RecordBuffer(np.frombuffer(raw, dtype=np.uint8), raw, starts, ends), rule.parts
    )
    used = _resolved(ids, known)
    if _changes(used):
        changed = bytearray(raw)
        ids.replace(np.frombuffer(changed, dtype=np.uint8), used)
        raw = bytes(changed)
        tails = [raw[s:e] for s, e in zip(starts.tolist(), ends.tolist(), strict=True)]
        records = Records(records.offsets, records.timestamps, tails)
    data = np.frombuffer(raw, dtype=np.uint8)
    unknown = _unknown(ids, used)
    return MappedRecords(records, data, ids.key_starts, ids.key_lengths, unknown)


def _resolved(ids: RecordIds, known: KnownIds) -> KnownIds:
    """Return the target ids of those that are used.

    Raises:
        UnresolvedSchemas: one of them was not looked up yet.
    """
    used = ids.used()
    missing = frozenset(used_id for used_id in used if used_id not in known)
    if missing:
        raise UnresolvedSchemas(missing)
    return {used_id: known[used_id] for used_id in used}


def _unknown(ids: RecordIds, used: KnownIds) -> UnknownIds:
    missing = sorted((used_id for used_id, target in used.items() if not target), key=str)
    # An id of a schema that the target lacks comes last, and so is the one that counts.
    missing.sort(key=lambda used_id: used[used_id] == REFUSED)
    rows = {used_id: ids.rows_with(used_id).tolist() for used_id in missing}
    return UnknownIds(
        {row: used_id for used_id in missing for row in rows[used_id]},
        frozenset(row for used_id in missing if used[used_id] == REFUSED for row in rows[used_id]),
    )


def _changes(used: KnownIds) -> bool:
    return any(target and target != schema_id.value for (_, schema_id), target in used.items())
