"""Find the producers that a partition knows, and whose transaction is open: DescribeProducers.

Requires Kafka 2.8 or newer (KIP-664) and only Read on the topic.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
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


@dataclass(frozen=True, slots=True)
class ActiveProducer:
    """A producer that a partition knows.

    Attributes:
        producer_id, epoch: its id and epoch.
        last_ms: timestamp of its last record in epoch milliseconds; -1 if unknown.
        transaction_start: where its open transaction begins; -1 without one.
        is_transactional: whether a transaction of it is open on the partition, or has ended there.
    """

    producer_id: int
    epoch: int
    last_ms: int
    transaction_start: int
    is_transactional: bool


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
    return {
        at: OpenTransaction(producer.producer_id, producer.last_ms)
        for at, producers in active_producers(cluster, stable, timeout).items()
        for producer in producers
        if producer.transaction_start == stable[at]
    }


def active_producers(
    cluster: Cluster, partitions: Collection[Partition], timeout: float
) -> dict[Partition, tuple[ActiveProducer, ...]]:
    """Return the producers that each partition knows, for a day after they have written last.

    Arguments and missing entries as for :func:`oldest_transactions`.
    """
    producers: dict[Partition, tuple[ActiveProducer, ...]] = {}
    try:
        with Probe(wire(cluster.config, "consumer"), cluster.label) as probe:
            probe.open(timeout)
            if not probe.too_old_for({DescribeProducersRequest: 0}):
                probe.run(lambda connection: _describe(connection, partitions, timeout, producers))
    except (ConnectionFailed, NotSent, OutcomeUnknown):
        pass
    return producers


async def _describe(
    connection: Wire,
    asked: Collection[Partition],
    timeout: float,
    producers: dict[Partition, tuple[ActiveProducer, ...]],
) -> None:
    known = await connection.metadata({topic for topic, _ in asked})
    led: dict[int, list[Partition]] = defaultdict(list)
    for topic, number in asked:
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
                if part.error_code == 0:
                    producers[at] = tuple(map(_producer, part.active_producers))


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


def _producer(told: Any) -> ActiveProducer:
    return ActiveProducer(
        int(told.producer_id),
        int(told.producer_epoch),
        int(told.last_timestamp),
        int(told.current_txn_start_offset),
        # Until its first transaction has ended, the partition knows no coordinator's epoch.
        int(told.coordinator_epoch) >= 0 or int(told.current_txn_start_offset) >= 0,
    )
