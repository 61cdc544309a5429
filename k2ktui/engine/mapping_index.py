"""A sparse index of one source partition's records in a partition of the mapping topic.

It holds one entry per few hundred records, so that only the relevant stretch is read again.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right

_RECORDS = 256
_MILLISECONDS = 600_000


class MappingIndex:
    """Entries in the order of the mapping partition, each for a group of consecutive records."""

    def __init__(self) -> None:
        self._offset, self._done, self._at = array("q"), array("q"), array("q")
        # Lowest source offset of an entry's records, and the highest end of all earlier ones.
        self._first, self._before = array("q"), array("q")
        self._highest = 0
        self._room = 0

    def note(self, offset: int, done: int, at_ms: int, first: int, end: int, records: int) -> None:
        """Index records that cover the source offsets ``[first, end)``.

        Args:
            offset: offset of the first record in the mapping partition.
            done: offset of the last record.
            at_ms: when they were written, epoch milliseconds.
            first, end: source offsets.
            records: number of records.
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

        ``stop`` is None if the stretch extends to the last record read.
        """
        row = bisect_right(self._before, low) - 1
        # Parts of a repeat may begin before the preceding record.
        begin = min(self._offset[row:])
        last = max((n for n, first in enumerate(self._first) if first < high), default=row)
        stop = self._done[last + 1] if last + 1 < len(self._done) else None
        return begin, stop

    def back(self, source: int, steps: int) -> int:
        """Return a source offset ``steps`` entries before the one for ``source``."""
        row = bisect_right(self._before, source) - 1 - steps
        return self._before[max(0, row)]

    def older_than(self, at_ms: int) -> int:
        """Return the source offset below which mappings were written before a time."""
        row = bisect_left(self._at, at_ms) - 1
        return self._before[row] if row >= 0 else 0

    def whole_from(self, offset: int) -> int:
        """Return the source offset from which records at or after ``offset`` are sufficient."""
        row = max((n + 1 for n, at in enumerate(self._offset) if at < offset), default=0)
        return self._before[row] if row < len(self._before) else self._highest
