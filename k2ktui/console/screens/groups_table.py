"""The tables of consumer groups and of group-partitions, with the bar of what diverges."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain
from typing import TypeVar

from k2ktui.console.visuals.shapes import divergence, picture_cell, power_of_ten, sparkline
from k2ktui.console.widgets.grid import Grid
from k2ktui.engine.moves.groups import Finding, GroupRow
from k2ktui.engine.moves.ratings import GroupSummary, rate
from k2ktui.engine.severity import Severity
from k2ktui.present.columns import Column, insert, rank
from k2ktui.present.formatting import NOT_AVAILABLE, NOT_YET, Cell, Glyphs, Line, Tone
from k2ktui.present.groups import row_columns, summary_columns
from k2ktui.watch.feed import Feed
from k2ktui.watch.model import View

T = TypeVar("T")
G = TypeVar("G", bound=Grid[GroupSummary])
Scale = Callable[[], int]

# The lag of the last minutes.
_CHART, _CHART_S = 8, 300.0
# The bar: in a row, and in one of a table that has the room.
_BAR, _WIDE_BAR = 11, 17
_WIDE = 160
# So that one word of a basis is not cut.
_BASIS = 10
# The columns of groups from left to right, with the rank in which a narrow terminal leaves them
# out. A bar stands between the two numbers that it draws.
_RANKS = {
    "group": 0,
    "status": 0,
    # It changes most, and a change repaints a line up to its end.
    "lag": 2,
    "behind": 3,
    "chart": 6,
    "catches-up": 4,
    "skips": 0,
    "bar": 1,
    "rereads": 1,
    "theirs": 0,
    "ours": 1,
    "moved-skips": 5,
    "source": 7,
    "target": 8,
    "basis": 9,
    "parts": 10,
    "moved-rereads": 11,
}


def bar_width(width: int) -> int:
    """Return the cells of a bar in a terminal of a width."""
    return _WIDE_BAR if width >= _WIDE else _BAR


def scale_of(view: View) -> int:
    """Return the end of the bars' scale: a power of ten, so that it seldom changes."""
    sums = (
        max(summary.skips, summary.rereads, summary.moved_skips, summary.moved_rereads)
        for summary in view.summaries
    )
    return power_of_ten(chain(sums, (abs(row.divergence or 0) for row in view.groups)))


def group_columns(
    glyphs: Glyphs, scale: Scale, width: int, feed: Feed, *, compared: bool = False
) -> tuple[Column[GroupSummary], ...]:
    """Return the columns of the table of groups.

    Args:
        glyphs: the character set.
        scale: returns the end of the bars' scale.
        width: of a bar.
        feed: keeps the lags of the last minutes.
        compared: whether MirrorMaker 2 is compared.
    """

    def lags(group: GroupSummary) -> Cell:
        since = feed.now() - _CHART_S
        samples = [one.lag_records for one in feed.lags(group.group) if one.at >= since]
        return picture_cell(sparkline(samples, _CHART, glyphs))

    def now(group: GroupSummary) -> Cell:
        return picture_cell(now_bar(group, scale(), width, glyphs))

    by_id = {column.id: column for column in summary_columns(glyphs, compared=compared)}
    by_id["bar"] = _picture(now, width)
    by_id["chart"] = Column("chart", "5 min", lags, width=_CHART, picture=True)
    by_id["basis"] = replace(by_id["basis"], width=_BASIS)
    if missing := by_id.keys() - _RANKS.keys():
        raise ValueError(f"columns without a rank, which no screen would show: {sorted(missing)}")
    # Those of MirrorMaker 2 are there only if it is compared, and take the place of another one.
    return tuple(rank(by_id.values(), {name: of for name, of in _RANKS.items() if name in by_id}))


def position_columns(
    glyphs: Glyphs, scale: Scale, width: int, *, with_group: bool = True
) -> tuple[Column[GroupRow], ...]:
    """Return the columns of the table of group-partitions; see :func:`group_columns`."""

    def now(row: GroupRow) -> Cell:
        return picture_cell(row_bar(row, scale(), width, glyphs))

    columns = [
        # The bar is left out after the offsets.
        replace(column, rank=column.rank and column.rank + 1)
        for column in row_columns(glyphs)
        if column.id != "group" or with_group
    ]
    return tuple(insert(columns, {"divergence": _picture(now, width)}))


def _picture(cell: Callable[[T], Cell], width: int) -> Column[T]:
    # Above zero, which is in the middle.
    heading = "now".center(width).rstrip()
    return Column("bar", heading, cell, width=width, rank=1, picture=True)


def summary_grid(
    kind: type[G], columns: Sequence[Column[GroupSummary]], *, opens: str = "Open", id: str
) -> G:
    """Return a table of groups of a class; the arguments are those of :class:`Grid`."""
    return kind(
        columns,
        key=lambda group: group.group,
        search=lambda group: f"{group.group} {group.rating.word} {group.source.state}",
        problem=lambda group: group.rating.severity >= Severity.WARN,
        order=lambda group: (
            -group.rating.severity,
            -group.skips,
            -group.rereads,
            group.group,
        ),
        opens=opens,
        sorts_first="lag",
        id=id,
    )


def row_grid(columns: Sequence[Column[GroupRow]]) -> Grid[GroupRow]:
    """Return a table of group-partitions."""
    return Grid(
        columns,
        key=row_key,
        search=lambda row: f"{row.group} {row.topic}-{row.partition} {rate(row).word} {row.basis}",
        problem=lambda row: rate(row).severity >= Severity.WARN,
        order=row_order,
        sorts_first="divergence",
        id="rows",
    )


def row_key(row: GroupRow) -> tuple[object, ...]:
    """Return what identifies a row."""
    return (row.group, row.topic, row.partition, row.target_topic, row.target_partition)


def row_order(row: GroupRow) -> tuple[object, ...]:
    """Return a sort key that puts problems first."""
    return (-rate(row).severity, row.group, row.topic, row.partition)


def now_bar(group: GroupSummary, largest: int, width: int, glyphs: Glyphs) -> Line:
    """Return what a group would skip and re-read on the target as it has committed there."""
    is_whole = not group.unknown_now and not group.checking
    sums = (group.skips, group.rereads)
    if group.checking and not any(sums):
        return _instead(NOT_YET, width)
    return _sums_bar(group, sums, largest, width, glyphs, is_whole=is_whole)


def moved_bar(group: GroupSummary, largest: int, width: int, glyphs: Glyphs) -> Line:
    """Return what a group would skip and re-read after a move."""
    sums = (group.moved_skips, group.moved_rereads)
    is_whole = not group.unknown_moved
    return _sums_bar(group, sums, largest, width, glyphs, is_whole=is_whole)


def _sums_bar(
    group: GroupSummary,
    sums: tuple[int, int],
    largest: int,
    width: int,
    glyphs: Glyphs,
    *,
    is_whole: bool,
) -> Line:
    """Return two sums as a bar; one that is 0 only as far as known is drawn as unknown."""
    if group.source.error or group.target.error or 0 < group.partitions <= group.moved:
        return _instead(NOT_AVAILABLE, width)
    skips, rereads = (value if value or is_whole else None for value in sums)
    return divergence(skips, rereads, largest, width, glyphs)


def row_bar(row: GroupRow, largest: int, width: int, glyphs: Glyphs) -> Line:
    """Return the divergence of a group-partition, unless it may be wrong or is not known."""
    if row.finding is Finding.CHECKING:
        return _instead(NOT_YET, width)
    value = row.divergence
    if value is None or row.finding is not Finding.SETTLED:
        return _instead(NOT_AVAILABLE, width)
    return divergence(max(0, value), max(0, -value), largest, width, glyphs)


def _instead(sign: str, width: int) -> Line:
    half = max(1, (width - 1) // 2)
    return (Cell(" " * half), Cell(sign, Tone.MUTED))
