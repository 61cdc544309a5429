"""What keys do on every screen: polling, replay, files, the clipboard, unlocking."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from k2ktui.console import export, terminal
from k2ktui.console.calls import BELL, NOTIFICATION, SWITCHES, Call
from k2ktui.console.event_log import EventKind, EventLog
from k2ktui.console.screens.base import ConsoleScreen
from k2ktui.console.session import Session
from k2ktui.console.settings import Settings, TableSettings
from k2ktui.console.theming import ThemedApp
from k2ktui.console.visuals.chart import WINDOWS_MIN
from k2ktui.console.widgets.confirm import Confirm
from k2ktui.console.widgets.grid import Grid
from k2ktui.console.widgets.text_prompt import TextPrompt
from k2ktui.errors import ConfigError, K2kError
from k2ktui.present.formatting import utc_time
from k2ktui.text import counted, safe_message, safe_text
from k2ktui.watch.feed import MIN_INTERVAL_S
from k2ktui.watch.model import View
from k2ktui.watch.player import Player, parse_time

_CLIPBOARD = 74_000
_SHOWN = 40
# Of a notification: the pipeline's name, and what is said of it.
_NAME, _CALL = 40, 160
_EXPORT = "Write what is shown to files in the directory:"
_LOCKED = "Nothing was changed; the session stays read-only."


class ActionApp(ThemedApp):
    """An app with the actions that every screen offers.

    Attributes:
        events: what happened in this session.
        view: the last view; None until the first one arrives.
        chart_minutes: the time window of charts.
        resumed_at: when polling was continued last; what was read earlier is old until then.
    """

    events: EventLog
    view: View | None = None
    chart_minutes: int = WINDOWS_MIN[0]
    resumed_at: float = 0.0
    # Why settings could not be written last.
    _not_kept: str = ""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        minutes = self.remembered.settings.minutes
        self.chart_minutes = minutes if minutes in WINDOWS_MIN else WINDOWS_MIN[0]

    def show_latest(self) -> None:
        """Show the last view again, as old or new as polling is paused or not."""

    def update_frame(self) -> None:
        """Update what all screens show besides views: ages, warnings, the access mode."""

    def inform(self, text: str, *, error: bool = False) -> None:
        """Show a notification."""
        self.notify(text, severity="error" if error else "information", markup=False)

    def report(self, text: str, *, error: bool = False, more: str = "") -> None:
        """Say what came of an action: in a notification, with ``more``, and in the event log."""
        kind = EventKind.FAILED if error else EventKind.DONE
        self.events.add(kind, text)
        self.inform(f"{text}\n{more}" if more else text, error=error)

    # Settings

    def recall_table(self, name: str) -> TableSettings:
        """Return how this user had a table."""
        return self.remembered.settings.tables.get(name, TableSettings())

    def remember_table(self, name: str, value: TableSettings) -> None:
        """Remember how a table is shown, for other screens with it and for the next session."""
        settings = self.remembered.settings
        self.remembered.settings = replace(settings, tables={**settings.tables, name: value})
        self.remembered.change_table(name, value)
        self.keep_settings()

    def switch_call(self, name: str) -> None:
        """Switch a call off, or on again; without a name, switch all on."""
        silent = self.remembered.settings.silent ^ {name} if name else frozenset()
        self.remembered.settings = replace(self.remembered.settings, silent=silent)
        self.remembered.change("silent", sorted(silent))
        self.keep_settings()
        off = [switch for switch in SWITCHES if switch in silent]
        self.report(
            f"calls: {', '.join(off)} {'is' if len(off) == 1 else 'are'} off"
            if off
            else "calls: all are on"
        )

    def call(self, calls: Sequence[Call]) -> None:
        """Call the user: ring the bell, and let the terminal show a notification."""
        silent = self.remembered.settings.silent
        calls = [call for call in calls if str(call.kind) not in silent]
        if not calls:
            return
        if BELL not in silent:
            self.bell()  # of which tmux makes the window's flag
        if NOTIFICATION not in silent:
            more = f" (and {len(calls) - 1:,} more)" if len(calls) > 1 else ""
            name = safe_text(self.session.pair.pipeline, _NAME)
            text = f"k2ktui {name}: {safe_message(calls[0].text, _CALL)}{more}"
            # On a thread: tmux is asked whether it passes it on.
            self.run_worker(
                lambda: self.write_terminal(terminal.notify(text)),
                group="call",
                thread=True,
                exit_on_error=False,
            )

    def keep_settings(self) -> None:
        """Write the settings on a thread: the home directory may be a network mount."""

        def write() -> None:
            try:
                self.remembered.write()
            except OSError as error:
                reason = error.strerror or type(error).__name__
                if reason != self._not_kept:
                    self._not_kept = reason
                    self.events.add(EventKind.FAILED, f"settings are not remembered: {reason}")

        if self.remembered.path is not None:
            self.run_worker(write, group="settings", thread=True, exit_on_error=False)

    def action_forget(self) -> None:
        """Forget what is remembered, and show everything as it is by default."""
        self.remembered.settings = Settings()
        self.notes = [note for note in self.notes if note != self.remembered.note]
        self.chart_minutes = WINDOWS_MIN[0]
        self.choose_theme()
        for screen in self.opened_screens():
            for grid in screen.query(Grid):
                grid.recall()
        self.update_frame()
        try:
            # Last: the theme of above would be written again.
            self.remembered.forget()
        except OSError as error:
            self.report(f"settings are not forgotten: {error.strerror or error}", error=True)
        else:
            self.report("settings are forgotten: theme, charts, order and columns are the defaults")

    def opened_screens(self) -> Sequence[ConsoleScreen]:
        """Return the open screens."""
        return ()

    # Polling and replay

    def action_refresh(self) -> None:
        """Poll both clusters now."""
        self.session.feed.refresh()

    def action_pause(self) -> None:
        """Pause or resume polling."""
        feed = self.session.feed
        feed.pause(not feed.paused)
        if not feed.paused:
            self.resumed_at = feed.now()
        self.show_latest()
        self.update_frame()
        self.events.add(EventKind.DONE, "polling paused" if feed.paused else "polling continued")

    def action_interval(self, by: int) -> None:
        """Change the polling interval by ``by`` seconds."""
        feed = self.session.feed
        if feed.interval + by < MIN_INTERVAL_S:
            self.inform(f"polled every {feed.interval:g} s; the minimum is {MIN_INTERVAL_S:g} s")
            return
        feed.set_interval(feed.interval + by)
        self.report(f"polled every {feed.interval:g} s")

    def action_chart_window(self) -> None:
        """Show the next longer time window in charts, or the shortest after the longest."""
        at = WINDOWS_MIN.index(self.chart_minutes)
        self.chart_minutes = WINDOWS_MIN[(at + 1) % len(WINDOWS_MIN)]
        self.remembered.change("minutes", self.chart_minutes)
        self.keep_settings()
        if isinstance(self.screen, ConsoleScreen):
            self.screen.refresh_view()

    def action_step(self, by: int) -> None:
        """Step ``by`` views forward (or back, if negative) in a recording."""
        if isinstance(self.session.feed, Player):
            self.session.feed.step(by)

    def action_seek(self) -> None:
        """Prompt for a time and seek to it in a recording."""
        feed = self.session.feed
        if not isinstance(feed, Player):
            return
        first, last = utc_time(feed.times[0]), utc_time(feed.times[-1])

        def seek(text: str | None) -> None:
            if not text:
                return
            try:
                at = parse_time(text, feed.times)
            except ConfigError as error:
                self.inform(str(error), error=True)
                return
            if not feed.times[0] <= at <= feed.times[-1]:
                self.inform(
                    f"{utc_time(at)} UTC is outside the recording, which is from {first} to "
                    f"{last} UTC. The frame was not changed.",
                    error=True,
                )
                return
            feed.seek(at)

        question = f"Go to HH:MM:SS (UTC, {first} to {last}), or +SECONDS from the beginning:"
        self.push_screen(TextPrompt(question, canceled="The frame was not changed."), seek)

    # Files and the clipboard

    def action_export(self) -> None:
        """Ask for a directory, and write what is shown to files there."""
        screen, view = self.screen, self.view
        if not isinstance(screen, ConsoleScreen) or view is None:
            return
        table, name, document = screen.table(), screen.ENTRY or "view", screen.document()
        markdown = screen.markdown()

        def write(directory: str | None) -> None:
            if directory is not None:
                run = partial(job, Path(directory))
                screen.background("export", run, self._report_export, self._report_error)

        def job(directory: Path) -> list[Path]:
            try:
                return export.write(directory.expanduser(), view, name, table, document, markdown)
            except (OSError, RuntimeError) as error:  # the latter: a user without a home
                reason = error.strerror if isinstance(error, OSError) else None
                raise K2kError(f"nothing was exported: {reason or error}") from error

        try:
            here = str(Path.cwd())
        except OSError:  # it was removed
            here = "."
        prompt = TextPrompt(_EXPORT, value=here, canceled="Nothing was written.")
        self.push_screen(prompt, write)

    def _report_export(self, paths: list[Path]) -> None:
        self.report("written:\n" + "\n".join(safe_text(path) for path in paths))

    def _report_error(self, error: K2kError) -> None:
        self.report(safe_message(error.message), error=True)

    def action_copy(self) -> None:
        """Copy the text selected with the mouse, the chosen cell, or the item under the cursor."""
        selected = self.screen.get_selected_text() or ""
        cells = [grid.chosen_cell for grid in self.screen.query(Grid)]
        cell = next((chosen for chosen in cells if chosen is not None), None)
        if selected:
            self.copy(selected)
        elif cell is not None:
            self.copy(cell[1], f"{cell[0]} ")
        elif isinstance(self.screen, ConsoleScreen):
            self.copy(self.screen.text_to_copy())

    def copy(self, text: str, what: str = "") -> None:
        """Send a text to the terminal's clipboard; ``what`` precedes it in the message.

        Control characters were escaped when the text was made: a pasted name must not run as a
        command.
        """
        if not text:
            self.inform("there is nothing to copy here", error=True)
            return
        if len(text.encode()) > _CLIPBOARD:
            self.report("too long for the terminal's clipboard; e writes a file", error=True)
            return
        self.copy_to_clipboard(text)
        first, *more = text.splitlines() or [text]
        lines = f" and {counted(len(more), 'more line')}" if more else ""
        shown = "  ".join(safe_message(part) for part in first.split("\t"))
        shown = f"{shown[: _SHOWN - 1]}…" if len(shown) > _SHOWN else shown
        # The terminal sends no acknowledgment: tmux and some terminals drop the sequence.
        self.report(
            f"copied {what}{shown}{lines}",
            more="sent to the terminal's clipboard (OSC 52); e writes a file",
        )

    def action_shot(self) -> None:
        """Save a screenshot in the working directory, unless contents of records are shown."""
        if isinstance(self.screen, ConsoleScreen) and self.screen.shows_contents:
            self.inform(
                "No screenshot was taken: contents of records are shown.\nFix: mask them first.",
                error=True,
            )
            return
        try:
            path = self.save_screenshot(path=str(Path.cwd()))
        except OSError as error:
            self.report(f"no screenshot: {error.strerror or error}", error=True)
        else:
            self.report(f"written:\n{safe_text(path)}")

    # Access

    def action_unlock(self) -> None:
        """Allow changes in a session of a production pair after the pipeline's name is typed."""
        may, pair = self.session.access, self.session.pair.pipeline
        if may.writable:
            self._lock_again()
            return
        if not may.unlockable:
            self.inform(f"cannot be unlocked: {may.reason}", error=True)
            self.ignore_typing()
            return

        def answered(agreed: bool | None) -> None:
            if agreed:
                self.session.unlocked = True
                self.refresh_bindings()
                self.update_frame()
                self.report("Changes are allowed until you leave the console; u locks it again.")

        lines = ["Until you leave the console, plans can be applied and jobs started and stopped."]
        dialog = Confirm(
            "Unlock this session", lines, pair, "Unlock", canceled=_LOCKED, undoable=True
        )
        self.push_screen(dialog, answered)

    def _lock_again(self) -> None:
        if self.session.unlocked:
            self.session.unlocked = False
            self.refresh_bindings()
            self.update_frame()
            self.report("The session is read-only again.")
