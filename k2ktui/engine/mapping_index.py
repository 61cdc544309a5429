"""Where in a partition of the mapping topic the mapping of a source partition lies.

One entry for every few hundred records: enough to read again only the stretch that matters.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right

_RECORDS = 256
_MILLISECONDS = 600_000


class MappingIndex:
    """Entries in the order of the mapping partition, each for records that follow each other."""

    def __init__(self) -> None:
        self._offset, self._done, self._at = array("q"), array("q"), array("q")
        # Lowest source offset of an entry's records, and where all earlier ones end at most.
        self._first, self._before = array("q"), array("q")
        self._highest = 0
        self._room = 0

    def note(self, offset: int, done: int, at_ms: int, first: int, end: int, records: int) -> None:
        """Take note of records that cover the source offsets ``[first, end)``.

        Args:
            offset: where the first of them is in the mapping partition.
            done: where the last one is.
            at_ms: when they were written.
            first, end: source offsets.
            records: how many they are.
        """
        late = bool(self._at) and at_ms - self._at[-1] >= _MILLISECONDS
        if records > self._room or first < self._highest or late:
            self._offset.append(offset)
            self._done.append(done)
            self._at.append(max(at_ms, self._at[-1] if self._at else at_ms))
            self._first.append(first)
            self._before.append(self._highest)
            self._room = _RECORDS
        self._room -= records
        self._highest = max(self._highest, end)

    def stretch(self, low: int, high: int) -> tuple[int, int | None]:
        """Return offsets ``[begin, stop)`` with all records for the source offsets ``[low, high)``.

        No ``stop``: up to what was read last.
        """
        row = bisect_right(self._before, low) - 1
        # Parts of a repeat may have begun before the record in front of it.
        begin = min(self._offset[row:])
        last = max((n for n, first in enumerate(self._first) if first < high), default=row)
        stop = self._done[last + 1] if last + 1 < len(self._done) else None
        return begin, stop

    def back(self, source: int, steps: int) -> int:
        """Return a source offset some entries before the one for ``source``."""
        row = bisect_right(self._before, source) - 1 - steps
        return self._before[max(0, row)]

    def older_than(self, at_ms: int) -> int:
        """Return the source offset below which mappings were written before a time."""
        row = bisect_left(self._at, at_ms) - 1
        return self._before[row] if row >= 0 else 0

    def whole_from(self, offset: int) -> int:
        """Return the source offset from which on records at or after ``offset`` are enough."""
        row = max((n + 1 for n, at in enumerate(self._offset) if at < offset), default=0)
        return self._before[row] if row < len(self._before) else self._highest
