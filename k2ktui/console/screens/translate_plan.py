"""A plan for consumer groups: shown, applied as shown, verified by content, undone."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from rich.cells import cell_len
from textual import on, work
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widget import Widget

from k2ktui.console import cli_equivalent
from k2ktui.console.screens import plan_table
from k2ktui.console.screens.change import Change, ChangeScreen
from k2ktui.console.screens.partition import log_of, row_of
from k2ktui.console.screens.plan_table import PlanLine
from k2ktui.console.screens.translate_facts import (
    Known,
    describe_row,
    total_sums,
    undone_sums,
    verified_sums,
    written_sums,
)
from k2ktui.console.screens.undo import undo_groups
from k2ktui.console.visuals.shapes import Log
from k2ktui.console.visuals.sums import Sums
from k2ktui.console.widgets.grid import Grid
from k2ktui.console.widgets.row_dialog import RowDialog
from k2ktui.console.widgets.styled_text import glyphs_of
from k2ktui.console.widgets.typed_keys import ASK
from k2ktui.engine.access import Access
from k2ktui.engine.moves.apply import WriteResult, results_text, undo_text
from k2ktui.engine.moves.choice import RowKey, RowValue
from k2ktui.engine.moves.groups import Snapshot
from k2ktui.engine.moves.plan import Plan, Rewind, dump_plan, plan_remarks, uncertain_first
from k2ktui.engine.moves.planning import PlanOptions, set_row
from k2ktui.engine.records.state import SourcePartition
from k2ktui.errors import K2kError, PartlyApplied
from k2ktui.present import formatting
from k2ktui.present.columns import Column
from k2ktui.present.formatting import Cell, Line, Tone
from k2ktui.sync import operations
from k2ktui.sync.moves.apply import Applied, OffsetsChanged
from k2ktui.sync.moves.choices import look_up_times
from k2ktui.sync.moves.plans import keep_plan, plan_options
from k2ktui.sync.verify.record_comparison import ComparisonOutcome
from k2ktui.sync.verify.verification import ContentCheck
from k2ktui.text import safe_message, safe_text
from k2ktui.watch.model import RangeRow, ranges_below

Key = tuple[str, str, int]
_WORST = (
    ComparisonOutcome.DIFFERENT,
    ComparisonOutcome.REREADS,
    ComparisonOutcome.COULD_NOT_CHECK,
    ComparisonOutcome.SAME,
)
_NOTES = 3
# Cells of the drawn jumps, and the width of a terminal with room for the larger one.
_JUMP, _LARGE_JUMP, _LARGE = 7, 17, 160
# From so many lines on, the equivalent command is shown, which y copies anyway.
_HIGH = 32


@dataclass(frozen=True, slots=True)
class Shown:
    """A plan, the notes on its snapshot, the file it is kept in, and what rows are set with."""

    plan: Plan
    notes: tuple[str, ...] = ()
    path: Path | None = None
    snapshot: Snapshot | None = None
    read: tuple[str, ...] = ()


def make_shown(plan: Plan, read: Sequence[str], snapshot: Snapshot | None) -> Shown:
    """Return a plan to show, and keep it in a file; ``read`` are the notes on the snapshot."""
    notes = (*plan_remarks(plan), *read)
    return Shown(plan, notes, keep_plan(plan), snapshot, tuple(read))


class PlanScreen(ChangeScreen[Shown, Applied]):
    """A plan for some groups.

    Args:
        groups: their names; None for all.
        rewind: what to do where the target is ahead of the translation.
        shown: an existing plan; None makes one.
    """

    ENTRY: ClassVar[str] = "translate"
    HELP: ClassVar[str | None] = """
        A plan, with one row for each group and target partition, the uncertain ones first. Now is
        the committed offset on the target; proposed is where the group continues. Jump draws the
        way between them, back to the left and forward to the right, on a scale of powers of ten; a
        broken arrow is not made. Re-read and skipped are upper bounds in records, and 0 for the
        bases exact and end. Blocked rows are not applied; their reason is shown. The
        tiles have the totals, and later the outcomes, of the last step.

        The panel beside the table, which Enter opens on a narrow terminal, has everything about the
        row under the cursor: why, the mapping range that its offset is in, and where both offsets
        lie in the retained logs.

        o sets the row under the cursor instead: to an offset, a time, earliest, latest, +N or -N
        from the proposed offset, or to be left out. What that re-reads and skips is shown while you
        type, and the row then has the basis chosen. n plans again, with the rows that were set.

        A applies the plan exactly as shown after you have typed the pipeline's name. If a group has
        got a member or an offset has moved since, nothing is written: those rows are marked, and n
        plans again. Every write is read back, and recorded in the journal on the target.

        v compares the next record of each group on both clusters, byte for byte, at the plan's
        offsets, before or after it is applied. U undoes what was applied. w switches rewinds on or
        off, and plans again. y copies the equivalent commands; e exports the plan.
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("A", "apply", "Apply", id="plan.apply"),
        Binding("o", "set_row", "Set", id="plan.set"),
        Binding("v", "verify", "Verify", id="plan.verify"),
        Binding("U", "undo", "Undo", id="plan.undo"),
        Binding("n", "plan_again", "Plan again", id="plan.again"),
        Binding("w", "rewind", "Rewind", id="plan.rewind"),
    ]
    PANEL: ClassVar[str] = "Plan"
    crumb = "plan"
    NEEDS: ClassVar[frozenset[str]] = frozenset({"verify", "plan_again", "rewind", "set_row"})
    OF_PLAN: ClassVar[frozenset[str]] = frozenset({"apply", "undo", "verify", "set_row"})

    class RowWritten(Message):
        """The outcome of a row is known."""

        def can_replace(self, message: Message) -> bool:
            """Return whether this replaces a queued message: yes, all rows are shown at once."""
            return isinstance(message, PlanScreen.RowWritten)

    def __init__(
        self, groups: frozenset[str] | None, rewind: Rewind, shown: Shown | None = None
    ) -> None:
        super().__init__(shown)
        self._groups, self._rewind = groups, rewind
        self._choices: dict[RowKey, RowValue] = {}
        self._news = False
        self._verified = self._plan_id = ""
        self._effect: tuple[Line, ...] = ()
        self._largest = 1
        self._jump = _JUMP
        self._target_logs: dict[tuple[str, int], tuple[int, int]] = {}
        self._moved = False
        self._lines: dict[Key, PlanLine] = {}
        self._arriving: dict[Key, WriteResult] = {}

    def make_grid(self) -> Grid[PlanLine]:
        """Create the table of plan rows."""
        return Grid(
            self._columns(),
            key=lambda line: line.key,
            search=lambda line: (
                f"{line.row.group} {line.row.topic}-{line.row.partition} {line.row.basis} "
                f"{line.row.action.word} {line.row.reason}"
            ),
            problem=lambda line: line.uncertain or line.failed,
            order=lambda line: (-line.trouble, line.number),
            empty=formatting.NOT_YET,
            sorts_first="skipped",
            id="plan",
        )

    def _columns(self) -> tuple[Column[PlanLine], ...]:
        self._jump = _LARGE_JUMP if self.app.size.width >= _LARGE else _JUMP
        return plan_table.columns(
            glyphs_of(self), news=self._news, largest=self._largest, width=self._jump
        )

    def above(self) -> Iterable[Widget]:
        """Yield the tiles."""
        yield Sums()

    def on_resize(self) -> None:
        """Draw the jumps for the new size."""
        if (self.size.width >= _LARGE) != (self._jump == _LARGE_JUMP):
            self.query_one(Grid).show_columns(self._columns())

    # Content

    def describe(self, shown: Shown) -> Line:
        """Return how long the plan is valid, and what it is."""
        plan = shown.plan
        made = time.strftime("%H:%M:%S UTC", time.gmtime(plan.created_at))
        about = f"rewind: {plan.rewind}  made {made}  {self._plan_id}"
        if self.applied is not None:
            return (Cell(about),)
        left = plan.expires_at - self.session.feed.now()
        if left <= 0:
            return (Cell(f"expired: n plans again  {about}", Tone.WARN),)
        # In steps, so that it is not redrawn every second.
        for_s = 60 * int(left // 60) if left >= 60 else 10 * (int(left // 10) + 1)
        return (Cell(f"valid for {formatting.duration(for_s)}  {about}"),)

    def effects(self, shown: Shown) -> list[Line]:
        """Return the plan's notes and what applying it does, or has done."""
        lines = self.warnings(shown.notes)
        if len(lines) > _NOTES:
            rest = Cell("… the rest is shown before it is applied", Tone.WARN)
            lines = [*lines[: _NOTES - 1], (rest,)]
        if self.applied is None:
            lines += self._what_apply_does()
            if self.size.height >= _HIGH:
                lines.append((Cell(f"$ {safe_message(self._command(shown.plan))}", Tone.MUTED),))
            return lines + self._proof()
        done = results_text(self.applied.counts)
        tone = Tone.OK if self.applied.complete else Tone.BAD
        lines.append((Cell(f"{done}", tone), Cell(f"  journal entry {self.applied.id}")))
        lines += self._proof()
        if self.back is not None:
            back = undo_text(self.back.counts)
            lines.append((Cell(f"{back}  journal entry {self.back.id}"),))
        return lines

    def _what_apply_does(self) -> list[Line]:
        """Return the sentences of the dialog that confirms it, on as few lines as they take."""
        cells = [cell for line in self._effect for cell in line]
        if sum(cell_len(cell.text) for cell in cells) + 1 <= self.size.width - 6:
            return [tuple(part for cell in cells for part in (cell, Cell(" ")))]
        return [(Cell(part, cell.tone),) for cell in cells for part in self.wrap(cell.text)]

    def _proof(self) -> list[Line]:
        return [(Cell(f"verified: {self._verified}"),)] if self._verified else []

    def _command(self, plan: Plan) -> str:
        files, groups = self.session.files, self._groups
        return cli_equivalent.plan_and_apply(files, groups, plan.rewind, self._path, self._choices)

    @property
    def _path(self) -> Path | str:
        return (self.shown.path if self.shown is not None else None) or "plan.json"

    def row_reason(self, line: PlanLine) -> list[Line]:
        """Return what went wrong with a row, and why it is planned so."""
        return plan_table.reasons(line, self.wrap)

    def row_title(self, line: PlanLine) -> str:
        """Return the group and the partition."""
        row = line.row
        return safe_text(f"{row.group}  {row.topic}-{row.partition}", 200)

    def row_lines(self, line: PlanLine, width: int) -> list[Line]:
        """Return all details of a row."""
        known = Known(
            {source: self._known_of(source, offset) for source, offset in line.row.sources},
            self._target_logs.get((line.row.topic, line.row.partition)),
        )
        return describe_row(line, known, width, glyphs_of(self))

    def _known_of(self, source: SourcePartition, offset: int) -> tuple[Log, RangeRow | None]:
        """Return a source partition's log, and the mapping range at an offset or before it."""
        where = source.topic, source.partition
        row = row_of(self.console.view, where)
        if row is None:
            return Log(None, None), None
        range_rows = self.session.feed.ranges(*where) or row.ranges
        number = bisect_right(range_rows, offset, key=lambda range_row: range_row[0])
        # Mappings and positions are read at different moments, and mappings may be ahead.
        known = ranges_below(range_rows[max(0, number - 1) : number], row.status.position)
        return log_of(row), known[0] if known else None

    def document(self) -> str | None:
        """Return the plan as JSON."""
        return None if self.shown is None else dump_plan(self.shown.plan).rstrip()

    def text_to_copy(self) -> str:
        """Return the equivalent CLI commands."""
        if self.shown is None:
            return ""
        files, entry = self.session.files, self.applied
        if entry is not None:
            verify = cli_equivalent.verify(files, self._path)
            return f"{verify}\n{cli_equivalent.undo(files, entry.id)}"
        return self._command(self.shown.plan)

    def refusal(self, action: str) -> str:
        """Return why an action is unavailable now."""
        why = super().refusal(action)
        if why or action != "set_row" or self.shown is None:
            return why
        settable = self.shown.snapshot is not None and not (self.used or self._moved)
        return "" if settable else "n plans again; then rows can be set"

    def unappliable(self, shown: Shown) -> str:
        """Return why the plan cannot be applied now."""
        if why := super().unappliable(shown):
            return why
        if not shown.plan.applied:
            return "there is nothing to apply"
        if self._moved:
            return "something has moved since; n plans again"
        late = self.session.feed.now() > shown.plan.expires_at
        return "the plan has expired; n plans again" if late else ""

    # Planning

    def action_rewind(self) -> None:
        """Toggle whether rewinds are followed, and plan again."""
        self._rewind = Rewind.FOLLOW if self._rewind is Rewind.NEVER else Rewind.NEVER
        self.action_plan_again()

    def _options(self) -> PlanOptions:
        groups = self._groups
        chosen = (lambda _: True) if groups is None else groups.__contains__
        return plan_options(
            self.config, rewind=self._rewind, group=chosen, choices=dict(self._choices)
        )

    def action_plan_again(self) -> None:
        """Make a new plan for the same groups, with the rows that were set."""
        flow, files, options = self.flow, self.session.files, self._options()
        taken: list[Snapshot] = []

        def job() -> Shown:
            plan = operations.create_plan(flow, options, files, taken.append)
            return make_shown(plan, plan.notes, taken[0] if taken else None)

        command = cli_equivalent.plan(files, self._groups, self._rewind, "plan.json", self._choices)
        self.act("planning", job, self.show_plan, command=command)

    # Setting rows

    @work(group=ASK)
    async def action_set_row(self) -> None:
        """Ask for the value of the row under the cursor, and plan with it."""
        line: PlanLine | None = self.query_one(Grid).current
        shown = self.shown
        if line is None or shown is None or shown.snapshot is None:
            return
        row, snapshot, config, options = line.row, shown.snapshot, self.config, self._options()
        stopped = shown.plan.is_stopped_by_conflict

        def effect(value: RowValue) -> list[Line]:
            return plan_table.choice_lines(
                set_row(snapshot, options, row.key, value, stopped=stopped)
            )

        def look_up(value: RowValue) -> RowValue:
            return look_up_times({row.key: value}, config)[row.key]

        present = row.current if row.proposed is None else row.proposed
        typed = row.choice.value if row.choice else "" if present is None else str(present)
        value = await self.ask(RowDialog(plan_table.choice_title(row), typed, effect, look_up))
        if value is not None and self.shown is shown:
            self._set_row(row.key, value if isinstance(value, RowValue) else None, shown)

    def _set_row(self, key: RowKey, value: RowValue | None, before: Shown) -> None:
        """Plan with a row set, or translated again if there is no value."""
        snapshot, earlier = before.snapshot, dict(self._choices)
        if snapshot is None:
            return
        self._choices.pop(key, None)
        if value is not None:
            self._choices[key] = value
        files, options = self.session.files, self._options()

        def job() -> Shown:
            plan = operations.plan_snapshot(snapshot, options, files)
            return make_shown(plan, before.read, snapshot)

        def show(shown: Shown) -> None:
            self.show_plan(shown)
            self.query_one(Grid).select(key)

        def put_back(_: K2kError) -> None:
            self._choices = earlier

        command = cli_equivalent.plan(files, self._groups, self._rewind, "plan.json", self._choices)
        self.act("planning", job, show, failed=put_back, command=command)

    def draw(self, shown: Shown) -> None:
        """Show the rows."""
        # Computed once here: both read every row, too slow for every key press and second.
        plan = shown.plan
        self._plan_id = plan.id
        self._effect = plan_table.effect_lines(plan)
        self._largest = plan_table.scale_of(plan)
        self._target_logs = {
            log.at: (log.start, log.end)
            for log in plan.logs
            if log.start is not None and log.end is not None
        }
        self._moved, self._verified = False, ""
        self._arriving = {}
        rows = uncertain_first(shown.plan.rows)
        lines = (PlanLine(number, row) for number, row in enumerate(rows))
        self._lines = {line.key: line for line in lines}
        grid: Grid[Any] = self.query_one(Grid)
        grid.empty = "Nothing to plan: no committed offset. Esc: choose others."
        self._news = False
        grid.show_columns(self._columns())
        self._show_lines(news=False)
        grid.action_jump(0)
        self.query_one(Sums).show(total_sums(plan))

    def _show_lines(self, *, news: bool) -> None:
        grid: Grid[Any] = self.query_one(Grid)
        if news is not self._news:
            self._news = news
            grid.show_columns(self._columns())
        grid.show(list(self._lines.values()))

    def _show_news(self, lines: Iterable[PlanLine]) -> None:
        """Show the outcomes of rows."""
        self._lines |= {line.key: line for line in lines}
        self._show_lines(news=True)

    # Applying

    def change(self, shown: Shown) -> Change[Applied]:
        """Return what is committed, and what it costs."""
        config, files, plan = self.config, self.session.files, shown.plan

        def report_row(written: WriteResult) -> None:
            write = written.write
            self._arriving[write.group, write.topic, write.partition] = written
            self.post_message(self.RowWritten())

        def write(may: Access) -> Applied:
            self._arriving = {}
            return operations.apply_plan(config, plan, files, may, report_row)

        return Change(
            title=f"Apply plan {self._plan_id}",
            lines=plan_table.confirmation_lines(plan, shown.notes),
            verb="Apply",
            command=self._command(plan),
            doing="applying",
            write=write,
            result=lambda applied: results_text(applied.counts),
            logged=cli_equivalent.apply(self._path),
        )

    @on(RowWritten)
    def _row_written(self) -> None:
        arrived = dict(self._arriving)
        if self.shown is not None and arrived:
            counts = Counter(str(result.outcome) for result in arrived.values())
            self.query_one(Sums).show(written_sums(self.shown.plan, counts))
        self._show_news(
            replace(self._lines[key], written=result) for key, result in arrived.items()
        )

    def show_applied(self) -> None:
        """Show the outcome of each row."""
        self._row_written()
        if self.applied is not None and not self.applied.complete:
            self.query_one(Grid).action_jump(0)

    def show_failure(self, error: K2kError) -> None:
        """Mark what has moved."""
        if isinstance(error, OffsetsChanged):
            error.hint = "Press n to plan again."
            self._moved = True
            moved = {key: why for key, why in error.moved.items() if key in self._lines}
            self._show_news(replace(self._lines[key], moved=why) for key, why in moved.items())
            self.query_one(Grid).action_jump(0)

    def was_begun(self, error: K2kError) -> bool:
        """Return whether a row was reported, or the error says that some were written."""
        return bool(self._arriving) or isinstance(error, PartlyApplied)

    # Verifying

    def action_verify(self) -> None:
        """Compare the next records of the plan's groups on both clusters."""
        shown, flow = self.shown, self.flow
        if shown is None:
            return

        def job() -> operations.VerificationReport:
            return operations.verify_content(flow, group=lambda _: True, plan=shown.plan)

        command = cli_equivalent.verify(self.session.files, self._path)
        self.act("comparing the next records", job, self._show_comparison, command=command)

    def _show_comparison(self, proof: operations.VerificationReport) -> None:
        checks: dict[Key, ContentCheck] = {}
        for check in proof.verification.checks:
            key = (check.group, *check.pair.target)
            if not check.group or key not in self._lines:
                continue
            if key not in checks or _worse(check, checks[key]):
                checks[key] = check
        lines = [
            replace(self._lines[key], proof=check, unchecked="", back=None)
            for key, check in checks.items()
        ]
        for row, why in proof.unasked:
            key = (row.group, row.topic, row.partition)
            if key in self._lines:
                lines.append(replace(self._lines[key], proof=None, unchecked=why, back=None))
        asked, records = proof.verification.positions, proof.verification.records
        unchecked = asked.could_not_check + len(proof.unasked)
        self._verified = (
            f"{asked.same:,} same, {asked.rereads:,} re-read, {asked.different:,} different, "
            f"{unchecked:,} unchecked; sampled: {records.same:,} same, "
            f"{records.different:,} different"
        )
        self.query_one(Sums).show(verified_sums(asked, records, unchecked))
        self._show_news(lines)

    # Undo

    @work(group=ASK)
    async def action_undo(self) -> None:
        """Undo what was applied on this screen."""
        if self.applied is not None:
            await undo_groups(self, self.applied.id, self._show_undone)

    def _show_undone(self, applied: Applied) -> None:
        self.back = applied
        self.query_one(Sums).show(undone_sums(applied.counts))
        rows = {(w.write.group, w.write.topic, w.write.partition): w for w in applied.rows}
        self._show_news(
            replace(self._lines[key], back=result)
            for key, result in rows.items()
            if key in self._lines
        )


def _worse(one: ContentCheck, other: ContentCheck) -> bool:
    return _WORST.index(one.outcome) < _WORST.index(other.outcome)
