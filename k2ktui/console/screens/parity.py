"""Opened from Replication: what both clusters have besides records, with both values."""

from __future__ import annotations

import time
from typing import ClassVar

from textual import work
from textual.binding import Binding, BindingType

from k2ktui.console import cli_equivalent
from k2ktui.console.screens.operation import OperationScreen
from k2ktui.console.screens.parity_undo import list_writes, undo_parity
from k2ktui.console.visuals.facts import fact, fact_lines
from k2ktui.console.visuals.panel import Panel
from k2ktui.console.widgets.confirm import Confirm
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
from k2ktui.text import counted, safe_message, safe_text
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


class ParityScreen(OperationScreen):
    """The differences, those that are only reported first.

    Args:
        plan: an existing plan; None compares.
    """

    ENTRY: ClassVar[str] = "replication"
    PANEL: ClassVar[str] = "Parity"
    HELP: ClassVar[str | None] = _HELP
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("A", "apply", "Apply", id="parity.apply"),
        Binding("U", "undo", "Undo", id="parity.undo"),
        Binding("n", "compare", "Compare", id="parity.compare"),
    ]
    CHANGES: ClassVar[frozenset[str]] = frozenset({"apply", "undo"})
    NEEDS: ClassVar[frozenset[str]] = frozenset({"compare"})

    def __init__(self, plan: ParityPlan | None = None) -> None:
        super().__init__()
        self.plan = plan
        self.applied: ParityApplied | None = None
        self._back: ParityApplied | None = None
        self._is_used = False

    @property
    def crumb(self) -> str:
        """The comparison."""
        return "parity"

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

    def on_mount(self) -> None:
        """Compare, or show the existing plan."""
        if self.plan is None:
            self.action_compare()
        else:
            self._show_plan(self.plan)

    def summary(self) -> Line:
        """Return when both clusters were compared, and what is planned."""
        if self.plan is None:
            return (Cell(formatting.NOT_YET if self.busy else "not compared yet"),)
        made = time.strftime("%H:%M:%S UTC", time.gmtime(self.plan.created_at))
        if self.applied is not None:
            return (Cell(f"as of {made}, before it was applied; n compares again", Tone.WARN),)
        return (Cell(f"{summarize(self.plan.rows)}"), Cell(f"  compared {made}", Tone.MUTED))

    def facts(self) -> list[Line]:
        """Return what could not be compared, and what came of an apply."""
        if self.plan is None:
            return []
        sign = glyphs_of(self).status[Severity.WARN]
        notes = [part for note in self.plan.notes for part in self.wrap(f"{sign} {note}")]
        lines: list[Line] = [(Cell(note, Tone.WARN),) for note in notes[:_NOTES]]
        for done, text in ((self.applied, results_text), (self._back, undo_text)):
            if done is not None:
                tone = Tone.OK if done.complete else Tone.BAD
                lines.append((Cell(text(done.counts), tone), Cell(f"  journal entry {done.id}")))
        failed = [row for row in self.applied.rows if row.why] if self.applied else []
        for row in failed[:_NOTES]:
            lines += wrap_lines(f"{row.write.item}: {row.why}", self.size.width - 6, Tone.BAD)[:2]
        return lines

    def detail(self) -> list[Line]:
        """Return what is wanted for the row under the cursor, and why."""
        row: Difference | None = self.query_one(Grid).current
        if row is None:
            return []
        wanted = f"{value_text(row.wanted)} is wanted: " if row.changes else ""
        text = f"{row.item.name} {row.item.key}: {wanted}{row.why}"
        return [(Cell(part),) for part in self.wrap(text)]

    def row_title(self) -> str:
        """Return what has the value under the cursor."""
        row: Difference | None = self.query_one(Grid).current
        return "" if row is None else str(row.item)

    def row_severity(self) -> Severity | None:
        """Return a warning if the row is only reported."""
        row: Difference | None = self.query_one(Grid).current
        return None if row is None or row.changes else Severity.WARN

    def row_lines(self, width: int) -> list[Line]:
        """Return everything about the row under the cursor."""
        row: Difference | None = self.query_one(Grid).current
        if row is None:
            return []
        return describe_row(row, width, glyphs_of(self).mark(judge_difference(row)))

    def document(self) -> str | None:
        """Return the plan as JSON."""
        return None if self.plan is None else dump_plan(self.plan).rstrip()

    def text_to_copy(self) -> str:
        """Return the equivalent CLI commands."""
        files = self.session.files
        if self.applied is not None:
            return cli_equivalent.parity_undo(files, self.applied.id)
        return cli_equivalent.parity_plan_and_apply(files)

    def refusal(self, action: str) -> str:
        """Return why an action is unavailable now."""
        why = super().refusal(action)
        if why or action not in self.CHANGES:
            return why
        if action == "undo":
            return "" if self.applied and not self._back else "nothing is applied here"
        if self.plan is None:
            return "nothing is compared yet; n compares"
        if self._is_used:
            what = "it was applied" if self.applied else "applying it failed"
            return f"{what}; n compares again"
        if not self.plan.changes:
            return "there is nothing to apply"
        late = self.session.feed.now() > self.plan.expires_at
        return "it has expired; n compares again" if late else ""

    def action_compare(self) -> None:
        """Compare both clusters."""
        config, files = self.config, self.session.files
        self.act(
            "comparing both clusters",
            lambda: operations.create_plan(config, files),
            self._show_plan,
            failed=self._compare_failed,
            command=cli_equivalent.parity_plan(files),
            result=lambda plan: summarize(plan.rows),
        )

    def _compare_failed(self, _: K2kError) -> None:
        self.query_one(Grid).empty = "Not compared: see above. n compares again."
        self.query_one(Grid).redraw()

    def _show_plan(self, plan: ParityPlan) -> None:
        self.plan, self.applied, self._back, self._is_used = plan, None, None, False
        grid: Grid[Difference] = self.query_one(Grid)
        grid.empty = _NOTHING
        grid.show(plan.rows)
        reported = any(not row.changes for row in plan.rows)
        self.query_one("#table", Panel).mark(Severity.WARN if reported else None)
        self.show_state()

    @work(group=ASK)
    async def action_apply(self) -> None:
        """Confirm, and apply what is shown."""
        plan = self.plan
        if plan is None:
            return
        changes = plan.changes
        command = cli_equivalent.parity_plan_and_apply(self.session.files)
        lines: list[str | Line] = [
            f"{counted(len(changes), 'value')} on the target "
            f"({safe_text(plan.target_cluster, 60)}) will change:",
            *list_writes([row.write for row in changes]),
            "If a value has changed on either cluster since, nothing is written. U undoes it.",
            "",
            (Cell(safe_message(command), Tone.MUTED),),
        ]
        name = self.session.pair.pipeline
        dialog = Confirm("Apply to the target", lines, name, "Apply", undoable=True)
        agreed = await self.ask(dialog)
        if agreed and self.plan is plan:
            self._apply(plan)
        elif agreed:
            self.inform("Nothing was applied: it was compared again meanwhile.", "warning")

    def _apply(self, plan: ParityPlan) -> None:
        config, files, may = self.config, self.session.files, self.session.access
        self._is_used = True

        def done(applied: ParityApplied) -> None:
            self.applied = applied
            self.session.feed.refresh()

        self.act(
            "applying",
            lambda: operations.apply_plan(config, plan, files, may),
            done,
            writes=True,
            command=cli_equivalent.parity_plan_and_apply(files),
            result=lambda applied: results_text(applied.counts),
        )

    @work(group=ASK)
    async def action_undo(self) -> None:
        """Undo what was applied here."""
        if self.applied is not None:
            await undo_parity(self, self.applied.id, self._show_undone)

    def _show_undone(self, applied: ParityApplied) -> None:
        self._back = applied


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
