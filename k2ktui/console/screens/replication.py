"""Screen 2: every partition's position, lag and target."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.timer import Timer
from textual.widget import Widget

from k2ktui.console.aging import stale_partition_columns
from k2ktui.console.screens.base import ListScreen
from k2ktui.console.screens.partition import (
    PartitionDetail,
    PartitionScreen,
    known_ranges,
    log_of,
)
from k2ktui.console.screens.preview import PreviewScreen
from k2ktui.console.visuals.panel import Panel
from k2ktui.console.visuals.shapes import log_bar, log_strip, picture_cell
from k2ktui.console.widgets.grid import Grid
from k2ktui.console.widgets.styled_text import glyphs_of
from k2ktui.console.widgets.text_dialog import TextDialog
from k2ktui.errors import NotInstalled
from k2ktui.present import formatting
from k2ktui.present.columns import Column
from k2ktui.present.formatting import Cell, Line, tone_of
from k2ktui.present.partitions import partition_columns
from k2ktui.runtime.spark_extra import require_transform_packages
from k2ktui.text import counted, safe_text
from k2ktui.watch.model import PartitionRow, PartName, View
from k2ktui.watch.severity import Severity, judge_partition

_BAR, _STRIP = 6, 16
_LEAST_SCALE = 1_000
# The columns that draw what another column says.
_DRAWN = {"lag": "lag-bar", "coverage": "log"}
# How long the cursor rests on a row until the panel beside the table follows it.
_REST_S = 0.15


class ReplicationScreen(ListScreen):
    """The table of all partitions."""

    ENTRY: ClassVar[str] = "replication"
    HELP: ClassVar[str | None] = """
        Replication. Each row is a partition of the source. Position is the next source offset to
        copy. Lag is the number of offsets from there to the last stable offset. Behind is the age
        of the record at the position. Left is the time until it has caught up at the current rate.

        The bar is the lag on a scale of powers of ten. The strip is the log from its start to its
        end: full where offsets translate exactly, light where they do not, a cross where records
        were deleted before they could be copied, dots where nothing is copied yet. From 120 columns
        on, the panel beside the table shows the partition under the cursor.

        Problems come first until a sort column is chosen. Enter opens a partition with its
        coverage, its ranges and its lag over time. A narrow terminal hides columns; opening a row
        shows all of them. x shows what the transform of the topic does to its newest records.
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("x", "preview", "Preview transform", id="replication.preview"),
        Binding("w", "app.chart_window", "Charts", show=False, id="charts.window"),
    ]
    DETAILS = (PreviewScreen, PartitionScreen)
    PANEL: ClassVar[str] = "Partitions"

    def __init__(self) -> None:
        super().__init__()
        # The end of the lag bars' scale: a power of ten, so that it seldom changes.
        self._largest = _LEAST_SCALE
        self._detail_timer: Timer | None = None

    def side(self) -> Iterable[Widget]:
        """Yield the panel about the partition under the cursor."""
        detail = PartitionDetail(can_focus=False)
        yield Panel("Partition", detail, id="side")

    def make_grid(self) -> Grid[PartitionRow]:
        """Create the table of partitions."""
        return Grid(
            self._columns(),
            key=lambda row: row.key,
            search=lambda row: (
                f"{row.status.topic}-{row.status.partition} {row.status.state} "
                f"{row.status.target_topic}"
            ),
            problem=lambda row: judge_partition(row).severity >= Severity.WARN,
            order=_order,
            empty="No partition is selected by the pipeline.",
            id="partitions",
        )

    def _columns(self) -> tuple[Column[PartitionRow], ...]:
        """Return the columns, with those that draw the lag and the log."""
        glyphs = glyphs_of(self)

        def lag(row: PartitionRow) -> Cell:
            tone = tone_of(judge_partition(row).severity)
            value = row.status.lag_records
            return picture_cell(log_bar(value, self._largest, _BAR, glyphs, tone))

        def log(row: PartitionRow) -> Cell:
            return picture_cell(log_strip(log_of(row), _STRIP, glyphs))

        pictures: dict[str, Column[PartitionRow]] = {
            "lag": Column(_DRAWN["lag"], "", lag, width=_BAR, rank=2, picture=True),
            "coverage": Column(
                _DRAWN["coverage"], "retained log", log, width=_STRIP, rank=5, picture=True
            ),
        }
        columns: list[Column[PartitionRow]] = []
        for column in partition_columns(glyphs):
            columns.append(column)
            if column.id in pictures:
                columns.append(pictures[column.id])
        return tuple(columns)

    def show_view(self, view: View) -> None:
        """Show the view's partitions."""
        grid = self.query_one(Grid)
        lags = (row.status.lag_records or 0 for row in view.partitions)
        largest = max(_LEAST_SCALE, 10 ** len(str(max(lags, default=0))))
        if largest != self._largest:
            self._largest = largest
            grid.redraw()
        read = view.part(PartName.SOURCE).taken_at or view.part(PartName.TARGET).taken_at
        grid.empty = "No partition is selected by the pipeline." if read else formatting.NOT_YET
        stale = set(stale_partition_columns(view))
        grid.mark_stale(stale | {_DRAWN[each] for each in stale if each in _DRAWN})
        grid.show(view.partitions)
        worst = max((judge_partition(row).severity for row in view.partitions), default=None)
        self.query_one("#table", Panel).mark(worst)
        self._show_detail()

    @on(Grid.Changed)
    def _moved(self) -> None:
        """Show the partition under the cursor, once it rests there: charts take a while."""
        if self._detail_timer is not None:
            self._detail_timer.stop()
        self._detail_timer = self.set_timer(_REST_S, self._show_detail)

    def on_resize(self) -> None:
        """Show the partition for the new size."""
        super().on_resize()
        self._show_detail()

    def _show_detail(self) -> None:
        panel, view = self.query_one("#side", Panel), self.console.view
        if view is None:
            return
        row: PartitionRow | None = self.query_one(Grid).current
        detail = panel.query_one(PartitionDetail)
        if row is None:
            panel.label("Partition")
            detail.display = False
            return
        detail.display = True
        panel.label(f"{row.status.topic}-{row.status.partition}")
        samples = self.session.feed.series(*row.key)
        known = known_ranges(self.session, row)
        old = stale_partition_columns(view)
        detail.show(row, known, samples, self.console.chart_minutes, old)

    def summary(self) -> Line:
        """Return the totals."""
        view = self.console.view
        if view is None:
            return (Cell(formatting.NOT_YET),)
        totals = view.totals
        if not totals.partitions:
            return ()
        old = formatting.STALE if view.copy_stale else ""
        text = (
            f"{counted(totals.partitions, 'partition')}  "
            f"lag {old}{formatting.number(totals.lag_records)}  "
            f"behind {old}{formatting.seconds(totals.lag_seconds)}  "
            f"{formatting.number(totals.rate)} records/s"
        )
        return (Cell(text),)

    def refusal(self, action: str) -> str:
        """Return why an action is unavailable now."""
        if action == "preview":
            return self._no_preview()
        return super().refusal(action)

    def _no_preview(self) -> str:
        flow = self.session.flow
        if flow is None:
            return "this is a recording"
        if flow.pipeline is None:
            return "no pipeline of k2ktui copies this flow"
        if not flow.pipeline.replication.transforms():
            return "the pipeline file has no replication.transform and no expression in the sink"
        return ""

    def action_preview(self) -> None:
        """Show what the transform of the topic under the cursor does."""
        row: PartitionRow | None = self.query_one(Grid).current
        flow = self.session.flow
        if row is None or flow is None or flow.pipeline is None:
            return
        topic = row.status.topic
        if flow.pipeline.replication.transform_for(topic) is None:
            text = f"no rule of replication.transform changes the records of {safe_text(topic)}"
            self.inform(text, "warning")
            return
        try:
            require_transform_packages("The preview of a transform")
        except NotInstalled as error:
            self.app.push_screen(TextDialog("Packages are missing", [str(error)]))
            return
        self.app.push_screen(PreviewScreen(topic))

    @on(Grid.Opened)
    def _opened(self, event: Grid.Opened) -> None:
        self.app.push_screen(PartitionScreen(event.row.key))


def _order(row: PartitionRow) -> tuple[int, str, int]:
    """Sort problems first; a brief lag must not change the order, or rows would jump around."""
    severity = judge_partition(row).severity
    return (-severity if severity >= Severity.WARN else 0, *row.key)
