"""A plan for the pipeline's own positions, applied exactly as shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from textual import work
from textual.binding import Binding, BindingType

from k2ktui.console import cli_equivalent
from k2ktui.console.screens.operation import OperationScreen
from k2ktui.console.widgets.confirm import Confirm
from k2ktui.console.widgets.grid import Grid
from k2ktui.console.widgets.styled_text import glyphs_of
from k2ktui.console.widgets.typed_keys import ASK
from k2ktui.engine.journal import RunKind
from k2ktui.engine.moves import MoveEffect, PositionMove
from k2ktui.present import formatting
from k2ktui.present.formatting import Cell, Line, Tone
from k2ktui.present.positions import (
    meaning_text,
    move_columns,
    move_verdict,
    new_text,
    now_text,
    sum_moves,
)
from k2ktui.sync.position_writer import PositionWriter, PositionWriteResult
from k2ktui.sync.positions import CLEAR, PositionPlan, PositionPlanner
from k2ktui.text import counted, safe_message, safe_text
from k2ktui.watch.severity import Severity


class MovesScreen(OperationScreen):
    """The effect of moving positions, before and after it is done.

    Args:
        plan: makes the plan; called on a thread.
    """

    ENTRY: ClassVar[str] = "positions"
    HELP: ClassVar[str | None] = """
        A plan for positions, with one row for each partition. Back: up to this many records are
        copied again. Forward: up to this many records are never copied. Restart: the topic was
        re-created, or no mapped record lies before the position. Refused: the move is impossible,
        with the reason; a plan with refused rows is not applied.

        A applies it after you have typed the pipeline's name. It fences every process that may
        still run the pipeline, and writes nothing if a position has changed since. The change is
        recorded in the journal. n plans again; y copies the equivalent command.
    """
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

    @property
    def crumb(self) -> str:
        """The plan."""
        return "plan"

    def make_grid(self) -> Grid[PositionMove]:
        """Create the table of moves."""
        return Grid(
            move_columns(glyphs_of(self)),
            key=lambda move: move.source,
            search=lambda move: f"{move.source} {move.effect} {move.why}",
            problem=lambda move: move_verdict(move).severity >= Severity.WARN,
            order=lambda move: (-move_verdict(move).severity, move.source),
            empty=formatting.NOT_YET,
            opens="",
            id="moves",
        )

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
        grid: Grid[Any] = self.query_one(Grid)
        grid.empty = "None of these partitions has a position."
        grid.show(change.moves)
        grid.action_jump(0)

    # Content

    def summary(self) -> Line:
        """Return the totals."""
        if self.change is None:
            return (Cell("no plan yet" if not self.busy else formatting.NOT_YET),)
        again, left_out = sum_moves(self.change.moves)
        counts = {e: sum(move.effect is e for move in self.change.moves) for e in MoveEffect}
        parts = "  ".join(f"{count:,} {effect}" for effect, count in counts.items() if count)
        return (
            Cell(f"{self.change.operation}  {parts}  "),
            Cell(f"{again:,} copied again", Tone.WARN if again else Tone.MUTED),
            Cell("  "),
            Cell(f"{left_out:,} never copied", Tone.BAD if left_out else Tone.MUTED),
        )

    def facts(self) -> list[Line]:
        """Return the plan's notes and the outcome of applying it."""
        if self.change is None:
            return []
        notes = [*self.change.notes, *(self.moved.notes if self.moved else ())]
        found: list[Line] = [(Cell(part, Tone.WARN),) for note in notes for part in self.wrap(note)]
        if self.moved is None:
            found.append((Cell(f"$ {safe_message(self.text_to_copy())}", Tone.MUTED),))
            return found
        entry = f", journal entry {self.moved.entry}" if self.moved.entry else ""
        count = len(self.change.changes)
        text = f"positions written: {count:,}, in term {self.moved.term}{entry}"
        return [*found, (Cell(text, Tone.OK),)]

    def detail(self) -> list[Line]:
        """Return all details of the row under the cursor."""
        move: PositionMove | None = self.query_one(Grid).current
        if move is None:
            return []
        lines: list[Line] = [
            (
                Cell(safe_text(move.source, 300), Tone.HEADING),
                Cell(f"  {now_text(move)} → {new_text(move)}  {move.effect}"),
            )
        ]
        return lines + [(Cell(part),) for part in self.wrap(meaning_text(move))]

    def text_to_copy(self) -> str:
        """Return the equivalent CLI command."""
        if self.change is None:
            return ""
        words = [_argument(move, self.change.operation) for move in self.change.moves]
        return cli_equivalent.offsets(self.session.files, self.change.operation, words)

    def refusal(self, action: str) -> str:
        """Return why an action is unavailable now."""
        found = super().refusal(action)
        if found or action != "apply":
            return found
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
        again, left_out = sum_moves(change.moves)
        repeats, gaps = counted(again, "record"), counted(left_out, "record")
        lines: list[str | Line] = [
            f"Positions written ({change.operation}): {len(change.changes):,}.",
            (Cell(f"Copied again: up to {repeats}.", Tone.WARN if again else _PLAIN),),
            (Cell(f"Never copied: up to {gaps}.", Tone.BAD if left_out else _PLAIN),),
            *change.notes,
            "Any process that still runs the pipeline is fenced first. Nothing is written if the "
            "pipeline runs, or if a position has changed since.",
            "",
            self.text_to_copy(),
        ]
        name = self.session.pair.pipeline
        agreed = await self.ask(Confirm("Move positions", lines, name, "Move"))
        if agreed and self.change is change:
            self._apply(change)
        elif agreed:
            self.inform("Nothing was moved: the plan was made again meanwhile.", "warning")

    def _apply(self, change: PositionPlan) -> None:
        config, may = self.config, self.session.access

        def job() -> PositionWriteResult:
            positions = PositionPlanner(config)
            try:
                return PositionWriter(config, positions).apply(change, may)
            finally:
                positions.close()

        self.act(
            "moving positions", job, self._show_applied, writes=True, command=self.text_to_copy()
        )

    def _show_applied(self, moved: PositionWriteResult) -> None:
        self.moved = moved
        self.session.feed.refresh()


_PLAIN = Tone.PLAIN


def _argument(move: PositionMove, what: str) -> str:
    source = f"{move.source.topic}:{move.source.partition}"
    return source if what == CLEAR else f"{source}:{move.offset}"
