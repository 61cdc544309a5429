"""The line below a table: the filter with its hits, or the whole value of the chosen cell."""

from __future__ import annotations

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.widgets import Input

from k2ktui.console.widgets.columns import is_pattern
from k2ktui.console.widgets.grid import Grid
from k2ktui.console.widgets.styled_text import fit
from k2ktui.console.widgets.text_lines import TextLines
from k2ktui.present.formatting import Cell, Line, Tone

_PLACEHOLDER = "filter: text or regular expression, ! inverts"
_CELL, _ALL = "  y copies, esc leaves", "  esc shows all"


class FootLine(Horizontal):
    """Hidden while nothing is filtered and no cell is chosen.

    The filter stays in sight with the number of rows that pass, also while the table has the focus.
    """

    def __init__(self) -> None:
        super().__init__(id="foot")

    def compose(self) -> ComposeResult:
        """Yield the sign, the field, and what is beside it."""
        yield TextLines(id="foot-sign")
        yield Input(id="filter", placeholder=_PLACEHOLDER, select_on_focus=False)
        yield TextLines(id="foot-text")

    def show(self, grid: Grid[object]) -> None:
        """Show what is filtered or chosen in a table."""
        if not self.is_mounted:
            return  # a table may have rows before this has its parts
        entry = self.query_one("#filter", Input)
        typing = entry.has_focus
        cell = grid.chosen_cell if not typing else None
        filtered = bool(grid.filter or grid.problems_only)
        self.display = typing or filtered or cell is not None
        if not self.display:
            return
        is_text = cell is None and (typing or bool(grid.filter))
        entry.display = is_text
        sign = "problems " if grid.problems_only and cell is None else ""
        self._put("#foot-sign", (Cell(f" {sign}{'/' if is_text else ''}", Tone.ACCENT),))
        if cell is None:
            self._put("#foot-text", self._hits(grid))
        else:
            self._put("#foot-text", self._cell(*cell))
        # The field takes what is left beside the hits; without it, they begin at the left.
        text = self.query_one("#foot-text", TextLines)
        text.styles.width = len(text.text) + 1 if is_text else "1fr"

    def _cell(self, heading: str, text: str) -> Line:
        room = max(8, self.app.size.width - len(heading) - len(_CELL) - 3)
        if cell_len(text) > room:
            text = fit(text, room)
        return (
            Cell(f"{heading} ", Tone.MUTED),
            Cell(text or "empty", Tone.PLAIN if text else Tone.MUTED),
            Cell(_CELL, Tone.MUTED),
        )

    def _hits(self, grid: Grid[object]) -> Line:
        count = f"{len(grid.rows):,} of {grid.total:,}"
        if not grid.total:
            return (Cell("no rows", Tone.MUTED),)
        way = Cell(_ALL, Tone.MUTED)
        if not grid.rows:
            return (Cell(f"nothing of {grid.total:,}", Tone.WARN), way)
        plain = "" if is_pattern(grid.filter) else "  read as plain text"
        return (Cell(count, Tone.WARN), Cell(plain, Tone.MUTED), way)

    def _put(self, selector: str, line: Line) -> None:
        lines = self.query_one(selector, TextLines)
        lines.show([line])
        if selector == "#foot-sign":
            lines.styles.width = sum(len(cell.text) for cell in line)
