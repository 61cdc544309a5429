"""Parses JSON values as Arrow columns where the result is certain to be that of ``from_json``.

PyArrow needs a fraction of Spark's CPU time. Values that it rejects, or might read differently from
Spark, are null here; Spark parses those, and also decides which of them are errors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from k2ktui.log.records import I64
from k2ktui.replication.transforms.columns import slices

if TYPE_CHECKING:
    import pyarrow as pa

#: Length of a schema's id before a value, with the zero byte before it.
ID_BYTES = 5
# Below Jackson's limits of nesting, and of the length of numbers and names.
_LONGEST_BYTES = 1000
_OPENING, _CLOSING = ord("{"), ord("}")
# Surrogates, and numbers that are not finite: the parsers accept different forms of them.
_DIFFERING = (b"\\u", b"NaN", b"Inf")


@dataclass(frozen=True, slots=True)
class JsonParser:
    """Parses JSON objects.

    Attributes:
        schema: has the columns.
        has_id: a zero byte and a schema's id in 4 bytes stand before each object.
    """

    schema: pa.Schema
    has_id: bool = False

    def parse(self, values: pa.BinaryArray) -> pa.StructArray:
        """Return a struct for each value, null if it is null or must be parsed by Spark."""
        import pyarrow as pa

        values = _after_ids(values) if self.has_id else values
        rows = _rows_of_objects(values)
        outcome = self._parse(values if len(rows) == len(values) else values.take(rows), rows)
        if outcome is None:
            return pa.nulls(len(values), pa.struct(self.schema))
        parsed, rows = outcome
        if len(rows) == len(values):
            return parsed
        at = np.full(len(values), -1, dtype=np.int64)
        at[rows] = np.arange(len(rows))
        return parsed.take(pa.array(at, mask=at < 0))

    def _parse(self, values: pa.BinaryArray, rows: I64) -> tuple[pa.StructArray, I64] | None:
        """Return the structs of these rows, or of those that both parsers read in the same way."""
        import pyarrow as pa
        from pyarrow import json

        text = _join(values)
        for mark in _DIFFERING:
            if mark[:1] in text and mark in text:  # to look for one byte is much faster
                values, rows = _without(mark, values, rows)
                text = _join(values)
        if not text:
            return None
        try:
            values.cast(pa.string())  # PyArrow's parser accepts what is not UTF-8
            table = json.read_json(
                pa.BufferReader(text),
                json.ReadOptions(use_threads=False, block_size=len(text) + 1),
                json.ParseOptions(explicit_schema=self.schema, unexpected_field_behavior="ignore"),
            )
        except pa.ArrowInvalid:
            return None
        if table.num_rows != len(rows):  # a value with several objects
            return None
        columns = [table.column(name).combine_chunks() for name in self.schema.names]
        if any(map(_has_negative_zero, columns)):  # Spark reads -0 as 0.0, and -0.0 as it is
            return None
        return pa.StructArray.from_arrays(columns, fields=list(self.schema)), rows


def make_json_parser(schema: Any, *, has_id: bool = False) -> JsonParser | None:
    """Return a parser for a type of Spark; None for what only Spark parses."""
    import pyarrow as pa

    arrow_type = _arrow_type(schema) if schema.typeName() == "struct" else None
    return None if arrow_type is None else JsonParser(pa.schema(list(arrow_type)), has_id)


def _arrow_type(kind: Any) -> pa.DataType | None:
    import pyarrow as pa

    simple = {
        "bigint": pa.int64(),
        "boolean": pa.bool_(),
        "double": pa.float64(),
        "int": pa.int32(),
        "string": pa.string(),
    }
    if kind.typeName() != "struct":
        return simple.get(kind.simpleString())
    names = [field.name for field in kind.fields]
    types = [_arrow_type(field.dataType) for field in kind.fields]
    # Spark ignores the case of names, and has a meaning of its own for one of them.
    different = len({name.lower() for name in names}) == len(names) > 0
    if not different or None in types or "_corrupt_record" in names:
        return None
    return pa.struct(list(zip(names, types, strict=True)))


def _after_ids(values: pa.BinaryArray) -> pa.BinaryArray:
    """Return what follows the schema ids; null for values without one."""
    _, offsets, data = values.buffers()
    if data is None or not len(values):
        return values
    bounds = np.frombuffer(offsets, dtype=np.int32)[values.offset :][: len(values) + 1]
    starts, ends = bounds[:-1], bounds[1:]
    rows = np.flatnonzero(ends - starts >= ID_BYTES)
    rows = rows[np.frombuffer(data, dtype=np.uint8)[starts[rows]] == 0]
    lengths = np.full(len(values), -1, dtype=np.int64)
    lengths[rows] = (ends - starts)[rows] - ID_BYTES
    return slices(data, (np.where(lengths < 0, starts, starts + ID_BYTES), lengths))


def _rows_of_objects(values: pa.BinaryArray) -> I64:
    """Return the rows of short values that begin and end as objects do."""
    _, offsets, data = values.buffers()
    if data is None or not len(values):
        return np.empty(0, dtype=np.int64)
    bounds = np.frombuffer(offsets, dtype=np.int32)[values.offset :][: len(values) + 1]
    text = np.frombuffer(data, dtype=np.uint8)
    starts, lengths = bounds[:-1], np.diff(bounds)
    rows = np.flatnonzero((lengths > 1) & (lengths <= _LONGEST_BYTES))
    first, last = text[starts[rows]], text[starts[rows] + lengths[rows] - 1]
    objects: I64 = rows[(first == _OPENING) & (last == _CLOSING)]
    return objects


def _has_negative_zero(column: pa.Array) -> bool:
    import pyarrow as pa

    if pa.types.is_struct(column.type):
        return any(map(_has_negative_zero, column.flatten()))
    if not pa.types.is_floating(column.type):
        return False
    numbers = column.drop_null().to_numpy()
    return bool(np.signbit(numbers[numbers == 0]).any())


def _join(values: pa.BinaryArray) -> bytes:
    """Return values as lines; no string contains a line break, so none continues in the next."""
    import pyarrow as pa
    import pyarrow.compute as pc

    lines = pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)
    joined: bytes = pc.binary_join(lines, b"\n")[0].as_py()
    return joined


def _without(mark: bytes, values: pa.BinaryArray, rows: I64) -> tuple[pa.BinaryArray, I64]:
    import pyarrow.compute as pc

    has_mark = pc.match_substring(values, mark).to_numpy(zero_copy_only=False)
    kept = np.flatnonzero(~has_mark)
    return values.take(kept), rows[kept]
