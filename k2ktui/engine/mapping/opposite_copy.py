"""What the opposite pipeline has copied from a target partition to the source cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from k2ktui.engine.mapping.intervals import FOREVER, Span
from k2ktui.engine.mapping.ranges import MappingRanges, find_one
from k2ktui.engine.mapping.replica import Replica, TargetPartition
from k2ktui.engine.records.state import SourcePartition

Commits = Mapping[SourcePartition, int]


class TailKind(StrEnum):
    """What is at the beginning of the tail: a record, the end of the log, or what was not read."""

    RECORD = "record"
    END = "end"
    UNCHECKED = "unchecked"


@dataclass(frozen=True, slots=True)
class OppositeCopy:
    """What the opposite pipeline has copied from a target partition to the source cluster.

    Attributes:
        replica: the copy; its offsets are those of the target partition, and its target partitions
            are partitions of the source cluster.
        tail: target offset before which every record is a copy of either pipeline, or was lost
            before it could be copied.
        tail_kind: what is there.
        returned: if it cannot be read because the source is lost, the source offset per partition
            from which a group has read everything that came from the target; None if unknown
            (``find_returned_ends``).
    """

    replica: Replica
    tail: int
    tail_kind: TailKind = TailKind.END
    returned: Mapping[SourcePartition, int] | None = None

    def count_between(self, commits: Commits, low: int, high: int) -> tuple[int, int] | None:
        """Return how many of its records at the offsets ``[low, high)`` were read on the source.

        Returns:
            Those that were read and those that were not; None if unknown.
        """
        replica = self.replica
        lost = [*replica.holes]
        if replica.position is not None:
            lost.append((0, max(replica.known_from, replica.held_from)))
        if replica.behind or (high > self.tail and self.tail_kind is not TailKind.END):
            return None
        if replica.unusable_reason or any(a < high and low < b for a, b in lost):
            return None
        read = unread = 0
        for (topic, partition), ranges in replica.target_ranges.items():
            committed = max(0, commits.get(SourcePartition(topic, partition), -1))
            read += ranges.count_within((low, high), (0, committed))
            unread += ranges.count_within((low, high), (committed, FOREVER))
        return read, unread


def find_returned_ends(replicas: Mapping[SourcePartition, Replica]) -> dict[SourcePartition, int]:
    """Return, per partition, the source offset after the last record that came from the target.

    Where mappings are lost, the end of the lost part counts: they may have named such records.
    """
    return {
        at: max(replica.left_out_end, find_lost_end(replica)) for at, replica in replicas.items()
    }


def find_lost_end(replica: Replica) -> int:
    """Return the source offset after the last missing mapping; 0 if none is missing."""
    if replica.behind and replica.position is not None:
        return replica.position.offset
    return max([replica.complete_from or 0, *(end for _, end in replica.holes)])


def find_uncopied(copies: Iterable[MappingRanges], low: int, high: int) -> list[Span]:
    """Return the target offsets in ``[low, high)`` where no range has a record, lowest first."""
    columns = [ranges.columns(low) for ranges in copies]
    begin = np.array([low], dtype=np.int64)
    first = np.concatenate([begin, *(ranges.target for ranges in columns)])
    end = np.concatenate(
        [begin, *(ranges.target + ranges.count + ranges.further for ranges in columns)]
    )
    order = np.argsort(first, kind="stable")
    reached = np.maximum.accumulate(end[order])
    following = np.append(first[order][1:], high)
    start, finish = np.maximum(reached, low), np.minimum(following, high)
    rows = start < finish
    return list(zip(start[rows].tolist(), finish[rows].tolist(), strict=True))


@dataclass(frozen=True, slots=True)
class RecordPair:
    """The same record on both clusters."""

    source: SourcePartition
    source_offset: int
    target_offset: int


def find_pair(
    target: TargetPartition,
    offset: int,
    replicas: Mapping[SourcePartition, Replica],
    opposite: OppositeCopy,
) -> RecordPair | None:
    """Return the first record at or after a target offset, and where it is on the source.

    None if there is none, or if records that were not copied may precede it.
    """
    pairs = []
    for source, replica in replicas.items():
        ranges = replica.target_ranges.get(target)
        first = None if ranges is None else find_one(ranges.back, offset)
        if ranges is not None and first is not None:
            landed = find_one(ranges.translate, first)
            pairs += [] if landed is None else [RecordPair(source, first, landed)]
    for where, ranges in opposite.replica.target_ranges.items():
        first = find_one(ranges.first_at_or_after, offset)
        if first is not None:
            landed = find_one(ranges.translate, first)
            pairs += [] if landed is None else [RecordPair(SourcePartition(*where), landed, first)]
    lowest = min(pairs, key=lambda pair: pair.target_offset, default=None)
    if lowest is None or (lowest.target_offset > offset and opposite.tail < lowest.target_offset):
        return None
    return lowest
