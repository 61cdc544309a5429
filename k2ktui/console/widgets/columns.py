"""Columns of a grid, and its rows filtered and in order."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from rich.cells import cell_len

from k2ktui.console.formatting import Cell

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Column(Generic[T]):
    """A column.

    Attributes:
        cell: what it shows of a row; called for visible rows only.
        sort: what it is sorted by; None if it cannot be.
        right: whether it is flush right, as numbers are.
        width: cells it has at least.
        rank: columns of the highest rank go first when the terminal is narrow; 0 never goes.
        widest: cells it has at most.
    """

    id: str
    heading: str
    cell: Callable[[T], Cell]
    sort: Callable[[T], Any] | None = None
    right: bool = False
    width: int = 4
    rank: int = 0
    widest: int = 24


def filtered(
    rows: Sequence[T],
    text: str,
    search: Callable[[T], str],
    problem: Callable[[T], bool] | None = None,
) -> Sequence[T]:
    """Return rows that pass a filter.

    Args:
        rows: all rows.
        text: what they contain, or match as a regular expression, in any case; ``!`` inverts.
        search: the text of a row that is looked at.
        problem: which rows to look at; all if it is None.
    """
    if problem is not None:
        rows = [row for row in rows if problem(row)]
    if not text.lstrip("!"):
        return rows
    inverse, text = text.startswith("!"), text.lstrip("!")
    try:
        matches = re.compile(text, re.IGNORECASE).search
    except re.error:
        matches = re.compile(re.escape(text), re.IGNORECASE).search
    return [row for row in rows if (matches(search(row)) is None) == inverse]


def ordered(
    rows: Sequence[T], by: Callable[[T], Any] | None, *, reverse: bool = False
) -> Sequence[T]:
    """Return rows in order; what is unknown (None) has no place in it and comes last either way."""
    if by is None:
        return rows[::-1] if reverse else rows
    keyed = [(by(row), number) for number, row in enumerate(rows)]
    known = sorted((each for each in keyed if each[0] is not None), reverse=reverse)
    unknown = [number for key, number in keyed if key is None]
    return [rows[number] for number in [*(number for _, number in known), *unknown]]


def least(column: Column[T]) -> int:
    """Return how wide a column is before anything of it was shown."""
    return max(column.width, cell_len(column.heading) + 2)


def laid_out(
    columns: Sequence[Column[T]], seen: Mapping[str, int], room: int, gap: int
) -> list[tuple[Column[T], int, int]]:
    """Choose the columns that fit; return each with its place and its width, in cells.

    Args:
        columns: in their order; those of the highest rank go first.
        seen: the widest value shown so far, by column.
        room: cells there are.
        gap: cells between two columns.
    """
    left = list(columns)

    def wanted(column: Column[T]) -> int:
        return seen.get(column.id, least(column))

    def tight(column: Column[T]) -> int:
        """The width below which a column is left out rather than cut; numbers are never cut."""
        return wanted(column) if column.right else min(wanted(column), least(column))

    def needed() -> int:
        return sum(tight(column) + gap for column in left) - gap

    while len(left) > 1 and needed() > room:
        out = max(left, key=lambda column: column.rank)
        if not out.rank:
            break
        left.remove(out)
    spare = room - needed()
    layout, x = [], 0
    for column in left:
        more = max(0, min(spare, wanted(column) - tight(column)))
        width = min(tight(column) + more, max(1, room - x))
        spare -= more
        layout.append((column, x, width))
        x += width + gap
    return layout
