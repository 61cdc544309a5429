"""Convert views to and from JSON, for recordings and ``k2ktui watch --json``.

Wide rows are stored as tables (``columns`` once, then ``rows``), because there are thousands.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from enum import StrEnum
from functools import cache
from operator import attrgetter
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from k2ktui.engine.compare.record import comparison_body, read_comparison
from k2ktui.engine.drill.objectives import Objectives
from k2ktui.engine.drill.pair_state import PairState
from k2ktui.engine.moves.audit import Audit, AuditRow, RereadEstimate
from k2ktui.engine.moves.group_sums import GroupSide, GroupSummary
from k2ktui.engine.moves.groups import GroupRow
from k2ktui.engine.moves.journal import JournalHeader, Runner
from k2ktui.engine.status import PartitionStatus
from k2ktui.engine.strict_json import (
    LARGEST,
    MalformedRecord,
    flag,
    integer,
    items,
    number,
    parse_object,
    rows,
)
from k2ktui.engine.strict_json import text as strict_text
from k2ktui.watch.model import (
    ClusterView,
    Part,
    PartitionRow,
    PartName,
    PipelinePair,
    Point,
    Totals,
    View,
)

VERSION = 1
LARGEST_VIEW = 256 << 20
T = TypeVar("T")
Table = dict[str, Any]


class MalformedView(ValueError):
    """The text is not a view, or has a version that this program does not read."""


def _names(kind: type) -> list[str]:
    return [field.name for field in fields(kind)]


_STATUS = _names(PartitionStatus)
# Recordings have one field under its first name.
_STORED = {"lag_s": "lag_seconds"}
_STATUS_COLUMNS = [_STORED.get(name, name) for name in _STATUS]
_ROW = ["why", "rate", "direction", "eta_s", "spans", "gaps", "ranges"]
_GROUP = _names(GroupRow)
_POINT = _names(Point)
_AUDIT = _names(AuditRow)


def dumps(view: View) -> str:
    """Return a view as one line of JSON."""
    return json.dumps(to_object(view), ensure_ascii=False, separators=(",", ":"))


def loads(text: str | bytes) -> View:
    """Return the view in a text.

    Raises:
        MalformedView: the text is not a view.
    """
    try:
        return from_object(parse_object(text, "the view", largest=LARGEST_VIEW))
    except MalformedView:
        raise
    except MalformedRecord as error:
        raise MalformedView(f"not a view: {error}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise MalformedView(f"not a view: {type(error).__name__}") from error


def to_object(view: View) -> dict[str, Any]:
    """Return a view as an object of JSON types."""
    last = view.last_comparison
    return {
        "v": VERSION,
        "pair": asdict(view.pair),
        "taken_at": view.taken_at,
        "parts": {str(name): asdict(part) for name, part in view.parts.items()},
        "source": asdict(view.source),
        "target": asdict(view.target),
        "partitions": {
            "columns": _STATUS_COLUMNS + _ROW,
            "rows": [_partition(row) for row in view.partitions],
        },
        "groups": _table(_GROUP, view.groups),
        "summaries": [asdict(summary) for summary in view.summaries],
        "heartbeat_at": view.heartbeat_at,
        "commits_at": view.commits_at,
        "source_down": view.source_down,
        "runners": [asdict(runner) for runner in view.runners],
        "journal": [asdict(header) for header in view.journal],
        "pair_state": view.pair_state.as_json(),
        **({"objectives": _objectives(view)} if view.objectives else {}),
        **({"last_comparison": comparison_body(last)} if last is not None else {}),
        "totals": asdict(view.totals),
        "points": _table(_POINT, view.points),
        **({"audit": _audit(view.audit)} if view.audit else {}),
        "mappings_expire_at": view.mappings_expire_at,
        "notes": list(view.notes),
        "has_run": view.has_run,
    }


def from_object(value: Mapping[str, Any]) -> View:
    """Return the view of an object that ``to_object`` made.

    Raises:
        MalformedView: it has another version.
        MalformedRecord, ValueError, KeyError, TypeError, AttributeError: it is damaged.
    """
    if value["v"] != VERSION:
        raise MalformedView(f"version {value['v']!r:.40}, this release reads version {VERSION}")
    return View(
        pair=_make(PipelinePair, value["pair"]),
        taken_at=number(value["taken_at"]),
        parts={PartName(name): _make(Part, part) for name, part in value["parts"].items()},
        source=_make(ClusterView, value["source"]),
        target=_make(ClusterView, value["target"]),
        partitions=tuple(map(_partition_row, _rows(value["partitions"]))),
        groups=tuple(_make(GroupRow, row) for row in _rows(value["groups"])),
        summaries=tuple(map(_summary, value["summaries"])),
        heartbeat_at=_time(value.get("heartbeat_at")),
        commits_at=_time(value["commits_at"]),
        source_down=strict_text(value["source_down"]),
        runners=tuple(map(_runner, value["runners"])),
        journal=tuple(_make(JournalHeader, header) for header in value["journal"]),
        # A recording of an earlier release lacks it.
        pair_state=_make(PairState, value.get("pair_state", {})),
        objectives=_read_objectives(value.get("objectives", {})),
        last_comparison=(
            read_comparison(value["last_comparison"]) if "last_comparison" in value else None
        ),
        totals=_make(Totals, value["totals"]),
        points=tuple(_make(Point, row) for row in _rows(value["points"])),
        audit=_read_audit(value["audit"]) if "audit" in value else None,
        mappings_expire_at=_time(value.get("mappings_expire_at")),
        notes=tuple(strict_text(note) for note in items(value["notes"])),
        has_run=flag(value.get("has_run", True)),
    )


def _objectives(view: View) -> dict[str, Any]:
    return {**view.objectives.as_json(), "missed": [*view.missed_rpo, *view.missed_rto]}


def _read_objectives(value: Mapping[str, Any]) -> Objectives:
    records = value.get("rpo_records")
    return Objectives(
        None if records is None else integer(records),
        _time(value.get("rpo_s")),
        _time(value.get("rto_s")),
    )


def _time(value: object) -> float | None:
    return None if value is None else number(value)


def _make(kind: type[T], values: Mapping[str, Any]) -> T:
    """Return an object whose fields have the types that its class declares.

    Raises:
        MalformedRecord: a field has another type.
        TypeError: a field is missing or unknown.
    """
    kinds = _kinds_of(kind)  # type: ignore[arg-type]
    checked = dict(values)
    for name, value in values.items():
        given, allowed = type(value), kinds.get(name)
        if allowed is not None and given not in allowed:
            checked[name] = _member(allowed, value, name)
        if given is int:
            integer(value, -LARGEST)
        elif given is dict:
            for key, count in value.items():
                strict_text(key)
                integer(count)
    return kind(**checked)


def _member(allowed: frozenset[type], value: object, name: str) -> StrEnum:
    """Return the enumeration member that a text names."""
    for kind in allowed:
        if issubclass(kind, StrEnum) and isinstance(value, str):
            return kind(value)
    raise MalformedRecord(f"{type(value).__name__} as {name[:40]}")


@cache
def _kinds_of(kind: type) -> dict[str, frozenset[type]]:
    """Return the types that each field's value may have, for fields with a single value."""
    by_name = {}
    for name, hint in get_type_hints(kind).items():
        parts = get_args(hint) if isinstance(hint, UnionType) else (hint,)
        kinds = {get_origin(part) or part for part in parts}
        if float in kinds:
            kinds.add(int)
        if Mapping in kinds:
            kinds.add(dict)
        if not any(issubclass(kind, tuple) for kind in kinds):
            by_name[name] = frozenset(kinds)
    return by_name


def _table(columns: list[str], rows: Iterable[object]) -> Table:
    values = attrgetter(*columns)
    return {"columns": columns, "rows": [values(row) for row in rows]}


_status_values = attrgetter(*_STATUS)
_row_values = attrgetter(*_ROW)


def _partition(row: PartitionRow) -> list[Any]:
    return [*_status_values(row.status), *_row_values(row)]


def _rows(table: Table) -> list[dict[str, Any]]:
    columns = [strict_text(name) for name in items(table["columns"])]
    return [dict(zip(columns, row, strict=True)) for row in rows(table["rows"])]


def _runner(values: Mapping[str, Any]) -> Runner:
    # A recording of an earlier release lacks them.
    owned = tuple(map(integer, items(values.get("owned", []))))
    return _make(Runner, {**values, "owned": owned})


def _partition_row(row: dict[str, Any]) -> PartitionRow:
    # A recording of an earlier release lacks the newest fields.
    known = {
        name: row[column]
        for name, column in zip(_STATUS, _STATUS_COLUMNS, strict=True)
        if column in row
    }
    status = _make(PartitionStatus, known)
    return _make(
        PartitionRow,
        {
            "status": status,
            "why": row["why"],
            "rate": row["rate"],
            "direction": row["direction"],
            "eta_s": row["eta_s"],
            "spans": _tuples(row["spans"], 2),
            "gaps": _tuples(row["gaps"], 2),
            "ranges": _tuples(row["ranges"], 3),
        },
    )


def _tuples(value: object, width: int) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(map(integer, row)) for row in rows(value, width))


def _summary(value: dict[str, Any]) -> GroupSummary:
    sides = {side: _make(GroupSide, value[side]) for side in ("source", "target")}
    # A recording of an earlier release lacks both.
    again = {
        name: _make(RereadEstimate, value[name]) for name in ("ours", "theirs") if value.get(name)
    }
    off = {"ahead": int(bool(value["skips"])), "behind": int(bool(value["rereads"]))}
    return _make(GroupSummary, {**off, **value, **sides, **again})


def _audit(audit: Audit) -> dict[str, Any]:
    return {
        "flow": audit.flow,
        "taken_at": audit.taken_at,
        "rows": _table(_AUDIT, audit.rows),
        "notes": list(audit.notes),
    }


def _read_audit(value: Mapping[str, Any]) -> Audit:
    return _make(
        Audit,
        {
            "flow": value["flow"],
            "taken_at": value["taken_at"],
            "rows": tuple(_make(AuditRow, row) for row in _rows(value["rows"])),
            "notes": tuple(strict_text(note) for note in items(value["notes"])),
        },
    )
