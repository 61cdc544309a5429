"""Proves exact positions by comparing records around an estimate on both clusters.

MirrorMaker 2 records the target offsets of few records only, and the mappings of a pipeline expire.
From the nearest of the anchors that are left, both logs are compared record by record up to the
committed offsets; the positions are proven if key, value, headers and timestamp of every record
match. One walk serves all groups of a partition. If a position is too far from the previous one, a
pattern of neighboring records is searched around the estimate, and around the record's time; it
proves the position if it occurs exactly once. If records were deleted on either side, for example
by compaction, the remaining neighbors prove it if their copies are adjacent.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from time import monotonic
from typing import TypeVar

from confluent_kafka.admin import OffsetSpec

from k2ktui.engine.mapping.anchors import OffsetAnchor, OffsetAnchors
from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.errors import K2kError
from k2ktui.kafka.clients import Cluster
from k2ktui.log.content import ContentReader, KafkaRecord, RecordRange, Where
from k2ktui.sync.matching.comparing import (
    DIFFER,
    NEIGHBOURS,
    UNSTABLE,
    Answers,
    compare,
    found_once,
    walk_backward,
    walk_forward,
)

log = logging.getLogger(__name__)

# Maximum step of a walk from one committed offset to the next, in source offsets.
WALK = 5000
# Maximum distance of a pattern from the estimate, in offsets.
_AROUND = 1000
# Maximum size of one read, in offsets.
PORTION = 50_000
# A range that has too few committed records is read again, this many times as far.
_WIDER = 8

T = TypeVar("T")
Span = tuple[Where, int]
Borders = tuple[OffsetAnchor | None, OffsetAnchor | None]


@dataclass(frozen=True, slots=True)
class ComparisonJob:
    """Committed offsets of one partition that are compared together, and the ranges to read.

    ``forward`` is None for a pattern; True or False for a walk from the anchor through the offsets,
    forward or backward. ``low`` is where a walk backward ends at the latest, if that is known.
    """

    at: SourcePartition
    offsets: tuple[int, ...]
    anchor: OffsetAnchor
    forward: bool | None
    source_span: Span
    target_span: Span
    low: OffsetAnchor | None = None


@dataclass(frozen=True, slots=True)
class _Tried:
    """A failed attempt: the surrounding anchors, how far copying had reached, and the reason."""

    borders: Borders
    reached: int
    why: str


class PositionProver:
    """Proves anchors; does not retry a failed attempt until its conditions change.

    Args:
        source: the source cluster; it is only read.
        target: the target cluster; it is only read.
        unique: as for ``compare``.
    """

    def __init__(self, source: Cluster, target: Cluster, *, unique: bool = False) -> None:
        self._unique = unique
        self._source, self._target = ContentReader(source), ContentReader(target)
        self._target_cluster = target
        self._tried: dict[tuple[SourcePartition, int], _Tried] = {}
        self._trouble = ""

    def prove(
        self,
        anchors: Mapping[SourcePartition, OffsetAnchors],
        positions: Mapping[SourcePartition, Position],
        wanted: Mapping[SourcePartition, Collection[int]],
        timeout: float,
    ) -> list[tuple[SourcePartition, OffsetAnchor]]:
        """Add an anchor at every wanted offset where possible, and return the added ones.

        Args:
            anchors: known anchors; proven ones are added.
            positions: position and target of each source partition.
            wanted: committed offsets.
            timeout: seconds; offsets not compared by then are tried on the next call.
        """
        until = monotonic() + timeout
        self._trouble = ""
        # Forget attempts for offsets that are no longer committed.
        self._tried = {
            (at, offset): tried
            for (at, offset), tried in self._tried.items()
            if offset in wanted.get(at, ())
        }
        proven: list[tuple[SourcePartition, OffsetAnchor]] = []
        # Each round continues from the anchors that the previous one proved.
        while jobs := self._round(anchors, positions, wanted):
            for portion in divide_work(jobs, _count_reads, PORTION):
                left = until - monotonic()
                if left <= 0:
                    self._trouble = "the time limit was reached"
                    log.info("comparing records stopped after %.0f s", timeout)
                    return proven
                try:
                    proven += self._run(portion, anchors, positions, left)
                except K2kError as error:
                    log.info("comparing records stopped: %s", error.message)
                    self._trouble = error.message
                    return proven
        return proven

    def notes(self) -> list[str]:
        """Return how many positions could not be proven, and why."""
        whys = Counter(tried.why for tried in self._tried.values())
        notes = [f"{count} positions are not exact: {why}" for why, count in whys.items()]
        if self._trouble:
            notes.append(f"records were not compared, so positions are not exact:  {self._trouble}")
        return notes

    def close(self) -> None:
        """Close all connections."""
        self._source.close()
        self._target.close()

    def _round(
        self,
        anchors: Mapping[SourcePartition, OffsetAnchors],
        positions: Mapping[SourcePartition, Position],
        wanted: Mapping[SourcePartition, Collection[int]],
    ) -> list[ComparisonJob]:
        jobs: list[ComparisonJob] = []
        for at, offsets in sorted(wanted.items()):
            known = anchors.get(at)
            if known:
                open_ = self._open(at, sorted(set(offsets)), known, positions[at])
                for borders, some in groupby(open_, key=lambda gap: gap[1]):
                    jobs += plan_jobs(at, [offset for offset, _ in some], borders, positions[at])
        return jobs

    def _open(
        self, at: SourcePartition, offsets: Sequence[int], known: OffsetAnchors, position: Position
    ) -> Iterator[tuple[int, Borders]]:
        """Yield the offsets that are neither proven nor tried, with the anchors around each."""
        for offset in offsets:
            low, high = known.at_or_before(offset), known.at_or_after(offset)
            if (low is None and high is None) or (low is not None and low.source == offset):
                self._tried.pop((at, offset), None)
                continue
            tried = self._tried.get((at, offset))
            # Retry once copying has advanced; progress beyond the offset changes nothing.
            reached = min(offset, position.offset)
            if tried is None or (tried.borders, tried.reached) != ((low, high), reached):
                yield offset, (low, high)

    def _run(
        self,
        jobs: Sequence[ComparisonJob],
        anchors: Mapping[SourcePartition, OffsetAnchors],
        positions: Mapping[SourcePartition, Position],
        timeout: float,
    ) -> list[tuple[SourcePartition, OffsetAnchor]]:
        until = monotonic() + timeout
        copies = self._target.stretches([job.target_span for job in jobs], timeout)
        jobs, originals = self._read_source(jobs, until)
        answers = [
            find_target_offsets(job, original, copy, unique=self._unique)
            for job, original, copy in zip(jobs, originals, copies, strict=True)
        ]
        answers = self._search_by_time(jobs, originals, answers, until)
        proven = []
        for job, landed_at in zip(jobs, answers, strict=True):
            known, failed = anchors[job.at], {}
            for offset, landed in zip(job.offsets, landed_at, strict=True):
                if isinstance(landed, str):
                    failed[offset] = landed
                elif known.prove(OffsetAnchor(offset, landed)):
                    proven.append((job.at, OffsetAnchor(offset, landed)))
                else:
                    failed[offset] = "the records found contradict the known target offsets"
            for offset, why in failed.items():
                if why == UNSTABLE:
                    continue  # can be proven once the transaction has ended
                borders = known.at_or_before(offset), known.at_or_after(offset)
                reached = min(offset, positions[job.at].offset)
                self._tried[job.at, offset] = _Tried(borders, reached, why)
                log.debug("%s: position of source offset %d not proven: %s", job.at, offset, why)
        return proven

    def _search_by_time(
        self,
        jobs: Sequence[ComparisonJob],
        originals: Sequence[RecordRange],
        answers: Sequence[Answers],
        until: float,
    ) -> list[Answers]:
        """Return the answers, with those of patterns that were not where they were estimated.

        The farther the anchor, the more the offsets of both logs have drifted apart. Copies have
        the time of their records, so the pattern is searched around it, too.
        """
        results = list(answers)
        again: dict[int, ComparisonJob] = {}
        for number, job in enumerate(jobs):
            # A pattern that was found twice would be found once in a smaller part of the log.
            is_elsewhere = job.forward is None and answers[number] == [DIFFER]
            at_ms = _time_of(job, originals[number]) if is_elsewhere else -1
            if at_ms >= 0:
                topic, partition, _ = job.target_span[0]
                spec = OffsetSpec.for_timestamp(at_ms)
                guess = self._target_cluster.offsets([(topic, partition)], spec)
                offset = guess.get((topic, partition), -1)
                if offset >= 0:
                    begin = max(0, offset - WALK // 2)
                    again[number] = replace(job, target_span=((topic, partition, begin), WALK))
        if again:
            spans = [job.target_span for job in again.values()]
            copies = self._target.stretches(spans, max(0.0, until - monotonic()))
            for (number, job), copy in zip(again.items(), copies, strict=True):
                results[number] = find_target_offsets(
                    job, originals[number], copy, unique=self._unique
                )
        return results

    def _read_source(
        self, jobs: Sequence[ComparisonJob], until: float
    ) -> tuple[list[ComparisonJob], list[RecordRange]]:
        """Read the source's ranges, as far as each job needs; return the jobs as they were read."""
        read: dict[int, RecordRange] = {}
        made, unread = list(jobs), dict(enumerate(jobs))
        while unread:
            left = max(0.0, until - monotonic())
            # By default MirrorMaker 2 also copies records of aborted transactions.
            spans = [job.source_span for job in unread.values()]
            ranges = self._source.stretches(spans, left, with_aborted=True)
            read |= zip(unread, ranges, strict=True)
            wider = {number: widen(made[number], read[number]) for number in unread}
            unread = {number: job for number, job in wider.items() if job is not None}
            for number, job in unread.items():
                made[number] = job
        return made, [read[number] for number in range(len(made))]


def _time_of(job: ComparisonJob, original: RecordRange) -> int:
    """Return the timestamp of the first record at or after a job's first offset; -1 for none."""
    following = [at for at in original.records if at >= job.offsets[0]]
    return original.records[min(following)].timestamp_ms if following else -1


def widen(job: ComparisonJob, read: RecordRange) -> ComparisonJob | None:
    """Return a job that reads more of the source; None if it has what it needs, or all there is.

    A long aborted transaction, or compaction, leaves a range without committed records: a walk back
    needs the one before its lowest offset, a pattern its neighbors on both sides.
    """
    if job.forward or read.unread:
        return None
    (topic, partition, first), count = job.source_span
    end, lowest = first + count, job.offsets[-1]
    before = sum(at < lowest for at in read.records)
    begin = first
    if before < (1 if job.forward is False else NEIGHBOURS):
        floor = max(read.bounds.start, job.low.source if job.low else 0)
        begin = max(floor, end - PORTION, lowest - _WIDER * (lowest - first))
    if job.forward is None and len(read.records) - before < NEIGHBOURS:
        end = min(read.bounds.stable, begin + PORTION, lowest + _WIDER * (end - lowest))
    if begin >= first and end <= first + count:
        return None
    begin, end = min(begin, first), max(end, first + count)
    return replace(job, source_span=((topic, partition, begin), end - begin))


def plan_jobs(
    at: SourcePartition, offsets: Sequence[int], borders: Borders, position: Position
) -> Iterator[ComparisonJob]:
    """Yield the comparisons for sorted offsets that lie between the same two anchors."""
    low, high = borders
    middle = len(offsets)
    if low is None:
        middle = 0
    elif high is not None:
        middle = sum(offset - low.source <= high.source - offset for offset in offsets)
    onwards, back = list(offsets[:middle]), list(offsets[middle:])[::-1]
    for anchor, some, forward in ((low, onwards, True), (high, back, False)):
        if anchor is None or not some:
            continue
        chain = _chain(some, anchor.source)
        # Offsets farther than one portion continue from there in the next round.
        near = [offset for offset in chain if abs(offset - anchor.source) <= PORTION]
        if near:
            yield _walk(at, near, anchor, borders, position, forward=forward)
        for offset in some[len(chain) :]:
            yield _pattern(at, offset, borders, position)


def _chain(offsets: Sequence[int], start: int) -> list[int]:
    """Return the leading offsets reachable from ``start`` in steps of at most ``WALK``."""
    chain: list[int] = []
    for offset in offsets:
        if abs(offset - start) > WALK:
            break
        chain.append(offset)
        start = offset
    return chain


def _walk(
    at: SourcePartition,
    offsets: Sequence[int],
    anchor: OffsetAnchor,
    borders: Borders,
    position: Position,
    *,
    forward: bool,
) -> ComparisonJob:
    topic, partition = _target_of(at, position)
    far = abs(offsets[-1] - anchor.source)
    low, high = borders
    # With transactions, a marker may follow every record.
    room = 2 * far + 2 * NEIGHBOURS
    if low and high:
        # Aborted records take up offsets too; between two anchors their number is bounded.
        between = high.target - low.target + NEIGHBOURS
        room = between if between <= WALK else min(room, between)
    if forward:
        on_source = (at.topic, at.partition, anchor.source), far + NEIGHBOURS
        on_target = (topic, partition, anchor.target), room
    else:
        first = max(0, offsets[-1] - NEIGHBOURS)
        room = min(anchor.target, room)
        on_source = (at.topic, at.partition, first), anchor.source - first
        on_target = (topic, partition, anchor.target - room), room
    return ComparisonJob(
        at, tuple(offsets), anchor, forward, on_source, on_target, None if forward else low
    )


def _pattern(
    at: SourcePartition, offset: int, borders: Borders, position: Position
) -> ComparisonJob:
    anchors = [anchor for anchor in borders if anchor]
    # Markers and aborted records may lie between the neighbors.
    first = max(0, offset - 4 * NEIGHBOURS)
    guesses = _guesses(offset, *borders)
    begin = max(0, min(guesses) - _AROUND)
    count = min(max(guesses) + _AROUND - begin, WALK)
    on_source = (at.topic, at.partition, first), offset + 4 * NEIGHBOURS - first
    on_target = (*_target_of(at, position), begin), count
    return ComparisonJob(at, (offset,), anchors[0], None, on_source, on_target)


def _target_of(at: SourcePartition, position: Position) -> tuple[str, int]:
    partition = position.target_partition
    return position.target_topic, at.partition if partition is None else partition


def _guesses(offset: int, low: OffsetAnchor | None, high: OffsetAnchor | None) -> list[int]:
    """Return the estimated target offsets of a source offset."""
    guesses = [anchor.target + offset - anchor.source for anchor in (low, high) if anchor]
    if low and high and max(guesses) - min(guesses) > WALK - 2 * _AROUND:
        # The source has offsets without a copy (markers), so interpolate between the anchors.
        part = (offset - low.source) / (high.source - low.source)
        middle = low.target + round(part * (high.target - low.target))
        return [middle - WALK // 2 + _AROUND, middle + WALK // 2 - _AROUND]
    return guesses


def _count_reads(job: ComparisonJob) -> int:
    return max(job.source_span[1], job.target_span[1])


def divide_work(items: Iterable[T], size_of: Callable[[T], int], most: int) -> Iterator[list[T]]:
    """Yield the items in portions of at most a total size, or of one item."""
    portion: list[T] = []
    total = 0
    for item in items:
        size = size_of(item)
        if portion and total + size > most:
            yield portion
            portion, total = [], 0
        portion.append(item)
        total += size
    if portion:
        yield portion


def find_target_offsets(
    job: ComparisonJob,
    source_range: RecordRange,
    target_range: RecordRange,
    *,
    unique: bool = False,
) -> Answers:
    """Return the anchor's target offset for each of the job's offsets, or why it is not proven."""
    low = job.low if job.low and job.source_span[0][2] <= job.low.source else None

    def way(one: Sequence[KafkaRecord], other: Sequence[KafkaRecord]) -> Answers:
        if job.forward is None:
            return found_once(job.offsets, job.anchor, one, other)
        if job.forward:
            return walk_forward(job.offsets, job.anchor, one, other)
        return walk_backward(job.offsets, job.anchor, one, other, low=low)

    return compare(job.offsets, source_range, target_range, way, unique=unique)
