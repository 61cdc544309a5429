"""Republish mappings that groups still need, before the topic's retention deletes them."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from zlib import crc32

from confluent_kafka.admin import OffsetSpec

from k2ktui.engine.mapping.intervals import Span
from k2ktui.engine.mapping.log import MappingLog
from k2ktui.engine.mapping.range_columns import RangeColumns, clip_columns
from k2ktui.engine.mapping.replica import TargetPartition
from k2ktui.engine.records.state import (
    Covers,
    MappingRange,
    MappingRecord,
    Position,
    ScatteredRun,
    SourcePartition,
    mapping_key,
    mapping_value,
)
from k2ktui.kafka.admin.topics import require_topic_settings
from k2ktui.kafka.clients import Cluster, describe_readable
from k2ktui.kafka.control.keyed_writer import Entry, KeyedWriter

# The same limit as in the replication engine: a record must stay far below max.message.bytes.
_RANGES_A_RECORD = 8_000


@dataclass(frozen=True, slots=True)
class MappingExpiry:
    """When the topic's retention deletes mappings.

    Attributes:
        retention_ms: how long records stay, None for ever.
        by_size: whether ``retention.bytes`` may delete them earlier.
    """

    retention_ms: int | None
    by_size: bool = False

    def expires_at(self, written_ms: int) -> float | None:
        """Return when a record may be deleted, in epoch seconds; None: never, or not known."""
        if self.retention_ms is None or self.by_size:
            return None
        return (written_ms + self.retention_ms) / 1000

    def interval_s(self, longest: float) -> float:
        """Return the seconds between two repeats: four in the half in which a mapping is old."""
        return longest if self.retention_ms is None else min(longest, self.retention_ms / 8_000)


def read_expiry(target: Cluster, topic: str) -> MappingExpiry:
    """Read the retention of the mapping topic.

    Raises:
        Refused: the principal may not read the topic's configuration.
    """
    settings = require_topic_settings(target, [topic])[topic]
    values = {name: entry.value for name, entry in settings.items()}
    if "delete" not in values.get("cleanup.policy", "delete"):
        return MappingExpiry(None)
    retention = int(values.get("retention.ms") or -1)
    by_size = int(values.get("retention.bytes") or -1) >= 0
    return MappingExpiry(None if retention < 0 else retention, by_size)


def old_before(
    target: Cluster, topic: str, ends: Mapping[int, int], expiry: MappingExpiry
) -> dict[int, int]:
    """Return for each mapping partition the offset before which records are old.

    Old means older than half of ``retention.ms``; empty if the topic keeps its records forever.

    Args:
        target: the target cluster.
        topic: the mapping topic.
        ends: per partition, the offset to which it was read.
        expiry: retention of the topic.
    """
    if expiry.retention_ms is None:
        return {}
    half = int(time.time() * 1000) - expiry.retention_ms // 2
    where = [(topic, number) for number in ends]
    offsets = target.offsets(where, OffsetSpec.for_timestamp(half))
    return {
        number: ends[number] if offset < 0 else min(offset, ends[number])
        for (_, number), offset in offsets.items()
    }


def read_target_ends(
    target: Cluster,
    positions: Mapping[SourcePartition, Position],
    partitions: Collection[TargetPartition],
) -> dict[SourcePartition, dict[TargetPartition, int]]:
    """Return the high watermarks of the target partitions that may still have the copies.

    Left out are source partitions of which a target topic was deleted or created again, or of which
    a target partition cannot be read: whether the target has what a mapping names is unknown.

    Args:
        target: the target cluster.
        positions: the replicated positions.
        partitions: the target partitions that mappings name.
    """
    ends = target.offsets(sorted(partitions), OffsetSpec.latest()) if partitions else {}
    named = {topic for position in positions.values() for topic in position.target_topics}
    ids = {name: topic.topic_id for name, topic in describe_readable(target, named).items()}
    return {
        source: ends
        for source, position in positions.items()
        if all(
            name in ids and (not before or not ids[name] or ids[name] == before)
            for name, before in position.target_topics.items()
        )
        and (position.beyond(ends) is None or _has_ids(position, ids))
    }


def _has_ids(position: Position, ids: Mapping[str, str]) -> bool:
    """Whether ids tell that it is the same log: then what it has lost is only its end."""
    return all(before and ids[name] for name, before in position.target_topics.items())


def make_repeats(
    pipeline: str, source: SourcePartition, track: MappingLog, span: Span
) -> list[Entry]:
    """Return records that repeat the known mappings of a span of source offsets."""
    return [
        (mapping_key(record), mapping_value(record))
        for record in repeat_mappings(pipeline, source, track, span)
    ]


def write_repeats(
    target: Cluster, topic: str, partitions: int, entries: list[Entry], timeout: float
) -> None:
    """Write records to the same partitions as the replication engine does.

    Raises:
        TimedOut, ConnectionFailed: not all were acknowledged within ``timeout`` seconds.
        Refused: the principal may not write there.
    """
    writer = KeyedWriter(target, topic, timeout, partition_of=lambda key: crc32(key) % partitions)
    try:
        writer.put(entries)
    finally:
        writer.close()


def repeat_mappings(
    pipeline: str, source: SourcePartition, track: MappingLog, span: Span
) -> Iterator[MappingRecord]:
    """Yield the records that repeat the mapping of the source offsets ``[first, end)``."""
    parts: list[tuple[TargetPartition, RangeColumns | None]] = [
        (target, columns.take(slice(at, at + _RANGES_A_RECORD)))
        for target, ranges in track.target_ranges.items()
        for columns in [clip_columns(ranges.columns(), *span)]
        for at in range(0, len(columns), _RANGES_A_RECORD)
    ] or [(next(iter(track.target_ranges), ("", 0)), None)]
    for number, (target, columns) in enumerate(parts):
        yield MappingRecord(
            pipeline,
            source,
            *target,
            track.term,
            () if columns is None else _ranges(columns),
            () if columns is None else _further(columns),
            covers=Covers(*span, number, len(parts)),
            again=True,
            left_out=() if number else _left_out(track.left_out_end, span),
        )


def _left_out(end: int, span: Span) -> tuple[Span, ...]:
    """Return the last offset that came from the target; a reader needs no earlier one."""
    return ((end - 1, end),) if span[0] < end <= span[1] else ()


def _ranges(columns: RangeColumns) -> tuple[MappingRange, ...]:
    rows = columns.source.tolist(), columns.target.tolist(), columns.count.tolist()
    return tuple(MappingRange(*row) for row in zip(*rows, strict=True))


def _further(columns: RangeColumns) -> tuple[ScatteredRun, ...]:
    """Return a run for the last further record of each range that has some."""
    if columns.more is None:
        return ()
    some = columns.take(columns.more > 0)
    sources = (some.source + some.count - 1).tolist()
    targets = (some.target + some.count - 1 + some.further).tolist()
    return tuple(ScatteredRun(at, (s,)) for s, at in zip(sources, targets, strict=True))
