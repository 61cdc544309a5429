"""Whether another program still copies: what it says of itself, and what it writes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import closing
from dataclasses import dataclass, replace

from confluent_kafka import IsolationLevel, KafkaError
from confluent_kafka.admin import OffsetSpec

from k2ktui.drill.logs import name_partitions
from k2ktui.kafka.clients import Cluster, Partition, partitions_of
from k2ktui.kafka.topic_description import is_missing
from k2ktui.log.content import ContentReader
from k2ktui.replication.topics.record_times import read_times
from k2ktui.sync.flow import CopierObservation, Flow
from k2ktui.sync.mapping.source import NothingCopied

_READ_S = 5.0


@dataclass(frozen=True, slots=True)
class _CopyEnds:
    """The end offsets of the target partitions of a copy.

    Attributes:
        ends: high watermarks, of those that could be read.
        absent: topics that did not exist.
        unread: topics that could not be described.
    """

    ends: Mapping[Partition, int]
    absent: Collection[str]
    unread: Collection[str]


def watch_copier(
    flow: Flow, source: Cluster, target: Cluster
) -> tuple[CopierObservation, int] | None:
    """Watch for some seconds whether another program copies; records of its copies are signs, too.

    Args:
        flow: what it copies.
        source: only its name is needed for most flows: it may be down.
        target: where its traces are.

    Returns:
        What was seen, and how many target partitions have copies; None if it leaves no traces.

    Raises:
        ConnectionFailed, TimedOut: the target does not answer.
    """
    if not flow.is_mirror:
        return None
    topics = _list_copies(flow, source, target)
    before = _read_ends(target, topics)
    seen = flow.observe_copier(target)
    if seen is None:
        return None
    after = _read_ends(target, topics)
    written, unread = _find_written(target, before, after)
    if written:
        names = name_partitions(sorted(written))
        seen = replace(seen, signs=(*seen.signs, f"records were written to {names}"))
    if unread and not seen.unproven:
        names = name_partitions(sorted(unread))
        seen = replace(seen, unproven=f"it is not known whether records were written to {names}")
    return seen, len(after.ends)


def _list_copies(flow: Flow, source: Cluster, target: Cluster) -> list[str]:
    """Return the target topics that records were copied to."""
    try:
        positions = flow.read_copier(source, target).positions
    except NothingCopied:
        return []
    return sorted({name for position in positions.values() for name in position.target_topics})


def _read_ends(target: Cluster, topics: Collection[str]) -> _CopyEnds:
    described = target.describe(topics)
    errors = {name: it for name, it in described.items() if isinstance(it, KafkaError)}
    absent = {name for name, it in errors.items() if is_missing(it)}
    ends = target.offsets(partitions_of(described), OffsetSpec.latest())
    return _CopyEnds(ends, absent, errors.keys() - absent)


def _find_written(
    target: Cluster, before: _CopyEnds, after: _CopyEnds
) -> tuple[list[str], list[str]]:
    """Return names of partitions that records were written to, and of those not known."""
    grown: dict[Partition, int] = {}
    unread = [*{*before.unread, *after.unread}]
    for at in before.ends.keys() | after.ends.keys():
        # A topic that did not exist is read from its first record on.
        start = 0 if at[0] in before.absent else before.ends.get(at)
        end = after.ends.get(at)
        if start is None or end is None or end < start:
            unread.append(_name(at))
        elif end > start:
            grown[at] = start
    if not grown:
        return [], unread
    stable = target.offsets(list(grown), OffsetSpec.latest(), IsolationLevel.READ_COMMITTED)
    with closing(ContentReader(target)) as content:
        times = read_times(content, grown, _READ_S)
    written = []
    for at in grown:
        # A log also grows by the marker that aborts the transaction of a killed program.
        in_transaction = stable.get(at, after.ends[at]) < after.ends[at]
        if at in times.times or at in times.untimed or in_transaction:
            written.append(_name(at))
        elif at not in times.exhausted:
            unread.append(_name(at))
    return written, unread


def _name(at: Partition) -> str:
    return f"{at[0]}-{at[1]}"
