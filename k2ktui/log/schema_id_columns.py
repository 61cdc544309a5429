"""The schema ids of a batch's records: found by columns, looked up, and replaced in place.

``engine/schemas/ids.py`` has the forms of ids. All have a fixed width, so no byte moves.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from k2ktui.engine.schemas.columns import PayloadIds, find_payload_ids, write_payload_ids
from k2ktui.engine.schemas.ids import (
    ID_HEADERS,
    SchemaId,
    SchemaIdForm,
    SchemaPart,
    encode_schema_id,
    find_schema_ids,
)
from k2ktui.log.batch import CorruptBatch
from k2ktui.log.records import I64, U8
from k2ktui.log.varints import read_varint, read_varints

UsedId = tuple[SchemaPart, SchemaId]
#: Target ids of source ids; None for an id that the source's registry does not know.
KnownIds = Mapping[UsedId, int | None]
#: In place of the target id of a schema that the target lacks: its records are never copied.
REFUSED = 0

# What every name in ID_HEADERS contains: a search for it in a whole batch costs less than parsing.
_MARKS = (b"_schema_id", b"apicurio.")


@dataclass(frozen=True, slots=True)
class RecordBuffer:
    """Records in one buffer.

    Attributes:
        data: the buffer; ``raw`` has the same bytes.
        raw: for searches.
        tails: where the key, value and headers of each record begin.
        ends: where each record ends.
    """

    data: U8
    raw: bytes
    tails: I64
    ends: I64


@dataclass(frozen=True, slots=True)
class _PartIds:
    part: SchemaPart
    starts: I64
    payload_ids: PayloadIds


@dataclass(frozen=True, slots=True)
class _HeaderId:
    """An id in a header: its record's row, and where the header's value begins."""

    row: int
    part: SchemaPart
    id: SchemaId
    at: int


@dataclass(frozen=True, slots=True)
class RecordIds:
    """The schema ids of a buffer's records.

    Attributes:
        key_starts, key_lengths: the records' keys; length -1 for none.
    """

    payloads: tuple[_PartIds, ...]
    headers: tuple[_HeaderId, ...]
    key_starts: I64
    key_lengths: I64

    def used(self) -> set[UsedId]:
        """Return the distinct ids."""
        distinct = {(header.part, header.id) for header in self.headers}
        for payload in self.payloads:
            ids, is_long = payload.payload_ids.ids, payload.payload_ids.is_long
            if is_long.any():
                distinct |= {
                    (payload.part, SchemaId(SchemaIdForm.LONG_PREFIX, value))
                    for value in np.unique(ids[is_long]).tolist()
                }
                ids = ids[~is_long]
            alike = len(ids) and bool((ids == ids[0]).all())
            for value in (ids[:1] if alike else np.unique(ids)).tolist():
                distinct.add((payload.part, SchemaId(SchemaIdForm.PREFIX, value)))
        return distinct

    def rows_with(self, used: UsedId) -> I64:
        """Return the rows of the records that have an id."""
        part, schema_id = used
        rows = [header.row for header in self.headers if (header.part, header.id) == used]
        row_arrays: list[I64] = [np.array(rows, dtype=np.int64)]
        if _is_in_payload(schema_id):
            row_arrays += [
                payload.payload_ids.rows[_mask(payload.payload_ids, schema_id)]
                for payload in self.payloads
                if payload.part is part
            ]
        return np.concatenate(row_arrays)

    def replace(self, data: U8, known: KnownIds) -> None:
        """Write the target ids into the buffer; ids without a target id stay.

        Raises:
            ValueError: an id does not fit into the bytes of the one that it replaces.
        """
        for payload in self.payloads:
            ids = payload.payload_ids.ids.copy()
            for (part, schema_id), target in known.items():
                if part is payload.part and target and _is_in_payload(schema_id):
                    ids[_mask(payload.payload_ids, schema_id)] = target
            if (ids != payload.payload_ids.ids).any():
                write_payload_ids(data, payload.starts, payload.payload_ids, ids)
        for header in self.headers:
            target = known.get((header.part, header.id))
            if target:
                encoded = encode_schema_id(SchemaId(header.id.form, target))
                data[header.at : header.at + len(encoded)] = np.frombuffer(encoded, dtype=np.uint8)


def find_record_ids(records: RecordBuffer, parts: Collection[SchemaPart]) -> RecordIds:
    """Return the schema ids of these parts of the records.

    Raises:
        CorruptBatch: a record is shorter than what is in it.
    """
    data, ends = records.data, records.ends
    try:
        key_lengths, keys = read_varints(data, records.tails)
        value_lengths, values = read_varints(data, keys + np.maximum(key_lengths, 0))
    except IndexError as error:
        raise CorruptBatch("a record is truncated") from error
    headers_at = values + np.maximum(value_lengths, 0)
    if (headers_at >= ends).any() or (key_lengths < -1).any() or (value_lengths < -1).any():
        raise CorruptBatch("a record is shorter than what is in it")
    columns = {SchemaPart.KEY: (keys, key_lengths), SchemaPart.VALUE: (values, value_lengths)}
    in_headers = tuple(_header_ids(records, parts, columns, headers_at))
    payloads = []
    for part in parts:
        starts, lengths = columns[part]
        payload_ids = find_payload_ids(data, starts, lengths)
        elsewhere = [header.row for header in in_headers if header.part is part]
        if elsewhere:
            kept = ~np.isin(payload_ids.rows, elsewhere)
            payload_ids = PayloadIds(
                payload_ids.rows[kept], payload_ids.ids[kept], payload_ids.is_long[kept]
            )
        if len(payload_ids):
            payloads.append(_PartIds(part, starts, payload_ids))
    return RecordIds(tuple(payloads), in_headers, keys, key_lengths)


def _header_ids(
    records: RecordBuffer,
    parts: Collection[SchemaPart],
    columns: Mapping[SchemaPart, tuple[I64, I64]],
    headers_at: I64,
) -> Iterator[_HeaderId]:
    rows = np.flatnonzero(records.data[headers_at] != 0)
    if not len(rows) or not any(mark in records.raw for mark in _MARKS):
        return
    for row in rows.tolist():
        at, end = int(headers_at[row]), int(records.ends[row])
        if not any(records.raw.find(mark, at, end) >= 0 for mark in _MARKS):
            continue
        headers, places = _read_headers(records.raw, at, end)
        for part in parts:
            starts, lengths = columns[part]
            length, start = int(lengths[row]), int(starts[row])
            payload = records.raw[start : start + length] if length >= 0 else None
            for schema_id in find_schema_ids(part, payload, headers):
                if _is_in_payload(schema_id):
                    continue
                names = {n for n, forms in ID_HEADERS[part].items() if schema_id.form in forms}
                last = max(i for i, (name, _) in enumerate(headers) if name in names)
                yield _HeaderId(row, part, schema_id, places[last])


def _read_headers(
    raw: bytes, at: int, end: int
) -> tuple[list[tuple[str, bytes | None]], list[int]]:
    """Return the headers of a record, and where the value of each begins."""
    headers: list[tuple[str, bytes | None]] = []
    places = []
    try:
        count, at = read_varint(raw, at)
        for _ in range(count):
            length, at = read_varint(raw, at)
            name, at = raw[at : at + length], at + length
            length, at = read_varint(raw, at)
            places.append(at)
            value = raw[at : at + length] if length >= 0 else None
            headers.append((name.decode("utf-8", "surrogateescape"), value))
            at += max(0, length)
    except IndexError as error:
        raise CorruptBatch("the headers of a record are missing or damaged") from error
    if at != end:
        raise CorruptBatch("the headers of a record are missing or damaged")
    return headers, places


def _is_in_payload(schema_id: SchemaId) -> bool:
    return schema_id.form in (SchemaIdForm.PREFIX, SchemaIdForm.LONG_PREFIX)


def _mask(payload_ids: PayloadIds, schema_id: SchemaId) -> NDArray[np.bool_]:
    is_long = schema_id.form is SchemaIdForm.LONG_PREFIX
    mask: NDArray[np.bool_] = (payload_ids.ids == schema_id.value) & (
        payload_ids.is_long == is_long
    )
    return mask
