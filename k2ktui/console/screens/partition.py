"""One partition: its offsets, its coverage, its latest mapping ranges, its lag over time."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, VerticalScroll
from textual.widget import Widget

from k2ktui.console.aging import stale_partition_columns
from k2ktui.console.export import Table
from k2ktui.console.keys import CHART_WINDOW
from k2ktui.console.screens.base import ConsoleScreen
from k2ktui.console.visuals.chart import Chart
from k2ktui.console.visuals.shapes import marker, strip
from k2ktui.console.widgets.styled_text import glyphs_of
from k2ktui.console.widgets.text_lines import TextLines
from k2ktui.present import formatting
from k2ktui.present.formatting import Cell, Glyphs, Line, Tone
from k2ktui.text import counted, safe_text
from k2ktui.watch.history import Sample
from k2ktui.watch.model import PartitionRow, RangeRow, View, ranges_below
from k2ktui.watch.severity import judge_partition

_SHOWN_RANGES = 8
_PLOT_HEIGHT = 9


class PartitionScreen(ConsoleScreen):
    """The partition screen, a detail of screen 2.

    Args:
        key: topic and partition on the source.
    """

    ENTRY: ClassVar[str] = "replication"
    HELP: ClassVar[str | None] = """
        One partition. The bar is its log on the source, from the log start to the last stable
        offset: dark where offsets translate exactly, empty where they do not. ^ marks the
        replicated position.

        A range maps records from a source offset on to consecutive target offsets. A gap before it
        are source offsets without a copied record: transaction markers, aborted or compacted
        records. e exports the ranges that are held in memory.
    """

    BINDINGS: ClassVar[list[BindingType]] = [CHART_WINDOW]

    def __init__(self, key: tuple[str, int]) -> None:
        super().__init__()
        self._key = key
        self._ranges: Sequence[RangeRow] = ()

    @property
    def crumb(self) -> str:
        """The partition."""
        return f"{self._key[0]}-{self._key[1]}"

    def body(self) -> Iterable[Widget]:
        """Yield the figures and the plots, in a scrollable container."""
        yield _Detail(id="detail-scroll")

    def on_mount(self) -> None:
        """Focus the scrollable container."""
        self.query_one(_Detail).focus()

    def on_resize(self) -> None:
        """Redraw for the new width."""
        self.refresh_view()

    def show_view(self, view: View) -> None:
        """Show the partition's state in a view."""
        row = next((row for row in view.partitions if row.key == self._key), None)
        glyphs, width = glyphs_of(self), max(20, self.size.width - 4)
        title = safe_text(f"{self._key[0]}-{self._key[1]}", 400)
        if row is None:
            gone: list[Line] = [(Cell(title, Tone.HEADING), Cell("  no longer exists"))]
            self.query_one("#detail", TextLines).show(gone)
            return
        known = self.session.feed.ranges(*self._key) or row.ranges
        self._ranges = ranges_below(known, row.status.position)
        old = stale_partition_columns(view)
        lines = [*figures(row, glyphs, old), *coverage(row, width, glyphs, old)]
        lines += ranges(self._ranges, max(3, self.size.height - 24))
        self.query_one("#detail", TextLines).show(lines)
        self._plots()

    def _plots(self) -> None:
        samples: Sequence[Sample] = self.session.feed.series(*self._key)
        lag = [(s.at, _float(s.lag_records)) for s in samples]
        rate = [(s.at, s.rate) for s in samples]
        height = max(_PLOT_HEIGHT, min(16, self.size.height - 22))
        for name, points in (("lag", lag), ("rate", rate)):
            chart = self.query_one(f"#plot-{name}", Chart)
            chart.styles.height = height
            chart.show(points, self.console.chart_minutes)

    def table(self) -> Table | None:
        """Return the mapping ranges."""
        rows = [[str(number) for number in each] for each in self._ranges]
        return ["source", "target", "count"], rows

    def text_to_copy(self) -> str:
        """Return the shown text."""
        return self.query_one("#detail", TextLines).text


class _Detail(VerticalScroll):
    """The scrollable container."""

    def compose(self) -> ComposeResult:
        yield TextLines(id="detail")
        with Container(id="plots"):
            yield Chart("Lag, records", id="plot-lag")
            yield Chart("Copied, records/s", Tone.OK, id="plot-rate")


def figures(row: PartitionRow, glyphs: Glyphs, old: Collection[str] = frozenset()) -> list[Line]:
    """Return the figures of a partition; ``old`` are the ids of columns with stale readings."""

    def text(column: str, value: str) -> str:
        return glyphs.aged(Cell(value)).text if column in old else value

    def number(column: str, value: int | None) -> str:
        return text(column, formatting.number(value))

    mark = glyphs.mark(judge_partition(row))
    mark = glyphs.aged(mark) if "state" in old else mark
    status = row.status
    where = "*" if status.target_partition is None else str(status.target_partition)
    target = safe_text(f"{status.target_topic}-{where}", 400) if status.target_topic else "—"
    title = safe_text(f"{status.topic}-{status.partition}", 400)
    left = f", {formatting.duration(row.eta_s)} left" if row.eta_s else ""
    lines: list[Line] = [
        (Cell(title, Tone.HEADING), Cell("  "), mark, Cell(left)),
        _fact("Why", text("why", row.why), Tone.WARN),
        _fact("Target", f"{target}  end {number('target-end', status.target_end)}  {status.path}"),
        _fact(
            "Source log",
            f"{number('start', status.source_start)} … {number('end', status.source_end)}",
        ),
        _fact("Held back", text("held-back", status.held.text() if status.held else ""), Tone.WARN),
        _fact("Position", number("position", status.position)),
        _fact(
            "Lag",
            f"{number('lag', status.lag_records)} records, "
            f"{text('behind', formatting.seconds(status.lag_seconds))} "
            f"{glyphs.direction(row.direction)}  {formatting.number(row.rate)} records/s",
        ),
    ]
    lines += [
        _fact("Lost", f"source offsets {low:,} … {high - 1:,}", Tone.BAD) for low, high in row.gaps
    ]
    return [line for line in lines if line]


def _fact(label: str, text: str, tone: Tone = Tone.PLAIN) -> Line:
    return (Cell(f"{label:<12}", Tone.MUTED), Cell(text, tone)) if text else ()


def coverage(
    row: PartitionRow, width: int, glyphs: Glyphs, old: Collection[str] = frozenset()
) -> list[Line]:
    """Return the coverage of the retained log as a bar."""
    status = row.status
    sign = glyphs.stale if "coverage" in old and status.coverage is not None else ""
    text = f"{sign}{formatting.share(status.coverage)} of the retained log translates exactly"
    lines: list[Line] = [_fact("Coverage", text)]
    start, end = status.source_start, status.source_end
    if start is None or end is None or end <= start:
        return lines
    bar = strip(start, end, row.spans, width - 2, glyphs)
    sides = "||"
    lines.append((Cell(sides[0], Tone.MUTED), Cell(bar, Tone.OK), Cell(sides[1], Tone.MUTED)))
    below = marker(start, end, status.position, width - 2)
    return [*lines, (Cell(f" {below}", Tone.WARN),)]


def ranges(found: Sequence[RangeRow], most: int) -> list[Line]:
    """Return the latest mapping ranges, newest first."""
    if not found:
        return [_fact("Ranges", "none in memory", Tone.MUTED)]
    shown = range(max(0, len(found) - min(most, _SHOWN_RANGES)), len(found))
    lines: list[Line] = [_fact("Ranges", f"the last {len(shown)} of {len(found):,} in memory")]
    for number in reversed(shown):
        source, target, count = found[number]
        text = f"  {source:>15,} → {target:>15,}  {counted(count, 'record'):>17}"
        before, _, length = found[number - 1] if number else (source, 0, 0)
        gap = source - before - length
        lines.append((Cell(text), *([Cell(f"  gap of {gap:,} before", Tone.MUTED)] if gap else [])))
    return lines


def _float(value: int | None) -> float | None:
    return None if value is None else float(value)
