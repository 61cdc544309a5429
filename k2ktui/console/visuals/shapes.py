"""Shapes of one line: bars, sparklines, a difference from zero, a log as a strip of cells."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len

from k2ktui.present.formatting import NOT_AVAILABLE, Cell, Glyphs, Line, Tone

Span = tuple[int, int]
_EIGHTHS = "▏▎▍▌▋▊▉"


def picture_cell(line: Line) -> Cell:
    """Return a line as one cell of a table, whose parts keep their tones."""
    return Cell("".join(cell.text for cell in line), parts=line)


def bar(share: float | None, width: int, glyphs: Glyphs, tone: Tone = Tone.OK) -> Line:
    """Return a share (0 to 1) as a bar; one that is full is exactly 1, and one above 0 is visible.

    An unknown share (None) is a dotted line.
    """
    if share is None:
        return (Cell((":" if glyphs.ascii else "┄") * width, Tone.MUTED),)
    eighths = max(0.0, min(1.0, share)) * width * 8
    count = math.floor(eighths) if share < 1 else width * 8
    count = max(count, 1) if share > 0 else 0
    full, part = divmod(count, 8)
    if glyphs.ascii:
        full, part = (full or 1 if count else 0), 0
        text, rest = "#" * full, "-"
    else:
        text, rest = "█" * full + (_EIGHTHS[part - 1] if part else ""), "─"
    return (Cell(text, tone), Cell(rest * (width - len(text)), Tone.MUTED))


def log_share(value: float | None, largest: float) -> float | None:
    """Return where a value lies between 0 and the largest on a scale of powers of ten."""
    if value is None:
        return None
    if value <= 0 or largest <= 0:
        return 0.0
    return min(1.0, math.log10(1 + value) / math.log10(1 + largest))


def log_bar(value: float | None, largest: float, width: int, glyphs: Glyphs, tone: Tone) -> Line:
    """Return a value as a bar on a logarithmic scale, without a rest: for rows of a table."""
    share = log_share(value, largest)
    if share is None:
        return (Cell(NOT_AVAILABLE, Tone.MUTED),)
    filled, _ = bar(share, width, glyphs, tone)
    return (filled,)


def sparkline(
    values: Sequence[float | None], width: int, glyphs: Glyphs, tone: Tone = Tone.INFO
) -> Line:
    """Return values as bars from 0 to the largest, one cell each; unknown values are gaps.

    If there are more values than cells, a cell shows the largest of its values, so that a peak is
    never hidden.
    """
    if width < 1 or not values:
        return ()
    if len(values) <= width:
        return (Cell(glyphs.spark(values, width), tone),)
    cells = []
    for number in range(width):
        low, high = number * len(values) // width, (number + 1) * len(values) // width
        known = [value for value in values[low:high] if value is not None]
        cells.append(max(known) if known else None)
    return (Cell(glyphs.spark(cells, width), tone),)


def divergence(
    skips: int | None, rereads: int | None, largest: float, width: int, glyphs: Glyphs
) -> Line:
    """Return what a group skips (to the left of zero) and reads again (to the right).

    Args:
        skips: records that it would never read; None if unknown.
        rereads: records that it would read again; None if unknown.
        largest: the largest of both in any row: the scale is logarithmic, and common to all rows.
        width: cells, zero included.
        glyphs: the character set.
    """
    half = max(1, (width - 1) // 2)
    if skips is None and rereads is None:
        return (Cell(" " * half), Cell(NOT_AVAILABLE, Tone.MUTED), Cell(" " * half))
    sign = "#" if glyphs.ascii else "█"
    left, right = (_cells(value, largest, half) for value in (skips, rereads))
    zero = "|" if glyphs.ascii else "│"
    line = "-" if glyphs.ascii else "─"
    return (
        Cell(line * (half - left), Tone.MUTED),
        Cell(sign * left, Tone.BAD),
        Cell(zero, Tone.MUTED),
        Cell(sign * right, Tone.WARN),
        Cell(line * (half - right), Tone.MUTED),
    )


def _cells(value: int | None, largest: float, width: int) -> int:
    share = log_share(value, largest)
    return max(1, round(share * width)) if share else 0


def strip(start: int, end: int, spans: Sequence[Span], width: int, glyphs: Glyphs) -> str:
    """Return the retained log as a strip; a darker cell means that more of it translates exactly.

    The full sign always means fully covered, and the empty sign always means not covered at all.
    """
    if end <= start or width < 1:
        return ""
    shades = glyphs.shades
    out = []
    for cell in range(width):
        low = start + (end - start) * cell // width
        high = max(low + 1, start + (end - start) * (cell + 1) // width)
        covered = sum(max(0, min(high, b) - max(low, a)) for a, b in spans)
        if covered <= 0:
            out.append(shades[0])
        elif covered >= high - low:
            out.append(shades[-1])
        else:
            inner = shades[1:-1]
            out.append(inner[min(len(inner) - 1, len(inner) * covered // (high - low))])
    return "".join(out)


@dataclass(frozen=True, slots=True)
class Log:
    """What is known of a source partition's log, for :func:`log_strip`; offsets of the source.

    Attributes:
        start, end: the retained log; None if unknown.
        spans: whose translation is exact.
        lost: that were deleted before they could be copied.
        position: the next one to copy.
    """

    start: int | None
    end: int | None
    spans: Sequence[Span] = ()
    lost: Sequence[Span] = ()
    position: int | None = None


def log_strip(log: Log, width: int, glyphs: Glyphs) -> Line:
    """Return a log as cells: mapped, partly mapped, unmapped, lost, and not copied yet.

    A cell shows the worst of what it stands for, so that no gap is hidden by its neighbors.
    """
    if log.start is None or log.end is None or width < 1:
        return (Cell(NOT_AVAILABLE, Tone.MUTED),)
    low = min([log.start, *(first for first, _ in log.lost)])
    if log.end <= low:
        return (Cell(NOT_AVAILABLE, Tone.MUTED),)
    signs = _ASCII_LOG if glyphs.ascii else _LOG
    cells: list[Cell] = []
    for number in range(width):
        first = low + (log.end - low) * number // width
        last = max(first + 1, low + (log.end - low) * (number + 1) // width)
        kind = _kind(log, first, last)
        sign, tone = signs[kind], _LOG_TONES[kind]
        if cells and cells[-1].tone is tone:
            cells[-1] = Cell(cells[-1].text + sign, tone)
        else:
            cells.append(Cell(sign, tone))
    return tuple(cells)


_MAPPED, _PARTLY, _UNMAPPED, _LOST, _WAITING = range(5)
_LOG, _ASCII_LOG = "█▓░✗·", "#+.X-"
_LOG_TONES = (Tone.OK, Tone.OK, Tone.WARN, Tone.BAD, Tone.MUTED)


def _kind(log: Log, first: int, last: int) -> int:
    if any(low < last and high > first for low, high in log.lost):
        return _LOST
    position = log.position if log.position is not None else first
    if first >= position:
        return _WAITING
    copied = min(last, position)
    covered = sum(max(0, min(copied, high) - max(first, low)) for low, high in log.spans)
    if not covered:
        return _UNMAPPED
    return _MAPPED if covered >= last - first else _PARTLY


def marker(start: int, end: int, at: int | None, width: int) -> str:
    """Return a line that marks an offset's place below the strip; empty outside the log."""
    if at is None or end <= start or not start <= at <= end:
        return ""
    return " " * min(width - 1, (at - start) * width // (end - start)) + "^"


def flow(cells: Sequence[Cell], width: int, height: int) -> list[Line]:
    """Return cells side by side, two blanks apart, on as many lines as needed, at most ``height``.

    What does not fit is cut from the last line's end, where the drawing puts an ellipsis.
    """
    lines: list[list[Cell]] = [[]]
    room = width
    for cell in cells:
        length = cell_len(cell.text)
        if lines[-1] and length > room and len(lines) < height:
            lines.append([])
            room = width
        if lines[-1]:
            lines[-1].append(Cell("  "))
        lines[-1].append(cell)
        room -= length + 2
    return [tuple(line) for line in lines]
