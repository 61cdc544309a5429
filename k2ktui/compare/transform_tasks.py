"""Run the transform of a topic again in a Spark task, and compare what it makes with the copies.

::

    read_source ─► SQL ─► compare_copies
      Python      Spark       Python

The records of a part travel in chunks: those of a few batches, and then a row with what the other
end has to know of them (``ChunkFacts``).
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from k2ktui.compare.batches import FetchedBatch, FetchedRows
from k2ktui.compare.log_reader import LogReader, Pace
from k2ktui.compare.tasks import ComparisonTask, TaskResult, TransformedSource, compare_parts
from k2ktui.compare.transformed import TransformedBatch, TransformedRows
from k2ktui.engine.compare.log_items import I64, Absent, AbsentKind, LogItem, LogItems
from k2ktui.engine.compare.outcomes import add_digests
from k2ktui.engine.compare.parts import ComparisonPart
from k2ktui.engine.transforms.model import Transform, plan_steps
from k2ktui.errors import K2kError
from k2ktui.log.batch import Batch, CorruptBatch
from k2ktui.log.record import RecordPart, TimestampType, timestamp_type
from k2ktui.log.record_columns import RecordColumns, decode_columns
from k2ktui.replication.transforms import rows
from k2ktui.replication.transforms.read import ReadFacts
from k2ktui.replication.transforms.transformed import Transformed
from k2ktui.sync.verify.record_comparison import RecordComparison

if TYPE_CHECKING:
    import pyarrow as pa

    from k2ktui.replication.transforms.job import TransformJobs

# Decoded together; SQL is slow on few records at a time.
_CHUNK_BYTES, _CHUNK_BATCHES = 1 << 20, 256


@dataclass(frozen=True, slots=True)
class TransformTask:
    """What a Spark task compares of topics with one transform.

    Attributes:
        task: the parts.
        transform: what is run again.
        counts: numbers of partitions of the target topics that an expression chooses from, by
            source topic.
    """

    task: ComparisonTask
    transform: Transform
    counts: Mapping[str, Sequence[int | None]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ChunkFacts:
    """What the end that compares has to know of the source records before it.

    Attributes:
        part: number of the part in the task.
        absent: what the source has no record of, before the records.
        first, last: source offsets of their batches.
        offsets: source offsets of the records.
        keys: keys of the records; None if nobody asks.
        kind: who set their timestamps.
        digest: sum of the digests of their batches.
        read_bytes: bytes that were read since the facts before.
        is_last: whether the part ends here.
        error: why nothing more was read.
    """

    part: int
    absent: tuple[Absent, ...] = ()
    first: int = 0
    last: int = 0
    offsets: I64 = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    keys: tuple[bytes | None, ...] | None = None
    kind: TimestampType = TimestampType.CREATE
    digest: int = 0
    read_bytes: int = 0
    is_last: bool = False
    error: K2kError | None = None


def read_source(work: TransformTask, layout: rows.InputLayout) -> Iterator[pa.RecordBatch]:
    """Yield the source records of all parts, with facts after those of each chunk."""
    task = work.task
    pace = Pace(task.bytes_per_s)
    try:
        with LogReader(task.source, "source", pace) as source:
            for number, part in enumerate(task.parts):
                chunks = _ChunkReader(number, part)
                for columns, facts in chunks.read(source, pace):
                    if columns is not None and len(columns):
                        counts = work.counts.get(part.source.topic, ())
                        yield from rows.input_batches(0, part.source, columns, layout, counts)
                    yield rows.facts_batch(pickle.dumps(facts), layout)
    except K2kError as error:
        yield rows.facts_batch(pickle.dumps(ChunkFacts(-1, error=error)), layout)


class _ChunkReader:
    """Reads a part of the source, some batches at a time."""

    def __init__(self, number: int, part: ComparisonPart) -> None:
        self._number, self._part = number, part
        self._batches: list[FetchedBatch] = []
        self._absent: list[Absent] = []
        self._bytes = 0
        # Compaction is proven by keys.
        is_compacted = part.facts.compacted or any(span.compacted for span in part.targets)
        self._wants_keys = part.facts.keeps_keys and is_compacted

    def read(
        self, source: LogReader, pace: Pace
    ) -> Iterator[tuple[RecordColumns | None, ChunkFacts]]:
        part, before = self._part, pace.bytes
        at = part.source.topic, part.source.partition
        try:
            for item in source.read(at, part.first, part.end):
                if not isinstance(item, Absent):
                    assert isinstance(item, FetchedBatch)
                    if item.first >= part.end:
                        break
                    if not self._fits(item):
                        yield self._take()
                    self._batches.append(item)
                    continue
                if self._batches:
                    yield self._take()
                self._absent.append(item)
            if self._batches:
                yield self._take()
        except _UnreadableChunk as error:
            first = self._batches[0].first
            self._absent.append(Absent(first, first, AbsentKind.UNREAD, str(error)))
        spent = pace.bytes - before
        yield None, ChunkFacts(self._number, tuple(self._absent), read_bytes=spent, is_last=True)

    def _fits(self, item: FetchedBatch) -> bool:
        """Whether a batch goes into one chunk with those before it."""
        if not self._batches:
            return True
        size = sum(batch.size for batch in self._batches) + item.size
        same_kind = timestamp_type(item.batch) is timestamp_type(self._batches[0].batch)
        return same_kind and size <= _CHUNK_BYTES and len(self._batches) < _CHUNK_BATCHES

    def _take(self) -> tuple[RecordColumns, ChunkFacts]:
        """Return the records of the batches, and forget these.

        Raises:
            _UnreadableChunk: one of them is damaged.
        """
        part, batches = self._part, self._batches
        columns = _decode([one.batch for one in batches], part.first)
        # A batch that begins before the part is one of the part before it.
        digest = 0
        for one in batches:
            if one.first >= part.first:
                digest = add_digests(digest, one.digest())
        facts = ChunkFacts(
            self._number,
            tuple(self._absent),
            max(part.first, batches[0].first),
            batches[-1].last,
            columns.offsets,
            _keys(columns) if self._wants_keys else None,
            timestamp_type(batches[0].batch),
            digest,
        )
        self._batches, self._absent = [], []
        return columns, facts


class _UnreadableChunk(Exception):
    """A batch cannot be decoded; the text says why."""


def _decode(batches: list[Batch], first: int) -> RecordColumns:
    try:
        return decode_columns(batches, first)
    except CorruptBatch as error:
        raise _UnreadableChunk(str(error)) from error


def _keys(columns: RecordColumns) -> tuple[bytes | None, ...]:
    starts, lengths = columns.keys
    return tuple(
        None if length < 0 else columns.body[at : at + length]
        for at, length in zip(starts.tolist(), lengths.tolist(), strict=True)
    )


def run_transform(work: TransformTask, jobs: TransformJobs) -> TaskResult | K2kError:
    """Compare the parts of a task in a job of its own; an error of a cluster is returned."""

    def finish(batches: Iterator[pa.RecordBatch]) -> bytes:
        return pickle.dumps(compare_copies(work, batches))

    made = jobs.run_once(work.transform, partial(read_source, work), finish, writes=True)
    result: TaskResult | K2kError = pickle.loads(made)  # noqa: S301 - our own task wrote it
    return result


def compare_copies(work: TransformTask, batches: Iterable[pa.RecordBatch]) -> TaskResult | K2kError:
    """Compare what the transform has made of the source with the target.

    Args:
        work: the parts.
        batches: what came out of the SQL, with the columns of ``rows.OUTPUT``.
    """
    pace = Pace(work.task.bytes_per_s)
    records = RecordComparison(lambda topic: work.task.ignored.get(topic, _NOTHING))
    source = TransformedChunks(work, batches)
    try:
        results = tuple(compare_parts(work.task, pace, records, transformed=source))
        for _ in batches:  # Spark expects that all is read
            pass
    except K2kError as error:
        return error
    return TaskResult(results, pace.bytes + source.read_bytes)


_NOTHING: frozenset[RecordPart] = frozenset()


class TransformedChunks(TransformedSource):
    """The source's records of each part in turn, as the transform has made them.

    Args:
        work: the parts.
        batches: what came out of the SQL.

    Attributes:
        read_bytes: bytes of the source that were read.
    """

    def __init__(self, work: TransformTask, batches: Iterable[pa.RecordBatch]) -> None:
        self._transform = work.transform
        self._steps = plan_steps(work.transform)
        self._chunks = _split(batches)
        self.read_bytes = 0

    def items(self, number: int) -> LogItems:
        """Yield what the source has of a part, which are asked for in order.

        Raises:
            K2kError: the source could not be read, or a registry not be asked.
        """
        for transformed, facts in self._chunks:
            if isinstance(facts, ReadFacts):
                raise K2kError(facts.error)
            if facts.error is not None:
                raise facts.error
            self.read_bytes += facts.read_bytes
            if facts.part < number:
                continue  # the walk over the part before has ended early
            yield from self._chunk(transformed, facts)
            if facts.is_last:
                return

    def _chunk(self, transformed: Transformed, facts: ChunkFacts) -> Iterator[LogItem]:
        yield from facts.absent
        if not len(facts.offsets):
            return
        try:
            written = transformed.written(self._transform)
        except CorruptBatch as error:
            yield Absent(facts.first, facts.first, AbsentKind.UNREAD, str(error))
            return
        made = TransformedRows(
            facts.offsets,
            FetchedRows(written, facts.kind),
            facts.keys,
            {failure.offset: self._steps[failure.step] for failure in transformed.failures},
            stops=self._transform.on_error == "fail",
        )
        yield TransformedBatch(facts.first, facts.last, made, facts.digest)


def _split(
    batches: Iterable[pa.RecordBatch],
) -> Iterator[tuple[Transformed, ChunkFacts | ReadFacts]]:
    """Yield the rows of each chunk, and the facts after them."""
    column = rows.OUTPUT.index(rows.FACTS)
    transformed, before = Transformed(), b""
    for batch in batches:
        first = 0
        for at in np.flatnonzero(batch.column(column).is_valid().to_numpy(zero_copy_only=False)):
            row = int(at)
            transformed.extend(batch.slice(first, row - first))
            encoded, first = batch.column(column)[row].as_py(), row + 1
            if encoded != before:  # ``explode`` may have made several of this row, too
                yield transformed, pickle.loads(encoded)  # noqa: S301 - the other end wrote it
                transformed, before = Transformed(), encoded
        transformed.extend(batch.slice(first))
