"""Warnings above a screen; Enter or a click shows their whole text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType

from k2ktui.console.banner import BannerItem
from k2ktui.console.widgets.text_dialog import TextDialog
from k2ktui.console.widgets.text_lines import TextLines
from k2ktui.present.formatting import Line


class BannerLines(TextLines):
    """The warnings; takes the focus (Tab) only while there are any."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "Whole text", id="banner.open"),
    ]

    def __init__(self) -> None:
        super().__init__(id="banner")
        self._items: Sequence[BannerItem] = ()

    def show_items(self, items: Sequence[BannerItem], more: Sequence[Line]) -> None:
        """Show warnings, and lines without a longer text below them."""
        self._items = items
        if self.can_focus and not items and self.has_focus:
            self.screen.focus_next()
        self.can_focus = bool(items)
        self.show([*(item.line for item in items), *more])

    def on_click(self, event: events.Click) -> None:
        """Show the whole texts."""
        self.action_open()

    def action_open(self) -> None:
        """Show the whole texts."""
        if self._items:
            self.app.push_screen(TextDialog("Warnings", [item.text for item in self._items]))
