"""Facts of a detail: a text with its label, on as many lines as it takes."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

from rich.cells import cell_len

from k2ktui.present.formatting import Cell, Line, Tone

_LABEL = 12


def fact(label: str, text: str, tone: Tone = Tone.PLAIN, indent: int = _LABEL) -> Line:
    """Return a text behind its label, which takes ``indent`` cells; nothing without a text."""
    return (Cell(f"{label:<{indent}}", Tone.MUTED), Cell(text, tone)) if text else ()


def wrapped(line: Line, width: int) -> list[Line]:
    """Return a line with a label on as many lines as it takes; others as they are."""
    if len(line) != 2 or sum(cell_len(cell.text) for cell in line) <= width:
        return [line]
    label, text = line
    room = max(8, width - cell_len(label.text))
    first, *rest = textwrap.wrap(text.text, room) or [""]
    blank = Cell(" " * cell_len(label.text))
    return [(label, Cell(first, text.tone)), *((blank, Cell(part, text.tone)) for part in rest)]


def fact_lines(facts: Iterable[Line], width: int) -> list[Line]:
    """Return facts on as many lines as they take; see :func:`fact`."""
    return [part for line in facts if line for part in wrapped(line, width)]
