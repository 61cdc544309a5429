"""A table of any number of rows that renders visible rows only and redraws changed cells only.

Textual's own DataTable needs 0.8 s to load 5,000 rows and redraws itself completely when one cell
changes; a session over SSH pays for both.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, TypeVar

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from k2ktui.console._textual import replace_binding
from k2ktui.console.settings import TableSettings
from k2ktui.console.widgets.columns import filter_rows, lay_out, least, sort_rows
from k2ktui.console.widgets.styled_text import TONE_CLASSES, StyledText, drawable, fit
from k2ktui.present.columns import Column
from k2ktui.present.formatting import Cell, Tone
from k2ktui.text import safe_message, safe_text, whole_texts

T = TypeVar("T")
GAP = 2


@dataclass(frozen=True, slots=True)
class _Shown:
    key: Hashable
    cells: tuple[Cell, ...]


class Grid(StyledText, ScrollView, Generic[T], can_focus=True):
    """A table with a cursor, a filter and sorting.

    Args:
        columns: its columns.
        key: identifies a row while its values change.
        search: returns the text of a row that a filter searches.
        problem: whether a row is a problem.
        order: the sort key while no column is chosen.
        empty: the text shown when there are no rows.
        opens: label of what Enter does with a row; empty if nothing.
        sorts_first: the column by which ``s`` sorts first: the one that is asked for most.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = TONE_CLASSES | {
        "grid--cursor",
        "grid--cell",
        "grid--heading",
    }
    NEEDS_ROW: ClassVar[frozenset[str]] = frozenset({"open", "cell"})
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False, id="grid.up"),
        Binding("down,j", "move(1)", "Down", show=False, id="grid.down"),
        Binding("pageup,ctrl+u", "page(-1)", "Page up", show=False, id="grid.page-up"),
        Binding("pagedown,ctrl+d", "page(1)", "Page down", show=False, id="grid.page-down"),
        Binding("home,g", "jump(0)", "First", show=False, id="grid.first"),
        Binding("end,G", "jump(-1)", "Last", show=False, id="grid.last"),
        Binding("left", "cell(-1)", "Cell to the left", show=False, id="grid.cell-left"),
        Binding("right", "cell(1)", "Cell to the right", show=False, id="grid.cell-right"),
        Binding("enter", "open", "Open", id="grid.open"),
    ]

    @dataclass
    class Opened(Message):
        """Enter was pressed on a row, or the row was double-clicked."""

        grid: Grid[Any]
        row: Any

        @property
        def control(self) -> Grid[Any]:
            """The table that sent the message."""
            return self.grid

        def can_replace(self, message: Message) -> bool:
            """Return whether ``message`` is another one that waits: a row is opened once."""
            return isinstance(message, Grid.Opened) and message.grid is self.grid

    @dataclass
    class Changed(Message):
        """The shown rows or the cursor changed: filter_rows, sorted, moved, or a new view."""

        grid: Grid[Any]

    def __init__(
        self,
        columns: Sequence[Column[T]],
        *,
        key: Callable[[T], Hashable],
        search: Callable[[T], str] = str,
        problem: Callable[[T], bool] | None = None,
        order: Callable[[T], Any] | None = None,
        empty: str = "",
        opens: str = "Open",
        sorts_first: str = "",
        id: str | None = None,
    ) -> None:
        super().__init__(id=id)
        enter = Binding("enter", "open", opens, show=bool(opens), id="grid.open")
        replace_binding(self, enter)
        self._columns, self._key, self._search = tuple(columns), key, search
        self._problem, self._order, self._empty = problem, order, empty
        self._all: Sequence[T] = ()
        self.rows: Sequence[T] = ()
        self.cursor = 0
        self.filter = ""
        self.problems_only = False
        self._sorts_first = sorts_first
        self.sort: str | None = None
        self.reverse = False
        self.left_out: frozenset[str] = frozenset()
        # The column whose cell under the cursor is chosen; None while the whole row is.
        self.column: str | None = None
        # The row that the operator has moved to: a filter may hide it for a while.
        self._left: Hashable | None = None
        self._seen: dict[str, int] = {}
        self._shown: dict[int, _Shown] = {}
        self._layout: list[tuple[Column[T], int, int]] = []
        self._old: frozenset[str] = frozenset()

    # Content

    def on_mount(self) -> None:
        """Take the order and the columns of the last session."""
        self._recall()

    def mark_stale(self, columns: Collection[str]) -> None:
        """Show the values of the columns with these ids as stale."""
        if frozenset(columns) != self._old:
            self._old = frozenset(columns)
            self._seen = {}
            self._redraw()

    def _cell(self, column: Column[T], row: T) -> Cell:
        cell = column.cell(row)
        return self.glyphs.aged(cell) if column.id in self._old else cell

    @property
    def empty(self) -> str:
        """The text shown when there are no rows."""
        return self._empty

    @empty.setter
    def empty(self, text: str) -> None:
        if text != self._empty:
            self._empty = text
            self.refresh(Region(0, 1, self.size.width, 1))

    @property
    def total(self) -> int:
        """The number of rows, filtered or not."""
        return len(self._all)

    @property
    def current(self) -> T | None:
        """The row under the cursor; None if there is none."""
        return self.rows[self.cursor] if 0 <= self.cursor < len(self.rows) else None

    @property
    def current_key(self) -> Hashable | None:
        """The key of the row under the cursor; None if there is none."""
        return None if self.current is None else self._key(self.current)

    def show(self, rows: Sequence[T]) -> None:
        """Replace the rows; the cursor stays on its row, identified by its key."""
        # Most rows are the same objects as before, so this comparison is cheap.
        same = list(rows) == list(self._all)
        self._all = rows
        if same:
            self.post_message(self.Changed(self))
        else:
            self._arrange()

    def show_columns(self, columns: Sequence[Column[T]]) -> None:
        """Replace the columns; the order stays if its column does."""
        self._columns, self._seen = tuple(columns), {}
        if self.sort not in {column.id for column in columns if column.sort}:
            self.sort = None
            self._arrange()
        self._redraw()

    def set_filter(self, text: str) -> None:
        """Show the rows that match a text or regular expression; a leading ``!`` inverts it."""
        if text != self.filter:
            self.filter = text
            self._arrange(self._left)

    def set_problems_only(self, on: bool) -> None:
        """Show only the rows with problems, or all rows."""
        if on != self.problems_only:
            self.problems_only = on
            self._arrange(self._left)

    @property
    def sortable(self) -> tuple[str, ...]:
        """Ids of the columns that can be sorted by, shown or not."""
        return tuple(column.id for column in self._columns if column.sort)

    def sort_next(self) -> None:
        """Sort by the column of the chosen cell, else by the next column, the last of all by none.

        The first of them is the one that is asked for most, the others follow as they are shown.
        """
        if self.column in self.sortable and self.column is not None:
            self.sort_by(self.column)
            return
        shown = [column.id for column, _, _ in self._layout if column.sort]
        if self._sorts_first in set(self.sortable) - {*shown, *self.left_out}:
            shown.append(self._sorts_first)  # it is shown while it sorts
        ids = [None, *sorted(shown, key=lambda column: column != self._sorts_first)]
        at = ids.index(self.sort) if self.sort in ids else 0
        self._sort(ids[(at + 1) % len(ids)], reverse=False)

    def sort_reverse(self) -> None:
        """Reverse the order."""
        self._sort(self.sort, reverse=not self.reverse)

    def sort_by(self, column: str) -> None:
        """Sort by a column; reverse the order if it is the sort column already."""
        self._sort(column, reverse=self.sort == column and not self.reverse)

    def _recall(self) -> None:
        """Take the order and the columns of this user's last session."""
        recall = getattr(self.app, "recall_table", None)
        known = recall(self.id) if recall is not None and self.id else TableSettings()
        self.sort = known.sort if known.sort in self.sortable else None
        self.reverse = known.reverse and self.sort == known.sort
        self.left_out = frozenset(known.left_out) & set(self.optional)

    def recall(self) -> None:
        """Take the order and the columns that are remembered now."""
        self._recall()
        self._redraw()
        self._arrange()

    def _remember(self) -> None:
        remember = getattr(self.app, "remember_table", None)
        if remember is not None and self.id:
            remember(self.id, TableSettings(self.sort, self.reverse, tuple(sorted(self.left_out))))

    @property
    def optional(self) -> tuple[str, ...]:
        """Ids of the columns that can be left out: all with a heading but the first of them."""
        return tuple(column.id for column in self._columns if column.heading)[1:]

    def hide(self, columns: Collection[str]) -> None:
        """Leave these columns out, and show all others."""
        self.left_out = frozenset(columns) & set(self.optional)
        self._remember()
        self._redraw()

    def _sort(self, column: str | None, *, reverse: bool) -> None:
        self.sort, self.reverse = column, reverse
        self._remember()
        self._redraw()
        self._arrange()

    def select(self, key: Hashable) -> bool:
        """Move the cursor to the row with a key; return whether there is one."""
        number = next((n for n, row in enumerate(self.rows) if self._key(row) == key), None)
        if number is not None:
            self._move_to(number)
        return number is not None

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Return the headings and the cells of all rows that pass the filter, for an export."""
        columns = [column for column in self._columns if not column.picture]
        headings = [column.heading for column in columns]
        return headings, [[self._cell(c, row).text for c in columns] for row in self.rows]

    def row_text(self, row: T) -> str:
        """Return a row's whole cells, separated by tabs."""
        columns = (column for column in self._columns if not column.picture)
        with whole_texts():
            return "\t".join(self._cell(column, row).text for column in columns)

    @property
    def chosen_cell(self) -> tuple[str, str] | None:
        """The heading and the whole text of the chosen cell; None while the whole row is chosen."""
        row, column = self.current, self._column()
        if row is None or column is None:
            return None
        with whole_texts():
            text = self._cell(column, row).text
        return column.heading, safe_message(text)

    def _column(self) -> Column[T] | None:
        return next((column for column in self._columns if column.id == self.column), None)

    def choose_cell(self, column: str | None) -> None:
        """Choose the cell of a column, shown or not, under the cursor; None chooses the row."""
        if column != self.column:
            self.column = column
            self.refresh(Region(0, self.cursor + 1 - self.scroll_offset.y, self.size.width, 1))
            self.post_message(self.Changed(self))

    def action_cell(self, by: int) -> None:
        """Choose the next cell of the row; behind the last one, the row again."""
        ids = [None, *(c.id for c in self._columns if c.heading and not c.picture)]
        at = ids.index(self.column) if self.column in ids else 0
        self.choose_cell(ids[(at + by) % len(ids)])

    def _arrange(self, wanted: Hashable | None = None) -> None:
        """Filter and sort; the cursor goes to the wanted row, or stays on its own.

        Whoever looks at the cursor still sees it afterwards: its row may have moved far.
        """
        key, top = self.current_key, self.scroll_offset.y
        in_sight = top <= self.cursor < top + max(1, self.size.height - 1)
        problem = self._problem if self.problems_only else None
        rows = filter_rows(self._all, self.filter, self._search, problem)
        rows = sort_rows(rows, self._by(), reverse=self.reverse)
        had_rows, self.rows = bool(self.rows), rows
        if had_rows != bool(rows):
            self.refresh_bindings()
        at = self.cursor
        for sought in (wanted, key):
            if sought is None:
                continue
            if at < len(rows) and self._key(rows[at]) == sought:
                break
            number = next((n for n, row in enumerate(rows) if self._key(row) == sought), None)
            if number is not None:
                at = number
                break
        self.cursor = max(0, min(at, len(rows) - 1))
        self._changed()
        if in_sight:
            self._keep_in_sight()
        self.post_message(self.Changed(self))

    def _by(self) -> Callable[[T], Any] | None:
        return next((c.sort for c in self._columns if c.id == self.sort), None) or self._order

    # Drawing

    def _changed(self) -> None:
        """Redraw the visible lines that differ from what is on the screen."""
        size = Size(self.scrollable_content_region.width, len(self.rows) + 1)
        before, self._shown = self._shown, {}
        if not self.is_attached or not self.size:
            return
        if size != self.virtual_size:
            self.virtual_size = size
            self._redraw()
            return
        lines = self._visible()
        if self._measure(lines):
            self._redraw()
            return
        for number in lines:
            now = self._row(number)
            self._refresh_line(number, before.get(number), now)

    def _refresh_line(self, number: int, old: _Shown | None, now: _Shown) -> None:
        y = number + 1 - self.scroll_offset.y
        index = {column.id: n for n, column in enumerate(self._columns)}
        if old is None or len(old.cells) != len(now.cells):
            self.refresh(Region(0, y, self.size.width, 1))
            return
        changed = (
            x + width
            for c, x, width in self._layout
            if old.cells[index[c.id]] != now.cells[index[c.id]]
        )
        # For each region, Textual writes the line from its start to the region's end: use one
        # region.
        if end := max(changed, default=0):
            self.refresh(Region(0, y, end, 1))

    def redraw(self) -> None:
        """Draw all rows again: their cells depend on something else that has changed."""
        self._redraw()

    def redraw_changed(self) -> None:
        """Draw the cells again that differ: some depend on something else that has changed."""
        self._changed()

    def _redraw(self) -> None:
        self._shown = {}
        self._measure(self._visible())
        self._lay_out()
        self.refresh()

    def _visible(self) -> range:
        top = self.scroll_offset.y
        return range(top, min(len(self.rows), top + max(0, self.size.height - 1)))

    def _row(self, number: int) -> _Shown:
        if number not in self._shown:
            row = self.rows[number]
            cells = tuple(self._cell(column, row) for column in self._columns)
            self._shown[number] = _Shown(self._key(row), cells)
        return self._shown[number]

    def _measure(self, lines: range) -> bool:
        """Widen columns to fit the shown values; return whether any column grew."""
        grown = False
        for number in lines:
            for column, cell in zip(self._columns, self._row(number).cells, strict=True):
                length = min(column.widest, cell_len(cell.text))
                if length > self._seen.get(column.id, least(column)):
                    self._seen[column.id] = length
                    grown = True
        return grown

    def _lay_out(self) -> None:
        """Choose the columns that fit, and their places."""
        room = max(1, self.scrollable_content_region.width)
        # The column by which the rows are sorted is never left out for want of room: an order that
        # nothing on the screen explains reads as none.
        shown = [
            replace(column, rank=0) if column.id == self.sort else column
            for column in self._columns
            if column.id not in self.left_out
        ]
        self._layout = lay_out(shown, self._seen, room, GAP)

    def on_resize(self, event: events.Resize) -> None:
        """Lay out the columns for the new width."""
        self.virtual_size = Size(self.scrollable_content_region.width, len(self.rows) + 1)
        self._redraw()
        self._move_to(self.cursor)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Draw the rows that scroll into view."""
        super().watch_scroll_y(old_value, new_value)
        if round(old_value) != round(new_value):
            if self._measure(self._visible()):
                self._lay_out()
            self._shown = {n: self._shown[n] for n in self._visible() if n in self._shown}

    def render_line(self, y: int) -> Strip:
        """Draw the heading or one row."""
        width = self.size.width
        if y == 0:
            return self._heading(width)
        number = self.scroll_offset.y + y - 1
        if number >= len(self.rows):
            text = "" if self.rows or y > 1 else self._nothing()
            return self.strip_of((Cell(text, Tone.MUTED),), width)
        row = self._row(number)
        index = {column.id: n for n, column in enumerate(self._columns)}
        style_of = self._cursor_style if number == self.cursor else self.tone
        fill, segments = style_of(Tone.PLAIN), []
        chosen = self.column if number == self.cursor else None
        for column, x, size in self._layout:
            cell = row.cells[index[column.id]]
            if column.id == chosen:
                text = fit(self.glyphs.text(drawable(cell.text)), size, right=column.right)
                gap = GAP if x + size + GAP <= width else max(0, width - x - size)
                segments.append(Segment(text, self._cell_style()))
                segments.append(Segment(" " * gap, fill))
                continue
            gap = GAP if x + size + GAP <= width else max(0, width - x - size)
            if cell.parts and cell_len(cell.text) <= size:
                texts = [self.glyphs.text(part.text) for part in cell.parts]
                for text, part in zip(texts, cell.parts, strict=True):
                    segments.append(Segment(text, style_of(part.tone)))
                gap += max(0, size - sum(map(cell_len, texts)))
            else:
                text = self.glyphs.text(drawable(cell.text))
                text = fit(text, size, right=column.right, ellipsis=self.glyphs.text("…"))
                segments.append(Segment(text, style_of(cell.tone)))
            segments.append(Segment(" " * gap, fill))
        return Strip(segments).adjust_cell_length(width, fill).simplify()

    def _nothing(self) -> str:
        """Return what a table without rows says: how to see those that it has."""
        if not self._all:
            return self.empty
        if not self.filter:
            return f"No row of {self.total:,} is a problem; z shows all."
        what = "problem" if self.problems_only else "row"
        return f"No {what} of {self.total:,} matches /{safe_text(self.filter, 40)}; Esc shows all."

    def _heading(self, width: int) -> Strip:
        style = self.get_component_rich_style("grid--heading")
        segments = []
        for column, _, size in self._layout:
            sign = self.glyphs.sorted_down if self.reverse else self.glyphs.sorted_up
            sign = sign if column.id == self.sort else ""
            text, gap = column.heading, " " * GAP
            if sign and cell_len(text) + 2 <= size:
                text = f"{text} {sign}"
            elif sign:
                gap = sign.ljust(GAP)  # a column need not be wider than its heading for it
            text = fit(text, size, right=column.right, ellipsis="")
            segments.append(Segment(text + gap, style))
        return Strip(segments).adjust_cell_length(width, style).simplify()

    def _cursor_style(self, tone: Tone) -> Style:
        own = self.get_component_rich_style(f"tone--{tone}", partial=True)
        cursor = self.get_component_rich_style("grid--cursor", partial=True)
        # Under the cursor a tone keeps its boldness; its color would not be visible there.
        return self.rich_style + Style(bold=own.bold) + cursor

    def _cell_style(self) -> Style:
        return self.rich_style + self.get_component_rich_style("grid--cell", partial=True)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Gray out what needs a row while there is none."""
        if action in self.NEEDS_ROW and not self.rows:
            return None
        return super().check_action(action, parameters)

    # Cursor

    def action_move(self, by: int) -> None:
        """Move the cursor by rows."""
        self._move_to(self.cursor + by)

    def action_page(self, by: int) -> None:
        """Move the cursor by pages."""
        self._move_to(self.cursor + by * max(1, self.size.height - 2))

    def action_jump(self, to: int) -> None:
        """Move the cursor to the first row (0) or the last (-1)."""
        self._move_to(to if to >= 0 else len(self.rows) - 1)

    def action_open(self) -> None:
        """Post ``Opened`` for the row under the cursor."""
        if self.current is not None:
            self.post_message(self.Opened(self, self.current))

    def on_click(self, event: events.Click) -> None:
        """Move the cursor to a row, open it on a double click, or sort by a clicked heading."""
        if event.y == 0:
            for column, x, width in self._layout:
                if x <= event.x < x + width + GAP and column.sort:
                    self.sort_by(column.id)
            return
        number = self.scroll_offset.y + event.y - 1
        if number < len(self.rows):
            self._move_to(number)
            if event.chain == 2:
                self.action_open()

    def _move_to(self, number: int) -> None:
        number = max(0, min(number, len(self.rows) - 1))
        if number != self.cursor:
            for row in (self.cursor, number):
                self.refresh(Region(0, row + 1 - self.scroll_offset.y, self.size.width, 1))
            self.cursor = number
            self.post_message(self.Changed(self))
        self._left = self.current_key
        self._keep_in_sight()

    def _keep_in_sight(self) -> None:
        if not self.size:
            return
        number, top = self.cursor, self.scroll_offset.y
        height = max(1, self.size.height - 1)
        if number < top:
            self.scroll_to(y=number, animate=False, immediate=True)
        elif number >= top + height:
            self.scroll_to(y=number - height + 1, animate=False, immediate=True)
