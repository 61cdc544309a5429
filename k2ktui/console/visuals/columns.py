"""Values as columns side by side, the oldest first, with an objective as a line across them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.cells import cell_len

from k2ktui.present.formatting import Cell, Glyphs, Line, Tone

_EIGHTHS = " ▁▂▃▄▅▆▇█"


def columns(
    values: Sequence[float | None],
    goal: float | None,
    size: tuple[int, int],
    glyphs: Glyphs,
    text: Callable[[float], str],
) -> list[Line]:
    """Return one column a value, the last ones that fit; those above the objective stand out.

    Args:
        values: the oldest first; an unknown one (None) is a question mark.
        goal: the objective, drawn as a line of dashes; None for none.
        size: cells and lines.
        glyphs: the character set.
        text: writes a value of the scale.
    """
    width, height = size
    known = [value for value in values if value is not None]
    top = max([*known, goal or 0.0]) if known or goal else 0.0
    labels = {0: text(top), height - 1: text(0.0)}
    if goal is not None:
        labels[_line_of(goal, top, height)] = text(goal)
    margin = max(cell_len(label) for label in labels.values()) + 1
    shown = list(values)[-max(1, width - margin) :]
    lines: list[Line] = []
    for number in range(height):
        is_goal = goal is not None and number == _line_of(goal, top, height)
        cells = [Cell(f"{labels.get(number, ''):>{margin - 1}} ", Tone.MUTED)]
        cells += [_cell(value, goal, top, number, height, glyphs, is_goal) for value in shown]
        if is_goal:
            rest = width - margin - len(shown)
            cells.append(Cell(("-" if glyphs.ascii else "╌") * rest, Tone.BAD))
        lines.append(tuple(cells))
    return lines


def _line_of(value: float, top: float, height: int) -> int:
    """Return the line, from above, in which a value ends."""
    if top <= 0:
        return height - 1
    return min(height - 1, max(0, height - 1 - int(value / top * height - 1e-9)))


def _cell(
    value: float | None,
    goal: float | None,
    top: float,
    number: int,
    height: int,
    glyphs: Glyphs,
    is_goal: bool,
) -> Cell:
    """Return the part of a column in one line; the objective is seen where no column is."""
    empty = Cell(("-" if glyphs.ascii else "╌") if is_goal else " ", Tone.BAD)
    if value is None:
        return Cell("?", Tone.UNKNOWN) if number == height - 1 else empty
    eighths = round(value / top * height * 8) if top > 0 else 0
    eighths = max(1, eighths) if value > 0 else 0
    filled = max(0, min(8, eighths - 8 * (height - 1 - number)))
    if not filled:
        return empty
    tone = Tone.WARN if goal is not None and value > goal else Tone.INFO
    if glyphs.ascii:
        return Cell("!" if tone is Tone.WARN else "#", tone)
    return Cell(_EIGHTHS[filled], tone)
