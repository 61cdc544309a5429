"""How a data class is a record of a topic: each field is declared once, with its name and type.

Records that others may write are untrusted: a type reads with exact types and bounds, and raises
``MalformedRecord``. Executors of a Spark cluster write records, too, so this is no pydantic.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from operator import attrgetter
from typing import Any, Generic, TypeVar

from k2ktui.engine.strict_json import (
    LARGEST_INT,
    LARGEST_MS,
    MOST,
    MalformedRecord,
    flag,
    integer,
    items,
    mapping,
    rows,
    text,
)

T = TypeVar("T")
_NONE: Any = object()


@dataclass(frozen=True, slots=True)
class WireType:
    """What a value of a record is: how it is read, and what is written for it if not itself."""

    read: Callable[[Any], Any]
    write: Callable[[Any], Any] | None = None

    def dump(self, value: Any) -> Any:
        """Return what is written for a value."""
        return value if self.write is None else self.write(value)


TEXT, FLAG, COUNT = WireType(text), WireType(flag), WireType(integer)


def whole(low: int = 0, *, high: int) -> WireType:
    """Return the type of a whole number within bounds."""
    return WireType(lambda value: integer(value, low, high))


NUMBER, MILLIS = whole(high=LARGEST_INT), whole(high=LARGEST_MS)


def or_none(of: WireType) -> WireType:
    """Return the type of a value that may be null."""
    return WireType(
        lambda value: None if value is None else of.read(value),
        None if of.write is None else lambda value: None if value is None else of.dump(value),
    )


def word(of: type[Enum], what: str, *, never: Enum | None = None) -> WireType:
    """Return the type of a word; ``what`` names it where it is an unknown one."""
    words = {member.value: member for member in of if member is not never}

    def read(value: object) -> Enum:
        name = text(value)
        if name not in words:
            raise MalformedRecord(f"an unknown {what}")
        return words[name]

    return WireType(read, lambda member: str(member.value))


def list_of(of: WireType, most: int = MOST) -> WireType:
    """Return the type of a list, a tuple here."""
    write = of.write
    return WireType(
        lambda value: tuple([of.read(item) for item in items(value, most)]),
        None if write is None else lambda values: [write(item) for item in values],
    )


def map_of(of: WireType) -> WireType:
    """Return the type of an object with any names; they are sorted."""
    return WireType(
        lambda value: {text(name): of.read(item) for name, item in mapping(value).items()},
        lambda values: {name: of.dump(item) for name, item in sorted(values.items())},
    )


def row_of(kind: Callable[..., Any], /, **columns: WireType) -> WireType:
    """Return the type of an array with these fields of a data class, in this order."""
    values, row = attrgetter(*columns), tuple_of(*columns.values())
    return WireType(lambda value: kind(*row.read(value)), lambda record: row.dump(values(record)))


def tuple_of(*columns: WireType) -> WireType:
    """Return the type of an array of these values."""

    def read(value: object) -> tuple[Any, ...]:
        (row,) = rows([value], len(columns))
        return tuple([column.read(item) for column, item in zip(columns, row, strict=True)])

    def write(values: Sequence[Any]) -> list[Any]:
        return [column.dump(item) for column, item in zip(columns, values, strict=True)]

    return WireType(read, None if all(column.write is None for column in columns) else write)


def table_of(
    key: WireType, of: WireType, *, columns: tuple[int, int], most: int = MOST
) -> WireType:
    """Return the type of a mapping that is written as rows, sorted by the key.

    Args:
        key: the key, the first columns of a row.
        of: the value, the rest of it.
        columns: number of columns of both; 1 stands for the key or value itself.
        most: number of rows.
    """
    first, rest = columns

    def read(value: object) -> dict[Any, Any]:
        pairs = (
            (row[0] if first == 1 else row[:first], row[first] if rest == 1 else row[first:])
            for row in rows(value, first + rest, most=most)
        )
        return {key.read(at): of.read(item) for at, item in pairs}

    def write(values: Mapping[Any, Any]) -> list[list[Any]]:
        written = []
        for at, value in sorted(values.items(), key=lambda item: item[0]):
            begin, end = key.dump(at), of.dump(value)
            written.append([*([begin] if first == 1 else begin), *([end] if rest == 1 else end)])
        return written

    return WireType(read, write)


@dataclass(frozen=True, slots=True)
class WireField:
    """A field of a record.

    Attributes:
        name: its name in the record.
        type: what it is there.
        default: what counts if it is not there.
        left_out: the value that is not written.
        unless: the records in which it is not written, whatever its value.
    """

    name: str
    type: WireType
    default: Any = _NONE
    left_out: Any = _NONE
    unless: Callable[[Any], bool] | None = None


def required(name: str, type_: WireType) -> WireField:
    """Declare a field that every record has."""
    return WireField(name, type_)


def defaulted(name: str, type_: WireType, default: Any) -> WireField:
    """Declare a field that is always written, and may be missing."""
    return WireField(name, type_, default)


def optional(
    name: str, type_: WireType, default: Any, *, unless: Callable[[Any], bool] | None = None
) -> WireField:
    """Declare a field that is not written where it has the default, or ``unless`` of a record."""
    return WireField(name, type_, default, default if unless is None else _NONE, unless)


def object_of(wire: Wire[Any]) -> WireType:
    """Return the type of an object with these fields."""
    return WireType(lambda value: wire.read(mapping(value)), wire.write)


class Wire(Generic[T]):
    """One kind of record: a data class, and how its fields are written.

    Args:
        kind: the data class.
        declared: its fields. What the caller passes to ``read`` is in the key, and not declared.
    """

    def __init__(self, kind: Callable[..., T], /, **declared: WireField) -> None:
        self._kind = kind
        # Slots write positions by the thousand: nothing is looked up twice.
        self._reads = [(of, one.name, one.type.read, one.default) for of, one in declared.items()]
        self._writes = [
            (of, one.name, one.type.write, one.left_out, one.unless) for of, one in declared.items()
        ]

    def write(self, record: T) -> dict[str, Any]:
        """Return the fields of a record."""
        body = {}
        for of, name, write, left_out, unless in self._writes:
            value = getattr(record, of)
            if (left_out is not _NONE and value == left_out) or (unless and unless(record)):
                continue
            body[name] = value if write is None else write(value)
        return body

    def read(self, body: Mapping[str, Any], /, **in_key: Any) -> T:
        """Return the record; raises MalformedRecord."""
        for of, name, read, default in self._reads:
            if name in body:
                in_key[of] = read(body[name])
            elif default is _NONE:
                raise MalformedRecord(f"no field {name}")
            else:
                in_key[of] = default
        return self._kind(**in_key)
