"""A table with selectable rows, for actions on several rows."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, ClassVar, TypeVar

from textual.binding import Binding, BindingType

from k2ktui.console.widgets.grid import Grid
from k2ktui.present.columns import Column
from k2ktui.present.formatting import Cell, Tone

T = TypeVar("T")


class SelectableGrid(Grid[T]):
    """The table; marks stay with their rows while values change.

    The arguments are those of ``Grid``; Enter acts on the chosen rows.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "mark", "Mark", id="choice.mark"),
        Binding("a", "mark_all", "All", id="choice.all"),
    ]

    NEEDS_ROW: ClassVar[frozenset[str]] = Grid.NEEDS_ROW | {"mark", "mark_all"}

    def __init__(
        self, columns: Sequence[Column[T]], *, key: Callable[[T], Hashable], **others: Any
    ) -> None:
        self.marked: set[Hashable] = set()
        mark: Column[T] = Column("mark", "", self._mark, width=1, widest=1, picture=True)
        super().__init__((mark, *columns), key=key, **others)

    def _mark(self, row: T) -> Cell:
        return Cell("*" if self._key(row) in self.marked else "", Tone.WARN)

    @property
    def chosen(self) -> list[T]:
        """The marked rows, filtered or not; the row under the cursor if none is marked."""
        rows = [row for row in self._all if self._key(row) in self.marked]
        if rows or self.current is None:
            return rows
        return [self.current]

    @property
    def hidden(self) -> int:
        """The number of marked rows that the filter hides."""
        unseen = self.marked - {self._key(row) for row in self.rows}
        return sum(self._key(row) in unseen for row in self._all) if unseen else 0

    @property
    def marked_text(self) -> str:
        """How many rows are marked, and how many of them are hidden; empty if none is marked."""
        count, hidden = len(self.chosen) if self.marked else 0, self.hidden
        if not count:
            return ""
        return f"{count:,} marked" + (f", {hidden:,} of them not shown" if hidden else "")

    def mark(self, keys: Sequence[Hashable]) -> None:
        """Mark exactly the rows with these keys."""
        self.marked = set(keys)
        self._arrange()

    def action_mark(self) -> None:
        """Toggle the mark of the row under the cursor and move to the next row."""
        if self.current is not None:
            self.marked ^= {self._key(self.current)}
            self.action_move(1)
            self._arrange()

    def action_mark_all(self) -> None:
        """Mark all rows that pass the filter; unmark them if all are marked."""
        shown = {self._key(row) for row in self.rows}
        self.marked = self.marked - shown if shown <= self.marked else self.marked | shown
        self._arrange()
