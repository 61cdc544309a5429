"""Layout of a grid's columns, and filtering and sorting of its rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from rich.cells import cell_len

from k2ktui.present.columns import Column

T = TypeVar("T")
# A name that is never left out is not cut below this for the sake of other columns.
_NAME = 20


def filter_rows(
    rows: Sequence[T],
    text: str,
    search: Callable[[T], str],
    problem: Callable[[T], bool] | None = None,
) -> Sequence[T]:
    """Return the rows that pass a filter.

    Args:
        rows: all rows.
        text: a case-insensitive regular expression, or a literal text if it is not a valid one; a
            leading ``!`` inverts it.
        search: returns the text of a row that is searched.
        problem: selects the rows to search; None selects all.
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


def is_pattern(text: str) -> bool:
    """Return whether a filter is a valid regular expression; otherwise it is a literal text."""
    try:
        re.compile(text.lstrip("!"))
    except re.error:
        return False
    return True


def sort_rows(
    rows: Sequence[T], by: Callable[[T], Any] | None, *, reverse: bool = False
) -> Sequence[T]:
    """Return the rows sorted; unknown keys (None) come last in either direction."""
    if by is None:
        return rows[::-1] if reverse else rows
    keyed = [(by(row), number) for number, row in enumerate(rows)]
    known = sorted((pair for pair in keyed if pair[0] is not None), reverse=reverse)
    unknown = [number for key, number in keyed if key is None]
    return [rows[number] for number in [*(number for _, number in known), *unknown]]


def least(column: Column[T]) -> int:
    """Return the width of a column before any of its values were shown."""
    return max(column.width, cell_len(column.heading))


def lay_out(
    columns: Sequence[Column[T]], seen: Mapping[str, int], room: int, gap: int
) -> list[tuple[Column[T], int, int]]:
    """Choose the columns that fit; return each with its horizontal position and width, in cells.

    Args:
        columns: the columns in display order; the highest rank is left out first, but one that
            fits beside the others in their whole width comes back.
        seen: the widest value shown so far, by column id.
        room: available cells.
        gap: cells between two columns.
    """
    left = list(columns)

    def wanted(column: Column[T]) -> int:
        return seen.get(column.id, least(column))

    def tight(column: Column[T]) -> int:
        """Return the width below which a column is omitted, not cut; numbers are never cut."""
        if column.right:
            return wanted(column)
        return min(wanted(column), least(column) if column.rank else max(least(column), _NAME))

    def needed() -> int:
        return sum(tight(column) + gap for column in left) - gap

    while len(left) > 1 and needed() > room:
        out = max(left, key=lambda column: column.rank)
        if not out.rank:
            break
        left.remove(out)
    spare = room - sum(wanted(column) + gap for column in left) + gap
    for column in sorted(
        (left_out for left_out in columns if left_out not in left), key=lambda c: c.rank
    ):
        if wanted(column) + gap <= spare:
            spare -= wanted(column) + gap
            left.append(column)
    left = [column for column in columns if column in left]
    spare = room - needed()
    layout, x = [], 0
    for column in left:
        more = max(0, min(spare, wanted(column) - tight(column)))
        width = min(tight(column) + more, max(1, room - x))
        spare -= more
        layout.append((column, x, width))
        x += width + gap
    return layout
