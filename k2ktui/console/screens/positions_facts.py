"""The figures of a plan for positions: its tiles, its columns, and all that is known of a move."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from k2ktui.console.screens.partition import log_of
from k2ktui.console.visuals.facts import fact, fact_lines
from k2ktui.console.visuals.shapes import journey, jump, log_bounds, log_lines, picture_cell
from k2ktui.console.visuals.sums import Part, Sum, at_most, cost_cell
from k2ktui.engine.moves.positions import MoveEffect, PositionMove
from k2ktui.engine.severity import Severity
from k2ktui.present import formatting
from k2ktui.present.columns import Column
from k2ktui.present.formatting import Cell, Glyphs, Line, Tone, tone_of
from k2ktui.present.positions import (
    meaning_text,
    move_columns,
    move_verdict,
    new_text,
    now_text,
    sum_moves,
)
from k2ktui.sync.moves.positions import PositionPlan
from k2ktui.text import counted, safe_message
from k2ktui.watch.model import PartitionRow

_JUMP = 9


def move_by(move: PositionMove) -> int | None:
    """Return how far a position goes; None if one of both is unknown."""
    if move.before is None or move.offset is None:
        return None
    return move.offset - move.before.offset


def columns(glyphs: Glyphs, *, largest: float) -> tuple[Column[PositionMove], ...]:
    """Return the columns, with the drawn jump; ``largest`` is the end of its scale."""

    def drawn(move: PositionMove) -> Cell:
        tone = tone_of(move_verdict(move).severity)
        stays = move.effect is MoveEffect.REFUSED
        return picture_cell(jump(move_by(move), largest, _JUMP, glyphs, tone, stays=stays))

    picture: Column[PositionMove] = Column(
        "jump", "jump", drawn, width=_JUMP, widest=_JUMP, rank=2, picture=True
    )
    chosen: list[Column[PositionMove]] = []
    for column in move_columns(glyphs):
        chosen.append(column)
        if column.id == "now":
            chosen.append(picture)
    return tuple(chosen)


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


_REFUSED = MoveEffect.REFUSED
_MOVED = (MoveEffect.BACK, MoveEffect.FORWARD)


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
    refused = sum(move.effect is MoveEffect.REFUSED for move in change.moves)
    if refused:
        text = f"Not to be applied: {counted(refused, 'move')} refused. Esc: choose others."
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
    before = move.before.offset if move.before is not None else None
    after = before if move.effect is MoveEffect.REFUSED else move.offset
    drawn = journey(bounds, before, after, width, glyphs, tone_of(verdict.severity))
    return [*lines, *log_lines(log, bounds, drawn, width, glyphs)]
