"""Who writes to a log: the producers in the headers of its newest batches, with their names.

Headers have the producer id of each batch; with Kafka from 3.0 on, the coordinators tell which
transactional id has it. Nothing is created on the cluster.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from threading import Lock
from time import monotonic

from confluent_kafka.admin import OffsetSpec

from k2ktui.engine.producers import NO_ID, Partition, Producer, Writer, Writers, Written
from k2ktui.errors import K2kError
from k2ktui.kafka.admin.probe import Probe
from k2ktui.kafka.admin.transaction_state import find_transactional_ids
from k2ktui.kafka.clients import Cluster
from k2ktui.kafka.properties.translation import wire
from k2ktui.kafka.wire.cluster import NotSent, OutcomeUnknown
from k2ktui.kafka.wire.read_requests import READ_UNCOMMITTED
from k2ktui.log.batch import Batch
from k2ktui.log.fetcher import Fetcher

# Partitions that are read at once; of more, the others are read the next time.
_PARTITIONS = 50
_READ_S, _NAMES_S, _NAMES_AGAIN_S = 5.0, 3.0, 30.0


class WriterReader:
    """Reads who wrote to partitions of a cluster; keeps its connections, not thread-safe.

    Args:
        cluster: the cluster; its consumer properties read logs, its admin properties names.

    Attributes:
        served: how far the partitions were read that a broker has answered for, the last time.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster, self._fetcher = cluster, Fetcher(cluster)
        self._names: dict[int, str] = {}
        self._last: Partition = ("", -1)
        self._names_at = 0.0
        self.served: Mapping[Partition, int] = {}

    def close(self) -> None:
        """Disconnect."""
        self._fetcher.close()

    def read(self, starts: Mapping[Partition, int]) -> list[Written]:
        """Return who wrote from these offsets on, as far as one response has it.

        Nothing is returned of partitions that cannot be read.

        Raises:
            ConnectionFailed: no broker answers.
        """
        # After the last one that was read before, so that each has its turn.
        order = sorted(starts, key=lambda at: (at <= self._last, at))[:_PARTITIONS]
        self._last = order[-1] if order else ("", -1)
        asked = {at: _Headers(at, starts[at]) for at in order}
        self._fetcher.run(asked, _READ_S, isolation=READ_UNCOMMITTED)
        self.served = {at: one.reached for at, one in asked.items() if one.is_served}
        return self._name([one for headers in asked.values() for one in headers.written()])

    def _name(self, written: list[Written]) -> list[Written]:
        unknown = {one.producer.id for one in written if one.producer.is_transactional}
        unknown -= self._names.keys()
        if unknown and monotonic() >= self._names_at:
            names, is_whole = self._find_names(unknown)
            if is_whole:  # what no broker tells is asked for once only
                self._names |= dict.fromkeys(unknown, "")
            else:
                self._names_at = monotonic() + _NAMES_AGAIN_S
            self._names |= names
        return [
            replace(
                one,
                producer=replace(
                    one.producer, transactional_id=self._names.get(one.producer.id, "")
                ),
            )
            for one in written
        ]

    def _find_names(self, ids: Iterable[int]) -> tuple[dict[int, str], bool]:
        try:
            with Probe(wire(self._cluster.config, "admin"), self._cluster.label) as probe:
                probe.open(_NAMES_S)
                return probe.run(lambda w: find_transactional_ids(w, list(ids), _NAMES_S))
        except (K2kError, NotSent, OutcomeUnknown):
            return {}, False


class WriterWatch:
    """Who writes to partitions of a cluster, poll by poll; several threads may use it.

    Args:
        cluster: the cluster, which it disconnects at the end.
        look_back: offsets before the end at which the first poll begins.

    Attributes:
        writers: who has written.
        unread: the partitions that have new records, and of which none was read yet.
    """

    def __init__(self, cluster: Cluster, look_back: int = 0) -> None:
        self._cluster, self._reader, self._look_back = cluster, WriterReader(cluster), look_back
        self._ends: dict[Partition, int] = {}
        self._was_read: set[Partition] = set()
        self._lock = Lock()
        self.writers, self.unread = Writers(), frozenset[Partition]()

    def poll(self, partitions: Collection[Partition]) -> Sequence[Writer]:
        """Read what was written since the last poll, and return who has written.

        Raises:
            ConnectionFailed, TimedOut: no broker answers.
        """
        with self._lock:
            ends = self._cluster.offsets(partitions, OffsetSpec.latest())
            starts = {
                at: self._ends.get(at, max(0, end - self._look_back)) for at, end in ends.items()
            }
            moved = {at: start for at, start in starts.items() if start < ends[at]}
            self.writers.add(self._reader.read(moved), monotonic())
            # What was not read now is read with the next poll.
            self._ends |= {at: moved.get(at, end) for at, end in ends.items()}
            served = self._reader.served
            self._ends |= {at: max(ends[at], to) for at, to in served.items()}
            self._was_read |= served.keys()
            self.unread = (self.unread | moved.keys()) - self._was_read
            return self.writers.list()

    def close(self) -> None:
        """Disconnect, once the poll that runs has ended."""
        with self._lock:
            self._reader.close()
            self._cluster.disconnect()


class _Headers:
    """The headers of a partition's batches from an offset on; one response is enough."""

    def __init__(self, at: Partition, first: int) -> None:
        self._at, self._first = at, first
        self._ended, self._read, self._high = False, first, -1
        self._seen: dict[tuple[int, int], Written] = {}

    @property
    def is_served(self) -> bool:
        return self._high >= 0

    @property
    def reached(self) -> int:
        return self._read

    def next_offset(self) -> int | None:
        return None if self._ended else self._first

    def set_bounds(self, start: int, stable: int, high: int) -> None:
        self._ended, self._high = self._first >= high, high
        self._first = max(self._first, start)

    def add_batch(self, batch: Batch) -> None:
        first = max(batch.base_offset, self._first)
        self._take(batch, min(batch.count, batch.last_offset + 1 - first))

    def add_aborted_batch(self, batch: Batch) -> None:
        self.add_batch(batch)

    def add_control_batch(self, batch: Batch) -> None:
        self._take(batch, 0)

    def _take(self, batch: Batch, records: int) -> None:
        producer = Producer(
            batch.producer_id,
            batch.producer_epoch if batch.producer_id != NO_ID else NO_ID,
            batch.is_transactional,
        )
        key = producer.id, producer.epoch
        before = self._seen.get(key)
        total = records + (before.records if before else 0)
        self._seen[key] = Written(self._at, producer, total, batch.last_offset)

    def advance(self, offset: int) -> None:
        self._read = max(self._read, offset)
        self._ended = self._ended or offset > self._first

    def finish(self) -> None:
        self._ended = True

    def refuse(self, reason: str) -> None:
        self._ended = True

    def written(self) -> Iterable[Written]:
        """Return what each producer wrote."""
        is_cut = self._read < self._high
        return [replace(one, is_cut=is_cut) for one in self._seen.values()]
