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
from k2ktui.engine.mapping.replica import Replica, TargetPartition
from k2ktui.engine.records.state import SourcePartition
from k2ktui.kafka.clients import Cluster
from k2ktui.sync.mapping.source import Commits
from k2ktui.sync.matching.log_comparison import PositionProver

# Views are read every few seconds.
_KEPT_S = 60.0


def find_unmapped(replica: Replica, offsets: Collection[int]) -> set[int]:
    """Return the offsets of which the mapping does not tell where they lead."""
    position, target, missing = replica.position, _find_target(replica), replica.lost_spans
    if position is None or target is None or not missing or position.stopped:
        return set()
    ranges = replica.target_ranges.get(target)
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


def find_anchors(replica: Replica) -> OffsetAnchors:
    """Return the mapped records next to the gaps, and the end of what was copied."""
    known, target, position = OffsetAnchors(), _find_target(replica), replica.position
    assert position is not None and target is not None
    ranges = replica.target_ranges.get(target)
    if ranges is not None and not ranges.goes_back:
        for source in sorted(_next_to(ranges, replica.lost_spans)):
            landed = find_one(ranges.translate, source)
            if landed is not None:
                known.add_record(source, landed)
    first, end = position.first_landed_on(target), position.end_of_copies(target)
    if first is not None:
        known.prove(OffsetAnchor(first.source, first.target))
    if end is not None:
        known.prove(OffsetAnchor(position.offset, end))
    return known


def _find_target(replica: Replica) -> TargetPartition | None:
    """Return the one target partition; None if keys or an expression choose it."""
    position = replica.position
    if position is None or position.target_partition is None or position.further_targets:
        return None
    return position.target_topic, position.target_partition


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
        self._proven: dict[SourcePartition, _Proven] = {}

    def search(
        self, replicas: Mapping[SourcePartition, Replica], commits: Commits, timeout: float
    ) -> dict[SourcePartition, OffsetAnchors]:
        """Find where committed offsets lead, as far as the mapping does not tell.

        Args:
            replicas: all source partitions of the pipeline, whose mapping was read before.
            commits: the committed offsets.
            timeout: seconds; what was not compared by then is tried by the next search.

        Returns:
            What is known, with what was proven, of the source partitions that needed it.
        """
        targets = {source: _find_target(replica) for source, replica in replicas.items()}
        feeding = Counter(targets.values())
        wanted = {
            source: offsets
            for source, replica in replicas.items()
            if feeding[targets[source]] == 1
            and (offsets := find_unmapped(replica, commits.get(source, ())))
        }
        if not wanted:
            return {}
        positions = {
            source: position
            for source in wanted
            if (position := replicas[source].position) is not None
        }
        anchors = {source: self._recall(source, replicas[source]) for source in wanted}
        for source, anchor in self._prover.prove(anchors, positions, wanted, timeout):
            self._proven[source].anchors.append(anchor)
        return anchors

    def _recall(self, source: SourcePartition, replica: Replica) -> OffsetAnchors:
        """Return the anchors of a copy, with those that were proven a moment ago."""
        known, proven, position = find_anchors(replica), self._proven.get(source), replica.position
        assert position is not None
        log = position.term, position.since, position.topic_id, position.target_topic_id
        if proven is None or proven.log != log or monotonic() >= proven.until:
            proven = self._proven[source] = _Proven(log, monotonic() + _KEPT_S)
        for anchor in proven.anchors:
            known.prove(anchor)
        return known

    def notes(self) -> list[str]:
        """Return how many positions the last search could not prove, and why."""
        return self._prover.notes()

    def close(self) -> None:
        """Close all connections."""
        self._prover.close()
