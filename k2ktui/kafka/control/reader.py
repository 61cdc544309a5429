"""Read a control topic once, up to an end offset fixed at the start."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from time import monotonic, sleep
from typing import Any

from confluent_kafka import Consumer, IsolationLevel, KafkaError, Message, TopicPartition
from confluent_kafka.admin import OffsetSpec

from k2ktui.errors import ClusterRefused, K2kError, TimedOut
from k2ktui.kafka.client_errors import NOT_AUTHORIZED, PARTITION_END
from k2ktui.kafka.clients import LEADER_WAIT_S, Cluster, Partition
from k2ktui.text import safe_text

log = logging.getLogger(__name__)

_POLL_S = 0.1
_FIRST_S, _FURTHER_S = 0.2, 0.005
_BATCH = 1000
# Settings of the consumers that read control topics.
CONSUMER: Mapping[str, Any] = {
    "isolation.level": "read_committed",
    "enable.partition.eof": True,
    "fetch.wait.max.ms": 50,
    "auto.offset.reset": "error",
}


@dataclass(frozen=True, slots=True)
class ControlRecord:
    """A record of a control topic, with its position; a ``value`` of None is a tombstone."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None


def require_offsets(
    cluster: Cluster,
    partitions: Collection[Partition],
    spec: OffsetSpec,
    isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
) -> dict[Partition, int]:
    """Return an offset of every partition, as ``Cluster.offsets`` does, or fail.

    Raises:
        TimedOut: the offset of a partition is unavailable, as it has no leader.
        ClusterRefused: the principal may not describe a partition.
        ConnectionFailed: the cluster does not answer.
    """
    denied = set[Partition]()
    offsets = cluster.offsets(partitions, spec, isolation, denied)
    if denied:
        name = safe_text(min(denied)[0])
        raise ClusterRefused(
            f"the {cluster.label} principal may not describe {name}",
            hint=f"Grant it Describe and Read on topic {name}.",
        )
    missing = sorted(at for at in set(partitions) if offsets.get(at, -1) < 0)
    if missing:
        topic, number = missing[0]
        raise TimedOut(
            f"the log bounds of {safe_text(topic)}-{number} on the {cluster.label} cluster "
            "are unavailable: the partition has no leader",
            hint="Check the cluster's health, then try again.",
        )
    return offsets


def stable_ends(
    cluster: Cluster, topic: str, partitions: int, timeout: float = LEADER_WAIT_S
) -> dict[int, int]:
    """Return the last stable offset of every partition.

    Raises:
        TimedOut: a partition had no leader for ``timeout`` seconds.
        ConnectionFailed: the cluster does not answer.
    """
    spec, isolation = OffsetSpec.latest(), IsolationLevel.READ_COMMITTED
    return _bounds(cluster, topic, range(partitions), spec, timeout, isolation)


def written_ends(
    cluster: Cluster, topic: str, partitions: int, timeout: float = LEADER_WAIT_S
) -> dict[int, int]:
    """Return the high watermark of every partition; raises as :func:`stable_ends`."""
    return _bounds(cluster, topic, range(partitions), OffsetSpec.latest(), timeout)


def _bounds(
    cluster: Cluster,
    topic: str,
    partitions: Collection[int],
    spec: OffsetSpec,
    timeout: float,
    isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
) -> dict[int, int]:
    """Return an offset of each partition, once all have a leader; raises as :func:`stable_ends`.

    A missing entry would be mistaken for an empty partition.
    """
    where = [(topic, p) for p in partitions]
    until = monotonic() + timeout
    while True:
        try:
            offsets = require_offsets(cluster, where, spec, isolation)
        except TimedOut as error:
            if monotonic() > until:
                raise
            log.debug("%s: asking again for its log bounds: %s", topic, error.message)
            sleep(_POLL_S)
        else:
            return {p: offsets[topic, p] for _, p in where}


def read_committed(
    cluster: Cluster,
    topic: str,
    partitions: int,
    timeout: float,
    *,
    ends: Mapping[int, int] | None = None,
    since: Mapping[int, int] | None = None,
) -> Iterator[ControlRecord]:
    """Yield the committed records of a topic, each partition in order.

    Args:
        cluster: cluster of the topic.
        topic: its name.
        partitions: its partition count.
        timeout: seconds.
        ends: offset to stop at in each partition; defaults to its last stable offset.
        since: offset to start from in each partition; defaults to the beginning.

    Raises:
        TimedOut: not all records arrived in time.
        K2kError: the broker returned an error.
    """
    ends = stable_ends(cluster, topic, partitions, timeout) if ends is None else ends
    yield from read_records(cluster, topic, ends, timeout, since=since)


def read_written(
    cluster: Cluster, topic: str, partitions: int, timeout: float
) -> Iterator[ControlRecord]:
    """Yield all records, including open and aborted transactions; else as read_committed."""
    ends = written_ends(cluster, topic, partitions, timeout)
    yield from read_records(cluster, topic, ends, timeout, isolation="read_uncommitted")


def read_records(
    cluster: Cluster,
    topic: str,
    ends: Mapping[int, int],
    timeout: float,
    *,
    since: Mapping[int, int] | None = None,
    isolation: str = "read_committed",
    consumer: Consumer | None = None,
) -> Iterator[ControlRecord]:
    """Yield the records below ``ends``, as :func:`read_committed`.

    Args:
        cluster, topic, timeout, since: as there.
        ends: offset to stop at in each partition.
        isolation: the isolation level of a consumer that is made for this reading.
        consumer: one with the settings :data:`CONSUMER`; no partition is assigned to it before
            and afterwards.
    """
    until, since = monotonic() + timeout, since or {}
    # Librdkafka takes longer to begin at OFFSET_BEGINNING.
    begin = [p for p, end in ends.items() if p not in since and end]
    starts = _bounds(cluster, topic, begin, OffsetSpec.earliest(), timeout) if begin else {}
    starts |= since
    remaining = {p: end for p, end in ends.items() if end > starts.get(p, 0)}
    if not remaining:
        return
    own, began = consumer is None, monotonic()
    if consumer is None:
        # The log start offset may have moved since it was read.
        reset = "error" if since else "earliest"
        overrides = {"isolation.level": isolation, "auto.offset.reset": reset}
        consumer = cluster.consumer(**{**CONSUMER, **overrides})
    try:
        consumer.assign([TopicPartition(topic, p, starts[p]) for p in remaining])
        while remaining:
            if monotonic() > until:
                raise cluster.refused_login() or TimedOut(
                    f"reading {safe_text(topic)} on the {cluster.label} cluster took more than "
                    f"{timeout:g} s",
                    hint="Check the cluster's health, or raise coordination.commit.syncTimeout.",
                )
            cluster.require_login(began)
            for message in consume_batch(consumer, _BATCH, _FIRST_S):
                error = message.error()
                partition, offset = message.partition() or 0, message.offset() or 0
                if error is None:
                    yield ControlRecord(partition, offset, message.key(), message.value())
                    offset += 1
                elif error.code() != PARTITION_END:
                    _raise_unless_passing(error, topic, cluster)
                    continue
                if offset >= remaining.get(partition, 0):
                    remaining.pop(partition, None)
    finally:
        if own:
            consumer.close()
        else:
            consumer.unassign()


def _raise_unless_passing(error: KafkaError, topic: str, cluster: Cluster) -> None:
    if error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
        return  # librdkafka looks up a coordinator although no group is used
    if error.code() in NOT_AUTHORIZED:
        raise ClusterRefused(
            f"reading {safe_text(topic)} on the {cluster.label} cluster: {safe_text(error.str())}",
            hint=f"Grant the {cluster.label} principal Describe and Read on the topic.",
        )
    if not error.retriable():
        raise K2kError(f"reading {safe_text(topic)}: {safe_text(error.str())}")


def consume_batch(consumer: Consumer, most: int, wait_s: float) -> list[Message]:
    """Return the messages and events that arrived, after waiting up to ``wait_s`` for the first.

    ``Consumer.consume`` alone waits the whole time unless the batch is full.
    """
    messages: list[Message] = consumer.consume(1, wait_s)
    return messages + consumer.consume(most - 1, _FURTHER_S) if messages else messages


class ReadInterrupted(Exception):
    """A reading has more urgent work to let pass; the same again is safe."""


def await_stable(
    cluster: Cluster,
    topic: str,
    partitions: int,
    timeout: float,
    interrupted: Callable[[], bool] = lambda: False,
) -> None:
    """Wait until every record written to a topic so far is committed or aborted.

    Raises:
        TimedOut: a transaction stayed open longer than ``timeout`` seconds.
        ReadInterrupted: ``interrupted`` returned true while one was open.
    """
    until = monotonic() + timeout
    written = written_ends(cluster, topic, partitions, timeout)
    while True:
        stable = stable_ends(cluster, topic, partitions, max(0.0, until - monotonic()))
        behind = [p for p, end in written.items() if stable[p] < end]
        if not behind:
            return
        if interrupted():
            raise ReadInterrupted
        if monotonic() > until:
            raise TimedOut(
                f"a transaction on {safe_text(topic)}-{behind[0]} has stayed open for more "
                f"than {timeout:g} s, so its positions cannot be read",
                unchanged="Nothing was written.",
                hint="Find it with kafka-transactions.sh find-hanging, or raise "
                "coordination.commit.syncTimeout.",
            )
