"""The Textual app: screens and their shared view, keys, themes, notifications and the clipboard."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import ClassVar

from textual import on
from textual.app import SystemCommand
from textual.binding import Binding, BindingType
from textual.command import CommandPalette
from textual.dom import DOMNode
from textual.screen import Screen
from textual.scrollbar import ScrollBar, ScrollBarRender
from textual.theme import Theme

from k2ktui.console import export, gc_tuning, terminal
from k2ktui.console._textual import add_bindings
from k2ktui.console.background import abandon_on_exit
from k2ktui.console.keys import GLOBAL, REPLAY, KeyFile, key_file, load_keys
from k2ktui.console.messages import ViewArrived
from k2ktui.console.screens import available
from k2ktui.console.screens.base import ConsoleScreen, Entry, ListScreen
from k2ktui.console.screens.help import Help
from k2ktui.console.session import Session
from k2ktui.console.themes import (
    DEFAULT,
    load_themes,
    own_directory,
    shipped_directory,
    stamp,
    status_defaults,
)
from k2ktui.console.widgets.confirm import Confirm
from k2ktui.console.widgets.minimum_size import SizedApp
from k2ktui.console.widgets.text_prompt import TextPrompt
from k2ktui.errors import ConfigError, K2kError
from k2ktui.text import safe_text
from k2ktui.watch.feed import MIN_INTERVAL_S
from k2ktui.watch.model import View
from k2ktui.watch.player import Player, parse_time

_CLIPBOARD = 74_000
_AGE_S, _THEMES_S = 1.0, 5.0
_SWITCH_S = 0.001


class ConsoleApp(SizedApp):
    """The console app of one session.

    Attributes:
        session: the feed and everything else that the screens share.
        view: the last view; None until the first one arrives.
        entries: the available screens.
        notes: problems in the user's own files, and notes from the caller.
    """

    CSS_PATH = "styles/console.tcss"
    TITLE = "k2ktui"
    ENABLE_COMMAND_PALETTE = True
    HORIZONTAL_BREAKPOINTS = [  # noqa: RUF012 - as Textual declares it
        (0, "-narrow"),
        (80, "-normal"),
        (120, "-wide"),
    ]
    BINDINGS: ClassVar[list[BindingType]] = [*GLOBAL]

    def __init__(self, session: Session) -> None:
        self.session = session
        self.ascii = session.options.ascii
        self.view: View | None = None
        self.entries: list[Entry] = available()
        self.notes: list[str] = list(session.notes)
        self._stamp: object = None
        self._own_notes: list[str] = []
        self._failed = ""
        super().__init__()
        self._directories = session.options.themes or (shipped_directory(), own_directory())
        self._load_themes()
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
        ScrollBar.renderer = terminal.PlainBar if self.ascii else ScrollBarRender
        self._load_keys()
        self._choose_theme()
        self.switch_mode(self.entries[0].id)
        abandon_on_exit()
        self.session.feed.start(self._take)
        self.set_interval(_AGE_S, self._tick)
        self.set_interval(_THEMES_S, self._look_at_themes)
        self.set_interval(gc_tuning.EVERY_S, gc_tuning.collect)

    def _take(self, view: View) -> None:
        """Record a view and post it to the app; runs on the feed's thread."""
        if self.session.recorder is not None:
            self.session.recorder.add(view)
        self.post_message(ViewArrived(view))

    @on(ViewArrived)
    def _arrived(self, event: ViewArrived) -> None:
        self.view = event.view
        for screen in self.screen_stack:
            if isinstance(screen, ConsoleScreen):
                screen.post_message(ViewArrived(event.view))

    def _tick(self) -> None:
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

    # Themes and keys

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Return status colors for themes that do not define them."""
        return status_defaults(self.current_theme)

    def _load_themes(self) -> None:
        self._stamp = stamp(self._directories)
        loaded = load_themes(self._directories)
        for theme in loaded.themes.values():
            self.register_theme(theme)
        self._note_own(loaded.errors)

    def _note_own(self, errors: Iterable[str]) -> None:
        self.notes = [note for note in self.notes if note not in self._own_notes]
        self._own_notes = list(errors)
        self.notes += self._own_notes

    def _choose_theme(self) -> None:
        wanted = self.session.options.theme or DEFAULT
        if wanted not in self.available_themes:
            self.notes.append(f"there is no theme {safe_text(wanted, 40)}; t lists them")
            wanted = DEFAULT
        self.theme = wanted

    def _look_at_themes(self) -> None:
        """Reload changed theme files on a thread: the home directory may be a network mount."""

        def look() -> None:
            if stamp(self._directories) != self._stamp and self.is_running:
                self.call_from_thread(self._reload_themes)

        self.run_worker(look, group="themes", thread=True, exclusive=True, exit_on_error=False)

    def _reload_themes(self) -> None:
        before: Theme | None = self.available_themes.get(self.theme)
        self._load_themes()
        if self.available_themes.get(self.theme) != before:
            self.refresh_css(animate=False)
            self.mutate_reactive(ConsoleApp.theme)  # the name is the same, its colors are not

    def _load_keys(self) -> None:
        found: KeyFile = load_keys(self.session.options.keys or key_file(), self.binding_ids())
        self.set_keymap(dict(found.keys))
        self.notes += found.errors

    def binding_ids(self) -> list[str]:
        """Return the ids of all keys that a key file can remap."""
        from k2ktui.console.widgets.grid import Grid

        made = [entry.make() for entry in self.entries]
        details = [kind for screen in made for kind in screen.DETAILS]
        kinds: list[type[DOMNode]] = [type(self), ListScreen, Grid, *map(type, made), *details]
        found = [b.id for kind in kinds for b in kind.BINDINGS if isinstance(b, Binding) and b.id]
        found += [f"screen.{entry.id}" for entry in self.entries]
        return list(dict.fromkeys([*found, *(b.id for b in REPLAY if b.id)]))

    # Actions

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
        if not isinstance(self.screen, CommandPalette):
            self.push_screen(CommandPalette(placeholder="Screen or command"))

    async def _run_in(self, node: object, action: str) -> None:
        await self.run_action(action, node)  # type: ignore[arg-type]

    def action_screen(self, name: str) -> None:
        """Switch to a screen; on that screen already, close its details."""
        if self.current_mode == name:
            while (
                isinstance(self.screen, ConsoleScreen)
                and len(self.screen_stack) > 1
                and not self._held()
            ):
                self.pop_screen()
            return
        if not self.screen.is_modal:
            self.switch_mode(name)

    def action_help(self) -> None:
        """Show the help of the current screen and its keys."""
        if isinstance(self.screen, ConsoleScreen):
            self.push_screen(Help(self.screen))

    def action_refresh(self) -> None:
        """Poll both clusters now."""
        self.session.feed.refresh()

    def action_pause(self) -> None:
        """Pause or resume polling."""
        feed = self.session.feed
        feed.pause(not feed.paused)
        self._tick()

    def action_interval(self, by: int) -> None:
        """Change the polling interval by ``by`` seconds."""
        feed = self.session.feed
        feed.set_interval(max(MIN_INTERVAL_S, feed.interval + by))
        self._tell(f"every {feed.interval:g} s")

    def action_step(self, by: int) -> None:
        """Step ``by`` views forward (or back, if negative) in a recording."""
        if isinstance(self.session.feed, Player):
            self.session.feed.step(by)

    def action_seek(self) -> None:
        """Prompt for a time and seek to it in a recording."""
        feed = self.session.feed
        if not isinstance(feed, Player):
            return

        def chosen(text: str | None) -> None:
            if not text:
                return
            try:
                feed.seek(parse_time(text, feed.times))
            except ConfigError as error:
                self._tell(str(error), error=True)

        self.push_screen(
            TextPrompt("Go to HH:MM:SS (UTC), or +SECONDS from the beginning:"), chosen
        )

    def action_export(self) -> None:
        """Write what is shown to files in the working directory."""
        screen, view = self.screen, self.view
        if not isinstance(screen, ConsoleScreen) or view is None:
            return
        table, name, document = screen.table(), screen.ENTRY or "view", screen.document()

        def job() -> list[Path]:
            try:
                return export.write(Path.cwd(), view, name, table, document)
            except OSError as error:
                raise K2kError(f"nothing was exported: {error.strerror or error}") from None

        screen.background("export", job, self._exported)

    def _exported(self, paths: list[Path]) -> None:
        self._tell("written:\n" + "\n".join(safe_text(path) for path in paths))

    def action_copy(self) -> None:
        """Copy the item under the cursor to the terminal's clipboard."""
        text = self.screen.copied() if isinstance(self.screen, ConsoleScreen) else ""
        if not text:
            return
        if len(text.encode()) > _CLIPBOARD:
            self._tell("too long for the terminal's clipboard; e writes a file", error=True)
            return
        self.copy_to_clipboard(text)
        # The terminal sends no acknowledgment: tmux and some terminals drop the sequence.
        self._tell("sent to the terminal's clipboard (OSC 52); e writes a file")

    def action_shot(self) -> None:
        """Save a screenshot in the working directory."""
        try:
            path = self.save_screenshot(path=str(Path.cwd()))
        except OSError as error:
            self._tell(f"no screenshot: {error.strerror or error}", error=True)
        else:
            self._tell(f"written:\n{safe_text(path)}")

    def action_unlock(self) -> None:
        """Allow changes in a session of a production pair after the pipeline's name is typed."""
        may, pair = self.session.access, self.session.pair.pipeline
        if may.writable:
            self._lock_again()
            return
        if not may.unlockable:
            self._tell(f"cannot be unlocked: {may.reason}", error=True)
            return

        def answered(agreed: bool | None) -> None:
            if agreed:
                self.session.unlocked = True
                self.refresh_bindings()
                self._tick()

        lines = ["Until you leave the console, plans can be applied and jobs started and stopped."]
        self.push_screen(Confirm("Unlock this session", lines, pair, "Unlock"), answered)

    def _lock_again(self) -> None:
        if self.session.unlocked:
            self.session.unlocked = False
            self.refresh_bindings()
            self._tick()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Hide the actions that do not apply now."""
        if action == "unlock":
            return self.session.access.unlockable or self.session.unlocked
        return super().check_action(action, parameters)

    def action_back_only(self) -> None:
        """Clear the filter or close a detail; never quit."""
        screen = self.screen
        if isinstance(screen, ListScreen) and screen.leave_filter():
            return
        if len(self.screen_stack) > 1 and not self._held():
            self.pop_screen()

    async def action_back(self) -> None:
        """Close a detail, or quit from a top-level screen. Started jobs keep running."""
        if self._held():
            return
        if len(self.screen_stack) > 1:
            self.pop_screen()
        else:
            self.exit(0)

    def _held(self) -> bool:
        """Return whether the screen must stay open, and notify the operator of the reason."""
        why = self.screen.held() if isinstance(self.screen, ConsoleScreen) else ""
        if why:
            self._tell(why, error=True)
        return bool(why)

    def _tell(self, text: str, *, error: bool = False) -> None:
        self.notify(text, severity="error" if error else "information", markup=False)


def open_console(session: Session) -> int:
    """Run the console until the operator leaves it, then close the feed and the recorder.

    Returns:
        The number of the signal that ended it; 0 if the operator left.

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
    return ended[0] if ended else 0
