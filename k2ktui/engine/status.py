"""Lag and coverage of one source partition, from the state of both clusters."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from k2ktui.engine.records.state import Position
from k2ktui.text import counted, duration

HELD_BACK_S = 60.0


class PartitionState(StrEnum):
    """Replication state of a source partition."""

    NEW = "new"
    CAUGHT_UP = "caught-up"
    BEHIND = "behind"
    LOST = "lost"
    RECREATED = "re-created"
    GONE = "gone"
    REFUSED = "refused"
    UNKNOWN = "unknown"
    HELD_BACK = "held-back"
    FENCED = "fenced"
    HELD = "held"
    MOVED = "moved"


@dataclass(frozen=True, slots=True)
class HeldBack:
    """Records between the last stable offset and the high watermark of a source partition.

    Attributes:
        records: number of offsets.
        stable: last stable offset, where the open transaction begins.
        producer_id: producer id of that transaction, None if unknown.
        age_s: seconds since that transaction's last record by the producer's timestamp, or since
            this last stable offset was first observed, whichever is longer.
        observed_s: seconds for which this process has observed this last stable offset.
    """

    records: int
    stable: int
    producer_id: int | None
    age_s: float
    observed_s: float = 0.0

    @property
    def too_long(self) -> bool:
        """Whether an operator should look at it."""
        return self.age_s >= HELD_BACK_S

    def text(self) -> str:
        """Describe what is held back, and by which transaction."""
        who = "a producer whose id is unknown (brokers report it from Kafka 2.8 on)"
        if self.producer_id is not None:
            who = f"producer id {self.producer_id}"
        return (
            f"{counted(self.records, 'record')} held back by an open transaction of {who}, "
            f"{duration(self.age_s)} old"
        )


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """One source partition; None is unknown, never zero.

    Attributes:
        source_start: log start offset on the source.
        source_end: last stable offset on the source, the end for a read_committed consumer.
        position: replicated position, the next source offset to copy.
        lag_records: source offsets from the position to ``source_end``.
        lag_s: age of the record at the position; 0 when there is nothing left to copy.
        target_end: last stable offset of the target partition.
        mapped_records: records with a mapping in the mapping topic; None if it was not read.
        coverage: share of the retained source offsets whose translation is exact, 0 to 1.
        held_back: number of source offsets from ``source_end`` to the high watermark, which an
            open transaction holds back.
        held_back_by: producer id of that transaction, None if there is none or it is unknown.
        held_back_s: age of that transaction in seconds, see :class:`HeldBack`.
        copied_at: when the position was committed on the target, epoch seconds.
        hold: by which operator it is held, since when and why; "" if it is not.
        moved_by: id of the drill that moved the topic's clients to the target, "" if none has: it
            is not copied forward, and has no lag and no coverage.
        moved_at: when, epoch seconds.
    """

    topic: str
    partition: int
    state: PartitionState
    path: str
    source_start: int | None
    source_end: int | None
    position: int | None
    lag_records: int | None
    lag_s: float | None
    target_topic: str
    target_partition: int | None
    target_end: int | None
    mapped_records: int | None
    coverage: float | None
    held_back: int | None = None
    held_back_by: int | None = None
    held_back_s: float | None = None
    copied_at: float | None = None
    hold: str = ""
    moved_by: str = ""
    moved_at: float | None = None

    @property
    def unmapped(self) -> int | None:
        """Retained source offsets before the position that do not translate exactly.

        Offsets that are not copied yet lower ``coverage`` as well, but are not gaps. None if
        unknown.
        """
        start, end, lag = self.source_start, self.source_end, self.lag_records
        if self.coverage is None or start is None or end is None or lag is None:
            return None
        return max(0, round((1 - self.coverage) * (end - start)) - min(lag, end - start))

    @property
    def held(self) -> HeldBack | None:
        """The records that an open transaction holds back, None if there are none."""
        if not self.held_back:
            return None
        return HeldBack(
            self.held_back, self.source_end or 0, self.held_back_by, self.held_back_s or 0.0
        )


def count_lag(position: int | None, end: int | None) -> int | None:
    """Return the source offsets from a position to the log's end; None if either is unknown.

    Args:
        position: the next source offset to copy.
        end: last stable offset, read after the position: a log that ends before it has no lag.
    """
    return None if position is None or end is None else max(0, end - position)


def sum_lags(lags: Iterable[int | None]) -> int | None:
    """Return the lag of a pipeline, from those of its partitions; None if none is known."""
    known = [lag for lag in lags if lag is not None]
    return sum(known) if known else None


def coverage(
    position: Position | None, start: int | None, end: int | None, first_mapped: int | None
) -> float | None:
    """Return the share of retained source offsets ``[start, end)`` that translate exactly.

    Args:
        position: the replicated position with its own start and gaps.
        start: log start offset.
        end: last stable offset.
        first_mapped: first mapped source offset if the mapping topic has lost earlier ranges, None
            if it holds all since the pipeline's start.

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
