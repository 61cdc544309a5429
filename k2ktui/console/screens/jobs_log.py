"""The log of a job: its last lines, followed and filtered; a cut line is shown in full on Enter."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any, ClassVar

from textual import on
from textual.binding import Binding, BindingType

from k2ktui.console.screens.base import ListScreen
from k2ktui.console.widgets.grid import Grid
from k2ktui.jobs.joblog import Follower, LogEntry
from k2ktui.jobs.local_jobs import Job
from k2ktui.present import formatting
from k2ktui.present.columns import Column
from k2ktui.present.formatting import Cell, Line, Tone

_LINES = 2_000
_LOOK_S = 1.0


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
        job: the job whose log is shown.
    """

    ENTRY: ClassVar[str] = "jobs"
    HELP: ClassVar[str | None] = """
        The log of a job: its last 2,000 lines, with times in UTC. The view follows new lines while
        the cursor is on the last one; f jumps there. / filters; Enter shows a whole line. The
        equivalent command is k2ktui jobs log -f FILE -F.
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("f", "follow", "Follow", id="jobs.follow")]

    def __init__(self, job: Job) -> None:
        super().__init__()
        self._job = job
        self._follower: Follower | None = None
        self._lines: deque[LogLine] = deque(maxlen=_LINES)
        self._count = 0

    @property
    def crumb(self) -> str:
        """The log."""
        return "log"

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
            empty=formatting.NOT_YET,
            id="log",
        )

    def on_mount(self) -> None:
        """Start following the log."""
        self._poll_jobs()
        self.set_interval(_LOOK_S, self._poll_jobs)

    def on_unmount(self) -> None:
        """Close the log file."""
        if self._follower is not None:
            self._follower.close()

    def summary(self) -> Line:
        """Return the job and the path of its log."""
        place = self._job.place
        title = Cell(f"Log of {formatting.name(place.id)}", Tone.HEADING)
        return (title, Cell(f"  {formatting.name(place.log)}", Tone.MUTED))

    def _poll_jobs(self) -> None:
        def job() -> list[LogEntry]:
            if self._follower is None:
                self._follower = Follower(self._job.place, _LINES)
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
        grid.empty = "Nothing was written yet."
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
