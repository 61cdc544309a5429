"""A consumer group as an application runs it: subscribed, it reads, commits and leaves."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from confluent_kafka import KafkaError, TopicPartition

from tests.support.clusters.kafka import (
    TIMEOUT,
    Got,
    ServingCluster,
    end_offsets,
    got_of,
    group_consumer,
)

Where = tuple[str, int]


def consume(
    node: ServingCluster,
    group: str,
    topics: Sequence[str],
    until: Mapping[Where, int] | None = None,
) -> dict[Where, list[Got]]:
    """Read as the only member of a group, and commit what was read.

    Args:
        node: the cluster.
        group: its committed offsets are where it begins; at the log start without one.
        topics: what it subscribes to.
        until: partition to the offset before which it stops; without it, the ends that the
            partitions have now.

    Returns:
        The records of each partition, in the order in which they were read.
    """
    stops = {
        (topic, number): end
        for topic in topics
        for number, end in end_offsets(node, topic, "read_committed").items()
    }
    stops |= until or {}
    records_read: dict[Where, list[Got]] = {at: [] for at in stops}
    consumer = group_consumer(node, group, "earliest")
    try:
        consumer.subscribe(list(topics))
        left = set(stops)
        deadline = time.monotonic() + TIMEOUT
        while left:
            assert time.monotonic() < deadline, f"{group} has not read {sorted(left)}"
            message = consumer.poll(0.5)
            if message is None:
                continue
            at = (message.topic() or "", message.partition() or 0)
            error, offset = message.error(), message.offset() or 0
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                raise AssertionError(error)
            if error is None and offset < stops[at]:
                records_read[at].append(got_of(message))
            if offset + (error is None) >= stops[at]:
                left.discard(at)
        positions = [
            TopicPartition(*at, records[-1].offset + 1)
            for at, records in records_read.items()
            if records
        ]
        consumer.commit(offsets=positions, asynchronous=False)
    finally:
        consumer.close()
    return records_read
