"""Gaps of a position: few, in order and disjoint, so that a position always fits its record."""

from __future__ import annotations

from dataclasses import replace

from k2ktui.engine.state import Gap

MAX_GAPS = 100
"""Most gaps that a position keeps: about 6 KB of a record that may have 1 MiB."""


def with_gap(gaps: tuple[Gap, ...], new: Gap) -> tuple[Gap, ...]:
    """Return the gaps with one more; those that touch and have the same reason are one.

    Where two overlap, the later one's reason holds. Beyond ``MAX_GAPS`` the lowest are dropped and
    not merged: offsets outside of all gaps without a mapping are unknown to a reader, which is
    safe, while a merged gap would cover offsets that were copied.
    """
    if new.end <= new.first:
        return gaps
    kept: list[Gap] = []
    for gap in gaps:
        if gap.reason == new.reason and gap.first <= new.end and new.first <= gap.end:
            new = replace(new, first=min(gap.first, new.first), end=max(gap.end, new.end))
        else:
            kept.append(gap)
    found = [new]
    for gap in kept:
        below = replace(gap, end=min(gap.end, new.first))
        above = replace(gap, first=max(gap.first, new.end))
        found += [part for part in (below, above) if part.first < part.end]
    return tuple(sorted(found, key=lambda gap: gap.first)[-MAX_GAPS:])
