"""Opened from Groups: what MirrorMaker 2 would make of every group, beside what is right."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, ClassVar

from k2ktui.console import marks
from k2ktui.console.marks import Cell, Line, Tone
from k2ktui.console.screens.acting import ActingScreen
from k2ktui.console.widgets.arrange import Column
from k2ktui.console.widgets.grid import Grid
from k2ktui.errors import K2kError
from k2ktui.mm2.pipeline import MirrorPipeline
from k2ktui.text import safe_text

if TYPE_CHECKING:
    from k2ktui.mm2.audit import Audit, AuditRow

_HELP = """
    Audit of a flow of MirrorMaker 2. A row is a group-partition: its newest checkpoint and what is
    committed on the target now, each with the records that going on there would read again or skip,
    beside the right position. r reads both clusters again.

    Where the basis is not exact nothing is counted, and the line below says why. It is what
    k2ktui mm2 audit prints; e exports it.
"""


class AuditScreen(ActingScreen):
    """Every group-partition, what would go wrong first."""

    ENTRY: ClassVar[str] = "groups"
    HELP: ClassVar[str | None] = _HELP

    def __init__(self) -> None:
        super().__init__()
        self._audit: Audit | None = None

    def make_grid(self) -> Grid[AuditRow]:
        """Make the table."""
        return Grid(
            _columns(),
            key=lambda row: (row.group, row.topic, row.partition),
            search=lambda row: f"{row.group} {row.topic}-{row.partition} {row.basis}",
            problem=lambda row: row.wrong,
            order=lambda row: (not row.wrong, row.group, row.topic, row.partition),
            empty=marks.NOT_YET,
            opens="",
            id="audit",
        )

    def on_mount(self) -> None:
        """Read it."""
        super().on_mount()
        config = self.session.config
        if not isinstance(config, MirrorPipeline):
            self.error = K2kError("this is no flow of MirrorMaker 2")
            self.show_state()
            return
        # Deferred: the first screen does not wait for it.
        from k2ktui.mm2.audit import audit

        self.act("reading checkpoints and groups", lambda: audit(config), self.found)

    def found(self, result: Audit) -> None:
        """Show an audit."""
        self._audit = result
        grid: Grid[AuditRow] = self.query_one(Grid)
        grid.empty = "No group has committed on what is replicated."
        grid.show(result.rows)

    def summary(self) -> Line:
        """Return the sums."""
        if self._audit is None:
            return (Cell("Audit of MirrorMaker 2", Tone.HEADING),)
        totals = self._audit.totals()
        again, skipped = totals["checkpoint_reread"], totals["checkpoint_skipped"]
        tone = Tone.BAD if skipped else Tone.WARN if totals["wrong"] else Tone.OK
        text = (
            f"{totals['wrong']:,} of {totals['rows']:,} would not go on where they were: at "
            f"checkpoints {again:,} again, {skipped:,} skipped"
        )
        return (Cell(text, tone),)

    def facts(self) -> list[Line]:
        """Return the notes."""
        notes = self._audit.notes if self._audit else ()
        lines = [line for note in notes for line in self.wrapped(note)[:2]]
        found: list[Line] = [(Cell(line, Tone.WARN),) for line in lines[:4]]
        return found

    def detail(self) -> list[Line]:
        """Return the whole of the row under the cursor."""
        row: AuditRow | None = self.query_one(Grid).current
        if row is None:
            return []
        age = row.checkpoint_age_s
        old = "no checkpoint" if age is None else f"checkpoint {age:.0f} s old"
        made = f", made of source offset {marks.number(row.checkpoint_upstream)}" if age else ""
        return [
            (Cell(safe_text(f"{row.group} {row.topic}-{row.partition}", 200), Tone.HEADING),),
            (Cell(f"committed on the source {marks.number(row.source_offset)}; {old}{made}"),),
            *((Cell(part),) for part in self.wrapped(row.note)),
        ]

    def document(self) -> str | None:
        """Return the audit as the command prints it."""
        return None if self._audit is None else json.dumps(self._audit.as_json())


def _count(value: int | None, tone: Tone) -> Cell:
    return Cell(marks.number(value), tone if value else Tone.PLAIN)


def _columns() -> tuple[Column[AuditRow], ...]:
    return (
        Column(
            "group", "group", lambda r: Cell(safe_text(r.group, 400)), lambda r: r.group, width=10
        ),
        Column(
            "partition",
            "partition",
            lambda r: Cell(safe_text(f"{r.topic}-{r.partition}", 400)),
            lambda r: (r.topic, r.partition),
            width=10,
        ),
        Column(
            "checkpoint",
            "checkpoint",
            lambda r: Cell(marks.number(r.checkpoint_offset)),
            right=True,
        ),
        Column(
            "again",
            "re-read",
            lambda r: _count(r.checkpoint_reread, Tone.WARN),
            lambda r: r.checkpoint_reread,
            right=True,
        ),
        Column(
            "skipped",
            "skipped",
            lambda r: _count(r.checkpoint_skipped, Tone.BAD),
            lambda r: r.checkpoint_skipped,
            right=True,
        ),
        Column(
            "synced", "synced", lambda r: Cell(marks.number(r.synced_offset)), right=True, rank=2
        ),
        Column(
            "synced-again",
            "re-read",
            lambda r: _count(r.synced_reread, Tone.WARN),
            lambda r: r.synced_reread,
            right=True,
            rank=2,
        ),
        Column(
            "synced-skipped",
            "skipped",
            lambda r: _count(r.synced_skipped, Tone.BAD),
            lambda r: r.synced_skipped,
            right=True,
            rank=3,
        ),
        Column("right", "right", lambda r: Cell(marks.number(r.right_offset)), right=True),
        Column("basis", "basis", lambda r: Cell(r.basis), lambda r: r.basis, width=8, rank=1),
    )
