"""The mappings of one pipeline, read from the mapping topic into columns."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from confluent_kafka.admin import OffsetSpec

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.ranges import Ranges, columns_of
from k2ktui.engine.replica import TargetPartition
from k2ktui.engine.state import (
    MalformedRecord,
    Position,
    SourcePartition,
    read_mapping_record,
)
from k2ktui.engine.state import Mapping as OffsetMapping
from k2ktui.kafka.clients import Cluster, TopicDescription
from k2ktui.kafka.logread import stable_ends

_LATE_S, _LATE_POLL_S = 3.0, 0.05


@dataclass(frozen=True, slots=True)
class MappingReport:
    """What reading found.

    Attributes:
        malformed_count: records that could not be read, so far.
        behind: whether mappings may exist that could not be read yet.
        rivals: source partitions that several pipelines map, with all their names.
    """

    malformed_count: int = 0
    behind: bool = False
    rivals: Mapping[SourcePartition, tuple[str, ...]] = field(default_factory=dict)


@dataclass(slots=True)
class _Track:
    """One source partition: its ranges, and what is in doubt."""

    lanes: dict[TargetPartition, Ranges] = field(default_factory=dict)
    term: int = 0
    end: int = 0
    first: int | None = None
    doubtful: bool = False
    holes: list[tuple[int, int]] = field(default_factory=list)


class MappingStore:
    """Reads what is new at every ``refresh``; keeps a connection until it is closed.

    Everything that the topic holds is held in memory, three numbers a range.
    ``offsetMapping.retention`` therefore bounds nothing, and changes no answer.

    Args:
        config: the pipeline.
        target: its target cluster.
    """

    def __init__(self, config: PipelineConfig, target: Cluster) -> None:
        self._enabled = config.features.offset_mapping
        self._topic = config.offset_mapping.topic
        self._pipeline = config.coordination.commit.group
        self._target = target
        self._consumer: Consumer | None = None
        self._next: dict[int, int] = {}
        self._trimmed = False
        self._malformed = 0
        self._tracks: dict[SourcePartition, _Track] = {}
        self._mappers: dict[SourcePartition, set[str]] = {}
        self._since: dict[SourcePartition, int] = {}

    def close(self) -> None:
        """Disconnect; what was read stays."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def refresh(
        self, timeout: float, positions: Mapping[SourcePartition, Position]
    ) -> MappingReport:
        """Read up to the last stable offset.

        Args:
            timeout: seconds; what could not be read by then is read the next time.
            positions: replicated positions, read before this call. Mappings that were written
                below them are waited for a moment if an open transaction holds them back.

        Raises:
            ConnectionFailed, TimedOut, Refused: as the target answers.
        """
        self._since = {source: position.since for source, position in positions.items()}
        found = self._target.describe([self._topic])[self._topic] if self._enabled else None
        if not isinstance(found, TopicDescription):
            return MappingReport()
        until = time.monotonic() + timeout
        written = self._written(found.partitions)
        late = time.monotonic() + _LATE_S
        while True:
            stable = stable_ends(self._target, self._topic, found.partitions)
            read = self._read(found.partitions, stable, until)
            held_back = any(stable.get(p, 0) < end for p, end in written.items())
            if not read or not held_back or time.monotonic() > late:
                break
            time.sleep(_LATE_POLL_S)
        rivals = {s: tuple(sorted(n)) for s, n in self._mappers.items() if len(n) > 1}
        return MappingReport(self._malformed, not read or held_back, rivals)

    def lanes(self, source: SourcePartition) -> Mapping[TargetPartition, Ranges]:
        """Return the ranges of a source partition, per target partition."""
        track = self._tracks.get(source)
        return track.lanes if track else {}

    def complete_from(self, source: SourcePartition) -> int | None:
        """Return the source offset from which on the mapping is whole, but for ``holes``.

        None: since the pipeline began. Not so once the topic's own retention has deleted records.
        """
        track = self._tracks.get(source)
        return track.first if track and self._trimmed else None

    def holes(self, source: SourcePartition) -> tuple[tuple[int, int], ...]:
        """Return source offsets ``[first, end)`` that damaged records may have mapped."""
        track = self._tracks.get(source)
        if track is None:
            return ()
        open_end = ((track.end, 1 << 62),) if track.doubtful else ()
        return (*track.holes, *open_end)

    def _written(self, partitions: int) -> dict[int, int]:
        where = [(self._topic, p) for p in range(partitions)]
        return {p: end for (_, p), end in self._target.offsets(where, OffsetSpec.latest()).items()}

    def _open(self, partitions: int) -> Consumer:
        consumer = self._target.consumer(
            **{
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 50,
                "auto.offset.reset": "earliest",
            }
        )
        where = [(self._topic, p) for p in range(partitions)]
        starts = self._target.offsets(where, OffsetSpec.earliest())
        self._next = {p: start for (_, p), start in starts.items()}
        self._trimmed = any(start > 0 for start in self._next.values())
        consumer.assign([TopicPartition(self._topic, p, OFFSET_BEGINNING) for p in self._next])
        return consumer

    def _read(self, partitions: int, stable: Mapping[int, int], until: float) -> bool:
        if self._consumer is None:
            self._consumer = self._open(partitions)
        while any(self._next.get(p, 0) < end for p, end in stable.items()):
            if time.monotonic() > until:
                return False
            for message in self._consumer.consume(10_000, 0.1):
                if message.error() is None:
                    self._take(message.key(), message.value())
            places = [TopicPartition(self._topic, p) for p in self._next]
            for at in self._consumer.position(places):
                self._next[at.partition] = max(at.offset, self._next[at.partition])
        return True

    def _take(self, key: bytes | None, value: bytes | None) -> None:
        try:
            mapping = read_mapping_record(key, value)
        except MalformedRecord:
            self._malformed += 1
            for track in self._tracks.values():
                track.doubtful = True
            return
        self._mappers.setdefault(mapping.source, set()).add(mapping.pipeline)
        if mapping.pipeline == self._pipeline:
            self._add(mapping)

    def _add(self, mapping: OffsetMapping) -> None:
        if mapping.term < self._since.get(mapping.source, 0):
            return  # of a source log that is no more
        columns = columns_of(mapping)
        if not len(columns):
            return
        track = self._tracks.setdefault(mapping.source, _Track(doubtful=self._malformed > 0))
        first = int(columns.source[0])
        if track.doubtful:
            if first > track.end:
                track.holes.append((track.end, first))
            track.doubtful = False
        track.first = first if track.first is None else min(first, track.first)
        end = int(columns.source[-1] + columns.count[-1])
        track.end = end if mapping.term > track.term else max(track.end, end)
        target = (mapping.target_topic, mapping.target_partition)
        ranges = track.lanes.setdefault(target, Ranges())
        if mapping.again:
            ranges.merge_older(columns.source, columns.target, columns.count)
        elif mapping.term > track.term:
            # A later run may have gone back: what it maps again counts from there on.
            track.term = mapping.term
            ranges.append(columns.source, columns.target, columns.count)
        else:
            # The records of one transaction come in any order.
            ranges.overlay(columns.source, columns.target, columns.count)
