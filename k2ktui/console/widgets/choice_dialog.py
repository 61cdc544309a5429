"""A dialog that chooses one of a few things, each with a text that explains it."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical

from k2ktui.console.widgets.confirm import dialog_height
from k2ktui.console.widgets.dialog import Dialog
from k2ktui.console.widgets.grid import Grid
from k2ktui.console.widgets.text_lines import TextLines
from k2ktui.present.columns import Column
from k2ktui.present.formatting import Cell, Line, Tone
from k2ktui.text import safe_message

# Frame, title, keys and the lines between them.
_OTHER_LINES = 6


@dataclass(frozen=True, slots=True)
class Choice:
    """What can be chosen: ``text`` explains it."""

    id: str
    title: str
    text: str


class ChoiceDialog(Dialog[str | None]):
    """A dialog whose result is the id of the choice; None if it was canceled.

    Args:
        title: what is chosen, as a heading.
        heading: column heading of the choices.
        choices: what can be chosen.
        state: sentences about what is so now; may be empty.
    """

    CANCELED: ClassVar[str] = "Nothing was changed."
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "cancel", "Cancel")]

    def __init__(
        self, title: str, heading: str, choices: Sequence[Choice], state: str = ""
    ) -> None:
        super().__init__()
        self._title, self._heading = title, heading
        self._choices, self._state = tuple(choices), state

    def compose(self) -> ComposeResult:
        """Build the dialog."""
        with Vertical(id="choose"):
            yield TextLines(id="choice-title")
            column: Column[Choice] = Column(
                "choice", self._heading, lambda choice: Cell(choice.title), width=40, widest=80
            )
            yield Grid((column,), key=lambda choice: choice.id, opens="Choose", id="choices")
            yield TextLines(id="choice-text")
            yield TextLines(id="choice-keys")

    def on_mount(self) -> None:
        """Show the choices."""
        keys = "up, down choose; enter continues; esc cancels"
        self.query_one("#choice-keys", TextLines).show([(Cell(keys, Tone.MUTED),)])
        grid: Grid[Any] = self.query_one(Grid)
        grid.show(self._choices)
        grid.focus()
        self._show()

    def on_resize(self) -> None:
        """Wrap the texts for the new width, and show as many choices as there is room for."""
        self._show()
        taken = _OTHER_LINES + len(self._wrap(self._state)) + self._height()
        room = dialog_height(self.app.size.height) - taken
        self.query_one(Grid).styles.height = max(3, min(len(self._choices) + 1, room))

    def _wrap(self, text: str) -> list[str]:
        return textwrap.wrap(safe_message(text), max(30, min(86, self.app.size.width - 8)))

    def _height(self) -> int:
        """Return the number of lines of the longest text."""
        return max(len(self._wrap(choice.text)) for choice in self._choices)

    @on(Grid.Changed)
    def _show(self) -> None:
        title: list[Line] = [(Cell(self._title, Tone.HEADING),)]
        title += [(Cell(part),) for part in self._wrap(self._state)]
        self.query_one("#choice-title", TextLines).show(title)
        chosen: Choice | None = self.query_one(Grid).current
        lines: list[Line] = [(Cell(part),) for part in self._wrap(chosen.text if chosen else "")]
        # Of one height, so that the dialog does not jump.
        lines += [()] * (self._height() - len(lines))
        self.query_one("#choice-text", TextLines).show(lines)

    @on(Grid.Opened)
    def _chosen(self, event: Grid.Opened) -> None:
        self.dismiss(event.row.id)

    def action_cancel(self) -> None:
        """Close the dialog without a result."""
        self.cancel()
