"""A dialog that prompts for one line of text."""

from __future__ import annotations

import textwrap
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input

from k2ktui.console.widgets.text_lines import TextLines
from k2ktui.present.formatting import Cell, Tone


class TextPrompt(ModalScreen[str | None]):
    """A dialog whose result is the text; None if it was canceled."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "cancel", "Cancel")]

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        """Build the dialog."""
        with Vertical(id="ask"):
            yield TextLines(id="ask-text")
            yield Input(id="ask-input")

    def on_mount(self) -> None:
        """Show the question and focus the input."""
        width = max(30, min(86, self.app.size.width - 10))
        lines = textwrap.wrap(self._question, width)
        self.query_one(TextLines).show([(Cell(line, Tone.HEADING),) for line in lines])
        self.query_one(Input).focus()

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        self.dismiss(event.value)

    def action_cancel(self) -> None:
        """Close the dialog without a result."""
        self.dismiss(None)
