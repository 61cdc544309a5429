"""One group: what it would skip and re-read, and where it stands on both clusters."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from rich.cells import cell_len

from k2ktui.console.screens.groups_table import moved_bar, now_bar, row_key, row_order
from k2ktui.console.screens.partition import log_of, row_of
from k2ktui.console.visuals.facts import fact, fact_lines
from k2ktui.console.visuals.shapes import flow, log_bounds, log_strip, markers, picture_cell
from k2ktui.console.widgets.styled_text import fit, glyphs_of, wrap_lines
from k2ktui.console.widgets.text_lines import TextLines
from k2ktui.engine.members import describe_member, sort_members
from k2ktui.engine.moves.groups import Finding, GroupRow
from k2ktui.engine.moves.ratings import GroupSummary
from k2ktui.engine.severity import Severity
from k2ktui.engine.trend import Direction
from k2ktui.present import formatting
from k2ktui.present.formatting import Cell, Glyphs, Line, Tone
from k2ktui.present.groups import row_columns, stale_group_columns, summary_columns
from k2ktui.present.partitions import stale_partition_columns
from k2ktui.text import counted, safe_message
from k2ktui.watch.model import View
from k2ktui.watch.severity import describe_group

# The lines of a position without a reason.
_POSITION = 5
_MOST_REASON = 3
# Members have at most this part of the lines that are left beside a position.
_SHARE = 2
_WORDS = ("source", "target now", "source, target")
_INTRODUCTION = (
    "The group under the cursor: what it would skip and read again on the target, and where it "
    "stands in the log of each partition."
)


@dataclass(frozen=True, slots=True)
class _Shown:
    """What a detail shows.

    Attributes:
        group: its sums; None if it has none.
        rows: its positions.
        largest: the end of the bars' scale.
        current: the key of the position under the cursor; None if the cursor is on the group.
    """

    view: View
    group: GroupSummary | None
    rows: Sequence[GroupRow]
    largest: int
    current: tuple[object, ...] | None


class GroupDetail(TextLines):
    """A group with its partitions, as many as there is room for: the worst, or the current one.

    It stands beside the table of groups, or below the group's own table on a narrow terminal.
    """

    _shown: _Shown | None = None

    def on_resize(self) -> None:
        """Draw for the new size."""
        self._draw()

    def show_group(
        self, view: View, group: str, largest: int, current: GroupRow | None = None
    ) -> None:
        """Show a group of a view.

        Args:
            view: the view.
            group: its name.
            largest: the end of the bars' scale.
            current: the group-partition under the cursor; None if the cursor is on the group.
        """
        group_summary = next(
            (summary for summary in view.summaries if summary.group == group), None
        )
        rows = sorted((row for row in view.groups if row.group == group), key=row_order)
        key = None if current is None else row_key(current)
        self._shown = _Shown(view, group_summary, rows, largest, key)
        self._draw()

    def show_nothing(self) -> None:
        """Say what is shown here once there is a group."""
        self._shown = None
        self._draw()

    def _draw(self) -> None:
        width, height = self.size
        if not width or not height:
            return
        shown = self._shown
        if shown is None:
            lines = wrap_lines(_INTRODUCTION, width, Tone.MUTED)
        else:
            lines = _lines(shown, width, height, glyphs_of(self))
        # Always as many: a line more or less would lay the screen out again.
        self.show([*lines[:height], *[()] * (height - len(lines))])


def _lines(shown: _Shown, width: int, height: int, glyphs: Glyphs) -> list[Line]:
    view, group = shown.view, shown.group
    lines: list[Line] = [(Cell("The group no longer exists.", Tone.MUTED),)]
    if group is not None:
        old = stale_group_columns(view)
        largest, gone = shown.largest, view.gone_unread.get(group.group)
        lines = group_figures(group, largest, width, glyphs, old, compared=view.compares, gone=gone)
        if height - len(lines) < _POSITION:
            lines = short_figures(group, largest, width, glyphs, old)
        spare = height - len(lines) - _POSITION * min(1, len(shown.rows))
        lines += member_lines(group, width, max(0, spare) // _SHARE)
    room = height - len(lines)
    keys = [row_key(row) for row in shown.rows]
    drawn = _fitting(shown, 0, (width, room), glyphs)
    if shown.current in keys[len(drawn) :]:
        drawn = _fitting(shown, keys.index(shown.current), (width, room), glyphs)
    elif shown.current is None and len(drawn) < len(keys):
        room -= 1  # for the line that says how many are left
        drawn = _fitting(shown, 0, (width, room), glyphs)
    spare = room - sum(map(len, drawn)) >= len(drawn)
    for position in drawn:
        lines += [(), *position] if spare else position
    left = len(keys) - len(drawn)
    if left and shown.current is None:
        lines.append((Cell(f"and {left:,} more: Enter opens the group", Tone.MUTED),))
    return lines


def _fitting(shown: _Shown, first: int, size: tuple[int, int], glyphs: Glyphs) -> list[list[Line]]:
    """Return the lines of each position from one on, as far as there is room."""
    width, room = size
    drawn: list[list[Line]] = []
    for row in shown.rows[first:]:
        is_current = row_key(row) == shown.current
        position = position_lines(row, shown.view, width, glyphs, is_current=is_current)
        if drawn and len(position) > room:
            break
        drawn.append(position[:room])
        room -= len(position)
        if room <= 0:
            break
    return drawn


def group_figures(
    group: GroupSummary,
    largest: int,
    width: int,
    glyphs: Glyphs,
    old: Collection[str] = frozenset(),
    *,
    compared: bool = False,
    gone: int | None = None,
) -> list[Line]:
    """Return the figures of a group.

    Args:
        group: its sums.
        largest: the end of the bars' scale.
        width: cells.
        glyphs: the character set.
        old: ids of columns with stale readings.
        compared: whether MirrorMaker 2 is compared.
        gone: see :func:`describe_group`.
    """
    cells = _Cells(group, glyphs, old, compared=compared)
    lines: list[Line] = [_first_line(cells)]
    facts: list[Line] = [
        fact("Why", cells.aged("why", Cell(_why(group, gone))).text, Tone.WARN),
        fact("Trend", cells.aged("catches-up", Cell(_trend(group, glyphs))).text),
        fact("Source", cells["source"].text),
        fact("Target", cells["target"].text),
        fact("Basis", cells["basis"].text, cells["basis"].tone),
    ]
    if compared:
        both = f"{cells['ours'].text} by k2ktui, {cells['theirs'].text} by MM2"
        facts.append(fact("Re-reads", both))
    lines += fact_lines(facts, width)
    lines += _bars(group, cells, largest, width, glyphs)
    if unknown := max(group.unknown_now, group.unknown_moved):
        where = f"{unknown:,} of {counted(group.partitions, 'partition')}"
        said = f"{formatting.AT_LEAST} at least: unknown in {where}"
        is_partly = unknown < group.partitions
        lines += [(Cell(said, Tone.MUTED),)] if is_partly else []
    return lines


def member_lines(group: GroupSummary, width: int, most: int) -> list[Line]:
    """Return the members of a group on both clusters, on at most so many lines.

    Args:
        group: its sums, with its members.
        width: cells.
        most: lines; the last one says how many members are left.
    """
    members = [
        fact_lines([fact(f"On {side}", describe_member(member))], width)
        for side, of in (("source", group.source), ("target", group.target))
        for member in sort_members(of.named)
    ]
    left = sum(max(of.members or 0, len(of.named)) for of in (group.source, group.target))
    lines: list[Line] = []
    for member in members:
        if len(lines) + len(member) + (left > 1) > most:
            break
        lines += member
        left -= 1
    if members and left and len(lines) < most:
        others = f"{left:,} more" if lines else f"{left:,}"
        lines.append(fact("Members", f"{others}: k2ktui groups --members"))
    return lines


def short_figures(
    group: GroupSummary,
    largest: int,
    width: int,
    glyphs: Glyphs,
    old: Collection[str] = frozenset(),
) -> list[Line]:
    """Return the most important figures of a group; see :func:`group_figures`."""
    cells = _Cells(group, glyphs, old)
    sides = Cell(f"  {cells['source'].text} {glyphs.arrow} {cells['target'].text}")
    return [(*_first_line(cells), sides), *_bars(group, cells, largest, width, glyphs)]


class _Cells:
    """The cells of the table of groups by id of their column, so that both say the same."""

    def __init__(
        self, group: GroupSummary, glyphs: Glyphs, old: Collection[str], *, compared: bool = False
    ) -> None:
        self._group, self._glyphs, self._old = group, glyphs, old
        columns = [*summary_columns(glyphs), *summary_columns(glyphs, compared=compared)]
        self._columns = {column.id: column for column in columns}

    def __getitem__(self, name: str) -> Cell:
        cell = self._columns[name].cell(self._group)
        return self.aged(name, cell)

    def aged(self, name: str, cell: Cell) -> Cell:
        """Return a cell as it looks in the column with an id."""
        return self._glyphs.aged(cell) if name in self._old else cell


def _first_line(cells: _Cells) -> Line:
    lag, behind = cells["lag"], cells["behind"]
    return (
        cells["status"],
        Cell("  lag ", Tone.MUTED),
        replace(lag, tone=Tone.HEADING),
        Cell("  behind ", Tone.MUTED),
        replace(behind, tone=Tone.HEADING),
    )


def _trend(group: GroupSummary, glyphs: Glyphs) -> str:
    """Return the trend of a group's lag, and when it has caught up, now and if it were moved."""
    if group.direction is Direction.UNKNOWN:
        return "" if group.lag is None else formatting.NOT_YET
    text = f"{glyphs.direction(group.direction)} {group.direction}"
    if group.direction is not Direction.FALLING or group.eta_s is None:
        return text
    text += f", caught up in {formatting.duration(group.eta_s)}"
    if group.moved_rereads and group.moved_eta_s is not None:
        text += f", after a move in {formatting.duration(group.moved_eta_s)}"
    return text


def _why(group: GroupSummary, gone: int | None) -> str:
    is_problem = group.rating.severity >= Severity.WARN
    return safe_message(describe_group(group, gone), 400) if is_problem else ""


def _bars(
    group: GroupSummary, cells: _Cells, largest: int, width: int, glyphs: Glyphs
) -> list[Line]:
    """Return what a group would skip and re-read now, and after a move, as bars with numbers."""
    texts = [
        (cells[skips], cells[rereads])
        for skips, rereads in (("skips", "rereads"), ("moved-skips", "moved-rereads"))
    ]
    left = max(len("skips"), *(cell_len(skips.text) for skips, _ in texts))
    right = max(len("re-reads"), *(cell_len(rereads.text) for _, rereads in texts))
    label = cell_len(fact("Now", " ")[0].text)
    room = max(3, width - label - left - right - 2)
    heading = Cell(f"{'':{label}}{'skips':>{left}} {'':{room}} {'re-reads':<{right}}", Tone.MUTED)
    lines: list[Line] = [(heading,)]
    for name, (skips, rereads), draw in zip(
        ("Now", "After move"), texts, (now_bar, moved_bar), strict=True
    ):
        # The bar itself has an odd number of cells, and a drawing of nothing has fewer.
        drawn = cells.aged("bar", picture_cell(draw(group, largest, room, glyphs)))
        blank = Cell(" " * (room - cell_len(drawn.text) + 1))
        lines.append(
            (
                fact(name, " ")[0],
                Cell(f"{skips.text:>{left}} ", skips.tone),
                drawn,
                blank,
                rereads,
            )
        )
    return lines


def position_lines(
    row: GroupRow, view: View, width: int, glyphs: Glyphs, *, is_current: bool = False
) -> list[Line]:
    """Return a group's position on a partition: both offsets, and where they are in its log.

    Args:
        row: the position.
        view: where it is from.
        width: cells.
        glyphs: the character set.
        is_current: whether the cursor is on it.
    """
    old = stale_group_columns(view)
    cells = {
        column.id: glyphs.aged(column.cell(row)) if column.id in old else column.cell(row)
        for column in row_columns(glyphs)
        if column.id in _USED
    }
    name = cells["partition"].text
    target = f"{row.target_topic}-{row.target_partition}"
    if row.target_topic and target != f"{row.topic}-{row.partition}":
        name = f"{name} {glyphs.arrow} {formatting.name(target, 400)}"
    prefix = glyphs.text("\u203a ") if is_current else ""
    amount = _amount(row, cells["divergence"])
    room = max(8, width - sum(cell_len(c.text) for c in (cells["status"], amount)) - 2)
    name = fit(prefix + name, min(cell_len(prefix + name), room), ellipsis=glyphs.text("…"))
    first: Line = (Cell(name, Tone.HEADING), Cell("  "), cells["status"], amount)
    target_text = cells["target"].text if row.target_offset is not None else "none"
    offsets = [Cell(f"source commit {cells['source'].text}"), Cell(f"target now {target_text}")]
    if row.translated_offset is not None and row.finding is not Finding.MOVED:
        offsets.append(Cell(_move(row, cells["translated"].text)))
    # The table has the basis, and the first line the difference: neither takes a line of its own.
    short = [Cell(cell.text.partition(" (")[0], cell.tone) for cell in offsets]
    variants = ([*offsets, Cell(cells["basis"].text, Tone.MUTED)], offsets, short)
    shown = min((flow(cells_of, width, 3) for cells_of in variants), key=len)
    lines = [first, *shown, *_log_lines(row, view, width, glyphs)]
    reason = wrap_lines(safe_message(row.reason, 400), width, Tone.MUTED)
    return [*lines, *reason[:_MOST_REASON]]


def _move(row: GroupRow, translated: str) -> str:
    """Say what a move sets on the target, and how far that is from what the target has now."""
    assert row.translated_offset is not None
    if row.target_offset is None:
        return f"a move sets {translated}"
    if row.translated_offset == row.target_offset:
        return "a move changes nothing"
    return f"a move sets {translated} ({row.translated_offset - row.target_offset:+,})"


def _amount(row: GroupRow, divergence: Cell) -> Cell:
    """Return by how much a position is off; nothing where its status says that it is not."""
    if not row.divergence or row.finding is not Finding.SETTLED:
        return Cell("")
    sign = formatting.STALE if divergence.text.startswith(formatting.STALE) else ""
    return Cell(f" {sign}{abs(row.divergence):,}", divergence.tone)


def _log_lines(row: GroupRow, view: View, width: int, glyphs: Glyphs) -> list[Line]:
    """Return the retained log of a position's partition, with the marks of both commits below."""
    part = row_of(view, (row.topic, row.partition))
    bounds = None if part is None else log_bounds(log_of(part))
    if part is None or bounds is None:
        return [(Cell(f"the log is not known {formatting.NOT_AVAILABLE}", Tone.MUTED),)]
    sides = Cell("|", Tone.MUTED)
    drawn = picture_cell(log_strip(log_of(part), width - 2, glyphs))
    if "coverage" in stale_partition_columns(view):
        drawn = glyphs.aged(drawn)
    on_source: int | None = None
    if row.source_offset is not None and row.divergence is not None:
        # The place on the source of the commit on the target, which counts records.
        on_source = row.source_offset + row.divergence if row.finding is Finding.SETTLED else None
    marks = markers(bounds, row.source_offset, on_source, width - 2, _WORDS)
    return [(sides, drawn, sides), (Cell(f" {marks}", Tone.WARN),)]


_USED = frozenset({"partition", "status", "divergence", "source", "target", "translated", "basis"})
