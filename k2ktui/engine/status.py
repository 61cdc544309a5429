"""Lag and coverage of one source partition, from what both clusters say."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from k2ktui.engine.state import Position


class PartitionState(StrEnum):
    """How replication of a partition stands, in one word."""

    NEW = "new"
    CAUGHT_UP = "caught-up"
    BEHIND = "behind"
    LOST = "lost"
    RECREATED = "re-created"
    GONE = "gone"
    REFUSED = "refused"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """One source partition; None is unknown, never zero.

    Attributes:
        source_start: log start offset on the source.
        source_end: last stable offset on the source: what a read_committed reader can read.
        position: replicated position, the next source offset to copy.
        lag_records: source offsets from the position to ``source_end``.
        lag_seconds: age of the record at the position; 0 when there is none left to copy.
        target_end: last stable offset of the target partition.
        mapped_records: records with a mapping in the mapping topic.
        coverage: share of the retained source offsets whose translation is exact, 0 to 1.
    """

    topic: str
    partition: int
    state: PartitionState
    path: str
    source_start: int | None
    source_end: int | None
    position: int | None
    lag_records: int | None
    lag_seconds: float | None
    target_topic: str
    target_partition: int | None
    target_end: int | None
    mapped_records: int
    coverage: float | None


def state_of(
    position: Position | None, start: int | None, end: int | None, topic_id: str
) -> PartitionState:
    """Return the state of a partition whose topic exists on the source."""
    if position is None:
        return PartitionState.NEW
    if position.topic_id and topic_id and position.topic_id != topic_id:
        return PartitionState.RECREATED
    if start is None or end is None:
        return PartitionState.UNKNOWN
    if position.offset < start or position.offset > end:
        return PartitionState.LOST
    return PartitionState.CAUGHT_UP if position.offset == end else PartitionState.BEHIND


def coverage(
    position: Position | None, start: int | None, end: int | None, first_mapped: int | None
) -> float | None:
    """Return the share of retained source offsets ``[start, end)`` that translate exactly.

    Args:
        position: the replicated position with its own start and gaps.
        start: log start offset.
        end: last stable offset.
        first_mapped: first mapped source offset if the mapping topic has dropped earlier ranges,
            None if it holds all since the pipeline's start.

    Returns:
        0 to 1; 1 for an empty log that has a position; None if the log's bounds are unknown.
    """
    if start is None or end is None:
        return None
    if position is None:
        return 0.0
    if end <= start:
        return 1.0
    first = position.start if first_mapped is None else max(first_mapped, position.start)
    low, high = max(start, first), min(end, position.offset)
    covered = max(0, high - low)
    for gap in position.gaps:
        covered -= max(0, min(high, gap.end) - max(low, gap.first))
    return max(0, covered) / (end - start)
