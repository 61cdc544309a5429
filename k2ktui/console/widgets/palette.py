"""The palette, which lists commands or themes by name; it runs one, once."""

from __future__ import annotations

from textual import on
from textual.command import CommandPalette
from textual.message import Message
from textual.widgets import Button, Input, OptionList

from k2ktui.console.widgets.dialog import Dialog


class Palette(CommandPalette, Dialog[None]):
    """Textual's palette, in which a second Enter or click does nothing."""

    @on(OptionList.OptionSelected)
    @on(Input.Submitted)
    @on(Button.Pressed)
    def _once(self, event: Message) -> None:
        if self.is_over:
            event.stop()
            event.prevent_default()  # Textual would run the command again
