"""A plan for the pipeline's own positions, applied exactly as shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from textual import work
from textual.binding import Binding, BindingType
from textual.widget import Widget

from k2ktui.console import cli_equivalent
from k2ktui.console.screens.operation import OperationScreen
from k2ktui.console.screens.partition import row_of
from k2ktui.console.screens.positions_facts import (
    columns,
    describe_move,
    effect_lines,
    move_by,
    move_sums,
    moved_sums,
)
from k2ktui.console.visuals.shapes import power_of_ten
from k2ktui.console.visuals.sums import Sums
from k2ktui.console.widgets.confirm import Confirm
from k2ktui.console.widgets.grid import Grid
from k2ktui.console.widgets.styled_text import glyphs_of
from k2ktui.console.widgets.typed_keys import ASK
from k2ktui.engine.moves.journal import RunKind
from k2ktui.engine.moves.positions import MoveEffect, PositionMove
from k2ktui.engine.severity import Severity
from k2ktui.present import formatting
from k2ktui.present.columns import Column
from k2ktui.present.formatting import Cell, Line, Tone
from k2ktui.present.positions import meaning_text, move_verdict
from k2ktui.sync.moves.position_writer import PositionWriteResult
from k2ktui.sync.moves.positions import CLEAR, SET, PositionPlan, PositionPlanner
from k2ktui.sync.recovery import RecoveryWriter
from k2ktui.text import safe_message, safe_text


class MovesScreen(OperationScreen):
    """The effect of moving positions, before and after it is done.

    Args:
        plan: makes the plan; called on a thread.
    """

    ENTRY: ClassVar[str] = "positions"
    HELP: ClassVar[str | None] = """
        A plan for positions, with one row for each partition. Jump draws the way of the position,
        on a scale of powers of ten; a broken arrow is not made. Back: up to this many records are
        copied again. Forward: up to this many records are never copied. Restart: the topic was
        re-created, or no mapped record lies before the position. Refused: the move is impossible,
        with the reason; a plan with refused rows is not applied.

        A applies it after you have typed the pipeline's name. It fences every process that may
        still run the pipeline, and writes nothing if a position has changed since. The change is
        recorded in the journal. n plans again; y copies the equivalent command. The panel beside
        the table, which Enter opens on a narrow terminal, shows both positions on the source's log.

        Recover: both logs prove the position that was lost. Stop: they do not, for the reason
        shown; the partition stays stopped until you set or clear its position.
    """
    PANEL: ClassVar[str] = "Moves"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("A", "apply", "Apply", id="moves.apply"),
        Binding("n", "plan_again", "Plan again", id="moves.again"),
    ]
    CHANGES: ClassVar[frozenset[str]] = frozenset({"apply"})
    NEEDS: ClassVar[frozenset[str]] = frozenset({"plan_again"})

    def __init__(self, plan: Callable[[PositionPlanner], PositionPlan]) -> None:
        super().__init__()
        self._plan = plan
        self.change: PositionPlan | None = None
        self.moved: PositionWriteResult | None = None
        self._counts = self._command = ""
        self._effect: tuple[Line, ...] = ()

    @property
    def crumb(self) -> str:
        """The plan."""
        return "plan"

    def make_grid(self) -> Grid[PositionMove]:
        """Create the table of moves."""
        return Grid(
            self._columns(),
            key=lambda move: move.source,
            search=lambda move: f"{move.source} {move.effect} {move.why}",
            problem=lambda move: move_verdict(move).severity >= Severity.WARN,
            order=lambda move: (-move_verdict(move).severity, move.source),
            empty=formatting.NOT_YET,
            id="moves",
        )

    def _columns(self) -> tuple[Column[PositionMove], ...]:
        moves = self.change.moves if self.change is not None else ()
        largest = power_of_ten(abs(move_by(move) or 0) for move in moves)
        return columns(glyphs_of(self), largest=largest)

    def above(self) -> Iterable[Widget]:
        """Yield the tiles."""
        yield Sums()

    def on_mount(self) -> None:
        """Make the plan."""
        self.action_plan_again()

    def action_plan_again(self) -> None:
        """Make the plan with both clusters."""
        config, plan = self.config, self._plan

        def job() -> PositionPlan:
            positions = PositionPlanner(config)
            try:
                return plan(positions)
            finally:
                positions.close()

        self.act("planning", job, self._show_plan)

    def _show_plan(self, change: PositionPlan) -> None:
        self.change, self.moved = change, None
        # Computed once here: all read every row, too slow for every key press and second.
        words = [_argument(move, change.operation) for move in change.moves]
        words = words if change.recovery is None else []
        self._command = cli_equivalent.offsets(self.session.files, change.operation, words)
        counts = Counter(move.effect for move in change.moves)
        self._counts = "  ".join(f"{counts[e]:,} {e}" for e in MoveEffect if counts[e])
        self._effect = effect_lines(change)
        grid: Grid[Any] = self.query_one(Grid)
        grid.empty = "Nothing to move: no position. Esc: choose others."
        grid.show_columns(self._columns())
        grid.show(change.moves)
        grid.action_jump(0)
        self.query_one(Sums).show(move_sums(change.moves))

    # Content

    def summary(self) -> Line:
        """Return what the plan does, and to how many positions."""
        if self.change is None:
            return (Cell(formatting.NOT_YET if self.busy else "no plan yet"),)
        return (Cell(f"{self.change.operation}  {self._counts}"),)

    def facts(self) -> list[Line]:
        """Return the plan's notes and what applying it does, or has done."""
        if self.change is None:
            return []
        sign = glyphs_of(self).status[Severity.WARN]
        notes = [*self.change.notes, *(self.moved.notes if self.moved else ())]
        lines: list[Line] = [
            (Cell(part, Tone.WARN),) for note in notes for part in self.wrap(f"{sign} {note}")
        ]
        if self.moved is None:
            for cell in (cell for line in self._effect for cell in line):
                lines += [(Cell(part, cell.tone),) for part in self.wrap(cell.text)]
            lines.append((Cell(f"$ {safe_message(self._command)}", Tone.MUTED),))
            return lines
        entry = f", journal entry {self.moved.entry}" if self.moved.entry else ""
        count = len(self.change.changes)
        text = f"positions written: {count:,}, in term {self.moved.term}{entry}"
        return [*lines, (Cell(text, Tone.OK),)]

    def detail(self) -> list[Line]:
        """Return what the move under the cursor means."""
        move: PositionMove | None = self.query_one(Grid).current
        return [] if move is None else [(Cell(part),) for part in self.wrap(meaning_text(move))]

    def row_title(self) -> str:
        """Return the partition under the cursor."""
        move: PositionMove | None = self.query_one(Grid).current
        return "" if move is None else safe_text(move.source, 200)

    def row_lines(self, width: int) -> list[Line]:
        """Return all details of the move under the cursor."""
        move: PositionMove | None = self.query_one(Grid).current
        if move is None:
            return []
        row = row_of(self.console.view, (move.source.topic, move.source.partition))
        return describe_move(move, row, width, glyphs_of(self))

    def text_to_copy(self) -> str:
        """Return the equivalent CLI command."""
        return self._command

    def refusal(self, action: str) -> str:
        """Return why an action is unavailable now."""
        why = super().refusal(action)
        if why or action != "apply":
            return why
        if self.change is None:
            return "there is no plan; n plans"
        if self.moved is not None:
            return "it was applied; n plans again"
        if any(move.effect is MoveEffect.REFUSED for move in self.change.moves):
            return "a move is refused: select other partitions or another position"
        return self._in_use() if self.change.changes else "there is nothing to change"

    def _in_use(self) -> str:
        view, now_ms = self.console.view, int(self.session.feed.now() * 1000)
        for runner in view.runners if view is not None else ():
            if runner.kind is RunKind.COPY and runner.alive(now_ms):
                where = f"{safe_text(runner.host, 60)}, pid {runner.pid}"
                return f"the pipeline runs on {where}: stop it first (5)"
        return ""

    # Applying

    @work(group=ASK)
    async def action_apply(self) -> None:
        """Confirm, and apply the plan that is shown."""
        change = self.change
        if change is None:
            return
        lines: list[str | Line] = [
            *self._effect,
            *((Cell(safe_message(note), Tone.WARN),) for note in change.notes),
            "Any process that still runs the pipeline is fenced first. Nothing is written if the "
            "pipeline runs, or if a position has changed since.",
            "",
            (Cell(safe_message(self._command), Tone.MUTED),),
        ]
        name = self.session.pair.pipeline
        # The journal undoes a move from a position to another one, or to none.
        undoable = change.operation in (SET, CLEAR)
        undoable = undoable and all(move.before is not None for move in change.changes)
        agreed = await self.ask(Confirm("Move positions", lines, name, "Move", undoable=undoable))
        if agreed and self.change is change:
            self._apply(change)
        elif agreed:
            self.inform("Nothing was moved: the plan was made again meanwhile.", "warning")

    def _apply(self, change: PositionPlan) -> None:
        config, may = self.config, self.session.access

        def job() -> PositionWriteResult:
            positions = PositionPlanner(config)
            try:
                return RecoveryWriter(config, positions).apply(change, may)
            finally:
                positions.close()

        self.act(
            "moving positions",
            job,
            self._show_applied,
            writes=True,
            command=self._command,
            result=lambda moved: f"{len(change.changes):,} written, in term {moved.term}",
        )

    def _show_applied(self, moved: PositionWriteResult) -> None:
        self.moved = moved
        if self.change is not None:
            self.query_one(Sums).show(moved_sums(self.change.moves))
        self.session.feed.refresh()


def _argument(move: PositionMove, what: str) -> str:
    source = f"{move.source.topic}:{move.source.partition}"
    return source if what == CLEAR else f"{source}:{move.offset}"
