"""Convert views to and from JSON, for recordings and ``k2ktui watch --json``.

Fields are those that the classes of a view declare: one that is added there is recorded, and has
its default in recordings without it. Wide rows are tables (``columns`` once, then ``rows``),
because there are thousands.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from enum import StrEnum
from functools import cache, partial
from operator import attrgetter
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from k2ktui.engine.compare.record import COMPARISON_WIRE, ComparisonRecord
from k2ktui.engine.drill.objectives import Objectives
from k2ktui.engine.moves.audit import Audit, AuditRow
from k2ktui.engine.moves.groups import GroupRow
from k2ktui.engine.moves.ratings import GroupSummary, rate_groups
from k2ktui.engine.strict_json import (
    LARGEST,
    MalformedRecord,
    field,
    flag,
    integer,
    items,
    mapping,
    number,
    parse_object,
    rows,
)
from k2ktui.engine.strict_json import text as strict_text
from k2ktui.watch.model import PartitionRow, Point, View

VERSION = 1
LARGEST_VIEW = 256 << 20
Read = Callable[[Any], Any]

_TABLES = (PartitionRow, GroupRow, Point, AuditRow)
# Drills have records of their own, with more than a view shows; ratings follow from the rows.
_NOT_RECORDED: Mapping[Any, tuple[str, ...]] = {
    View: ("drills", "rehearsals"),
    GroupSummary: ("rating",),
}
# Left out where there is none, and never null.
_OPTIONAL = ("objectives", "last_comparison", "audit")
# Recordings have one column under its first name.
_STORED = {"lag_s": "lag_seconds"}
# What every recording of this version has: a damaged view is not read as one without problems.
_REQUIRED: Mapping[Any, tuple[str, ...]] = {
    View: (
        *("source", "target", "partitions", "groups", "summaries", "commits_at", "source_down"),
        *("runners", "journal", "totals", "points", "notes"),
    ),
    PartitionRow: ("why", "rate", "direction", "eta_s", "spans", "gaps", "ranges"),
}
# Later releases add fields to these; they are not read.
_EXTENDED = (View, PartitionRow, Objectives, Audit)
# Numbers of these are not negative.
_NOT_NEGATIVE = (View, Objectives)


class MalformedView(ValueError):
    """The text is not a view, or has a version that this program does not read."""


def dumps(view: View) -> str:
    """Return a view as one line of JSON."""
    value = {"v": VERSION, **_encode(view)}
    for name in _OPTIONAL:
        if not value[name]:
            del value[name]
    if view.objectives:
        missed = [*view.missed_rpo, *view.missed_rto]
        value["objectives"] = {**_encode(view.objectives), "missed": missed}
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_encode)


def loads(text: str | bytes) -> View:
    """Return the view in a text.

    Raises:
        MalformedView: the text is not a view.
    """
    try:
        value = parse_object(text, "the view", largest=LARGEST_VIEW)
        if (version := value["v"]) != VERSION:
            raise MalformedView(f"version {version!r:.40}, this release reads version {VERSION}")
        for name in value.keys() & _OPTIONAL:
            mapping(value[name])
        view: View = _decode(View, value)
        return replace(view, summaries=rate_groups(view.summaries, view.groups))
    except MalformedView:
        raise
    except MalformedRecord as error:
        raise MalformedView(f"not a view: {error}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise MalformedView(f"not a view: {type(error).__name__}") from error


def _encode(value: Any) -> dict[str, Any]:
    """Return an object's fields; those that are objects, too, are encoded in their turn."""
    if isinstance(value, ComparisonRecord):
        return COMPARISON_WIRE.write(value)
    encoded = {}
    kind: Any = type(value)
    for name, hint in _hints(kind).items():
        encoded[name] = getattr(value, name)
        if (of_rows := _row_kind(hint)) is not None:
            columns = _columns(of_rows)
            read = attrgetter(*columns.values())
            encoded[name] = {"columns": [*columns], "rows": [read(row) for row in encoded[name]]}
    return encoded


def _decode(kind: Any, value: Any) -> Any:
    """Return an object of the fields that its class declares.

    Raises:
        MalformedRecord: a field has another type, is missing or unknown.
        TypeError, KeyError: a field is missing.
    """
    values, readers = mapping(value), _readers(kind)
    _refuse_unknown(kind, values, readers)
    for name in _REQUIRED.get(kind, ()):
        field(values, name)
    return kind(**{name: read(values[name]) for name, read in readers.items() if name in values})


def _decode_table(kind: Any, table: Mapping[str, Any]) -> tuple[Any, ...]:
    names, paths = [strict_text(name) for name in items(table["columns"])], _columns(kind)
    _refuse_unknown(kind, names, paths)
    decoded = []
    for cells in rows(table["rows"]):
        values: dict[str, Any] = {}
        for name, cell in zip(names, cells, strict=True):
            outer, _, inner = paths.get(name, "").rpartition(".")
            (values.setdefault(outer, {}) if outer else values)[inner] = cell
        decoded.append(_decode(kind, values))
    return tuple(decoded)


def _refuse_unknown(kind: Any, names: Iterable[str], known: Mapping[str, Any]) -> None:
    if kind not in _EXTENDED and (unknown := set(names) - known.keys()):
        raise MalformedRecord(f"unknown field {min(unknown)[:40]}")


@cache
def _hints(kind: Any) -> dict[str, Any]:
    """Return the types of a class's fields that are recorded."""
    hints = get_type_hints(kind)
    left_out = _NOT_RECORDED.get(kind, ())
    return {f.name: hints[f.name] for f in fields(kind) if f.name not in left_out}


@cache
def _columns(kind: Any) -> dict[str, str]:
    """Return the columns of a table, with the attribute that each is of."""
    columns = {}
    for name, hint in _hints(kind).items():
        if not _is_class(hint):
            columns[name] = name
            continue
        for inner in _hints(hint):
            columns[_STORED.get(inner, inner)] = f"{name}.{inner}"
    return columns


@cache
def _readers(kind: Any) -> dict[str, Read]:
    low = 0 if kind in _NOT_NEGATIVE else -LARGEST
    return {name: _reader(hint, low) for name, hint in _hints(kind).items()}


def _is_class(hint: Any) -> bool:
    return is_dataclass(hint)


def _row_kind(hint: Any) -> Any:
    """Return the class of a table's rows; None if a field is no table."""
    args = get_args(hint)
    return args[0] if get_origin(hint) is tuple and args[0] in _TABLES else None


def _reader(hint: Any, low: int) -> Read:
    """Return the function that checks a field's value, and converts it to its type.

    Args:
        hint: its type.
        low: the least number; what is counted in tuples and mappings is not negative.
    """
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        (kind,) = (arg for arg in args if arg is not NoneType)
        return partial(_read_optional, _reader(kind, low))
    if (kind := _row_kind(hint)) is not None:
        return partial(_decode_table, kind)
    if origin is tuple:
        return partial(_read_tuple, _reader(args[0], 0), None if ... in args else len(args))
    if origin is Mapping:
        return partial(_read_mapping, *(_reader(arg, 0) for arg in args))
    if hint is ComparisonRecord:
        return COMPARISON_WIRE.read
    if _is_class(hint):
        return partial(_decode, hint)
    if hint is int:
        return partial(integer, low=low)
    if hint is float:
        return partial(_read_number, low=low)
    read: Read = hint if issubclass(hint, StrEnum) else _PLAIN[hint]
    return read


def _read_optional(read: Read, value: Any) -> Any:
    return None if value is None else read(value)


def _read_tuple(read: Read, length: int | None, value: Any) -> tuple[Any, ...]:
    members = items(value)
    if length is not None and len(members) != length:
        raise MalformedRecord("a row of another length")
    return tuple(map(read, members))


def _read_mapping(read_key: Read, read: Read, value: Any) -> dict[Any, Any]:
    return {read_key(key): read(member) for key, member in mapping(value).items()}


def _read_number(value: Any, low: int) -> Any:
    number(value, low)
    return value


_PLAIN: dict[Any, Read] = {str: strict_text, bool: flag}
