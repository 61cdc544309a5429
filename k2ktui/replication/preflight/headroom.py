"""Retention headroom: how long the source keeps the records that are not yet copied."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from confluent_kafka import IsolationLevel
from confluent_kafka.admin import OffsetSpec

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.errors import K2kError
from k2ktui.kafka.admin.topics import topic_settings, value_of
from k2ktui.kafka.clients import Cluster, TopicDescription
from k2ktui.log.content import ContentReader
from k2ktui.replication.preflight.checks import Check, CheckOutcome
from k2ktui.replication.topics.record_times import read_times
from k2ktui.text import counted, first_names

NAME = "retention headroom"
_UNKNOWN_HINT = (
    "Compare the lag in k2ktui status with retention.ms and retention.bytes of these topics."
)
_HINT = (
    "Start the pipeline now, raise retention.ms on the source, or set onSourceDataLoss: continue."
)
# Headroom below the smaller of this and a tenth of the retention time is a failure.
_SHORT_S = 3600.0
_SHARE = 0.1
_TIMESTAMPS_S = 5.0


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A partition with at most ``count`` records from ``offset`` on that are not yet copied."""

    source: SourcePartition
    offset: int
    count: int


def check_headroom(
    config: PipelineConfig,
    source: Cluster,
    topics: Collection[TopicDescription],
    positions: Mapping[SourcePartition, Position],
) -> Check:
    """Check how soon the source deletes the oldest record that is not yet copied.

    Records that are already lost are a failure, except with ``onSourceDataLoss: continue``.

    Raises:
        ConnectionFailed, TimedOut: the source did not answer.
    """
    names = {topic.name for topic in topics}
    known = {at: p.offset for at, p in positions.items() if at.topic in names}
    if not known:
        return Check.passes(
            NAME, "no records copied yet: copying begins at the start position, nothing can be lost"
        )
    where = [(at.topic, at.partition) for at in known]
    starts = source.offsets(where, OffsetSpec.earliest())
    ends = source.offsets(where, OffsetSpec.latest(), IsolationLevel.READ_COMMITTED)
    lost, waiting, unasked = [], [], list[SourcePartition]()
    for at, offset in known.items():
        start, end = starts.get((at.topic, at.partition)), ends.get((at.topic, at.partition))
        if start is None or end is None:
            unasked.append(at)
            continue
        if offset < start:
            lost.append(f"{at} ({counted(start - offset, 'offset')})")
        elif offset < end:
            waiting.append(_Waiting(at, offset, end - offset))
    if lost and config.on_source_data_loss != "continue":
        return Check.fails(
            NAME,
            f"the source deleted records before they were copied: {first_names(lost)}",
            "Set onSourceDataLoss: continue to copy the remaining records (the gap is "
            "recorded), or clear the positions of those topics.",
        )
    if lost:
        return Check.passes(
            NAME,
            f"the source deleted records before they were copied: {first_names(lost)}; the gap is "
            "recorded (onSourceDataLoss: continue)",
        )
    if waiting and (judged := _judge(source, waiting)).outcome is not CheckOutcome.PASS:
        return judged
    if unasked:
        return Check.unknown(
            NAME,
            f"the log bounds of {first_names(unasked)} are unavailable: no leader, or the "
            "topic no longer exists",
            "Check the source cluster's health and the permissions on those topics.",
        )
    if waiting:
        return judged
    return Check.passes(NAME, f"{counted(len(known), 'partition')} caught up: nothing can be lost")


def _judge(source: Cluster, waiting: list[_Waiting]) -> Check:
    settings = topic_settings(source, {partition.source.topic for partition in waiting})
    timed, unbounded, reasons = [], 0, set[str]()
    for partition in waiting:
        entries = settings[partition.source.topic]
        if isinstance(entries, K2kError):
            reasons.add("this principal may not read the retention settings of all topics")
        elif "delete" not in value_of(entries, "cleanup.policy"):
            unbounded += 1
        else:
            if int(value_of(entries, "retention.bytes") or -1) >= 0:
                reasons.add("how soon retention.bytes deletes them depends on how much is written")
            retention = int(value_of(entries, "retention.ms") or -1)
            unbounded += retention < 0
            if retention >= 0:
                timed.append((partition, retention / 1000))
    stamps, untimed, copied = _timestamps(source, [partition for partition, _ in timed])
    waiting = [partition for partition in waiting if partition.source not in copied]
    timed = [
        (partition, retention) for partition, retention in timed if partition.source not in copied
    ]
    if not waiting:
        return Check.passes(NAME, "every record is copied: nothing can be lost")
    if untimed:
        # Kafka then takes the time at which the segment file was last written (LogSegment.java).
        reasons.add(
            "records without a timestamp are deleted by the age of their log segment, which is "
            f"unknown: {first_names(untimed)}"
        )
    if any(
        partition.source not in stamps and partition.source not in untimed for partition, _ in timed
    ):
        reasons.add("the age of the oldest of them could not be read")
    left = [
        (stamps[partition.source] + retention - time.time(), retention, partition)
        for partition, retention in timed
        if partition.source in stamps
    ]
    return _verdict(waiting, left, reasons)


def _verdict(
    waiting: list[_Waiting], left: list[tuple[float, float, _Waiting]], reasons: set[str]
) -> Check:
    records = counted(sum(partition.count for partition in waiting), "record")
    behind = f"at most {records} not copied in {counted(len(waiting), 'partition')}"
    why = "".join(f"; {reason}" for reason in sorted(reasons))
    if not left:
        if reasons:
            return Check.unknown(NAME, behind + why, _UNKNOWN_HINT)
        return Check.passes(NAME, f"{behind}; the source deletes no records by age")
    seconds, _, first = min(left, key=lambda remaining: remaining[0])
    when = f"the oldest, of {first_names([first.source])}, is due for deletion "
    when += f"in {format_duration(seconds)}" if seconds > 0 else "now"
    short = [partition.source for s, keep, partition in left if s < min(_SHORT_S, _SHARE * keep)]
    if short:
        text = f"{behind}; {when}; too soon: {first_names(short)}{why}"
        return replace(Check.fails(NAME, text, _HINT), cured_by_start=True)
    return (
        Check.unknown(NAME, f"{behind}; {when}{why}", _UNKNOWN_HINT)
        if reasons
        else Check.passes(NAME, f"{behind}; {when}")
    )


def _timestamps(
    source: Cluster, waiting: list[_Waiting]
) -> tuple[dict[SourcePartition, float], set[SourcePartition], set[SourcePartition]]:
    """Return the time, in epoch seconds, of each partition's first record to copy.

    Returns:
        The times, the partitions whose first record has none, and those that have no record to
        copy, only markers of transactions.
    """
    where = {(w.source.topic, w.source.partition): w.offset for w in waiting}
    with ContentReader(source) as content:
        known = read_times(content, where, _TIMESTAMPS_S)
    at_s_by_partition = {SourcePartition(*at): at_s for at, at_s in known.times.items()}
    untimed = {SourcePartition(*at) for at in known.untimed}
    return at_s_by_partition, untimed, {SourcePartition(*at) for at in known.exhausted}


def format_duration(seconds: float) -> str:
    """Return a duration in its two largest units, such as ``3 d 4 h``."""
    rest, parts = round(seconds), list[str]()
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min"), (1, "s")):
        if rest >= size or (unit == "s" and not parts):
            parts.append(f"{rest // size} {unit}")
            rest %= size
    return " ".join(parts[:2])
