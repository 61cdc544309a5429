"""The Textual app: screens and their shared view, keys, themes, notifications and the clipboard."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator
from functools import partial
from importlib import import_module
from typing import ClassVar

from textual import on
from textual.app import SystemCommand
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.scrollbar import ScrollBar, ScrollBarRender
from textual.widget import AwaitMount

from k2ktui.console import cli_equivalent, gc_tuning, terminal
from k2ktui.console._textual import add_bindings
from k2ktui.console.actions import ActionApp
from k2ktui.console.background import abandon_on_exit
from k2ktui.console.event_log import EventLog
from k2ktui.console.keys import GLOBAL, REPLAY, KeyFile, KeyUse, bindings_of, key_file, load_keys
from k2ktui.console.leaving import LEAVE, LeaveDialog
from k2ktui.console.messages import ViewArrived
from k2ktui.console.screens import available
from k2ktui.console.screens.base import ConsoleScreen, Entry, ListScreen
from k2ktui.console.screens.event_log import EventLogScreen
from k2ktui.console.screens.help import Help
from k2ktui.console.session import Session
from k2ktui.console.theming import PlainBar
from k2ktui.console.widgets.dialog import Dialog
from k2ktui.console.widgets.palette import Palette
from k2ktui.text import safe_text
from k2ktui.watch.model import View, pause_view

_AGE_S, _THEMES_S = 1.0, 5.0
_SWITCH_S = 0.001


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
        (120, "-wide"),
    ]
    VERTICAL_BREAKPOINTS = [  # noqa: RUF012 - as Textual declares it
        (0, "-low"),
        (32, "-high"),
    ]
    BINDINGS: ClassVar[list[BindingType]] = [*GLOBAL]

    def __init__(self, session: Session) -> None:
        self.entries: list[Entry] = available()
        self.opened: list[ConsoleScreen] = []
        self.events = EventLog(session.feed.now, cli_equivalent.poll(session.files))
        self._came_from: list[str] = []
        self._failed = ""
        self._latest: View | None = None
        super().__init__(session)
        added = [*(REPLAY if session.feed.replay else ())]
        for entry in self.entries:
            self.add_mode(entry.id, entry.make)
            action, name = f"screen('{entry.id}')", f"screen.{entry.id}"
            added.append(Binding(entry.key, action, entry.title, show=False, id=name))
        add_bindings(self, added)

    # Views

    def on_mount(self) -> None:
        """Load keys and theme, show the first screen, and start the feed and the timers."""
        self.set_class(self.ascii, "-ascii")
        ScrollBar.renderer = PlainBar if self.ascii else ScrollBarRender
        self._load_keys()
        self.choose_theme()
        self.switch_mode(self.entries[0].id)
        abandon_on_exit()
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
        for screen in self.screen_stack:
            if isinstance(screen, ConsoleScreen):
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
        for screen in self.screen_stack:
            if isinstance(screen, ConsoleScreen):
                screen.refresh_chrome()

    # Keys

    def _load_keys(self) -> None:
        found: KeyFile = load_keys(self.session.options.keys or key_file(), self.key_uses())
        self.set_keymap(dict(found.keys))
        self.notes += found.errors

    def key_uses(self) -> Iterator[KeyUse]:
        """Yield what a key file can remap; imports every screen."""
        from k2ktui.console.widgets.banner_lines import BannerLines
        from k2ktui.console.widgets.selectable_grid import SelectableGrid

        made = [entry.make() for entry in self.entries]
        screens = [*map(type, made), *(kind for screen in made for kind in screen.DETAILS)]
        shared = [*REPLAY, *bindings_of(type(self), SelectableGrid, BannerLines)]
        yield from (KeyUse(each.id, each.key) for each in shared if each.id)
        yield from (KeyUse(f"screen.{entry.id}", entry.key) for entry in self.entries)
        used: dict[tuple[str, str], set[str]] = {}
        for kind in screens:
            for binding in bindings_of(kind):
                if binding.id:
                    used.setdefault((binding.id, binding.key), set()).add(kind.__name__)
        yield from (KeyUse(*key, frozenset(names)) for key, names in used.items())

    # Commands

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Yield the palette's commands: the screens, and every key of the current screen."""
        for entry in self.entries:
            action = partial(self.action_screen, entry.id)
            yield SystemCommand(entry.title, f"Screen {entry.key}", action)
        for active in screen.active_bindings.values():
            binding = active.binding
            # Cursor movement is useless in a list of commands, and the screens are listed already.
            idle = not binding.id or binding.id.startswith(("grid.", "screen."))
            if binding.description and active.enabled and not idle:
                run = partial(self._run_in, active.node, binding.action)
                key = self.get_key_display(binding)
                yield SystemCommand(binding.description, f"Key {key}", run)

    def action_command_palette(self) -> None:
        """Open the palette, which lists screens and commands by name."""
        if not isinstance(self.screen, Dialog):
            self.push_screen(Palette(placeholder="Screen or command"))

    async def _run_in(self, node: object, action: str) -> None:
        await self.run_action(action, node)  # type: ignore[arg-type]

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
        """Switch to a top-level screen; on that screen already, close its details."""
        if not isinstance(self.screen, ConsoleScreen):
            return  # a dialog waits for an answer
        self._came_from = []
        if self.current_mode != name:
            self.switch_mode(name)
            return
        while len(self.screen_stack) > 1 and not self._must_stay():
            self.pop_screen()
        self.update_frame()

    def jump(self, name: str) -> AwaitMount:
        """Switch to a top-level screen from which ``q`` goes back to the current one."""
        if name != self.current_mode:
            self._came_from = [each for each in self._came_from if each != name]
            self._came_from.append(self.current_mode)
        return self.switch_mode(name)

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
        """Go back; on the top level, leave the console, and ask first if that ends anything."""
        if self._must_stay() or await self._go_back():
            return
        choices, work = self.session.leave_choices, self.describe_session_work()
        if not choices and not work:
            self.exit(0)
            return
        dialog = LeaveDialog(self.session.pair.pipeline, work, choices or (LEAVE,))
        self.push_screen(dialog, self._leave)

    def _leave(self, result: int | None) -> None:
        if result is not None:
            self.exit(result)

    def describe_session_work(self) -> list[str]:
        """Return what this session runs, as sentences for the leave dialog."""
        found = [line for screen in self.opened for line in screen.session_work()]
        recorder = self.session.recorder
        if recorder is not None and not recorder.error:
            found.append(f"The recording {safe_text(recorder.path, 200)} ends.")
        return found

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
        session.feed.close()
        if session.recorder is not None:
            session.recorder.close()
    if app.fault is not None:
        raise app.fault
    return ended[0] if ended else app.return_value or 0
