"""Thousands of members at a glance: one cell for each partition, by topic."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from rich.cells import cell_len

from k2ktui.console.widgets.styled_text import fit
from k2ktui.engine.severity import Severity
from k2ktui.present.formatting import STALE, Cell, Glyphs, Line, Tone, name, tone_of

# A topic with more partitions is shown as counts: cells of one kind add nothing.
_MOST_CELLS = 24
_LONGEST = 24
_GAP = "   "


def sign_of(severity: Severity, glyphs: Glyphs) -> str:
    """Return the cell of a severity; the signs differ, so that the map needs no color."""
    if severity is Severity.OK:
        return "#" if glyphs.ascii else "■"
    if severity is Severity.INFO:
        return "o" if glyphs.ascii else "□"
    return glyphs.status[severity]


def cell_map(
    members: Mapping[str, Sequence[Severity]],
    width: int,
    height: int,
    glyphs: Glyphs,
    *,
    stale: bool = False,
) -> list[Line]:
    """Return a map of at most ``height`` lines: names with a cell for each member, worst first.

    Names that are left out are counted on the last line, with the worst of their severities. Cells
    of a ``stale`` reading that are no problem are dim.
    """
    if height < 1 or not members:
        return []
    order = sorted(members, key=lambda topic: (-_worst(members[topic]), topic))
    lines: list[list[Cell]] = [[]]
    room = width
    for number, topic in enumerate(order):
        entry = _entry(topic, members[topic], glyphs, stale=stale)
        length = sum(cell_len(cell.text) for cell in entry)
        rest = order[number + 1 :]
        # The last line keeps room for the count of what follows.
        kept = cell_len(_more(len(rest) + 1)) + 3 if rest else 0
        last = len(lines) == height
        if lines[-1] and length + len(_GAP) + (kept if last else 0) > room:
            if last:
                left = order[number:]
                worst = max(_worst(members[name]) for name in left)
                lines[-1] += [Cell(_GAP), Cell(_more(len(left)), _tone(worst, stale=stale))]
                break
            lines.append([])
            room = width
        if lines[-1]:
            lines[-1].append(Cell(_GAP))
            room -= len(_GAP)
        lines[-1] += entry
        room -= length
    return [tuple(line) for line in lines]


def legend(
    counts: Sequence[tuple[Severity, str, int]], glyphs: Glyphs, *, stale: bool = False
) -> Line:
    """Return what the cells mean, and how many there are of each."""
    cells: list[Cell] = []
    for severity, word, count in counts:
        tone = _tone(severity, stale=stale)
        cells.append(Cell(sign_of(severity, glyphs), tone))
        amount = glyphs.text(f"{STALE if stale else ''}{count:,}")
        cells += [Cell(f" {amount}", Tone.HEADING), Cell(f" {word}   ", Tone.MUTED)]
    return tuple(cells)


def _tone(severity: Severity, *, stale: bool) -> Tone:
    return Tone.MUTED if stale and severity < Severity.WARN else tone_of(severity)


def _worst(members: Sequence[Severity]) -> Severity:
    return max(members, default=Severity.OK)


def _more(count: int) -> str:
    return f"and {count:,} more"


def _entry(topic: str, members: Sequence[Severity], glyphs: Glyphs, *, stale: bool) -> list[Cell]:
    label = name(topic, 200)
    label = fit(label, min(cell_len(label), _LONGEST), ellipsis=glyphs.text("…"))
    cells = [Cell(f"{label} ")]
    if len(members) > _MOST_CELLS:
        counted = Counter(members)
        for severity in sorted(counted, reverse=True):
            text = f"{sign_of(severity, glyphs)}{counted[severity]:,} "
            cells.append(Cell(text, _tone(severity, stale=stale)))
        return cells
    run = ""
    before: Severity | None = None
    for severity in members:
        if severity is not before and before is not None:
            cells.append(Cell(run, _tone(before, stale=stale)))
            run = ""
        run, before = run + sign_of(severity, glyphs), severity
    if before is not None:
        cells.append(Cell(run, _tone(before, stale=stale)))
    return cells
