"""Opened from Groups: where MirrorMaker 2 would put every group, next to the right position."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import ClassVar

from textual import on
from textual.widget import Widget
from textual.widgets import Input

from k2ktui.console.screens.base import ListScreen
from k2ktui.console.widgets.grid import Grid
from k2ktui.console.widgets.text_lines import TextLines
from k2ktui.engine.audit import Audit, AuditRow
from k2ktui.present import formatting
from k2ktui.present.audits import audit_columns
from k2ktui.present.formatting import Cell, Line, Tone
from k2ktui.text import safe_message, safe_text
from k2ktui.watch.model import View

_DETAIL_LINES = 5
_HELP = """
    Audit of a MirrorMaker 2 flow. Each row is a group and partition: its newest checkpoint (MM2)
    and its commit on the target (synced), each with the records that the group would re-read or
    skip from there, and the right offset. It is read every 15 s at most; r reads it now.

    MirrorMaker 2 writes a group's first checkpoint after about 60 s
    (emit.checkpoints.interval.seconds).

    If the basis is not exact, nothing is counted, and the line below the table shows the reason.
    k2ktui mm2 audit prints the same; e exports it.
"""


class AuditScreen(ListScreen):
    """Every group-partition, the wrong ones first.

    Args:
        group: show this group only; empty for all.
    """

    ENTRY: ClassVar[str] = "groups"
    HELP: ClassVar[str | None] = _HELP

    def __init__(self, group: str = "") -> None:
        super().__init__()
        self._group = group

    @property
    def _audit(self) -> Audit | None:
        return self.console.view.audit if self.console.view else None

    @property
    def crumb(self) -> str:
        """The audit."""
        return "audit"

    def body(self) -> Iterable[Widget]:
        """Yield notes, the table, and the details of the row under the cursor."""
        yield TextLines(id="summary")
        yield TextLines(id="facts")
        yield self.make_grid()
        yield TextLines(id="detail")
        yield Input(id="filter", placeholder="filter: text or regular expression, ! inverts")

    def make_grid(self) -> Grid[AuditRow]:
        """Create the table of audit rows."""
        return Grid(
            _COLUMNS,
            key=lambda row: (row.group, row.topic, row.partition),
            search=lambda row: f"{row.group} {row.topic}-{row.partition} {row.basis}",
            problem=lambda row: row.wrong,
            order=lambda row: (not row.wrong, row.group, row.topic, row.partition),
            empty=formatting.NOT_YET,
            opens="",
            id="audit",
        )

    def show_view(self, view: View) -> None:
        """Show the view's audit."""
        grid: Grid[AuditRow] = self.query_one(Grid)
        if view.audit is not None:
            grid.empty = "No group has committed on what MirrorMaker 2 copies."
        names = {column.id for column in _COLUMNS} - {"group", "partition"}
        grid.mark_stale(names if view.audit_stale else ())
        grid.show(self._rows(view.audit))
        self.query_one("#facts", TextLines).show(self._notes(view.audit))

    def _rows(self, audit: Audit | None) -> Sequence[AuditRow]:
        rows = audit.rows if audit else ()
        return [row for row in rows if row.group == self._group] if self._group else rows

    def summary(self) -> Line:
        """Return the totals and the age of the audit."""
        audit = self._audit
        if audit is None:
            return (Cell("Audit of MirrorMaker 2", Tone.HEADING),)
        totals = replace(audit, rows=tuple(self._rows(audit))).totals()
        again, skipped = totals["checkpoint_reread"], totals["checkpoint_skipped"]
        tone = Tone.BAD if skipped else Tone.WARN if totals["wrong"] else Tone.OK
        text = (
            f"{totals['wrong']:,} of {totals['rows']:,} would not continue where they were; from "
            f"checkpoints {again:,} re-read, {skipped:,} skipped"
        )
        if audit.rows and not audit.has_checkpoints:
            tone, text = Tone.WARN, "no group has a checkpoint of MirrorMaker 2 yet"
        stale = formatting.STALE if self.console.view and self.console.view.audit_stale else ""
        old = stale + formatting.age(self.session.feed.now() - audit.taken_at)
        return (
            Cell(text, tone),
            Cell(f"  {formatting.name(audit.flow, 30)} read {old} ago", Tone.MUTED),
        )

    def _notes(self, audit: Audit | None) -> list[Line]:
        notes = audit.notes if audit else ()
        lines = [line for note in notes for line in wrap_text(note, self.size.width)[:2]]
        return [(Cell(line, Tone.WARN),) for line in lines[:4]]

    @on(Grid.Changed)
    def _cursor_moved(self) -> None:
        self.query_one("#detail", TextLines).show(self.detail()[:_DETAIL_LINES])

    def detail(self) -> list[Line]:
        """Return all details of the row under the cursor."""
        row: AuditRow | None = self.query_one(Grid).current
        if row is None:
            return []
        age = row.checkpoint_age_s
        old = "no checkpoint" if age is None else f"checkpoint {formatting.duration(age)} old"
        made = (
            ""
            if age is None
            else f", from source offset {formatting.number(row.checkpoint_upstream)}"
        )
        return [
            (Cell(safe_text(f"{row.group} {row.topic}-{row.partition}", 200), Tone.HEADING),),
            (Cell(f"committed on the source {formatting.number(row.source_offset)}; {old}{made}"),),
            (Cell(f"correct offset {formatting.number(row.right_offset)}, {row.basis}"),),
            *((Cell(part),) for part in wrap_text(row.note, self.size.width)),
        ]

    def document(self) -> str | None:
        """Return the audit in the JSON that ``k2ktui mm2 audit`` prints."""
        return None if self._audit is None else json.dumps(self._audit.as_json())


def wrap_text(text: str, width: int) -> list[str]:
    """Return a text wrapped to the screen's width; untrusted names in it are sanitized."""
    return textwrap.wrap(safe_message(text), max(20, width - 6))


# The line below the table has the others.
_COLUMNS = tuple(each for each in audit_columns() if each.id not in ("source", "age", "note"))
