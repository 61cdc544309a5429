"""The newest copied records are the same on both clusters, once and in order."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np

from k2ktui.drill.checks.context import CheckContext
from k2ktui.drill.checks.copy_samples import (
    CopySample,
    add_comparison,
    add_writers,
    decide_aborted,
    decide_checksums,
    decide_counts,
    decide_order,
)
from k2ktui.drill.checks.registration import MOVES, SWITCHOVERS, check
from k2ktui.engine.compare.record import ComparisonRecord
from k2ktui.engine.drill.checks import CheckFinding, DrillKind, DrillPhase
from k2ktui.engine.mapping.opposite_copy import OppositeCopy
from k2ktui.engine.mapping.range_columns import I64, Flags, RangeColumns
from k2ktui.engine.mapping.ranges import MappingRanges
from k2ktui.engine.mapping.replica import Replica, TargetPartition
from k2ktui.engine.mapping.strange_records import OtherWriters
from k2ktui.engine.records.state import SourcePartition
from k2ktui.kafka.clients import Cluster
from k2ktui.log.content import (
    AbsenceReason,
    ContentReader,
    KafkaRecord,
    RecordPart,
    RecordRange,
    content_digest,
)
from k2ktui.sync.flow import FlowKind
from k2ktui.sync.mapping.strange_reader import expected_writers, read_strange
from k2ktui.sync.store import PipelineState, StateStore
from k2ktui.sync.verify.changed_records import ignored_parts, leaves_records_out
from k2ktui.sync.verify.record_comparison import Compaction

# Offsets read for each record that is compared, at most: gaps in the log cost reading time too.
_OFFSETS_PER_RECORD = 5


@dataclass(frozen=True, slots=True)
class Stretch:
    """The newest copied offsets of a source partition, and where they landed.

    ``pairs`` is empty if records scatter over several target partitions, or have no whole mapping.
    """

    source: SourcePartition
    low: int
    high: int
    target: TargetPartition
    target_low: int
    target_high: int
    pairs: Mapping[int, int]


def newest_stretch(source: SourcePartition, replica: Replica, records: int) -> Stretch | None:
    """Return the newest copied offsets of a partition, with about so many mapped records."""
    position = replica.position
    if position is None or replica.anchors is not None or replica.unusable_reason:
        return None
    if len(replica.target_ranges) != 1:
        return None
    ((target, ranges),) = replica.target_ranges.items()
    if not len(ranges):
        return None
    columns = ranges.columns()
    total = np.cumsum(columns.count[::-1])[::-1]
    row = int(np.searchsorted(-total, -records))
    row = min(row, len(columns) - 1)
    low = int(columns.source[row]) + max(0, int(columns.count[row]) - records)
    low = max(low, position.offset - _OFFSETS_PER_RECORD * records)
    low = max(low, replica.known_from, replica.held_from)
    low = max([low, *(end for _, end in replica.holes)])
    # The mapping is read after the position, while the pipeline copies.
    pairs = {at: to for at, to in _pairs_from(columns, low).items() if at < position.offset}
    if not pairs:
        return None
    landed = pairs.values()
    return Stretch(source, low, position.offset, target, min(landed), max(landed) + 1, pairs)


def _pairs_from(columns: RangeColumns, low: int) -> dict[int, int]:
    targets: dict[int, int] = {}
    # There may be millions of ranges; only the last ones end after ``low``.
    first = int(np.searchsorted(columns.source + columns.count, low, side="right"))
    rows = zip(
        columns.source[first:].tolist(),
        columns.target[first:].tolist(),
        columns.count[first:].tolist(),
        strict=True,
    )
    for source, target, count in rows:
        for step in range(max(0, low - source), count):
            targets[source + step] = target + step
    return targets


def read_samples(context: CheckContext) -> Sequence[CopySample]:
    """Read the newest copied records of some partitions, on both clusters if they answer."""
    snapshot, limits = context.snapshot(), context.limits
    replicas = snapshot.replicas
    newest = [newest_stretch(at, replicas[at], limits.records) for at in sorted(replicas)]
    stretches = [stretch for stretch in newest if stretch is not None]
    step = max(1, -(-len(stretches) // limits.partitions))
    chosen = stretches[::step]
    down = context.down("source")
    target, source = context.cluster("target"), None if down else context.cluster("source")

    def read() -> list[CopySample]:
        seconds = limits.reading_s / 3
        on_target = _read_target(target, chosen, seconds)
        on_source = _read_source(source, chosen, seconds) if source else [None] * len(chosen)
        compacted = [Compaction(cluster) for cluster in (target, source) if cluster is not None]
        return [
            _sample(
                stretch,
                left,
                right,
                (replicas, snapshot.opposite),
                ignored_parts(context.config, stretch.source.topic),
                compacted,
                down.message if down else "",
                only_mapped=leaves_records_out(context.config, stretch.source.topic),
            )
            for stretch, left, right in zip(chosen, on_source, on_target, strict=True)
        ]

    return context.read("the newest copied records", read)


def _read_target(
    cluster: Cluster, stretches: Sequence[Stretch], seconds: float
) -> list[RecordRange]:
    with ContentReader(cluster) as reader:
        return reader.stretches(
            [((*s.target, s.target_low), s.target_high - s.target_low) for s in stretches], seconds
        )


def _read_source(
    cluster: Cluster, stretches: Sequence[Stretch], seconds: float
) -> list[RecordRange | None]:
    with ContentReader(cluster) as reader:
        return list(
            reader.stretches(
                [((s.source.topic, s.source.partition, s.low), s.high - s.low) for s in stretches],
                seconds,
                with_aborted=True,
            )
        )


def _sample(
    stretch: Stretch,
    source_range: RecordRange | None,
    target_range: RecordRange,
    copies: tuple[Mapping[SourcePartition, Replica], Mapping[TargetPartition, OppositeCopy]],
    ignore: Collection[RecordPart],
    compacted: Sequence[Compaction],
    down: str,
    *,
    only_mapped: bool,
) -> CopySample:
    replicas, opposite = copies
    start = source_range.bounds.start if source_range is not None else 0
    # Records that the source's retention has deleted meanwhile are not compared.
    pairs = {offset: at for offset, at in stretch.pairs.items() if offset >= start}
    names = (stretch.target[0], stretch.source.topic)
    records = source_range.records if source_range is not None else {}
    if only_mapped:
        records = {offset: record for offset, record in records.items() if offset in pairs}
    returned: frozenset[int] = frozenset()
    if source_range is not None and opposite and not down:
        returned, down = _find_returned(stretch, source_range, opposite.values())
    records = _without(records, returned)
    return CopySample(
        source=stretch.source,
        target=stretch.target,
        pairs=pairs,
        source_digests=_digests(records, ignore),
        aborted=frozenset(source_range.aborted) if source_range is not None else frozenset(),
        target_digests=_digests(target_range.records, ignore),
        foreign=_foreign(stretch, target_range, replicas),
        compacted=any(changes.may(name) for changes, name in zip(compacted, names, strict=False)),
        unread=(
            down or ("" if source_range is None else _unread(source_range)),
            _unread(target_range),
        ),
    )


def _find_returned(
    stretch: Stretch, here: RecordRange, opposite: Iterable[OppositeCopy]
) -> tuple[frozenset[int], str]:
    """Return the source offsets of records that came from the target, which are not copied back.

    Also returns why it is unknown whether others did; "" if it is known.
    """
    unmapped = np.array(sorted(here.records.keys() - stretch.pairs.keys()), dtype=np.int64)
    known = np.zeros(len(unmapped), dtype=np.bool_)
    unclear = ""
    for copy in opposite:
        replica = copy.replica
        ranges = replica.target_ranges.get((stretch.source.topic, stretch.source.partition))
        if replica.unusable_reason or (ranges is not None and replica.held_from):
            unclear = replica.unusable_reason or "the opposite pipeline's mapping is not in memory"
        if ranges is not None and len(ranges):
            known |= _are_mapped(unmapped, ranges)
    return frozenset(unmapped[known].tolist()), unclear if not known.all() else ""


def _without(
    records: Mapping[int, KafkaRecord], offsets: Collection[int]
) -> Mapping[int, KafkaRecord]:
    return {at: record for at, record in records.items() if at not in offsets}


def _are_mapped(offsets: I64, ranges: MappingRanges) -> Flags:
    """Return whether each target offset has a copied record."""
    columns = ranges.columns()
    order = np.argsort(columns.target)
    begins = columns.target[order]
    ends = (columns.target + columns.count + columns.further)[order]
    row = np.searchsorted(begins, offsets, side="right") - 1
    return np.asarray((row >= 0) & (offsets < ends[np.maximum(row, 0)]), dtype=np.bool_)


def _digests(records: Mapping[int, KafkaRecord], ignore: Collection[RecordPart]) -> dict[int, str]:
    return {offset: content_digest(record, ignore) for offset, record in records.items()}


def _unread(records: RecordRange) -> str:
    if records.bounds.start < 0:
        return records.unread or str(AbsenceReason.UNREAD)
    return records.unread


def _foreign(
    stretch: Stretch, target_range: RecordRange, replicas: Mapping[SourcePartition, Replica]
) -> tuple[int, ...]:
    """Return the offsets of records of the stretch that no source partition's mapping names."""
    offsets = np.array(sorted(target_range.records), dtype=np.int64)
    known = np.zeros(len(offsets), dtype=np.bool_)
    for at, replica in replicas.items():
        ranges = replica.target_ranges.get(stretch.target)
        if ranges is None or not len(ranges):
            continue
        if at != stretch.source and (replica.held_from or replica.anchors is not None):
            return ()  # not all of its mapping is in memory
        known |= _are_mapped(offsets, ranges)
    return tuple(offsets[~known].tolist())


@check(
    "D35",
    "record counts",
    {DrillPhase.CONTENT: {DrillKind.REHEARSE}, DrillPhase.VERIFY: SWITCHOVERS},
    blocks=SWITCHOVERS,
)
def check_counts(context: CheckContext) -> CheckFinding:
    """Pass if the newest copied offsets hold as many records on the target as on the source."""
    return decide_counts(read_samples(context))


@check(
    "D36",
    "checksums",
    {DrillPhase.CONTENT: {DrillKind.REHEARSE}, DrillPhase.VERIFY: SWITCHOVERS},
    blocks=SWITCHOVERS,
)
def check_checksums(context: CheckContext) -> CheckFinding:
    """Pass if the checksum of the newest copied records is the same on both clusters.

    The last comparison of all records counts, too: it fails the check if it has found a
    difference.
    """
    return add_comparison(decide_checksums(read_samples(context)), _last_comparison(context))


def _last_comparison(context: CheckContext) -> ComparisonRecord | None:
    """Return the last comparison of all records, if anything follows from it.

    One without differences proves nothing any more once D36 has failed. One with differences counts
    until the next comparison: without that, to run a drill again would hide them.
    """
    cluster = context.cluster("target")

    def read() -> PipelineState:
        with closing(StateStore(context.config, cluster)) as store:
            return store.read()

    state = context.read("the last comparison", read)
    comparison = state.comparison
    clusters = context.cluster_id("source"), context.cluster_id("target")
    if comparison is None or clusters != (comparison.source_cluster, comparison.target_cluster):
        return None
    failed_ms = max(
        (
            check.at_ms or drill.ended_ms or drill.started_ms
            for drill in state.drills.values()
            for check in drill.checks
            if check.failed and check.id == "D36"
        ),
        default=0,
    )
    return comparison if comparison.differences or comparison.at_ms > failed_ms else None


@check(
    "D37",
    "duplicates and order",
    {DrillPhase.CONTENT: {DrillKind.REHEARSE}, DrillPhase.VERIFY: MOVES},
)
def check_order(context: CheckContext) -> CheckFinding:
    """Pass if the target has the newest copied records once and in source order, and no copy has
    records of other writers.
    """
    others = bool(expected_writers(context.config))
    sampled = decide_order(read_samples(context), others_write=others)
    return add_writers(sampled, _read_writers(context))


def _read_writers(context: CheckContext) -> OtherWriters | None:
    """Return who has written to the copies; None where another program copies."""
    flow = context.flow
    if flow.pipeline is None:
        return None
    target, replicas = context.cluster("target"), context.snapshot().replicas
    only = flow.kind is FlowKind.SOME_TOPICS
    return context.read(
        "who has written to the copies",
        lambda: read_strange(context.config, target, replicas, some_topics=only),
    )


@check(
    "D38",
    "aborted records",
    {DrillPhase.CONTENT: {DrillKind.REHEARSE}, DrillPhase.VERIFY: SWITCHOVERS},
    blocks=SWITCHOVERS,
)
def check_aborted(context: CheckContext) -> CheckFinding:
    """Pass if no record of an aborted transaction on the source is mapped to the target."""
    return decide_aborted(read_samples(context))
