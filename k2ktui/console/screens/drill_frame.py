"""What all screens of a drill or a site drill show: tiles, what happens now, and a table."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar, Generic

from textual.containers import Container, Vertical
from textual.widget import Widget

from k2ktui.console.drill_operator import AnyDrill
from k2ktui.console.screens.operation import OperationScreen
from k2ktui.console.visuals.panel import Panel, Tile, is_framed, is_wide, side_width
from k2ktui.console.widgets.foot_line import FootLine
from k2ktui.console.widgets.grid import Grid
from k2ktui.console.widgets.styled_text import wrap
from k2ktui.present import formatting
from k2ktui.present.formatting import Cell

# The lines beside what happens now and the rows on a narrow terminal.
_BESIDE_NOW = 11


class DrillFrame(OperationScreen, Generic[AnyDrill]):
    """A drill or a site drill, shown.

    Args:
        drill: the drill; None before it has begun.

    Attributes:
        TITLES: of the tiles about its state and its checks, and of the row under the cursor.
        NARROW_LINES: the least lines of what happens now on a narrow terminal.
    """

    TITLES: ClassVar[tuple[str, str, str]]
    NARROW_LINES: ClassVar[int]

    def __init__(self, drill: AnyDrill | None) -> None:
        super().__init__()
        self.drill: AnyDrill | None = drill

    # For subclasses

    @abstractmethod
    def show_drill(self, drill: AnyDrill) -> None:
        """Show a drill."""

    @abstractmethod
    def make_grid(self) -> Grid[Any]:
        """Create the table."""

    @property
    @abstractmethod
    def row_count(self) -> int:
        """The number of rows of the table."""

    @abstractmethod
    def command(self, verb: str, *more: str) -> str:
        """Return the command that does something with the drill."""

    # Frame

    def body(self) -> Iterable[Widget]:
        """Yield the tiles, what happens now, the table, and the row under the cursor."""
        state, checks, row = self.TITLES
        with Container(id="tiles"):
            yield Tile("RTO", id="rto")
            yield Tile("RPO", id="rpo")
            yield Tile(state, id="way")
            yield Tile(checks, id="checks")
        with Container(id="drill-list"):
            with Vertical(id="drill-side"):
                yield Tile("Now", id="now")
                yield Tile(row, id="phase")
            with Vertical(id="drill-phases"):
                yield Panel(self.PANEL, self.make_grid(), id="table")
                yield from self.below_table()
        yield FootLine()

    def below_table(self) -> Iterable[Widget]:
        """Yield what stands below the table."""
        return ()

    def lay_out_tiles(self) -> tuple[list[Tile], tuple[int, int]]:
        """Fit the tiles into the screen; return them, and cells and lines of each."""
        lines, columns = self._tile_lines, 4 if self._side else 3
        box = self.query_one("#tiles")
        box.styles.grid_size_columns = columns
        box.styles.height = lines + (2 if is_framed(self) else 1)
        self.query_one("#checks").display = columns == 4
        tiles = [self.query_one(f"#{name}", Tile) for name in ("rto", "rpo", "way", "checks")]
        if self.drill is None:
            for tile in tiles:
                tile.show([(Cell(formatting.NOT_YET),)])
        return tiles, (self.size.width // columns - (4 if is_framed(self) else 2), lines)

    @property
    def _tile_lines(self) -> int:
        """The lines of a tile's content."""
        return 4 if is_framed(self) else 2

    @property
    def _side(self) -> int:
        """The cells of the panels beside the table; 0 where they are above it."""
        return side_width(self) if is_wide(self) else 0

    @property
    def _narrow_lines(self) -> int:
        """The lines of what happens now on a narrow terminal: what the table does not need."""
        return max(self.NARROW_LINES, self.size.height - self.row_count - _BESIDE_NOW)

    @property
    def _now_ms(self) -> int:
        return int(self.session.feed.now() * 1000)

    def wrap(self, text: str) -> list[str]:
        """Return a text wrapped to the panel beside the table, or to the screen's width."""
        width = self._side - 5 if self._side else self.size.width - 3
        return wrap(text, max(20, width))

    def text_to_copy(self) -> str:
        """Return the command that continues it, or prints its report."""
        if self.drill is None:
            return ""
        return self.command("report" if self.drill.is_over else self.drill.next_verb)
