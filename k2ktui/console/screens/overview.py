"""Screen 1: state and problems of the pipeline pair, each problem one key away from its cause."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container

from k2ktui.console.export import Table
from k2ktui.console.screens.base import ConsoleScreen
from k2ktui.console.screens.groups import GroupScreen
from k2ktui.console.screens.overview_facts import (
    coverage_tile,
    failover_tile,
    group_tile,
    lag_tile,
    pair_lines,
    partition_map,
)
from k2ktui.console.screens.partition import PartitionScreen
from k2ktui.console.visuals.chart import WINDOWS_MIN, Chart
from k2ktui.console.visuals.panel import Panel, Tile
from k2ktui.console.widgets.grid import Grid
from k2ktui.console.widgets.styled_text import glyphs_of, plain
from k2ktui.console.widgets.text_dialog import TextDialog
from k2ktui.console.widgets.text_lines import TextLines
from k2ktui.engine.journal import RunKind
from k2ktui.jobs import local_jobs
from k2ktui.jobs.local_jobs import Job
from k2ktui.jobs.run_rows import RunRow, current_run, make_run_rows
from k2ktui.present import formatting
from k2ktui.present.columns import Column
from k2ktui.present.formatting import Cell, Glyphs, Tone
from k2ktui.watch.model import PartName, View
from k2ktui.watch.severity import (
    Problem,
    SeverityLabel,
    find_problems,
    state_time,
)

_LOOK_S = 2.0
# Lines of the problems that stay whatever is shown above them, and of a map and a chart.
_LEAST_PROBLEMS, _LEAST_CHART, _HIGHEST_CHART, _HIGHEST_MAP = 3, 7, 15, 6
# As in the style sheet.
_HIGHEST_BANNER = 4
# From this width on, tiles stand in one row, and the map beside the pair.
_ONE_ROW, _BESIDE = 120, 160


@dataclass(frozen=True, slots=True)
class _Layout:
    """The lines of each part; 0 hides it.

    Attributes:
        boxed: whether panels have whole frames, which takes room.
        columns: of tiles.
        tile: content of a tile.
        chart: a chart with its frame.
        map: content of the map.
        pair: content of the panel about the pair.
    """

    boxed: bool
    columns: int
    tile: int
    chart: int
    map: int
    pair: int


def lay_out(width: int, room: int, pair: int, *, boxed: bool, charts: bool) -> _Layout:
    """Share the lines of the screen.

    Args:
        width: cells.
        room: lines below the frame of the screen.
        pair: lines that the panel about the pair has.
        boxed: whether panels have whole frames.
        charts: whether the charts were asked for, in place of what is beside the tiles.
    """
    edge = 2 if boxed else 1
    columns = 4 if width >= _ONE_ROW else 2
    tile = 4 if boxed else 2
    beside = boxed and width >= _BESIDE
    room -= (tile + edge) * (4 // columns) + edge + 1 + _LEAST_PROBLEMS
    if charts:
        return _Layout(boxed, columns, tile, max(_LEAST_CHART, room), 0, 0)
    shown = max(0, min(pair, room - edge))
    room -= shown + edge if shown else 0
    if beside:
        wide = shown
    else:
        wide = 2 if boxed and room > 2 + edge else 1 if room > edge else 0
        room -= wide + edge if wide else 0
    least = _LEAST_CHART + edge
    chart = 0
    if width >= 80 and room >= least:
        # Half of what is left over goes to the problems.
        chart = min(_HIGHEST_CHART + edge, max(least, least + (room - least) // 2))
        room -= chart
    if wide > 1 and not beside and room > 4:
        wide = min(_HIGHEST_MAP, wide + (room - 4) // 2)
    return _Layout(boxed, columns, tile, chart, wide, shown)


class OverviewScreen(ConsoleScreen):
    """The pipeline pair at a glance."""

    ENTRY: ClassVar[str] = "overview"
    HELP: ClassVar[str | None] = """
        Overview. The header draws the pair: source, rate of copying, target; a broken arrow says
        why nothing is copied. Lag is the number of source offsets that are not copied yet; in
        seconds, it is the age of the oldest record that is not copied. Coverage is the share of the
        source's retained offsets, and of the committed offsets of groups, that translate exactly.
        Positions are the committed offsets of all groups, one for each group and partition, by the
        basis of their translation.

        Failover is what moving all groups now would do: groups that would never read some records,
        that cannot be moved, whose effect is unknown, whose members on the source you must stop
        first, and that are safe to move. RPO is what the target would lack if the source were lost
        now. Screen 8 rehearses it.

        A group diverges if its committed offset on the target differs from the translation of its
        source offset: it would skip records there, or read some again.

        The map has a cell for each partition: full if it has caught up, empty if it is behind.

        The table lists the problems, the worst first. Enter opens the group, the partition, the job
        or the whole text of an error. w shows the charts, of 5, 15 and 60 minutes; i shows
        everything about the pair, whatever the terminal's size.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("w", "charts", "Charts", id="charts.window"),
        Binding("i", "pair", "Pair", id="overview.pair"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._jobs: tuple[Job, ...] = ()
        # Whether charts were asked for where there is no room for them beside the rest.
        self._charts = False
        self._layout: _Layout | None = None

    def body(self) -> ComposeResult:
        """Yield the tiles, the charts, the map, the pair, and the problems."""
        with Container(id="tiles"):
            yield Tile("Lag", id="lag")
            yield Tile("Coverage", id="coverage")
            yield Tile("Group divergence", id="divergence")
            yield Tile("Failover now", id="failover")
        with Container(id="charts"):
            yield Chart("Lag, records", id="chart-lag")
            yield Chart("Copied, records/s", Tone.OK, id="chart-rate")
        with Container(id="middle"):
            yield Tile("Partitions", id="map")
            yield Tile("Pair", id="pair")
        glyphs = glyphs_of(self)
        columns: tuple[Column[Problem], ...] = (
            Column("problem", "problem", lambda p: _mark(glyphs, p), width=9),
            Column(
                "subject",
                "subject",
                lambda p: Cell(formatting.name(p.subject)),
                width=12,
                widest=48,
            ),
            Column(
                "message",
                "message",
                lambda p: Cell(formatting.message(p.message)),
                width=20,
                widest=500,
            ),
        )
        grid = Grid(
            columns,
            key=lambda p: (p.kind, p.key),
            search=lambda p: f"{p.kind} {p.subject} {p.message}",
            empty=formatting.NOT_YET,
            id="problems",
        )
        yield Panel("Problems", grid, id="problem-panel")

    def on_mount(self) -> None:
        """Focus the problems, and start polling this host's jobs."""
        self.query_one(Grid).focus()
        self._poll_jobs()
        self.set_interval(_LOOK_S, self._poll_jobs)

    def on_screen_resume(self) -> None:
        """Show the last view and poll the jobs immediately."""
        super().on_screen_resume()
        self._poll_jobs()

    def _poll_jobs(self) -> None:
        """Read the jobs' records on a thread: the home directory may be on a network mount."""
        if self.is_current and not self.session.feed.replay and not self.session.pair.mirror:
            self.background("look", local_jobs.list_jobs, self._update_jobs)

    def _update_jobs(self, jobs: Sequence[Job]) -> None:
        if tuple(jobs) != self._jobs:
            self._jobs = tuple(jobs)
            self.refresh_view()

    def show_view(self, view: View) -> None:
        """Show the totals and the problems."""
        now = self.session.feed.now()
        run = _run(view, now, self._jobs)
        sync = _run(view, now, self._jobs, RunKind.SYNC)
        layout = self._arrange(len(pair_lines(view, now, glyphs_of(self), run, sync)))
        self._fill(view, now, layout, run, sync)
        grid = self.query_one(Grid)
        grid.empty = "No problem is known." if view.is_current else formatting.NOT_YET
        found = find_problems(view, now)
        if run is not None and run.alive and run.job is not None:
            # Its first heartbeat may not have been read yet.
            own = {run.runner} | {each.runner for each in view.runners if each.kind is RunKind.SYNC}
            found = [p for p in found if p.kind != "job" or (p.key and p.key in own)]
        panel = self.query_one("#problem-panel", Panel)
        panel.label("Problems", f"{len(found):,}" if found else "")
        panel.mark(found[0].severity if found else None)
        grid.show(found)

    def _fill(
        self, view: View, now: float, layout: _Layout, run: RunRow | None, sync: RunRow | None
    ) -> None:
        """Fill the tiles, the charts, the map and the panel about the pair."""
        glyphs, tile = glyphs_of(self), self._room(layout.columns, layout)
        recorded = self.session.feed.replay
        self._tile("lag").show(lag_tile(view, glyphs, tile))
        self._tile("coverage").show(coverage_tile(view, glyphs, tile))
        self._tile("divergence").show(*group_tile(view, glyphs, tile))
        self._tile("failover").show(*failover_tile(view, now, glyphs, tile, recorded=recorded))
        if layout.map:
            width = self._room(2 if self._beside(layout) else 1, layout)[0]
            self._tile("map").show(partition_map(view, glyphs, (width, layout.map)))
            read = any(view.part(name).taken_at for name in (PartName.SOURCE, PartName.TARGET))
            self._tile("map").label("Partitions", f"{view.totals.partitions:,}" if read else "")
        if layout.pair:
            lines = pair_lines(view, now, glyphs, run, sync, compact=not layout.boxed)
            # The tile has the first line, too, in fewer words.
            lines = lines[1:] if len(lines) == layout.pair + 1 else lines
            self._tile("pair").show(lines[: layout.pair])
        if layout.chart:
            lag = [
                (p.at, None if p.lag_records is None else float(p.lag_records)) for p in view.points
            ]
            rate = [(p.at, p.rate) for p in view.points]
            minutes = self.console.chart_minutes
            self.query_one("#chart-lag", Chart).show(lag, minutes)
            self.query_one("#chart-rate", Chart).show(rate, minutes)

    def _tile(self, name: str) -> Tile:
        return self.query_one(f"#{name}", Tile)

    def _room(self, columns: int, layout: _Layout) -> tuple[int, int]:
        """Return the cells and lines inside one of so many panels beside each other.

        Not taken from the widgets: they have their sizes after the next layout only.
        """
        frame = 4 if layout.boxed else 2
        return self.size.width // columns - frame, layout.tile

    def _beside(self, layout: _Layout) -> bool:
        return layout.boxed and self.size.width >= _BESIDE

    def _arrange(self, pair: int) -> _Layout:
        """Give every part its lines, and return them."""
        width, height = self.size
        boxed = self.has_class("-wide") and self.has_class("-high")
        # By their lines: their sizes are those of the last layout.
        above, warnings = (self.query_one(name, TextLines).lines for name in ("#header", "#banner"))
        room = height - len(above) - min(_HIGHEST_BANNER, len(warnings)) - 1
        pair += 0 if boxed else 1
        layout = lay_out(width, room, pair, boxed=boxed, charts=False)
        if self._charts and not layout.chart and width >= 80:
            layout = lay_out(width, room, pair, boxed=boxed, charts=True)
        if layout == self._layout:
            return layout
        self._layout = layout
        edge, beside = 2 if boxed else 1, self._beside(layout)
        tiles, charts, middle = (self.query_one(f"#{n}") for n in ("tiles", "charts", "middle"))
        tiles.styles.grid_size_columns = layout.columns
        tiles.styles.height = (layout.tile + edge) * (4 // layout.columns)
        charts.display = bool(layout.chart)
        charts.styles.height = layout.chart
        middle.display = bool(layout.map or layout.pair)
        middle.styles.layout = "horizontal" if beside else "vertical"
        for name, lines in (("map", layout.map), ("pair", layout.pair)):
            panel = self._tile(name)
            panel.display = bool(lines)
            panel.styles.height = lines + edge
        return layout

    def action_pair(self) -> None:
        """Show everything about the pair; a small terminal cuts or hides some of it."""
        view = self.console.view
        if view is not None:
            now = self.session.feed.now()
            runs = (_run(view, now, self._jobs, kind) for kind in (RunKind.COPY, RunKind.SYNC))
            lines = pair_lines(view, now, glyphs_of(self), *runs, compact=True)
            self.app.push_screen(TextDialog("Pair", [plain(line) for line in lines]))

    def action_charts(self) -> None:
        """Show the charts, or those of the next window; after the last one, hide them again."""
        shown = self._layout is not None and bool(self._layout.chart)
        is_last = self.console.chart_minutes == WINDOWS_MIN[-1]
        if not shown or (self._charts and is_last):
            self._charts = not shown
        if shown:
            self.console.action_chart_window()
        else:
            self.refresh_view()

    def on_resize(self) -> None:
        """Redraw for the new size."""
        self.refresh_view()

    def table(self) -> Table | None:
        """Return the problems."""
        return self.query_one(Grid).table()

    def text_to_copy(self) -> str:
        """Return the problem under the cursor."""
        grid = self.query_one(Grid)
        return "" if grid.current is None else grid.row_text(grid.current)

    @on(Grid.Opened)
    def _opened(self, event: Grid.Opened) -> None:
        problem: Problem = event.row
        if problem.kind == "partition" and isinstance(problem.key, tuple):
            self.app.push_screen(PartitionScreen(problem.key))
        elif problem.kind == "group":
            self.app.push_screen(GroupScreen(str(problem.key)))
        elif problem.kind == "groups":
            self._jump("groups", problem.key)
        elif problem.kind == "job":
            self._jump("jobs", self._run_key(problem.key))
        else:
            title = f"{problem.kind} {formatting.name(problem.subject, 60)}"
            self.app.push_screen(TextDialog(title, [problem.message]))

    def _run_key(self, runner: object) -> object:
        """Return the key of a run's row in Jobs; ``runner`` is the id of its process."""
        view = self.console.view
        runs = make_run_rows(self._jobs, view.runners, view.pair.pipeline, 0.0) if view else []
        return next((run.key for run in runs if run.runner == runner), runner)

    def _jump(self, entry: str, key: object) -> None:
        """Switch to another screen with the cursor on the subject of the problem."""

        def select() -> None:
            for grid in self.app.screen.query(Grid):
                grid.select(key)

        self.console.jump(entry)
        self.app.call_after_refresh(select)


def _mark(glyphs: Glyphs, problem: Problem) -> Cell:
    return glyphs.mark(SeverityLabel(problem.severity, problem.kind))


def _run(
    view: View, now: float, jobs: Sequence[Job], kind: RunKind = RunKind.COPY
) -> RunRow | None:
    """Return the run of a kind that the screen Jobs shows first."""
    return current_run(jobs, view.runners, view.pair.pipeline, state_time(view, now), kind)
