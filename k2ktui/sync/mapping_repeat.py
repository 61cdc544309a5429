"""Write mappings again before the topic's retention deletes them, while a group needs them.

A repeat says which source offsets it covers, so a reader fills in what it does not know and leaves
all else as it is. All of it that needs several records counts only when every part is there.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from zlib import crc32

from confluent_kafka.admin import OffsetSpec

from k2ktui.engine.ranges import Columns, clipped
from k2ktui.engine.replica import TargetPartition
from k2ktui.engine.spans import Span
from k2ktui.engine.state import (
    Mapping as MappingRecord,
)
from k2ktui.engine.state import (
    MappingRange,
    Repeat,
    SourcePartition,
    mapping_key,
    mapping_value,
)
from k2ktui.kafka.clients import Cluster
from k2ktui.kafka.keyed import Entry, KeyedWriter
from k2ktui.sync.mapping_partition import MappingPartition
from k2ktui.sync.mapping_track import Track

# As the writer of mappings: a record must stay well below max.message.bytes.
_RANGES_A_RECORD = 8_000
_NOWHERE: TargetPartition = ("", 0)


class Repeater:
    """Collects repeats and writes them.

    Args:
        target: the target cluster.
        topic: the mapping topic.
        pipeline: the commit group.
    """

    def __init__(self, target: Cluster, topic: str, pipeline: str) -> None:
        self._target = target
        self._topic = topic
        self._pipeline = pipeline
        self._entries: list[Entry] = []
        self._partitions = 0
        self._ranges: dict[SourcePartition, int] = {}

    def old_before(self, partitions: Mapping[int, MappingPartition]) -> dict[int, int]:
        """Return for each mapping partition the offset before which records are old.

        Old is half of ``retention.ms``; nothing if the topic keeps its records for ever.

        Raises:
            Refused: the principal may not read the topic's settings.
        """
        self._partitions = len(partitions)
        entry = self._target.topic_configs([self._topic])[self._topic].get("retention.ms")
        retention = int(entry.value) if entry and entry.value else -1
        if retention < 0 or not partitions:
            return {}
        half = int(time.time() * 1000) - retention // 2
        where = [(self._topic, number) for number in partitions]
        found = self._target.offsets(where, OffsetSpec.for_timestamp(half))
        return {
            number: partitions[number].next if offset < 0 else min(offset, partitions[number].next)
            for (_, number), offset in found.items()
        }

    def add(self, source: SourcePartition, track: Track, low: int, high: int) -> None:
        """Repeat what is known of the source offsets ``[low, high)``."""
        for span in track.known(low, high):
            for mapping in self._mappings(source, track, span):
                key = mapping_key(mapping)
                self._entries.append((key, mapping_value(mapping)))
                self._ranges[source] = self._ranges.get(source, 0) + len(mapping.ranges)

    def write(self, timeout: float) -> dict[SourcePartition, int]:
        """Write everything; return the number of ranges of each source partition.

        Raises:
            TimedOut, ConnectionFailed: not all was acknowledged within ``timeout`` seconds.
            Refused: the principal may not write there.
        """
        if self._entries:
            count = self._partitions
            writer = KeyedWriter(
                self._target, self._topic, timeout, partition_of=lambda key: crc32(key) % count
            )
            try:
                writer.put(self._entries)
            finally:
                writer.close()
        return self._ranges

    def _mappings(
        self, source: SourcePartition, track: Track, span: Span
    ) -> Iterator[MappingRecord]:
        parts = list(_parts(track, span)) or [(_NOWHERE, ())]
        for number, (target, ranges) in enumerate(parts):
            again = Repeat(*span, number, len(parts))
            yield MappingRecord(
                self._pipeline, source, *target, max(0, track.term), ranges, again=again
            )


def _parts(track: Track, span: Span) -> Iterator[tuple[TargetPartition, tuple[MappingRange, ...]]]:
    for target, ranges in track.lanes.items():
        columns = clipped(ranges.columns(), *span)
        for at in range(0, len(columns), _RANGES_A_RECORD):
            yield target, _ranges(columns, slice(at, at + _RANGES_A_RECORD))


def _ranges(columns: Columns, rows: slice) -> tuple[MappingRange, ...]:
    return tuple(
        MappingRange(*row)
        for row in zip(
            columns.source[rows].tolist(),
            columns.target[rows].tolist(),
            columns.count[rows].tolist(),
            strict=True,
        )
    )
