"""The mapping of one source partition, as read from the mapping topic.

It consists of the source offsets that mapping records cover (``known``), the ranges in memory (all
from ``hot_from`` on), and an index of where older records lie in the topic (``index``). Rules:
docs/internals/record-formats.md, "Mapping topic".
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from k2ktui.engine.mapping.intervals import FOREVER, OffsetIntervals, Span
from k2ktui.engine.mapping.range_columns import (
    RangeColumns,
    clip_columns,
    fold_columns,
    has_overlap,
    join_columns,
    sort_columns,
    subtract_columns,
)
from k2ktui.engine.mapping.ranges import MappingRanges
from k2ktui.engine.mapping.replica import TargetPartition
from k2ktui.engine.records.state import Covers

TargetRanges = dict[TargetPartition, MappingRanges]
_OPEN_SETS = 64
_INDEX_RECORDS = 256
_INDEX_MS = 600_000
_KEPT_DAMAGED, _KEPT_INSERTED = 20, 1_000


@dataclass(frozen=True, slots=True)
class MappingChunk:
    """One mapping record, or several contiguous ones, as columns.

    Attributes:
        term: term of the run that wrote it.
        partition, offset, at_ms: place of the first record in the mapping topic, and its timestamp
            in epoch milliseconds.
        last: offset of the last record.
        covers: the source offsets that it covers, together with its other parts.
        target: the target partition.
        columns: the ranges, sorted by source offset.
        again: whether it repeats older records.
        records: number of mapping records.
        last_ms: timestamp of the last record; 0 if there is only one.
        left_out_end: source offset after the last record that came from the target; 0 for none.
        inserted: single target offsets that others took in the middle of one of its transactions.
    """

    term: int
    partition: int
    offset: int
    at_ms: int
    last: int
    covers: Covers
    target: TargetPartition
    columns: RangeColumns
    again: bool = False
    records: int = 1
    last_ms: int = 0
    left_out_end: int = 0
    inserted: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, order=True)
class MappingRewind:
    """A record that invalidates earlier records from source offset ``first`` on."""

    term: int
    offset: int
    first: int


@dataclass(frozen=True, slots=True)
class _Repeat:
    """A repeat: its place in the mapping topic, its time, and the source offsets that it covers."""

    partition: int
    offset: int
    at_ms: int
    span: Span


class MappingLog:
    """The mapping of one source partition, as read so far.

    Args:
        since: term below which records belong to another source log.
        rewinds: rewinds already known, for a reader of only a part of the topic.

    Attributes:
        target_ranges: ranges in memory per target partition: all from ``hot_from`` on, and at
            least the last range of each target partition.
        known: source offsets that are covered, in memory or not.
        mapped: number of records mapped so far.
        index: where records lie in the topic, per mapping partition.
        asked: lowest source offset requested since the last trim.
        left_out_end: source offset after the last record that came from the target; 0 for none.
        inserted: the newest single target offsets that others took in the middle of a transaction,
            1,000 of each target partition; those of records that only repeats have are not known.
        damaged: partition and offset of the first records of sets whose parts contradict each
            other, 20 at most; the source offsets that they cover are unknown.
        damaged_count: number of such sets.
    """

    def __init__(self, since: int = 0, rewinds: Iterable[MappingRewind] = ()) -> None:
        self.since = since
        self.target_ranges: TargetRanges = {}
        self.known = OffsetIntervals()
        self.hot_from = 0
        self.mapped = 0
        self.index: dict[int, MappingIndex] = {}
        self.asked: int | None = None
        self.left_out_end = 0
        self.inserted: dict[TargetPartition, tuple[int, ...]] = {}
        self.damaged: list[tuple[int, int]] = []
        self.damaged_count = 0
        self._rewinds = list(rewinds)
        self._reached: dict[int, int] = {}
        self._open: dict[tuple[int, bool, Covers], dict[int, MappingChunk]] = {}
        self._repeats: list[_Repeat] = []

    @property
    def rewinds(self) -> Sequence[MappingRewind]:
        """Return the points where runs began or rewound, in order."""
        return tuple(self._rewinds)

    @property
    def term(self) -> int:
        """Term of the newest run that mapped something; ``since`` if there is none."""
        return max(self._reached, default=self.since)

    @property
    def oldest(self) -> int:
        """Term of the oldest run that mapped something."""
        return min(self._reached, default=FOREVER)

    @property
    def rows(self) -> int:
        """Number of ranges in memory."""
        return sum(len(ranges) for ranges in self.target_ranges.values())

    @property
    def needs_refill(self) -> bool:
        """Whether a rewind removed the last range in memory of a target partition."""
        return self.hot_from > 0 and not all(len(ranges) for ranges in self.target_ranges.values())

    def take(self, piece: MappingChunk) -> None:
        """Add a chunk; it takes effect once all its parts have been read."""
        if piece.term < self.since:
            return
        self.left_out_end = max(self.left_out_end, piece.left_out_end)
        if piece.inserted:
            # A copy may be in use by another thread: what it has does not change.
            kept = (*self.inserted.get(piece.target, ()), *piece.inserted)
            self.inserted[piece.target] = kept[-_KEPT_INSERTED:]
        covers = piece.covers
        if covers.parts == 1:
            self._add([piece])
            return
        whole = (piece.term, piece.again, Covers(covers.first, covers.end, 0, covers.parts))
        parts = self._open.setdefault(whole, {})
        parts[covers.part] = piece
        if len(parts) == covers.parts:
            del self._open[whole]
            self._add(list(parts.values()))
        while len(self._open) > _OPEN_SETS:  # a part is lost, the rest is useless
            del self._open[next(iter(self._open))]

    def _add(self, parts: Sequence[MappingChunk]) -> None:
        one = parts[0]
        first, end, offset = one.covers.first, one.covers.end, min(part.offset for part in parts)
        done = max(part.last for part in parts)
        index = self.index.setdefault(one.partition, MappingIndex())
        last_ms = max(max(part.at_ms, part.last_ms) for part in parts)
        records = sum(part.records for part in parts)
        index.note(offset, done, (one.at_ms, last_ms), first, end, records)
        target_ranges = _group_by_target(parts)
        # Each part is sound; together they may map a source offset twice.
        is_damaged = len(parts) > 1 and any(map(has_overlap, target_ranges.values()))
        if is_damaged:
            self.damaged_count += 1
            if len(self.damaged) < _KEPT_DAMAGED:
                self.damaged.append((one.partition, offset))
            # It replaces what it covers, as a sound one would, and maps nothing.
            if not one.again:
                self._rewind(MappingRewind(one.term, offset, first), end)
            return
        if one.again:
            limit = min(end, self._limit(one.term, offset))
            for low, high in self.known.missing(first, limit):
                self._insert(target_ranges, low, high)
            at_ms = min(part.at_ms for part in parts)
            self._repeats.append(_Repeat(one.partition, offset, at_ms, (first, end)))
            return
        self.mapped += sum(int(columns.count.sum()) for columns in target_ranges.values())
        self._rewind(MappingRewind(one.term, offset, first), end)
        self._insert(target_ranges, first, min(end, self._limit(one.term, offset)))

    def _rewind(self, rewind: MappingRewind, end: int) -> None:
        """Drop mappings that a run invalidates by covering from an offset on."""
        reached = self._reached.get(rewind.term)
        if reached is None or rewind.first < reached:
            insort(self._rewinds, rewind)
        self._reached[rewind.term] = end
        limit = self._limit(rewind.term, rewind.offset)
        if not self.known.touches(rewind.first, limit):
            return
        self.known.forget(rewind.first, limit)
        for ranges in self.target_ranges.values():
            ranges.forget(rewind.first, limit)
        if limit == FOREVER:
            self.hot_from = min(self.hot_from, rewind.first)

    def _limit(self, term: int, offset: int) -> int:
        """Return the source offset from which later records replace a record."""
        later = self._rewinds[bisect_right(self._rewinds, MappingRewind(term, offset, FOREVER)) :]
        return min((rewind.first for rewind in later), default=FOREVER)

    def _insert(
        self, target_ranges: Mapping[TargetPartition, RangeColumns], low: int, high: int
    ) -> None:
        """Add the mapping of source offsets ``[low, high)`` that are not mapped yet."""
        self.known.add(low, high)
        for target, columns in target_ranges.items():
            clipped = clip_columns(columns, low, high)
            if len(clipped):
                ranges = self.target_ranges.setdefault(target, MappingRanges())
                ranges.put(clipped)
                if low < self.hot_from:
                    _drop(ranges, self.hot_from)

    def trim(self, count: int, before_ms: int | None = None) -> None:
        """Keep at most ``count`` ranges, and none written before a time in epoch milliseconds.

        Ranges requested since the last trim stay.
        """
        bound = 0
        if before_ms is not None and self.index:
            bound = min(index.older_than(before_ms) for index in self.index.values())
        if self.rows > count:
            ends = np.concatenate([ranges.ends() for ranges in self.target_ranges.values()])
            bound = max(bound, int(np.partition(ends, -count - 1)[-count - 1]))
        if self.asked is not None:
            bound = min(bound, self.asked)
        if bound > self.hot_from:
            self.hot_from = bound
            for ranges in self.target_ranges.values():
                _drop(ranges, bound)

    def keep_from(self, offset: int) -> None:
        """Keep the ranges from a source offset on at the next trim."""
        self.asked = offset if self.asked is None else min(self.asked, offset)

    def back(self, steps: int) -> int:
        """Return a source offset ``steps`` index entries before the ranges in memory."""
        return min(index.back(self.hot_from, steps) for index in self.index.values())

    def only_before(self, old: Mapping[int, int], low: int) -> tuple[Span, ...]:
        """Return the source offsets from ``low`` on that only old records cover.

        Args:
            old: per partition of the mapping topic, the offset before which records are old.
            low: source offset.
        """
        fresh = OffsetIntervals(
            tuple(r.span for r in self._repeats if r.offset >= old.get(r.partition, FOREVER))
        )
        newer = [self.index[n].whole_from(at) for n, at in old.items() if n in self.index]
        fresh.add(max(newer, default=0), FOREVER)
        return tuple(
            (max(a, low), min(b, high))
            for low, high in fresh.missing(low, FOREVER)
            for a, b in self.known.all()
            if a < high and low < b
        )

    def needed_from(self, committed: int) -> int:
        """Return the source offset from which a group's translation needs the mapping.

        A group that has read everything that landed on a target partition continues after the last
        record there: that one is needed, too.
        """
        ends = [ranges.end for ranges in self.target_ranges.values() if ranges.end is not None]
        return min([committed, *(end - 1 for end in ends)])

    def written_ms(self, low: int) -> int | None:
        """Return when the oldest record was written that maps source offsets from ``low`` on.

        Epoch milliseconds, rather too early than too late: the topic is indexed coarsely. None if
        nothing is mapped there.
        """
        rest = OffsetIntervals((max(first, low), end) for first, end in self.known.all())
        times: list[int] = []
        for repeat in sorted(self._repeats, key=lambda repeat: -repeat.at_ms):
            if rest.touches(*repeat.span):
                times.append(repeat.at_ms)
                rest.forget(*repeat.span)
        for first, _ in rest.all():
            times += [at for n in self.index.values() if (at := n.written_ms(first)) is not None]
        return min(times, default=None)

    def find_lost(self, ends: Mapping[TargetPartition, int], low: int) -> list[Span]:
        """Return the source offsets from ``low`` on whose records the target has lost.

        Each span extends to the next record that the target has.

        Args:
            ends: high watermarks of all target partitions, read after the mapping.
            low: source offset from which all ranges are in memory.
        """
        present, gone = list[RangeColumns](), list[RangeColumns]()
        for target, ranges in self.target_ranges.items():
            every = clip_columns(ranges.columns(), low, FOREVER)
            present.append(ranges.present(ends[target], low))
            gone.append(subtract_columns(every, present[-1]))
        lost, there = sort_columns(join_columns(gone)), np.sort(join_columns(present).source)
        following = np.append(there, FOREVER)[np.searchsorted(there, lost.source)]
        spans = OffsetIntervals()
        for first, end in zip(lost.source.tolist(), following.tolist(), strict=True):
            spans.add(first, end)
        return list(spans.all())

    def refill(self, older: MappingLog, low: int) -> None:
        """Load the ranges from ``low`` on from ``older``, which read them from the topic."""
        if low >= self.hot_from:
            return
        for target, loaded in older.target_ranges.items():
            clipped = clip_columns(loaded.columns(), low, self.hot_from)
            if len(clipped):
                self.target_ranges.setdefault(target, MappingRanges()).merge_older(clipped)
        self.hot_from = low
        if low == 0:
            for target in [t for t, ranges in self.target_ranges.items() if not len(ranges)]:
                del self.target_ranges[target]


def _group_by_target(parts: Sequence[MappingChunk]) -> dict[TargetPartition, RangeColumns]:
    by_target: dict[TargetPartition, list[RangeColumns]] = {}
    for part in parts:
        if len(part.columns):
            by_target.setdefault(part.target, []).append(part.columns)
    return {
        target: fold_columns(sort_columns(join_columns(columns)))
        for target, columns in by_target.items()
    }


def _drop(ranges: MappingRanges, bound: int) -> None:
    if ranges.end is not None:
        # Groups that have consumed everything need the end of the last range.
        ranges.drop_before(min(bound, ranges.end - 1))


class MappingIndex:
    """Entries in the order of the mapping partition, each for a group of consecutive records."""

    def __init__(self) -> None:
        self._offset, self._done, self._at = array("q"), array("q"), array("q")
        self._last_at = array("q")
        # Lowest source offset of an entry's records, and the highest end of all earlier ones.
        self._first, self._before = array("q"), array("q")
        self._highest = 0
        self._room = 0

    def note(
        self, offset: int, done: int, at_ms: tuple[int, int], first: int, end: int, records: int
    ) -> None:
        """Index records that cover the source offsets ``[first, end)``.

        Args:
            offset: offset of the first record in the mapping partition.
            done: offset of the last record.
            at_ms: when the first and the last of them were written, epoch milliseconds.
            first, end: source offsets.
            records: number of records.
        """
        late = bool(self._at) and at_ms[0] - self._at[-1] >= _INDEX_MS
        if records > self._room or first < self._highest or late:
            self._offset.append(offset)
            self._done.append(done)
            self._at.append(max(at_ms[0], self._at[-1] if self._at else at_ms[0]))
            self._last_at.append(0)
            self._first.append(first)
            self._before.append(self._highest)
            self._room = _INDEX_RECORDS
        self._room -= records
        self._last_at[-1] = max(self._last_at[-1], *at_ms)
        self._highest = max(self._highest, end)

    def stretch(self, low: int, high: int) -> tuple[int, int | None]:
        """Return offsets ``[begin, stop)`` with all records for the source offsets ``[low, high)``.

        ``stop`` is None if the stretch extends to the last record read.
        """
        row = bisect_right(self._before, low) - 1
        # Parts of a repeat may begin before the preceding record.
        begin = min(self._offset[row:])
        last = max((n for n, first in enumerate(self._first) if first < high), default=row)
        stop = self._done[last + 1] if last + 1 < len(self._done) else None
        return begin, stop

    def back(self, source: int, steps: int) -> int:
        """Return a source offset ``steps`` entries before the one for ``source``."""
        row = bisect_right(self._before, source) - 1 - steps
        return self._before[max(0, row)]

    def older_than(self, at_ms: int) -> int:
        """Return the source offset below which mappings were written before a time."""
        rows = range(bisect_left(self._at, at_ms))
        row = next((n for n in rows if self._last_at[n] >= at_ms), len(rows))
        return self._before[row] if row < len(self._before) else self._highest

    def written_ms(self, source: int) -> int | None:
        """Return when the first record that may cover a source offset was written, if any does."""
        if not self._highest > source:
            return None
        return self._at[max(0, bisect_right(self._before, source) - 1)]

    def whole_from(self, offset: int) -> int:
        """Return the source offset from which records at or after ``offset`` are sufficient."""
        row = max((n + 1 for n, at in enumerate(self._offset) if at < offset), default=0)
        return self._before[row] if row < len(self._before) else self._highest
