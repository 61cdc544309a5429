"""Committed offsets of consumer groups, for tests that run against real clusters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from k2ktui.kafka.client_errors import NO_COORDINATOR_KNOWN
from k2ktui.kafka.wire.codes import COORDINATOR_RETRIABLE
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import TIMEOUT, client, eventually

# The library gives up by itself after some seconds, and says so with codes of its own.
_WITHOUT_COORDINATOR = {*COORDINATOR_RETRIABLE, NO_COORDINATOR_KNOWN, KafkaError._TIMED_OUT}


def commit_offsets(
    node: KafkaNode, group: str, offsets: Mapping[tuple[str, int], int], metadata: str = ""
) -> None:
    """Commit ``offsets`` for an empty ``group``, as a stopped application would have left them."""
    consumer = Consumer(client(node, group_id=group, enable_auto_commit=False))
    try:
        positions = [
            TopicPartition(topic, number, offset, metadata)
            for (topic, number), offset in offsets.items()
        ]

        def done() -> bool:
            try:
                consumer.commit(offsets=positions, asynchronous=False)
            except KafkaException as error:
                if error.args[0].code() not in _WITHOUT_COORDINATOR:
                    raise
                return False
            return True

        # A new cluster has one after a while.
        eventually(done, "the group's coordinator takes the commit")
    finally:
        consumer.close()


def committed(node: KafkaNode, group: str) -> dict[tuple[str, int], int]:
    """Return the offsets that ``group`` committed."""
    # Not by AdminClient.list_consumer_group_offsets: librdkafka 2.16 crashes the process when the
    # group's coordinator is not ready (its issue 5040). A consumer that never joins does not.
    consumer = Consumer(client(node, group_id=group, enable_auto_commit=False))
    try:
        topics = consumer.list_topics(timeout=TIMEOUT).topics.values()
        asked = [
            TopicPartition(topic.topic, number)
            for topic in topics
            if not topic.topic.startswith("__")
            for number in topic.partitions
        ]
        return {
            at: offset
            for at, offset in read_committed_offsets(consumer, asked).items()
            if offset >= 0
        }
    finally:
        consumer.close()


def read_committed_offsets(
    consumer: Consumer, asked: Iterable[TopicPartition]
) -> dict[tuple[str, int], int]:
    """Return the committed offsets of a consumer's group, negative where it has none.

    The first group of a cluster makes the broker create the offsets topic, and load it; so does a
    restart of the broker. Meanwhile there is no coordinator.
    """
    places = list(asked)

    def read() -> list[TopicPartition] | None:
        try:
            offsets: list[TopicPartition] = consumer.committed(places, timeout=TIMEOUT)
        except KafkaException as error:
            if error.args[0].code() not in _WITHOUT_COORDINATOR:
                raise
            return None
        return offsets

    offsets = eventually(read, "the group has a coordinator") if places else []
    return {(tp.topic, tp.partition): tp.offset for tp in offsets}
