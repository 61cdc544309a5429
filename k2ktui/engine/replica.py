"""What is known of a source partition's copy, and look-ups in it for many groups at once."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np

from k2ktui.engine.offset_anchors import OffsetAnchors
from k2ktui.engine.offset_intervals import OffsetIntervals, Span
from k2ktui.engine.ranges import NOT_FOUND, MappingRanges
from k2ktui.engine.state import Position, SourcePartition

TargetPartition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Replica:
    """What is known of one source partition's copy.

    Attributes:
        position: its replicated position, None if it was never replicated.
        lanes: its mapping ranges, by target partition.
        complete_from: source offset from which on the mapping is whole; None: since the start.
        source_start: log start offset on the source, None if the source cannot be asked.
        holes: source offsets ``[first, end)`` whose mapping is lost or damaged.
        behind: whether mappings below the position could not be read yet.
        mapped: number of records that were mapped; ``lanes`` may hold only the newest.
        held_from: source offset from which on ``lanes`` hold all ranges; each holds its last, too.
        foreign: why committed offsets are not of the log that was copied (a topic was created
            anew); empty if they are.
        cuts: what is known instead of a whole mapping, where another program copies; the lanes
            then hold single records, and nothing is known of those between them.
    """

    position: Position | None
    lanes: Mapping[TargetPartition, MappingRanges] = field(default_factory=dict)
    complete_from: int | None = None
    source_start: int | None = None
    holes: tuple[tuple[int, int], ...] = ()
    behind: bool = False
    mapped: int = 0
    held_from: int = 0
    foreign: str = ""
    cuts: OffsetAnchors | None = None

    @property
    def known_from(self) -> int:
        """Lowest source offset whose translation the mapping decides."""
        start = self.position.start if self.position else 0
        return start if self.complete_from is None else max(start, self.complete_from)


@dataclass(frozen=True, slots=True)
class MappingGaps:
    """What the mapping topic does not tell of a source partition below its replicated position.

    Attributes:
        complete_from: source offset from which on the mapping is whole but for ``holes``; None:
            since the pipeline began.
        holes: source offsets ``[first, end)`` whose mapping is lost or damaged.
        behind: whether mappings up to the position may still come.
    """

    complete_from: int | None = None
    holes: tuple[Span, ...] = ()
    behind: bool = False


def find_mapping_gaps(known: Collection[Span], position: Position, unread: bool) -> MappingGaps:
    """Return what mapping records leave open.

    Args:
        known: source offsets that they cover.
        position: the replicated position.
        unread: whether there are records that were not read yet.
    """
    spans = OffsetIntervals((*known, *((gap.first, gap.end) for gap in position.gaps)))
    missing = spans.missing(position.start, position.offset)
    behind = unread and bool(missing) and missing[-1][1] == position.offset
    if behind:
        missing.pop()
    complete_from = None
    if missing and missing[0][0] == position.start:
        complete_from = missing.pop(0)[1]
    return MappingGaps(complete_from, tuple(missing), behind)


@dataclass(frozen=True, slots=True)
class TargetLog:
    """Bounds of a target partition: log start and last stable offset.

    ``clear_from`` is an offset from which on the target is proven to hold no record up to ``end``
    (control records only); None if that was not looked at.
    """

    start: int
    end: int
    clear_from: int | None = None


@dataclass(frozen=True, slots=True)
class FoundRecords:
    """Target and source offset of the first mapped record; NOT_FOUND if there is none."""

    target: int
    source: int


class Lookup:
    """Look-ups of many committed offsets made at once, one binary search a lane.

    Args:
        replicas: what is known of each source partition.
        offsets: the committed offsets that will be asked for, per source partition.

    Attributes:
        feeds: the source partitions that have records on each target partition.
    """

    def __init__(
        self,
        replicas: Mapping[SourcePartition, Replica],
        offsets: Mapping[SourcePartition, Collection[int]],
    ) -> None:
        self.feeds: dict[TargetPartition, frozenset[SourcePartition]] = _feeds(replicas)
        self._found: dict[tuple[SourcePartition, TargetPartition], dict[int, tuple[int, int]]] = {}
        for source, wanted in offsets.items():
            replica = replicas.get(source)
            if replica is None:
                continue
            asked = np.array(sorted(set(wanted)), dtype=np.int64)
            for target, ranges in replica.lanes.items():
                landed = ranges.translate(asked)
                origin = ranges.first_at_or_after(asked)
                self._found[source, target] = {
                    offset: (at, of)
                    for offset, at, of in zip(
                        asked.tolist(), landed.tolist(), origin.tolist(), strict=True
                    )
                }

    def find(self, source: SourcePartition, target: TargetPartition, offset: int) -> FoundRecords:
        """Return the first mapped record at or after a source offset, on one target partition."""
        at, origin = self._found.get((source, target), {}).get(offset, (NOT_FOUND, NOT_FOUND))
        return FoundRecords(at, origin)


def target_partitions_of(replica: Replica | None) -> set[TargetPartition]:
    """Return the target partitions that a source partition feeds."""
    if replica is None or replica.position is None:
        return set()
    position, found = replica.position, set(replica.lanes)
    if position.target_partition is not None:
        found.add((position.target_topic, position.target_partition))
    return found


def _feeds(
    replicas: Mapping[SourcePartition, Replica],
) -> dict[TargetPartition, frozenset[SourcePartition]]:
    found: dict[TargetPartition, set[SourcePartition]] = {}
    for source, replica in replicas.items():
        for target, ranges in replica.lanes.items():
            if len(ranges):
                found.setdefault(target, set()).add(source)
    return {target: frozenset(sources) for target, sources in found.items()}
