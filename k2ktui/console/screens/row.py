"""A table whose row under the cursor is shown with all that is known of it, beside it or opened."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.widget import Widget

from k2ktui.console.export import Table
from k2ktui.console.screens.base import ConsoleScreen, ListScreen
from k2ktui.console.visuals.panel import Panel
from k2ktui.console.widgets.grid import Grid
from k2ktui.console.widgets.styled_text import plain
from k2ktui.console.widgets.text_lines import TextLines
from k2ktui.engine.severity import Severity
from k2ktui.present.formatting import Line
from k2ktui.watch.model import View

# Returns the lines of a row for a number of cells.
RowLines = Callable[[int], list[Line]]
_LEAST = 20


class RowDetail(VerticalScroll):
    """What is known of a row: lines made for its width, and charts below them in a subclass."""

    _lines: RowLines | None = None

    def compose(self) -> ComposeResult:
        """Yield the lines and the charts."""
        yield TextLines()
        yield from self.charts()

    def charts(self) -> ComposeResult:
        """Yield the charts."""
        yield from ()

    def draw_charts(self, lines: int) -> None:
        """Draw the charts below so many lines."""

    @property
    def room(self) -> int:
        """The cells of a line; 0 if they are not known yet."""
        return max(_LEAST, self.scrollable_content_region.width) if self.size else 0

    @property
    def text(self) -> str:
        """The shown lines."""
        return self.query_one(TextLines).text

    def on_mount(self) -> None:
        """Draw what was shown before the lines could take it."""
        self._draw()

    def on_resize(self) -> None:
        """Draw for the new size."""
        self._draw()

    def show(self, lines: RowLines) -> None:
        """Show the lines of a row."""
        self._lines = lines
        self._draw()

    def _draw(self) -> None:
        # Its size may come before what is inside it is mounted.
        if self._lines is not None and self.room and self.query(TextLines):
            lines = self._lines(self.room)
            self.query_one(TextLines).show(lines)
            self.draw_charts(len(lines))


class RowScreen(ConsoleScreen):
    """A row that was opened.

    Args:
        title: of the row.
        lines: its lines; asked again with every view and age.
    """

    HELP: ClassVar[str | None] = """
        One row of the table, with everything that is known of it; on a wide terminal the panel
        beside the table shows the same. Esc goes back to the table.
    """

    def __init__(self, title: str, lines: RowLines) -> None:
        super().__init__()
        self._title, self._lines = title, lines

    @property
    def crumb(self) -> str:
        """The row."""
        return self._title

    def body(self) -> Iterable[Widget]:
        """Yield the panel with the lines."""
        yield Panel(self._title, RowDetail(), id="whole")

    def on_mount(self) -> None:
        """Focus the lines, which can be scrolled, and show them."""
        self.query_one(RowDetail).focus()
        self._show()

    def show_view(self, view: View) -> None:
        """Show what is known now."""
        self._show()

    def _show(self) -> None:
        self.query_one(RowDetail).show(self._lines)

    def table(self) -> Table | None:
        """Return the lines."""
        lines = self.query_one(RowDetail).query_one(TextLines).lines
        return [self._title], [[plain(line)] for line in lines]

    def text_to_copy(self) -> str:
        """Return the shown lines."""
        return self.query_one(RowDetail).text


class RowsScreen(ListScreen):
    """A table with all details of the row under the cursor in the panel beside it.

    On a narrow terminal, Enter opens them.
    """

    def row_title(self, row: Any) -> str:
        """Return the title of a row."""
        return ""

    def row_severity(self, row: Any) -> Severity | None:
        """Return how bad a row is, which colors the panel's frame."""
        return None

    def row_lines(self, row: Any, width: int) -> list[Line]:
        """Return all details of a row."""
        return []

    @property
    def current(self) -> Any:
        """The row under the cursor; None if there is none."""
        return self.query_one(Grid).current

    @property
    def current_title(self) -> str:
        """The title of the row under the cursor; empty if there is none."""
        row = self.current
        return "" if row is None else self.row_title(row)

    def current_lines(self, width: int) -> list[Line]:
        """Return all details of the row under the cursor."""
        row = self.current
        return [] if row is None else self.row_lines(row, width)

    def side(self) -> Iterable[Widget]:
        """Yield the panel about the row under the cursor."""
        yield Panel(self.PANEL, RowDetail(can_focus=False), id="side")

    def show_side(self) -> None:
        """Show the row under the cursor beside the table."""
        # What is inside a panel is mounted after the panel, and a second may pass meanwhile.
        if not (self.query("RowDetail") and self.query("Grid")):
            return
        panel, title, row = self.query_one("#side", Panel), self.current_title, self.current
        panel.label(title or self.PANEL)
        panel.mark(None if row is None else self.row_severity(row))
        detail = panel.query_one(RowDetail)
        detail.display = bool(title)
        detail.show(self.current_lines)

    @on(Grid.Opened)
    def _open_row(self) -> None:
        if title := self.current_title:
            self.app.push_screen(RowScreen(title, self.current_lines))
