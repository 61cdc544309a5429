"""Sets of offsets as intervals, such as the source offsets that a mapping covers."""

from __future__ import annotations

from collections.abc import Iterable

Span = tuple[int, int]
FOREVER = (1 << 63) - 1


class OffsetIntervals:
    """Disjoint intervals ``[low, high)`` in order; adjacent intervals are merged.

    Attributes:
        revision: increases with every change.
    """

    def __init__(self, spans: Iterable[Span] = ()) -> None:
        self.revision = 0
        self._spans: list[Span] = []
        for low, high in spans:
            self.add(low, high)

    def __bool__(self) -> bool:
        return bool(self._spans)

    @property
    def end(self) -> int:
        """Offset after the last one; 0 if there is none."""
        return self._spans[-1][1] if self._spans else 0

    def touches(self, low: int, high: int) -> bool:
        """Whether any of ``[low, high)`` is included."""
        return low < self.end and any(a < high and low < b for a, b in self._spans)

    def all(self) -> tuple[Span, ...]:
        """Return the intervals, lowest first."""
        return tuple(self._spans)

    def add(self, low: int, high: int) -> None:
        """Include ``[low, high)``."""
        if high <= low:
            return
        self.revision += 1
        # The common case: the last interval grows.
        if self._spans and self._spans[-1][0] <= low <= self._spans[-1][1]:
            self._spans[-1] = (self._spans[-1][0], max(high, self._spans[-1][1]))
            return
        if low > self.end or not self._spans:
            self._spans.append((low, high))
            return
        apart = [span for span in self._spans if span[1] < low or span[0] > high]
        touched = [span for span in self._spans if span[1] >= low and span[0] <= high]
        whole = (
            min([low, *(span[0] for span in touched)]),
            max([high, *(span[1] for span in touched)]),
        )
        self._spans = sorted([*apart, whole])

    def forget(self, low: int, high: int) -> None:
        """Exclude ``[low, high)``."""
        if high <= low:
            return
        self.revision += 1
        kept = []
        for first, end in self._spans:
            kept += [(first, min(end, low)), (max(first, high), end)]
        self._spans = [span for span in kept if span[0] < span[1]]

    def missing(self, low: int, high: int) -> list[Span]:
        """Return the parts of ``[low, high)`` that are not included, lowest first."""
        gaps, at = [], low
        for first, end in self._spans:
            if first >= high:
                break
            if first > at:
                gaps.append((at, first))
            at = max(at, end)
        if at < high:
            gaps.append((at, high))
        return gaps
