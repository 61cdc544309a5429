"""Gaps of a position: few, sorted and disjoint, so that a position always fits in its record."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from k2ktui.engine.records.state import Gap

RETURNED = "came from the target"
"""Reason of a gap whose records the opposite pipeline wrote: nothing of it was lost."""

MAX_GAPS = 100
"""Maximum number of gaps in a position: about 6 KB of a record of at most 1 MiB."""


def with_gap(gaps: tuple[Gap, ...], new: Gap) -> tuple[Gap, ...]:
    """Return the gaps with one more; adjacent gaps with the same reason are merged.

    Where two overlap, the reason of the new one applies. Beyond ``MAX_GAPS`` the lowest gaps are
    dropped, not merged: a reader treats unmapped offsets outside all gaps as unknown, which is
    safe, while a merged gap would include copied offsets.
    """
    if new.end <= new.first:
        return gaps
    kept: list[Gap] = []
    for gap in gaps:
        if gap.reason == new.reason and gap.first <= new.end and new.first <= gap.end:
            new = replace(new, first=min(gap.first, new.first), end=max(gap.end, new.end))
        else:
            kept.append(gap)
    merged = [new]
    for gap in kept:
        below = replace(gap, end=min(gap.end, new.first))
        above = replace(gap, first=max(gap.first, new.end))
        merged += [part for part in (below, above) if part.first < part.end]
    return tuple(sorted(merged, key=lambda gap: gap.first)[-MAX_GAPS:])


def lost_gaps(gaps: Iterable[Gap]) -> tuple[Gap, ...]:
    """Return the gaps of lost or skipped records, not those that came from the target."""
    return tuple(gap for gap in gaps if gap.reason != RETURNED)


def find_returned_end(gaps: Iterable[Gap]) -> int:
    """Return the offset after the last gap whose records came from the target; 0 for none."""
    return max((gap.end for gap in gaps if gap.reason == RETURNED), default=0)


def gaps_before(gaps: tuple[Gap, ...], end: int) -> tuple[Gap, ...]:
    """Return the parts of the gaps before an offset, for a position that moves back to it."""
    return tuple(replace(gap, end=min(gap.end, end)) for gap in gaps if gap.first < end)
