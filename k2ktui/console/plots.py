"""Character plots: values over time (plotext), and the coverage of a log."""

from __future__ import annotations

from collections.abc import Sequence

from k2ktui.present.formatting import Cell, Glyphs, Line, Tone

Span = tuple[int, int]


def over_time(
    title: str,
    points: Sequence[tuple[float, float | None]],
    width: int,
    height: int,
    glyphs: Glyphs,
) -> list[Line]:
    """Return a plot of values over the seconds before the last point, without unknown values."""
    known = [(at, value) for at, value in points if value is not None]
    heading: Line = (Cell(title, Tone.HEADING),)
    if len(known) < 2 or width < 20 or height < 5:
        waiting = "needs a few polls" if len(known) < 2 else "needs a larger terminal"
        return [heading, (Cell(waiting, Tone.MUTED),)]
    import plotext

    last = points[-1][0]
    plotext.clear_figure()
    plotext.plotsize(width, height - 1)
    plotext.theme("clear")
    plotext.plot(
        [at - last for at, _ in known],
        [value for _, value in known],
        marker="*" if glyphs.ascii else "hd",
    )
    plotext.ylim(0, max(1.0, *(value for _, value in known)))
    plotext.xfrequency(3)
    plotext.yfrequency(4)
    plotext.xlabel("seconds ago")
    text = plotext.uncolorize(plotext.build())
    if glyphs.ascii:
        text = text.translate(_BOX)
    return [heading, *((Cell(row, Tone.INFO),) for row in text.splitlines())]


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
