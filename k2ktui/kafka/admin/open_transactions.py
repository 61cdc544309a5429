"""Find the producer of a partition's oldest open transaction by DescribeProducers (KIP-664).

Requires Kafka 2.8 or newer and only Read on the topic.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kafka.protocol.admin.transactions import DescribeProducersRequest

from k2ktui.errors import ConnectionFailed
from k2ktui.kafka.admin.probe import Probe
from k2ktui.kafka.clients import Cluster, Partition
from k2ktui.kafka.properties.translation import wire
from k2ktui.kafka.wire.cluster import NotSent, OutcomeUnknown, Wire


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction that has not ended.

    Attributes:
        producer_id: id of its producer.
        last_ms: timestamp of its last record in epoch milliseconds; -1 if unknown.
    """

    producer_id: int
    last_ms: int = -1


def oldest_transactions(
    cluster: Cluster, stable: Mapping[Partition, int], timeout: float
) -> dict[Partition, OpenTransaction]:
    """Return the transaction that holds back each partition's last stable offset.

    Args:
        cluster: the cluster, queried with its consumer properties.
        stable: last stable offset of each partition, where its oldest open transaction begins.
        timeout: seconds.

    Returns:
        The transactions that were found. Entries are missing for brokers before Kafka 2.8, after
        connection errors, and for transactions that ended in the meantime.
    """
    transactions: dict[Partition, OpenTransaction] = {}
    try:
        with Probe(wire(cluster.config, "consumer"), cluster.label) as probe:
            probe.open(timeout)
            if not probe.too_old_for({DescribeProducersRequest: 0}):
                probe.run(lambda connection: _describe(connection, stable, timeout, transactions))
    except (ConnectionFailed, NotSent, OutcomeUnknown):
        pass
    return transactions


async def _describe(
    connection: Wire,
    stable: Mapping[Partition, int],
    timeout: float,
    transactions: dict[Partition, OpenTransaction],
) -> None:
    known = await connection.metadata({topic for topic, _ in stable})
    led: dict[int, list[Partition]] = defaultdict(list)
    for topic, number in stable:
        info = known.get(topic)
        leader = info.partitions.get(number) if info else None
        if leader is not None and leader.node >= 0:
            led[leader.node].append((topic, number))
    for node, partitions in led.items():
        try:
            request = _request(partitions)
            response = await connection.send_when_connected(request, node, timeout)
        except NotSent:
            continue
        for topic in response.topics:
            for part in topic.partitions:
                at = (topic.name, part.partition_index)
                if part.error_code == 0 and at in stable:
                    _take(transactions, at, stable[at], part.active_producers)


def _request(partitions: Iterable[Partition]) -> Any:
    topics: dict[str, list[int]] = defaultdict(list)
    for topic, number in partitions:
        topics[topic].append(number)
    return DescribeProducersRequest(
        topics=[
            DescribeProducersRequest.TopicRequest(name=name, partition_indexes=numbers)
            for name, numbers in topics.items()
        ]
    )


def _take(
    transactions: dict[Partition, OpenTransaction],
    at: Partition,
    stable: int,
    producers: Iterable[Any],
) -> None:
    for producer in producers:
        if producer.current_txn_start_offset == stable:
            transactions[at] = OpenTransaction(
                int(producer.producer_id), int(producer.last_timestamp)
            )
