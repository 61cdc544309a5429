"""The base of every screen: header, banner, keys, views and background work."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar, Literal, Protocol, TypeVar, cast

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.css.query import NoMatches
from textual.message import Message
from textual.screen import Screen
from textual.timer import Timer
from textual.widget import AwaitMount, Widget
from textual.widgets import Input
from textual.worker import Worker, WorkerState

from k2ktui.console import header
from k2ktui.console.banner import BannerLines, banner
from k2ktui.console.commands import Command
from k2ktui.console.event_log import EventLog
from k2ktui.console.export import Table
from k2ktui.console.session import Session
from k2ktui.console.visuals.panel import Panel
from k2ktui.console.widgets.confirm import Confirm
from k2ktui.console.widgets.dialog import Dialog
from k2ktui.console.widgets.foot_line import FootLine
from k2ktui.console.widgets.footer import KeyFooter
from k2ktui.console.widgets.grid import Grid
from k2ktui.console.widgets.styled_text import glyphs_of
from k2ktui.errors import K2kError
from k2ktui.faults import fault
from k2ktui.present.formatting import Cell, Line, Tone
from k2ktui.text import safe_message
from k2ktui.watch.model import View

T = TypeVar("T")
# How long the cursor rests on a row until the panel beside the table follows it.
_REST_S = 0.15
# As in the style sheet.
_HIGHEST_BANNER = 4


@dataclass
class ViewArrived(Message, bubble=False):
    """A new view is available; every screen of the current stack receives it.

    It does not bubble: the app forwards it to the screens, and would forward it again forever.
    """

    view: View

    def can_replace(self, message: Message) -> bool:
        """Return whether this view replaces a queued older one: it always does."""
        return isinstance(message, ViewArrived)


@dataclass(frozen=True, slots=True)
class Entry:
    """A screen: its key, its id (also the module's name), its title, and its class.

    ``key_name`` stands for it in key files, by default its id.
    """

    key: str
    id: str
    title: str
    screen: str
    key_name: str = ""

    @property
    def key_id(self) -> str:
        """The id of its key."""
        return f"screen.{self.key_name or self.id}"

    @property
    def module(self) -> str:
        """Full name of the module."""
        return f"{__package__}.{self.id}"

    @property
    def available(self) -> bool:
        """Whether the module exists."""
        return find_spec(self.module) is not None

    def make(self) -> ConsoleScreen:
        """Import the module and create the screen."""
        made: ConsoleScreen = getattr(import_module(self.module), self.screen)()
        return made


class Console(Protocol):
    """What screens use of the app; see :class:`k2ktui.console.app.ConsoleApp`."""

    session: Session
    view: View | None
    entries: list[Entry]
    notes: list[str]
    opened: list[ConsoleScreen]
    events: EventLog
    chart_minutes: int

    @property
    def current_mode(self) -> str:
        """Id of the top-level screen."""

    @property
    def path(self) -> list[str]:
        """Titles of the screens that ``q`` goes back to, and of the current one."""

    def action_screen(self, name: str) -> None:
        """Switch to a top-level screen."""

    def action_chart_window(self) -> None:
        """Change the window of all charts."""

    def call_for_answer(self, drill: str, step: str, text: str) -> None:
        """Call the user for a question that a drill asks here, unless that was done."""

    def ignore_typing(self) -> None:
        """Ignore letters for two seconds: they are typed for a dialog that does not come."""

    def report(self, text: str, *, error: bool = False, more: str = "") -> None:
        """Say what came of an action, in a notification and in the event log."""

    def jump(self, name: str) -> AwaitMount:
        """Switch to a top-level screen from which ``q`` goes back to the current one."""

    async def jump_to_top(self, name: str) -> bool:
        """Jump to a top-level screen and close its details; False if one of them has to stay."""

    def open_pipeline(self, file: Path) -> None:
        """Leave for another pipeline of the directory."""


class ConsoleScreen(Screen[None]):
    """Base class of all screens; see :mod:`k2ktui.console.screens`.

    Attributes:
        HELP: what ``?`` shows above the keys.
        CHANGES: names of actions that change a cluster, or start or stop a job.
        ENTRY: id of the screen's entry in the table of screens; a detail has its parent's id.
        DETAILS: screens opened from this one that have keys of their own.
    """

    HELP: ClassVar[str | None] = None
    CHANGES: ClassVar[frozenset[str]] = frozenset()
    ENTRY: ClassVar[str] = ""
    DETAILS: ClassVar[tuple[type[ConsoleScreen], ...]] = ()

    def __init__(self) -> None:
        super().__init__()
        # Background jobs whose result is not yet reported, by group.
        self._unreported: dict[str, Worker[None]] = {}

    @property
    def console(self) -> Console:
        """The app."""
        return cast("Console", self.app)

    @property
    def session(self) -> Session:
        """State that all screens share."""
        return self.console.session

    # For subclasses

    def body(self) -> Iterable[Widget]:
        """Yield the screen's own widgets."""
        return ()

    def show_view(self, view: View) -> None:
        """Show a view; called on the UI thread for every new view."""

    def table(self) -> Table | None:
        """Return the table that an export writes."""
        return None

    def document(self) -> str | None:
        """Return the JSON that an export writes; None exports the whole view."""
        return None

    def markdown(self) -> str | None:
        """Return the Markdown that an export writes, too; None without one."""
        return None

    def text_to_copy(self) -> str:
        """Return the text to copy to the terminal's clipboard."""
        return ""

    def commands(self) -> Iterable[Command]:
        """Yield commands by name that are not a key of the screen alone: those with an argument."""
        return ()

    def refusal(self, action: str) -> str:
        """Return why an action is unavailable now, which grays out its key; empty if it is not."""
        return self.session.access.reason if action in self.CHANGES else ""

    @property
    def shows_contents(self) -> bool:
        """Whether contents of records are readable on the screen: then it is not photographed."""
        return False

    @property
    def crumb(self) -> str:
        """The screen's name in the path of open screens."""
        return ""

    def reason_to_stay(self) -> str:
        """Return why the screen cannot be left now; empty if it can."""
        return ""

    def session_work(self) -> list[str]:
        """Return what this screen runs, as sentences for the dialog that leaves the console."""
        held = self.reason_to_stay()
        return [f"In progress: {held}."] if held else []

    def background(
        self,
        group: str,
        job: Callable[[], T],
        done: Callable[[T], None],
        failed: Callable[[K2kError], None] | None = None,
    ) -> bool:
        """Run ``job`` on a thread, then ``done`` with its result on the UI thread.

        Returns:
            Whether it was started; it is not while another job of the group runs.
        """
        earlier = self._unreported.get(group)
        if earlier is not None and earlier.state in (WorkerState.PENDING, WorkerState.RUNNING):
            return False

        def here(call: Callable[[], None]) -> None:
            def over() -> None:
                # From here the result is visible, so the next job may start; the worker itself
                # ends a moment later.
                self._unreported.pop(group, None)
                call()

            # The console may have been closed while the job ran.
            if self.is_attached and self.app.is_running:
                self.app.call_from_thread(over)

        def run() -> None:
            try:
                result = job()
            except K2kError as error:
                caught = error
                here(lambda: (failed or self.inform_error)(caught))
            except Exception as error:  # a bug in one job must not end the console
                bug = fault(error)
                here(lambda: (failed or self.inform_error)(bug))
            else:
                here(lambda: done(result))

        self._unreported[group] = self.run_worker(
            run, group=group, thread=True, exit_on_error=False
        )
        return True

    async def ask(self, dialog: Dialog[T]) -> T | None:
        """Open a dialog and return its result; call it in a worker of the group ``ask``.

        A second click in the same tick begins a second worker before the dialog of the first is
        open: it gets None, and opens nothing above that dialog.
        """
        if isinstance(self.app.screen, Dialog):
            return None
        return cast("T | None", await self.app.push_screen_wait(dialog))

    async def ask_about(
        self,
        dialog: Confirm,
        read: Callable[[Callable[[T], None], Callable[[K2kError], None]], bool],
        describe: Callable[[T], Sequence[str | Line]],
    ) -> T | None:
        """Open a dialog at once, and show in it what is read meanwhile; as :meth:`ask`.

        Args:
            dialog: the dialog, without details.
            read: begins to read on a thread, and returns whether it does; calls one of its
                arguments with the result or the error, which is shown already.
            describe: returns the details; empty if there is nothing to ask.

        Returns:
            What was read and shown, if the operator agreed; else None.
        """
        values: list[T] = []

        def done(value: T) -> None:
            if dialog.is_over:
                return
            if lines := describe(value):
                values.append(value)
                dialog.show_details(lines)
            else:
                self._withdraw(dialog)

        if not read(done, lambda _: self._withdraw(dialog)):
            return None
        return values[0] if await self.ask(dialog) else None

    def _withdraw(self, dialog: Confirm) -> None:
        if not dialog.is_over:
            self.console.ignore_typing()
            dialog.withdraw()

    def inform(self, text: str, how: Literal["information", "warning", "error"]) -> None:
        """Show a notification; untrusted names in it are sanitized."""
        safe = "\n".join(safe_message(line) for line in text.splitlines())
        self.notify(safe, severity=how, markup=False)

    def inform_error(self, error: K2kError) -> None:
        """Show an error as a notification."""
        self.inform(str(error), "error")

    # Frame

    def compose(self) -> ComposeResult:
        """Yield the header, the banner, the body and the footer."""
        yield header.HeaderBar(id="header")
        yield BannerLines()
        yield from self.body()
        yield KeyFooter()

    def on_mount(self) -> None:
        """Show the last view; Textual also calls this handler, after that of a subclass."""
        self.console.opened.append(self)
        self.refresh_view()

    def on_unmount(self) -> None:
        """Forget the screen; Textual also calls this handler, after that of a subclass."""
        self.console.opened.remove(self)

    def on_screen_resume(self) -> None:
        """Show the last view; Textual also calls this handler, after that of a subclass."""
        self.refresh_view()

    def on_resize(self) -> None:
        """Draw the header for the new width; Textual also calls this handler, as above."""
        self.refresh_chrome()

    @on(ViewArrived)
    def _arrived(self) -> None:
        self.refresh_view()

    def refresh_view(self) -> None:
        """Redraw the header and show the last view."""
        self.refresh_chrome()
        view = self.console.view
        if view is not None and self.is_mounted:
            self.show_view(view)

    def update_frame(self) -> None:
        """Update ages and warnings; another number of warnings leaves other room for the view."""
        if not self.query("#header"):
            return
        room = self.room_lines
        self.refresh_chrome()
        if self.room_lines != room:
            self.refresh_view()

    def refresh_chrome(self) -> None:
        """Update the header and the banner: ages and warnings."""
        try:
            bar = self.query_one("#header", header.HeaderBar)
        except NoMatches:
            return
        view, glyphs, width = self.console.view, glyphs_of(self), self.size.width - 2
        mode = self.console.current_mode
        entries = [(e.key, e.title, e.id == mode) for e in self.console.entries]
        lines = [header.header(self.session, view, width, glyphs), header.tabs(entries, width)]
        path = self.console.path
        if len(path) > 1:
            lines.append(header.breadcrumbs(path, width, glyphs))
        bar.show(lines)
        may = self.session.access
        off: list[Line] = []
        if not may.writable and self.CHANGES:
            off.append((Cell(f"changes are off: {may.reason}", Tone.MUTED),))
        items = banner(self.session, view, self.console.notes, glyphs)
        self.query_one(BannerLines).show_items(items, off)

    @property
    def room_lines(self) -> int:
        """The lines between the banner and the keys.

        By the lines of header and banner: the sizes of both are those of the last layout.
        """
        above = len(self.query_one(header.HeaderBar).lines)
        warnings = len(self.query_one(BannerLines).lines)
        return self.size.height - above - min(_HIGHEST_BANNER, warnings) - 1

    @on(header.HeaderBar.TabClicked)
    def _tab_clicked(self, event: header.HeaderBar.TabClicked) -> None:
        self.console.action_screen(self.console.entries[event.number].id)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Gray out actions that are unavailable now."""
        if self.refusal(action):
            return None
        return super().check_action(action, parameters)

    def on_key(self, event: events.Key) -> None:
        """Explain why a grayed-out key does nothing."""
        active = self.active_bindings.get(event.key)
        why = "" if active is None or active.enabled else self.refusal(active.binding.action)
        if active is not None and why:
            self.inform(f"{active.binding.description}: {why}", "warning")
            event.stop()
            if active.binding.action in self.CHANGES:
                self.console.ignore_typing()  # the name, for the dialog that does not come


class ListScreen(ConsoleScreen):
    """A screen with one table and a filter."""

    BINDINGS: ClassVar[list[BindingType]] = [
        # With priority: characters typed right behind it, as over a slow line, go to the filter.
        Binding("slash", "filter", "Filter", id="filter", key_display="/", priority=True),
        Binding("s", "sort", "Sort", id="sort"),
        Binding("S", "reverse", "Reverse", id="reverse", show=False),
        Binding("z", "problems", "Problems", id="problems"),
    ]

    # The title of the panel around the table, whose note is the summary.
    PANEL: ClassVar[str]
    _side_timer: Timer | None = None

    def grid(self) -> Grid[object]:
        """The screen's table."""
        return self.query_one(Grid)

    def body(self) -> Iterable[Widget]:
        """Yield the table, what stands beside it, and the filter, which is hidden until used."""
        with Horizontal(id="list"):
            yield Panel(self.PANEL, self.make_grid(), id="table")
            yield from self.side()
        yield FootLine()

    def side(self) -> Iterable[Widget]:
        """Yield what stands beside the table in its panel: a panel with the id ``side``."""
        return ()

    def show_side(self) -> None:
        """Show the row under the cursor in the panel beside the table.

        Called for a new size, and once the cursor rests on a row; ``show_view`` calls it, too.
        """

    def make_grid(self) -> Widget:
        """Create the table."""
        raise NotImplementedError

    def summary(self) -> Line:
        """Return the note of the panel around the table; its end may be cut."""
        return ()

    def on_mount(self) -> None:
        """Hide the line below the table, and focus the table."""
        self.query_one(FootLine).display = False
        self.grid().focus()

    def show_row(self, key: Hashable) -> bool:
        """Move the cursor to the row with a key, whatever hides it; return whether there is one."""
        grid = self.grid()
        if not grid.select(key):
            grid.set_filter("")
            grid.set_problems_only(False)
        grid.focus()
        return grid.select(key)

    def table(self) -> Table | None:
        """Return the rows that pass the filter."""
        return self.grid().table()

    def text_to_copy(self) -> str:
        """Return the row under the cursor, tab-separated."""
        row = self.grid().current
        return "" if row is None else self.grid().row_text(row)

    def action_filter(self) -> None:
        """Show and focus the filter input."""
        foot = self.query_one(FootLine)
        if not foot.is_mounted:
            self.call_later(self.action_filter)
            return
        entry = self.query_one("#filter", Input)
        foot.display = entry.display = True
        self.set_focus(entry)
        foot.show(self.grid())

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Treat ``/`` as text while an input has the focus."""
        if action == "filter" and isinstance(self.focused, Input):
            return False
        return super().check_action(action, parameters)

    def commands(self) -> Iterable[Command]:
        """Yield the command that sorts by a column."""
        names = self.grid().sortable
        if names:
            yield Command("sort", "sort by a column, or by the next", self._sort_by, (), "s", names)
        if self.grid().optional:
            title = "hide a column, or show it again; without a name, all"
            yield Command("columns", title, self._choose_column, (), "", self.grid().optional)

    def _choose_column(self, column: str) -> None:
        grid = self.grid()
        grid.hide(grid.left_out ^ {column} if column else ())
        hidden = [column_id for column_id in grid.optional if column_id in grid.left_out]
        text = f"hidden: {', '.join(hidden)}" if hidden else "all columns are shown that fit"
        self.console.report(f"columns: {text}")

    def _sort_by(self, column: str) -> None:
        if column:
            self.grid().sort_by(column)
        else:
            self.grid().sort_next()

    def action_sort(self) -> None:
        """Sort by the next column."""
        self.grid().sort_next()

    def action_reverse(self) -> None:
        """Reverse the order."""
        self.grid().sort_reverse()

    def action_problems(self) -> None:
        """Toggle between problems only and all rows."""
        self.grid().set_problems_only(not self.grid().problems_only)

    def leave_filter(self) -> bool:
        """Leave the chosen cell, or clear the filter; return whether there was either."""
        foot, grid = self.query_one(FootLine), self.grid()
        if not foot.is_mounted:
            return False
        entry = self.query_one("#filter", Input)
        used = foot.display
        if used and grid.chosen_cell is not None and not entry.has_focus:
            grid.choose_cell(None)
            return True
        entry.value = ""
        grid.choose_cell(None)
        grid.set_filter("")
        grid.set_problems_only(False)
        grid.focus()
        foot.display = False
        return used

    @on(Input.Changed, "#filter")
    def _filter_changed(self, event: Input.Changed) -> None:
        self.grid().set_filter(event.value)

    @on(Input.Submitted, "#filter")
    def _filter_done(self) -> None:
        self.grid().focus()
        self.call_after_refresh(self._show_foot)

    @on(Input.Blurred, "#filter")
    def _show_foot(self) -> None:
        if self.is_mounted:
            self.query_one(FootLine).show(self.grid())

    def on_resize(self) -> None:
        """Draw the panel beside the table once it has its new size, for which it wraps its lines.

        Textual calls the base's handler, too.
        """
        self.call_after_refresh(self._draw_side)

    def _draw_side(self) -> None:
        if self.query("#side"):
            self.show_side()

    @on(Grid.Changed)
    def _rest_on_row(self) -> None:
        if self._side_timer is not None:
            self._side_timer.stop()
        if self.query("#side"):
            self._side_timer = self.set_timer(_REST_S, self.show_side)

    @on(Grid.Changed)
    def show_summary(self) -> None:
        """Show the note of the panel around the table, and the line below it."""
        note = [glyphs_of(self).text(part.text) for part in self.summary() if part.text]
        self.query_one(FootLine).show(self.grid())
        self.query_one("#table", Panel).label(self.PANEL, *note)
