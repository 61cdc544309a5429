"""Views as JSON and back: what recordings hold and ``k2ktui watch --json`` prints.

Rows of many fields are tables (``columns`` once, then ``rows``), because there are thousands.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, fields
from operator import attrgetter
from typing import Any, TypeVar

from k2ktui.engine.audit import Again, Audit, AuditRow
from k2ktui.engine.groups import GroupRow
from k2ktui.engine.journal import JournalHeader, Runner, RunnerState
from k2ktui.engine.status import PartitionState, PartitionStatus
from k2ktui.engine.translate import Basis
from k2ktui.engine.trend import Direction
from k2ktui.watch.model import (
    ClusterView,
    GroupSide,
    GroupSummary,
    Pair,
    Part,
    PartitionRow,
    PartName,
    Point,
    Totals,
    View,
)

VERSION = 1
T = TypeVar("T")
Table = dict[str, Any]


class MalformedView(ValueError):
    """A text that is not a view, or of a version that this program does not read."""


def _names(kind: type) -> list[str]:
    return [each.name for each in fields(kind)]


_STATUS = _names(PartitionStatus)
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
        MalformedView: it is not one.
    """
    try:
        return from_object(json.loads(text))
    except MalformedView:
        raise
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise MalformedView(f"not a view: {type(error).__name__}") from error


def to_object(view: View) -> dict[str, Any]:
    """Return a view as an object of JSON's types."""
    return {
        "v": VERSION,
        "pair": asdict(view.pair),
        "taken_at": view.taken_at,
        "parts": {str(name): asdict(part) for name, part in view.parts.items()},
        "source": asdict(view.source),
        "target": asdict(view.target),
        "partitions": {
            "columns": _STATUS + _ROW,
            "rows": [_partition(row) for row in view.partitions],
        },
        "groups": _table(_GROUP, view.groups),
        "summaries": [asdict(each) for each in view.summaries],
        "heartbeat_at": view.heartbeat_at,
        "commits_at": view.commits_at,
        "source_down": view.source_down,
        "runners": [asdict(each) for each in view.runners],
        "journal": [asdict(each) for each in view.journal],
        "totals": asdict(view.totals),
        "points": _table(_POINT, view.points),
        **({"audit": _audit(view.audit)} if view.audit else {}),
        "notes": list(view.notes),
    }


def from_object(value: Mapping[str, Any]) -> View:
    """Return the view of an object that ``to_object`` made.

    Raises:
        MalformedView: it is of another version.
    """
    if value["v"] != VERSION:
        raise MalformedView(f"version {value['v']!r}, this program reads version {VERSION}")
    return View(
        pair=Pair(**value["pair"]),
        taken_at=value["taken_at"],
        parts={PartName(name): Part(**part) for name, part in value["parts"].items()},
        source=ClusterView(**value["source"]),
        target=ClusterView(**value["target"]),
        partitions=tuple(map(_partition_row, _rows(value["partitions"]))),
        groups=tuple(GroupRow(**_with(row, basis=Basis)) for row in _rows(value["groups"])),
        summaries=tuple(map(_summary, value["summaries"])),
        heartbeat_at=value.get("heartbeat_at"),
        commits_at=value["commits_at"],
        source_down=value["source_down"],
        runners=tuple(Runner(**_with(each, state=RunnerState)) for each in value["runners"]),
        journal=tuple(JournalHeader(**each) for each in value["journal"]),
        totals=Totals(**_with(value["totals"], direction=Direction)),
        points=tuple(Point(**row) for row in _rows(value["points"])),
        audit=_audited(value["audit"]) if "audit" in value else None,
        notes=tuple(value["notes"]),
    )


def _table(columns: list[str], rows: Iterable[object]) -> Table:
    values = attrgetter(*columns)
    return {"columns": columns, "rows": [values(row) for row in rows]}


_status_values = attrgetter(*_STATUS)
_row_values = attrgetter(*_ROW)


def _partition(row: PartitionRow) -> list[Any]:
    return [*_status_values(row.status), *_row_values(row)]


def _rows(table: Table) -> list[dict[str, Any]]:
    columns = table["columns"]
    return [dict(zip(columns, row, strict=True)) for row in table["rows"]]


def _with(row: Mapping[str, Any], **kinds: Callable[[Any], Any]) -> dict[str, Any]:
    return {**row, **{name: kind(row[name]) for name, kind in kinds.items()}}


def _partition_row(row: dict[str, Any]) -> PartitionRow:
    # A recording of an earlier release lacks the newest fields.
    known = {name: row[name] for name in _STATUS if name in row}
    status = PartitionStatus(**{**known, "state": _state(row["state"])})
    return PartitionRow(
        status=status,
        why=row["why"],
        rate=row["rate"],
        direction=Direction(row["direction"]),
        eta_s=row["eta_s"],
        spans=tuple((low, high) for low, high in row["spans"]),
        gaps=tuple((low, high) for low, high in row["gaps"]),
        ranges=tuple((source, target, count) for source, target, count in row["ranges"]),
    )


def _state(word: str) -> PartitionState:
    return PartitionState(word)


def _summary(value: dict[str, Any]) -> GroupSummary:
    sides = {side: GroupSide(**value[side]) for side in ("source", "target")}
    # A recording of an earlier release has neither of them.
    again = {name: Again(**value[name]) for name in ("ours", "theirs") if value.get(name)}
    return GroupSummary(**{**value, **sides, **again})


def _audit(audit: Audit) -> dict[str, Any]:
    return {
        "flow": audit.flow,
        "taken_at": audit.taken_at,
        "rows": _table(_AUDIT, audit.rows),
        "notes": list(audit.notes),
    }


def _audited(value: Mapping[str, Any]) -> Audit:
    rows = tuple(AuditRow(**row) for row in _rows(value["rows"]))
    return Audit(value["flow"], value["taken_at"], rows, tuple(value["notes"]))
