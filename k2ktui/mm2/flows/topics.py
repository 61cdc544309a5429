"""Reads and follows the topics in which MirrorMaker 2 keeps the state of one flow."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from k2ktui.engine.records.state import SourcePartition
from k2ktui.kafka.clients import Cluster
from k2ktui.log.record import KafkaRecord
from k2ktui.mm2.flows.formats import (
    Checkpoint,
    ForeignRecord,
    GroupPartition,
    OffsetSync,
    read_checkpoint,
    read_connect_offset,
    read_heartbeat,
    read_offset_sync,
)
from k2ktui.mm2.flows.model import FlowProperties
from k2ktui.mm2.flows.policy import HEARTBEATS
from k2ktui.mm2.flows.topic_tail import TopicTail
from k2ktui.sync.matching.records import safe_pairs
from k2ktui.text import safe_text

log = logging.getLogger(__name__)

T = TypeVar("T")

# Only the last heartbeat is needed; several flows write one per second each, so read this many.
_BEATS = 1000
Syncs = Mapping[SourcePartition, tuple[tuple[int, int], ...]]


@dataclass(slots=True)
class UnreadableRecords:
    """Count and example of a topic's records that are unreadable or damaged."""

    topic: str
    count: int = 0
    example: str = ""

    def __str__(self) -> str:
        return (
            f"{self.count} records of {safe_text(self.topic)} are damaged or not in "
            f"MirrorMaker 2's format, and were ignored ({safe_text(self.example)})"
        )


class _Topic:
    """One topic and its unreadable records."""

    def __init__(
        self, cluster: Cluster, topic: str, *, first_only: bool = True, back: int | None = None
    ) -> None:
        self.tail = TopicTail(cluster, topic, first_only=first_only, back=back)
        self.unreadable = UnreadableRecords(topic)

    def note_unseen(self) -> list[str]:
        """Return a note if the topic was not found at the last read."""
        if self.tail.exists:
            return []
        name = safe_text(self.tail.topic)
        return [f"there is no topic {name}, or the principal may not describe it"]

    def new(
        self,
        read: Callable[[bytes | None, bytes | None], T],
        forget: Callable[[], None] | None = None,
    ) -> Iterable[tuple[KafkaRecord, T]]:
        """Yield the new records; ``forget`` is called first if the topic was created again."""
        records = self.tail.read()
        if forget is not None and self.tail.started_over:
            forget()
        for record in records:
            try:
                yield record, read(record.key, record.value)
            except ForeignRecord as error:
                if not self.unreadable.count:
                    at = self.tail.topic, record.offset
                    log.warning("%s: the record at offset %d is ignored: %s", *at, error)
                self.unreadable.count += 1
                self.unreadable.example = f"offset {record.offset}: {error}"


@dataclass(frozen=True, slots=True)
class TimedOffsetSync:
    """An offset sync and its record's timestamp in epoch milliseconds."""

    sync: OffsetSync
    at_ms: int


@dataclass(frozen=True, slots=True)
class WrittenCheckpoint:
    """A checkpoint and its record's timestamp in epoch milliseconds."""

    checkpoint: Checkpoint
    at_ms: int


@dataclass(slots=True)
class HeartbeatTimes:
    """Timestamps of the flow's last heartbeats in epoch milliseconds; None if there is none.

    Attributes:
        copied: last heartbeat written on the source and copied by the flow.
        emitted: last heartbeat written on the target by the flow itself.
    """

    copied: int | None = None
    emitted: int | None = None

    @property
    def last(self) -> int | None:
        """The later of both."""
        return max((at for at in (self.copied, self.emitted) if at is not None), default=None)


class MirrorTopics:
    """The topics of one flow; each is read on demand.

    Args:
        flow: the flow.
        source: the source cluster.
        target: the target cluster.

    Attributes:
        positions: offset of the last record copied, per source partition.
        checkpoints: the newest checkpoint of each group and target partition.
        beats: times of the last heartbeats.
    """

    def __init__(self, flow: FlowProperties, source: Cluster, target: Cluster) -> None:
        syncs_on = source if flow.offset_syncs_side == "source" else target
        self._flow = flow
        self._syncs = _Topic(syncs_on, flow.offset_syncs_topic)
        self._positions = _Topic(target, flow.connect_offsets_topic, first_only=False)
        self._checkpoints = _Topic(target, flow.checkpoints_topic)
        self._copied = _Topic(target, flow.heartbeats_topic, back=_BEATS)
        self._emitted = _Topic(target, HEARTBEATS, back=_BEATS)
        self._copied_apart = flow.heartbeats_topic != HEARTBEATS
        self.positions: dict[SourcePartition, int] = {}
        self.checkpoints: dict[GroupPartition, WrittenCheckpoint] = {}
        self.beats = HeartbeatTimes()

    def close(self) -> None:
        """Close all connections."""
        for topic in self._all():
            topic.tail.close()

    def unreadable(self) -> list[str]:
        """Return notes on the records ignored so far."""
        return [str(topic.unreadable) for topic in self._all() if topic.unreadable.count]

    def unseen_syncs(self) -> list[str]:
        """Return a note if the offset-syncs topic was not found."""
        return self._syncs.note_unseen()

    def unseen_checkpoints(self) -> list[str]:
        """Return a note if the checkpoints topic was not found."""
        return self._checkpoints.note_unseen()

    def missing(self) -> list[str]:
        """Return which of the offset-syncs and offsets topics were not found when read."""
        both = (self._syncs, self._positions)
        return [topic.tail.topic for topic in both if topic.tail.topic and not topic.tail.exists]

    def new_syncs(self) -> list[TimedOffsetSync]:
        """Return the offset syncs added since the last call, in the order of the topic.

        Raises:
            K2kError: the topic cannot be read. The other read methods raise it as well.
        """
        return [
            TimedOffsetSync(sync, record.timestamp_ms)
            for record, (_, sync) in self._syncs.new(read_offset_sync)
            if sync is not None
        ]

    def read_positions(self) -> None:
        """Update ``positions``."""
        for _, record in self._positions.new(read_connect_offset, self.positions.clear):
            if record is None or record[0].cluster != self._flow.source_alias:
                continue
            at, last = record
            if last is None:
                self.positions.pop(at.source, None)
            else:
                self.positions[at.source] = last

    def read_checkpoints(self) -> None:
        """Update ``checkpoints``."""
        new = self._checkpoints.new(read_checkpoint, self.checkpoints.clear)
        for record, (at, checkpoint) in new:
            if checkpoint is None:
                self.checkpoints.pop(at, None)
            else:
                self.checkpoints[at] = WrittenCheckpoint(checkpoint, record.timestamp_ms)

    def read_beats(self) -> None:
        """Update ``beats``."""
        flow = self._flow
        # Under one name, the heartbeats of others that come here would count as this flow's.
        for record, _ in self._copied.new(read_heartbeat) if self._copied_apart else ():
            self.beats.copied = record.timestamp_ms
        for record, (aliases, _) in self._emitted.new(read_heartbeat):
            if aliases == (flow.source_alias, flow.target_alias):
                self.beats.emitted = record.timestamp_ms

    def _all(self) -> tuple[_Topic, ...]:
        return self._syncs, self._positions, self._checkpoints, self._copied, self._emitted


def read_syncs(flow: FlowProperties, source: Cluster, target: Cluster) -> Syncs:
    """Return source and target offsets of the records in the offset syncs, by partition.

    Both increase strictly. The result is empty if the offset-syncs topic does not exist.

    Raises:
        ConnectionFailed, TimedOut, K2kError: the topic cannot be read.
    """
    topics = MirrorTopics(flow, source, target)
    known: dict[SourcePartition, dict[int, int]] = {}
    try:
        for timed in topics.new_syncs():
            add_sync(known.setdefault(timed.sync.source, {}), timed.sync)
    finally:
        topics.close()
    return {at: tuple(safe_pairs(list(pairs.items()))) for at, pairs in known.items()}


def add_sync(known: dict[int, int], sync: OffsetSync) -> None:
    """Add a sync; syncs must be added in the order of the topic.

    A lower source offset means that copying restarted there; a lower target offset means that the
    target topic was recreated.
    """
    # Neither source nor target offsets ever decrease in ``known``, so its last entry has both
    # maxima, and each sync is added and removed at most once.
    if known and sync.downstream < known[next(reversed(known))]:
        known.clear()
    while known and next(reversed(known)) >= sync.upstream:
        known.popitem()
    known[sync.upstream] = sync.downstream
