"""Confirmation before a cluster is changed: a name must be typed, and Enter confirms nothing."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Button, Input

from k2ktui.console.widgets.text_lines import TextLines
from k2ktui.present.formatting import Cell, Line, Tone, name
from k2ktui.text import safe_text


class _SpaceButton(Button, inherit_bindings=False):
    """A button that only the space bar presses; Enter is too often pressed by habit."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("space", "press", "Press")]


class Confirm(ModalScreen[bool]):
    """A dialog whose result is whether the operator agreed.

    Focus starts on Cancel, so that keys meant for the previous screen change nothing.

    Args:
        title: what will happen.
        lines: the details: what is changed, what is not, how to undo it; texts are wrapped.
        typed: the name that must be typed, such as the pipeline's.
        label: label of the button that confirms, a verb.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", "Cancel"),
        # With priority: a key that arrives right behind Tab, as over a slow line, is for the next
        # widget.
        Binding("tab", "app.focus_next", "Next", show=False, priority=True),
        Binding("shift+tab", "app.focus_previous", "Previous", show=False, priority=True),
        Binding("up", "scroll(-1)", "Up", show=False),
        Binding("down", "scroll(1)", "Down", show=False),
        Binding("pageup", "scroll(-8)", "Page up", show=False),
        Binding("pagedown", "scroll(8)", "Page down", show=False),
    ]

    def __init__(self, title: str, lines: Sequence[str | Line], typed: str, label: str) -> None:
        super().__init__()
        self._title, self._lines, self._typed, self._label = title, lines, typed, label

    def compose(self) -> ComposeResult:
        """Build the dialog."""
        with Vertical(id="confirm"):
            yield TextLines(id="confirm-title")
            with VerticalScroll(id="confirm-text", can_focus=False):
                yield TextLines(id="confirm-lines")
            yield TextLines(id="confirm-ask")
            # In tab order: from Cancel to the name to the confirming button.
            with Horizontal(id="confirm-buttons"):
                yield _SpaceButton("Cancel", id="confirm-cancel")
                yield Input(id="confirm-name")
                yield _SpaceButton(self._label, id="confirm-do", classes="-not-typed")

    def on_mount(self) -> None:
        """Show the texts and focus Cancel."""
        self.query_one("#confirm-title", TextLines).show([(Cell(self._title, Tone.HEADING),)])
        self._show()
        self.query_one("#confirm-cancel").focus()

    def _show(self) -> None:
        """Show the details and the instructions."""
        width = max(30, min(86, self.app.size.width - 10))
        lines: list[Line] = []
        for each in self._lines:
            if isinstance(each, str):
                lines += [(Cell(part),) for part in textwrap.wrap(safe_text(each), width) or [""]]
            else:
                lines.append(each)
        self.query_one("#confirm-lines", TextLines).show(lines)
        ask = f"To go on: Tab, type {name(self._typed)}, Tab, space. Escape changes nothing."
        asked: list[Line] = [(Cell(part, Tone.WARN),) for part in textwrap.wrap(ask, width)]
        self.query_one("#confirm-ask", TextLines).show(asked)

    @property
    def _agreed(self) -> bool:
        return self.query_one(Input).value.strip() == self._typed

    @on(Input.Changed)
    def _typed_more(self) -> None:
        self.query_one("#confirm-do").set_class(not self._agreed, "-not-typed")

    @on(Input.Submitted)
    def _entered(self) -> None:
        # Enter only moves the focus; the space bar presses the button.
        self.query_one("#confirm-do" if self._agreed else "#confirm-cancel").focus()

    @on(Button.Pressed, "#confirm-cancel")
    def _cancelled(self) -> None:
        self.dismiss(False)

    @on(Button.Pressed, "#confirm-do")
    def _pressed(self) -> None:
        # Decide after the input has processed the characters that are still queued.
        self.query_one(Input).call_later(self._decide)

    def _decide(self) -> None:
        # The button is never disabled: a Tab typed ahead would skip it and land on Cancel.
        if self._agreed:
            self.dismiss(True)
        else:
            self.query_one(Input).focus()

    def action_scroll(self, by: int) -> None:
        """Scroll the details by lines."""
        self.query_one("#confirm-text").scroll_relative(y=by, animate=False)

    def action_cancel(self) -> None:
        """Close the dialog without a change."""
        self.dismiss(False)
