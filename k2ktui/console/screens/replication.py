"""Screen 2: every partition's position, lag and target."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType

from k2ktui.console.aging import stale_partition_columns
from k2ktui.console.screens.base import ListScreen
from k2ktui.console.screens.partition import PartitionScreen
from k2ktui.console.screens.preview import PreviewScreen
from k2ktui.console.widgets.grid import Grid
from k2ktui.console.widgets.styled_text import glyphs_of
from k2ktui.console.widgets.text_dialog import TextDialog
from k2ktui.errors import NotInstalled
from k2ktui.present import formatting
from k2ktui.present.formatting import Cell, Line
from k2ktui.present.partitions import partition_columns
from k2ktui.runtime.spark_extra import require_transform_packages
from k2ktui.text import counted, safe_text
from k2ktui.watch.model import PartitionRow, PartName, View
from k2ktui.watch.severity import Severity, judge_partition


class ReplicationScreen(ListScreen):
    """The table of all partitions."""

    ENTRY: ClassVar[str] = "replication"
    HELP: ClassVar[str | None] = """
        Replication. Each row is a partition of the source. Position is the next source offset to
        copy. Lag is the number of offsets from there to the last stable offset. Behind is the age
        of the record at the position. Left is the time until it has caught up at the current rate.

        Problems come first until a sort column is chosen. Enter opens a partition with its
        coverage, its ranges and its lag over time. A narrow terminal hides columns; opening a row
        shows all of them. x shows what the transform of the topic does to its newest records.
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("x", "preview", "Preview transform", id="replication.preview"),
    ]
    DETAILS = (PreviewScreen, PartitionScreen)

    def make_grid(self) -> Grid[PartitionRow]:
        """Create the table of partitions."""
        return Grid(
            partition_columns(glyphs_of(self)),
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

    def show_view(self, view: View) -> None:
        """Show the view's partitions."""
        grid = self.query_one(Grid)
        read = view.part(PartName.SOURCE).taken_at or view.part(PartName.TARGET).taken_at
        grid.empty = "No partition is selected by the pipeline." if read else formatting.NOT_YET
        grid.mark_stale(stale_partition_columns(view))
        grid.show(view.partitions)

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
