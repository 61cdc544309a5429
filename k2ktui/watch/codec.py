"""Convert views to and from JSON, for recordings and ``k2ktui watch --json``.

Fields are those that the classes of a view declare: one that is added there is recorded, and has
its default in recordings without it. Wide rows are tables (``columns`` once, then ``rows``),
because there are thousands. How a value is read and written is that of records of topics.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass, replace
from enum import StrEnum
from functools import cache, partial
from operator import attrgetter
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from k2ktui.engine.compare.record import COMPARISON_WIRE, ComparisonRecord
from k2ktui.engine.drill.format import drill_body, read_drill, without_contents
from k2ktui.engine.drill.model import Drill
from k2ktui.engine.drill.objectives import Objectives
from k2ktui.engine.drill.rehearsals import Rehearsal
from k2ktui.engine.moves.audit import Audit, AuditRow
from k2ktui.engine.moves.groups import GroupRow
from k2ktui.engine.moves.ratings import GroupSide, GroupSummary, rate_groups
from k2ktui.engine.strict_json import (
    LARGEST,
    MalformedRecord,
    field,
    integer,
    items,
    mapping,
    number,
    parse_object,
    rows,
    text,
)
from k2ktui.engine.wire import (
    FLAG,
    TEXT,
    Wire,
    WireField,
    WireType,
    defaulted,
    list_of,
    object_of,
    optional,
    or_none,
    required,
    tuple_of,
)
from k2ktui.watch.model import PartitionRow, Point, View

VERSION = 1
LARGEST_VIEW = 256 << 20

_TABLES = (PartitionRow, GroupRow, Point, AuditRow)
# Drills have records of their own, which a recording keeps beside its views; ratings follow from
# the rows. Who is in a group is in no recording: with many groups, most of a view would be names.
_NOT_RECORDED: Mapping[Any, tuple[str, ...]] = {
    View: ("drills", "rehearsals"),
    GroupSummary: ("rating",),
    GroupSide: ("named",),
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
    value = {"v": VERSION, **_wire(View).write(view)}
    if "objectives" in value:
        value["objectives"]["missed"] = [*view.missed_rpo, *view.missed_rto]
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def loads(body: str | bytes) -> View:
    """Return the view in a text.

    Raises:
        MalformedView: the text is not a view.
    """
    try:
        value = parse_object(body, "the view", largest=LARGEST_VIEW)
        if (version := value["v"]) != VERSION:
            raise MalformedView(f"version {version!r:.40}, this release reads version {VERSION}")
        view: View = _wire(View).read(value)
        return replace(view, summaries=rate_groups(view.summaries, view.groups))
    except MalformedView:
        raise
    except MalformedRecord as error:
        raise MalformedView(f"not a view: {error}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise MalformedView(f"not a view: {type(error).__name__}") from error


def dumps_drill(drill: Drill) -> str:
    """Return a drill as JSON, as its record is, without what may be secret in it."""
    return json.dumps(drill_body(without_contents(drill)), separators=(",", ":"))


def loads_drill(drill_id: str, body: bytes) -> Drill:
    """Return the drill in a text.

    Raises:
        MalformedView: the text is not a drill.
    """
    try:
        return read_drill(drill_id, parse_object(body, "the drill"))
    except MalformedRecord as error:
        raise MalformedView(f"not a drill: {error}") from error


def dumps_rehearsals(rehearsals: Sequence[Rehearsal]) -> str:
    """Return rehearsals as JSON."""
    return json.dumps({"rehearsals": _rehearsals().dump(rehearsals)}, separators=(",", ":"))


def loads_rehearsals(body: bytes) -> tuple[Rehearsal, ...]:
    """Return the rehearsals in a text.

    Raises:
        MalformedView: the text has none.
    """
    try:
        rehearsals: tuple[Rehearsal, ...] = _rehearsals().read(
            field(parse_object(body, "the rehearsals"), "rehearsals")
        )
    except MalformedRecord as error:
        raise MalformedView(f"not rehearsals: {error}") from error
    return rehearsals


@cache
def _rehearsals() -> WireType:
    return list_of(_object(Rehearsal))


@cache
def _hints(kind: Any) -> dict[str, Any]:
    """Return the types of a class's fields that are recorded."""
    hints, left_out = get_type_hints(kind), _NOT_RECORDED.get(kind, ())
    return {f.name: hints[f.name] for f in fields(kind) if f.name not in left_out}


@cache
def _wire(kind: Any) -> Wire[Any]:
    """Return how the objects of a class are written: by the fields that it declares."""
    return Wire(kind, **{f.name: _field(kind, f) for f in fields(kind) if f.name in _hints(kind)})


def _field(kind: Any, declared: Field[Any]) -> WireField:
    name, hint, factory = declared.name, _hints(kind)[declared.name], declared.default_factory
    default = declared.default if factory is MISSING else factory()
    if kind is View and name in _OPTIONAL:
        (hint,) = set(get_args(hint) or (hint,)) - {NoneType}
        return optional(name, _type(hint), default)
    type_ = _type(hint, 0 if kind in _NOT_NEGATIVE else -LARGEST)
    if default is MISSING or name in _REQUIRED.get(kind, ()):
        return required(name, type_)
    return defaulted(name, type_, default)


def _type(hint: Any, low: int = 0) -> WireType:
    """Return what a field of this type is in a record.

    Args:
        hint: its type.
        low: the least number; what is counted in tuples and mappings is not negative.
    """
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        (kind,) = (arg for arg in args if arg is not NoneType)
        return or_none(_type(kind, low))
    if origin is tuple:
        if args[0] in _TABLES:
            return _table(args[0])
        return list_of(_type(args[0])) if ... in args else tuple_of(*map(_type, args))
    if origin is Mapping:
        key, of = map(_type, args)
        return WireType(
            lambda value: {key.read(name): of.read(item) for name, item in mapping(value).items()},
            lambda values: {name: of.dump(item) for name, item in values.items()},
        )
    if hint is ComparisonRecord:
        return object_of(COMPARISON_WIRE)
    if is_dataclass(hint):
        return _object(hint)
    if hint is int:
        return WireType(partial(integer, low=low))
    if hint is float:
        return WireType(partial(_read_number, low=low))
    return WireType(hint) if issubclass(hint, StrEnum) else {str: TEXT, bool: FLAG}[hint]


def _object(kind: Any) -> WireType:
    wire = _wire(kind)

    def read(value: object) -> Any:
        body = mapping(value)
        _refuse_unknown(kind, body, _hints(kind))
        return wire.read(body)

    return WireType(read, wire.write)


def _table(kind: Any) -> WireType:
    wire, paths = _wire(kind), _columns(kind)
    row = attrgetter(*paths.values())

    def read(value: object) -> tuple[Any, ...]:
        table = mapping(value)
        names = [text(name) for name in items(table["columns"])]
        _refuse_unknown(kind, names, paths)
        places = [paths.get(name, "").rpartition(".")[::2] for name in names]
        decoded = []
        for cells in rows(table["rows"]):
            values: dict[str, Any] = {}
            for (outer, inner), cell in zip(places, cells, strict=True):
                (values.setdefault(outer, {}) if outer else values)[inner] = cell
            decoded.append(wire.read(values))
        return tuple(decoded)

    return WireType(read, lambda records: {"columns": [*paths], "rows": [*map(row, records)]})


def _columns(kind: Any) -> dict[str, str]:
    """Return the columns of a table, with the attribute that each is of."""
    columns = {}
    for name, hint in _hints(kind).items():
        if not is_dataclass(hint):
            columns[name] = name
            continue
        for inner in fields(hint):
            columns[_STORED.get(inner.name, inner.name)] = f"{name}.{inner.name}"
    return columns


def _refuse_unknown(kind: Any, names: Iterable[str], known: Mapping[str, Any]) -> None:
    if kind not in _EXTENDED and (unknown := set(names) - known.keys()):
        raise MalformedRecord(f"unknown field {min(unknown)[:40]}")


def _read_number(value: Any, low: int) -> Any:
    number(value, low)
    return value
