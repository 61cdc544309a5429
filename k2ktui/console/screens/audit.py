"""Opened from Groups: where MirrorMaker 2 would put every group, next to the right position."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from textual.widget import Widget

from k2ktui.console.screens.row import RowsScreen
from k2ktui.console.visuals.facts import fact
from k2ktui.console.visuals.panel import Panel
from k2ktui.console.widgets.grid import Grid
from k2ktui.console.widgets.styled_text import wrap_lines
from k2ktui.console.widgets.text_lines import TextLines
from k2ktui.engine.moves.audit import Audit, AuditRow
from k2ktui.engine.severity import Severity
from k2ktui.present import formatting
from k2ktui.present.audits import audit_columns
from k2ktui.present.formatting import Cell, Line, Tone
from k2ktui.watch.model import View

_LABEL = 8
_NO_GROUP = "No group has committed on what MirrorMaker 2 copies."
_HELP = """
    Audit of a MirrorMaker 2 flow. Each row is a group and partition: its newest checkpoint (MM2)
    and its commit on the target (synced), each with the records that the group would re-read or
    skip from there, and the right offset. It is read every 15 s at most; r reads it now.

    MirrorMaker 2 writes a group's first checkpoint after about 60 s
    (emit.checkpoints.interval.seconds).

    If the basis is not exact, nothing is counted. The panel beside the table shows the reason and
    all figures of the row under the cursor; below 120 columns, Enter opens it.
    k2ktui mm2 audit prints the same; e exports it.
"""


class AuditScreen(RowsScreen):
    """Every group-partition, the wrong ones first.

    Args:
        group: show this group only; empty for all.
    """

    ENTRY: ClassVar[str] = "groups"
    HELP: ClassVar[str | None] = _HELP
    PANEL: ClassVar[str] = "Audit"
    crumb = "audit"

    def __init__(self, group: str = "") -> None:
        super().__init__()
        self._group = group

    @property
    def _audit(self) -> Audit | None:
        return self.console.view.audit if self.console.view else None

    def body(self) -> Iterable[Widget]:
        """Yield notes and the table."""
        yield TextLines(id="facts")
        yield from super().body()

    def make_grid(self) -> Grid[AuditRow]:
        """Create the table of audit rows."""
        return Grid(
            _COLUMNS,
            key=lambda row: (row.group, row.topic, row.partition),
            search=lambda row: f"{row.group} {row.topic}-{row.partition} {row.basis}",
            problem=lambda row: row.wrong,
            order=lambda row: (-row.severity, row.group, row.topic, row.partition),
            empty=formatting.NOT_YET,
            opens="Row",
            id="audit",
        )

    def show_view(self, view: View) -> None:
        """Show the view's audit."""
        grid: Grid[AuditRow] = self.query_one(Grid)
        if view.audit is not None:
            grid.empty = _NO_GROUP
        names = {column.id for column in _COLUMNS} - {"group", "partition"}
        grid.mark_stale(names if view.audit_stale else ())
        grid.show(self._rows(view.audit))
        self.query_one("#facts", TextLines).show(self._notes(view.audit))
        self.query_one("#table", Panel).mark(self._worst(view.audit))
        self.show_side()

    def _rows(self, audit: Audit | None) -> Sequence[AuditRow]:
        rows = audit.rows if audit else ()
        return [row for row in rows if row.group == self._group] if self._group else rows

    def _worst(self, audit: Audit | None) -> Severity | None:
        return max(filter(None, map(self.row_severity, self._rows(audit))), default=None)

    def summary(self) -> Line:
        """Return the totals and the age of the audit."""
        audit = self._audit
        if audit is None:
            return ()
        totals = self._totals(audit)
        again, skipped = totals["checkpoint_reread"], totals["checkpoint_skipped"]
        tone = formatting.tone_of(self._worst(audit) or Severity.OK)
        text = (
            f"{totals['wrong']:,} of {totals['rows']:,} would not continue: {skipped:,} skipped, "
            f"{again:,} re-read"
        )
        if audit.rows and not audit.has_checkpoints:
            tone, text = Tone.WARN, "no group has a checkpoint of MirrorMaker 2 yet"
        stale = formatting.STALE if self.console.view and self.console.view.audit_stale else ""
        old = stale + formatting.age(self.session.feed.now() - audit.taken_at)
        return (
            Cell(text, tone),
            # Before the name of the flow: a narrow frame cuts the end.
            Cell(f"  read {old} ago", Tone.MUTED),
            Cell(f"  {formatting.name(audit.flow, 30)}", Tone.MUTED),
        )

    def _totals(self, audit: Audit) -> Mapping[str, int]:
        return replace(audit, rows=tuple(self._rows(audit))).totals()

    def _notes(self, audit: Audit | None) -> list[Line]:
        notes = audit.notes if audit else ()
        width = max(20, self.size.width - 6)
        return [line for note in notes for line in wrap_lines(note, width, Tone.WARN)[:2]][:4]

    def row_title(self, row: AuditRow) -> str:
        """Return the group and the partition."""
        return f"{row.group} {row.topic}-{row.partition}"

    def row_severity(self, row: AuditRow) -> Severity | None:
        """Return how bad it is if the group would not continue at the right offset."""
        return row.severity or None

    def row_lines(self, row: AuditRow, width: int) -> list[Line]:
        """Return where the group would continue by each program, and what that means."""
        return row_lines(row, width)

    def document(self) -> str | None:
        """Return the audit in the JSON that ``k2ktui mm2 audit`` prints."""
        return None if self._audit is None else json.dumps(self._audit.as_json())


def row_lines(row: AuditRow, width: int) -> list[Line]:
    """Return where a group would continue by each program, and what that means."""
    age = row.checkpoint_age_s
    made = f"from source offset {formatting.number(row.checkpoint_upstream)}"
    right = f"{formatting.number(row.right_offset)}, {row.basis}"
    checkpoint = f"checkpoint {formatting.duration(age)} old, {made}" if age is not None else ""
    lines: list[Line] = [
        fact("Source", formatting.number(row.source_offset), indent=_LABEL),
        fact("Right", right, Tone.HEADING, _LABEL),
        (),
        *_effect("MM2", row.checkpoint_offset, row.checkpoint_reread, row.checkpoint_skipped),
        *wrap_lines(checkpoint or "no checkpoint", width, Tone.MUTED),
        (),
        *_effect("Synced", row.synced_offset, row.synced_reread, row.synced_skipped),
    ]
    notes = wrap_lines(row.note, width)
    return [*lines, *([()] if notes else []), *notes]


def _effect(label: str, offset: int | None, again: int | None, skipped: int | None) -> list[Line]:
    """Return an offset, and how many records a group would skip or re-read from there."""
    skips = Cell(f"{formatting.number(skipped)} skipped", Tone.BAD if skipped else Tone.PLAIN)
    rereads = Cell(f"{formatting.number(again)} re-read", Tone.WARN if again else Tone.PLAIN)
    effect = (Cell(" " * _LABEL), skips, Cell("  "), rereads)
    return [
        fact(label, formatting.number(offset), indent=_LABEL),
        *([] if offset is None else [effect]),
    ]


# The panel beside the table has the others.
_COLUMNS = tuple(column for column in audit_columns() if column.id not in ("source", "age", "note"))
