"""Screen 2: every partition's position, lag and target."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from textual import on, work
from textual.binding import Binding, BindingType
from textual.widget import Widget

from k2ktui.console import cli_equivalent
from k2ktui.console.screens.base import ListScreen
from k2ktui.console.screens.comparison import ComparisonScreen
from k2ktui.console.screens.holding import hold_or_release
from k2ktui.console.screens.parity import ParityScreen
from k2ktui.console.screens.partition import (
    LOG,
    PartitionDetail,
    PartitionScreen,
    log_column,
    show_beside,
)
from k2ktui.console.visuals.panel import Panel
from k2ktui.console.visuals.shapes import log_bar, picture_cell, power_of_ten
from k2ktui.console.widgets.confirm import Confirm
from k2ktui.console.widgets.grid import Grid
from k2ktui.console.widgets.selectable_grid import SelectableGrid
from k2ktui.console.widgets.styled_text import glyphs_of
from k2ktui.console.widgets.typed_keys import ASK
from k2ktui.engine.compare.record import ComparedPartitions
from k2ktui.engine.severity import Severity
from k2ktui.present import formatting
from k2ktui.present.columns import Column, insert
from k2ktui.present.comparisons import compared_column
from k2ktui.present.formatting import Cell, Line, Tone, tone_of
from k2ktui.present.partitions import partition_columns, stale_partition_columns
from k2ktui.text import counted
from k2ktui.watch.model import PartitionRow, PartName, View
from k2ktui.watch.severity import judge_partition

_BAR = 6
# The columns that draw what another column says.
_DRAWN = {"lag": "lag-bar", "coverage": LOG}


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
        shows all of them. d compares topic settings, client quotas and ACLs of both clusters, c
        every record; Compared is what the last comparison found there, and how long ago that was.

        Space marks a partition, a all that pass the filter. N begins a drill over the topics of the
        marked rows, or of the one under the cursor. h holds them, or releases them: what is held is
        not copied, and its position stays. h also lets topics be copied again that a drill moved.
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("c", "compare", "Compare", show=False, id="replication.compare"),
        Binding("h", "hold", "Hold", id="replication.hold"),
        Binding("d", "parity", "Parity", show=False, id="replication.parity"),
        Binding("N", "start_drill", "New drill", id="replication.drill"),
        Binding("w", "app.chart_window", "Charts", show=False, id="charts.window"),
    ]
    CHANGES: ClassVar[frozenset[str]] = frozenset({"hold", "start_drill"})
    DETAILS = (ComparisonScreen, ParityScreen, PartitionScreen)
    PANEL: ClassVar[str] = "Partitions"

    def __init__(self) -> None:
        super().__init__()
        # The end of the lag bars' scale: a power of ten, so that it seldom changes.
        self._largest = power_of_ten(())
        self._compared = ComparedPartitions(None)

    def side(self) -> Iterable[Widget]:
        """Yield the panel about the partition under the cursor."""
        detail = PartitionDetail(can_focus=False)
        yield Panel("Partition", detail, id="side")

    def choice(self) -> SelectableGrid[PartitionRow]:
        """The table of partitions."""
        return self.query_one(SelectableGrid)

    def make_grid(self) -> SelectableGrid[PartitionRow]:
        """Create the table of partitions."""
        return SelectableGrid(
            self._columns(),
            key=lambda row: row.key,
            search=lambda row: (
                f"{row.status.topic}-{row.status.partition} {row.status.state} "
                f"{row.status.target_topic}"
            ),
            problem=lambda row: judge_partition(row).severity >= Severity.WARN,
            order=_order,
            empty="No partition is selected by the pipeline.",
            sorts_first="lag",
            id="partitions",
        )

    def _columns(self) -> tuple[Column[PartitionRow], ...]:
        """Return the columns, with those that draw the lag and the log, and the comparison's."""
        glyphs = glyphs_of(self)

        def lag(row: PartitionRow) -> Cell:
            tone = tone_of(judge_partition(row).severity)
            value = row.status.lag_records
            return picture_cell(log_bar(value, self._largest, _BAR, glyphs, tone))

        further: dict[str, Column[PartitionRow]] = {
            "lag": Column(_DRAWN["lag"], "", lag, width=_BAR, rank=2, picture=True),
            "coverage": log_column(glyphs, rank=5),
            "unmapped": compared_column(lambda: self._compared, self.session.feed.now, glyphs),
        }
        return tuple(insert(partition_columns(glyphs), further))

    def show_view(self, view: View) -> None:
        """Show the view's partitions."""
        grid = self.query_one(Grid)
        lags = (row.status.lag_records or 0 for row in view.partitions)
        largest = power_of_ten(lags)
        if largest != self._largest:
            self._largest = largest
            grid.redraw()
        read = view.part(PartName.SOURCE).taken_at or view.part(PartName.TARGET).taken_at
        grid.empty = "No partition is selected by the pipeline." if read else formatting.NOT_YET
        stale = set(stale_partition_columns(view))
        grid.mark_stale(stale | {_DRAWN[column_id] for column_id in stale if column_id in _DRAWN})
        had_any, self._compared = bool(self._compared), view.compared
        if had_any != bool(self._compared):
            grid.show_columns(self._columns())
        grid.show(view.partitions)
        grid.redraw_changed()  # the age of the last comparison
        worst = max((judge_partition(row).severity for row in view.partitions), default=None)
        self.query_one("#table", Panel).mark(worst)
        self.show_side()

    def show_side(self) -> None:
        """Show the partition under the cursor."""
        show_beside(self, self.query_one(Grid).current)

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
        if totals.moved_topics:
            text += f"  {counted(totals.moved_topics, 'topic')} moved"
        marked = self.choice().marked_text
        return (*((Cell(f"{marked}  ", Tone.WARN),) if marked else ()), Cell(text))

    def refusal(self, action: str) -> str:
        """Return why an action is unavailable now."""
        if action in ("parity", "compare"):
            return self._no_pipeline()
        why = super().refusal(action)
        return why or (self._no_pipeline() if action in ("hold", "start_drill") else "")

    def _no_pipeline(self) -> str:
        flow = self.session.flow
        if flow is None:
            return "this is a recording"
        return "" if flow.pipeline is not None else "no pipeline of k2ktui copies this flow"

    @work(group=ASK)
    async def action_compare(self) -> None:
        """Ask, and compare every record of both clusters."""
        lines = [
            "Every retained record of all topics is read on both clusters, and compared. That may "
            "take hours, and takes their network and disks.",
            "Nothing is changed, but for one record in the state topic with the result. Leaving "
            "the screen stops it; what is done is kept for the next time.",
            "",
            cli_equivalent.compare(self.session.files),
        ]
        dialog = Confirm(
            "Compare every record",
            lines,
            self.session.pair.pipeline,
            "Compare",
            canceled="Nothing was compared.",
            undoable=True,
        )
        if await self.ask(dialog):
            self.app.push_screen(ComparisonScreen())

    def action_parity(self) -> None:
        """Compare what both clusters have besides records."""
        self.app.push_screen(ParityScreen())

    @work(group=ASK)
    async def action_start_drill(self) -> None:
        """Begin a drill over the topics of the marked rows."""
        # Imported late: what drills consist of is loaded when one is wanted.
        from k2ktui.console.screens.drill import start_over

        topics = sorted({row.status.topic for row in self.choice().chosen})
        if topics:
            await start_over(self, topics)

    @work(group=ASK)
    async def action_hold(self) -> None:
        """Hold or release the marked partitions, or the one under the cursor, or their topics."""
        rows, flow = self.choice().chosen, self.session.flow
        if rows and flow is not None and flow.pipeline is not None:
            await hold_or_release(self, flow.pipeline, rows)

    @on(Grid.Opened)
    def _opened(self, event: Grid.Opened) -> None:
        self.app.push_screen(PartitionScreen(event.row.key))


def _order(row: PartitionRow) -> tuple[int, str, int]:
    """Sort problems first, and what was moved to the target last.

    A brief lag must not change the order, or rows would jump around.
    """
    severity = judge_partition(row).severity
    if row.status.moved_by:
        return (1, *row.key)
    return (-severity if severity >= Severity.WARN else 0, *row.key)
