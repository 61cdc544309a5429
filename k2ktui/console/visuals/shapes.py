"""Shapes of one line: bars, sparklines, a difference from zero, a jump, a log as cells."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

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


def power_of_ten(values: Iterable[int], least: int = 1_000) -> int:
    """Return the end of a logarithmic scale, a power of ten, so that it seldom changes."""
    return max(least, int(f"1{'0' * len(str(max(values, default=0)))}"))


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
        skips: records that it would never read; None if unknown, which is a dotted line.
        rereads: records that it would read again; None if unknown, which is a dotted line.
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
    line, unknown = ("-", ":") if glyphs.ascii else ("─", "┄")
    return (
        Cell((unknown if skips is None else line) * (half - left), Tone.MUTED),
        Cell(sign * left, Tone.BAD),
        Cell(zero, Tone.MUTED),
        Cell(sign * right, Tone.WARN),
        Cell((unknown if rereads is None else line) * (half - right), Tone.MUTED),
    )


def _cells(value: int | None, largest: float, width: int) -> int:
    share = log_share(value, largest)
    return max(1, round(share * width)) if share else 0


def jump(
    by: int | None,
    largest: float,
    width: int,
    glyphs: Glyphs,
    tone: Tone = Tone.OK,
    *,
    stays: bool = False,
) -> Line:
    """Return an arrow from zero to where an offset goes: back to the left, forward to the right.

    Args:
        by: how far; None if unknown: nothing is drawn.
        largest: the largest distance in any row: the scale is logarithmic, and common to all rows.
        width: cells, zero included.
        glyphs: the character set.
        tone: of the arrow.
        stays: whether the offset does not go there: the arrow is broken.
    """
    if by is None:
        return ()
    half = max(1, (width - 1) // 2)
    length = _cells(abs(by), largest, half)
    signs = ("(.)" if stays else "<=>") if glyphs.ascii else ("◁╌▷" if stays else "◀━▶")
    back, line, forward = tuple(signs)
    tone = Tone.MUTED if stays else tone
    shaft = line * (length - 1)
    zero = Cell("|" if glyphs.ascii else "│", Tone.MUTED)
    arrow = Cell("" if not length else f"{back}{shaft}" if by < 0 else f"{shaft}{forward}", tone)
    blank, whole = Cell(" " * (half - length)), Cell(" " * half)
    return (blank, arrow, zero, whole) if by < 0 else (whole, zero, arrow, blank)


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
        spans: whose translation is exact, the lowest first; none overlaps another one.
        lost: that were deleted before they could be copied.
        position: the next one to copy.
    """

    start: int | None
    end: int | None
    spans: Sequence[Span] = ()
    lost: Sequence[Span] = ()
    position: int | None = None


def log_bounds(log: Log) -> Span | None:
    """Return what the strip of a log begins and ends with; None if it is empty or not known."""
    if log.start is None or log.end is None:
        return None
    low = min([log.start, *(first for first, _ in log.lost)])
    return (low, log.end) if log.end > low else None


def log_strip(log: Log, width: int, glyphs: Glyphs) -> Line:
    """Return a log as cells: mapped, partly mapped, unmapped, lost, and not copied yet.

    A cell shows the worst of what it stands for, so that no gap is hidden by its neighbors.
    """
    bounds = log_bounds(log)
    if bounds is None or width < 1:
        return (Cell(NOT_AVAILABLE, Tone.MUTED),)
    low, end = bounds
    signs = _ASCII_LOG if glyphs.ascii else _LOG
    kinds: list[int] = []
    for number in range(width):
        first = low + (end - low) * number // width
        last = max(first + 1, low + (end - low) * (number + 1) // width)
        kinds.append(_kind(log, first, last))
    return _joined((signs[kind], _LOG_TONES[kind]) for kind in kinds)


def _joined(signs: Iterable[tuple[str, Tone]]) -> Line:
    """Return signs as a line, with one cell for neighbors of one tone."""
    return tuple(
        Cell("".join(sign for sign, _ in same), tone)
        for tone, same in groupby(signs, key=itemgetter(1))
    )


def ends(span: Span, width: int) -> Line:
    """Return the first and the last offset of a log, each below its end of the drawing."""
    first, last = (f"{offset:,}" for offset in span)
    return (Cell(f"{first}{last.rjust(max(1, width - len(first)))}", Tone.MUTED),)


def log_lines(log: Log, bounds: Span, below: Line, width: int, glyphs: Glyphs) -> list[Line]:
    """Return a log as cells, a line below them that says where offsets lie, and both its ends."""
    edge = Cell("|" if glyphs.ascii else "│", Tone.MUTED)
    return [(edge, *log_strip(log, width - 2, glyphs), edge), below, ends(bounds, width)]


_MAPPED, _PARTLY, _UNMAPPED, _LOST, _WAITING = range(5)
_LOG, _ASCII_LOG = "█▓░✗·", "#+.X-"
_LOG_TONES = (Tone.OK, Tone.OK, Tone.WARN, Tone.BAD, Tone.MUTED)


def _covered(spans: Sequence[Span], first: int, last: int) -> int:
    """Return how many offsets from ``first`` to ``last`` are in spans, which are in order.

    Of thousands of spans, each cell looks only at its own: a strip is drawn at every cursor move.
    """
    covered = 0
    for number in range(bisect_right(spans, first, key=itemgetter(1)), len(spans)):
        low, high = spans[number]
        if low >= last:
            break
        covered += min(last, high) - max(first, low)
    return covered


def _kind(log: Log, first: int, last: int) -> int:
    if any(low < last and high > first for low, high in log.lost):
        return _LOST
    position = log.position if log.position is not None else first
    if first >= position:
        return _WAITING
    copied = min(last, position)
    covered = _covered(log.spans, first, copied)
    if not covered:
        return _UNMAPPED
    return _MAPPED if covered >= last - first else _PARTLY


def marker(start: int, end: int, at: int | None, width: int) -> str:
    """Return a line that marks an offset's place below the strip; empty outside the log."""
    if at is None or end <= start or not start <= at <= end:
        return ""
    return f"{'':{_place(at, (start, end), width)[0]}}^"


def markers(
    bounds: Span, source: int | None, target: int | None, width: int, words: tuple[str, str, str]
) -> str:
    """Return a line that marks two offsets below the strip of a log, each with a word beside it.

    Args:
        bounds: start and end of the strip; an offset outside is marked at its edge.
        source: the first offset; None if unknown.
        target: the second one.
        width: cells.
        words: for the first offset, for the second, and for both where they are in one cell.
    """
    signs: dict[int, tuple[str, str]] = {}
    for at, word in ((source, words[0]), (target, words[1])):
        if at is not None:
            place, sign = _place(at, bounds, width)
            signs[place] = (sign, words[2] if place in signs else word)
    text = [" "] * width
    for place, (sign, _) in signs.items():
        text[place] = sign
    places = sorted(signs)
    for number, place in enumerate(places):
        # The first word stands left of its sign, and the last one right, where there is room.
        word = signs[place][1]
        before, after = place - len(word) - 1, place + 2
        begins = [before, after] if number == 0 and len(places) > 1 else [after, before]
        for begin in begins:
            end = begin + len(word)
            # With a blank on both sides, so that it touches no other sign.
            around = text[max(0, begin - 1) : end + 1]
            around = [
                character for n, character in enumerate(around, max(0, begin - 1)) if n != place
            ]
            if begin >= 0 and end <= width and not "".join(around).strip():
                text[begin:end] = word
                break
    return "".join(text).rstrip()


def _place(at: int, bounds: Span, width: int) -> tuple[int, str]:
    """Return the cell of an offset, and the sign there, which says if it is outside."""
    start, end = bounds
    if at < start:
        return 0, "<"
    if at > end:
        return width - 1, ">"
    return min(width - 1, (at - start) * width // max(1, end - start)), "^"


def journey(
    log: tuple[int, int],
    before: int | None,
    after: int | None,
    width: int,
    glyphs: Glyphs,
    tone: Tone = Tone.OK,
) -> Line:
    """Return a log from its start to its end, and on it the way of an offset.

    Offsets outside the log are drawn at its ends, and unknown ones (None) not at all.
    """
    start, end = log
    if end <= start or width < 3:
        return (Cell(NOT_AVAILABLE, Tone.MUTED),)
    inner = width - 2
    here, line, back, forward, edge, rest = "o=<>|-" if glyphs.ascii else "○━◀▶│─"

    def cell(offset: int) -> int:
        return _place(offset, log, inner)[0]

    signs = [rest] * inner
    if before is not None and after is not None:
        one, other = cell(before), cell(after)
        signs[min(one, other) : max(one, other) + 1] = line * (abs(one - other) + 1)
    if before is not None:
        signs[cell(before)] = here
    if after is not None:
        signs[cell(after)] = back if before is not None and after < before else forward
        signs[cell(after)] = here if after == before else signs[cell(after)]
    drawn = _joined((sign, Tone.MUTED if sign == rest else tone) for sign in signs)
    return (Cell(edge, Tone.MUTED), *drawn, Cell(edge, Tone.MUTED))


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
