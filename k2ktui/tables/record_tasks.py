"""Which source offsets a task of the table ``records`` reads; planned where the driver is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from confluent_kafka.admin import OffsetSpec

from k2ktui.engine.mapping.range_columns import (
    RangeColumns,
    clip_columns,
    subtract_columns,
)
from k2ktui.engine.mapping.replica import Replica
from k2ktui.engine.records.state import SourcePartition
from k2ktui.kafka.properties.translation import wire
from k2ktui.log.fetcher import ConsumerOptions
from k2ktui.sync.flow import Flow
from k2ktui.tables.mapping import Wanted, open_snapshots
from k2ktui.tables.records import FOREVER, CopyRanges, RecordsTask


def find_connections(flow: Flow) -> tuple[ConsumerOptions, ConsumerOptions]:
    """Return how tasks connect to source and target; contains secrets, of the consumers only."""
    return (
        ConsumerOptions(wire(flow.config.source, "consumer"), "source"),
        ConsumerOptions(wire(flow.config.target, "consumer"), "target"),
    )


def plan_records(flow: Flow, wanted: Wanted, offsets: int) -> list[RecordsTask]:
    """Return which offsets each task reads: those that the source retains of copied partitions.

    Args:
        flow: the pipeline.
        wanted: which source partitions are read.
        offsets: number of offsets of a task.

    Raises:
        ConnectionFailed, TimedOut: a cluster does not answer.
        NothingCopied: nothing has been replicated yet.
    """
    with open_snapshots(flow) as (snapshots, source, _):
        replicas = snapshots.read_mappings().replicas
        asked = [at for at in sorted(replicas) if wanted(at)]
        copies = snapshots.find_copies(dict.fromkeys(asked, (0,))).replicas
        ends = source.offsets([(at.topic, at.partition) for at in asked], OffsetSpec.latest())
    return [
        task
        for at in asked
        for task in split_offsets(at, copies[at], ends.get((at.topic, at.partition), 0), offsets)
    ]


def split_offsets(
    at: SourcePartition, replica: Replica, end: int, offsets: int
) -> Iterator[RecordsTask]:
    position = replica.position
    if position is None or replica.source_start is None:
        return
    usable = not replica.unusable_reason
    for first in range(replica.source_start, end, offsets):
        last = min(first + offsets, end)
        copies, lost = [], []
        for target, ranges in replica.target_ranges.items() if usable else ():
            columns = ranges.columns()
            present = ranges.present(FOREVER)
            copies.append(CopyRanges(target, clip_columns(present, first, last)))
            if ranges.goes_back:
                overwritten = clip_columns(columns, first, last)
                lost.append(subtract_columns(overwritten, present))
        yield RecordsTask(
            at.topic,
            at.partition,
            first,
            last,
            tuple(one for one in copies if len(one.columns)),
            _join(lost),
            position.start,
            position.offset,
            replica.known_from if usable else position.offset,
            replica.holes,
        )


def _join(parts: Sequence[RangeColumns]) -> tuple[tuple[int, int], ...]:
    return tuple(
        (first, first + count)
        for part in parts
        for first, count in zip(part.source.tolist(), part.count.tolist(), strict=True)
    )
