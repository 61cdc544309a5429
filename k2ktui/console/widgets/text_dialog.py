"""A dialog that shows whole texts, wrapped and scrollable; they can be selected and copied."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import Static

from k2ktui.console.widgets.dialog import Dialog
from k2ktui.console.widgets.text_lines import TextLines
from k2ktui.present.formatting import Cell, Tone
from k2ktui.text import safe_message


class TextDialog(Dialog[None]):
    """Shows texts; untrusted names in them are sanitized.

    Args:
        title: the heading.
        texts: paragraphs.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter", "close", "Close"),
        Binding("y", "copy_texts", "Copy"),
        Binding("j", "scroll(1)", "Down", show=False),
        Binding("k", "scroll(-1)", "Up", show=False),
    ]

    def __init__(self, title: str, texts: Sequence[str]) -> None:
        super().__init__()
        self._set(title, texts)

    def _set(self, title: str, texts: Sequence[str]) -> None:
        self._title = title
        # Space that only fills a line up is none of a name's: names are escaped already.
        safe = [
            "\n".join(safe_message(line.rstrip()) for line in text.splitlines()) for text in texts
        ]
        self._text = "\n\n".join(safe)

    def compose(self) -> ComposeResult:
        """Build the dialog."""
        with VerticalScroll(id="text"):
            yield TextLines(id="text-title")
            yield Static(self._text, id="text-body", markup=False)
            yield TextLines(id="text-keys")

    def on_mount(self) -> None:
        """Show the heading and focus the text."""
        self._show_title()
        keys = (Cell("esc closes, y copies", Tone.MUTED),)
        self.query_one("#text-keys", TextLines).show([(), keys])
        self.query_one(VerticalScroll).focus()

    def show(self, title: str, texts: Sequence[str]) -> None:
        """Show other texts in their place: what they are about has changed."""
        before = self._title, self._text
        self._set(title, texts)
        if self.is_mounted and before != (self._title, self._text):
            self._show_title()
            self.query_one("#text-body", Static).update(self._text)

    def _show_title(self) -> None:
        self.query_one("#text-title", TextLines).show([(Cell(self._title, Tone.HEADING),), ()])

    def action_copy_texts(self) -> None:
        """Send the texts to the terminal's clipboard."""
        self.app.copy_to_clipboard(self._text)

    def action_scroll(self, by: int) -> None:
        """Scroll by lines."""
        self.query_one(VerticalScroll).scroll_relative(y=by, animate=False)

    def action_close(self) -> None:
        """Close the dialog."""
        self.dismiss()
