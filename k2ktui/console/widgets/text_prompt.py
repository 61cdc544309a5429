"""A dialog that prompts for one line of text."""

from __future__ import annotations

import textwrap
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Input

from k2ktui.console.widgets.dialog import Dialog
from k2ktui.console.widgets.text_lines import TextLines
from k2ktui.present.formatting import Cell, Tone


class TextPrompt(Dialog[str | None]):
    """A dialog whose result is the text; None if it was canceled.

    Args:
        question: what to type.
        value: what is typed already; Enter accepts it.
        canceled: what is said after it was closed without a text.
        optional: an empty text is a result; otherwise it cancels.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "cancel", "Cancel")]

    def __init__(
        self,
        question: str,
        *,
        value: str = "",
        canceled: str = "Nothing was changed.",
        optional: bool = False,
    ) -> None:
        super().__init__()
        self._question, self._value, self._canceled = question, value, canceled
        self._is_optional = optional

    def what_canceling_means(self) -> str:
        """Return what is said after it was closed without a text."""
        return self._canceled

    def compose(self) -> ComposeResult:
        """Build the dialog."""
        with Vertical(id="ask"):
            yield TextLines(id="ask-text")
            yield Input(self._value, id="ask-input", select_on_focus=False)

    def on_mount(self) -> None:
        """Focus the input."""
        self.query_one(Input).focus()

    def on_resize(self) -> None:
        """Wrap the question for the new width."""
        lines = textwrap.wrap(self._question, self.text_width)
        self.query_one(TextLines).show([(Cell(line, Tone.HEADING),) for line in lines])

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        if event.value.strip() or self._is_optional:
            self.dismiss(event.value)
        else:
            self.cancel()

    def action_cancel(self) -> None:
        """Close the dialog without a result."""
        self.cancel()
