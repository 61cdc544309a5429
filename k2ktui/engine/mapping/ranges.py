"""Mapping ranges in sorted columns: where each record of a source partition landed.

NumPy columns per source and target partition; a lookup is a vectorized binary search. The
translation of offset ``g`` is the target offset of the first mapped record with source offset
``≥ g``; gaps in the source need no special case.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from k2ktui.engine.mapping.intervals import FOREVER
from k2ktui.engine.mapping.range_columns import (
    I64,
    LARGEST_COUNT,
    Flags,
    RangeColumns,
    check_columns,
    clip_columns,
    goes_back,
    join_columns,
    overwritten_from,
    sort_columns,
    subtract_columns,
    take_present,
)

NOT_FOUND = -1
_FIRST_CAPACITY = 64


class MappingRanges:
    """The ranges of one source partition on one target partition; appended at the end.

    Ranges of one term must be appended in source order. A later term may go back (a rewind, or a
    truncated log): its ranges replace those of earlier terms from there on.

    I5: translation is monotone in the source offset. Rows are sorted by source and, as records land
    in source order, by target too. An earlier term's range that stayed behind a later one's would
    break that, and groups would go back. Where the target has lost its end (``goes_back``), the
    order ends there, and the translation is not used past it.

    Attributes:
        revision: increases with every change.
    """

    def __init__(self) -> None:
        self.revision = 0
        self._source = np.empty(_FIRST_CAPACITY, dtype=np.int64)
        self._target = np.empty(_FIRST_CAPACITY, dtype=np.int64)
        self._count = np.empty(_FIRST_CAPACITY, dtype=np.int32)
        # As ``RangeColumns.more``; None as long as no source record became several records.
        self._more: NDArray[np.int32] | None = None
        self._size = 0
        # Whether a written range landed below an earlier one, and whether one still does.
        self._has_gone_back = False
        self._goes_back = (0, False)

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
        """Target offset after the last record in source order, further records included."""
        landed = self.last_landed
        if landed is None:
            return None
        more = 0 if self._more is None else int(self._more[self._size - 1])
        return landed + 1 + more

    @property
    def last_landed(self) -> int | None:
        """Target offset of the last mapped record in source order."""
        if not self._size:
            return None
        last = self._size - 1
        return int(self._target[last]) + int(self._count[last]) - 1

    @property
    def goes_back(self) -> bool:
        """Whether a record landed at or below an earlier one: the target has lost that one.

        It has lost the end of its log, or the topic was created again where topics have no ids.
        """
        if not self._has_gone_back:
            return False
        if self._goes_back[0] != self.revision:
            self._goes_back = self.revision, goes_back(self._rows_from(0))
        return self._goes_back[1]

    def overwritten_from(self, offsets: I64) -> I64:
        """Return the target offset from which the range of each source offset is overwritten.

        ``offsets`` are looked up as by ``translate``; the largest 64-bit number if nothing is.
        """
        limits = np.full(len(offsets), FOREVER, dtype=np.int64)
        if not self.goes_back:
            return limits
        size = self._size
        row = np.searchsorted(self.ends(), offsets, side="right")
        known = row < size
        limits[known] = overwritten_from(self._rows_from(0))[row[known]]
        return limits

    def present(self, end: int, source_from: int = 0) -> RangeColumns:
        """Return the ranges from a source offset on without what the target has lost.

        Args:
            end: the target's end: records at or after it are lost, and so are overwritten ones.
            source_from: source offset.
        """
        columns = self._rows_from(self._row_behind(source_from))
        target_end = self.target_end
        if self.goes_back or (target_end is not None and target_end > end):
            columns = take_present(columns, end)
        return clip_columns(columns, source_from, FOREVER)

    def count_lost(self, end: int, source_from: int) -> int:
        """Return the number of records that ``present`` leaves out."""
        landed = self.last_landed
        if landed is None or (landed < end and not self.goes_back):
            return 0
        every = clip_columns(self._rows_from(self._row_behind(source_from)), source_from, FOREVER)
        return int(every.count.sum() - self.present(end, source_from).count.sum())

    def columns(self, target_from: int = 0) -> RangeColumns:
        """Return a copy of the ranges, from the one before or at a target offset on."""
        return self._rows_from(max(0, self._row_at_target(target_from + 1) - 1))

    def _row_at_target(self, offset: int) -> int:
        """Return the first row that begins at or after a target offset.

        Of the ranges before it, only the last one may reach beyond the offset.
        """
        target = self._target[: self._size]
        if not self.goes_back:
            return int(np.searchsorted(target, offset, side="left"))
        more = 0 if self._more is None else self._more[: self._size]
        rows = np.flatnonzero(target + self._count[: self._size] + more > offset)
        if not len(rows):
            return self._size
        return int(rows[0]) + (int(target[rows[0]]) < offset)

    def ends(self) -> I64:
        """Return the source offset after each range."""
        return self._source[: self._size] + self._count[: self._size]

    def append(self, source: I64, target: I64, count: I64, more: I64 | None = None) -> None:
        """Append ranges, sorted by source; they replace everything from their first offset on.

        The arguments are those of ``RangeColumns``.

        Raises:
            ValueError: the ranges are unsorted, overlap each other, or hold no records.
        """
        added = RangeColumns(source, target, count, more)
        check_columns(added)
        if not len(added):
            return
        self.revision += 1
        self._cut(int(source[0]))
        # A range often continues the last one: the next batch of the same transaction.
        if (
            self._size
            and self.end == int(source[0])
            and self._continues(int(target[0]))
            and int(self._count[self._size - 1]) + int(count[0]) <= LARGEST_COUNT
        ):
            self._count[self._size - 1] += int(count[0])
            self._set_more(self._size - 1, added.take(slice(0, 1)))
            added = added.take(slice(1, None))
        self._write(self._size, added)

    def _continues(self, target: int) -> bool:
        """Return whether a target offset follows the last record, which has no further ones."""
        more = 0 if self._more is None else int(self._more[self._size - 1])
        return not more and self.target_end == target

    def put(self, columns: RangeColumns) -> None:
        """Add ranges, sorted by source, of unmapped offsets; errors as for ``append``."""
        end = self.end
        if len(columns) and end is not None and int(columns.source[0]) < end:
            self.merge_older(columns)
        else:
            self.append(columns.source, columns.target, columns.count, columns.more)

    def merge_older(self, added: RangeColumns) -> None:
        """Add ranges that are known to be older: existing mappings stay.

        ``append`` would treat them as a rewind and drop everything after them.

        Raises:
            ValueError: as for ``append``.
        """
        check_columns(added)
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
            self.revision += 1
            keep = slice(gone, self._size)
            self._source = self._source[keep].copy()
            self._target = self._target[keep].copy()
            self._count = self._count[keep].copy()
            if self._more is not None:
                self._more = self._more[keep].copy()
            self._size -= gone
        return gone

    def translate(self, offsets: I64) -> I64:
        """Return the target offset of the first mapped record at or after each source offset.

        NOT_FOUND for offsets after the last mapped record.
        """
        size = self._size
        targets = np.full(len(offsets), NOT_FOUND, dtype=np.int64)
        if not size:
            return targets
        source, count = self._source[:size], self._count[:size]
        row = np.searchsorted(source, offsets, side="right") - 1
        inside = (row >= 0) & (offsets - source[row] < count[row])
        following = np.where(inside, row, row + 1)
        known = following < size
        rows = following[known]
        ahead = np.maximum(0, offsets[known] - source[rows])
        targets[known] = self._target[rows] + ahead
        return targets

    def first_at_or_after(self, offsets: I64) -> I64:
        """Return the source offset of the first mapped record at or after each source offset.

        NOT_FOUND for offsets after the last mapped record.
        """
        size = self._size
        source, count = self._source[:size], self._count[:size]
        sources = np.full(len(offsets), NOT_FOUND, dtype=np.int64)
        if not size:
            return sources
        row = np.searchsorted(source, offsets, side="right") - 1
        inside = (row >= 0) & (offsets - source[row] < count[row])
        following = np.where(inside, row, row + 1)
        known = following < size
        sources[known] = np.maximum(offsets[known], source[following[known]])
        return sources

    def back(self, offsets: I64) -> I64:
        """Return the source offset of the first mapped record at or after each target offset.

        The inverse of ``translate`` on mapped records; NOT_FOUND after the last one.
        """
        size = self._size
        sources = np.full(len(offsets), NOT_FOUND, dtype=np.int64)
        if not size:
            return sources
        target, source = self._target[:size], self._source[:size]
        count = self._count[:size]
        reach = count if self._more is None else count + self._more[:size]
        if (target[1:] < target[:-1]).any():
            order = np.argsort(target, kind="stable")
            target, source, count = target[order], source[order], count[order]
            reach = reach[order]
        row = np.searchsorted(target, offsets, side="right") - 1
        inside = (row >= 0) & (offsets - target[row] < reach[row])
        following = np.where(inside, row, row + 1)
        known = following < size
        rows = following[known]
        # A group that has consumed some of the records made of one source record needs it again.
        behind = np.minimum(np.maximum(0, offsets[known] - target[rows]), count[rows] - 1)
        sources[known] = source[rows] + behind
        return sources

    def begins_before(self, target: int) -> int | None:
        """Return the source offset of the last range that begins before a target offset.

        None if there is none. Later records land at higher offsets, so all ranges with records at
        or after the target offset follow it.
        """
        row = self._row_at_target(target) - 1
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
        if self._more is not None:
            count += self._more[:size]
        first = np.maximum(target, low)
        last = np.minimum(target + count, high)
        return int(np.maximum(0, last - first).sum())

    def count_within(self, sources: tuple[int, int], targets: tuple[int, int]) -> int:
        """Return the number of mapped records whose offsets lie in both intervals ``[low, high)``.

        Later records land at higher offsets, so only the rows of both intervals are looked at.
        """
        source, target = self._source[: self._size], self._target[: self._size]
        low = int(np.searchsorted(source, sources[0], side="right"))
        high = int(np.searchsorted(source, sources[1], side="left"))
        if not self.goes_back:
            low = max(low, int(np.searchsorted(target, targets[0], side="right")))
            high = min(high, int(np.searchsorted(target, targets[1], side="left")))
        rows = slice(max(0, low - 1), max(0, high))
        source, target, count = source[rows], target[rows], self._count[rows].astype(np.int64)
        first = np.maximum(np.maximum(source, sources[0]) - source, targets[0] - target)
        last = np.minimum(np.minimum(count, sources[1] - source), targets[1] - target)
        total = int(np.maximum(0, last - first).sum())
        if self._more is None:
            return total
        landed, end = target + count, source + count
        within = (end > sources[0]) & (end <= sources[1])
        further = np.minimum(landed + self._more[: self._size][rows], targets[1])
        further -= np.maximum(landed, targets[0])
        return total + int(np.maximum(0, further)[within].sum())

    def _cut(self, offset: int) -> None:
        """Remove the mapping from a source offset on."""
        end = self.end
        if end is None or end <= offset:
            return
        row = int(np.searchsorted(self._source[: self._size], offset, side="left"))
        self._size = row
        if row and int(self._source[row - 1]) + int(self._count[row - 1]) > offset:
            self._count[row - 1] = offset - int(self._source[row - 1])
            if self._more is not None:
                self._more[row - 1] = 0

    def _row_behind(self, offset: int) -> int:
        """Return the first row that maps something at or after a source offset."""
        size = self._size
        row = int(np.searchsorted(self._source[:size], offset, side="right"))
        inside = row and int(self._source[row - 1]) + int(self._count[row - 1]) > offset
        return row - 1 if inside else row

    def _rows_from(self, row: int) -> RangeColumns:
        rest = slice(row, self._size)
        more = None if self._more is None else self._more[rest].astype(np.int64)
        source, target = self._source[rest].copy(), self._target[rest].copy()
        return RangeColumns(source, target, self._count[rest].astype(np.int64), more)

    def _replace_from(self, row: int, rest: RangeColumns) -> None:
        self.revision += 1
        self._size = row
        self._write(row, rest)

    def _write(self, row: int, added: RangeColumns) -> None:
        """Write ranges from a row on, which is the end."""
        if len(added) and not self._has_gone_back:
            before = int(self._target[row - 1] + self._count[row - 1]) if row else 0
            self._has_gone_back = int(added.target[0]) < before or goes_back(added)
        self._reserve(row + len(added))
        at = slice(row, row + len(added))
        self._source[at], self._target[at] = added.source, added.target
        self._count[at] = added.count
        self._size = row + len(added)
        self._set_more(at, added)

    def _set_more(self, at: slice | int, added: RangeColumns) -> None:
        if self._more is None and added.more is not None and added.more.any():
            self._more = np.zeros(len(self._source), dtype=np.int32)
        if self._more is not None:
            self._more[at] = added.further if isinstance(at, slice) else added.further[0]

    def _reserve(self, size: int) -> None:
        capacity = len(self._source)
        if size <= capacity:
            return
        capacity = max(size, capacity + capacity // 2)
        for name in ("_source", "_target", "_count", "_more"):
            old = getattr(self, name)
            if old is None:
                continue
            new = np.zeros(capacity, dtype=old.dtype)
            new[: self._size] = old[: self._size]
            setattr(self, name, new)


def find_one(lookup: Callable[[I64], I64], offset: int) -> int | None:
    """Return the result of a ``MappingRanges`` lookup for one offset; None if nothing was found."""
    result = int(lookup(np.array([offset], dtype=np.int64))[0])
    return None if result == NOT_FOUND else result
