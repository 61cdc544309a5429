"""What a pipeline has copied of a source partition: a former name, or a second pipeline.

A pipeline under a new name begins where its former name ended, or copies everything again, later.
Two pipelines that run at the same time map the same records, in turn. The order on the target
distinguishes them, and needs no clock.
"""

from __future__ import annotations

from enum import Enum

from k2ktui.engine.mapping.intervals import OffsetIntervals
from k2ktui.engine.mapping.log import MappingChunk
from k2ktui.engine.mapping.replica import TargetPartition


class Overlap(Enum):
    """How the mappings of two pipelines for one source partition relate."""

    NONE = "no record has two mappings"
    EARLIER = "the other's copies are all before the first one of ours"
    CONFLICT = "records have two mappings"


class CopyExtent:
    """The source offsets that a pipeline's mappings cover, and where their records landed."""

    def __init__(self) -> None:
        self.damaged = False
        self._covered = OffsetIntervals()
        # First target offset, and the one after the last, per target partition.
        self._landed: dict[TargetPartition, tuple[int, int]] = {}
        self._topics: set[str] = set()

    def take(self, piece: MappingChunk) -> None:
        """Add what a chunk covers."""
        self._covered.add(piece.covers.first, piece.covers.end)
        self._topics.add(piece.target[0])
        columns = piece.columns
        if len(columns):
            low, high = int(columns.target.min()), int((columns.target + columns.count).max())
            first, end = self._landed.get(piece.target, (low, high))
            self._landed[piece.target] = min(first, low), max(end, high)

    def compare(self, other: CopyExtent) -> Overlap:
        """Return how another pipeline's mappings of this source partition relate to these."""
        if other is self:
            return Overlap.NONE
        if other.damaged:
            return Overlap.CONFLICT
        own = self._covered
        if not any(own.touches(first, end) for first, end in other._covered.all()):
            return Overlap.NONE
        same_route = other._topics <= self._topics
        before = all(
            end <= self._landed[target][0]
            for target, (_, end) in other._landed.items()
            if target in self._landed
        )
        return Overlap.EARLIER if same_route and before else Overlap.CONFLICT
