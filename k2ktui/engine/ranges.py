"""Mapping ranges in sorted columns: where each record of a source partition landed.

Three NumPy columns per source and target partition; a lookup is a vectorized binary search. The
translation of offset ``g`` is the target offset of the first mapped record with source offset
``≥ g``; gaps in the source need no special case.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from k2ktui.engine.state import MappingRecord

I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]

NOT_FOUND = -1
LARGEST_COUNT = int(np.iinfo(np.int32).max)
_FIRST_CAPACITY = 64


@dataclass(frozen=True, slots=True)
class RangeColumns:
    """Ranges as parallel arrays: source offset, target offset, number of records."""

    source: I64
    target: I64
    count: I64

    def __len__(self) -> int:
        return len(self.source)


class MappingRanges:
    """The ranges of one source partition on one target partition; appended at the end.

    Ranges of one term must be appended in source order. A later term may go back (a rewind, or a
    truncated log): its ranges replace those of earlier terms from there on.
    """

    def __init__(self) -> None:
        self._source = np.empty(_FIRST_CAPACITY, dtype=np.int64)
        self._target = np.empty(_FIRST_CAPACITY, dtype=np.int64)
        self._count = np.empty(_FIRST_CAPACITY, dtype=np.int32)
        self._size = 0

    def __len__(self) -> int:
        return self._size

    @property
    def records(self) -> int:
        """Number of mapped records."""
        return int(self._count[: self._size].sum(dtype=np.int64))

    @property
    def first(self) -> int | None:
        """Lowest mapped source offset."""
        return int(self._source[0]) if self._size else None

    @property
    def end(self) -> int | None:
        """Source offset after the last mapped record."""
        if not self._size:
            return None
        last = self._size - 1
        return int(self._source[last]) + int(self._count[last])

    @property
    def target_end(self) -> int | None:
        """Target offset after the last mapped record in source order."""
        if not self._size:
            return None
        last = self._size - 1
        return int(self._target[last]) + int(self._count[last])

    def columns(self, target_from: int = 0) -> RangeColumns:
        """Return a copy of the ranges, from the one before or at a target offset on."""
        first = np.searchsorted(self._target[: self._size], target_from, side="right") - 1
        return self._rows_from(max(0, int(first)))

    def ends(self) -> I64:
        """Return the source offset after each range."""
        return self._source[: self._size] + self._count[: self._size]

    def append(self, source: I64, target: I64, count: I64) -> None:
        """Append ranges, sorted by source; they replace everything from their first offset on.

        Raises:
            ValueError: the ranges are unsorted, overlap each other, or hold no records.
        """
        _check(RangeColumns(source, target, count))
        if not len(source):
            return
        self._cut(int(source[0]))
        # A range often continues the last one: the next batch of the same transaction.
        if (
            self._size
            and self.end == int(source[0])
            and self.target_end == int(target[0])
            and int(self._count[self._size - 1]) + int(count[0]) <= LARGEST_COUNT
        ):
            self._count[self._size - 1] += int(count[0])
            source, target, count = source[1:], target[1:], count[1:]
        added = len(source)
        self._reserve(self._size + added)
        at = slice(self._size, self._size + added)
        self._source[at], self._target[at], self._count[at] = source, target, count
        self._size += added

    def put(self, columns: RangeColumns) -> None:
        """Add ranges, sorted by source, of unmapped offsets; errors as for ``append``."""
        end = self.end
        if len(columns) and end is not None and int(columns.source[0]) < end:
            self.merge_older(columns)
        else:
            self.append(columns.source, columns.target, columns.count)

    def merge_older(self, added: RangeColumns) -> None:
        """Add ranges that are known to be older: existing mappings stay.

        ``append`` would treat them as a rewind and drop everything after them.

        Raises:
            ValueError: as for ``append``.
        """
        _check(added)
        if not len(added):
            return
        row = self._row_behind(int(added.source[0]))
        present = self._rows_from(row)
        self._replace_from(
            row, sort_columns(join_columns([present, subtract_columns(added, present)]))
        )

    def forget(self, low: int, high: int) -> None:
        """Remove the mapping of the source offsets ``[low, high)``."""
        end = self.end
        if high <= low or end is None or end <= low:
            return
        row = self._row_behind(low)
        size = np.array([high - low], dtype=np.int64)
        hole = RangeColumns(np.array([low], dtype=np.int64), size, size)
        self._replace_from(row, subtract_columns(self._rows_from(row), hole))

    def drop_before(self, offset: int) -> int:
        """Remove ranges that end at or before a source offset; return how many."""
        if not self._size:
            return 0
        gone = int(np.searchsorted(self.ends(), offset, side="right"))
        if gone:
            keep = slice(gone, self._size)
            self._source = self._source[keep].copy()
            self._target = self._target[keep].copy()
            self._count = self._count[keep].copy()
            self._size -= gone
        return gone

    def translate(self, offsets: I64) -> I64:
        """Return the target offset of the first mapped record at or after each source offset.

        NOT_FOUND for offsets after the last mapped record.
        """
        size = self._size
        found = np.full(len(offsets), NOT_FOUND, dtype=np.int64)
        if not size:
            return found
        source, count = self._source[:size], self._count[:size]
        row = np.searchsorted(source, offsets, side="right") - 1
        inside = (row >= 0) & (offsets - source[row] < count[row])
        following = np.where(inside, row, row + 1)
        known = following < size
        rows = following[known]
        ahead = np.maximum(0, offsets[known] - source[rows])
        found[known] = self._target[rows] + ahead
        return found

    def first_at_or_after(self, offsets: I64) -> I64:
        """Return the source offset of the first mapped record at or after each source offset.

        NOT_FOUND for offsets after the last mapped record.
        """
        size = self._size
        source, count = self._source[:size], self._count[:size]
        found = np.full(len(offsets), NOT_FOUND, dtype=np.int64)
        if not size:
            return found
        row = np.searchsorted(source, offsets, side="right") - 1
        inside = (row >= 0) & (offsets - source[row] < count[row])
        following = np.where(inside, row, row + 1)
        known = following < size
        found[known] = np.maximum(offsets[known], source[following[known]])
        return found

    def back(self, offsets: I64) -> I64:
        """Return the source offset of the first mapped record at or after each target offset.

        The inverse of ``translate`` on mapped records; NOT_FOUND after the last one.
        """
        size = self._size
        found = np.full(len(offsets), NOT_FOUND, dtype=np.int64)
        if not size:
            return found
        target, source = self._target[:size], self._source[:size]
        count = self._count[:size]
        if (target[1:] < target[:-1]).any():
            order = np.argsort(target, kind="stable")
            target, source, count = target[order], source[order], count[order]
        row = np.searchsorted(target, offsets, side="right") - 1
        inside = (row >= 0) & (offsets - target[row] < count[row])
        following = np.where(inside, row, row + 1)
        known = following < size
        rows = following[known]
        found[known] = source[rows] + np.maximum(0, offsets[known] - target[rows])
        return found

    def begins_before(self, target: int) -> int | None:
        """Return the source offset of the last range that begins before a target offset.

        None if there is none. Later records land at higher offsets, so all ranges with records at
        or after the target offset follow it.
        """
        row = int(np.searchsorted(self._target[: self._size], target, side="left")) - 1
        return int(self._source[row]) if row >= 0 else None

    def begins_at_or_before(self, source: int) -> int | None:
        """Return the source offset of the last range that begins at or before a source offset.

        None if there is none.
        """
        row = int(np.searchsorted(self._source[: self._size], source, side="right")) - 1
        return int(self._source[row]) if row >= 0 else None

    def mapped(self, offsets: I64) -> Flags:
        """Return whether there is a mapped record at each source offset."""
        size = self._size
        if not size:
            return np.zeros(len(offsets), dtype=bool)
        row = np.searchsorted(self._source[:size], offsets, side="right") - 1
        return (row >= 0) & (offsets - self._source[row] < self._count[row])

    def target_records_between(self, low: int, high: int) -> int:
        """Return the number of mapped records with target offsets in ``[low, high)``."""
        size = self._size
        target, count = self._target[:size], self._count[:size].astype(np.int64)
        first = np.maximum(target, low)
        last = np.minimum(target + count, high)
        return int(np.maximum(0, last - first).sum())

    def count_within(self, sources: tuple[int, int], targets: tuple[int, int]) -> int:
        """Return the number of mapped records whose offsets lie in both intervals ``[low, high)``.

        Later records land at higher offsets, so only the rows of both intervals are looked at.
        """
        source, target = self._source[: self._size], self._target[: self._size]
        low = max(
            int(np.searchsorted(source, sources[0], side="right")),
            int(np.searchsorted(target, targets[0], side="right")),
        )
        high = min(
            int(np.searchsorted(source, sources[1], side="left")),
            int(np.searchsorted(target, targets[1], side="left")),
        )
        rows = slice(max(0, low - 1), max(0, high))
        source, target, count = source[rows], target[rows], self._count[rows].astype(np.int64)
        first = np.maximum(np.maximum(source, sources[0]) - source, targets[0] - target)
        last = np.minimum(np.minimum(count, sources[1] - source), targets[1] - target)
        return int(np.maximum(0, last - first).sum())

    def _cut(self, offset: int) -> None:
        """Remove the mapping from a source offset on."""
        end = self.end
        if end is None or end <= offset:
            return
        row = int(np.searchsorted(self._source[: self._size], offset, side="left"))
        self._size = row
        if row and int(self._source[row - 1]) + int(self._count[row - 1]) > offset:
            self._count[row - 1] = offset - int(self._source[row - 1])

    def _row_behind(self, offset: int) -> int:
        """Return the first row that maps something at or after a source offset."""
        size = self._size
        row = int(np.searchsorted(self._source[:size], offset, side="right"))
        inside = row and int(self._source[row - 1]) + int(self._count[row - 1]) > offset
        return row - 1 if inside else row

    def _rows_from(self, row: int) -> RangeColumns:
        rest = slice(row, self._size)
        return RangeColumns(
            self._source[rest].copy(), self._target[rest].copy(), self._count[rest].astype(np.int64)
        )

    def _replace_from(self, row: int, rest: RangeColumns) -> None:
        self._size = row
        self._reserve(row + len(rest))
        at = slice(row, row + len(rest))
        self._source[at], self._target[at], self._count[at] = rest.source, rest.target, rest.count
        self._size = row + len(rest)

    def _reserve(self, size: int) -> None:
        capacity = len(self._source)
        if size <= capacity:
            return
        capacity = max(size, capacity + capacity // 2)
        for name in ("_source", "_target", "_count"):
            old = getattr(self, name)
            new = np.empty(capacity, dtype=old.dtype)
            new[: self._size] = old[: self._size]
            setattr(self, name, new)


def clip_columns(columns: RangeColumns, low: int, high: int) -> RangeColumns:
    """Return the part of columns, sorted by source, in the source offsets ``[low, high)``."""
    ends = columns.source + columns.count
    first = int(np.searchsorted(ends, low, side="right"))
    last = max(first, int(np.searchsorted(columns.source, high, side="left")))
    rows = slice(first, last)
    source, target = columns.source[rows], columns.target[rows]
    begin: I64 = np.maximum(source, low)
    count: I64 = np.minimum(ends[rows], high) - begin
    return RangeColumns(begin, target + (begin - source), count)


def subtract_columns(columns: RangeColumns, taken: RangeColumns) -> RangeColumns:
    """Return columns without the source offsets in ``taken``; both are sorted by source."""
    if not len(columns) or not len(taken):
        return columns
    ends = columns.source + columns.count
    # Free intervals lie between taken ranges: one piece per overlap of a range and an interval.
    free_from = np.concatenate([[np.iinfo(np.int64).min], taken.source + taken.count])
    free_to = np.concatenate([taken.source, [np.iinfo(np.int64).max]])
    low = np.searchsorted(free_to, columns.source, side="right")
    high = np.searchsorted(free_from, ends, side="left")
    pieces = np.maximum(0, high - low)
    row = np.repeat(np.arange(len(columns)), pieces)
    nth = np.arange(len(row)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    gap = low[row] + nth
    begin = np.maximum(columns.source[row], free_from[gap])
    count = np.minimum(ends[row], free_to[gap]) - begin
    kept = count > 0
    row, begin = row[kept], begin[kept]
    return RangeColumns(begin, columns.target[row] + (begin - columns.source[row]), count[kept])


def join_columns(parts: Sequence[RangeColumns]) -> RangeColumns:
    """Concatenate columns."""
    if len(parts) == 1:
        return parts[0]
    empty = np.empty(0, dtype=np.int64)
    return RangeColumns(
        np.concatenate([empty, *(part.source for part in parts)]),
        np.concatenate([empty, *(part.target for part in parts)]),
        np.concatenate([empty, *(part.count for part in parts)]),
    )


def sort_columns(columns: RangeColumns) -> RangeColumns:
    """Return columns sorted by source offset."""
    if (np.diff(columns.source) >= 0).all():
        return columns
    order = np.argsort(columns.source, kind="stable")
    return RangeColumns(columns.source[order], columns.target[order], columns.count[order])


def find_one(lookup: Callable[[I64], I64], offset: int) -> int | None:
    """Return the result of a ``MappingRanges`` lookup for one offset; None if nothing was found."""
    found = int(lookup(np.array([offset], dtype=np.int64))[0])
    return None if found == NOT_FOUND else found


def has_overlap(columns: RangeColumns) -> bool:
    """Whether columns, sorted by source, map an offset twice."""
    return bool((np.diff(columns.source) < columns.count[:-1]).any())


def _check(columns: RangeColumns) -> None:
    count = columns.count
    if len(count) and (int(count.min()) < 1 or int(count.max()) > LARGEST_COUNT):
        raise ValueError(f"a range must hold 1 to {LARGEST_COUNT} records")
    if has_overlap(columns):
        raise ValueError("ranges must be sorted by source offset and must not overlap")


def decode_columns(mapping: MappingRecord) -> RangeColumns:
    """Return the ranges and scattered runs of a mapping record, sorted by source offset."""
    sources = [np.array([r.source for r in mapping.ranges], dtype=np.int64)]
    targets = [np.array([r.target for r in mapping.ranges], dtype=np.int64)]
    counts = [np.array([r.count for r in mapping.ranges], dtype=np.int64)]
    for run in mapping.runs:
        sources.append(np.array(run.sources, dtype=np.int64))
        targets.append(run.target + np.arange(len(run.sources), dtype=np.int64))
        counts.append(np.ones(len(run.sources), dtype=np.int64))
    return sort_columns(
        RangeColumns(np.concatenate(sources), np.concatenate(targets), np.concatenate(counts))
    )
