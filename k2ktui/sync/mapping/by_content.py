"""Find where offsets lead whose mapping the topic no longer has, by comparing records.

What is known around the gap are anchors: mapped records next to it, and how far the pipeline has
written (``Position.landed``). From there, the records of both clusters are compared
(:mod:`k2ktui.sync.matching.log_comparison`), as for flows of MirrorMaker 2.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic

import numpy as np

from k2ktui.engine.mapping.anchors import OffsetAnchor, OffsetAnchors
from k2ktui.engine.mapping.ranges import MappingRanges, find_one
from k2ktui.engine.mapping.replica import MappingGaps, TargetPartition
from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.kafka.clients import Cluster
from k2ktui.sync.matching.log_comparison import PositionProver

# Views are read every few seconds.
_KEPT_S = 60.0
Commits = Mapping[SourcePartition, Collection[int]]


@dataclass(frozen=True, slots=True)
class MappedCopy:
    """What is known of a source partition's copy: its position, its mapped ranges, and the gaps."""

    position: Position
    ranges: Mapping[TargetPartition, MappingRanges]
    gaps: MappingGaps

    @property
    def target(self) -> TargetPartition | None:
        """The one target partition; None if keys or an expression choose it."""
        position = self.position
        if position.target_partition is None or position.further_targets:
            return None
        return position.target_topic, position.target_partition

    @property
    def missing(self) -> list[tuple[int, int]]:
        """The source offsets ``[first, end)`` that were copied, and whose mapping is missing."""
        first, start = self.gaps.complete_from, self.position.start
        return [*([] if first is None else [(start, first)]), *self.gaps.holes]

    def find_unmapped(self, offsets: Collection[int]) -> set[int]:
        """Return the offsets of which the mapping does not tell where they lead."""
        position, target = self.position, self.target
        missing = self.missing
        if target is None or not missing or position.stopped:
            return set()
        ranges = self.ranges.get(target)
        first_copy = position.first_landed_on(target)
        # The position itself tells where these lead.
        begin = position.start if first_copy is None else first_copy.source + 1

        def first(offset: int) -> int:
            mapped = None if ranges is None else find_one(ranges.first_at_or_after, offset)
            return position.offset if mapped is None else mapped

        return {
            offset
            for offset in offsets
            if begin <= offset < position.offset
            and any(low <= first(offset) and offset < end for low, end in missing)
        }

    def anchors(self) -> OffsetAnchors:
        """Return the mapped records next to the gaps, and the end of what was copied."""
        known, target, position = OffsetAnchors(), self.target, self.position
        assert target is not None
        ranges = self.ranges.get(target)
        if ranges is not None and not ranges.goes_back:
            for source in sorted(_next_to(ranges, self.missing)):
                landed = find_one(ranges.translate, source)
                if landed is not None:
                    known.add_record(source, landed)
        first, end = position.first_landed_on(target), position.end_of_copies(target)
        if first is not None:
            known.prove(OffsetAnchor(first.source, first.target))
        if end is not None:
            known.prove(OffsetAnchor(position.offset, end))
        return known


def _next_to(ranges: MappingRanges, missing: Sequence[tuple[int, int]]) -> set[int]:
    """Return the source offsets of the last mapped record before each gap, and the first after."""
    columns = ranges.columns()
    ends = columns.source + columns.count
    sources: set[int] = set()
    for low, end in missing:
        before = int(np.searchsorted(columns.source, low)) - 1
        if before >= 0:
            sources.add(min(int(ends[before]), low) - 1)
        after = find_one(ranges.first_at_or_after, end)
        if after is not None:
            sources.add(after)
    return sources


@dataclass(frozen=True, slots=True)
class _Proven:
    """Anchors of one log that were proven, and until when they count (monotonic)."""

    log: tuple[int, int, str, str]
    until: float
    anchors: list[OffsetAnchor] = field(default_factory=list)


class ContentSearch:
    """Compares records for the offsets that a pipeline's mapping does not tell.

    What was proven counts for a minute, and for one run: the target may have lost records since.

    Args:
        source: the source cluster; it is only read.
        target: the target cluster; it is only read.
    """

    def __init__(self, source: Cluster, target: Cluster) -> None:
        self._prover = PositionProver(source, target, unique=True)
        self._found: dict[SourcePartition, OffsetAnchors] = {}
        self._proven: dict[SourcePartition, _Proven] = {}
        self._is_used = False

    def search(
        self, copies: Mapping[SourcePartition, MappedCopy], commits: Commits, timeout: float
    ) -> None:
        """Find where committed offsets lead, as far as the mapping does not tell.

        Args:
            copies: all source partitions of the pipeline, whose mapping was read before.
            commits: the committed offsets.
            timeout: seconds; what was not compared by then is tried by the next search.
        """
        self._found = {}
        feeding = Counter(copy.target for copy in copies.values())
        wanted = {
            source: offsets
            for source, copy in copies.items()
            if feeding[copy.target] == 1
            and (offsets := copy.find_unmapped(commits.get(source, ())))
        }
        self._is_used = bool(wanted)
        if not wanted:
            return
        self._found = {source: self._recall(source, copies[source]) for source in wanted}
        positions = {source: copies[source].position for source in wanted}
        for source, anchor in self._prover.prove(self._found, positions, wanted, timeout):
            self._proven[source].anchors.append(anchor)

    def _recall(self, source: SourcePartition, copy: MappedCopy) -> OffsetAnchors:
        """Return the anchors of a copy, with those that were proven a moment ago."""
        known, proven = copy.anchors(), self._proven.get(source)
        position = copy.position
        log = position.term, position.since, position.topic_id, position.target_topic_id
        if proven is None or proven.log != log or monotonic() >= proven.until:
            proven = self._proven[source] = _Proven(log, monotonic() + _KEPT_S)
        for anchor in proven.anchors:
            known.prove(anchor)
        return known

    def forget(self) -> None:
        """Forget what was found: the source cannot be read now."""
        self._found, self._is_used = {}, False

    def anchors(self, source: SourcePartition) -> OffsetAnchors | None:
        """Return what the last search knows of a source partition; None if it was not needed."""
        return self._found.get(source)

    def notes(self) -> list[str]:
        """Return how many positions could not be proven, and why."""
        return self._prover.notes() if self._is_used else []

    def close(self) -> None:
        """Close all connections."""
        self._prover.close()
