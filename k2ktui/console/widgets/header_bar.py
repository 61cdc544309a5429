"""The lines on top of every screen; a click on a tab opens its screen."""

from __future__ import annotations

from rich.cells import cell_len
from textual import events
from textual.message import Message

from k2ktui.console.widgets.text_lines import TextLines
from k2ktui.present.formatting import Line

TABS_LINE = 1


def tab_at(line: Line, x: int) -> int | None:
    """Return the index of the tab that covers a column of the line of tabs; None if none does."""
    for number, cell in enumerate(line):
        if 0 <= x < cell_len(cell.text):
            return number
        x -= cell_len(cell.text)
    return None


class HeaderBar(TextLines):
    """Header, tabs and path."""

    class TabClicked(Message):
        """A tab was clicked.

        Attributes:
            number: its index.
        """

        def __init__(self, number: int) -> None:
            super().__init__()
            self.number = number

    def on_click(self, event: events.Click) -> None:
        """Report a click on a tab."""
        at = event.get_content_offset(self)
        if at is None or at.y != TABS_LINE or len(self.lines) <= TABS_LINE:
            return
        number = tab_at(self.lines[TABS_LINE], at.x)
        if number is not None:
            self.post_message(self.TabClicked(number))
