"""Spans of source offsets, ``[first, end)``."""

from __future__ import annotations

from collections.abc import Iterable

Span = tuple[int, int]


def clip_spans(spans: Iterable[Span], first: int, end: int) -> list[Span]:
    """Return the parts of the spans within ``[first, end)``."""
    return [(max(a, first), min(b, end)) for a, b in spans if a < end and b > first]


def merge_spans(spans: Iterable[Span]) -> tuple[Span, ...]:
    """Return the spans, sorted; those that overlap or meet become one."""
    found: list[Span] = []
    for first, end in sorted(spans):
        if found and found[-1][1] >= first:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((first, end))
    return tuple(found)
