"""Mapping ranges as parallel columns, and what can be done with them.

A transform may make several records of one. Only the first of them is mapped: a group that has not
consumed the source record starts there. Where its further records end belongs to the range, for
groups that have consumed it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from k2ktui.engine.records.state import MappingRecord

I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]

LARGEST_COUNT = int(np.iinfo(np.int32).max)


@dataclass(frozen=True, slots=True)
class RangeColumns:
    """Ranges as parallel arrays: source offset, target offset, number of records.

    Attributes:
        source: source offset of the first record.
        target: target offset of the first record.
        count: number of records.
        more: number of target offsets behind the last record up to the last one that was made of
            the same source record; None for 0 in each range.
    """

    source: I64
    target: I64
    count: I64
    more: I64 | None = None

    def __len__(self) -> int:
        return len(self.source)

    @property
    def further(self) -> I64:
        """``more``, with its zeros."""
        return np.zeros(len(self.source), dtype=np.int64) if self.more is None else self.more

    def take(self, rows: slice | I64 | Flags) -> RangeColumns:
        """Return the ranges of these rows."""
        more = None if self.more is None else self.more[rows]
        return RangeColumns(self.source[rows], self.target[rows], self.count[rows], more)


def find_single_gaps(columns: RangeColumns, record: I64) -> I64:
    """Return the ranges that a single target offset parts from the one before, in their record."""
    ends = columns.target + columns.count + columns.further
    is_parted = (columns.target[1:] == ends[:-1] + 1) & (record[1:] == record[:-1])
    return np.flatnonzero(is_parted) + 1


def clip_columns(columns: RangeColumns, low: int, high: int) -> RangeColumns:
    """Return the part of columns, sorted by source, in the source offsets ``[low, high)``.

    An empty interval has no part of a range, also in the middle of one: a row of 0 records is not
    valid.
    """
    if low >= high:
        return columns.take(slice(0, 0))
    ends = columns.source + columns.count
    first = int(np.searchsorted(ends, low, side="right"))
    last = max(first, int(np.searchsorted(columns.source, high, side="left")))
    rows = slice(first, last)
    source, target = columns.source[rows], columns.target[rows]
    begin: I64 = np.maximum(source, low)
    count: I64 = np.minimum(ends[rows], high) - begin
    more = columns.more
    if more is not None:
        more = np.where(ends[rows] <= high, more[rows], 0)
    return RangeColumns(begin, target + (begin - source), count, more)


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
    row, begin, count = row[kept], begin[kept], count[kept]
    more = columns.more
    if more is not None:
        more = np.where(begin + count == ends[row], more[row], 0)
    return RangeColumns(begin, columns.target[row] + (begin - columns.source[row]), count, more)


def join_columns(parts: Sequence[RangeColumns]) -> RangeColumns:
    """Concatenate columns."""
    if len(parts) == 1:
        return parts[0]
    empty = np.empty(0, dtype=np.int64)
    more = None
    if any(part.more is not None for part in parts):
        more = np.concatenate([part.further for part in parts])
    return RangeColumns(
        np.concatenate([empty, *(part.source for part in parts)]),
        np.concatenate([empty, *(part.target for part in parts)]),
        np.concatenate([empty, *(part.count for part in parts)]),
        more,
    )


def sort_columns(columns: RangeColumns) -> RangeColumns:
    """Return columns sorted by source offset, and by target offset where that is the same."""
    if (np.diff(columns.source) > 0).all():
        return columns
    return columns.take(np.lexsort((columns.target, columns.source)))


def find_further(columns: RangeColumns) -> Flags:
    """Return whether each row, sorted by source, is a further record of the one before it.

    Such a row repeats the last source offset of the range before it.
    """
    is_further = np.zeros(len(columns), dtype=np.bool_)
    last = columns.source[:-1] + columns.count[:-1] - 1
    is_further[1:] = (columns.count[1:] == 1) & (columns.source[1:] == last)
    return is_further


def fold_columns(columns: RangeColumns, is_further: Flags | None = None) -> RangeColumns:
    """Merge the rows of further records into the range of their source record; columns are sorted.

    Args:
        columns: the columns.
        is_further: the rows of further records; ``find_further`` unless given.
    """
    if is_further is None:
        is_further = find_further(columns)
    if not is_further.any():
        return columns
    rows = np.flatnonzero(~is_further)
    landed = columns.target + columns.count - 1
    reached = np.maximum.reduceat(landed + columns.further, rows)
    kept = columns.take(rows)
    more = np.clip(reached - landed[rows], 0, LARGEST_COUNT)
    return RangeColumns(kept.source, kept.target, kept.count, more)


def goes_back(columns: RangeColumns) -> bool:
    """Whether a range, sorted by source, landed at or below the last record of the one before."""
    return bool((columns.target[1:] < columns.target[:-1] + columns.count[:-1]).any())


def overwritten_from(columns: RangeColumns) -> I64:
    """Return the target offset from which each range is overwritten by later ones.

    Records land in source order at ever higher offsets, unless the target has lost the end of its
    log: then new records take the offsets of the lost ones. Ranges that are not overwritten have
    the largest 64-bit number.
    """
    limits = np.full(len(columns), np.iinfo(np.int64).max, dtype=np.int64)
    limits[:-1] = np.minimum.accumulate(columns.target[:0:-1])[::-1]
    return limits


def take_present(columns: RangeColumns, end: int) -> RangeColumns:
    """Return the columns without the records that the target has lost; ``end`` is its end."""
    limit = np.minimum(overwritten_from(columns), end)
    count = np.clip(limit - columns.target, 0, columns.count)
    kept = count > 0
    more = columns.more
    if more is not None:
        more = np.where(count == columns.count, more, 0)[kept]
    return RangeColumns(columns.source[kept], columns.target[kept], count[kept], more)


def has_overlap(columns: RangeColumns) -> bool:
    """Whether columns, sorted by source, map an offset twice."""
    return bool((np.diff(columns.source) < columns.count[:-1]).any())


def check_columns(columns: RangeColumns) -> None:
    """Check columns.

    Raises:
        ValueError: they are unsorted, overlap each other, or hold no records.
    """
    count = columns.count
    if len(count) and (int(count.min()) < 1 or int(count.max()) > LARGEST_COUNT):
        raise ValueError(f"a range must hold 1 to {LARGEST_COUNT} records")
    if has_overlap(columns):
        raise ValueError("ranges must be sorted by source offset and must not overlap")


def count_below(columns: RangeColumns, offset: int) -> int:
    """Return the number of records below a target offset, further records included."""
    reach = columns.target + columns.count + columns.further
    return int(np.maximum(0, np.minimum(reach, offset) - columns.target).sum())


def count_consumed(columns: RangeColumns, commit: int, low: int, high: int) -> int:
    """Return the number of records at the target offsets ``[low, high)`` below a source offset."""
    first = np.maximum(0, low - columns.target)
    last = np.minimum(np.minimum(columns.count, high - columns.target), commit - columns.source)
    count = int(np.maximum(0, last - first).sum())
    if columns.more is None:
        return count
    landed = columns.target + columns.count
    consumed = columns.source + columns.count <= commit
    further = np.minimum(landed + columns.more, high) - np.maximum(landed, low)
    return count + int(np.maximum(0, further)[consumed].sum())


def decode_columns(mapping: MappingRecord) -> RangeColumns:
    """Return the ranges and scattered runs of a mapping record, sorted by source offset."""
    sources = [np.array([r.source for r in mapping.ranges], dtype=np.int64)]
    targets = [np.array([r.target for r in mapping.ranges], dtype=np.int64)]
    counts = [np.array([r.count for r in mapping.ranges], dtype=np.int64)]
    ranges = sort_columns(RangeColumns(sources[0], targets[0], counts[0]))
    if not mapping.runs:
        return ranges
    for run in mapping.runs:
        sources.append(np.array(run.sources, dtype=np.int64))
        targets.append(run.target + np.arange(len(run.sources), dtype=np.int64))
        counts.append(np.ones(len(run.sources), dtype=np.int64))
    columns = sort_columns(
        RangeColumns(np.concatenate(sources), np.concatenate(targets), np.concatenate(counts))
    )
    # Only runs have further records: ranges that overlap each other are damaged.
    return columns if has_overlap(ranges) else fold_columns(columns)
