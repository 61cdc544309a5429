"""Character plots: values over time (plotext), and the coverage of a log."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle, takewhile

from k2ktui.present.formatting import Cell, Glyphs, Line, Tone, utc_time
from k2ktui.watch.model import Point

Span = tuple[int, int]


WINDOWS_MIN = (5, 15, 60)
# How long a plot of values that do not change stays as it is.
STILL_S = 20.0


def over_time(
    title: str,
    points: Sequence[tuple[float, float | None]],
    width: int,
    height: int,
    glyphs: Glyphs,
    minutes: int = WINDOWS_MIN[0],
) -> list[Line]:
    """Return a plot of the known values of a time window that ends at the last point."""
    last = points[-1][0] if points else 0.0
    first = last - 60 * minutes
    known = [(at, value) for at, value in points if value is not None and at >= first]
    heading: Line = (Cell(title, Tone.HEADING), Cell(f"  {minutes} min, UTC", Tone.MUTED))
    if len(known) < 2 or width < 20 or height < 5:
        waiting = "needs a few polls" if len(known) < 2 else "needs a larger terminal"
        return [heading, (Cell(waiting, Tone.MUTED),)]
    import plotext

    top = max(1.0, *(value for _, value in known))
    plotext.clear_figure()
    plotext.plotsize(width, height - 1)
    plotext.theme("clear")
    plotext.plot(
        [at - first for at, _ in known],
        [value for _, value in known],
        marker="*" if glyphs.ascii else "hd",
    )
    plotext.xlim(0, last - first)
    plotext.ylim(0, top)
    values = whole_ticks(top, max(2, min(5, (height - 3) // 2)))
    plotext.yticks(values, [f"{value:,}" for value in values])
    clocks = clock_ticks(first, last, max(2, (width - len(f"{values[-1]:,}")) // 12))
    plotext.xticks([at - first for at in clocks], [utc_time(at)[:5] for at in clocks])
    text = plotext.uncolorize(plotext.build())
    if glyphs.ascii:
        text = text.translate(_BOX)
    return [heading, *((Cell(row, Tone.INFO),) for row in text.splitlines())]


def continues(drawn: Sequence[Point], points: Sequence[Point]) -> bool:
    """Whether a plot of ``drawn`` may stay: nothing has changed since, and it is not old.

    A new plot would differ by a shift of less than :data:`STILL_S` seconds, and drawing it takes
    longer than everything else that the console does for a view in which nothing has changed.
    """
    if not drawn or not points or not 0 <= points[-1].at - drawn[-1].at < STILL_S:
        return False
    before = drawn[-1].lag_records, drawn[-1].rate
    if sum(each.lag_records is not None and each.rate is not None for each in drawn[-2:]) < 2:
        return False
    later = takewhile(lambda each: each.at > drawn[-1].at, reversed(points))
    return all((each.lag_records, each.rate) == before for each in later)


def whole_ticks(top: float, most: int) -> list[int]:
    """Return up to ``most`` whole numbers from 0 to ``top``, evenly spaced by a round step."""
    step = 1
    for factor in cycle((2, 2.5, 2)):  # 1, 2, 5, 10, 20, 50, …
        if top / step < most:
            break
        step = int(step * factor)
    return list(range(0, int(top) + 1, step))


def clock_ticks(first: float, last: float, most: int) -> list[float]:
    """Return up to ``most`` times from ``first`` to ``last`` at round minutes of the clock."""
    for minutes in (1, 2, 5, 10, 15, 20, 30):
        step = 60.0 * minutes
        ticks = [step * n for n in range(int(-(-first // step)), int(last // step) + 1)]
        if len(ticks) <= most:
            break
    return ticks


_BOX = str.maketrans(dict.fromkeys("─━┄", "-") | dict.fromkeys("│┃┤├", "|"))
_BOX |= str.maketrans(dict.fromkeys("┌┐└┘┼┬┴", "+"))


def coverage_bar(start: int, end: int, spans: Sequence[Span], width: int, glyphs: Glyphs) -> str:
    """Return the retained log as a bar; a darker cell means that more of it translates exactly.

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


def marker(start: int, end: int, at: int | None, width: int) -> str:
    """Return a line that marks an offset's place below the bar; empty if it is outside the log."""
    if at is None or end <= start or not start <= at <= end:
        return ""
    return " " * min(width - 1, (at - start) * width // (end - start)) + "^"
