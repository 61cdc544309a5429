"""The event log of the session, opened from every screen."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from textual import on
from textual.containers import VerticalScroll
from textual.widget import Widget
from textual.widgets import Static

from k2ktui.console.event_log import Event, EventKind
from k2ktui.console.screens.base import ListScreen
from k2ktui.console.visuals.panel import Panel
from k2ktui.console.widgets.grid import Grid
from k2ktui.console.widgets.text_dialog import TextDialog
from k2ktui.present.columns import Column
from k2ktui.present.formatting import Cell, Line, Tone, message, utc_time
from k2ktui.text import counted
from k2ktui.watch.model import View

_TONES = {
    EventKind.POLLED: Tone.MUTED,
    EventKind.CHANGED: Tone.WARN,
    EventKind.RESOLVED: Tone.OK,
    EventKind.FAILED: Tone.BAD,
    EventKind.STARTED: Tone.INFO,
    EventKind.DONE: Tone.OK,
    EventKind.STOPPED: Tone.INFO,
}


class EventLogScreen(ListScreen):
    """What was polled, changed, failed, stopped and done in this session."""

    ENTRY: ClassVar[str] = "events"
    PANEL: ClassVar[str] = "Events"
    crumb = "event log"
    HELP: ClassVar[str | None] = """
        Event log. The polls, changes, failures and actions of this session, the newest first;
        times are UTC. Every action has the command that does the same.

        The panel below the table shows the whole event and its command. y copies the command, or
        the text of an event without one, to the terminal's clipboard; text selected with the mouse
        is copied instead. Enter shows the event in a dialog. z hides the polls.
    """

    _shown = ""

    def make_grid(self) -> Grid[Event]:
        """Create the table of events."""
        columns: tuple[Column[Event], ...] = (
            Column("time", "time", lambda e: Cell(utc_time(e.at), Tone.MUTED), width=8),
            Column("kind", "event", lambda e: Cell(str(e.kind), _TONES[e.kind]), width=8),
            Column("text", "what", lambda e: Cell(message(e.text)), width=20, widest=400),
            Column(
                "command",
                "command",
                lambda e: Cell(e.command, Tone.MUTED),
                width=24,
                rank=1,
                widest=60,
            ),
        )
        return Grid(
            columns,
            key=lambda event: event.number,
            search=lambda event: f"{event.kind} {event.text} {event.command}",
            problem=lambda event: event.kind is not EventKind.POLLED,
            empty="Nothing yet: what this session reads and does is listed here.",
            opens="Whole text",
            id="events",
        )

    def side(self) -> Iterable[Widget]:
        """Yield the selectable text of an event."""
        text = Static(id="event-text", markup=False)
        yield Panel("Event", VerticalScroll(text, can_focus=False), id="side")

    def on_mount(self) -> None:
        """Show the events, even if there is no view yet."""
        self.query_one(Grid).show(self.console.events.events)

    def show_view(self, view: View) -> None:
        """Show the events."""
        self.query_one(Grid).show(self.console.events.events)

    def summary(self) -> Line:
        """Return the number of events."""
        return (Cell(f"{counted(self.query_one(Grid).total, 'event')} of this session"),)

    @on(Grid.Changed)
    def _cursor_moved(self) -> None:
        event: Event | None = self.query_one(Grid).current
        self.query_one("#side").display = event is not None
        text = "" if event is None else _whole(event)
        if text != self._shown:
            self._shown = text
            self.query_one("#event-text", Static).update(text)
        if event is not None:
            copies = "y copies the command" if event.command else "y copies the text"
            self.query_one("#side", Panel).label(f"Event at {utc_time(event.at)}", copies)

    @on(Grid.Opened)
    def _opened(self, event: Grid.Opened) -> None:
        self.app.push_screen(TextDialog(f"Event at {utc_time(event.row.at)}", [_whole(event.row)]))

    def text_to_copy(self) -> str:
        """Return the command of the event under the cursor, or its text."""
        event: Event | None = self.query_one(Grid).current
        return "" if event is None else event.command or message(event.text)


def _whole(event: Event) -> str:
    text = f"{event.kind}: {message(event.text, 4_000)}"
    return f"{text}\n$ {event.command}" if event.command else text
