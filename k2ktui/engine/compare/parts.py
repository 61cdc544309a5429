"""Divide a comparison into parts: offsets of a source partition, and where their copies are."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from k2ktui.engine.compare.log_items import I64
from k2ktui.engine.compare.outcomes import Outcome
from k2ktui.engine.mapping.intervals import FOREVER, Span
from k2ktui.engine.mapping.range_columns import RangeColumns, clip_columns, join_columns
from k2ktui.engine.mapping.replica import (
    Replica,
    TargetLog,
    TargetPartition,
    target_partitions_of,
)
from k2ktui.engine.records.state import SourcePartition

#: Offsets of a source partition in a part; of a sampled one.
PART_OFFSETS, SAMPLE_OFFSETS = 100_000, 2_000
_SHARES = 1 << 32


@dataclass(frozen=True, slots=True)
class Offsets:
    """Disjoint intervals ``[first, end)`` of offsets, in order, as columns."""

    first: I64
    end: I64

    @classmethod
    def of(cls, spans: Sequence[Span]) -> Offsets:
        """Return the union of intervals."""
        merged: list[list[int]] = []
        for first, end in sorted(span for span in spans if span[0] < span[1]):
            if merged and first <= merged[-1][1]:
                merged[-1][1] = max(merged[-1][1], end)
            else:
                merged.append([first, end])
        columns = np.array(merged, dtype=np.int64).reshape(-1, 2)
        return cls(columns[:, 0].copy(), columns[:, 1].copy())

    def has(self, offset: int) -> bool:
        """Whether an offset is in one of them."""
        row = int(np.searchsorted(self.first, offset, side="right")) - 1
        return row >= 0 and offset < int(self.end[row])

    def has_all(self, first: int, last: int) -> bool:
        """Whether one of them has all offsets ``first … last``."""
        row = int(np.searchsorted(self.first, first, side="right")) - 1
        return row >= 0 and last < int(self.end[row])

    def has_any(self, first: int, last: int) -> bool:
        """Whether one of them has any of the offsets ``first … last``."""
        row = int(np.searchsorted(self.first, last, side="right")) - 1
        return row >= 0 and first < int(self.end[row])

    def clip(self, low: int, high: int) -> Offsets:
        """Return those parts of the intervals that are in ``[low, high)``."""
        first, end = np.maximum(self.first, low), np.minimum(self.end, high)
        kept = first < end
        return Offsets(first[kept], end[kept])


@dataclass(frozen=True, slots=True)
class TargetSpan:
    """The offsets of a target partition that belong to a part.

    Attributes:
        at: the target partition.
        first, end: the offsets ``[first, end)``.
        log_start: its log start offset.
        ranges: the mapping of the part's records; also of those before it, in a first part.
        others: where copies of other source partitions are.
        unknown: where a record without a mapping proves nothing, as mappings are lost or expired.
        native_end: offset from which records without a mapping may be copies made meanwhile. 0 if
            another part looks for native records.
        compacted: whether compaction may have removed records.
    """

    at: TargetPartition
    first: int
    end: int
    log_start: int
    ranges: RangeColumns
    others: Offsets
    unknown: Offsets
    native_end: int
    compacted: bool


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """What the parts of one source partition depend on, besides its replica.

    Attributes:
        log_start: its log start offset.
        since: the first offset to compare, None for all that the log has.
        compacted: whether compaction may have removed records.
        leaves_out: whether the pipeline may leave records out.
        keeps_keys, keeps_values: whether copies have the bytes of the source's keys and values.
        makes_several: whether several records may be made of one, also on several partitions.
    """

    log_start: int
    since: int | None = None
    compacted: bool = False
    leaves_out: bool = False
    keeps_keys: bool = True
    keeps_values: bool = True
    makes_several: bool = False


@dataclass(frozen=True, slots=True)
class ComparisonPart:
    """Offsets of a source partition, and where their copies are.

    Attributes:
        source: the source partition.
        first, end: its offsets ``[first, end)``.
        facts: what else is known of the source partition.
        start: offset at which the pipeline began.
        skipped: offsets that the pipeline was moved past.
        unknown: offsets whose mapping is lost or expired.
        is_last: whether no mapped records follow it.
        keeps_partitions: whether contents show which records belong together where the mapping is
            unknown: all are on one target partition, in order, and no others are.
        targets: the target partitions.
        proves_loss: whether copies are compacted as their records are: all go to one target
            partition, nothing else may be written there, and keys and null values are kept.
    """

    source: SourcePartition
    first: int
    end: int
    facts: PartitionFacts
    start: int
    skipped: Offsets
    unknown: Offsets
    is_last: bool
    keeps_partitions: bool
    targets: tuple[TargetSpan, ...]
    proves_loss: bool = False

    def explain_unmapped(self, offset: int, left_out: bool | None) -> tuple[Outcome, str]:
        """Return what a source record without a mapping is, and why.

        ``left_out`` is whether the pipeline makes no record of it; None if that is not known.
        """
        if offset < self.start:
            return Outcome.NEVER_COPIED, "before the offset at which the pipeline began"
        if self.skipped.has(offset):
            return Outcome.NEVER_COPIED, "the pipeline was moved past it"
        if self.unknown.has(offset):
            return Outcome.EXPIRED_ON_SOURCE, "its mapping is expired or lost"
        if self.facts.leaves_out if left_out is None else left_out:
            return Outcome.NEVER_COPIED, "left out by the pipeline"
        return Outcome.MISSING, "no mapping names a copy, or the target has lost it"


def divide(
    replicas: Mapping[SourcePartition, Replica],
    facts: Mapping[SourcePartition, PartitionFacts],
    logs: Mapping[TargetPartition, TargetLog],
    compacted: Mapping[str, bool],
    sample: float = 1.0,
    size: int = PART_OFFSETS,
) -> list[ComparisonPart]:
    """Divide the partitions in ``facts`` into parts, in order.

    A partition that may be compacted is one part, as a newer record of a key may be far behind the
    one that it proves compacted.

    Args:
        replicas: the state of the copies, with all ranges of the offsets to compare; also those of
            partitions that are not compared but feed the same target partitions.
        facts: the partitions to compare.
        logs: bounds of the target partitions, read before the positions.
        compacted: whether a target topic may be compacted.
        sample: share of the offsets to compare, in parts chosen by their offsets: the same ones
            each time.
        size: source offsets of a part; a sample has smaller ones.
    """
    size = SAMPLE_OFFSETS if sample < 1 else size
    divider = _Divider(replicas, facts, logs, compacted)
    parts: list[ComparisonPart] = []
    for source in sorted(facts):
        parts += _choose(list(divider.divide(source, size, whole=sample >= 1)), sample)
    return parts


def _choose(parts: list[ComparisonPart], share: float) -> list[ComparisonPart]:
    """Return a share of a partition's parts, at least the last one."""
    if share >= 1:
        return parts
    chosen = [part for part in parts if _lot(part) < share * _SHARES]
    return chosen or parts[-1:]


def _lot(part: ComparisonPart) -> int:
    """Return a number that depends on the place of a part alone."""
    number = part.first // SAMPLE_OFFSETS
    name = f"{part.source.topic}\0{part.source.partition}\0{number}"
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big")


class _Divider:
    """Divides one source partition after the other; see :func:`divide`."""

    def __init__(
        self,
        replicas: Mapping[SourcePartition, Replica],
        facts: Mapping[SourcePartition, PartitionFacts],
        logs: Mapping[TargetPartition, TargetLog],
        compacted: Mapping[str, bool],
    ) -> None:
        self._replicas, self._facts, self._logs, self._compacted = replicas, facts, logs, compacted
        self._feeders: dict[TargetPartition, list[SourcePartition]] = {}
        for source in sorted(replicas):
            for at in target_partitions_of(replicas[source]):
                self._feeders.setdefault(at, []).append(source)

    def divide(
        self, source: SourcePartition, size: int, *, whole: bool
    ) -> Iterator[ComparisonPart]:
        """Yield the parts of a source partition; ``whole``: all of its offsets are compared."""
        replica, fact = self._replicas[source], self._facts[source]
        position, fed = replica.position, target_partitions_of(replica)
        assert position is not None
        is_compacted = fact.compacted or any(self._compacted.get(name, True) for name, _ in fed)
        # No other source partition is copied there.
        is_alone = len(fed) == 1 and all(self._feeders[at] == [source] for at in fed)
        is_copied_as_it_is = not fact.leaves_out and fact.keeps_keys and fact.keeps_values
        keeps = (
            whole
            and not is_compacted
            and is_copied_as_it_is
            and is_alone
            and position.target_partition is not None
        )
        bounds = _bounds(replica, fact, size, whole=is_compacted and whole, keeps=keeps)
        targets = [at for at in sorted(fed) if at in self._logs]
        spans = {at: list(self._spans(source, at, bounds)) for at in targets}
        skipped = Offsets.of([(gap.first, gap.end) for gap in position.gaps])
        unknown = Offsets.of(_unknown_spans(replica))
        proves_loss = (
            len(targets) == 1 and is_copied_as_it_is and self._feeders[targets[0]] == [source]
        )
        for number, (low, high) in enumerate(bounds):
            yield ComparisonPart(
                source,
                low,
                high,
                fact,
                position.start,
                skipped,
                unknown,
                number == len(bounds) - 1,
                keeps,
                tuple(spans[at][number] for at in targets),
                proves_loss,
            )

    def _spans(
        self, source: SourcePartition, at: TargetPartition, bounds: Sequence[Span]
    ) -> Iterator[TargetSpan]:
        """Yield the offsets of a target partition for each part of a source partition."""
        log, feeders, fact = self._logs[at], self._feeders[at], self._facts[source]
        ranges = self._replicas[source].target_ranges.get(at)
        columns = ranges.present(log.written) if ranges is not None else _NO_RANGES
        reach = columns.target + columns.count + columns.further
        target_end = max(log.end, int(reach.max(initial=0)))
        others = Offsets.of(
            [
                span
                for other in feeders
                if other != source
                for span in _landed_spans(self._replicas[other], at, log)
            ]
        )
        unknown = Offsets.of(
            [
                span
                for feeder in feeders
                for span in _unknown_on_target(self._replicas[feeder], at, log)
            ]
        )
        # One of the source partitions that are compared looks for native records.
        looks = min(feeder for feeder in feeders if feeder in self._facts) == source
        cuts = [_landing(columns, low, target_end) for low, _ in bounds[1:]]
        begins_at = log.start if fact.since is None else _landing(columns, bounds[0][0], target_end)
        edges = [max(log.start, edge) for edge in (begins_at, *cuts, target_end)]
        for number, (low, high) in enumerate(bounds):
            from_source = 0 if number == 0 and fact.since is None else low
            first, end = edges[number], max(edges[number], edges[number + 1])
            yield TargetSpan(
                at,
                first,
                end,
                log.start,
                clip_columns(columns, from_source, high),
                others.clip(first, end),
                unknown.clip(first, end),
                log.end if looks else 0,
                self._compacted.get(at[0], True),
            )


def _bounds(
    replica: Replica, fact: PartitionFacts, size: int, *, whole: bool, keeps: bool
) -> list[Span]:
    """Return the offsets of the parts; they begin at multiples of ``size``, at least one part.

    Offsets without a mapping are in one part, if ``keeps``: where their copies are divided, is not
    known.
    """
    assert replica.position is not None
    first = max(fact.log_start, fact.since or 0)
    end = max(first, replica.position.offset)
    if whole or first >= end:
        return [(first, end)]
    inner: Sequence[int] = range(first - first % size + size, end, size)
    if keeps:
        unknown = Offsets.of(_unknown_spans(replica))
        inner = [cut for cut in inner if not unknown.has(cut)]
    return list(pairwise([first, *inner, end]))


def _unknown_spans(replica: Replica) -> list[Span]:
    """Return the source offsets whose mapping is expired, lost, or not read yet."""
    position = replica.position
    assert position is not None
    not_in_memory = position.start, replica.held_from  # could not be read again
    return [(first, end) for first, end in [*replica.unknown_spans, not_in_memory] if first < end]


_NO_RANGES = join_columns([])


def _landing(columns: RangeColumns, offset: int, end: int) -> int:
    """Return the target offset of the first mapped record at or after a source offset."""
    row = int(np.searchsorted(columns.source + columns.count, offset, side="right"))
    if row == len(columns):
        return end
    return int(columns.target[row]) + max(0, offset - int(columns.source[row]))


def _landed_spans(replica: Replica, at: TargetPartition, log: TargetLog) -> list[Span]:
    ranges = replica.target_ranges.get(at)
    if ranges is None:
        return []
    columns = ranges.present(log.written)
    reach = columns.target + columns.count + columns.further
    return list(zip(columns.target.tolist(), reach.tolist(), strict=True))


def _unknown_on_target(replica: Replica, at: TargetPartition, log: TargetLog) -> Iterator[Span]:
    """Yield the target offsets where copies without a known mapping may be."""
    ranges = replica.target_ranges.get(at)
    columns = ranges.present(log.written) if ranges is not None else _NO_RANGES
    ends = columns.source + columns.count
    for first, end in _unknown_spans(replica):
        before = int(np.searchsorted(columns.source, first, side="right")) - 1
        after = int(np.searchsorted(ends, end, side="right"))
        low = 0
        if before >= 0:
            low = int(columns.target[before]) + min(
                int(columns.count[before]), first - int(columns.source[before])
            )
        yield low, int(columns.target[after]) if after < len(columns) else FOREVER
