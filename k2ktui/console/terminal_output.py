"""The cells that a terminal shows, so that only those that change are written to it.

Of a line that has changed, Textual writes the widget's part from its left edge to the end of the
last change, with the colors of every piece: over ssh a table whose last column changes is sent
whole, at every refresh. Here the screen before is known, cell by cell, and what is equal is left
out, whatever a widget has asked to be drawn again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from rich.cells import cell_len
from rich.console import Console
from rich.control import Control
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

# Equal cells between two changes that are written, too: to move the cursor costs as many bytes,
# and to set the colors again some more.
_GAP, _GAP_OF_ONE_COLOR = 8, 30
# Characters on whose width terminals agree, as far as it is one cell: Latin, Greek, Cyrillic,
# punctuation, arrows, lines, blocks, braille.
_NARROW = re.compile("[\x20-\x7e\xa0-\u052f\u2010-\u2bff]*")
_MOST_STYLES = 4096
# Stands for the text in a style's escape sequences.
_TEXT = "\0"
_UNKNOWN = ""


@dataclass(slots=True)
class _Shown:
    """A line of the terminal.

    Attributes:
        texts: of its cells; empty behind a wide character, and where nothing is known.
        pens: the escape sequences of each cell.
        uncertain: whether it has characters whose width a terminal may take for another one.
    """

    texts: list[str] = field(default_factory=list)
    pens: list[str] = field(default_factory=list)
    uncertain: bool = False

    def put(self, x: int, texts: Sequence[str], pens: Sequence[str]) -> None:
        """Replace cells from ``x`` on."""
        missing = x + len(texts) - len(self.texts)
        self.texts += [_UNKNOWN] * missing
        self.pens += [_UNKNOWN] * missing
        self.texts[x : x + len(texts)] = texts
        self.pens[x : x + len(pens)] = pens


class ShownCells:
    """What a terminal shows, as far as it was written here."""

    def __init__(self) -> None:
        self._lines: dict[int, _Shown] = {}
        self._pens: dict[Style, str] = {}

    def forget(self) -> None:
        """Take nothing for known: the terminal was cleared, or another program wrote on it."""
        self._lines.clear()

    def changes(self, x: int, y: int, strip: Strip, console: Console) -> str:
        """Return what is to be written so that the terminal shows a strip, and keep that."""
        line = self._lines.setdefault(y, _Shown())
        texts, pens, is_certain = self._cells(strip, console)
        end = x + len(texts)
        old_texts, old_pens = line.texts[x:end], line.pens[x:end]
        if old_texts == texts and old_pens == pens:
            return ""
        line.uncertain |= not is_certain
        line.put(x, texts, pens)
        if line.uncertain or len(old_texts) < len(texts):
            return _move(x, y) + strip.render(console)
        places = [
            n
            for n, (text, pen) in enumerate(zip(texts, pens, strict=True))
            if old_texts[n] != text or old_pens[n] != pen
        ]
        return "".join(
            _move(x + first, y) + _written(texts, pens, first, last)
            for first, last in _stretches(places, pens)
        )

    def _cells(self, strip: Strip, console: Console) -> tuple[list[str], list[str], bool]:
        """Return the text and the escape sequences of each cell, and whether widths are certain."""
        texts: list[str] = []
        pens: list[str] = []
        all_certain = True
        for text, style, _ in strip:
            cells, is_certain = _cells_of(text)
            all_certain &= is_certain
            texts += cells
            pens += [self._pen(style, console)] * len(cells)
        return texts, pens, all_certain

    def _pen(self, style: Style | None, console: Console) -> str:
        if style is None:
            return _TEXT
        pen = self._pens.get(style)
        if pen is None:
            if len(self._pens) >= _MOST_STYLES:
                self._pens.clear()
            pen = self._pens[style] = Strip([Segment(_TEXT, style)], 1).render(console)
        return pen


@lru_cache(4096)
def _cells_of(text: str) -> tuple[Sequence[str], bool]:
    """Return a text's cells; of characters whose width is not certain, all in the first one."""
    if text.isascii() or (
        _NARROW.fullmatch(text) and all(cell_len(character) == 1 for character in text)
    ):
        return tuple(text), True
    return (text, *[""] * (cell_len(text) - 1)), False


def _stretches(places: Sequence[int], pens: Sequence[str]) -> list[tuple[int, int]]:
    """Return the stretches (first, behind the last) to write so that all places are written."""
    stretches: list[tuple[int, int]] = []
    for place in places:
        if stretches:
            first, end = stretches[-1]
            gap = place - end
            if gap <= _GAP or (
                gap <= _GAP_OF_ONE_COLOR and len(set(pens[end - 1 : place + 1])) == 1
            ):
                stretches[-1] = first, place + 1
                continue
        stretches.append((place, place + 1))
    return stretches


def _written(texts: Sequence[str], pens: Sequence[str], first: int, end: int) -> str:
    parts: list[str] = []
    at = first
    for place in range(first + 1, end + 1):
        if place == end or pens[place] != pens[at]:
            parts.append(pens[at].replace(_TEXT, "".join(texts[at:place])))
            at = place
    return "".join(parts)


def _move(x: int, y: int) -> str:
    return Control.move_to(x, y).segment.text
