"""Read the tail of a failback: records of the old source that the forward pipeline never copied.

Records that the reverse pipeline wrote there are excluded. They are recognized as the forward
pipeline does it: by registered producer ids, or by the origin header.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from time import monotonic

from confluent_kafka import IsolationLevel
from confluent_kafka.admin import OffsetSpec

from k2ktui.drill.forward import ForwardPipeline
from k2ktui.engine.drill.tail import TailPartition
from k2ktui.engine.records.cluster_pair import ClusterPair, find_ids
from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.engine.strict_json import LARGEST_MS
from k2ktui.errors import ConnectionFailed, TimedOut
from k2ktui.kafka.clients import Cluster, Partition, describe_readable
from k2ktui.kafka.properties.translation import wire
from k2ktui.kafka.wire.cluster import NotSent, OutcomeUnknown, WireClient
from k2ktui.log.batch import Batch
from k2ktui.log.fetcher import FAR_BYTES, Fetcher
from k2ktui.log.record import KafkaRecord, record_at, timestamp_type
from k2ktui.log.records import decode_records
from k2ktui.replication.copying.registration_reader import (
    RegistrationReader,
    RegistrationsUnavailable,
)
from k2ktui.replication.ownership.pipeline import read_run_pair
from k2ktui.replication.topics.directions import origin_header
from k2ktui.text import counted, safe_message, safe_text

_REGISTRATIONS_S = 30.0
_ROUND_S = 20.0
_STILL_S = 60.0
_AT_ONCE = 64
_KEYS = 3
_KEY_CHARACTERS = 40

Take = Callable[[Partition, KafkaRecord], None]
Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class TailBounds:
    """Where the tail of a partition may be.

    Attributes:
        at: the partition of the old source.
        position: the forward pipeline's position; None if it never copied the partition.
        start: log start offset.
        stable, high: last stable offset and high watermark.
    """

    at: SourcePartition
    position: Position | None
    start: int
    stable: int
    high: int

    @property
    def first(self) -> int:
        """Lowest offset that may hold a record of the tail."""
        return max(self.start, self.position.offset if self.position else 0)


def read_bounds(forward: ForwardPipeline) -> list[TailBounds]:
    """Return where the tail may be, for all partitions that the forward pipeline copies.

    Raises:
        ConnectionFailed, TimedOut: a cluster does not answer, or a partition has no leader.
        Refused: the forward pipeline has copied nothing yet.
    """
    positions = forward.read_positions()
    matches = forward.config.topics.matches
    names = {name for name in forward.source.topic_names() if matches(name)}
    names |= {at.topic for at in positions}
    topics = describe_readable(forward.source, names).values()
    where = [(topic.name, number) for topic in topics for number in range(topic.partitions)]
    starts = forward.source.offsets(where, OffsetSpec.earliest())
    stable = forward.source.offsets(where, OffsetSpec.latest(), IsolationLevel.READ_COMMITTED)
    high = forward.source.offsets(where, OffsetSpec.latest())
    unknown = [at for at in where if not (at in starts and at in stable and at in high)]
    if unknown:
        topic, number = unknown[0]
        raise ConnectionFailed(
            f"the log end of {safe_text(topic)}-{number} on the old source cannot be read",
            hint="Check that each partition has a leader.",
        )
    return [
        TailBounds(
            SourcePartition(*at),
            positions.get(SourcePartition(*at)),
            starts[at],
            stable[at],
            high[at],
        )
        for at in sorted(where)
    ]


def read_tail(
    forward: ForwardPipeline,
    bounds: Collection[TailBounds],
    progress: Progress,
    *,
    keys: bool = False,
    take: Take = lambda at, record: None,
) -> list[TailPartition]:
    """Read the records between the forward pipeline's positions and the last stable offsets.

    Args:
        forward: the forward pipeline.
        bounds: the partitions, each read up to its last stable offset.
        progress: called with how far it is.
        keys: whether to keep the first keys of each partition.
        take: called with each record, partition by partition, in order of its offset.

    Returns:
        The partitions that have such records.

    Raises:
        ConnectionFailed, TimedOut: the old source does not answer, or a partition cannot be read.
    """
    wanted = [log_bounds for log_bounds in bounds if log_bounds.first < log_bounds.stable]
    if not wanted:
        return []
    leaves_out = _Origins(forward)
    total, done = sum(log_bounds.stable - log_bounds.first for log_bounds in wanted), 0
    tails: list[TailPartition] = []
    fetcher = Fetcher(forward.source)
    try:
        for first in range(0, len(wanted), _AT_ONCE):
            some = wanted[first : first + _AT_ONCE]
            done += sum(log_bounds.stable - log_bounds.first for log_bounds in some)
            readers = [_Reader(log_bounds, leaves_out, keys, take) for log_bounds in some]
            for left in _read_all(fetcher, readers):
                progress(f"{done - left:,} of {counted(total, 'offset')} read")
            tails += [tail for reader in readers if (tail := reader.tail()) is not None]
    finally:
        fetcher.close()
    return tails


def _read_all(fetcher: Fetcher, readers: Collection[_Reader]) -> Iterator[int]:
    """Read until all are complete; yield after each round how many offsets are left."""
    moved_at, left_before = monotonic(), -1
    while True:
        rest = {reader.at: reader for reader in readers if reader.next_offset() is not None}
        left = sum(reader.end - (reader.next_offset() or 0) for reader in rest.values())
        yield left
        if not rest:
            return
        if left != left_before:
            moved_at, left_before = monotonic(), left
        elif monotonic() - moved_at > _STILL_S:
            reader = next(iter(rest.values()))
            topic, number = reader.at
            raise TimedOut(
                f"{safe_text(topic)}-{number} of the old source cannot be read from offset "
                f"{reader.next_offset()} on: {safe_message(reader.problem)}",
                unchanged="The drill stays where it is.",
                hint="Check that the partition has a leader and that the principal may read it.",
            )
        fetcher.run(rest, _ROUND_S, FAR_BYTES)


class _Origins:
    """Which records another pipeline wrote to the old source."""

    def __init__(self, forward: ForwardPipeline) -> None:
        now = ClusterPair(forward.source.cluster_id(), forward.target.cluster_id())
        pair = now.follow(read_run_pair(forward.config, forward.target, _REGISTRATIONS_S))
        self._header = origin_header(forward.config, pair)
        self._left_out = {name.encode() for name in self._header.left_out} if self._header else ()
        self._ids = _read_registrations(forward.source, forward.config.opposite.commit_topic, pair)

    def batch(self, batch: Batch) -> bool:
        """Return whether a pipeline from the forward pipeline's target wrote a batch."""
        return batch.is_transactional and batch.producer_id in self._ids

    def record(self, record: KafkaRecord) -> bool:
        """Return whether the header of a record says that it came from there."""
        if self._header is None:
            return False
        values = [value for name, value in record.headers if name == self._header.name]
        return bool(values) and values[-1] in self._left_out


def _read_registrations(source: Cluster, topic: str, pair: ClusterPair) -> frozenset[int]:
    """Return the producer ids of pipelines in the opposite direction.

    A driver registers an id before its first use: what is read now covers each batch below the
    last stable offsets that were read before.
    """
    if source.find(topic) is None:
        return frozenset()
    reader = RegistrationReader(topic)
    try:
        with WireClient(wire(source.config, "consumer"), source.label) as client:
            client.open(_REGISTRATIONS_S)
            client.run(lambda connection: reader.read(connection, _REGISTRATIONS_S))
        reader.check_known(reader.newer_ids)
    except (RegistrationsUnavailable, NotSent, OutcomeUnknown) as error:
        raise ConnectionFailed(
            f"the registered producer ids in topic {safe_text(topic)} of the old source cannot be "
            f"read: {safe_message(error)}",
            unchanged="Nothing was changed.",
            hint="Continue with the release of the pipeline that wrote them."
            if isinstance(error, RegistrationsUnavailable) and error.is_newer
            else "Grant the pipeline's source principal Read on this topic.",
        ) from error
    pairs = pair, *(run.pair for run in reader.runs.values())
    sources, targets = find_ids(pair.target, pairs), find_ids(pair.source, pairs)
    return frozenset(
        registration.producer_id
        for registration in reader.registrations.values()
        if registration.source in sources and registration.target in targets
    )


class _Reader:
    """One partition while its tail is read: a request of the fetcher, continued after a pause."""

    def __init__(self, bounds: TailBounds, leaves_out: _Origins, keys: bool, take: Take) -> None:
        self.at: Partition = bounds.at.topic, bounds.at.partition
        self.end, self.problem = bounds.stable, ""
        self._seen = bounds.first
        self._leaves_out, self._keys, self._take = leaves_out, keys, take
        self._tail: TailPartition | None = None

    def tail(self) -> TailPartition | None:
        """Return what was found; None if there is no record."""
        return self._tail

    def next_offset(self) -> int | None:
        return self._seen if self._seen < self.end else None

    def set_bounds(self, start: int, stable: int, high: int) -> None:
        self._seen = max(self._seen, start)

    def add_batch(self, batch: Batch) -> None:
        if batch.last_offset < self._seen or self._leaves_out.batch(batch):
            return
        records = decode_records(batch, self._seen)
        kind = timestamp_type(batch)
        for row in range(len(records)):
            record = record_at(records, row, kind)
            if record.offset < self.end and not self._leaves_out.record(record):
                self._add(record)

    def _add(self, record: KafkaRecord) -> None:
        self._take(self.at, record)
        keys = (_show_key(record.key),) if self._keys else ()
        at = record.timestamp_ms if 0 <= record.timestamp_ms <= LARGEST_MS else None
        one = TailPartition(*self.at, record.offset, record.offset + 1, 1, at, at, keys)
        self._tail = one if self._tail is None else _join(self._tail, one)

    def add_aborted_batch(self, batch: Batch) -> None:
        """Ignore it: its records were never committed."""

    def advance(self, offset: int) -> None:
        self._seen = max(self._seen, offset)

    def finish(self) -> None:
        self._seen = max(self._seen, self.end)

    def refuse(self, reason: str) -> None:
        self.problem = reason


def _join(tail: TailPartition, one: TailPartition) -> TailPartition:
    return replace(
        tail,
        end=one.end,
        records=tail.records + 1,
        oldest_ms=_pick(min, tail.oldest_ms, one.oldest_ms),
        newest_ms=_pick(max, tail.newest_ms, one.newest_ms),
        keys=tail.keys if len(tail.keys) >= _KEYS else (*tail.keys, *one.keys),
    )


def _pick(choose: Callable[[Iterable[int]], int], *times: int | None) -> int | None:
    known = [time for time in times if time is not None]
    return choose(known) if known else None


def _show_key(key: bytes | None) -> str:
    if key is None:
        return "null"
    return safe_text(key.decode("utf-8", "backslashreplace"), _KEY_CHARACTERS)
