"""Republish mappings that groups still need, before the topic's retention deletes them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
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
    ScatteredRun,
    SourcePartition,
    mapping_key,
    mapping_value,
)
from k2ktui.kafka.admin.topics import require_topic_settings
from k2ktui.kafka.clients import Cluster
from k2ktui.kafka.control.keyed_writer import Entry, KeyedWriter

# The same limit as in the replication engine: a record must stay far below max.message.bytes.
_RANGES_A_RECORD = 8_000


def old_before(target: Cluster, topic: str, ends: Mapping[int, int]) -> dict[int, int]:
    """Return for each mapping partition the offset before which records are old.

    Old means older than half of ``retention.ms``; empty if the topic keeps its records forever.

    Args:
        target: the target cluster.
        topic: the mapping topic.
        ends: per partition, the offset to which it was read.

    Raises:
        Refused: the principal may not read the topic's configuration.
    """
    entry = require_topic_settings(target, [topic])[topic].get("retention.ms")
    retention = int(entry.value) if entry and entry.value else -1
    if retention < 0:
        return {}
    half = int(time.time() * 1000) - retention // 2
    where = [(topic, number) for number in ends]
    offsets = target.offsets(where, OffsetSpec.for_timestamp(half))
    return {
        number: ends[number] if offset < 0 else min(offset, ends[number])
        for (_, number), offset in offsets.items()
    }


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
