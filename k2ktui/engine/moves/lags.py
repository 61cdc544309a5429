"""How far consumer groups are behind the log, in records and in seconds; pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import NamedTuple

from k2ktui.engine.log_times import Partition, WrittenTimes
from k2ktui.engine.moves.groups import Finding, GroupRow
from k2ktui.engine.status import count_lag


class GroupLag(NamedTuple):
    """A lag: its records, and the age of the first of them in seconds; None is unknown.

    Attributes:
        untimed: positions with such a record whose age is not known.
    """

    records: int | None = None
    seconds: float | None = None
    untimed: int = 0


NO_LAG = GroupLag(0, 0.0)
# A producer whose clock is wrong by more has given its record a time that says nothing.
_AHEAD_S = 60.0


@dataclass(frozen=True, slots=True)
class ReadLogs:
    """What lags are measured against.

    Attributes:
        ends: last stable offsets of source partitions.
        target_ends: the same of target partitions, for groups that a failover has moved there.
        written: when the records at committed offsets were written.
        at: when the groups' offsets were read, in epoch seconds.
        high: high watermarks of source partitions, up to which groups may read.
    """

    ends: Mapping[Partition, int] = field(default_factory=dict)
    target_ends: Mapping[Partition, int] = field(default_factory=dict)
    written: WrittenTimes = field(default_factory=dict)
    at: float = 0.0
    high: Mapping[Partition, int] = field(default_factory=dict)


NO_LOGS = ReadLogs()


def measure_lags(rows: Iterable[GroupRow], logs: ReadLogs) -> list[GroupLag]:
    """Return the lag of each group-partition."""
    return [_measure(row, logs) for row in rows]


def _measure(row: GroupRow, logs: ReadLogs) -> GroupLag:
    if row.finding is Finding.MOVED:
        number = row.target_partition
        end = None if number is None else logs.target_ends.get((row.target_topic, number))
        records = count_lag(row.target_offset, end)
        return NO_LAG if records == 0 else GroupLag(records)
    where, offset = (row.topic, row.partition), row.source_offset
    records = count_lag(offset, logs.ends.get(where))
    if offset is None or records is None or offset > logs.high.get(where, offset):
        return GroupLag()  # ahead of the log's end, it is no position in this log
    if not records:
        return NO_LAG
    written = logs.written.get(where, {}).get(offset)
    if written is None or math.isnan(written) or _AHEAD_S < written - logs.at < math.inf:
        return GroupLag(records, None, 1)
    # Read after the commits, the log may have the record that the group had not yet seen.
    return GroupLag(records, max(0.0, logs.at - written))


def with_lags(rows: Sequence[GroupRow], logs: ReadLogs) -> list[GroupRow]:
    """Return group-partitions with their lags, without trends."""
    return [
        replace(row, lag_records=lag.records, lag_s=lag.seconds)
        for row, lag in zip(rows, measure_lags(rows, logs), strict=True)
    ]


def sum_group_lags(rows: Sequence[GroupRow], lags: Sequence[GroupLag]) -> dict[str, GroupLag]:
    """Return the lag of each group: the records of all its positions, and the oldest of them.

    The records are unknown if those of any position are. Rows are sorted by group.
    """
    pairs = zip(rows, lags, strict=True)
    return {group: _sum(of) for group, of in groupby(pairs, lambda pair: pair[0].group)}


def _sum(pairs: Iterable[tuple[GroupRow, GroupLag]]) -> GroupLag:
    by_place: dict[object, int | None] = {}
    seconds, untimed = None, 0
    for row, lag in pairs:
        # Where it was moved, several source partitions may share a position.
        if row.finding is Finding.MOVED:
            by_place["target", row.target_topic, row.target_partition] = lag.records
        else:
            by_place[row.topic, row.partition] = lag.records
        if lag.seconds is not None:
            seconds = max(lag.seconds, seconds or 0.0)
        untimed += lag.untimed
    records = by_place.values()
    return GroupLag(
        None if None in records else sum(count or 0 for count in records), seconds, untimed
    )
