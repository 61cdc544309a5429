"""The walk over both logs of a part: each record read gets one outcome.

The source is read in order. Copies land in source order, so that each target partition is read in
order, too, and a few batches of either side are in memory at any time. Records of the target that
the walk passes have no source record: what they are follows from the mapping.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from k2ktui.engine.compare.content_match import ContentMatcher, Unmatched
from k2ktui.engine.compare.key_proofs import KeyProofs
from k2ktui.engine.compare.log_items import (
    I64,
    Absent,
    AbsentKind,
    BatchRows,
    Flags,
    LogBatch,
    LogItems,
    UnreadableBatch,
)
from k2ktui.engine.compare.outcomes import (
    DIFFERENCES,
    KEPT_FINDINGS,
    Finding,
    Outcome,
    PartResult,
    add_digests,
)
from k2ktui.engine.compare.parts import ComparisonPart, TargetSpan
from k2ktui.engine.mapping.intervals import FOREVER
from k2ktui.engine.mapping.replica import TargetPartition

_KEPT = DIFFERENCES | {Outcome.NOT_COMPARED}
_RECORD = tuple[BatchRows, int]


@dataclass(frozen=True, slots=True)
class PairVerdict:
    """What comparing a record with its copy has shown.

    Attributes:
        outcome: ``EQUAL``, ``DIFFERS`` or ``NOT_COMPARED``.
        why: the difference, or why it could not be compared.
        number: which one it is, of several copies.
    """

    outcome: Outcome
    why: str = ""
    number: int = 0


class PairComparer(Protocol):
    """Compares a source record with its copy."""

    @property
    def trusts_bytes(self) -> bool:
        """Whether batches with the same bytes are equal: not where schema ids are mapped."""
        ...

    def compare(self, source: _RECORD, target: _RECORD) -> PairVerdict:
        """Compare two records."""
        ...

    def compare_several(
        self, source: _RECORD, targets: Sequence[_RECORD], *, in_order: bool
    ) -> PairVerdict:
        """Compare a source record with all records that were made of it.

        ``in_order`` is whether they are on one target partition.
        """
        ...

    def are_equal(self, source: _RECORD, target: _RECORD, count: int) -> bool:
        """Whether ``count`` records from these on are equal; asked if ``trusts_bytes``.

        Those of the source are the next ones of which one is made.
        """
        ...

    def digest(self, record: _RECORD) -> str:
        """Return the SHA-256 of a record's content as hex text."""
        ...


class PresentLogs(Protocol):
    """Reads both logs as they are now: what is planned to be compared ends earlier."""

    def source(self, first: int, end: int | None = None) -> LogItems:
        """Yield what the source partition has in ``[first, end)``; up to its end by default."""
        ...

    def target(self, at: TargetPartition, first: int) -> LogItems:
        """Yield what a target partition has from an offset up to its end."""
        ...


def compare_part(
    part: ComparisonPart,
    source: LogItems,
    targets: Mapping[TargetPartition, LogItems],
    comparer: PairComparer,
    logs: PresentLogs | None = None,
) -> PartResult:
    """Compare a part of a source partition with its copies.

    Args:
        part: the part.
        source: the source log from ``part.first`` on; batches may begin before it and end after
            ``part.end``. Nothing of it has to be left out.
        targets: the same for each target partition of the part.
        comparer: compares records with their copies.
        logs: reads what decides whether a record was lost or compacted; without, that is unproven.
    """
    return _Walk(part, targets, comparer, logs).run(source)


class _Walk:
    """One walk; see ``compare_part``."""

    def __init__(
        self,
        part: ComparisonPart,
        targets: Mapping[TargetPartition, LogItems],
        comparer: PairComparer,
        logs: PresentLogs | None,
    ) -> None:
        self._part = part
        self._logs = logs
        self._comparer = comparer
        self._counts: Counter[Outcome] = Counter()
        self._findings: list[Finding] = []
        self._unproven: list[Finding] = []
        self._source_records = 0
        self._source_digest = 0
        self._keys_on_source = KeyProofs()
        self._unread = ""
        self._sides = [_TargetSide(self, span, targets[span.at]) for span in part.targets]
        self._index = _SourceIndex(part.targets)
        # Where the mapping has expired; None if contents do not show which records belong together.
        self._matcher: ContentMatcher | None = None
        if part.keeps_partitions and comparer.trusts_bytes and len(self._sides) == 1:
            self._matcher = ContentMatcher(self._miss_copy, self._miss_source)

    @property
    def part(self) -> ComparisonPart:
        return self._part

    def run(self, source: LogItems) -> PartResult:
        for item in source:
            if isinstance(item, Absent):
                if item.kind is AbsentKind.UNREAD:
                    self._unread = f"from offset {item.first} on: {item.reason}"
            elif item.first >= self._part.end:
                break
            else:
                self._take_batch(item)
            if self._unread:
                break
        for side in [] if self._unread else self._sides:
            # Where the source was not read, what follows on the target would prove nothing.
            side.pass_before(side.span.end)
        if self._matcher is not None:
            self._matcher.finish(is_followed=not self._part.is_last and not self._unread)
            self._counts[Outcome.EQUAL] += self._matcher.matched
        self._count_compacted()
        target_digest = 0
        for side in self._sides:
            target_digest = add_digests(target_digest, side.digest)
        return PartResult(
            self._part.source,
            self._part.first,
            self._part.end,
            {outcome: count for outcome, count in self._counts.items() if count},
            self._source_records,
            sum(side.records for side in self._sides),
            self._source_digest,
            target_digest,
            tuple(self._findings),
            self._unread,
            tuple(self._unproven[:KEPT_FINDINGS]),
        )

    def _count_compacted(self) -> None:
        """Count the absent records of compacted logs, and keep the first places without a proof."""
        for side in self._sides:
            lost = self._find_lost(side)
            for offset, record in lost.items():
                landed = self._landed(offset)
                self.note(Outcome.MISSING, offset, side.span.at, landed, _WHY_LOST, source=record)
            self._counts[Outcome.COMPACTED_ON_TARGET] += side.keys.proven
            self._counts[Outcome.UNCLEAR_ON_TARGET] += side.keys.unproven - len(lost)
            for offset in [offset for offset in side.keys.places() if offset not in lost]:
                self._doubt_place(Outcome.UNCLEAR_ON_TARGET, offset)
        self._counts[Outcome.COMPACTED_ON_SOURCE] += self._keys_on_source.proven
        self._counts[Outcome.UNCLEAR_ON_SOURCE] += self._keys_on_source.unproven
        for offset in self._keys_on_source.places():
            self._doubt_place(Outcome.UNCLEAR_ON_SOURCE, offset)

    def _landed(self, offset: int) -> int | None:
        place = self._index.find(offset)
        return None if place is None else place[1]

    def _doubt_place(self, outcome: Outcome, offset: int) -> None:
        place = self._index.find(offset)
        if place is not None:
            side, landed = place
            self._unproven.append(Finding(outcome, offset, self._sides[side].span.at, landed))

    def _find_lost(self, side: _TargetSide) -> dict[int, _RECORD]:
        """Return source records, by offset, that compaction cannot have removed on the target.

        Compaction keeps the newest record of a key, unless that is a tombstone. So it has removed a
        copy only if a newer record of its key was copied later: nothing else is written there. That
        one is on the source for as long as the older one is, as compaction there removes the older
        one first. A copy was therefore lost if the source has its record, and no newer one of its
        key up to the present end.

        Both logs go on meanwhile, so the order matters. What was copied before the target was read
        is on the source when that is read to its end; and that the record itself is still there is
        seen last.
        """
        can_prove = self._part.is_last and self._part.proves_loss and self._comparer.trusts_bytes
        if self._logs is None or not can_prove or self._unread or side.is_unread:
            return {}
        if next(side.keys.last_of_keys(), None) is None:
            return {}
        try:
            on_target = self._logs.target(side.span.at, side.span.end)
            for key in _keys(on_target, side.span.end):
                side.keys.see(key)
            for key in _keys(self._logs.source(self._part.end), self._part.end):
                side.keys.doubt(key)
            return {
                offset: record
                for offset in sorted(side.keys.last_of_keys())[:KEPT_FINDINGS]
                if (record := _record_at(self._logs.source(offset, offset + 1), offset))
            }
        except UnreadableBatch:
            return {}

    def _take_batch(self, batch: LogBatch) -> None:
        part = self._part
        if part.first <= batch.first:
            self._source_digest = add_digests(self._source_digest, batch.digest())
        if part.first <= batch.first and batch.last < part.end and self._take_same_bytes(batch):
            return
        try:
            rows = batch.rows()
        except UnreadableBatch as error:
            self._unread = f"the batch at offset {batch.first}: {error}"
            return
        kept = rows.kept()
        if not part.facts.makes_several:
            if (kept is None or kept.all()) and self._take_same_rows(batch, rows):
                return
            if kept is not None and len(kept) and self._take_kept(rows, kept):
                return
        for row, offset in enumerate(rows.offsets.tolist()):
            if part.first <= offset < part.end:
                self._take_record(rows, row, offset)

    def _take_same_bytes(self, batch: LogBatch) -> bool:
        """Compare a batch with its copy without decoding either; False if that decides nothing."""
        if not self._comparer.trusts_bytes or batch.count != batch.last - batch.first + 1:
            return False
        place = self._index.find_all(batch.first, batch.last)
        if place is None:
            return False
        side = self._sides[place[0]]
        copy = side.whole_batch(place[1])
        self._end_stretch()
        if copy is None or copy.count != batch.count or not batch.same_bytes(copy):
            return False
        if self._keys_on_source or side.keys:
            self._see_keys(batch, side)
        side.take_whole(copy)
        self._source_records += batch.count
        self._counts[Outcome.EQUAL] += batch.count
        return True

    def _take_same_rows(self, batch: LogBatch, rows: BatchRows) -> bool:
        """Compare all records of a batch with their copies at once; False if one may differ.

        The copy merges small batches, so that theirs is a part of a larger one.
        """
        count = len(rows.offsets)
        if not self._comparer.trusts_bytes or not count:
            return False
        first, last = int(rows.offsets[0]), int(rows.offsets[-1])
        if last - first + 1 != count or first < self._part.first or last >= self._part.end:
            return False
        place = self._index.find_all(first, last)
        if place is None:
            return False
        side = self._sides[place[0]]
        copies = side.find_rows(place[1], count)
        self._end_stretch()
        if copies is None or not self._comparer.are_equal((rows, 0), copies, count):
            return False
        if self._keys_on_source or side.keys:
            self._see_keys(batch, side)
        side.take_rows(count)
        self._source_records += count
        self._counts[Outcome.EQUAL] += count
        return True

    def _take_kept(self, rows: BatchRows, kept: Flags) -> bool:
        """Compare the records of a filtered batch, many at a time; False if one is not as expected.

        What a filter keeps lands in a row. Nothing was taken if it returns False. On compacted
        topics, each key may be a proof.
        """
        part, offsets = self._part, rows.offsets
        first, last = int(offsets[0]), int(offsets[-1])
        is_known = part.start <= first and not (
            part.skipped.has_any(first, last) or part.unknown.has_any(first, last)
        )
        which, landed = self._index.find_each(offsets)
        if (
            not (is_known and self._comparer.trusts_bytes)
            or first < part.first
            or last >= part.end
            or part.facts.compacted
            or any(span.compacted for span in part.targets)
            or ((which >= 0) != kept).any()
        ):
            return False
        left_out = len(kept) - int(np.count_nonzero(kept))
        self._source_records += left_out
        self._counts[Outcome.NEVER_COPIED] += left_out
        places = np.flatnonzero(kept)
        apart = (np.diff(landed[places]) != 1) | (np.diff(which[places]) != 0)
        for run in np.split(places, np.flatnonzero(apart) + 1):
            if len(run):
                self._take_run(rows, run, self._sides[int(which[run[0]])], int(landed[run[0]]))
        return True

    def _take_run(self, rows: BatchRows, run: I64, side: _TargetSide, landed: int) -> None:
        """Compare records whose copies are in a row, those in each batch of the target at once."""
        done = 0
        while done < len(run):
            row, offset = int(run[done]), landed + done
            copies, count = side.find_run(offset, len(run) - done)
            self._end_stretch()
            if copies is not None and self._comparer.are_equal((rows, row), copies, count):
                side.take_rows(count)
                self._source_records += count
                self._counts[Outcome.EQUAL] += count
            else:
                count = max(1, count)
                for other in run[done : done + count].tolist():
                    self._take_record(rows, other, int(rows.offsets[other]))
            done += count

    def _see_keys(self, batch: LogBatch, side: _TargetSide) -> None:
        try:
            rows = batch.rows()
        except UnreadableBatch:
            side.is_unread = True
            return  # both sides hold the same bytes, and nothing follows from them
        for row in range(len(rows.offsets)):
            key = rows.key(row)
            self._keys_on_source.see(key)
            side.keys.see(key)

    def _take_record(self, rows: BatchRows, row: int, offset: int) -> None:
        self._source_records += 1
        place = self._index.find(offset)
        if place is None:
            self._take_unmapped(rows, row, offset)
        elif self._part.facts.makes_several:
            self._take_several((rows, row), offset)
        else:
            side = self._sides[place[0]]
            copy = side.take(place[1])
            self._end_stretch()
            if isinstance(copy, Absent):
                self._take_without_copy((rows, row), offset, side, place[1], copy)
            else:
                verdict = self._comparer.compare((rows, row), copy)
                self._judge(verdict, (rows, row), offset, side, place[1], copy)
        if self._keys_on_source:
            self._keys_on_source.see(rows.key(row))

    def _take_unmapped(self, rows: BatchRows, row: int, offset: int) -> None:
        left_out = rows.is_left_out(row)
        outcome, why = self._part.explain_unmapped(offset, left_out)
        if outcome is Outcome.EXPIRED_ON_SOURCE and self._matcher is not None:
            self._match_source(self._matcher, (rows, row), offset)
        else:
            self.note(outcome, offset, None, None, why, source=(rows, row))
        if not left_out:
            self._doubt(rows.key(row))

    def _take_several(self, source: _RECORD, offset: int) -> None:
        """Compare a source record with all records that were made of it, wherever they landed."""
        places = self._index.find_every(offset)
        copies: list[tuple[_TargetSide, int, _RECORD]] = []
        absent: tuple[_TargetSide, int, Absent] | None = None
        for number, landed, count in places:
            side = self._sides[number]
            for at in range(landed, landed + count):
                if at > landed and side.span.others.has(at):
                    continue  # a batch of another source partition is between them
                copy = side.take(at, counts=False)
                if not isinstance(copy, Absent):
                    copies.append((side, at, copy))
                elif at == landed or side.span.compacted or copy.kind in _WITHOUT_COPY:
                    absent = absent or (side, at, copy)
        self._end_stretch()
        if absent is not None:
            self._take_without_copy(source, offset, *absent)
            return
        copies[0][0].records += 1
        records = [record for *_, record in copies]
        verdict = self._comparer.compare_several(source, records, in_order=len(places) == 1)
        self._judge(verdict, source, offset, *copies[verdict.number])

    def _judge(
        self,
        verdict: PairVerdict,
        source: _RECORD,
        offset: int,
        side: _TargetSide,
        landed: int,
        copy: _RECORD,
    ) -> None:
        if verdict.outcome is Outcome.EQUAL:
            self._counts[Outcome.EQUAL] += 1
            return
        self.note(
            verdict.outcome, offset, side.span.at, landed, verdict.why, source=source, copy=copy
        )

    def _take_without_copy(
        self, source: _RECORD, offset: int, side: _TargetSide, landed: int, absent: Absent
    ) -> None:
        if absent.kind is AbsentKind.NO_RECORD and side.span.compacted:
            rows, row = source
            key = rows.key(row) if self._part.facts.keeps_keys else None
            side.keys.wait(key, offset, is_tombstone=rows.is_tombstone(row))
            return
        self._doubt(source[0].key(source[1]))
        outcome = _WITHOUT_COPY.get(absent.kind, Outcome.MISSING)
        why = absent.reason or _WHY_MISSING.get(absent.kind, "")
        self.note(outcome, offset, side.span.at, landed, why, source=source)

    def _doubt(self, key: bytes | None) -> None:
        """A record of this key may have been copied, and may have compacted older ones."""
        for side in self._sides:
            side.keys.doubt(key)

    def note(
        self,
        outcome: Outcome,
        offset: int | None,
        target: TargetPartition | None,
        landed: int | None,
        why: str,
        *,
        source: _RECORD | None = None,
        copy: _RECORD | None = None,
    ) -> None:
        """Count a record, and keep its place if it is one of the first that must not be."""
        self._counts[outcome] += 1
        if outcome not in _KEPT or self._counts[outcome] > KEPT_FINDINGS:
            return
        hashes = ("" if at is None else self._comparer.digest(at) for at in (source, copy))
        self._findings.append(Finding(outcome, offset, target, landed, why, *hashes))

    def _match_source(self, matcher: ContentMatcher, source: _RECORD, offset: int) -> None:
        """Match a source record without a mapping, and read the target as far."""
        matcher.add_source(offset, self._comparer.digest(source), source[0].time_ms(source[1]))
        side = self._sides[0]
        limit = self._index.landing_after(offset)
        while matcher.wants_target and side.pass_one(limit):
            pass

    def match_target(self, at: TargetPartition, copy: _RECORD, offset: int) -> None:
        """Match a record of the target that may be a copy without a mapping."""
        if self._matcher is None:
            self.note(Outcome.EXPIRED_ON_TARGET, None, at, offset, "", copy=copy)
        else:
            time_ms = copy[0].time_ms(copy[1])
            self._matcher.add_target(offset, self._comparer.digest(copy), time_ms)

    def _end_stretch(self) -> None:
        """Records with a mapping follow: what has no counterpart so far has none."""
        if self._matcher is not None and not self._matcher.is_settled:
            self._matcher.finish(is_followed=True)

    def _miss_copy(self, one: Unmatched) -> None:
        outcome = Outcome.MISSING if one.is_proven else Outcome.EXPIRED_ON_SOURCE
        self._keep(Finding(outcome, one.offset, None, None, _BY_CONTENT, one.digest))

    def _miss_source(self, one: Unmatched) -> None:
        outcome = Outcome.NATIVE if one.is_proven else Outcome.EXPIRED_ON_TARGET
        at = self._sides[0].span.at
        self._keep(Finding(outcome, None, at, one.offset, _BY_CONTENT, "", one.digest))

    def _keep(self, finding: Finding) -> None:
        self._counts[finding.outcome] += 1
        if finding.outcome in _KEPT and self._counts[finding.outcome] <= KEPT_FINDINGS:
            self._findings.append(finding)

    def wait_for_key(self, key: bytes | None, offset: int) -> None:
        """Note a copy whose source record, at an offset, may have been compacted."""
        self._keys_on_source.wait(key if self._part.facts.keeps_keys else None, offset)


def _keys(items: LogItems, first: int) -> Iterator[bytes | None]:
    """Yield the keys of all records from an offset on.

    Raises:
        UnreadableBatch: some cannot be read.
    """
    for item in items:
        if isinstance(item, Absent):
            if item.kind in _UNREAD_KINDS:
                raise UnreadableBatch(item.reason)
        else:
            rows = item.rows()
            yield from map(rows.key, np.flatnonzero(rows.offsets >= first).tolist())


def _record_at(items: LogItems, offset: int) -> _RECORD | None:
    """Return the record at an offset; None without one.

    Raises:
        UnreadableBatch: it cannot be read.
    """
    for item in items:
        if not isinstance(item, Absent) and item.first <= offset <= item.last:
            rows = item.rows()
            for row in np.flatnonzero(rows.offsets == offset).tolist():
                return rows, row
    return None


_UNREAD_KINDS = frozenset({AbsentKind.UNREAD, AbsentKind.HELD_BACK})
_WHY_LOST = "the newest record of its key, which compaction keeps"
_BY_CONTENT = "matched by content, as its mapping has expired"
_WITHOUT_COPY = {
    AbsentKind.DELETED: Outcome.DELETED_ON_TARGET,
    AbsentKind.UNREAD: Outcome.UNREAD_ON_TARGET,
    AbsentKind.HELD_BACK: Outcome.UNREAD_ON_TARGET,
}
_WHY_MISSING = {
    AbsentKind.NO_RECORD: "there is no record where its copy landed",
    AbsentKind.END: "the target's log ends before where its copy landed",
}


class _SourceIndex:
    """Where each source record of a part landed, on any target partition."""

    def __init__(self, spans: tuple[TargetSpan, ...]) -> None:
        self._ranges = columns = [span.ranges for span in spans]
        empty = np.empty(0, dtype=np.int64)
        source = np.concatenate([empty, *(c.source for c in columns)])
        order = np.argsort(source, kind="stable")
        which = np.repeat(np.arange(len(columns)), [len(c) for c in columns])
        self._source = source[order]
        self._target = np.concatenate([empty, *(c.target for c in columns)])[order]
        self._count = np.concatenate([empty, *(c.count for c in columns)])[order]
        self._which = which[order]
        self._row = 0

    def find(self, offset: int) -> tuple[int, int] | None:
        """Return the number of the target partition, and the offset there; None without a mapping.

        Offsets are asked for in order: most are in the row of the one before.
        """
        return self.find_all(offset, offset)

    def find_each(self, offsets: I64) -> tuple[I64, I64]:
        """Return the number of the target partition of each, -1 without one, and the offset."""
        if not len(self._source):
            return np.full(len(offsets), -1), np.zeros(len(offsets), dtype=np.int64)
        rows = np.searchsorted(self._source, offsets, side="right") - 1
        ahead = offsets - self._source[rows]
        is_mapped = (rows >= 0) & (ahead < self._count[rows])
        return np.where(is_mapped, self._which[rows], -1), self._target[rows] + ahead

    def find_every(self, offset: int) -> list[tuple[int, int, int]]:
        """Return each target partition's number, the first offset there, and number of offsets.

        Others' records may be between the first and the last one that were made of a record.
        """
        places = []
        for number, ranges in enumerate(self._ranges):
            row = int(np.searchsorted(ranges.source, offset, side="right")) - 1
            ahead = offset - int(ranges.source[row]) if row >= 0 else 0
            if row >= 0 and ahead < (count := int(ranges.count[row])):
                further = int(ranges.further[row]) if ahead == count - 1 else 0
                places.append((number, int(ranges.target[row]) + ahead, 1 + further))
        return places

    def find_all(self, first: int, last: int) -> tuple[int, int] | None:
        """Return where the first of these offsets landed, if all landed in a row."""
        row = self._row
        if row >= len(self._source) or not (
            self._source[row] <= first < self._source[row] + self._count[row]
        ):
            row = int(np.searchsorted(self._source, first, side="right")) - 1
            if row < 0:
                return None
            self._row = row
        ahead = first - int(self._source[row])
        if last - int(self._source[row]) >= int(self._count[row]):
            return None
        return int(self._which[row]), int(self._target[row]) + ahead

    def landing_after(self, offset: int) -> int:
        """Return the target offset of the first mapped record behind a source offset."""
        row = int(np.searchsorted(self._source, offset, side="right"))
        return int(self._target[row]) if row < len(self._target) else FOREVER


class _TargetSide:
    """One target partition, read in order beside the source.

    Attributes:
        span: its offsets that belong to the part.
        keys: copies that may have been compacted.
        records: number of records read, those of other source partitions left out.
        digest: that of its batches, if this part looks at all of them.
        is_unread: whether something of it could not be read.
    """

    def __init__(self, walk: _Walk, span: TargetSpan, items: LogItems) -> None:
        self._walk = walk
        self._items = items
        self.span = span
        self.keys = KeyProofs()
        self.records = 0
        self.digest = 0
        self.is_unread = False
        self._batch: LogBatch | None = None
        self._rows: BatchRows | None = None
        self._row = 0
        self._absent: Absent | None = None
        self._is_over = False
        ranges = span.ranges
        order = np.argsort(ranges.target, kind="stable")
        self._targets = ranges.target[order]
        self._sources = ranges.source[order]
        self._counts = ranges.count[order]
        self._reach = self._counts + ranges.further[order]

    def whole_batch(self, offset: int) -> LogBatch | None:
        """Return the batch that begins at an offset, if nothing of it was taken yet."""
        self.pass_before(offset)
        if self._batch is None or self._rows is not None or self._batch.first != offset:
            return None
        is_within = self.span.log_start <= offset and self._batch.last < self.span.end
        return self._batch if is_within else None

    def take_whole(self, batch: LogBatch) -> None:
        """Take all records of the batch that ``whole_batch`` has returned."""
        self.records += batch.count
        self._batch = None

    def find_rows(self, offset: int, count: int) -> _RECORD | None:
        """Return the record at an offset, if it and those at the next offsets are in one batch.

        What precedes it is passed; nothing is taken.
        """
        if offset < self.span.log_start:
            return None
        self.pass_before(offset)
        if self._batch is None or self._batch.first > offset:
            return None
        rows = self._decode(self._batch)
        if rows is None or self._row + count > len(rows.offsets):
            return None
        offsets = rows.offsets[self._row : self._row + count]
        is_whole = int(offsets[0]) == offset and int(offsets[-1]) == offset + count - 1
        return (rows, self._row) if is_whole else None

    def find_run(self, offset: int, most: int) -> tuple[_RECORD | None, int]:
        """Return the record at an offset, and how many follow it without a gap in its batch.

        What precedes it is passed; nothing is taken. None, and 0, if there is none.
        """
        if offset < self.span.log_start:
            return None, 0
        self.pass_before(offset)
        rows = None
        if self._batch is not None and self._batch.first <= offset:
            rows = self._decode(self._batch)
        if rows is None:
            return None, 0
        there = rows.offsets[self._row : self._row + most]
        count = int(np.count_nonzero(there - np.arange(len(there)) == offset))
        return ((rows, self._row), count) if count else (None, 0)

    def take_rows(self, count: int) -> None:
        """Take the records that ``find_rows`` or ``find_run`` has returned."""
        self._row += count
        self.records += count

    def take(self, offset: int, *, counts: bool = True) -> _RECORD | Absent:
        """Take the record at an offset, and count it; what precedes it is passed."""
        if offset < self.span.log_start:
            return Absent(offset, offset, AbsentKind.DELETED)
        self.pass_before(offset)
        if self._batch is not None and self._batch.first <= offset:
            rows = self._decode(self._batch)
            if rows is not None and self._row < len(rows.offsets):
                row = self._row
                if int(rows.offsets[row]) == offset:
                    self._row += 1
                    self.records += counts
                    if self.keys:
                        self.keys.see(rows.key(row))
                    return rows, row
        absent = self._absent
        if absent is not None and absent.first <= offset <= absent.last:
            return absent
        kind = AbsentKind.END if self._is_over else AbsentKind.NO_RECORD
        return Absent(offset, offset, kind)

    def pass_before(self, offset: int) -> None:
        """Pass everything below an offset; each record of it has no source record."""
        while not self._is_over:
            if self._absent is not None:
                if self._absent.last >= offset:
                    return
                self._absent = None
            elif self._batch is not None:
                if self._batch.first >= offset:
                    return
                if not self._pass_rows(self._batch, offset):
                    return
                self._batch = self._rows = None
            self._next()

    def pass_one(self, limit: int) -> bool:
        """Pass the next record below an offset; False if there is none."""
        while not self._is_over:
            batch = self._batch
            if batch is not None:
                rows = self._decode(batch)
                if rows is None:
                    return False
                if self._row < len(rows.offsets):
                    at = int(rows.offsets[self._row])
                    if at >= min(limit, self.span.end):
                        return False
                    self._pass(rows, self._row, at)
                    self._row += 1
                    return True
                self._batch = self._rows = None
            elif self._absent is not None:
                if self._absent.last >= min(limit, self.span.end):
                    return False
                self._absent = None
            self._next()
        return False

    def _next(self) -> None:
        item = next(self._items, None)
        if item is None:
            self._is_over = True
        elif isinstance(item, Absent):
            self._absent = item
            self.is_unread |= item.kind in _UNREAD_KINDS
        else:
            self._batch, self._rows, self._row = item, None, 0
            if self.span.native_end and self.span.first <= item.first < self.span.end:
                self.digest = add_digests(self.digest, item.digest())

    def _decode(self, batch: LogBatch) -> BatchRows | None:
        """Return the records of the current batch; None if they cannot be decoded."""
        if self._rows is None:
            try:
                self._rows = batch.rows()
            except UnreadableBatch as error:
                self.is_unread = True
                self._batch = None
                self._absent = Absent(batch.first, batch.last, AbsentKind.UNREAD, str(error))
        return self._rows

    def _pass_rows(self, batch: LogBatch, offset: int) -> bool:
        """Pass the records of a batch below an offset; return whether nothing of it is left."""
        # Others' records may be newer ones of a key that is waited for.
        if (
            not self.keys
            and self._rows is None
            and batch.last < offset
            and self._is_of_others(batch)
        ):
            return True
        rows = self._decode(batch)
        if rows is None:
            self._absent = None if batch.last < offset else self._absent
            return self._absent is None
        size = len(rows.offsets)
        while self._row < size and (at := int(rows.offsets[self._row])) < offset:
            self._pass(rows, self._row, at)
            self._row += 1
        return self._row >= size and batch.last < offset

    def _is_of_others(self, batch: LogBatch) -> bool:
        """Whether none of a batch's records belongs to this part."""
        span = self.span
        if batch.last < span.first or batch.first >= span.end:
            return True
        row = int(np.searchsorted(self._targets, batch.last, side="right")) - 1
        if row >= 0 and batch.first < int(self._targets[row] + self._reach[row]):
            return False
        return batch.first >= span.native_end or span.others.has_all(batch.first, batch.last)

    def _pass(self, rows: BatchRows, row: int, offset: int) -> None:
        """Decide what a record without a source record is."""
        span = self.span
        if self.keys:
            self.keys.see(rows.key(row))
        if not span.first <= offset < span.end:
            return
        at = int(np.searchsorted(self._targets, offset, side="right")) - 1
        ahead = offset - int(self._targets[at]) if at >= 0 else 0
        if at >= 0 and ahead < int(self._reach[at]):
            if ahead >= int(self._counts[at]):
                return  # made of the source record before it, as one of several
            self.records += 1
            self._pass_copy(rows, row, offset, int(self._sources[at]) + ahead)
        elif offset < span.native_end and not span.others.has(offset):
            self.records += 1
            if span.unknown.has(offset):
                self._walk.match_target(span.at, (rows, row), offset)
            else:
                why = "no source record was copied there"
                self._walk.note(Outcome.NATIVE, None, span.at, offset, why, copy=(rows, row))

    def _pass_copy(self, rows: BatchRows, row: int, offset: int, source: int) -> None:
        part = self._walk.part
        if source < part.facts.log_start:
            self._walk.note(Outcome.DELETED_ON_SOURCE, source, self.span.at, offset, "")
        elif part.facts.compacted:
            self._walk.wait_for_key(rows.key(row), source)
        else:
            why = "the source has no record where the copy is from"
            self._walk.note(
                Outcome.MISSING_ON_SOURCE, source, self.span.at, offset, why, copy=(rows, row)
            )
