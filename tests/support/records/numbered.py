"""Numbered records of one origin, and consumers that say which of them a group has read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from confluent_kafka import Consumer, TopicPartition

from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import Out, client, end_offsets, eventually, produce
from tests.support.oracle.group_offsets import read_committed_offsets
from tests.support.records.traffic import NUMBER, ORIGIN

Identity = tuple[bytes, bytes]
PARTITIONS = 2


def write_numbered(node: KafkaNode, topic: str, origin: str, numbers: Iterable[int]) -> None:
    """Write records whose headers say their origin and number, to the partitions in turn."""
    produce(
        node,
        topic,
        [
            Out(
                b"%d" % n,
                b"%d" % n,
                partition=n % PARTITIONS,
                headers=((ORIGIN, origin.encode()), (NUMBER, b"%d" % n)),
            )
            for n in numbers
        ],
    )


def consume_numbered(
    node: KafkaNode, group: str, topic: str, most: int | None = None
) -> list[Identity]:
    """Read with a plain consumer from the committed offsets, commit, and return what was read.

    Args:
        node: the cluster.
        group: the group.
        topic: the topic.
        most: records of each partition; all that there are without it.
    """
    made = Consumer(client(node, group_id=group, enable_auto_commit=False))
    ends = end_offsets(node, topic, "read_committed")
    per: Counter[int] = Counter()
    identities: list[Identity] = []
    try:
        places = [TopicPartition(topic, n) for n in ends]
        known = read_committed_offsets(made, places)
        at = {number: max(offset, 0) for (_, number), offset in known.items()}
        made.assign([TopicPartition(topic, n, offset) for n, offset in at.items()])

        def finished() -> bool:
            message = made.poll(0.1)
            if message is not None and message.error() is None:
                number = message.partition() or 0
                if most is None or per[number] < most:
                    per[number] += 1
                    got = dict(message.headers() or [])
                    identities.append((got[ORIGIN], got[NUMBER]))
                    at[number] = (message.offset() or 0) + 1
            now = {tp.partition: tp.offset for tp in made.position(made.assignment())}
            for number, offset in now.items():
                if (most is None or per[number] < most) and offset > at[number]:
                    at[number] = offset
            return all(per[n] == most or at[n] >= end for n, end in ends.items())

        eventually(finished, f"{group} reads")
        offsets = [TopicPartition(topic, n, offset) for n, offset in at.items()]
        made.commit(offsets=offsets, asynchronous=False)
    finally:
        made.close()
    return identities
