"""Screen 2: every partition's position, lag and target."""

from __future__ import annotations

from typing import ClassVar

from textual import on

from k2ktui.console import formatting
from k2ktui.console.aging import old_partition_columns
from k2ktui.console.formatting import Cell, Glyphs, Line, Tone
from k2ktui.console.screens.base import ListScreen
from k2ktui.console.screens.partition import PartitionScreen
from k2ktui.console.widgets.columns import Column
from k2ktui.console.widgets.grid import Grid
from k2ktui.console.widgets.styled_text import glyphs_of
from k2ktui.text import counted, safe_text
from k2ktui.watch.model import PartitionRow, PartName, View
from k2ktui.watch.severity import Severity, judge_partition


class ReplicationScreen(ListScreen):
    """The table of all partitions."""

    ENTRY: ClassVar[str] = "replication"
    HELP: ClassVar[str | None] = """
        Replication. A row is a partition of the source. Position is the next source offset to copy;
        lag is the number of offsets from there to the last stable offset; behind is the age of the
        record at the position; left is the time to catch up at the present pace.

        Problems are first while no column is chosen. Enter opens a partition: its coverage, its
        ranges, its lag over time. A narrow terminal leaves columns out; opening shows all of them.
    """

    def make_grid(self) -> Grid[PartitionRow]:
        """Create the table of partitions."""
        return Grid(
            columns(glyphs_of(self)),
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
        grid.mark_old(old_partition_columns(view))
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

    @on(Grid.Opened)
    def _opened(self, event: Grid.Opened) -> None:
        self.app.push_screen(PartitionScreen(event.row.key))


def columns(glyphs: Glyphs) -> tuple[Column[PartitionRow], ...]:
    """Return the columns; a narrow terminal keeps the most important ones."""
    return (
        Column(
            "partition",
            "partition",
            lambda row: Cell(safe_text(f"{row.status.topic}-{row.status.partition}", 400)),
            lambda row: row.key,
            width=14,
            widest=64,
        ),
        Column(
            "state",
            "state",
            lambda row: glyphs.mark(judge_partition(row)),
            lambda row: -judge_partition(row).severity,
            width=11,
        ),
        Column(
            "lag",
            "lag",
            lambda row: Cell(formatting.number(row.status.lag_records)),
            lambda row: _desc(row.status.lag_records),
            right=True,
        ),
        Column(
            "behind",
            "behind",
            lambda row: Cell(formatting.seconds(row.status.lag_seconds)),
            lambda row: _desc(row.status.lag_seconds),
            right=True,
            rank=1,
        ),
        Column("trend", "", lambda row: Cell(glyphs.direction(row.direction)), width=1, rank=6),
        Column(
            "rate",
            "records/s",
            lambda row: Cell(formatting.number(row.rate)),
            lambda row: _desc(row.rate),
            right=True,
            rank=2,
        ),
        Column(
            "left",
            "left",
            lambda row: Cell(formatting.duration(row.eta_s) if row.eta_s is not None else "—"),
            lambda row: _desc(row.eta_s),
            right=True,
            rank=8,
        ),
        Column(
            "position",
            "position",
            lambda row: Cell(formatting.number(row.status.position)),
            lambda row: _desc(row.status.position),
            right=True,
            rank=3,
        ),
        Column(
            "start",
            "log start",
            lambda row: Cell(formatting.number(row.status.source_start), Tone.MUTED),
            right=True,
            rank=10,
        ),
        Column(
            "end",
            "source end",
            lambda row: Cell(formatting.number(row.status.source_end)),
            lambda row: _desc(row.status.source_end),
            right=True,
            rank=5,
        ),
        Column(
            "coverage",
            "coverage",
            lambda row: Cell(formatting.share(row.status.coverage)),
            lambda row: row.status.coverage,
            right=True,
            rank=4,
        ),
        Column(
            "held-back",
            "held back",
            lambda row: Cell(formatting.number(row.status.held_back)),
            lambda row: _desc(row.status.held_back),
            right=True,
            rank=10,
        ),
        Column("target", "target", _target, rank=7, width=10, widest=48),
        Column(
            "target-end",
            "target end",
            lambda row: Cell(formatting.number(row.status.target_end)),
            right=True,
            rank=9,
        ),
        Column("path", "path", lambda row: Cell(row.status.path, Tone.MUTED), rank=11),
        Column("why", "why", lambda row: Cell(row.why, Tone.WARN), rank=12, widest=80),
    )


def _order(row: PartitionRow) -> tuple[int, str, int]:
    """Sort problems first; a brief lag must not change the order, or rows would jump around."""
    severity = judge_partition(row).severity
    return (-severity if severity >= Severity.WARN else 0, *row.key)


def _desc(value: float | None) -> float | None:
    """Return a sort key that puts the largest values first."""
    return None if value is None else -value


def _target(row: PartitionRow) -> Cell:
    status = row.status
    if not status.target_topic:
        return Cell(formatting.NOT_AVAILABLE, Tone.MUTED)
    where = "*" if status.target_partition is None else str(status.target_partition)
    return Cell(safe_text(f"{status.target_topic}-{where}", 400))
