"""An app with the console's themes: the shipped ones and the user's own, reloaded on change."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from textual import on
from textual.command import CommandPalette
from textual.message import Message
from textual.scrollbar import ScrollBarRender
from textual.theme import Theme, ThemeProvider
from textual.widgets import Button, Input, OptionList

from k2ktui.console.session import Session
from k2ktui.console.settings import SettingsFile
from k2ktui.console.terminal import DEFAULT
from k2ktui.console.themes import (
    load_themes,
    own_directory,
    shipped_directory,
    stamp,
    status_defaults,
)
from k2ktui.console.widgets.dialog import Dialog
from k2ktui.console.widgets.minimum_size import SizedApp
from k2ktui.text import safe_text


class PlainBar(ScrollBarRender):
    """A scroll bar drawn with blanks only, for terminals without block characters."""

    VERTICAL_BARS: ClassVar[list[str]] = [" "] * 8
    HORIZONTAL_BARS: ClassVar[list[str]] = [" "] * 8


class Palette(CommandPalette, Dialog[None]):
    """Textual's palette, in which a second Enter or click does nothing."""

    def must_wait(self, key: str) -> bool:
        """Let Enter wait until what was typed has been searched: the list is of an earlier text."""
        searches = any(worker.node is self and not worker.is_finished for worker in self.workers)
        return super().must_wait(key) or (key == "enter" and searches and not self.is_over)

    @on(OptionList.OptionSelected)
    @on(Input.Submitted)
    @on(Button.Pressed)
    def _once(self, event: Message) -> None:
        if self.is_over:
            event.stop()
            event.prevent_default()  # Textual would run the command again


class ThemedApp(SizedApp):
    """An app whose themes are files.

    Attributes:
        session: the feed and everything else that the screens share.
        ascii: whether to draw with ASCII characters only.
        notes: problems in the user's own files, and notes from the caller.
        remembered: the settings of this user's sessions.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self.ascii = session.options.ascii
        self.notes: list[str] = list(session.notes)
        self.remembered = SettingsFile(session.options.settings)
        self.notes += filter(None, [self.remembered.note])
        self._stamp: object = None
        self._own_notes: list[str] = []
        super().__init__()
        self._directories = session.options.themes or (shipped_directory(), own_directory())
        self.load_themes()

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Return status colors for themes that do not define them."""
        return status_defaults(self.current_theme)

    def search_themes(self) -> None:
        """Show the list of themes."""
        if not isinstance(self.screen, Dialog):
            self.push_screen(Palette(providers=[ThemeProvider], placeholder="Theme"))

    def load_themes(self) -> None:
        """Register the themes of all files, and note the files that cannot be used."""
        self._stamp = stamp(self._directories)
        loaded = load_themes(self._directories)
        for theme in loaded.themes.values():
            self.register_theme(theme)
        self._replace_notes(loaded.errors)

    def _replace_notes(self, errors: Iterable[str]) -> None:
        self.notes = [note for note in self.notes if note not in self._own_notes]
        self._own_notes = list(errors)
        self.notes += self._own_notes

    def choose_theme(self) -> None:
        """Set the theme of the session, the remembered one, or the default one."""
        wanted = self.session.options.theme or self.remembered.settings.theme or DEFAULT
        if wanted not in self.available_themes:
            self.notes.append(f"there is no theme {safe_text(wanted, 40)}; t lists them")
            wanted = DEFAULT
        self.theme = wanted

    def poll_themes(self) -> None:
        """Reload changed theme files on a thread: the home directory may be a network mount."""

        def poll() -> None:
            if stamp(self._directories) != self._stamp and self.is_running:
                self.call_from_thread(self._reload_themes)

        self.run_worker(poll, group="themes", thread=True, exclusive=True, exit_on_error=False)

    def _reload_themes(self) -> None:
        before: Theme | None = self.available_themes.get(self.theme)
        self.load_themes()
        if self.available_themes.get(self.theme) != before:
            self.refresh_css(animate=False)
            self.mutate_reactive(ThemedApp.theme)  # the name is the same, its colors are not
