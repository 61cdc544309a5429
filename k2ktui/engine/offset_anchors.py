"""Translation where only single records are known to have landed somewhere, as with MirrorMaker 2.

A *cut* ``(source, target)`` is a proven border: every committed record below the source offset
landed below the target offset, all others at or behind it. A record that is known to have landed
gives two: before itself and behind itself. A committed offset on a cut translates exactly;
otherwise the cut before it is the safest position: nothing is skipped, and what was consumed since
is read again.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class OffsetAnchor:
    """A proven border between records; see the module."""

    source: int
    target: int


class OffsetAnchors:
    """The cuts of one source partition on its one target partition, in the order of both logs.

    Args:
        most: how many are held; beyond that every second one of the older half goes, which makes
            bounds wider there and nothing wrong.
    """

    def __init__(self, most: int = 100_000) -> None:
        self._most = most
        self._sources: list[int] = []
        self._targets: list[int] = []
        self._newest = -1
        self._compared: set[int] = set()

    def __len__(self) -> int:
        return len(self._sources)

    def __iter__(self) -> Iterator[OffsetAnchor]:
        return (OffsetAnchor(s, t) for s, t in zip(self._sources, self._targets, strict=True))

    def landed(self, source: int, target: int) -> None:
        """Take in that a record landed; to be told in the order of landing.

        A record at or before one that was told copies the source again from there on: what was
        known of the records from there on is of their earlier copies. One that landed earlier than
        what was told is in a target topic that was created anew: nothing else holds any more.
        """
        if target < self._newest:
            self._sources, self._targets, self._compared = [], [], set()
        self._newest = target
        at = bisect_left(self._sources, source)
        behind = bisect_left(self._targets, target, lo=at)
        self._compared.difference_update(self._sources[at:behind])
        del self._sources[at:behind], self._targets[at:behind]
        self._insert(OffsetAnchor(source, target))
        self._insert(OffsetAnchor(source + 1, target + 1))
        self._thin()

    def _thin(self) -> None:
        if len(self) <= self._most:
            return
        half = len(self) // 2
        self._compared.difference_update(self._sources[1:half:2])
        del self._sources[1:half:2], self._targets[1:half:2]

    def prove(self, cut: OffsetAnchor) -> bool:
        """Take in a cut that comparing records proved; False if it contradicts what is known."""
        if not self._insert(cut):
            return False
        self._compared.add(cut.source)
        self._thin()
        return True

    def compared(self, offset: int) -> bool:
        """Tell whether comparing records proved the cut at a source offset."""
        return offset in self._compared

    def _insert(self, cut: OffsetAnchor) -> bool:
        at = bisect_right(self._sources, cut.source)
        if at and self._targets[at - 1] > cut.target:
            return False
        if at < len(self._sources) and self._targets[at] < cut.target:
            return False
        if at and self._sources[at - 1] == cut.source:
            return True  # both hold: there is no record between them
        self._sources.insert(at, cut.source)
        self._targets.insert(at, cut.target)
        return True

    def before(self, offset: int) -> OffsetAnchor | None:
        """Return the last cut at or before a source offset."""
        at = bisect_right(self._sources, offset)
        return OffsetAnchor(self._sources[at - 1], self._targets[at - 1]) if at else None

    def behind(self, offset: int) -> OffsetAnchor | None:
        """Return the first cut at or behind a source offset."""
        at = bisect_left(self._sources, offset)
        return (
            OffsetAnchor(self._sources[at], self._targets[at]) if at < len(self._sources) else None
        )

    def target_end(self) -> int | None:
        """Return the target offset of the last cut, None if there is none."""
        return self._targets[-1] if self._targets else None
