"""Phases in time: each is a bar whose length is its duration, and which begins where it began."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from k2ktui.present.formatting import Cell, Glyphs, Line, Tone


@dataclass(frozen=True, slots=True)
class Phase:
    """One bar of a timeline.

    Attributes:
        began: in epoch seconds; None if it has not begun.
        ended: None while it lasts.
        tone: of its bar.
    """

    began: float | None
    ended: float | None = None
    tone: Tone = Tone.OK


def timeline(phases: Sequence[Phase], now: float, width: int, glyphs: Glyphs) -> list[Line]:
    """Return a line for each phase; all share one scale, from the first beginning to the last end.

    A phase that has begun has a bar of one cell at least; one that has not begun has none.
    """
    begun = [phase for phase in phases if phase.began is not None]
    if not begun or width < 1:
        return [() for _ in phases]
    first = min(phase.began for phase in begun if phase.began is not None)
    last = max(now if phase.ended is None else phase.ended for phase in begun)
    scale = width / max(last - first, 1e-9)
    sign = "=" if glyphs.ascii else "▇"
    lines: list[Line] = []
    for phase in phases:
        if phase.began is None:
            lines.append(())
            continue
        end = now if phase.ended is None else phase.ended
        at = min(width - 1, int((phase.began - first) * scale))
        length = max(1, min(width - at, round((end - phase.began) * scale)))
        lines.append((Cell(" " * at), Cell(sign * length, phase.tone)))
    return lines
