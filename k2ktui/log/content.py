"""Read single records and ranges of a partition, as a ``read_committed`` consumer sees them.

Verification uses it on either cluster to compare the next record at a committed offset and every
record of a mapping range. It commits nothing, joins no group and creates no topic.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Self

import numpy as np

from k2ktui.log.batch import Batch
from k2ktui.log.fetcher import FAR_BYTES, ConsumerOptions, Fetcher
from k2ktui.log.record import (
    KafkaRecord,
    RecordPart,
    compare_content,
    content_digest,
    record_at,
    timestamp_type,
)
from k2ktui.log.records import decode_records

if TYPE_CHECKING:
    from k2ktui.kafka.clients import Cluster, Partition

__all__ = [
    "AbsenceReason",
    "Answer",
    "ContentReader",
    "KafkaRecord",
    "LogBounds",
    "RecordPart",
    "RecordRange",
    "UnreadableReason",
    "Where",
    "compare_content",
    "content_digest",
]

Where = tuple[str, int, int]


@dataclass(frozen=True, slots=True)
class UnreadableReason:
    """Why a position cannot be read."""

    reason: str


class AbsenceReason(StrEnum):
    """Why a range has no record at an offset."""

    DELETED = "it is below the log start offset"
    NONE = "there is no committed record"
    UNSTABLE = "an open transaction holds back the last stable offset"
    BEYOND = "it is beyond the high watermark"
    UNREAD = "it could not be read"


Answer = KafkaRecord | UnreadableReason | None


@dataclass(frozen=True, slots=True)
class LogBounds:
    """Log start offset, last stable offset and high watermark, -1 where unknown."""

    start: int = -1
    stable: int = -1
    high: int = -1


@dataclass(frozen=True, slots=True)
class RecordRange:
    """The records of a partition at offsets ``first … first+count-1``.

    Attributes:
        records: committed records by offset.
        aborted: records of aborted transactions by offset, if requested.
        producers: producer id of the batch of each record by offset, -1 for none.
        bounds: bounds of the log at the time of reading.
        unread_from: offset from which nothing was read although there may be records.
        unread: why; empty if everything was read.
    """

    first: int
    count: int
    records: Mapping[int, KafkaRecord]
    bounds: LogBounds
    unread_from: int
    unread: str = ""
    aborted: Mapping[int, KafkaRecord] = field(default_factory=dict)
    producers: Mapping[int, int] = field(default_factory=dict)

    def absence(self, offset: int) -> AbsenceReason:
        """Return why there is no record at an offset of the range."""
        bounds = self.bounds
        if bounds.start < 0 or (self.unread and offset >= self.unread_from):
            return AbsenceReason.UNREAD
        if offset < bounds.start:
            return AbsenceReason.DELETED
        if offset >= bounds.high:
            return AbsenceReason.BEYOND
        return AbsenceReason.UNSTABLE if offset >= bounds.stable else AbsenceReason.NONE


class ContentReader:
    """Reads records of one cluster; a context manager that disconnects at the end.

    Args:
        cluster: the cluster, with its consumer properties, or how to connect to it.

    Attributes:
        bounds: bounds of each log at its last reading.
    """

    def __init__(self, cluster: Cluster | ConsumerOptions) -> None:
        self._fetcher = Fetcher(cluster)
        self.bounds: dict[Partition, LogBounds] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Disconnect."""
        self._fetcher.close()

    def next_records(self, where: Collection[Where], timeout: float) -> dict[Where, Answer]:
        """Return the first committed record at or after each position.

        Args:
            where: topic, partition and offset. Thousands are fine; all records found stay in
                memory.
            timeout: seconds; a position not read by then is an ``UnreadableReason``.

        Returns:
            For each position its record, None if there is none up to the last stable offset, or an
            ``UnreadableReason``: the offset is below the log start offset or above the high
            watermark, the topic or partition does not exist or may not be read, a batch is corrupt,
            or the timeout expired.

        Raises:
            ConnectionFailed: no broker responded, or authentication failed.
            ConfigError: the client properties are not usable.
        """
        answers: dict[Where, Answer] = {at: UnreadableReason("no offset") for at in where}
        offsets: dict[Partition, set[int]] = defaultdict(set)
        for topic, number, offset in where:
            if offset >= 0:
                offsets[topic, number].add(offset)
        wants = {at: _Next(at, sorted(offsets[at]), answers) for at in sorted(offsets)}
        self._fetcher.run(wants, timeout)
        self.bounds |= {at: want.log for at, want in wants.items()}
        return answers

    def stretches(
        self,
        where: Collection[tuple[Where, int]],
        timeout: float,
        *,
        with_aborted: bool = False,
    ) -> list[RecordRange]:
        """Read ranges of offsets and return them in the given order.

        Args:
            where: ``((topic, partition, first offset), number of offsets)`` of each range.
            timeout: seconds; a range not read by then has ``unread`` set.
            with_aborted: also read the records of aborted transactions, kept separately.

        Raises:
            ConnectionFailed, ConfigError: as for :meth:`next_records`.
        """
        spans = [_Span(offset, count) for (_, _, offset), count in where]
        grouped: dict[Partition, list[_Span]] = defaultdict(list)
        for ((topic, number, _), _), span in zip(where, spans, strict=True):
            grouped[topic, number].append(span)
        wants = {at: _Spans(grouped[at], with_aborted) for at in sorted(grouped)}
        self._fetcher.run(wants, timeout, FAR_BYTES)
        return [span.read() for span in spans]


class _Next:
    """The next record at several offsets of one partition, in one pass.

    One fetch, or even one batch, serves nearby offsets.
    """

    def __init__(self, at: Partition, offsets: Iterable[int], answers: dict[Where, Answer]) -> None:
        self._at = at
        self._todo = deque(offsets)
        self._answers = answers
        self._seen = 0
        self.log = LogBounds()

    def next_offset(self) -> int | None:
        return max(self._todo[0], self._seen) if self._todo else None

    def set_bounds(self, start: int, stable: int, high: int) -> None:
        self.log = LogBounds(start, stable, high)
        while self._todo and self._todo[0] < start:
            self._answer(
                self._todo.popleft(), UnreadableReason(f"below the log start offset {start}")
            )
        while self._todo and self._todo[-1] > high:
            self._answer(self._todo.pop(), UnreadableReason(f"above the high watermark {high}"))

    def add_batch(self, batch: Batch) -> None:
        if batch.last_offset < self._todo[0]:
            return
        records = decode_records(batch, self._todo[0])
        kind = timestamp_type(batch)
        made: dict[int, KafkaRecord] = {}
        while self._todo:
            row = int(np.searchsorted(records.offsets, self._todo[0]))
            if row == len(records):
                return
            if row not in made:
                made[row] = record_at(records, row, kind)
            self._answer(self._todo.popleft(), made[row])

    def add_aborted_batch(self, batch: Batch) -> None:
        """Ignore it: a record of an aborted transaction is never the next record."""

    def advance(self, offset: int) -> None:
        self._seen = max(self._seen, offset)

    def finish(self) -> None:
        self._rest(None)

    def refuse(self, reason: str) -> None:
        self._rest(UnreadableReason(reason))

    def _rest(self, answer: Answer) -> None:
        while self._todo:
            self._answer(self._todo.popleft(), answer)

    def _answer(self, offset: int, answer: Answer) -> None:
        self._answers[(*self._at, offset)] = answer


@dataclass(slots=True)
class _Span:
    """One range while it is being read."""

    first: int
    count: int
    records: dict[int, KafkaRecord] = field(default_factory=dict)
    aborted: dict[int, KafkaRecord] = field(default_factory=dict)
    producers: dict[int, int] = field(default_factory=dict)
    log: LogBounds = LogBounds()
    unread_from: int = 0
    unread: str = ""

    @property
    def end(self) -> int:
        return self.first + self.count

    def read(self) -> RecordRange:
        return RecordRange(
            self.first,
            self.count,
            self.records,
            self.log,
            self.unread_from,
            self.unread,
            self.aborted,
            self.producers,
        )


class _Spans:
    """The ranges of one partition, read in one pass; they may overlap."""

    def __init__(self, spans: Iterable[_Span], with_aborted: bool) -> None:
        self._todo = sorted(spans, key=lambda span: span.first)
        self._with_aborted = with_aborted
        self._seen = 0

    def next_offset(self) -> int | None:
        return max(self._todo[0].first, self._seen) if self._todo else None

    def set_bounds(self, start: int, stable: int, high: int) -> None:
        for span in self._todo:
            span.log = LogBounds(start, stable, high)
        self.advance(start)
        self._todo = [span for span in self._todo if span.first < high]

    def add_batch(self, batch: Batch) -> None:
        for span, records in self._of(batch):
            span.records |= records
            span.producers |= dict.fromkeys(records, batch.producer_id)

    def add_aborted_batch(self, batch: Batch) -> None:
        if self._with_aborted:
            for span, records in self._of(batch):
                span.aborted |= records

    def _of(self, batch: Batch) -> Iterator[tuple[_Span, dict[int, KafkaRecord]]]:
        """Yield each range with the records that a batch contributes to it."""
        wanted = [span for span in self._todo if span.first <= batch.last_offset]
        if not wanted:
            return
        # A batch may begin before the log start offset.
        records = decode_records(batch, max(wanted[0].first, self._seen))
        kind = timestamp_type(batch)
        offsets = records.offsets
        end = int(np.searchsorted(offsets, max(span.end for span in wanted)))
        made = {int(offsets[row]): record_at(records, row, kind) for row in range(end)}
        for span in wanted:
            yield span, {at: one for at, one in made.items() if span.first <= at < span.end}

    def advance(self, offset: int) -> None:
        self._seen = max(self._seen, offset)
        self._todo = [span for span in self._todo if span.end > self._seen]

    def finish(self) -> None:
        self._todo = []

    def refuse(self, reason: str) -> None:
        for span in self._todo:
            span.unread_from, span.unread = max(span.first, self._seen), reason
        self._todo = []
