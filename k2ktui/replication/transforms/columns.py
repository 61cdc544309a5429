"""Columns of decoded values: what decodes and encodes them, and whether their types fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from k2ktui.log.record_columns import Places
from k2ktui.replication.transforms.avro_types import AvroType
from k2ktui.text import safe_text

if TYPE_CHECKING:
    import pyarrow as pa

    from k2ktui.registry.lookup_limit import LookupLimit

# Spark's types whose values an Avro type takes, beside its own.
_WIDENED = {
    "int": ("tinyint", "smallint"),
    "bigint": ("tinyint", "smallint", "int"),
    "float": ("tinyint", "smallint"),
    "double": ("tinyint", "smallint", "int", "float"),
}
_VOID = "void"


class MismatchedType(ValueError):
    """A column does not have the type that a schema wants; the text names the field."""


class ValueCodec(Protocol):
    """Makes a column of encoded values, and bytes of a column's values."""

    @property
    def type(self) -> AvroType:
        """The column's type."""

    def decode(self, values: pa.BinaryArray, limit: LookupLimit | None = None) -> pa.Array:
        """Return a value for each; null where it is null or cannot be decoded.

        Args:
            values: encoded values.
            limit: how long look-ups of schemas may take; None for the usual time.

        Raises:
            ConnectionFailed, LoginFailed: a registry did not give a schema.
        """

    def encode(self, column: pa.Array) -> tuple[list[bytes | None], list[int]]:
        """Return the bytes of each value, and the rows that cannot be encoded."""


def slices(body: bytes | pa.Buffer, places: Places) -> pa.BinaryArray:
    """Return parts of bytes as a column; null where the length is negative."""
    import pyarrow as pa

    starts, lengths = places
    # Every other value is a part; those between are what separates them.
    bounds = np.empty(2 * len(starts) + 1, dtype=np.int32)
    bounds[0:-1:2] = starts
    bounds[1::2] = starts + np.maximum(lengths, 0)
    bounds[-1] = len(body)
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(body)]
    spread = pa.Array.from_buffers(pa.binary(), 2 * len(starts), buffers)
    return spread.take(pa.array(np.arange(0, 2 * len(starts), 2), mask=lengths < 0))


def make_column(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Return values as a column; null for those that the type does not have."""
    import pyarrow as pa

    try:
        return pa.array(values, kind)
    except (pa.ArrowException, ValueError, OverflowError):
        if len(values) == 1:
            return pa.nulls(1, kind)
        return pa.concat_arrays([make_column([value], kind) for value in values])


def encode_column(
    column: pa.Array, encode: Callable[[Any], bytes]
) -> tuple[list[bytes | None], list[int]]:
    """Return what a function makes of each value, and the rows for which it raises an error."""
    encoded: list[bytes | None] = []
    failed = []
    for row, value in enumerate(column.cast(to_plain_type(column.type)).to_pylist()):
        made = None
        if value is not None:
            try:
                made = encode(value)
            except Exception:  # the libraries check types in many ways
                failed.append(row)
        encoded.append(made)
    return encoded, failed


def values_of(column: pa.Array) -> list[Any]:
    """Return the values of a column; times that Python does not have as numbers."""
    try:
        values: list[Any] = column.to_pylist()
    except (ValueError, OverflowError):
        values = column.cast(to_plain_type(column.type)).to_pylist()
    return values


def check_type(actual: Any, wanted: AvroType, path: str) -> None:
    """Raise MismatchedType unless values of a type of Spark can be written as ``wanted``."""
    name = actual.simpleString()
    if wanted.kind == "struct" and name.startswith("struct<"):
        given = {field.name: field.dataType for field in actual.fields}
        for field in wanted.fields:
            if field.name in given:
                check_type(given.pop(field.name), field.type, f"{path}.{field.name}")
            elif not field.has_default:
                raise MismatchedType(
                    f"the schema has the field {path}.{field.name} without a default, and the "
                    "column does not have it"
                )
        for unknown in given:
            raise MismatchedType(
                f"the column has the field {path}.{safe_text(unknown)}, and the schema does not "
                "have it; drop it, or use another schema"
            )
        return
    if wanted.item is not None and name.startswith(f"{wanted.kind}<"):
        is_map = wanted.kind == "map"
        if not is_map or actual.keyType.simpleString() == "string":
            inner = actual.valueType if is_map else actual.elementType
            check_type(inner, wanted.item, f"{path}{'{}' if is_map else '[]'}")
            return
    if name == _VOID and wanted.nullable:
        return
    if name.startswith("decimal") and wanted.kind.startswith("decimal"):
        if actual.scale <= wanted.scale:
            return
    elif name == wanted.kind or name in _WIDENED.get(wanted.kind, ()):
        return
    raise MismatchedType(
        f"{path} is {name.upper()}, and the schema wants {wanted.ddl}; cast it in set"
    )


def to_plain_type(kind: pa.DataType) -> pa.DataType:
    """Return a type whose values Python has whole: dates and timestamps as numbers."""
    import pyarrow as pa

    if pa.types.is_struct(kind):
        return pa.struct([(field.name, to_plain_type(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, to_plain_type(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(to_plain_type(kind.value_type))
    if pa.types.is_timestamp(kind):
        return pa.int64()
    return pa.int32() if pa.types.is_date32(kind) else kind
