"""Screen 1: state and problems of the pipeline pair, each problem one key away from its cause."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.cells import cell_len
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container

from k2ktui.console.export import Table
from k2ktui.console.screens.base import ConsoleScreen
from k2ktui.console.screens.groups import GroupScreen
from k2ktui.console.screens.overview_facts import OverviewFigures
from k2ktui.console.screens.partition import PartitionScreen
from k2ktui.console.visuals.chart import WINDOWS_MIN, Chart
from k2ktui.console.visuals.panel import WIDE, Panel, Tile, is_framed
from k2ktui.console.widgets.grid import Grid
from k2ktui.console.widgets.styled_text import glyphs_of, plain, wrap_lines
from k2ktui.console.widgets.text_dialog import TextDialog
from k2ktui.console.widgets.text_lines import TextLines
from k2ktui.engine.moves.journal import RunKind
from k2ktui.engine.severity import SeverityLabel
from k2ktui.jobs import local_jobs
from k2ktui.jobs.local_jobs import Job
from k2ktui.jobs.run_rows import RunRow, current_run, make_run_rows
from k2ktui.present import formatting
from k2ktui.present.columns import Column
from k2ktui.present.formatting import Cell, Glyphs, Line, Tone
from k2ktui.watch.model import PartName, View
from k2ktui.watch.severity import Problem, find_problems, state_time

_LOOK_S = 2.0
# Lines of the problems that stay whatever is shown above them, and of a map and a chart.
_LEAST_PROBLEMS, _LEAST_CHART, _HIGHEST_CHART, _HIGHEST_MAP = 3, 7, 15, 6
# Lines of the panel about the pair that stay beside charts: to the job of most pairs.
_LEAST_PAIR = 5
# Rows of problems that stay above the whole message of one, and its lines at most.
_ROWS, _HIGHEST_MESSAGE = 2, 6
# Cells before the message in a row: the problem, the gaps, the least and the most of a subject.
_MARK, _GAPS, _LEAST_SUBJECT, _MOST_SUBJECT = 9, 4, 12, 48
# From this width on, the map stands beside the pair.
_BESIDE = 160


@dataclass(frozen=True, slots=True)
class _Layout:
    """The lines of each part; 0 hides it.

    Attributes:
        columns: of tiles.
        tile: content of a tile.
        chart: a chart with its frame.
        map: content of the map.
        pair: content of the panel about the pair.
    """

    columns: int
    tile: int
    chart: int
    map: int
    pair: int


def lay_out(
    width: int,
    room: int,
    pair: int,
    *,
    boxed: bool,
    charts: bool,
    problems: int = _LEAST_PROBLEMS,
) -> _Layout:
    """Share the lines of the screen.

    Args:
        width: cells.
        room: lines below the frame of the screen.
        pair: lines that the panel about the pair has.
        boxed: whether panels have whole frames.
        charts: whether the charts were asked for, in place of what is beside the tiles.
        problems: lines of the problems, at least.
    """
    edge = 2 if boxed else 1
    columns = 4 if width >= WIDE else 2
    tile = 4 if boxed else 2
    beside = boxed and width >= _BESIDE
    room -= (tile + edge) * (4 // columns) + edge + 1 + problems
    if charts:
        return _Layout(columns, tile, max(_LEAST_CHART, room), 0, 0)
    shown = max(0, min(pair, room - edge))
    if not beside and shown > _LEAST_PAIR:
        # The map says more than the last lines of the pair, of which the header has the health.
        shown = max(_LEAST_PAIR, min(shown, room - edge - (edge + 1)))
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
    return _Layout(columns, tile, chart, wide, shown)


def lay_out_with_charts(width: int, room: int, pair: int, *, boxed: bool, problems: int) -> _Layout:
    """Share the lines so that charts have room, if the pair and the problems can do with less.

    The pair gives up lines first, since the header also shows its last ones; then the problems.
    """
    layouts = (
        lay_out(width, room, shown, boxed=boxed, charts=False, problems=lines)
        for lines in range(problems, _LEAST_PROBLEMS - 1, -1)
        for shown in range(pair, min(pair, _LEAST_PAIR) - 1, -1)
    )
    whole = lay_out(width, room, pair, boxed=boxed, charts=False, problems=problems)
    return next((layout for layout in layouts if layout.chart), whole)


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
            Column("problem", "problem", lambda p: _mark(glyphs, p), width=_MARK),
            Column(
                "subject",
                "subject",
                lambda p: Cell(formatting.name(p.subject)),
                width=_LEAST_SUBJECT,
                widest=_MOST_SUBJECT,
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
        yield Panel("Problems", grid, TextLines(id="problem-text"), id="problem-panel")

    def on_mount(self) -> None:
        """Focus the problems, and start polling this host's jobs."""
        self.query_one(Grid).focus()
        self._poll_jobs()
        self.set_interval(_LOOK_S, self._poll_jobs)

    def on_screen_resume(self) -> None:
        """Poll the jobs immediately; Textual calls the base's handler, too."""
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
        problems = find_problems(view, now)
        width = self._inner_width(2 if self._has_pair_beside else 1)
        figures = self._figures(view)
        pair = figures.pair_lines(run, sync, width=width)
        layout = self._arrange(len(pair), self._problem_lines(problems))
        self._fill(view, figures, layout, pair)
        grid = self.query_one(Grid)
        grid.empty = "No problem is known." if view.is_current else formatting.NOT_YET
        if run is not None and run.alive and run.job is not None:
            # Its first heartbeat may not have been read yet.
            own = {run.runner} | {
                runner.runner for runner in view.runners if runner.kind is RunKind.SYNC
            }
            problems = [p for p in problems if p.kind != "job" or (p.key and p.key in own)]
        panel = self.query_one("#problem-panel", Panel)
        panel.label("Problems", f"{len(problems):,}" if problems else "")
        panel.mark(problems[0].severity if problems else None)
        grid.show(problems)
        self._show_problem()

    def _problem_lines(self, problems: Sequence[Problem]) -> int:
        """Return the lines that the problems need: some rows, and the longest whole message."""
        longest = max((len(problem.message) for problem in problems), default=0)
        # Of all problems, so that the screen is not laid out again for every row.
        message = -(-longest * 10 // (9 * max(1, self._message_width)))
        if longest <= self._room_in_row(problems):
            message = 0
        return min(len(problems), _ROWS) + min(_HIGHEST_MESSAGE, message)

    @property
    def _message_width(self) -> int:
        return max(8, self.size.width - 4)

    def _room_in_row(self, problems: Sequence[Problem]) -> int:
        """Return the cells that the rows of the problems have for their messages."""
        names = (cell_len(formatting.name(problem.subject)) for problem in problems)
        subject = min(_MOST_SUBJECT, max((_LEAST_SUBJECT, *names)))
        return self._message_width - _MARK - _GAPS - subject

    @on(Grid.Changed)
    def _show_problem(self) -> None:
        """Show the whole message of the problem under the cursor."""
        grid: Grid[Problem] = self.query_one(Grid)
        problem = grid.current
        text = "" if problem is None else formatting.message(problem.message)
        width = self._message_width
        is_whole = len(text) <= self._room_in_row(grid.rows)
        lines = [] if is_whole else wrap_lines(text, width)
        self.query_one("#problem-text", TextLines).show(lines)

    def _figures(self, view: View) -> OverviewFigures:
        feed = self.session.feed
        return OverviewFigures(view, feed.now(), glyphs_of(self), recorded=feed.replay)

    def _fill(
        self, view: View, figures: OverviewFigures, layout: _Layout, pair: list[Line]
    ) -> None:
        """Fill the tiles, the charts, the map and the panel about the pair."""
        tile = self._inner_width(layout.columns), layout.tile
        self._tile("lag").show(figures.lag_tile(tile))
        self._tile("coverage").show(figures.coverage_tile(tile))
        self._tile("divergence").show(*figures.group_tile(tile))
        self._tile("failover").label(figures.failover_title())
        self._tile("failover").show(*figures.failover_tile(tile))
        if layout.map:
            width = self._inner_width(2 if self._has_pair_beside else 1)
            self._tile("map").show(figures.partition_map((width, layout.map)))
            read = any(view.part(name).taken_at for name in (PartName.SOURCE, PartName.TARGET))
            self._tile("map").label("Partitions", f"{view.totals.partitions:,}" if read else "")
        if layout.pair:
            # The tile has the RPO, too; after a failover it is a sentence, which the tile may cut.
            is_twice = len(pair) == layout.pair + 1 and not view.failover.failed_over
            shown = [pair[0], *pair[2:]] if is_twice else pair
            self._tile("pair").show(shown[: layout.pair])
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

    def _inner_width(self, columns: int) -> int:
        """Return the cells inside one of so many panels beside each other.

        Not taken from the widgets: they have their sizes after the next layout only.
        """
        return self.size.width // columns - (4 if is_framed(self) else 2)

    @property
    def _has_pair_beside(self) -> bool:
        """Whether the panel about the pair stands beside the map, not below it."""
        return is_framed(self) and self.size.width >= _BESIDE

    def _arrange(self, pair: int, problems: int) -> _Layout:
        """Give every part its lines, and return them.

        Args:
            pair: the lines that the panel about the pair has.
            problems: the lines that the problems need below their heading.
        """
        width, room, boxed = self.size.width, self.room_lines, is_framed(self)
        least = max(_LEAST_PROBLEMS, problems)
        layout = lay_out_with_charts(width, room, pair, boxed=boxed, problems=least)
        if self._charts and not layout.chart and width >= 80:
            layout = lay_out(width, room, pair, boxed=boxed, charts=True, problems=least)
        if layout == self._layout:
            return layout
        self._layout = layout
        edge, beside = 2 if boxed else 1, self._has_pair_beside
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
            lines = self._figures(view).pair_lines(*runs)
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
