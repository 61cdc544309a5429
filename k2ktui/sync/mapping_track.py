"""The mapping of one source partition, as one partition of the mapping topic tells it.

Two things are kept apart: which source offsets the records decide at all (spans: a damaged record
or a deleted head leave offsets out), and the ranges that are held in memory, which may begin later.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from k2ktui.engine.ranges import Columns, Ranges, clipped
from k2ktui.engine.replica import TargetPartition
from k2ktui.engine.spans import Span, Spans
from k2ktui.engine.state import Repeat
from k2ktui.sync.mapping_index import Index

Lanes = dict[TargetPartition, Ranges]
_FOREVER = (1 << 63) - 1
_OPEN_REPEATS = 4
UNREAD = -(1 << 62)


@dataclass(frozen=True, slots=True)
class Piece:
    """Records of one term that follow each other, as columns sorted by source offset.

    Attributes:
        offset: offset of the first one in the mapping partition.
        at_ms: its timestamp; all records of one transaction have the same.
        term: the run that wrote them.
        lanes: columns per target partition.
        records: how many records they were.
    """

    offset: int
    at_ms: int
    term: int
    lanes: Mapping[TargetPartition, Columns]
    records: int = 1

    @property
    def first(self) -> int:
        """Lowest source offset."""
        return min(int(c.source[0]) for c in self.lanes.values())

    @property
    def end(self) -> int:
        """Source offset after the last one."""
        return max(int(c.source[-1] + c.count[-1]) for c in self.lanes.values())


@dataclass(slots=True)
class _Repeating:
    offset: int
    parts: dict[int, tuple[TargetPartition, Columns]] = field(default_factory=dict)


@dataclass(slots=True)
class _Term:
    number: int
    first: int
    offset: int
    at_ms: int


class Track:
    """What has been read of one source partition.

    Args:
        whole: whether the records that follow are the first ones there ever were.
        scattered: whether keys choose the partition, so that the records of one transaction map
            source offsets that interleave.
        since: term below which records are of another source log.
        end: source offset before which nothing is of interest.

    Attributes:
        lanes: ranges in memory, per target partition; whole from ``hot_from`` on.
        hot_from: source offset.
        end: source offset after the last one that is mapped.
        index: where the records are.
        asked: lowest source offset that was asked for since the last trimming.
        lost_before: source offset below which the topic does not hold the mapping any more.
        seen: number of damaged records of unknown source partition that were taken note of.
    """

    def __init__(self, *, whole: bool, scattered: bool, since: int = 0, end: int = 0) -> None:
        self.lanes: Lanes = {}
        self.hot_from = 0
        self.end = end
        self.index = Index()
        self.asked: int | None = None
        self.lost_before = 0
        self.seen = 0
        self.term = -1
        self._scattered = scattered
        self._since = since
        self._spans = Spans(((0, end),))
        self._joined = whole
        # Timestamps of transactions of which a record is damaged or may be gone.
        self._torn: set[int] = set()
        self._tx_at, self._tx_floor = -2, end
        self._older_end = end
        self._terms: list[_Term] = []
        self._repeating: dict[tuple[int, Repeat], _Repeating] = {}

    @property
    def plain(self) -> bool:
        """Whether what comes next simply follows: no damage, no unknown head."""
        return self._joined

    @property
    def rows(self) -> int:
        """Number of ranges in memory."""
        return sum(len(ranges) for ranges in self.lanes.values())

    @property
    def begins(self) -> int:
        """Lowest source offset of the first term."""
        return self._terms[0].first if self._terms else self.end

    def follows(self, term: int, first: int) -> bool:
        """Whether records of this term from ``first`` on only add to what there is."""
        newer = term > self.term and first >= self.end
        return term >= self._since and (term == self.term or newer)

    def add(self, piece: Piece) -> None:
        """Take in records."""
        if piece.term < self._since:
            if self.term < 0:
                self._joined = True  # the head of the log that matters is still to come
            return
        first, end = piece.first, piece.end
        self.index.note(piece.offset, piece.at_ms, piece.records, end)
        if piece.term < self.term:
            self._add_stale(piece)
            return
        self._settle_term(piece, first)
        for target, columns in piece.lanes.items():
            ranges = self.lanes.setdefault(target, Ranges())
            ranges.overlay(columns.source, columns.target, columns.count)
        self._extend(piece.at_ms, first, end)

    def _add_stale(self, piece: Piece) -> None:
        """Records of a run that was superseded: they say nothing of what the newer one mapped."""
        for target, columns in piece.lanes.items():
            old = clipped(columns, 0, self._older_end)
            self.lanes.setdefault(target, Ranges()).merge_older(old.source, old.target, old.count)

    def _settle_term(self, piece: Piece, first: int) -> None:
        """Let the newer term replace the earlier ones from its first source offset on."""
        if piece.term > self.term:
            if first < self.end:
                self._forget(first)
                self._spans.forget(first, _FOREVER)
                self.end, self.hot_from = first, min(self.hot_from, first)
            self.term, self._older_end = piece.term, self.end
            self._terms.append(_Term(piece.term, first, piece.offset, piece.at_ms))
        elif first < self._older_end:
            # Another record of the transaction with which the term began.
            for ranges in self.lanes.values():
                ranges.forget(first, self._older_end)
            self._older_end, self.hot_from = first, min(self.hot_from, first)
        self._terms[-1].first = min(self._terms[-1].first, first)

    def _forget(self, first: int) -> None:
        for ranges in self.lanes.values():
            ranges.forget(first, _FOREVER)

    def _extend(self, at_ms: int, first: int, end: int) -> None:
        if at_ms != self._tx_at:
            self._tx_at, self._tx_floor = at_ms, self.end
        if self._joined:
            self._spans.add(min(first, self.end), max(end, self.end))
        elif self._scattered and (at_ms in self._torn or not self._torn):
            # A transaction that may have lost a record: only the next one begins something whole.
            self._torn.add(at_ms)
        else:
            self._joined = True
            self._torn.clear()
            self._spans.add(first, end)
        self.end = max(self.end, end)

    def tear(self, times: Collection[int]) -> None:
        """Take note of damaged records, written at these times, that may have been of here.

        Time ``UNREAD`` stands for records that were deleted before they could be read.
        """
        begun = self._scattered and self._tx_at in times
        self._spans.forget(self._tx_floor if begun else self.end, _FOREVER)
        self._joined = False
        if UNREAD in times:
            self._torn.clear()  # the first transaction after it may lack records
        else:
            self._torn.update(times)

    def repeat(
        self, offset: int, term: int, again: Repeat, target: TargetPartition, columns: Columns
    ) -> None:
        """Take in one part of a repeat; with its last part it fills what is not known."""
        if term < self._since:
            return
        whole = Repeat(again.first, again.end, 0, again.parts)
        found = self._repeating.setdefault((term, whole), _Repeating(offset))
        found.parts[again.part] = (target, columns)
        while len(self._repeating) > _OPEN_REPEATS:
            self._repeating.pop(next(iter(self._repeating)))
        if len(found.parts) == again.parts:
            self._repeating.pop((term, whole), None)
            self._fill(again.first, again.end, list(found.parts.values()))
            self.index.repeated(found.offset, again.first, again.end)

    def _fill(self, first: int, end: int, parts: list[tuple[TargetPartition, Columns]]) -> None:
        for low, high in self._spans.missing(first, end):
            for target, columns in parts:
                old = clipped(columns, max(low, self.hot_from), high)
                if len(old):
                    ranges = self.lanes.setdefault(target, Ranges())
                    ranges.merge_older(old.source, old.target, old.count)
        self._spans.add(first, end)

    def forget_terms_before(self, since: int) -> None:
        """Forget mappings of an earlier source log."""
        if since <= self._since:
            return
        self._since = since
        ours = [term for term in self._terms if term.number >= since]
        if not ours:
            self._begin_anew()
            return
        begin = min(term.first for term in ours)
        for ranges in self.lanes.values():
            ranges.forget(0, begin)
        self._terms = ours
        self._spans.add(0, begin)
        self.hot_from = self.lost_before = 0
        highest, self.index = self.index.highest, Index()
        self.index.note(ours[0].offset, ours[0].at_ms, 1, highest)

    def _begin_anew(self) -> None:
        self.lanes.clear()
        self._spans, self._joined = Spans(), True
        self._torn.clear()
        self._repeating.clear()
        self.term, self._terms = -1, []
        self.end = self._older_end = self._tx_floor = 0
        self.hot_from = self.lost_before = 0
        self.index = Index()

    def known_from(self, position: int | None) -> int:
        """Return the source offset from which on the mapping is known, but for holes.

        Args:
            position: replicated position, None if there is none.
        """
        spans = self._spans.all()
        nothing = 0 if self._joined else max(self.end, position or 0)
        first = spans[0][0] if spans else nothing
        return max(first, min(self.hot_from, self.lost_before))

    def holes(self, position: int | None) -> tuple[Span, ...]:
        """Return the source offsets behind ``known_from`` that damaged records may have mapped."""
        spans = self._spans.all()
        if not spans:
            return ()
        last = spans[-1][1]
        end = last if self._joined else max(last, position if position is not None else _FOREVER)
        return tuple(self._spans.missing(spans[0][0], end))

    def known(self, low: int, high: int) -> tuple[Span, ...]:
        """Return the parts of ``[low, high)`` that are known."""
        parts = ((max(low, a), min(high, b)) for a, b in self._spans.all())
        return tuple((a, b) for a, b in parts if a < b)

    def trim(self, count: int, before_ms: int | None) -> None:
        """Hold at most ``count`` ranges, none written before a time; one stays in each lane.

        What was asked for since the last trimming is kept.
        """
        rows = self.rows
        bound = 0 if before_ms is None else self.index.older_than(before_ms)
        if rows > count:
            ends = np.concatenate([_ends(ranges) for ranges in self.lanes.values()])
            bound = max(bound, int(np.partition(ends, rows - count - 1)[rows - count - 1]))
        if self.asked is not None:
            bound = min(bound, self.asked)
        if bound > self.hot_from:
            self.hot_from = bound
            _drop(self.lanes.values(), bound)

    def replace(self, lanes: Lanes, hot_from: int) -> None:
        """Hold ranges that were read again and reach further back."""
        if hot_from >= self.hot_from:
            return
        _drop(lanes.values(), hot_from)
        # The same dictionary: who was given it sees them as well.
        self.lanes.update(lanes)
        self.hot_from = hot_from

    def lost(self, log_start: int) -> None:
        """Take note that the mapping partition now begins at ``log_start``."""
        self.lost_before = self.index.whole_from(log_start)
        self.index.forget_before(log_start)


def _ends(ranges: Ranges) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    columns = ranges.columns()
    return columns.source + columns.count


def _drop(lanes: Collection[Ranges], bound: int) -> None:
    for ranges in lanes:
        if ranges.end is not None:
            # Where the last record landed is the answer for groups that have read all.
            ranges.drop_before(min(bound, ranges.end - 1))


def stacked(tracks: Sequence[Track]) -> Lanes:
    """Return copies of the lanes of several tracks, the newest last, as one."""
    found: Lanes = {}
    for track in tracks:
        for ranges in found.values():
            ranges.forget(track.begins, _FOREVER)
        for target, ranges in track.lanes.items():
            columns = ranges.columns()
            whole = found.setdefault(target, Ranges())
            whole.append(columns.source, columns.target, columns.count)
    return found
