"""Opened from Replication: what both clusters have besides records, with both values."""

from __future__ import annotations

import time
from typing import ClassVar

from textual import work
from textual.binding import Binding, BindingType

from k2ktui.console import cli_equivalent
from k2ktui.console.screens.change import Change, ChangeScreen
from k2ktui.console.screens.undo import list_writes, undo_parity
from k2ktui.console.visuals.facts import fact, fact_lines
from k2ktui.console.visuals.panel import Panel
from k2ktui.console.widgets.grid import Grid
from k2ktui.console.widgets.styled_text import glyphs_of, wrap_lines
from k2ktui.console.widgets.typed_keys import ASK
from k2ktui.engine.moves.apply import results_text, undo_text
from k2ktui.engine.parity.model import Difference
from k2ktui.engine.parity.plan import ParityPlan, dump_plan, summarize
from k2ktui.engine.severity import Severity
from k2ktui.errors import K2kError
from k2ktui.parity import operations
from k2ktui.parity.writer import ParityApplied
from k2ktui.present import formatting
from k2ktui.present.formatting import Cell, Line, Tone
from k2ktui.present.parity import difference_columns, judge_difference, value_text
from k2ktui.text import counted, safe_text
from k2ktui.watch.model import View

_LABEL, _NOTES = 8, 3
_NOTHING = "Nothing differs."
_HELP = """
    Parity. Each row is a value that differs: a setting of a replicated topic, a client quota, or an
    ACL. Source and target are the values in force on both clusters; wanted is what the target
    should have: the source's value, unless topicCreation sets another.

    set: A gives the target the wanted value. remove: A deletes what parity had created and the
    source no longer has. report: nothing is done; the reason is below the table, or in the panel
    beside it from 120 columns on.

    A applies what is shown after you have typed the pipeline's name. If a value has changed on
    either cluster since, nothing is written; n compares again. The values before are in the
    journal; U undoes what was applied here. k2ktui parity plan prints the same; e exports it.

    While a drill is open, and once the target was opened, nothing is compared.
"""


class ParityScreen(ChangeScreen[ParityPlan, ParityApplied]):
    """The differences, those that are only reported first; without a plan, it compares."""

    ENTRY: ClassVar[str] = "replication"
    PANEL: ClassVar[str] = "Parity"
    crumb = "parity"
    HELP: ClassVar[str | None] = _HELP
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("A", "apply", "Apply", id="parity.apply"),
        Binding("U", "undo", "Undo", id="parity.undo"),
        Binding("n", "plan_again", "Compare", id="parity.compare"),
    ]
    NO_PLAN: ClassVar[str] = "nothing is compared yet; n compares"
    NOT_MADE: ClassVar[str] = "not compared yet"
    MADE_AGAIN: ClassVar[str] = "Nothing was applied: it was compared again meanwhile."

    def make_grid(self) -> Grid[Difference]:
        """Create the table of differences."""
        glyphs = glyphs_of(self)
        columns = [c for c in difference_columns(glyphs) if c.id != "origin"]
        return Grid(
            columns,
            key=lambda row: row.item,
            search=lambda row: f"{row.item.kind} {row.item.name} {row.item.key} {row.action}",
            problem=lambda row: not row.changes,
            order=lambda row: (row.changes, row.item),
            empty=formatting.NOT_YET,
            opens="Row",
            id="parity",
        )

    def show_view(self, view: View) -> None:
        """Keep what is shown: it changes only when it is compared again."""

    def describe(self, shown: ParityPlan) -> Line:
        """Return when both clusters were compared, and what is planned."""
        made = time.strftime("%H:%M:%S UTC", time.gmtime(shown.created_at))
        if self.applied is not None:
            return (Cell(f"as of {made}, before it was applied; n compares again", Tone.WARN),)
        return (Cell(f"{summarize(shown.rows)}"), Cell(f"  compared {made}", Tone.MUTED))

    def effects(self, shown: ParityPlan) -> list[Line]:
        """Return what could not be compared, and what came of an apply."""
        lines = self.warnings(shown.notes)[:_NOTES]
        for done, text in ((self.applied, results_text), (self.back, undo_text)):
            if done is not None:
                tone = Tone.OK if done.complete else Tone.BAD
                lines.append((Cell(text(done.counts), tone), Cell(f"  journal entry {done.id}")))
        failed = [row for row in self.applied.rows if row.why] if self.applied else []
        for row in failed[:_NOTES]:
            lines += wrap_lines(f"{row.write.item}: {row.why}", self.size.width - 6, Tone.BAD)[:2]
        return lines

    def row_reason(self, row: Difference) -> list[Line]:
        """Return what is wanted, and why."""
        wanted = f"{value_text(row.wanted)} is wanted: " if row.changes else ""
        text = f"{row.item.name} {row.item.key}: {wanted}{row.why}"
        return [(Cell(part),) for part in self.wrap(text)]

    def row_title(self, row: Difference) -> str:
        """Return what has the value."""
        return str(row.item)

    def row_severity(self, row: Difference) -> Severity | None:
        """Return a warning if it is only reported."""
        return None if row.changes else Severity.WARN

    def row_lines(self, row: Difference, width: int) -> list[Line]:
        """Return everything about a difference."""
        return describe_row(row, width, glyphs_of(self).mark(judge_difference(row)))

    def document(self) -> str | None:
        """Return the plan as JSON."""
        return None if self.shown is None else dump_plan(self.shown).rstrip()

    def text_to_copy(self) -> str:
        """Return the equivalent CLI commands."""
        files = self.session.files
        if self.applied is not None:
            return cli_equivalent.parity_undo(files, self.applied.id)
        return cli_equivalent.parity_plan_and_apply(files)

    def unappliable(self, shown: ParityPlan) -> str:
        """Return why it cannot be applied now."""
        if self.used:
            what = "it was applied" if self.applied else "applying it failed"
            return f"{what}; n compares again"
        if not shown.changes:
            return "there is nothing to apply"
        late = self.session.feed.now() > shown.expires_at
        return "it has expired; n compares again" if late else ""

    def action_plan_again(self) -> None:
        """Compare both clusters."""
        config, files = self.config, self.session.files
        self.act(
            "comparing both clusters",
            lambda: operations.create_plan(config, files),
            self.show_plan,
            failed=self._compare_failed,
            command=cli_equivalent.parity_plan(files),
            result=lambda plan: summarize(plan.rows),
        )

    def _compare_failed(self, _: K2kError) -> None:
        self.query_one(Grid).empty = "Not compared: see above. n compares again."
        self.query_one(Grid).redraw()

    def draw(self, shown: ParityPlan) -> None:
        """Show the differences."""
        grid: Grid[Difference] = self.query_one(Grid)
        grid.empty = _NOTHING
        grid.show(shown.rows)
        reported = any(not row.changes for row in shown.rows)
        self.query_one("#table", Panel).mark(Severity.WARN if reported else None)
        self.show_state()

    def change(self, shown: ParityPlan) -> Change[ParityApplied]:
        """Return what is set and removed on the target."""
        config, files = self.config, self.session.files
        return Change(
            title="Apply to the target",
            lines=[
                f"{counted(len(shown.changes), 'value')} on the target "
                f"({safe_text(shown.target_cluster, 60)}) will change:",
                *list_writes([row.write for row in shown.changes]),
                "If a value has changed on either cluster since, nothing is written. U undoes it.",
            ],
            verb="Apply",
            command=cli_equivalent.parity_plan_and_apply(files),
            doing="applying",
            write=lambda may: operations.apply_plan(config, shown, files, may),
            result=lambda applied: results_text(applied.counts),
        )

    def was_begun(self, error: K2kError) -> bool:
        """Return True: what was written is known only after it is compared again."""
        return True

    @work(group=ASK)
    async def action_undo(self) -> None:
        """Undo what was applied here."""
        if self.applied is not None:
            await undo_parity(self, self.applied.id, self._show_undone)

    def _show_undone(self, applied: ParityApplied) -> None:
        self.back = applied


def describe_row(row: Difference, width: int, mark: Cell) -> list[Line]:
    """Return everything about a difference."""
    facts = [
        ("Kind", str(row.item.kind), Tone.PLAIN),
        ("Of", safe_text(row.item.name, 400), Tone.HEADING),
        ("Key", safe_text(row.item.key, 400), Tone.HEADING),
        ("From", safe_text(row.origin, 400), Tone.PLAIN),
        ("Source", value_text(row.source), Tone.PLAIN),
        ("Target", value_text(row.target), Tone.PLAIN),
        ("", "not set on it" if row.target is not None and row.before is None else "", Tone.MUTED),
        ("Wanted", value_text(row.wanted), Tone.HEADING),
    ]
    lines: list[Line] = [(Cell(f"{'Action':<{_LABEL}}", Tone.MUTED), mark)]
    shown = (fact(*parts, _LABEL) for parts in facts if parts[1])
    return [*lines, *fact_lines(shown, width), (), *wrap_lines(row.why, width)]
