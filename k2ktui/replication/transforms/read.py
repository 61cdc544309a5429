"""Reads a micro-batch: what the source has for the partitions of a slot, up to a limit."""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import TYPE_CHECKING

import numpy as np

from k2ktui.engine.records.state import SourcePartition
from k2ktui.engine.transforms.header_names import OriginHeader
from k2ktui.errors import ConnectionFailed
from k2ktui.kafka.wire.cluster import NotSent, OutcomeUnknown, Signal, Wire
from k2ktui.log.batch import Batch, CorruptBatch
from k2ktui.log.record import KafkaRecord
from k2ktui.log.record_columns import (
    RecordColumns,
    concatenate_columns,
    decode_columns,
    split_records,
)
from k2ktui.log.record_headers import native_rows
from k2ktui.log.records import decode_records
from k2ktui.replication.copying.batch_origins import BatchOrigins
from k2ktui.replication.copying.batch_router import codec_of
from k2ktui.replication.copying.lookups import OriginDecisions
from k2ktui.replication.copying.partition_reader import PartitionReader, ReaderState
from k2ktui.replication.copying.slot_settings import FetchSettings
from k2ktui.replication.copying.slot_task import SlotTask, SourceLogBounds
from k2ktui.replication.copying.source_fetcher import SourceFetcher
from k2ktui.replication.copying.worker import (
    BothOptions,
    known_origins,
    open_connections,
    run_connected,
)
from k2ktui.replication.transforms import rows

if TYPE_CHECKING:
    import pyarrow as pa

# A micro-batch ends when it has so many fetched bytes, or so long after its first data: later while
# the source has more or the micro-batch has only begun, as each micro-batch has a price.
_BYTES = 16 << 20
_DECODED_BYTES = 32 << 20
# Producers with a low rate write batches of a few records: decoding one alone takes as long as
# decoding hundreds of records.
_TOGETHER_BYTES = 256 << 10
_GATHER_S = 0.05
_SHORTEST_S = 0.2
_LONGEST_GATHER_S = 0.25
_LONGEST_WAIT_MS = 50
# Each response costs time, and a micro-batch is not written before it ends.
_ENOUGH_BYTES = 256 << 10
_SAMPLES = 1000


@dataclass(frozen=True, slots=True)
class ReadFacts:
    """What the task that writes needs beside the records.

    Attributes:
        states: how far each partition was read, in the order of the slot's task.
        bounds: bounds of the source logs.
        unread: why partitions were not read.
        codecs: compression of each partition's copies.
        began_at: epoch seconds.
        cpu_s: CPU time of reading.
        error: why nothing could be read; then nothing is written.
    """

    states: tuple[ReaderState, ...] = ()
    bounds: Mapping[SourcePartition, SourceLogBounds] = field(default_factory=dict)
    codecs: tuple[int, ...] = ()
    began_at: float = 0.0
    cpu_s: float = 0.0
    error: str = ""
    unread: Mapping[SourcePartition, str] = field(default_factory=dict)


def read_rows(
    task: SlotTask, options: BothOptions, layout: rows.InputLayout
) -> Iterator[pa.RecordBatch]:
    """Yield the records of a micro-batch, and last a row with its ``ReadFacts``."""
    cpu, began_at = time.process_time(), time.time()
    try:
        origins = known_origins(task, options)
        read, facts = run_connected(
            options,
            lambda to: MicroBatchReader(task, to.source, origins).run(),
            task.clusters,
        )
    except (ConnectionFailed, NotSent, OutcomeUnknown) as error:
        read, facts = (), ReadFacts(error=str(error))
    for number, records in enumerate(read):
        if records is not None:
            assignment = task.assignments[number]
            counts = [choice.partitions for choice in assignment.route.choices]
            yield from rows.input_batches(number, assignment.source, records, layout, counts)
    facts = replace(facts, began_at=began_at, cpu_s=time.process_time() - cpu)
    yield rows.facts_batch(pickle.dumps(facts), layout)


def read_samples(options: BothOptions, layout: rows.InputLayout) -> Iterator[pa.RecordBatch]:
    """Connect to the clusters, and yield records that are not written."""
    open_connections(options)
    # Spark parses what has an escaped character.
    values = (b"{}", b'{"\\u0061":0}')
    records = [KafkaRecord(at, b"{}", values[at % 2], (), 0) for at in range(_SAMPLES)]
    columns = split_records(rows.join_records(records))
    yield from rows.input_batches(0, SourcePartition("", 0), columns, layout)
    yield rows.facts_batch(b"-", layout)


class MicroBatchReader:
    """Reads one micro-batch of a slot's partitions.

    Args:
        task: the slot's task; ``policy.lap_s`` is how long it waits for data.
        source: connection to the source cluster.
        origins: what is known about the opposite pipeline's producer ids.
        longest_gather_s: seconds after the first data, while the source has more.
        shortest_s: minimum seconds of a micro-batch, unless it is full.
    """

    def __init__(
        self,
        task: SlotTask,
        source: Wire,
        origins: BatchOrigins | None,
        longest_gather_s: float = _LONGEST_GATHER_S,
        shortest_s: float = _SHORTEST_S,
    ) -> None:
        self._task = task
        self._longest_gather_s = longest_gather_s
        self._shortest_s = shortest_s
        self._readers = [PartitionReader(assignment, origins) for assignment in task.assignments]
        signal = Signal(source.loop)
        self._signal = signal
        self._decisions = OriginDecisions(source, origins, signal)
        self._fetcher = SourceFetcher(
            source,
            self._readers,
            signal,
            continue_on_loss=task.continue_on_loss,
            # A broker answers requests of a connection in order: the next micro-batch must not wait
            # for a fetch of this one.
            settings=replace(
                task.fetch,
                min_bytes=_enough_bytes(task.fetch),
                max_wait_ms=min(task.fetch.max_wait_ms, _LONGEST_WAIT_MS),
                idle_wait_ms=min(task.fetch.idle_wait_ms, _LONGEST_WAIT_MS),
                waiting_bytes=_BYTES,
            ),
        )

    async def run(self) -> tuple[tuple[RecordColumns | None, ...], ReadFacts]:
        """Read until there is enough, or the time is over.

        Returns:
            The records of each partition, None for none, and the facts but for times.

        Raises:
            ConnectionFailed: no fetch request was answered.
        """
        try:
            await self._fetch()
            if (outage := self._fetcher.outage()) is not None:
                raise outage
            codecs = tuple(codec_of(r) if r.ready else 0 for r in self._readers)
            records = self._take_all()
            states = tuple(reader.state for reader in self._readers)
            bounds, unread = self._fetcher.bounds(), self._fetcher.unread()
            return records, ReadFacts(states, bounds, codecs, unread=unread)
        finally:
            self._fetcher.close()

    async def _fetch(self) -> None:
        began = monotonic()
        end = began + self._task.policy.lap_s
        first = 0.0
        active: set[PartitionReader] = set()
        while True:
            now = monotonic()
            active |= self._fetcher.take_updated()
            self._fetcher.release(self._decisions.settle(active))
            ready = sum(reader.ready_bytes for reader in active if not reader.undecided)
            # A position that only moves over markers is worth a commit, too.
            first = first or (now if ready or any(reader.dirty for reader in active) else 0.0)
            until = end
            if first:
                enough = max(first + _GATHER_S, began + self._shortest_s)
                more = first + self._longest_gather_s
                until = min(end, more if self._is_behind(active) else enough)
            if now >= until or ready >= _BYTES or all(self._is_done(r) for r in self._readers):
                return
            due = self._fetcher.pump(until)
            await self._signal.wait(min(due, max(0.001, until - now)))

    def _is_behind(self, active: Iterable[PartitionReader]) -> bool:
        """Return whether the source has records of these partitions that were not fetched yet."""
        bounds = self._fetcher.bounds()
        return any(
            reader.fault is None and reader.fetched < bounds[reader.source].end
            for reader in active
            if reader.source in bounds
        )

    def _is_done(self, reader: PartitionReader) -> bool:
        until = reader.assignment.until
        return reader.fault is not None or (until is not None and reader.fetched >= until)

    def _take_all(self) -> tuple[RecordColumns | None, ...]:
        """Return the records of each partition, some batches of each in turn, up to a size.

        What does not fit is read again by the next micro-batch.
        """
        taken: list[list[RecordColumns]] = [[] for _ in self._readers]
        size = 0
        waiting = list(range(len(self._readers)))
        while waiting and size < _DECODED_BYTES:
            for number in tuple(waiting):
                columns = self._take(self._readers[number])
                if columns is None:
                    waiting.remove(number)
                    continue
                taken[number].append(columns)
                size += len(columns.body)
        return tuple(concatenate_columns(parts) if parts else None for parts in taken)

    def _take(self, reader: PartitionReader) -> RecordColumns | None:
        """Return the records of the next batches, without those of the opposite pipeline."""
        if not reader.ready or reader.undecided:
            return None
        if self._task.origin is not None:
            return self._take_native(reader, self._task.origin)
        return take_columns(reader)

    def _take_native(self, reader: PartitionReader, origin: OriginHeader) -> RecordColumns | None:
        """Return the next batch's records, without those of the opposite pipeline."""
        try:
            records = decode_records(reader.ready.first, reader.handed)
            native = native_rows(records, origin)
            columns = split_records(records.take(native))
        except CorruptBatch as error:
            _stop_corrupt(reader, error)
            return None
        reader.take()
        left_out = np.delete(records.offsets, native)
        if len(left_out):
            reader.leave_out(left_out)
        return columns


def _enough_bytes(settings: FetchSettings) -> int:
    """Return the bytes that a broker waits for: less than a response has that is full."""
    full = min(settings.partition_bytes, settings.max_bytes)
    return max(settings.min_bytes, min(_ENOUGH_BYTES, full // 4))


def take_columns(reader: PartitionReader) -> RecordColumns | None:
    """Take the next batch, and small ones after it; None if it is damaged: the reader stops."""
    batches = _small_batches(reader)
    while True:
        try:
            columns = decode_columns(batches, reader.handed)
        except CorruptBatch as error:
            if len(batches) > 1:  # find the one that is damaged
                del batches[len(batches) // 2 :]
                continue
            _stop_corrupt(reader, error)
            return None
        for _ in batches:
            reader.take()
        return columns


def _small_batches(reader: PartitionReader) -> list[Batch]:
    """Return the next batch, and those after it that are decoded together with it."""
    batches: list[Batch] = []
    size = 0
    for batch in reader.ready:
        size += len(batch.view)
        if batches and size > _TOGETHER_BYTES:
            break
        batches.append(batch)
    return batches


def _stop_corrupt(reader: PartitionReader, error: CorruptBatch) -> None:
    reader.corrupt(error, reader.handed)
    reader.drop_from(reader.handed)
