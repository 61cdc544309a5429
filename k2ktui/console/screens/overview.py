"""Screen 1: state and problems of the pipeline pair, each problem one key away from its cause."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container

from k2ktui.console.export import Table
from k2ktui.console.keys import CHART_WINDOW
from k2ktui.console.plots import continues, over_time
from k2ktui.console.screens.base import ConsoleScreen
from k2ktui.console.screens.groups import GroupScreen
from k2ktui.console.screens.overview_facts import facts
from k2ktui.console.screens.partition import PartitionScreen
from k2ktui.console.widgets.grid import Grid
from k2ktui.console.widgets.styled_text import glyphs_of
from k2ktui.console.widgets.text_dialog import TextDialog
from k2ktui.console.widgets.text_lines import TextLines
from k2ktui.engine.journal import RunKind
from k2ktui.jobs import local_jobs
from k2ktui.jobs.local_jobs import Job
from k2ktui.jobs.run_rows import RunRow, current_run, make_run_rows
from k2ktui.present import formatting
from k2ktui.present.columns import Column
from k2ktui.present.formatting import Cell, Glyphs
from k2ktui.watch.model import Point, View
from k2ktui.watch.severity import (
    Problem,
    SeverityLabel,
    find_problems,
    state_time,
)

_LOOK_S = 2.0
# Lines needed by figures, frame and a few problems; lowest and highest useful plot.
_WITHOUT_PLOTS, _LOWEST_PLOT, _HIGHEST_PLOT = 25, 8, 16


class OverviewScreen(ConsoleScreen):
    """The pipeline pair at a glance."""

    ENTRY: ClassVar[str] = "overview"
    HELP: ClassVar[str | None] = """
        Overview. Lag is the number of source offsets that are not copied yet; in seconds, it is the
        age of the oldest record that is not copied. Coverage is the share of the source's retained
        offsets, and of the committed offsets of groups, that translate exactly. Positions are the
        committed offsets of all groups, one for each group and partition, by the basis of their
        translation.

        Failover is what moving all groups now would do: groups that would never read some records,
        that cannot be moved, whose effect is unknown, whose members on the source you must stop
        first, and that are safe to move. RPO is what the target would lack if the source were lost
        now. Screen 8 rehearses it.

        A group diverges if its committed offset on the target differs from the translation of its
        source offset: it would skip records there, or read some again.

        The table lists the problems, the worst first. Enter opens the group, the partition, the job
        or the whole text of an error.
    """

    BINDINGS: ClassVar[list[BindingType]] = [CHART_WINDOW]

    def __init__(self) -> None:
        super().__init__()
        self._jobs: tuple[Job, ...] = ()
        # The points that the plots show, and the plots' size and form.
        self._drawn: tuple[tuple[Point, ...], object] = ((), None)

    def body(self) -> ComposeResult:
        """Yield the figures, their plots, and the problems."""
        yield TextLines(id="facts")
        with Container(id="plots"):
            yield TextLines(id="plot-lag")
            yield TextLines(id="plot-rate")
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
        yield Grid(
            columns,
            key=lambda p: (p.kind, p.key),
            search=lambda p: f"{p.kind} {p.subject} {p.message}",
            empty=formatting.NOT_YET,
            id="problems",
        )

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
        lines = facts(view, now, glyphs_of(self), self.size.width - 2, run, sync)
        self.query_one("#facts", TextLines).show(lines)
        self._plot(view)
        grid = self.query_one(Grid)
        grid.empty = "No problem is known." if view.is_current else formatting.NOT_YET
        found = find_problems(view, now)
        if run is not None and run.alive and run.job is not None:
            # Its first heartbeat may not have been read yet.
            own = {run.runner} | {each.runner for each in view.runners if each.kind is RunKind.SYNC}
            found = [p for p in found if p.kind != "job" or (p.key and p.key in own)]
        grid.show(found)

    def _plot(self, view: View) -> None:
        """Plot lag and throughput over time if there is room."""
        room = self.size.height - _WITHOUT_PLOTS
        height = min(_HIGHEST_PLOT, room) if self.size.width >= 100 else 0
        self.query_one("#plots").display = height >= _LOWEST_PLOT
        if height < _LOWEST_PLOT:
            return
        width, minutes = self.size.width // 2 - 2, self.console.chart_minutes
        drawn, size = self._drawn, (width, height, minutes, glyphs_of(self))
        if drawn[1] == size and continues(drawn[0], view.points):
            return
        self._drawn = (view.points, size)
        lag = [(p.at, None if p.lag_records is None else float(p.lag_records)) for p in view.points]
        rate = [(p.at, p.rate) for p in view.points]
        for name, title, points in (("lag", "lag, records", lag), ("rate", "records/s", rate)):
            lines = over_time(title, points, width, height, glyphs_of(self), minutes)
            lines += [()] * (height - len(lines))
            self.query_one(f"#plot-{name}", TextLines).show(lines)

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
