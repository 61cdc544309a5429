"""A row of tiles with totals: what is in them, and their share of the whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.containers import Container

from k2ktui.console.visuals.panel import Tile, is_framed
from k2ktui.console.visuals.shapes import bar
from k2ktui.console.widgets.styled_text import glyphs_of
from k2ktui.engine.severity import Severity
from k2ktui.present.formatting import Cell, Glyphs, Line, Tone, tone_of
from k2ktui.text import counted

Part = tuple[int, str, Tone]


@dataclass(frozen=True, slots=True)
class Sum:
    """What a tile shows.

    Attributes:
        title: of the tile, short: on a narrow terminal it has ten cells.
        parts: numbers with their words and tones; the first is shown always, others if not 0.
        share: of the whole (0 to 1), drawn as a bar; None draws none.
        note: dim words in place of the bar.
        severity: colors the frame.
    """

    title: str
    parts: Sequence[Part]
    share: float | None = None
    note: str = ""
    severity: Severity | None = None

    def lines(self, width: int, glyphs: Glyphs) -> list[Line]:
        """Return two lines: the figures, and their bar, unless the figures need both."""
        first, *others = self.parts
        shown = [first, *(part for part in others if part[0])]
        texts = [f"{count:,} {word}" for count, word, _ in shown]
        if cell_len("  ".join(texts)) <= width:
            return [_figures(shown), self._shape(width, glyphs)]
        if len(shown) > 1:
            return [_figures(shown[:1]), _figures(shown[1:])]
        count, word, tone = first
        return [(Cell(f"{count:,}", _strong(tone)),), (Cell(word, tone),)]

    def _shape(self, width: int, glyphs: Glyphs) -> Line:
        if self.share is None:
            return (Cell(self.note, Tone.MUTED),)
        strong = next((tone for count, _, tone in self.parts if count), Tone.OK)
        return bar(self.share, width, glyphs, Tone.OK if strong is Tone.PLAIN else strong)


def _strong(tone: Tone) -> Tone:
    return Tone.HEADING if tone is Tone.PLAIN else tone


def _figures(parts: Sequence[Part]) -> Line:
    cells: list[Cell] = []
    for count, word, tone in parts:
        if cells:
            cells.append(Cell("  "))
        cells += [Cell(f"{count:,}", _strong(tone)), Cell(f" {word}", tone)]
    return tuple(cells)


def at_most(title: str, records: int, severity: Severity) -> Sum:
    """Return an upper bound in records, which is as bad as ``severity`` unless it is 0."""
    if not records:
        return Sum(title, [(0, "records", Tone.MUTED)])
    parts = [(records, "records", tone_of(severity))]
    return Sum(title, parts, note="at most", severity=severity)


def cost_cell(again: int, lost: int, verbs: tuple[str, str]) -> Cell:
    """Return the sentence of what a plan costs: records read or copied again, and those lost."""
    first, second = (
        f"at most {counted(records, 'record')}" if records else "no record"
        for records in (again, lost)
    )
    text = f"{first.capitalize()} {verbs[0]}, {second} {verbs[1]}."
    return Cell(text, Tone.BAD if lost else Tone.WARN if again else Tone.PLAIN)


class Sums(Container):
    """A row of tiles; those without a total are hidden, and the row without any."""

    _MOST = 5

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._sums: tuple[Sum, ...] = ()

    def compose(self) -> ComposeResult:
        """Yield the tiles."""
        for _ in range(self._MOST):
            yield Tile("")

    def on_resize(self) -> None:
        """Draw for the new size."""
        self._draw()

    def show(self, sums: Sequence[Sum]) -> None:
        """Show totals, at most five."""
        if tuple(sums) != self._sums:
            self._sums = tuple(sums)
            self._draw()

    def _draw(self) -> None:
        self.display = bool(self._sums)
        glyphs, count = glyphs_of(self), max(1, len(self._sums))
        framed = is_framed(self.screen)
        width = self.screen.size.width // count - (4 if framed else 2)
        for number, tile in enumerate(self.query(Tile)):
            shown = number < len(self._sums)
            tile.display = shown
            if shown:
                total = self._sums[number]
                tile.label(total.title)
                tile.show(total.lines(max(4, width), glyphs), total.severity)
