"""The Textual app: screens and their shared view, keys, themes, notifications and the clipboard."""

from __future__ import annotations

import asyncio
import contextlib
import math
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import SystemCommand
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.scrollbar import ScrollBar, ScrollBarRender
from textual.widget import AwaitMount

from k2ktui import diagnostics
from k2ktui.console import cli_equivalent, gc_tuning, terminal
from k2ktui.console._textual import add_bindings
from k2ktui.console.actions import ActionApp
from k2ktui.console.calls import SWITCHES, Call, Calls, call_for, list_calls, list_fleet_calls
from k2ktui.console.commands import Command, unique_names
from k2ktui.console.event_log import EventLog
from k2ktui.console.keys import GLOBAL, REPLAY, KeyFile, KeyUse, bindings_of, key_file, load_keys
from k2ktui.console.leaving import LEAVE, LeaveDialog
from k2ktui.console.places import Place, list_places
from k2ktui.console.screens import FLEET_ENTRY, SITES_ENTRY, available
from k2ktui.console.screens.base import ConsoleScreen, Entry, ListScreen, ViewArrived
from k2ktui.console.screens.event_log import EventLogScreen
from k2ktui.console.screens.help import Help
from k2ktui.console.session import FLEET, Session
from k2ktui.console.site_views import gather_sites
from k2ktui.console.theming import Palette, PlainBar
from k2ktui.console.visuals.panel import HIGH, WIDE
from k2ktui.console.widgets.command_line import CommandLine
from k2ktui.console.widgets.dialog import Dialog
from k2ktui.engine.access import is_production
from k2ktui.text import safe_text
from k2ktui.watch.model import View, pause_view

if TYPE_CHECKING:
    from k2ktui.fleet.model import FleetRow

_AGE_S, _THEMES_S = 1.0, 5.0
_SWITCH_S, _WRITE_S = 0.001, 2.0
_WORD = 40
# Ids of keys that are no commands by name: the cursor's, and those with a command of their own.
_NO_COMMAND = ("grid.", "screen.", "command", "theme", "quit")


class _AbandonedExecutor(ThreadPoolExecutor):
    """Threads that do not delay the exit while they wait for a cluster."""

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Return at once; asyncio would wait."""
        super().shutdown(wait=False, cancel_futures=True)


class ConsoleApp(ActionApp):
    """The console app of one session.

    Attributes:
        entries: the available screens.
        opened: the screens that are open, of all top-level screens.
        events: what happened in this session.
    """

    CSS_PATH = "styles/console.tcss"
    TITLE = "k2ktui"
    ENABLE_COMMAND_PALETTE = True
    HORIZONTAL_BREAKPOINTS = [  # noqa: RUF012 - as Textual declares it
        (0, "-narrow"),
        (80, "-normal"),
        (WIDE, "-wide"),
    ]
    VERTICAL_BREAKPOINTS = [  # noqa: RUF012 - as Textual declares it
        (0, "-low"),
        (HIGH, "-high"),
    ]
    BINDINGS: ClassVar[list[BindingType]] = [*GLOBAL]

    def __init__(self, session: Session) -> None:
        self.entries: list[Entry] = [FLEET_ENTRY] if session.fleet else []
        self.entries += [SITES_ENTRY] if session.shows_fleet else available()
        self.opened: list[ConsoleScreen] = []
        self.events = EventLog(session.feed.now, cli_equivalent.poll(session.files))
        self._came_from: list[str] = []
        self._typed_commands: list[str] = []
        self._failed = ""
        self._latest: View | None = None
        self._calls = Calls()
        super().__init__(session)
        added = [*(REPLAY if session.feed.replay else ())]
        for entry in self.entries:
            self.add_mode(entry.id, entry.make)
            action = f"screen('{entry.id}')"
            added.append(Binding(entry.key, action, entry.title, show=False, id=entry.key_id))
        add_bindings(self, added)

    # Views

    def on_mount(self) -> None:
        """Load keys and theme, show the first screen, and start the feed and the timers."""
        self.set_class(self.ascii, "-ascii")
        environment = self.session.pair.environment
        if is_production(environment):
            self.warning_word = safe_text(environment, _WORD)
            self.set_class(True, "-production")
        ScrollBar.renderer = PlainBar if self.ascii else ScrollBarRender
        self._load_keys()
        self.choose_theme()
        # A pipeline of a fleet begins with its own first screen.
        self.switch_mode(self.entries[1 if self.session.is_of_fleet else 0].id)
        asyncio.get_running_loop().set_default_executor(_AbandonedExecutor())
        self.session.feed.start(self._receive)
        self.set_interval(_AGE_S, self.update_frame)
        self.set_interval(_THEMES_S, self.poll_themes)
        self.set_interval(gc_tuning.EVERY_S, gc_tuning.collect)

    def _receive(self, view: View) -> None:
        """Record a view, note its events and post it to the app; runs on the feed's thread."""
        if self.session.recorder is not None:
            self.session.recorder.add(view)
        self.events.observe(view)
        self.post_message(ViewArrived(view))
        if not self.session.feed.replay and (calls := self._find_calls(view)):
            self.call_later(self.call, calls)

    def _find_calls(self, view: View) -> Sequence[Call]:
        """Return what a view calls for, or the rows of a directory, that did not before."""
        if self.session.shows_fleet:
            rows = self._fleet_rows()
            whole = all(row.taken_at is not None for row in rows)
            return self._calls.find_new(list_fleet_calls(rows), view.taken_at, whole=whole)
        return self._calls.find_new(
            list_calls(view), view.taken_at, whole=view.whole and view.settled
        )

    @on(ViewArrived)
    def _arrived(self, event: ViewArrived) -> None:
        if self.view is None:
            # Not before the first figures are shown, and before the first key opens a screen.
            self.run_worker(self._load_screens, group="load", thread=True, exit_on_error=False)
        self.show_latest(event.view)

    def show_latest(self, view: View | None = None) -> None:
        """Show a new view, or the last one as old or new as polling is paused or not."""
        self._latest = view or self._latest
        if self._latest is None:
            return
        feed = self.session.feed
        if feed.replay:
            self.view = self._latest
        else:
            self.view = pause_view(self._latest, math.inf if feed.paused else self.resumed_at)
        for screen in self._seen_screens():
            screen.post_message(ViewArrived(self.view))

    def _load_screens(self) -> None:
        for entry in self.entries:
            import_module(entry.module)

    def update_frame(self) -> None:
        """Update ages, warnings and the access mode on the open screens."""
        if not self.screen_stack:
            return  # the app is closing: timers outlive the screens
        failed = self.session.watchdog()
        if failed != self._failed:
            self.notes = [note for note in self.notes if note != self._failed]
            self.notes += [failed] if failed else []
            self._failed = failed
        if terminal.is_gone() and not self.is_headless:
            self.exit(0)
        self.fit()
        for screen in self._seen_screens():
            screen.update_frame()

    def _seen_screens(self) -> Iterator[ConsoleScreen]:
        """Yield the screen that is seen, if only beside a dialog.

        Those that it covers would have Textual draw it again as a whole. They show the last view
        when they are uncovered.
        """
        for screen in reversed(self.screen_stack):
            if isinstance(screen, ConsoleScreen):
                yield screen
                return

    # Keys

    def _load_keys(self) -> None:
        key_map: KeyFile = load_keys(self.session.options.keys or key_file(), self.key_uses())
        self.set_keymap(dict(key_map.keys))
        self.notes += key_map.errors

    def key_uses(self) -> Iterator[KeyUse]:
        """Yield what a key file can remap; imports every screen."""
        from k2ktui.console.banner import BannerLines
        from k2ktui.console.widgets.selectable_grid import SelectableGrid

        # A key file is that of both consoles: of a pipeline, and of a directory.
        made = [entry.make() for entry in (*available(), FLEET_ENTRY, SITES_ENTRY)]
        screens = [*map(type, made), *(kind for screen in made for kind in screen.DETAILS)]
        shared = [*REPLAY, *bindings_of(type(self), SelectableGrid, BannerLines)]
        yield from (KeyUse(binding.id, binding.key) for binding in shared if binding.id)
        yield from (KeyUse(entry.key_id, entry.key) for entry in self.entries)
        used: dict[tuple[str, str], set[str]] = {}
        for kind in screens:
            for binding in bindings_of(kind):
                if binding.id:
                    used.setdefault((binding.id, binding.key), set()).add(kind.__name__)
        yield from (KeyUse(*key, frozenset(names)) for key, names in used.items())

    # Commands

    def commands(self, screen: Screen[object]) -> list[Command]:
        """Return what can be done by name: the screens, and every key of the current screen."""
        own = list(screen.commands()) if isinstance(screen, ConsoleScreen) else []
        listed = [
            *(
                Command(e.id, f"screen {e.title}", partial(self._open, e.id), (e.key,), e.key)
                for e in self.entries
            ),
            *own,
            self._go_command(),
            Command("theme", "choose a theme", self._set_theme, arguments=self._theme_names),
            *(
                [
                    Command(
                        "pipeline",
                        "open a pipeline of the directory",
                        self._open_pipeline,
                        arguments=tuple(sorted(self.session.fleet)),
                    )
                ]
                if self.session.fleet
                else []
            ),
            Command("quit", "leave the console", self._quit, ("q",)),
            Command(
                "calls",
                "switch a call off, or on again; without a name, all on",
                self.switch_call,
                arguments=SWITCHES,
                takes="call",
            ),
            Command("forget", "forget the settings of this user", lambda _: self.action_forget()),
        ]
        used = {command.name for command in listed}
        keys: dict[str, Command] = {}
        for active in screen.active_bindings.values():
            binding = active.binding
            name = binding.id or ""
            # Cursor movement is useless in a list of commands; others are there already.
            if not name or not binding.description or name in used or name.startswith(_NO_COMMAND):
                continue
            refusal = "" if active.enabled else "unavailable now"
            if refusal and isinstance(screen, ConsoleScreen):
                refusal = screen.refusal(binding.action) or refusal
            run = partial(self._run_in, active.node, binding.action)
            key = self.get_key_display(binding)
            keys[name] = Command(name, binding.description, run, (), key, (), refusal)
        return [*listed, *unique_names(keys.items(), used)]

    def _go_command(self) -> Command:
        places = (
            {} if self.view is None else list_places(self.view, gather_sites(self._fleet_rows()))
        )
        unread = self.view is None or not (places or self.view.whole)
        none = "nothing is read yet" if unread else "there is no topic, group or drill"

        async def go(name: str) -> None:
            if name:
                await self._go(places[name], name)
            else:
                self.inform("where to? type the name behind :go", error=True)

        return Command(
            "go",
            "go to a topic, a group or a drill",
            go,
            arguments=tuple(places),
            refusal="" if places else none,
            takes="topic, group or drill",
        )

    def _fleet_rows(self) -> Sequence[FleetRow]:
        """Return the rows of the directory that is watched; none of a pipeline's console."""
        if not self.session.shows_fleet:
            return ()
        # Imported late: a pipeline's console does not need it.
        from k2ktui.fleet.feed import FleetFeed

        feed = self.session.feed
        return feed.rows if isinstance(feed, FleetFeed) else ()

    async def _go(self, place: Place, name: str) -> None:
        """Switch to the screen that has a place, and put the cursor on it."""
        screen = self.screen if await self.jump_to_top(place.entry) else None
        if isinstance(screen, ListScreen) and not screen.show_row(place.key):
            self.inform(f"{place.kind} {name} is gone", error=True)

    @property
    def _theme_names(self) -> tuple[str, ...]:
        return tuple(sorted(self.available_themes))

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Yield the palette's commands, which are those of ``:`` without an argument."""
        for command in self.commands(screen):
            if not command.refusal:
                key = f"Key {command.key}  " if command.key else ""
                title = f"{command.title[0].upper()}{command.title[1:]}"
                yield SystemCommand(title, f"{key}:{command.name}", partial(command.run, ""))

    def action_command(self) -> None:
        """Open the line for a command by name."""
        if not isinstance(self.screen, Dialog):
            self.push_screen(CommandLine(self.commands(self.screen), self._typed_commands))

    def action_command_palette(self) -> None:
        """Open the palette, which lists screens and commands by name."""
        if not isinstance(self.screen, Dialog):
            self.push_screen(Palette(placeholder="Screen or command"))

    async def _run_in(self, node: object, action: str, _: str = "") -> None:
        await self.run_action(action, node)  # type: ignore[arg-type]

    def _open(self, name: str, _: str) -> None:
        self.action_screen(name)

    def watch_theme(self, before: str, name: str) -> None:
        """Say which theme was chosen, by whatever way; not at the start, nor after a reload."""
        if self.view is not None and before != name:
            self.report(f"theme {name}")
            self.remembered.change("theme", name)
            self.keep_settings()

    def end_settings(self) -> None:
        """Write what a thread has not written yet; a home directory that hangs is not awaited."""

        def write() -> None:
            with contextlib.suppress(OSError):
                self.remembered.write()

        writer = threading.Thread(target=write, daemon=True)
        writer.start()
        writer.join(_WRITE_S)

    def call_for_answer(self, drill: str, step: str, text: str) -> None:
        """Call the user for a question that a drill asks here, unless that was done."""
        call = call_for(drill, step, text)
        if self._calls.is_new(call):
            self.call([call])

    def opened_screens(self) -> Sequence[ConsoleScreen]:
        """Return the open screens."""
        return tuple(self.opened)

    def _set_theme(self, name: str) -> None:
        if name:
            self.theme = name
        else:
            self.search_themes()

    async def _quit(self, _: str) -> None:
        if not self._must_stay():
            self._ask_to_leave()

    def action_events(self) -> None:
        """Show the event log."""
        if isinstance(self.screen, ConsoleScreen) and not isinstance(self.screen, EventLogScreen):
            self.push_screen(EventLogScreen())

    def action_help(self) -> None:
        """Show the help of the current screen and its keys."""
        if isinstance(self.screen, ConsoleScreen):
            self.push_screen(Help(self.screen))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Hide or gray out the actions that do not apply now."""
        if (action == "interval" and self.session.feed.replay) or (
            action in ("export", "copy") and self.view is None
        ):
            return None
        if action == "unlock":
            return self.session.access.unlockable or self.session.unlocked
        return super().check_action(action, parameters)

    # Navigation

    @property
    def path(self) -> list[str]:
        """The titles of the current screen and of the screens that ``q`` goes back to."""
        titles = {entry.id: entry.title for entry in self.entries}
        top = [titles.get(mode, mode) for mode in (*self._came_from, self.current_mode)]
        stack = [screen for screen in self.screen_stack if isinstance(screen, ConsoleScreen)]
        return [*top, *(screen.crumb for screen in stack[1:])]

    def action_screen(self, name: str) -> None:
        """Switch to a top-level screen as it was left; on it already, close its details."""
        if not isinstance(self.screen, ConsoleScreen):
            return  # a dialog waits for an answer
        if name == FLEET_ENTRY.id and self.session.is_of_fleet:
            self.open_pipeline(FLEET)
            return
        self._came_from = []
        if self.current_mode != name:
            self.switch_mode(name)  # a plan that was made there is still there
            return
        while len(self.screen_stack) > 1 and not self._must_stay():
            self.pop_screen()
        self.update_frame()

    def jump(self, name: str) -> AwaitMount:
        """Switch to a top-level screen from which ``q`` goes back to the current one."""
        if name != self.current_mode:
            self._came_from = [mode for mode in self._came_from if mode != name]
            self._came_from.append(self.current_mode)
        return self.switch_mode(name)

    async def jump_to_top(self, name: str) -> bool:
        """Jump to a top-level screen and close its details; False if one of them has to stay."""
        await self.jump(name)
        while len(self.screen_stack) > 1:
            if self._must_stay():
                return False
            await self.pop_screen()
        return True

    async def _go_back(self) -> bool:
        """Close a detail, or return to where a jump came from; False if there is nothing left."""
        if len(self.screen_stack) > 1:
            self.pop_screen()
        elif self._came_from:
            await self.switch_mode(self._came_from.pop())
        else:
            return False
        self.update_frame()
        return True

    async def action_back_only(self) -> None:
        """Clear the filter or go back; never quit."""
        screen = self.screen
        if isinstance(screen, ListScreen) and screen.leave_filter():
            return
        if not self._must_stay():
            await self._go_back()

    async def action_back(self) -> None:
        """Go back; on the top level, leave the console, and ask first if that ends anything.

        From a pipeline of a fleet, that goes back to the table of pipelines.
        """
        if self._must_stay() or await self._go_back():
            return
        if self.session.is_of_fleet:
            self.open_pipeline(FLEET)
        else:
            self._ask_to_leave()

    def open_pipeline(self, file: Path) -> None:
        """Leave for another pipeline of the fleet, or for the table; ask if that ends anything."""
        if not self._must_stay():
            self._ask_to_leave(file)

    def _open_pipeline(self, name: str) -> None:
        if name:
            self.open_pipeline(self.session.fleet[name])
        else:
            self.inform("which pipeline? type its name behind :pipeline", error=True)

    def _ask_to_leave(self, file: Path | None = None) -> None:
        """Leave, for a pipeline of the fleet if there is a file; ask if that ends anything."""

        def leave(result: int | None) -> None:
            # Not before: Ctrl-Q beside the dialog leaves for nothing.
            if result is not None:
                self.session.leaves_for = file
                self.exit(result)

        choices, work = self.session.leave_choices, self.describe_session_work()
        if not choices and not work:
            leave(0)
            return
        self.push_screen(LeaveDialog(self.session.pair.pipeline, work, choices or (LEAVE,)), leave)

    def describe_session_work(self) -> list[str]:
        """Return what this session runs, as sentences for the leave dialog."""
        lines = [line for screen in self.opened for line in screen.session_work()]
        recorder = self.session.recorder
        if recorder is not None and not recorder.error:
            lines.append(f"The recording {safe_text(recorder.path, 200)} ends.")
        return lines

    def _must_stay(self) -> bool:
        """Return whether the screen must stay open, and notify the operator of the reason."""
        why = self.screen.reason_to_stay() if isinstance(self.screen, ConsoleScreen) else ""
        if why:
            self.inform(why, error=True)
        return bool(why)


def open_console(session: Session) -> int:
    """Run the console until the operator leaves it, then close the feed and the recorder.

    Returns:
        The number of the signal that ended it, or the result of the operator's choice; 0 if the
        operator just left.

    Raises:
        ConfigError: there is no terminal.
    """
    terminal.check()
    diagnostics.set_up().leave_terminal()
    # A key press must not wait long for threads that build views of thousands of partitions.
    sys.setswitchinterval(_SWITCH_S)
    app = ConsoleApp(session)
    ended: list[int] = []

    def end(number: int) -> None:
        ended.append(number)
        app.call_later(app.exit, 0)

    try:
        with terminal.on_hang_up(end), gc_tuning.collect_by_hand():
            app.run(mouse=terminal.wants_mouse(session.options.mouse))
    finally:
        terminal.forget()
        app.end_settings()
        session.feed.close()
        if session.recorder is not None:
            session.recorder.close()
    if app.fault is not None:
        raise app.fault
    return ended[0] if ended else app.return_value or 0
