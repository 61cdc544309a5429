"""Translation where target offsets are known for single records only, as with MirrorMaker 2.

An *anchor* ``(source, target)`` is a proven boundary: every committed record below the source
offset landed below the target offset, all others at or after it. Each record with a known target
offset gives two anchors: one before and one after itself. A committed offset at an anchor
translates exactly; otherwise the anchor before it is the safest position: nothing is skipped, and
records consumed since then are read again.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class OffsetAnchor:
    """A proven boundary between records; see the module docstring."""

    source: int
    target: int


class OffsetAnchors:
    """The anchors of one source partition on its one target partition, in the order of both logs.

    Args:
        most: maximum number of anchors; beyond it every second anchor of the older half is
            dropped, which widens the bounds there but keeps them correct.
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

    def add_record(self, source: int, target: int) -> None:
        """Add the target offset of a record; call in the order in which records landed.

        A source offset at or before a known one means that the source is copied again from there:
        anchors from there on belong to the earlier copies and are dropped. A target offset below
        the newest one means that the target topic was re-created: all other anchors are dropped.
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

    def prove(self, anchor: OffsetAnchor) -> bool:
        """Add an anchor proven by comparing records; False if it contradicts known anchors."""
        if not self._insert(anchor):
            return False
        self._compared.add(anchor.source)
        self._thin()
        return True

    def is_compared(self, offset: int) -> bool:
        """Whether the anchor at a source offset was proven by comparing records."""
        return offset in self._compared

    def _insert(self, anchor: OffsetAnchor) -> bool:
        at = bisect_right(self._sources, anchor.source)
        if at and self._targets[at - 1] > anchor.target:
            return False
        if at < len(self._sources) and self._targets[at] < anchor.target:
            return False
        if at and self._sources[at - 1] == anchor.source:
            return True  # both are valid: there is no record between them
        self._sources.insert(at, anchor.source)
        self._targets.insert(at, anchor.target)
        return True

    def at_or_before(self, offset: int) -> OffsetAnchor | None:
        """Return the last anchor at or before a source offset."""
        at = bisect_right(self._sources, offset)
        return OffsetAnchor(self._sources[at - 1], self._targets[at - 1]) if at else None

    def at_or_after(self, offset: int) -> OffsetAnchor | None:
        """Return the first anchor at or after a source offset."""
        at = bisect_left(self._sources, offset)
        return (
            OffsetAnchor(self._sources[at], self._targets[at]) if at < len(self._sources) else None
        )

    def target_end(self) -> int | None:
        """Return the target offset of the last anchor, None if there is none."""
        return self._targets[-1] if self._targets else None
