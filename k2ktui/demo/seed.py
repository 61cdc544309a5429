"""The demo's seed data: records on both clusters, written before the pipeline starts."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from confluent_kafka import IsolationLevel, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import OffsetSpec

from k2ktui.demo import clients, records
from k2ktui.demo.clients import Delivery
from k2ktui.demo.records import DemoRecord
from k2ktui.demo.topics import TOPICS, DemoTopic, by_name
from k2ktui.errors import TimedOut

_TRANSACTION_RECORDS = 100
_ABORT_EVERY = 5
_AT_ONCE = 3
_RETENTION_SECONDS = 30.0
_POLL_SECONDS = 0.1


def write_seed_data(
    source: str,
    target: str,
    say: Callable[[str], None] = lambda text: None,
    *,
    prior: bool = True,
    topics: Sequence[DemoTopic] = TOPICS,
) -> None:
    """Write the records that exist before the pipeline starts.

    Args:
        source: bootstrap address of the source cluster.
        target: bootstrap address of the target cluster.
        say: called with a description of each step.
        prior: also write records of the target's own.
        topics: which topics.

    Raises:
        ConnectionFailed: a cluster rejected a request.
        TimedOut: the source's retention deleted nothing in time.
    """

    def write_one(topic: DemoTopic) -> None:
        chance = random.Random(topic.name)  # noqa: S311 - content, not secrets
        say(f"Writing older records to {topic.name}" + (f": {topic.why}" if prior else ""))
        try:
            _write_source(source, topic, chance)
            if prior:
                _write_prior(target, topic, chance)
        except KafkaException as error:
            raise clients.client_error(error, f"write to {topic.name}") from None

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(write_one, topics))
    sessions = by_name("sessions")
    if sessions in topics:
        say("Waiting until retention has deleted the first records of sessions")
        _await_retention(source, sessions)


def _write_source(bootstrap: str, topic: DemoTopic, chance: random.Random) -> None:
    delivery = Delivery()
    if not topic.transactional:
        producer = clients.producer(bootstrap, compression_type=topic.compression)
        for number in range(topic.seeded):
            write(producer, topic, number, chance, delivery)
        clients.flush(producer, delivery, topic.name)
        return
    producer = clients.producer(
        bootstrap,
        compression_type=topic.compression,
        transactional_id=f"demo-past-{topic.name}",
    )
    for count, first in enumerate(range(0, topic.seeded, _TRANSACTION_RECORDS)):
        producer.begin_transaction()
        for number in range(first, min(topic.seeded, first + _TRANSACTION_RECORDS)):
            write(producer, topic, number, chance, delivery)
        if count % _ABORT_EVERY == 1:
            # Flush first, so that the aborted records are in the log.
            clients.flush(producer, delivery, topic.name)
            producer.abort_transaction(clients.TIMEOUT_SECONDS)
        else:
            producer.commit_transaction(clients.TIMEOUT_SECONDS)


def _write_prior(bootstrap: str, topic: DemoTopic, chance: random.Random) -> None:
    if not topic.prior:
        return
    producer = clients.producer(bootstrap)
    delivery = Delivery()
    for partition, count in enumerate(topic.prior):
        for number in range(count):
            record = records.native(chance, number)
            _send(producer, topic.name, record, partition, delivery)
    clients.flush(producer, delivery, f"{topic.name} on the target")


def write(
    producer: Producer,
    topic: DemoTopic,
    number: int,
    chance: random.Random,
    delivery: Delivery,
    is_ended: Callable[[], bool] = lambda: False,
) -> None:
    """Produce the topic's record ``number``; waits while the producer's queue is full.

    ``is_ended`` ends the wait, without the record: a cluster that is down empties no queue.
    """
    record = topic.make(chance, number)
    partition = topic.partition_for(record, number)
    _send(producer, topic.name, record, partition, delivery, is_ended)


def _send(
    producer: Producer,
    topic: str,
    record: DemoRecord,
    partition: int,
    delivery: Delivery,
    is_ended: Callable[[], bool] = lambda: False,
) -> None:
    while not is_ended():
        try:
            producer.produce(
                topic,
                value=record.value,
                key=record.key,
                headers=list(record.headers),
                partition=partition,
                on_delivery=delivery,
            )
        except BufferError:
            producer.poll(_POLL_SECONDS)
        else:
            producer.poll(0)
            return


def bounds(bootstrap: str, topic: DemoTopic) -> tuple[list[int], list[int]]:
    """Return the log start offsets and the last stable offsets of a topic, by partition."""
    admin = clients.admin(bootstrap)
    found = []
    for spec in (OffsetSpec.earliest(), OffsetSpec.latest()):
        asked = {TopicPartition(topic.name, n): spec for n in range(topic.partitions)}
        futures = admin.list_offsets(asked, isolation_level=IsolationLevel.READ_COMMITTED)
        offsets = {tp.partition: future.result().offset for tp, future in futures.items()}
        found.append([offsets[number] for number in range(topic.partitions)])
    return found[0], found[1]


def _await_retention(bootstrap: str, topic: DemoTopic) -> None:
    # If the pipeline started in the head while it is being deleted, it would report data loss.
    deadline = time.monotonic() + _RETENTION_SECONDS
    while not all(bounds(bootstrap, topic)[0]):
        if time.monotonic() >= deadline:
            raise TimedOut(f"Retention did not delete the first records of {topic.name} in time.")
        time.sleep(_POLL_SECONDS)
