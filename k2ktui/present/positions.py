"""Columns of a table of position moves, and their sums."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from k2ktui.engine.moves.positions import MoveEffect, PositionMove
from k2ktui.engine.severity import Severity, SeverityLabel
from k2ktui.present import formatting
from k2ktui.present.columns import Column, name_column, sentence_column
from k2ktui.present.formatting import Cell, Glyphs

_VERDICTS = {
    MoveEffect.BEGIN: Severity.OK,
    MoveEffect.BACK: Severity.WARN,
    MoveEffect.FORWARD: Severity.WARN,
    MoveEffect.RESTART: Severity.WARN,
    MoveEffect.KEEP: Severity.INFO,
    MoveEffect.CLEAR: Severity.WARN,
    MoveEffect.REFUSED: Severity.BAD,
    MoveEffect.ACCEPT: Severity.OK,
    MoveEffect.STOP: Severity.WARN,
    MoveEffect.RECOVER: Severity.OK,
}


def move_verdict(move: PositionMove) -> SeverityLabel:
    """Judge a move by its effect."""
    return SeverityLabel(_VERDICTS[move.effect], str(move.effect))


def sum_moves(moves: Iterable[PositionMove]) -> tuple[int, int]:
    """Return the records that are copied again, and those that are never copied, at most."""
    listed = list(moves)
    return sum(move.again for move in listed), sum(move.left_out for move in listed)


def now_text(move: PositionMove) -> str:
    """Return the current position."""
    return formatting.number(move.now)


def new_text(move: PositionMove) -> str:
    """Return the new position, or where a cleared partition begins."""
    offset = formatting.number(move.offset)
    return f"new, from {offset}" if move.effect is MoveEffect.CLEAR else offset


def meaning_text(move: PositionMove) -> str:
    """Return the effect of a move."""
    parts = []
    if move.again:
        parts.append(f"up to {move.again:,} copied again")
    if move.left_out:
        parts.append(f"up to {move.left_out:,} never copied")
    if move.why:
        parts.append(move.why)
    return "; ".join(parts)


def move_object(move: PositionMove) -> dict[str, Any]:
    """Return a move as ``--json`` prints it; null is none, or unknown."""
    return {
        "topic": move.source.topic,
        "partition": move.source.partition,
        "position": move.now,
        "new": move.offset,
        "effect": str(move.effect),
        "again": move.again,
        "left_out": move.left_out,
    }


def move_columns(glyphs: Glyphs) -> tuple[Column[PositionMove], ...]:
    """Return the columns of the table of moves."""
    return (
        name_column("partition", lambda move: move.source, width=14, widest=64),
        Column("now", "now", lambda move: Cell(now_text(move)), right=True),
        Column("new", "new", lambda move: Cell(new_text(move)), right=True, widest=32),
        Column("effect", "effect", lambda move: glyphs.mark(move_verdict(move)), width=10),
        sentence_column("means", meaning_text, longest=400, width=14, rank=1, widest=120),
    )
