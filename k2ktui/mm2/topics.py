"""What MirrorMaker 2 keeps of one flow, read from its topics and followed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from k2ktui.engine.state import SourcePartition
from k2ktui.kafka.clients import Cluster
from k2ktui.log.record import KafkaRecord
from k2ktui.mm2.flows import Flow
from k2ktui.mm2.formats import (
    Checkpoint,
    ForeignRecord,
    GroupPartition,
    OffsetSync,
    read_checkpoint,
    read_connect_offset,
    read_heartbeat,
    read_offset_sync,
)
from k2ktui.mm2.policy import HEARTBEATS
from k2ktui.mm2.topic_tail import TopicTail
from k2ktui.text import safe_text

T = TypeVar("T")

# Heartbeats of several flows come every second, and only the last one is wanted.
_BEATS = 1000


@dataclass(slots=True)
class UnreadableRecords:
    """Records of a topic that are not MirrorMaker 2's, or damaged."""

    topic: str
    count: int = 0
    example: str = ""

    def __str__(self) -> str:
        return (
            f"{self.count} records of {safe_text(self.topic)} are not MirrorMaker 2's, or damaged, "
            f"and were left out ({safe_text(self.example)})"
        )


class _Topic:
    """One topic with what could not be read of it."""

    def __init__(
        self, cluster: Cluster, topic: str, *, first_only: bool = True, back: int | None = None
    ) -> None:
        self.tail = TopicTail(cluster, topic, first_only=first_only, back=back)
        self.foreign = UnreadableRecords(topic)

    def unseen(self) -> list[str]:
        """Say that the topic was looked for and not seen."""
        if self.tail.exists:
            return []
        name = safe_text(self.tail.topic)
        return [f"there is no topic {name}, or the principal may not describe it"]

    def new(
        self, read: Callable[[bytes | None, bytes | None], T]
    ) -> Iterable[tuple[KafkaRecord, T]]:
        for record in self.tail.read():
            try:
                yield record, read(record.key, record.value)
            except ForeignRecord as error:
                self.foreign.count += 1
                self.foreign.example = f"offset {record.offset}: {error}"


@dataclass(frozen=True, slots=True)
class TimedOffsetSync:
    """An offset-sync and when its record was written, epoch milliseconds."""

    sync: OffsetSync
    at_ms: int


@dataclass(frozen=True, slots=True)
class WrittenCheckpoint:
    """A checkpoint and when its record was written, epoch milliseconds."""

    checkpoint: Checkpoint
    at_ms: int


@dataclass(slots=True)
class HeartbeatTimes:
    """When the flow was seen alive last, epoch milliseconds; None if never.

    Attributes:
        copied: written on the source and copied by the flow, as its monitoring looks at it.
        emitted: written on the target by the flow itself.
    """

    copied: int | None = None
    emitted: int | None = None

    @property
    def last(self) -> int | None:
        """The later of both."""
        return max((at for at in (self.copied, self.emitted) if at is not None), default=None)


class MirrorTopics:
    """The topics of one flow; each part is read when it is asked for.

    Args:
        flow: whose.
        source: the source cluster.
        target: the target cluster.

    Attributes:
        positions: offset of the last record copied, per source partition.
        checkpoints: the newest one of each group and target partition.
        beats: heartbeats.
    """

    def __init__(self, flow: Flow, source: Cluster, target: Cluster) -> None:
        syncs_on = source if flow.offset_syncs_side == "source" else target
        self._flow = flow
        self._syncs = _Topic(syncs_on, flow.offset_syncs_topic)
        self._positions = _Topic(target, flow.connect_offsets_topic, first_only=False)
        self._checkpoints = _Topic(target, flow.checkpoints_topic)
        self._copied = _Topic(target, flow.heartbeats_topic, back=_BEATS)
        self._emitted = _Topic(target, HEARTBEATS, back=_BEATS)
        self.positions: dict[SourcePartition, int] = {}
        self.checkpoints: dict[GroupPartition, WrittenCheckpoint] = {}
        self.beats = HeartbeatTimes()

    def close(self) -> None:
        """Disconnect."""
        for topic in self._all():
            topic.tail.close()

    def foreign(self) -> list[str]:
        """Say which records were left out so far."""
        return [str(topic.foreign) for topic in self._all() if topic.foreign.count]

    def unseen_syncs(self) -> list[str]:
        """Say that the offset-syncs topic was not seen when it was read."""
        return self._syncs.unseen()

    def unseen_checkpoints(self) -> list[str]:
        """Say that the checkpoints topic was not seen when it was read."""
        return self._checkpoints.unseen()

    def missing(self) -> list[str]:
        """Return the topics without which nothing is known of the flow, of those looked for."""
        both = (self._syncs, self._positions)
        return [topic.tail.topic for topic in both if not topic.tail.exists]

    def new_syncs(self) -> list[TimedOffsetSync]:
        """Return the offset-syncs that are new since the last call, in the order of the topic.

        Raises:
            K2kError: the topic cannot be read; so all of the following.
        """
        return [
            TimedOffsetSync(sync, record.timestamp_ms)
            for record, (_, sync) in self._syncs.new(read_offset_sync)
            if sync is not None
        ]

    def read_positions(self) -> None:
        """Bring ``positions`` up to date."""
        for _, found in self._positions.new(read_connect_offset):
            if found is None or found[0].cluster != self._flow.source:
                continue
            at, last = found
            if last is None:
                self.positions.pop(at.source, None)
            else:
                self.positions[at.source] = last

    def read_checkpoints(self) -> None:
        """Bring ``checkpoints`` up to date."""
        for record, (at, checkpoint) in self._checkpoints.new(read_checkpoint):
            if checkpoint is None:
                self.checkpoints.pop(at, None)
            else:
                self.checkpoints[at] = WrittenCheckpoint(checkpoint, record.timestamp_ms)

    def read_beats(self) -> None:
        """Bring ``beats`` up to date."""
        flow = self._flow
        for record, _ in self._copied.new(read_heartbeat):
            self.beats.copied = record.timestamp_ms
        for record, (aliases, _) in self._emitted.new(read_heartbeat):
            if aliases == (flow.source, flow.target):
                self.beats.emitted = record.timestamp_ms

    def _all(self) -> tuple[_Topic, ...]:
        return self._syncs, self._positions, self._checkpoints, self._copied, self._emitted
