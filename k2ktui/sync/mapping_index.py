"""Where in its mapping partition the mapping of a source partition lies.

One entry for every few hundred records of the source partition: enough to read again only the
stretch that matters, and to know what deletion from the head of the partition has taken.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from dataclasses import dataclass

_RECORDS = 256
_MILLISECONDS = 600_000


@dataclass(frozen=True, slots=True)
class Entry:
    """A record of the mapping topic, and how far the records before it reach.

    Attributes:
        offset: its offset in the mapping partition.
        before: source offset below which all earlier records end; they map nothing from it on.
    """

    offset: int
    before: int


@dataclass(frozen=True, slots=True)
class _Repeated:
    offset: int
    first: int
    end: int


class Index:
    """Entries in the order of the mapping partition."""

    def __init__(self) -> None:
        self._offsets, self._before, self._at = array("q"), array("q"), array("q")
        self._repeats: list[_Repeated] = []
        self._since_entry = 0
        self._due = True
        self.highest = 0

    def __len__(self) -> int:
        return len(self._offsets)

    def note(self, offset: int, at_ms: int, records: int, end: int) -> None:
        """Take note of records that follow each other and whose ranges end at ``end`` at most.

        ``offset`` and ``at_ms`` are the first one's.
        """
        if (
            self._due
            or self._since_entry + records > _RECORDS
            or at_ms - self._at[-1] >= _MILLISECONDS
        ):
            self._offsets.append(offset)
            self._before.append(self.highest)
            self._at.append(at_ms)
            self._since_entry, self._due = 0, False
        self._since_entry += records
        self.highest = max(self.highest, end)

    def repeated(self, offset: int, first: int, end: int) -> None:
        """Take note of a repeat of source offsets ``[first, end)`` that begins at ``offset``."""
        self._repeats.append(_Repeated(offset, first, end))
        # What comes next must not count as lost together with what came before the repeat.
        self._due = True

    def cut_off(self) -> Index:
        """Return an index of what follows; nothing noted so far can be read again."""
        made = Index()
        made.note(-1, 0, 1, self.highest)
        made._due = True
        return made

    def entry_for(self, source: int) -> Entry | None:
        """Return the last entry before everything that maps ``source`` or a higher offset."""
        row = bisect_right(self._before, source) - 1
        return Entry(self._offsets[row], self._before[row]) if row >= 0 else None

    def back(self, source: int, steps: int) -> int:
        """Return a source offset some entries before the one for ``source``."""
        row = bisect_right(self._before, source) - 1 - steps
        return self._before[max(0, row)] if self._before else 0

    def older_than(self, at_ms: int) -> int:
        """Return the source offset below which mappings were written before a time."""
        row = bisect_left(self._at, at_ms) - 1
        return self._before[row] if row >= 0 else 0

    def whole_from(self, offset: int) -> int:
        """Return the source offset from which on records at or after ``offset`` are enough.

        0 if nothing that was noted lies before it.
        """
        row = bisect_left(self._offsets, offset)
        if row == 0:
            return 0
        known = self._before[row] if row < len(self._before) else self.highest
        for each in sorted(self._repeats, key=lambda r: r.end, reverse=True):
            if each.offset >= offset and each.first < known <= each.end:
                known = each.first
        return known

    def forget_before(self, offset: int) -> None:
        """Drop repeats that the topic has lost."""
        self._repeats = [each for each in self._repeats if each.offset >= offset]
