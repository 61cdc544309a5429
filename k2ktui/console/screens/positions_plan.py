"""A plan for the pipeline's own positions, applied exactly as shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from contextlib import closing
from typing import Any, ClassVar

from textual.binding import Binding, BindingType
from textual.widget import Widget

from k2ktui.console import cli_equivalent
from k2ktui.console.screens.change import Change, ChangeScreen
from k2ktui.console.screens.partition import log_of, row_of
from k2ktui.console.visuals.facts import fact, fact_lines
from k2ktui.console.visuals.shapes import (
    journey,
    jump,
    log_bounds,
    log_lines,
    picture_cell,
    power_of_ten,
)
from k2ktui.console.visuals.sums import Part, Sum, Sums, at_most, cost_cell
from k2ktui.console.widgets.grid import Grid
from k2ktui.console.widgets.styled_text import glyphs_of
from k2ktui.engine.access import Access
from k2ktui.engine.moves.journal import RunKind
from k2ktui.engine.moves.positions import CLEAR, SET, MoveEffect, PositionMove, PositionPlan
from k2ktui.engine.severity import Severity
from k2ktui.present import formatting
from k2ktui.present.columns import Column, insert
from k2ktui.present.formatting import Cell, Glyphs, Line, Tone, tone_of
from k2ktui.present.positions import (
    meaning_text,
    move_columns,
    move_verdict,
    new_text,
    now_text,
    sum_moves,
)
from k2ktui.sync.positions.position_planner import PositionPlanner
from k2ktui.sync.positions.position_writer import PositionWriter, PositionWriteResult
from k2ktui.text import counted, safe_message, safe_text
from k2ktui.watch.model import PartitionRow

_JUMP = 9
_REFUSED = MoveEffect.REFUSED
_MOVED = (MoveEffect.BACK, MoveEffect.FORWARD)


class MovesScreen(ChangeScreen[PositionPlan, PositionWriteResult]):
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
    crumb = "plan"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("A", "apply", "Apply", id="moves.apply"),
        Binding("n", "plan_again", "Plan again", id="moves.again"),
    ]
    CHANGES: ClassVar[frozenset[str]] = frozenset({"apply"})
    MADE_AGAIN: ClassVar[str] = "Nothing was moved: the plan was made again meanwhile."

    def __init__(self, plan: Callable[[PositionPlanner], PositionPlan]) -> None:
        super().__init__()
        self._plan = plan
        self._counts = self._command = ""
        self._effect: tuple[Line, ...] = ()

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
        moves = self.shown.moves if self.shown is not None else ()
        largest = power_of_ten(abs(move_by(move) or 0) for move in moves)
        return columns(glyphs_of(self), largest=largest)

    def above(self) -> Iterable[Widget]:
        """Yield the tiles."""
        yield Sums()

    def action_plan_again(self) -> None:
        """Make the plan with both clusters."""
        config, plan = self.config, self._plan

        def job() -> PositionPlan:
            with closing(PositionPlanner(config)) as positions:
                return plan(positions)

        self.act("planning", job, self.show_plan)

    def draw(self, shown: PositionPlan) -> None:
        """Show the moves."""
        # Computed once here: all read every row, too slow for every key press and second.
        words = [_argument(move, shown.operation) for move in shown.moves]
        words = words if shown.recovery is None else []
        self._command = cli_equivalent.offsets(self.session.files, shown.operation, words)
        counts = Counter(move.effect for move in shown.moves)
        self._counts = "  ".join(f"{counts[e]:,} {e}" for e in MoveEffect if counts[e])
        self._effect = effect_lines(shown)
        grid: Grid[Any] = self.query_one(Grid)
        grid.empty = "Nothing to move: no position. Esc: choose others."
        grid.show_columns(self._columns())
        grid.show(shown.moves)
        grid.action_jump(0)
        self.query_one(Sums).show(move_sums(shown.moves))

    # Content

    def describe(self, shown: PositionPlan) -> Line:
        """Return what the plan does, and to how many positions."""
        return (Cell(f"{shown.operation}  {self._counts}"),)

    def effects(self, shown: PositionPlan) -> list[Line]:
        """Return the plan's notes and what applying it does, or has done."""
        lines = self.warnings([*shown.notes, *(self.applied.notes if self.applied else ())])
        if self.applied is None:
            for cell in (cell for line in self._effect for cell in line):
                lines += [(Cell(part, cell.tone),) for part in self.wrap(cell.text)]
            lines.append((Cell(f"$ {safe_message(self._command)}", Tone.MUTED),))
            return lines
        entry = f", journal entry {self.applied.entry}" if self.applied.entry else ""
        count = len(shown.changes)
        text = f"positions written: {count:,}, in term {self.applied.term}{entry}"
        return [*lines, (Cell(text, Tone.OK),)]

    def row_reason(self, row: PositionMove) -> list[Line]:
        """Return what a move means."""
        return [(Cell(part),) for part in self.wrap(meaning_text(row))]

    def row_title(self, row: PositionMove) -> str:
        """Return the partition."""
        return safe_text(row.source, 200)

    def row_lines(self, row: PositionMove, width: int) -> list[Line]:
        """Return all details of a move."""
        known = row_of(self.console.view, (row.source.topic, row.source.partition))
        return describe_move(row, known, width, glyphs_of(self))

    def text_to_copy(self) -> str:
        """Return the equivalent CLI command."""
        return self._command

    def unappliable(self, shown: PositionPlan) -> str:
        """Return why the plan cannot be applied now."""
        if why := super().unappliable(shown):
            return why
        if shown.refused:
            return "a move is refused: select other partitions or another position"
        return self._in_use() if shown.changes else "there is nothing to change"

    def _in_use(self) -> str:
        view, now_ms = self.console.view, int(self.session.feed.now() * 1000)
        for runner in view.runners if view is not None else ():
            if runner.kind is RunKind.COPY and runner.alive(now_ms):
                where = f"{safe_text(runner.host, 60)}, pid {runner.pid}"
                return f"the pipeline runs on {where}: stop it first (5)"
        return ""

    # Applying

    def change(self, shown: PositionPlan) -> Change[PositionWriteResult]:
        """Return what is written, and what it costs."""
        config = self.config

        def write(may: Access) -> PositionWriteResult:
            with closing(PositionPlanner(config)) as positions:
                return PositionWriter(positions).apply(shown, may)

        return Change(
            title="Move positions",
            lines=[
                *self._effect,
                *((Cell(safe_message(note), Tone.WARN),) for note in shown.notes),
                "Any process that still runs the pipeline is fenced first. Nothing is written if "
                "the pipeline runs, or if a position has changed since.",
            ],
            verb="Move",
            command=self._command,
            doing="moving positions",
            write=write,
            result=lambda moved: f"{len(shown.changes):,} written, in term {moved.term}",
            # The journal undoes a move from a position to another one, or to none.
            undoable=shown.operation in (SET, CLEAR)
            and all(move.before is not None for move in shown.changes),
        )

    def show_applied(self) -> None:
        """Show the totals of what was written."""
        if self.shown is not None:
            self.query_one(Sums).show(moved_sums(self.shown.moves))


def _argument(move: PositionMove, what: str) -> str:
    source = f"{move.source.topic}:{move.source.partition}"
    return source if what == CLEAR else f"{source}:{move.offset}"


def move_by(move: PositionMove) -> int | None:
    """Return how far a position goes; None if one of both is unknown."""
    return None if move.now is None or move.offset is None else move.offset - move.now


def columns(glyphs: Glyphs, *, largest: float) -> tuple[Column[PositionMove], ...]:
    """Return the columns, with the drawn jump; ``largest`` is the end of its scale."""

    def drawn(move: PositionMove) -> Cell:
        tone = tone_of(move_verdict(move).severity)
        stays = move.effect is _REFUSED
        return picture_cell(jump(move_by(move), largest, _JUMP, glyphs, tone, stays=stays))

    picture: Column[PositionMove] = Column(
        "jump", "jump", drawn, width=_JUMP, widest=_JUMP, rank=2, picture=True
    )
    return tuple(insert(move_columns(glyphs), {"now": picture}))


def move_sums(moves: Collection[PositionMove]) -> list[Sum]:
    """Return the totals of moves: by effect, records copied again and never copied."""
    if not moves:
        return []
    count = Counter(move.effect for move in moves)

    def part(effect: MoveEffect) -> Part:
        return count[effect], str(effect), Tone.PLAIN

    moved = [part(MoveEffect.BACK), part(MoveEffect.FORWARD)]
    others = [part(other) for other in MoveEffect if other not in _MOVED and other is not _REFUSED]
    refused = count[_REFUSED]
    again, left_out = sum_moves(moves)
    shown = [other_part for other_part in others if other_part[0]] or [(0, "others", Tone.MUTED)]
    if refused:
        shown = [
            (refused, str(_REFUSED), Tone.BAD),
            *(other_part for other_part in shown if other_part[0]),
        ]
    return [
        Sum("Moved", moved, sum(number for number, _, _ in moved) / len(moves)),
        Sum("Others", shown, severity=Severity.BAD if refused else None),
        at_most("Copied again", again, Severity.WARN),
        at_most("Never copied", left_out, Severity.BAD),
    ]


def moved_sums(moves: Collection[PositionMove]) -> list[Sum]:
    """Return the totals after all were written."""
    written = sum(move.changes for move in moves)
    left = len(moves) - written
    return [
        Sum("Written", [(written, "written", Tone.OK)], written / max(1, len(moves))),
        Sum("Left alone", [(left, "keep", Tone.PLAIN)]),
        *move_sums(moves)[2:],
    ]


def effect_lines(change: PositionPlan) -> tuple[Line, ...]:
    """Return what applying a plan does, in short sentences: what is written, what it costs."""
    if not change.moves:
        return ()
    if change.refused:
        refused = counted(len(change.refused), "move")
        text = f"Not to be applied: {refused} refused. Esc: choose others."
        return ((Cell(text, Tone.BAD),),)
    if not change.changes:
        return ((Cell("Nothing to apply: every position is there already."),),)
    again, left_out = sum_moves(change.moves)
    text = f"Apply writes {counted(len(change.changes), 'position')} ({change.operation})."
    return ((Cell(text),), (cost_cell(again, left_out, ("copied again", "never copied")),))


def describe_move(
    move: PositionMove, row: PartitionRow | None, width: int, glyphs: Glyphs
) -> list[Line]:
    """Return all details of a move, for the panel beside the table."""
    verdict, by = move_verdict(move), move_by(move)
    change = f"{now_text(move)} → {new_text(move)}"
    facts = [
        fact("Position", f"{change}  {formatting.signed(by)}" if by is not None else change),
        fact("Means", safe_message(meaning_text(move))),
    ]
    lines: list[Line] = [
        (glyphs.mark(verdict),),
        *fact_lines(facts, width),
        (),
        (Cell("Retained on the source", Tone.MUTED),),
    ]
    log = log_of(row) if row is not None else None
    bounds = log_bounds(log) if log is not None else None
    if log is None or bounds is None:
        return [*lines, (Cell("not known", Tone.MUTED),)]
    after = move.now if move.effect is _REFUSED else move.offset
    drawn = journey(bounds, move.now, after, width, glyphs, tone_of(verdict.severity))
    return [*lines, *log_lines(log, bounds, drawn, width, glyphs)]
