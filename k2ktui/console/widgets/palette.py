"""The palette, which lists commands or themes by name; it runs one, once."""

from __future__ import annotations

from textual import on
from textual.command import CommandPalette
from textual.message import Message
from textual.widgets import Button, Input, OptionList

from k2ktui.console.widgets.dialog import Dialog


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
