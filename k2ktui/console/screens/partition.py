"""One partition: its offsets, its coverage, its latest mapping ranges, its lag over time."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from threading import Thread
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container
from textual.widget import Widget

from k2ktui.console.export import Table
from k2ktui.console.keys import CHART_WINDOW
from k2ktui.console.screens.base import ConsoleScreen
from k2ktui.console.screens.row import RowDetail
from k2ktui.console.session import Session
from k2ktui.console.visuals.chart import Chart
from k2ktui.console.visuals.facts import fact, wrapped
from k2ktui.console.visuals.panel import Panel
from k2ktui.console.visuals.shapes import Log, log_bounds, log_strip, marker, picture_cell
from k2ktui.console.widgets.styled_text import glyphs_of
from k2ktui.engine.producers import Writer
from k2ktui.errors import K2kError
from k2ktui.present import formatting
from k2ktui.present.columns import Column
from k2ktui.present.comparisons import compared_cell
from k2ktui.present.formatting import Cell, Glyphs, Line, Tone
from k2ktui.present.partitions import COMPARED, stale_partition_columns
from k2ktui.text import counted, first_lines, safe_message, safe_text
from k2ktui.watch.history import Sample
from k2ktui.watch.model import PartitionRow, RangeRow, View, ranges_below
from k2ktui.watch.severity import judge_partition

if TYPE_CHECKING:
    from k2ktui.log.writers import WriterWatch

# The id of the column that draws the log, and the cells of its drawing.
LOG, _STRIP = "log", 16
_SHOWN_RANGES = 8
# Offsets that were written before the screen was opened, and producers that it names.
_LOOK_BACK, _MOST_PRODUCERS = 500, 5
_PLOT_HEIGHT, _HIGHEST_PLOT, _LEAST_PLOT = 9, 22, 6
# Below this width the charts stand below each other, and facts are wrapped.
_NARROW = 70


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

        Producers are those of the newest 500 offsets, and those that have written since the screen
        was opened: by transactional id, by producer id and epoch, or without an id. Brokers do not
        tell a producer's client id or host.
    """

    BINDINGS: ClassVar[list[BindingType]] = [CHART_WINDOW]

    def __init__(self, key: tuple[str, int]) -> None:
        super().__init__()
        self._key = key
        self._ranges: Sequence[RangeRow] = ()
        self._watch: WriterWatch | None = None
        self._producers: list[Line] = []

    @property
    def crumb(self) -> str:
        """The partition."""
        return f"{self._key[0]}-{self._key[1]}"

    def body(self) -> Iterable[Widget]:
        """Yield the figures and the charts, in a scrollable container."""
        yield Panel(self.crumb, PartitionDetail(id="detail-scroll"), id="whole")

    def on_mount(self) -> None:
        """Focus the scrollable container."""
        self.query_one(PartitionDetail).focus()

    def on_unmount(self) -> None:
        """Disconnect, without waiting for a poll that runs."""
        if self._watch is not None:
            Thread(target=self._watch.close, name="producers", daemon=True).start()

    def _poll_producers(self) -> None:
        """Read who has written since the last poll."""
        watch = self._watch = self._watch or self.session.feed.watch_writers(_LOOK_BACK)
        if watch is None:
            return

        def done(writers: Sequence[Writer]) -> None:
            self._producers = producer_lines(writers)

        def failed(error: K2kError) -> None:
            why = error.message.partition("\n")[0]
            self._producers = [fact("Producers", f"not known: {safe_message(why)}", Tone.MUTED)]

        self.background("producers", lambda: watch.poll([self._key]), done, failed)

    def show_view(self, view: View) -> None:
        """Show the partition's state in a view."""
        row = row_of(view, self._key)
        detail = self.query_one(PartitionDetail)
        if row is None:
            title = safe_text(f"{self._key[0]}-{self._key[1]}", 400)
            detail.show_gone(title)
            return
        self._ranges = known_ranges(self.session, row)
        self._poll_producers()
        _show_row(self, detail, view, row, self._ranges, self._producers)

    def table(self) -> Table | None:
        """Return the mapping ranges."""
        rows = [[str(number) for number in range_row] for range_row in self._ranges]
        return ["source", "target", "count"], rows

    def text_to_copy(self) -> str:
        """Return the shown text."""
        return self.query_one(PartitionDetail).text


def row_of(view: View | None, key: tuple[str, int]) -> PartitionRow | None:
    """Return the row of a partition of the source in a view; None if there is none."""
    rows = view.partitions if view is not None else ()
    return next((row for row in rows if row.key == key), None)


def known_ranges(session: Session, row: PartitionRow) -> Sequence[RangeRow]:
    """Return a partition's mapping ranges that are held in memory, up to its position."""
    return ranges_below(session.feed.ranges(*row.key) or row.ranges, row.status.position)


def show_beside(screen: ConsoleScreen, row: PartitionRow | None) -> None:
    """Show a partition in the panel beside a table of partitions; None if it has no row."""
    panel, view = screen.query_one("#side", Panel), screen.console.view
    if view is None:
        return
    detail = panel.query_one(PartitionDetail)
    detail.display = row is not None
    if row is None:
        panel.label("Partition")
        return
    panel.label(f"{row.status.topic}-{row.status.partition}")
    _show_row(screen, detail, view, row, known_ranges(screen.session, row))


def _show_row(
    screen: ConsoleScreen,
    detail: PartitionDetail,
    view: View,
    row: PartitionRow,
    known: Sequence[RangeRow],
    producers: Sequence[Line] = (),
) -> None:
    charted = screen.session.feed.series(*row.key), screen.console.chart_minutes
    compared = compared_line(screen, view, row)
    more = [*([compared] if compared else []), *producers]
    detail.show_row(row, known, charted, stale_partition_columns(view), more)


def compared_line(screen: ConsoleScreen, view: View, row: PartitionRow) -> Line:
    """Return what the last comparison found on a partition; nothing if it was not compared."""
    last, glyphs = view.compared.get(row.key), glyphs_of(screen)
    if last is None:
        return ()
    cell = compared_cell(last, screen.session.feed.now(), glyphs)
    cell = glyphs.aged(cell) if COMPARED in stale_partition_columns(view) else cell
    return fact("Compared", f"{cell.text} ago", cell.tone)


class PartitionDetail(RowDetail):
    """One partition: figures, the strip of its log, ranges and charts; also beside the table."""

    _charted: tuple[Sequence[Sample], int] | None = None

    def charts(self) -> ComposeResult:
        """Yield the charts."""
        with Container(id="plots"):
            yield Chart("Lag, records", id="plot-lag")
            yield Chart("Copied, records/s", Tone.OK, id="plot-rate")

    @property
    def room(self) -> int:
        """The cells of a line."""
        return max(20, self.size.width - 2) if self.size else 0

    @property
    def _is_narrow(self) -> bool:
        return self.size.width < _NARROW

    def show_gone(self, title: str) -> None:
        """Show that the partition no longer exists."""
        self._charted = None
        gone: Line = (Cell(title, Tone.HEADING), Cell("  no longer exists"))
        self.show(lambda _: [gone])

    def show_row(
        self,
        row: PartitionRow,
        known: Sequence[RangeRow],
        charted: tuple[Sequence[Sample], int],
        old: Collection[str],
        more: Sequence[Line],
    ) -> None:
        """Show a partition.

        Args:
            row: its state.
            known: its mapping ranges.
            charted: its lag and rate over time, and the window of the charts in minutes.
            old: ids of columns with stale readings.
            more: what the last comparison found on it, and who writes to it.
        """

        def lines(width: int) -> list[Line]:
            glyphs, narrow = glyphs_of(self), self._is_narrow
            shown = [*figures(row, glyphs, old), *more, *coverage(row, width, glyphs, old)]
            shown = [part for line in shown for part in wrapped(line, width)]
            most = 3 if narrow else max(3, self.size.height - 24)
            return [*shown, *ranges(known, most, width)]

        self._charted = charted
        self.show(lines)

    def draw_charts(self, lines: int) -> None:
        """Draw the charts side by side, or below each other where it is narrow."""
        if self._charted is None:
            return
        samples, minutes = self._charted
        left, narrow = self.size.height - lines, self._is_narrow
        height = min(12 if narrow else _HIGHEST_PLOT, left // 2 if narrow else left)
        if self.can_focus:
            height = max(_PLOT_HEIGHT, height)  # it can be scrolled
        plots = self.query_one("#plots")
        plots.display = height >= _LEAST_PLOT
        plots.styles.layout = "vertical" if narrow else "horizontal"
        values = (
            ("lag", [(sample.at, _float(sample.lag_records)) for sample in samples]),
            ("rate", [(sample.at, sample.rate) for sample in samples]),
        )
        for name, points in values:
            chart = self.query_one(f"#plot-{name}", Chart)
            chart.styles.height = height
            chart.show(points, minutes)


def producer_lines(writers: Sequence[Writer]) -> list[Line]:
    """Return who writes to a partition, those that wrote most first."""
    if not writers:
        return [fact("Producers", "none in the newest offsets", Tone.MUTED)]
    texts = first_lines([f"{w.producer.name}: {_amount(w)}" for w in writers], _MOST_PRODUCERS)
    return [fact("Producers" if not number else "", text) for number, text in enumerate(texts)]


def _amount(writer: Writer) -> str:
    if not writer.records:
        return "ended a transaction"
    return f"{writer.amount}, last at {writer.newest}"


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
    why = fact("Why", text("why", row.why), Tone.WARN)
    if status.moved_by:
        why = fact("Moved", text("why", row.why.removeprefix("moved ")))
    lines: list[Line] = [
        (Cell(title, Tone.HEADING), Cell("  "), mark, Cell(left)),
        why,
        fact("Target", f"{target}  end {number('target-end', status.target_end)}  {status.path}"),
        fact(
            "Source log",
            f"{number('start', status.source_start)} … {number('end', status.source_end)}",
        ),
        fact("Held back", text("held-back", status.held.text() if status.held else ""), Tone.WARN),
        fact("Position", number("position", status.position)),
    ]
    if not status.moved_by:  # what its source has no longer counts
        lag = (
            f"{number('lag', status.lag_records)} records, "
            f"{text('behind', formatting.seconds(status.lag_s))} "
            f"{glyphs.direction(row.direction)}  {formatting.number(row.rate)} records/s"
        )
        lines.append(fact("Lag", lag))
    lines += [
        fact("Lost", f"source offsets {low:,} … {high - 1:,}", Tone.BAD) for low, high in row.gaps
    ]
    return [line for line in lines if line]


def coverage(
    row: PartitionRow, width: int, glyphs: Glyphs, old: Collection[str] = frozenset()
) -> list[Line]:
    """Return the coverage of the retained log as a bar."""
    status = row.status
    # Nothing translates the offsets of a moved topic any more.
    lines = [] if status.moved_by else _share_lines(row, glyphs, old)
    log = log_of(row)
    bounds = log_bounds(log)
    if bounds is None:
        return lines
    sides = Cell("|", Tone.MUTED)
    lines.append((sides, *log_strip(log, width - 2, glyphs), sides))
    below = marker(*bounds, status.position, width - 2)
    return [*lines, (Cell(f" {below}", Tone.WARN),)]


def _share_lines(row: PartitionRow, glyphs: Glyphs, old: Collection[str]) -> list[Line]:
    status = row.status
    sign = glyphs.stale if "coverage" in old and status.coverage is not None else ""
    text = f"{sign}{formatting.share(status.coverage)} of the retained log translates exactly"
    lines: list[Line] = [fact("Coverage", text)]
    if status.unmapped:
        missing = f"{counted(status.unmapped, 'copied offset')} without a mapping"
        lines.append(fact("", missing, Tone.WARN))
    elif status.unmapped == 0 and status.lag_records:
        lines.append(fact("", "all but what is not copied yet", Tone.MUTED))
    return lines


def log_of(row: PartitionRow) -> Log:
    """Return what a row knows of its log."""
    status = row.status
    return Log(status.source_start, status.source_end, row.spans, row.gaps, status.position)


def log_column(glyphs: Glyphs, rank: int) -> Column[PartitionRow]:
    """Return the column that draws the log of each partition."""

    def log(row: PartitionRow) -> Cell:
        return picture_cell(log_strip(log_of(row), _STRIP, glyphs))

    return Column(LOG, "retained log", log, width=_STRIP, rank=rank, picture=True)


def ranges(rows: Sequence[RangeRow], most: int, width: int = 80) -> list[Line]:
    """Return the latest mapping ranges, newest first."""
    if not rows:
        return [fact("Ranges", "none in memory", Tone.MUTED)]
    shown = range(max(0, len(rows) - min(most, _SHOWN_RANGES)), len(rows))
    lines: list[Line] = [fact("Ranges", f"the last {len(shown)} of {len(rows):,} in memory")]
    for number in reversed(shown):
        source, target, count = rows[number]
        text = f"  {source:>15,} → {target:>15,}  {counted(count, 'record'):>17}"
        if width < _NARROW - 2:
            text = f"{source:>12,} → {target:>12,}  {count:>9,}"
        before, _, length = rows[number - 1] if number else (source, 0, 0)
        gap = source - before - length
        lines.append((Cell(text), *([Cell(f"  gap of {gap:,} before", Tone.MUTED)] if gap else [])))
    return lines


def _float(value: int | None) -> float | None:
    return None if value is None else float(value)
