"""The status of a pipeline, read from both clusters; needs no running job and changes nothing.

If the source is unreachable, the status has only the target's data: positions, mappings and their
age.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, IsolationLevel, TopicPartition
from confluent_kafka.admin import OffsetSpec

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.state import (
    MalformedRecord,
    Position,
    SourcePartition,
    read_mapping_key,
    read_mapping_record,
)
from k2ktui.engine.status import HeldBack, PartitionStatus, coverage, state_of, with_held_back
from k2ktui.errors import ConnectionFailed, K2kError, TimedOut
from k2ktui.kafka.clients import (
    Cluster,
    Partition,
    TopicDescription,
    source_cluster,
    target_cluster,
)
from k2ktui.kafka.control_reader import require_offsets, stable_ends
from k2ktui.replication.commit_state import read_commit_state
from k2ktui.replication.held_back import HeldBackReader
from k2ktui.replication.naming import target_name
from k2ktui.replication.pipeline import commit_topic
from k2ktui.replication.record_times import RecordTimeReader
from k2ktui.replication.routing import choose_path

_READ_S = 20.0
_AGE_S = 1.5


@dataclass(frozen=True, slots=True)
class Status:
    """The status of a pipeline at one moment; ``taken_at`` is epoch seconds.

    ``source_error`` is why the source could not be read; None if it answered.
    """

    pipeline: str
    taken_at: float
    partitions: tuple[PartitionStatus, ...]
    source_error: K2kError | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the object that ``k2ktui status --json`` prints."""
        return {
            "pipeline": self.pipeline,
            "taken_at": self.taken_at,
            "source_down": self.source_error.message if self.source_error else "",
            "partitions": [asdict(partition) for partition in self.partitions],
        }


@dataclass(slots=True)
class _Mapped:
    records: int = 0
    first: int | None = None


@dataclass(frozen=True, slots=True)
class _SourceLogs:
    """The source's topics and offsets; empty if it did not answer."""

    topics: Mapping[str, TopicDescription] = field(default_factory=dict)
    starts: Mapping[Partition, int] = field(default_factory=dict)
    ends: Mapping[Partition, int] = field(default_factory=dict)
    ages: Mapping[SourcePartition, float] = field(default_factory=dict)
    high: Mapping[Partition, int] = field(default_factory=dict)
    held: Mapping[Partition, HeldBack] = field(default_factory=dict)


class StatusReader:
    """Takes status snapshots; reads the mapping topic incrementally between them."""

    def __init__(self, config: PipelineConfig) -> None:
        self._config = config
        self._source = source_cluster(config)
        self._target = target_cluster(config)
        self._peek = RecordTimeReader(self._source)
        self._held_back = HeldBackReader(self._source)
        self._mappings = _MappingCounter(config, self._target)

    def snapshot(self) -> Status:
        """Read the state of every selected partition now.

        Raises:
            ConnectionFailed, TimedOut: the target did not answer.
        """
        # Read both clusters concurrently, so that an unreachable source costs no extra time.
        with ThreadPoolExecutor(1) as pool:
            names = pool.submit(self._source.topic_names)
            positions = self._positions()
        source, error = _SourceLogs(), None
        try:
            source = self._source_logs(names.result(), positions)
        except (ConnectionFailed, TimedOut) as failed:
            error = failed
        rows = [
            SourcePartition(n, p) for n, t in source.topics.items() for p in range(t.partitions)
        ]
        if error is not None:
            rows = sorted(positions)
        mapped = self._mappings.read()
        target_ends = self._target_ends(positions)
        found = [self._row(s, source, positions.get(s), mapped, target_ends) for s in rows]
        return Status(self._config.name, time.time(), tuple(found), error)

    def close(self) -> None:
        """Close the connections."""
        self._peek.close()
        self._mappings.close()

    def _positions(self) -> Mapping[SourcePartition, Position]:
        name = self._config.coordination.commit.topic
        found = self._target.find(name)
        if found is None:
            return {}  # the pipeline was never started
        topic = commit_topic(self._config, found.partitions)
        return read_commit_state(self._target, topic, _READ_S).positions

    def _source_logs(
        self, names: Collection[str], positions: Mapping[SourcePartition, Position]
    ) -> _SourceLogs:
        chosen = {n for n in names if self._config.topics.matches(n)}
        found = self._source.describe(sorted(chosen | {s.topic for s in positions}))
        topics = {n: t for n, t in sorted(found.items()) if isinstance(t, TopicDescription)}
        where = [(n, p) for n, t in topics.items() for p in range(t.partitions)]
        starts = self._source.offsets(where, OffsetSpec.earliest())
        high = self._source.offsets(where, OffsetSpec.latest())
        ends = self._source.offsets(where, OffsetSpec.latest(), IsolationLevel.READ_COMMITTED)
        held = self._held_back.read(high, ends)
        ages = _ages(self._peek, positions, starts, ends)
        return _SourceLogs(topics, starts, ends, ages, high, held)

    def _target_ends(self, positions: Mapping[SourcePartition, Position]) -> dict[Partition, int]:
        wanted = {(p.target_topic, p.target_partition) for p in positions.values()}
        existing = self._target.describe(sorted({name for name, _ in wanted}))
        where = [
            (name, partition)
            for name, partition in wanted
            if partition is not None and isinstance(existing.get(name), TopicDescription)
        ]
        return self._target.offsets(where, OffsetSpec.latest(), IsolationLevel.READ_COMMITTED)

    def _row(
        self,
        source: SourcePartition,
        logs: _SourceLogs,
        position: Position | None,
        mapped: Mapping[SourcePartition, _Mapped],
        target_ends: Mapping[Partition, int],
    ) -> PartitionStatus:
        at = (source.topic, source.partition)
        start, end = logs.starts.get(at), logs.ends.get(at)
        about = logs.topics.get(source.topic)
        topic, partition = _target(self._config, source, position)
        lag = None if position is None or end is None else max(0, end - position.offset)
        counted = mapped.get(source, _Mapped())
        status = PartitionStatus(
            topic=source.topic,
            partition=source.partition,
            state=state_of(position, start, end, about.topic_id if about else ""),
            path=str(choose_path(self._config).path),
            source_start=start,
            source_end=end,
            position=position.offset if position else None,
            lag_records=lag,
            lag_seconds=0.0 if lag == 0 else logs.ages.get(source),
            target_topic=topic,
            target_partition=partition,
            target_end=target_ends.get((topic, partition)) if partition is not None else None,
            mapped_records=counted.records,
            coverage=coverage(position, start, end, counted.first)
            if self._config.features.offset_mapping
            else 0.0,
            copied_at=position.at_ms / 1000 if position and position.at_ms else None,
        )
        return with_held_back(status, logs.high.get(at), logs.held.get(at))


def _target(
    config: PipelineConfig, source: SourcePartition, position: Position | None
) -> tuple[str, int | None]:
    """Return a partition's actual or planned target; the name is empty if the topic is refused."""
    if position is not None:
        return position.target_topic, position.target_partition
    by_key = config.replication.sink.partition == "producer"
    try:
        return target_name(config, source.topic), None if by_key else source.partition
    except K2kError:
        return "", None


class _MappingCounter:
    """Counts mapped records per source partition; each call reads only new mapping records."""

    def __init__(self, config: PipelineConfig, target: Cluster) -> None:
        self._enabled = config.features.offset_mapping
        self._topic = config.offset_mapping.topic
        self._group = config.coordination.commit.group
        self._target = target
        self._consumer: Consumer | None = None
        self._next: dict[int, int] = {}
        self._trimmed: set[int] = set()
        self._counts: dict[SourcePartition, _Mapped] = {}

    def read(self) -> Mapping[SourcePartition, _Mapped]:
        found = self._target.find(self._topic) if self._enabled else None
        if found is None:
            return {}
        ends = stable_ends(self._target, self._topic, found.partitions)
        if self._consumer is None:
            self._consumer = self._open(found.partitions)
        until = time.monotonic() + _READ_S
        while any(self._next.get(p, 0) < end for p, end in ends.items()):
            for message in self._consumer.consume(2000, 0.2):
                if message.error() is None:
                    self._count(message.partition() or 0, message.key(), message.value())
            for at in self._consumer.position([TopicPartition(self._topic, p) for p in ends]):
                self._next[at.partition] = max(at.offset, self._next.get(at.partition, 0))
            if time.monotonic() > until:
                break
        return self._counts

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def _open(self, partitions: int) -> Consumer:
        consumer = self._target.consumer(
            **{"isolation.level": "read_committed", "fetch.wait.max.ms": 50}
        )
        where = [(self._topic, p) for p in range(partitions)]
        starts = require_offsets(self._target, where, OffsetSpec.earliest())
        self._next = {p: start for (_, p), start in starts.items()}
        self._trimmed = {p for p, start in self._next.items() if start > 0}
        consumer.assign([TopicPartition(self._topic, p, OFFSET_BEGINNING) for p in self._next])
        return consumer

    def _count(self, partition: int, key: bytes | None, value: bytes | None) -> None:
        try:
            if read_mapping_key(key)[0] != self._group:
                return
            mapping = read_mapping_record(key, value)
        except MalformedRecord:
            return
        if mapping.again:
            return
        counted = self._counts.setdefault(mapping.source, _Mapped())
        counted.records += mapping.records
        if partition in self._trimmed and counted.first is None:
            counted.first = mapping.first_source


def _ages(
    peek: RecordTimeReader,
    positions: Mapping[SourcePartition, Position],
    starts: Mapping[Partition, int],
    ends: Mapping[Partition, int],
) -> dict[SourcePartition, float]:
    """Return the age in seconds of the record at each position inside the source log."""
    where = {
        (s.topic, s.partition): p.offset
        for s, p in positions.items()
        if starts.get((s.topic, s.partition), p.offset + 1)
        <= p.offset
        < ends.get((s.topic, s.partition), -1)
    }
    now = time.time()
    times = peek.times(where, _AGE_S)
    return {SourcePartition(*at): max(0.0, now - written) for at, written in times.items()}
