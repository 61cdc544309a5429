"""A dialog that sets a row of a plan: its value is typed, and what it costs is shown at once."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Input

from k2ktui.console.widgets.dialog import Dialog
from k2ktui.console.widgets.text_lines import TextLines
from k2ktui.engine.moves.choice import RowValue, ValueKind
from k2ktui.errors import K2kError
from k2ktui.present.formatting import Cell, Line, Tone
from k2ktui.sync.moves.choices import VALUES, parse_value
from k2ktui.text import safe_message

_KEYS = f"Type {VALUES}; an empty field translates it. Enter sets the row; Esc cancels."
_TIME = "Enter looks this time up on the target."
_TRANSLATED = "The row is translated again."


class RowDialog(Dialog[RowValue | str | None]):
    """A dialog whose result is the value for a row, "" to translate it, None if it was canceled.

    Args:
        title: which row, and what is so now.
        value: what is typed already.
        effect: says what a value does; raises ValueError if it leads to no offset.
        look_up: replaces a time by the offset that the target has for it; it takes a while.
    """

    CANCELED: ClassVar[str] = "The row was not changed."
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "cancel", "Cancel")]

    def __init__(
        self,
        title: Sequence[Line],
        value: str,
        effect: Callable[[RowValue], Sequence[Line]],
        look_up: Callable[[RowValue], RowValue],
    ) -> None:
        super().__init__()
        self._title, self._typed = title, value
        self._effect, self._look_up = effect, look_up
        self._times: dict[str, RowValue] = {}

    def compose(self) -> ComposeResult:
        """Build the dialog."""
        with Vertical(id="ask"):
            yield TextLines(id="ask-text")
            yield Input(self._typed, id="ask-input", select_on_focus=False)
            yield TextLines(id="ask-effect")

    def on_mount(self) -> None:
        """Show what is so now, and focus the input."""
        self.query_one("#ask-text", TextLines).show(list(self._title))
        field = self.query_one(Input)
        field.focus()
        # Typing replaces the value; digits behind it would be another, valid offset.
        field.select_all()
        self._show()

    def on_resize(self) -> None:
        """Wrap the texts for the new width."""
        self._show()

    @on(Input.Changed)
    def _show(self) -> None:
        """Show what the typed value does, or why it does nothing."""
        try:
            value = self._value()
            if value is None:
                lines: Sequence[Line] = [(Cell(_TRANSLATED),)]
            elif value.kind is ValueKind.TIME:
                lines = [(Cell(_TIME),)]
            else:
                lines = self._effect(value)
        except ValueError as error:
            lines = self._error_lines(error)
        self._show_effect(lines)

    def _value(self) -> RowValue | None:
        """Return the typed value, of a time that was looked up its offset; None if it is empty."""
        text = self.query_one(Input).value.strip()
        return self._times.get(text) or parse_value(text) if text else None

    def _error_lines(self, error: Exception) -> list[Line]:
        return [(Cell(part, Tone.BAD),) for part in self._wrap(safe_message(str(error)))]

    def _show_effect(self, lines: Sequence[Line]) -> None:
        keys: list[Line] = [(Cell(part, Tone.MUTED),) for part in self._wrap(_KEYS)]
        self.query_one("#ask-effect", TextLines).show([*lines, (), *keys])

    def _wrap(self, text: str) -> list[str]:
        return textwrap.wrap(text, self.text_width)

    @on(Input.Submitted)
    def _submitted(self) -> None:
        try:
            value = self._value()
            if value is not None and value.kind is ValueKind.TIME:
                self._find_time(value)
                return
            if value is not None:
                self._effect(value)
        except ValueError as error:
            self._show_effect(self._error_lines(error))
            return
        self.dismiss("" if value is None else value)

    @work(thread=True, exclusive=True)
    def _find_time(self, value: RowValue) -> None:
        """Look a time up; Enter then accepts what is shown for it."""
        try:
            looked_up = self._look_up(value)
        except K2kError as error:
            self.app.call_from_thread(self._show_effect, self._error_lines(error))
            return
        self._times[value.text] = looked_up
        self.app.call_from_thread(self._show)

    def action_cancel(self) -> None:
        """Close the dialog without a result."""
        self.cancel()
