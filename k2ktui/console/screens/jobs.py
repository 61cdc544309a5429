"""Screen 5: runs of the pipeline on all hosts; starts, stops and follows this host's jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

from textual import on, work
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.widget import Widget

from k2ktui.config.model import PipelineConfig
from k2ktui.console import cli_equivalent
from k2ktui.console.event_log import EventKind
from k2ktui.console.screens.base import ListScreen
from k2ktui.console.screens.job_detail import RunDetail, show_run
from k2ktui.console.screens.job_runs import KnownRuns, Reading, ShownRun
from k2ktui.console.screens.job_words import (
    JOBS_HELP,
    MIRROR_COPIES,
    NO_RUN,
    NOTHING_LOGGED,
    name_of,
    nothing_to_start,
    outcome_of,
    place,
    read_config,
    reason_of,
    where_is_log,
    where_to_stop,
)
from k2ktui.console.screens.jobs_log import LogScreen, entry_lines
from k2ktui.console.screens.jobs_table import HEARTBEAT_COLUMNS, jobs_grid
from k2ktui.console.visuals.panel import Panel, is_framed
from k2ktui.console.widgets.confirm import Confirm
from k2ktui.console.widgets.grid import Grid
from k2ktui.console.widgets.start_dialog import StartDialog
from k2ktui.console.widgets.styled_text import glyphs_of, wrap_lines
from k2ktui.console.widgets.text_lines import TextLines
from k2ktui.console.widgets.typed_keys import ASK
from k2ktui.drill.files import reverse_path
from k2ktui.engine.access import Access, access
from k2ktui.engine.drill.pair_state import NOT_READ, PipelineFence
from k2ktui.engine.moves.journal import RunKind, RunnerState
from k2ktui.engine.moves.plan import Rewind
from k2ktui.errors import K2kError, TimedOut
from k2ktui.jobs import joblog, local_jobs, manager
from k2ktui.jobs.local_jobs import Job
from k2ktui.jobs.manager import StopMode
from k2ktui.jobs.run_rows import RunRow
from k2ktui.present import formatting
from k2ktui.present.formatting import Cell, Line, Tone
from k2ktui.present.runs import are_sharing, clock, describe_others, judge_run
from k2ktui.sync.flow import ANOTHER_COPIES
from k2ktui.watch.model import PartName, View

_LOOK_S = 2.0
_LOG_LINES = 80
_Read = tuple[Reading, str, Sequence[joblog.LogEntry]]


class JobsScreen(ListScreen):
    """Runs of the pipeline; below them the one under the cursor, and the end of its log.

    Attributes:
        runs: what is known of them; the screen of a log reads it, too.
    """

    ENTRY: ClassVar[str] = "jobs"
    DETAILS = (LogScreen,)
    CHANGES: ClassVar[frozenset[str]] = frozenset(
        {"start_job", "start_sync", "stop_job", "restart_job"}
    )
    HELP: ClassVar[str | None] = JOBS_HELP
    PANEL: ClassVar[str] = "Runs"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("J", "start_job", "Start", id="jobs.start"),
        Binding("X", "stop_job", "Stop", id="jobs.stop"),
        Binding("R", "restart_job", "Restart", id="jobs.restart"),
        Binding("Y", "start_sync", "Sync", id="jobs.sync"),
        Binding("l", "log", "Log", id="jobs.log", show=False),
        Binding("w", "app.chart_window", "Charts", show=False, id="charts.window"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.runs = KnownRuns()
        self._shown: tuple[str, Sequence[joblog.LogEntry]] = ("", ())
        self._busy = ""
        self._stop_requests: set[str] = set()
        self._started: list[Job] = []
        self._new_start = ""

    # Content

    def make_grid(self) -> Grid[Any]:
        """Create the table of runs."""
        return jobs_grid(glyphs_of(self), self.session.feed.now)

    def side(self) -> Iterable[Widget]:
        """Yield the run under the cursor, and the end of its log."""
        yield Container(
            Panel("Run", RunDetail(id="run-detail"), id="run"),
            Panel("Log", TextLines(id="job-log"), id="log-end"),
            id="side",
        )

    def on_mount(self) -> None:
        """Start polling this host's jobs."""
        self._poll_jobs()
        self.set_interval(_LOOK_S, self._poll_jobs)

    def on_screen_resume(self) -> None:
        """Poll the jobs immediately; Textual calls the base's handler, too."""
        self._poll_jobs()

    def _poll_jobs(self) -> None:
        """Read records and log on a thread: the home directory may be on a network mount."""
        if not self.is_current or self.session.feed.replay:
            return
        row = self._row()
        chosen = row.job if row else None

        def job() -> _Read:
            reading = self.runs.read()
            wanted = chosen or next(iter(reading.jobs), None)
            if wanted is None:
                return reading, "", ()
            return reading, wanted.place.id, joblog.read_tail(wanted.place, _LOG_LINES)

        self.background("look", job, self._update_jobs)

    def _update_jobs(self, read: _Read) -> None:
        self.runs.keep(read[0])
        self._shown = (read[1], read[2])
        self.refresh_view()
        self._draw()

    def show_view(self, view: View) -> None:
        """Show the view's heartbeats and this host's jobs."""
        self._draw()

    def _draw(self) -> None:
        view, now = self.console.view, self.session.feed.now()
        known = self.runs.jobs is not None or self.session.feed.replay
        heard = view is not None and view.part(PartName.STATE).taken_at is not None
        grid = self.grid()
        empty = NO_RUN
        if self.session.pair.mirror:
            empty = f"{MIRROR_COPIES}."
        elif self.session.pair.equal_offsets:
            empty = ANOTHER_COPIES
        grid.empty = empty if known and heard else formatting.NOT_YET
        stale = view is not None and view.stale(PartName.STATE)
        old = HEARTBEAT_COLUMNS if stale else frozenset()
        grid.mark_stale(old | {"lag"} if view and view.copy_stale else old)
        rows = self.runs.rows(view, self.session.pair.pipeline, now)
        grid.show(rows)
        alive = [judge_run(row).severity for row in rows if row.alive or row.state == "silent"]
        self.query_one("#table", Panel).mark(max(alive, default=None))
        self._select_new_run(rows)
        self.show_side()

    def _select_new_run(self, rows: Sequence[RunRow]) -> None:
        """Move the cursor to the run that was started here, once, as soon as it is known."""
        for row in rows if self._new_start else ():
            if row.job is not None and row.job.record.start == self._new_start:
                self._new_start = ""
                self.grid().select(row.key)

    def show_side(self) -> None:
        """Show the run under the cursor and the end of its log, and give each part its lines."""
        if not (self.query("RunDetail TextLines") and self.query("#job-log")):
            return  # they are mounted after the panels
        row = self._row()
        self.query_one("#side").display = row is not None
        # One or two lines say where a log is; the table takes the rest.
        self.set_class(row is None or row.job is None, "-no-log")
        self._share_lines()
        if row is None:
            return
        show_run(self, row, self.runs.samples(row))
        self._draw_log(row)
        # The log has the lines that the panel had before these were shared.
        self.call_after_refresh(self._draw_log_again)

    def _draw_log_again(self) -> None:
        row = self._row()
        if row is not None and self.query("#job-log"):
            self._draw_log(row)

    def _share_lines(self) -> None:
        """Give the table as many lines as it has rows, up to half of them."""
        table = self.query_one("#table")
        if self.has_class("-no-log"):
            table.styles.height = "1fr"
            return
        boxed = is_framed(self)
        most = max(4, self.query_one("#list").size.height // 2)
        table.styles.height = min(most, self.grid().total + (3 if boxed else 2))

    def _draw_log(self, row: ShownRun) -> None:
        pane, panel = self.query_one("#job-log", TextLines), self.query_one("#log-end", Panel)
        if row.job is None:
            panel.label("Log")
            width = max(20, pane.size.width or self.size.width - 4)
            pane.show(wrap_lines(where_is_log(row), width, Tone.MUTED))
            return
        panel.label(f"Log of {formatting.name(row.job.place.id, 50)}", "Enter: all of it")
        shown, entries = self._shown
        if row.job.place.id != shown:
            entries = ()
        lines: list[Line] = [line for entry in entries for line in entry_lines(entry)]
        if row.job.place.id == shown and not lines:
            lines = [(Cell(NOTHING_LOGGED, Tone.MUTED),)]
        height = max(1, panel.content_size.height)
        pane.show(lines[-height:])

    def summary(self) -> Line:
        """Return which run of the pipeline is alive, and where."""
        rows = [row for row in self.grid().rows if isinstance(row, RunRow)]
        alive = [row for row in rows if row.pipeline == self.session.pair.pipeline and row.alive]
        own = [row for row in alive if row.kind is RunKind.COPY]
        syncs = [row for row in alive if row.kind is RunKind.SYNC]
        more = Cell(f"; sync {place(syncs[0])}" if syncs else "")
        # Each cell is shown whole or not at all where the frame is narrow.
        name = f"{formatting.name(self.session.pair.pipeline, 40)}: "
        if self._busy:
            return (Cell(name + self._busy, Tone.INFO),)
        if not own and self.session.pair.mirror:
            return (Cell(name + MIRROR_COPIES, Tone.MUTED), more)
        if not own and self.session.pair.equal_offsets:
            return (Cell(name + "another program copies", Tone.MUTED), more)
        if not own and syncs and nothing_to_start(self.session):
            return (Cell(f"{name}sync {place(syncs[0])}"),)
        if not own:
            return (Cell(f"{name}no run is alive", Tone.WARN), more)
        copying = [row.generation for row in own if row.state != RunnerState.STANDBY]
        if len(copying) > 1 and not are_sharing(copying):
            text = f"{len(copying)} runs at the same time: the older one is being fenced"
            return (Cell(name + text, Tone.WARN),)
        others = describe_others(copying, len(own) - len(copying))
        return (Cell(name + place(own[0])), Cell(f"; {others}" if others else ""), more)

    def _row(self) -> ShownRun | None:
        row = self.grid().current
        return row if isinstance(row, ShownRun) else None

    @on(Grid.Changed)
    def _row_changed(self) -> None:
        row = self._row()
        if row is not None and row.job is not None and row.job.place.id != self._shown[0]:
            self._poll_jobs()
        self.refresh_bindings()
        self.show_side()

    def refusal(self, action: str) -> str:
        """Return why an action is unavailable now."""
        why = super().refusal(action)
        if why or action not in self.CHANGES or not self.is_mounted:
            return why
        if self._busy:
            return f"wait for the end of: {self._busy}"
        if action == "start_job":
            return nothing_to_start(self.session) or self._fence()
        if action == "start_sync":
            return ""
        row = self._row()
        if action == "restart_job" and row is not None and row.kind is RunKind.COPY:
            why = self._fence() if row.pipeline == self.session.pair.pipeline else ""
            if why:
                return why
        if row is None or (row.job is None and not row.alive):
            return "no job is running in this row"
        if row.job is None:
            return where_to_stop(row, "restart" if action == "restart_job" else "stop")
        dead = action == "stop_job" and not row.alive
        return "no job is running in this row" if dead else ""

    def _fence(self) -> str:
        """Return which drill keeps the pipeline from starting, and the way back; "" if none."""
        view = self.console.view
        state = view.pair_state if view is not None else NOT_READ
        if view is None or not state.fenced_by:
            return ""
        drill = next((listed for listed in view.drills if listed.id == state.fenced_by), None)
        fence, files = PipelineFence(state.fenced_by, drill), self.session.files
        file = cli_equivalent.files_text(files)
        reverse = cli_equivalent.files_text([str(reverse_path(files))]) if files else "REVERSE-FILE"
        return f"the pipeline was {fence.why}. {fence.way_back(file, reverse)}."

    def session_work(self) -> list[str]:
        """Return the operation in progress, and the jobs started here that still run."""
        work = [f"In progress: {self._busy}"] if self._busy else []
        for job in self._started:
            if job.record.identity.alive:
                where = f"{job.record.pipeline}, pid {job.record.pid}"
                work.append(f"The job {where}, was started here. It keeps running.")
        return work

    # Actions

    @on(Grid.Opened)
    def _opened(self) -> None:
        self.action_log()

    def action_log(self) -> None:
        """Show the selected run and its whole log."""
        row = self._row()
        if row is not None:
            self.app.push_screen(LogScreen(row, self.runs))

    @work(group=ASK)
    async def action_start_job(self) -> None:
        """Check the pipeline, confirm, and start it."""
        await self._start(RunKind.COPY)

    @work(group=ASK)
    async def action_start_sync(self) -> None:
        """Check the clusters, confirm, and start ``k2ktui sync``."""
        await self._start(RunKind.SYNC)

    async def _start(self, kind: RunKind) -> None:
        """Start a job: the one of the selected row if it has ended, or the session's."""
        row = self._row()
        over = row is not None and not row.alive and row.kind is kind
        job = row.job if row is not None and over else None
        if (config := await self._config(job, kind)) is None:
            return
        files = job.record.files if job else self.session.files
        lines = ["It keeps running without this console. X stops it; k2ktui jobs list shows it."]
        if kind is RunKind.SYNC:
            lines.insert(0, "It commits offsets of groups that have no members on the target.")
        if not await self.ask(StartDialog(config, "Start", lines, kind=kind)):
            return
        rewind = Rewind.NEVER if kind is RunKind.SYNC else None

        def started() -> Job:
            job = manager.start_job(config, files, self._access(config), rewind=rewind)
            self._new_start = job.record.start
            return manager.await_running(job)

        command = cli_equivalent.job(files, "start", kind)
        self._work(f"starting {name_of(config.name, kind)}", started, command)

    @work(group=ASK)
    async def action_restart_job(self) -> None:
        """Check the pipeline, confirm, stop it and start it again."""
        row = self._row()
        if row is None or row.job is None:
            return
        job, kind = row.job, row.kind
        if (config := await self._config(job, kind)) is None:
            return
        lines = [f"Stops pid {job.record.pid} and starts it again; no record is lost or repeated."]
        dialog = StartDialog(config, "Restart", lines, restart=True, kind=kind)
        if not await self.ask(dialog):
            return
        files = job.record.files
        self._work(
            f"restarting {name_of(config.name, kind)}",
            lambda: manager.await_running(
                manager.restart_job(job, config, files, self._access(config))
            ),
            cli_equivalent.job(files, "restart", kind),
        )

    @work(group=ASK)
    async def action_stop_job(self) -> None:
        """Confirm, then stop the job; a second request stops it immediately."""
        row = self._row()
        if row is None or row.job is None or not row.alive:
            return
        job, name = row.job, row.pipeline
        again = job.record.start in self._stop_requests
        lines = [
            f"pid {job.record.pid} on this host, since {clock(job.record.started_at)} UTC.",
            "Nothing is copied until it is started again; it continues where it stopped."
            if row.kind is RunKind.COPY
            else "No group is translated until it is started again.",
            "A stop was requested before; this one is immediate."
            if again
            else "No record is lost or repeated.",
        ]
        if not await self.ask(Confirm(f"Stop {name}", lines, name, "Stop", undoable=True)):
            return
        self._stop_requests.add(job.record.start)
        how = StopMode.NOW if again else StopMode.GRACEFULLY
        allowed = self._access_of(job)

        def stopped() -> Job:
            now = manager.stop_job(job, allowed, how)
            if now.alive:
                raise TimedOut(
                    f"{name} still runs after {manager.STOP_S:g} s",
                    hint="Press X again to stop it at once, or kill it: k2ktui jobs stop --kill.",
                )
            return now

        command = cli_equivalent.job(job.record.files, "stop", row.kind)
        self._work(f"stopping {name_of(name, row.kind)}", stopped, command)

    async def _config(self, job: Job | None, kind: RunKind) -> PipelineConfig | None:
        """Return the configuration of a job or of the session; None after reporting an error."""
        if job is None and kind is RunKind.COPY and (why := nothing_to_start(self.session)):
            self.inform(why, "warning")
            self.console.ignore_typing()
            return None
        flow = self.session.flow
        if job is None or job.record.files == local_jobs.absolute_paths(self.session.files):
            return None if flow is None else flow.config if kind is RunKind.SYNC else flow.pipeline
        reading = self.run_worker(
            lambda: read_config(job),
            group="config",
            thread=True,
            exit_on_error=False,
        )
        try:
            await reading.wait()
        except Exception:
            self.inform_error(reason_of(reading.error))
            self.console.ignore_typing()
            return None
        return reading.result

    def _access(self, config: PipelineConfig) -> Access:
        return self._rule(config.read_only, config.environment)

    def _access_of(self, job: Job) -> Access:
        return self._rule(job.record.read_only, job.record.environment)

    def _rule(self, read_only: bool, environment: str) -> Access:
        session = self.session
        return access(
            flag=session.options.read_only,
            configured=read_only,
            environment=environment,
            unlocked=session.unlocked,
            replay=session.feed.replay,
        )

    def _work(self, what: str, work: Callable[[], Job], command: str) -> None:
        """Run an operation on a job on a thread, and report its outcome."""

        def over() -> None:
            self._busy = ""
            self._poll_jobs()
            self.session.feed.refresh()

        events = self.console.events

        def done(job: Job) -> None:
            over()
            events.add(EventKind.DONE, f"{what}: {outcome_of(job)[0]}", command)
            if job.alive:
                self._started.append(job)
            self.inform(*outcome_of(job))

        def failed(error: K2kError) -> None:
            over()
            events.add(EventKind.FAILED, f"{what}: {error}", command)
            self.inform_error(error)

        events.add(EventKind.STARTED, what, command)
        self._busy = f"{formatting.message(what, 60)} …"
        self.background("job", work, done, failed)
        self._draw()
