"""A run with its whole log: last lines, followed and filtered; Enter shows a cut line in full."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.widget import Widget

from k2ktui.console.screens.base import ListScreen
from k2ktui.console.screens.job_detail import RunDetail, owner_of, show_run
from k2ktui.console.screens.job_runs import KnownRuns, ShownRun
from k2ktui.console.screens.job_words import NOTHING_LOGGED, where_is_log
from k2ktui.console.visuals.panel import Panel
from k2ktui.console.widgets.grid import Grid
from k2ktui.jobs.joblog import Follower, LogEntry
from k2ktui.present import formatting
from k2ktui.present.columns import Column
from k2ktui.present.formatting import Cell, Line, Tone
from k2ktui.text import counted
from k2ktui.watch.model import View

_LINES = 2_000
_LOOK_S, _RUNS_S = 1.0, 2.0


@dataclass(frozen=True, slots=True)
class LogLine:
    """A displayed log line with its number."""

    number: int
    time: str
    text: str
    tone: Tone


class LogScreen(ListScreen):
    """The log screen, a detail of screen 5.

    Args:
        row: the run.
        runs: what is known of it and of the others.
    """

    ENTRY: ClassVar[str] = "jobs"
    HELP: ClassVar[str | None] = """
        A run: who owns it, its part in copying the pipeline, and what it uses on this host. Below
        it is its log: the last 2,000 lines, with times in UTC. The view follows new lines while the
        cursor is on the last one; f jumps there. / filters; Enter shows a whole line. The
        equivalent command is k2ktui jobs log -f FILE -F.
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("f", "follow", "Follow", id="jobs.follow")]

    def __init__(self, row: ShownRun, runs: KnownRuns) -> None:
        super().__init__()
        self._row, self._runs, self._job = row, runs, row.job
        self._follower: Follower | None = None
        self._lines: deque[LogLine] = deque(maxlen=_LINES)
        self._count = 0

    PANEL: ClassVar[str] = "Log"
    crumb = "log"

    def body(self) -> Iterable[Widget]:
        """Yield the run and its log."""
        yield Panel(owner_of(self._row), RunDetail(charts=False), id="run")
        yield from super().body()

    def make_grid(self) -> Grid[Any]:
        """Create the table of log lines."""
        return Grid(
            (
                Column("time", "time", lambda line: Cell(line.time, Tone.MUTED), width=8),
                Column(
                    "text",
                    "text",
                    lambda line: Cell(formatting.message(line.text), line.tone),
                    width=20,
                    widest=500,
                ),
            ),
            key=lambda line: line.number,
            search=lambda line: line.text,
            problem=lambda line: line.tone in (Tone.BAD, Tone.WARN),
            empty=formatting.NOT_YET if self._job else where_is_log(self._row),
            opens="Whole line",
            id="log",
        )

    def on_mount(self) -> None:
        """Start following the log."""
        self._poll_jobs()
        self.set_interval(_LOOK_S, self._poll_jobs)
        if not self.session.feed.replay:
            self.set_interval(_RUNS_S, self._poll_runs)

    def on_screen_resume(self) -> None:
        """Show the run as it is now; Textual calls the base's handler, too."""
        self._show_run()

    def show_view(self, view: View) -> None:
        """Show the run as the view has it."""
        self._show_run()

    def _poll_runs(self) -> None:
        if self.is_current:
            self.background("runs", self._runs.read, self._runs.keep)
            self._show_run()

    def _show_run(self) -> None:
        if not self.query("RunDetail TextLines"):
            return  # it is mounted after the panel
        view, now = self.console.view, self.session.feed.now()
        rows = self._runs.rows(view, self.session.pair.pipeline, now)
        row = next((listed for listed in rows if listed.key == self._row.key), self._row)
        self._row = row
        show_run(self, row)

    def on_unmount(self) -> None:
        """Close the log file."""
        if self._follower is not None:
            self._follower.close()

    def summary(self) -> Line:
        """Return the number of lines and the path of the log."""
        if self._job is None:
            return ()
        count = counted(len(self._lines), "line")
        return (Cell(f"{count} of {formatting.name(self._job.place.log)}"),)

    def _poll_jobs(self) -> None:
        of = self._job
        if of is None:
            return

        def job() -> list[LogEntry]:
            if self._follower is None:
                self._follower = Follower(of.place, _LINES)
                return self._follower.before
            return self._follower.read()

        self.background("look", job, self._update_jobs)

    def _update_jobs(self, entries: list[LogEntry]) -> None:
        if not entries and self._count:
            return
        grid = self.grid()
        at_end = grid.cursor >= len(grid.rows) - 1
        for entry in entries:
            tone = tone_of(entry)
            first, *more = entry.lines
            for number, text in enumerate([first[10:], *(line.strip() for line in more)]):
                self._count += 1
                time = "" if number else first[:8]
                self._lines.append(LogLine(self._count, time, text, tone))
        grid.empty = NOTHING_LOGGED
        grid.show(list(self._lines))
        if at_end:
            self.action_follow()

    def action_follow(self) -> None:
        """Jump to the last line and follow new lines."""
        self.grid().action_jump(-1)

    @on(Grid.Opened)
    def _opened(self, event: Grid.Opened) -> None:
        self.inform(f"{event.row.time} {event.row.text}", "information")


def entry_lines(entry: LogEntry) -> list[Line]:
    """Return a log entry as lines with tones."""
    tone = tone_of(entry)
    return [(Cell(text[:10], Tone.MUTED), Cell(text[10:], tone)) for text in entry.lines]


def tone_of(entry: LogEntry) -> Tone:
    """Return the tone of a log entry."""
    if entry.error or (entry.kind == "ended" and entry.event.get("code")):
        return Tone.BAD
    if entry.kind == "check":
        return Tone.BAD if entry.event.get("outcome") == "fail" else Tone.WARN
    if entry.kind in ("note", "resumed"):
        return Tone.WARN
    return Tone.MUTED if not entry.event else Tone.PLAIN
