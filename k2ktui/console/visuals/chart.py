"""A value over time as a filled area from zero, drawn by plotext."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile

from textual.app import ComposeResult

from k2ktui.console import terminal
from k2ktui.console.visuals.panel import Panel
from k2ktui.console.widgets.styled_text import glyphs_of
from k2ktui.console.widgets.text_lines import TextLines
from k2ktui.present.formatting import Cell, Glyphs, Line, Tone, utc_time

Points = Sequence[tuple[float, float | None]]

WINDOWS_MIN = (5, 15, 60)
# A chart is drawn at most this often: it is most of what a refresh sends over ssh.
EVERY_S = 5.0
# How long a chart of values that do not change stays as it is.
STILL_S = 20.0
_LEAST = (20, 4)


class Chart(Panel):
    """A panel with a value over time.

    Args:
        title: what is drawn, and its unit.
        tone: of the area.
        id: of the widget.
    """

    def __init__(self, title: str, tone: Tone = Tone.INFO, *, id: str | None = None) -> None:
        super().__init__(title, id=id)
        self._tone = tone
        self._points: Points = ()
        self._minutes = WINDOWS_MIN[0]
        self._drawn: tuple[Points, object] = ((), None)

    def compose(self) -> ComposeResult:
        """Yield the drawing."""
        yield TextLines()

    def on_resize(self) -> None:
        """Draw for the new size."""
        super().on_resize()
        self._draw()

    def show(self, points: Points, minutes: int) -> None:
        """Show the values of a time window that ends at the last point."""
        self._points, self._minutes = points, minutes
        self.label(self.title_text, f"{minutes} min, UTC")
        self._draw()

    def _draw(self) -> None:
        size = self.content_size
        form = (size, self._minutes)
        points, drawn = self._drawn
        if not size or (drawn == form and stays(points, self._points)):
            return
        self._drawn = self._points, form
        lines = chart_lines(
            self._points, size.width, size.height, glyphs_of(self), self._minutes, self._tone
        )
        lines += [()] * (size.height - len(lines))
        self.query_one(TextLines).show(lines)


def stays(drawn: Points, points: Points) -> bool:
    """Return whether a chart of ``drawn`` may stay.

    It is new enough, or nothing has changed since and it is not old: a new one would differ by a
    shift of less than :data:`STILL_S` seconds.
    """
    if not drawn or not points:
        return not drawn and not points
    later = points[-1][0] - drawn[-1][0]
    if sum(value is not None for _, value in drawn) < 2 or not 0 <= later < STILL_S:
        return False
    if later < EVERY_S:
        return later > 0 or points[-1] == drawn[-1]
    if any(value is None for _, value in drawn[-2:]):
        return False
    last = drawn[-1][1]
    new = takewhile(lambda point: point[0] > drawn[-1][0], reversed(points))
    return all(value == last for _, value in new)


def chart_lines(
    points: Points,
    width: int,
    height: int,
    glyphs: Glyphs,
    minutes: int = WINDOWS_MIN[0],
    tone: Tone = Tone.INFO,
) -> list[Line]:
    """Return a chart as lines: two values left of it, and clock times below."""
    last = points[-1][0] if points else 0.0
    first = last - 60 * minutes
    shown = [(at, value) for at, value in points if at >= first]
    known = [value for _, value in shown if value is not None]
    if len(known) < 2 or width < _LEAST[0] or height < _LEAST[1]:
        waiting = "needs a few polls" if len(known) < 2 else "needs a larger terminal"
        return [(Cell(waiting, Tone.MUTED),)]
    top = scale_end(max(known))
    high, half = f"{top:,}", f"{top // 2:,}" if top > 1 else ""
    margin = max(len(high), 5)
    rows = _area(shown, first, last, top, width - margin - 1, height - 1, glyphs)
    lines: list[Line] = []
    for number, row in enumerate(rows):
        label = high if number == 0 else half if number == len(rows) // 2 else ""
        lines.append((Cell(f"{label:>{margin}} ", Tone.MUTED), Cell(row, tone)))
    axis = _clocks(first, last, width - margin - 1)
    return [*lines, (Cell(f"{'0':>{margin}} {axis}", Tone.MUTED),)]


def _area(
    points: Points, first: float, last: float, top: int, width: int, height: int, glyphs: Glyphs
) -> list[str]:
    """Return the rows of the filled area; where values are unknown, there is none."""
    import plotext

    plotext.clear_figure()
    plotext.plotsize(width, height)
    plotext.theme("clear")
    plotext.frame(False)
    plotext.xticks([])
    plotext.yticks([])
    marker = "#" if glyphs.ascii else "braille" if terminal.has_braille() else "hd"
    for part in _known_parts(points):
        times, values = [at - first for at, _ in part], [value for _, value in part]
        plotext.plot(times, values, marker=marker, fillx=True)
    plotext.xlim(0, last - first)
    plotext.ylim(0, top)
    rows: list[str] = plotext.uncolorize(plotext.build()).splitlines()
    return [row[:width].ljust(width) for row in rows[:height]]


def _known_parts(points: Points) -> Iterator[list[tuple[float, float]]]:
    """Yield the stretches of known values."""
    part: list[tuple[float, float]] = []
    for at, value in points:
        if value is not None:
            part.append((at, value))
        elif part:
            yield part
            part = []
    if part:
        yield part


def scale_end(largest: float) -> int:
    """Return the smallest even round number (2, 4, 6, 8, 10, 20, …) that is not below a value."""
    step = 1
    while True:
        for factor in (2, 4, 6, 8, 10):
            if factor * step >= largest:
                return factor * step
        step *= 10


def _clocks(first: float, last: float, width: int) -> str:
    """Return clock times of round minutes, each at its place."""
    text = ""
    for at in clock_ticks(first, last, max(2, width // 10)):
        place = min(int((at - first) / (last - first) * width), width - 5)
        if place >= len(text) + (1 if text else 0):
            text = text.ljust(place) + utc_time(at)[:5]
    return text


def clock_ticks(first: float, last: float, most: int) -> list[float]:
    """Return up to ``most`` times from ``first`` to ``last`` at round minutes of the clock."""
    for minutes in (1, 2, 5, 10, 15, 20, 30):
        step = 60.0 * minutes
        ticks = [step * n for n in range(int(-(-first // step)), int(last // step) + 1)]
        if len(ticks) <= most:
            break
    return ticks
