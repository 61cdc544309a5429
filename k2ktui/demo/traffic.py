"""What the demo's producers write: older records before the pipeline starts, then live traffic."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

from k2ktui.demo import clients
from k2ktui.demo.clients import Delivery, Workers
from k2ktui.demo.topics import BOUNDED, TOPICS, DemoRecord, DemoTopic, by_name, native
from k2ktui.errors import TimedOut

_TRANSACTION_RECORDS = 100
_ABORT_EVERY = 5
_AT_ONCE = 3
_RETENTION_SECONDS = 30.0
_POLL_SECONDS = 0.1
_TICK_SECONDS = 0.1


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
            raise clients.client_error(error, f"write to {topic.name}") from error

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(write_one, topics))
    sessions = by_name("sessions")
    if sessions in topics:
        say("Waiting until retention has deleted the first records of sessions")
        _await_retention(source, sessions)
        _keep_from_now_on(source, sessions)


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
            record = native(chance, number)
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


def _await_retention(bootstrap: str, topic: DemoTopic) -> None:
    # If the pipeline started in the head while it is being deleted, it would report data loss.
    deadline = time.monotonic() + _RETENTION_SECONDS
    while not all(clients.log_start_offsets(bootstrap, topic.places).values()):
        if time.monotonic() >= deadline:
            raise TimedOut(f"Retention did not delete the first records of {topic.name} in time.")
        time.sleep(_POLL_SECONDS)


def _keep_from_now_on(bootstrap: str, topic: DemoTopic) -> None:
    """Let the topic keep what it has for hours; the target's topic gets the same setting.

    With the small bound that deleted its head, the target would delete unread records of
    ``legacy-report`` after three minutes, and Groups would no longer show what the pages say.
    """
    entry = ConfigEntry(
        "retention.bytes",
        BOUNDED["retention.bytes"],
        incremental_operation=AlterConfigOpType.SET,
    )
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic.name, incremental_configs=[entry])
    admin = clients.admin(bootstrap)
    try:
        for future in admin.incremental_alter_configs([resource]).values():
            future.result(clients.TIMEOUT_SECONDS)
    except KafkaException as error:
        raise clients.client_error(error, f"set retention.bytes of {topic.name}") from error


class Traffic:
    """Producer threads, one for each topic with a rate. They survive broker restarts.

    Args:
        bootstrap: address of the source cluster.
        topics: the topics to write to.
        factor: multiplies every topic's rate.
    """

    def __init__(
        self, bootstrap: str, topics: Sequence[DemoTopic] = TOPICS, factor: float = 1.0
    ) -> None:
        self._bootstrap = bootstrap
        self._topics = [topic for topic in topics if topic.rate]
        self._factor = factor
        self._workers = Workers()
        self._end = self._workers.ended
        self._deliveries: list[Delivery] = []
        # A new first number in each run: a continued demo must not repeat earlier records.
        self._first = time.time_ns() // 1_000_000

    @property
    def delivered(self) -> int:
        """Records acknowledged so far, including those of aborted transactions."""
        return sum(delivery.delivered for delivery in self._deliveries)

    def start(self) -> None:
        """Start the threads."""
        for topic in self._topics:
            work = self._transactions if topic.transactional else self._plain
            delivery = Delivery()
            self._deliveries.append(delivery)
            self._workers.start(topic.name, partial(work, topic, delivery))

    def stop(self) -> None:
        """End the threads; records not acknowledged by then are abandoned."""
        self._workers.stop()

    def _plain(self, topic: DemoTopic, delivery: Delivery) -> None:
        producer = clients.producer(self._bootstrap, compression_type=topic.compression)
        chance = random.Random()  # noqa: S311 - content, not secrets
        for numbers in self._make_pace(topic):
            for number in numbers:
                write(producer, topic, number, chance, delivery, self._end.is_set)
        producer.flush(2.0)

    def _transactions(self, topic: DemoTopic, delivery: Delivery) -> None:
        producer = clients.producer(
            self._bootstrap,
            compression_type=topic.compression,
            transactional_id=f"demo-live-{topic.name}",
        )
        chance = random.Random()  # noqa: S311 - content, not secrets
        left, count = 0, 0
        for numbers in self._make_pace(topic):
            if not left:
                producer.begin_transaction()
                # From 0.1 to 2 seconds: some short, some that hold back the last stable offset.
                left = round(chance.choice((0.1, 0.3, 0.5, 2.0)) / _TICK_SECONDS)
                count += 1
            for number in numbers:
                write(producer, topic, number, chance, delivery, self._end.is_set)
            left -= 1
            if not left and count % _ABORT_EVERY == 0:
                producer.flush(2.0)
                producer.abort_transaction(clients.TIMEOUT_SECONDS)
            elif not left:
                producer.commit_transaction(clients.TIMEOUT_SECONDS)
        if left:
            producer.abort_transaction(2.0)

    def _make_pace(self, topic: DemoTopic) -> Pace:
        return Pace(topic.rate * self._factor, self._end, self._first)


class Pace:
    """Iterates over ranges of numbers, one per tick, at ``rate`` numbers per second, until ended.

    Time lost to a stopped broker is not made up for.
    """

    def __init__(self, rate: float, end: threading.Event, first: int = 0) -> None:
        self._rate = rate
        self._end = end
        self._next = first
        self._owed = 0.0

    def __iter__(self) -> Pace:
        return self

    def __next__(self) -> range:
        if self._end.wait(_TICK_SECONDS):
            raise StopIteration
        self._owed += self._rate * _TICK_SECONDS
        count = int(self._owed)
        self._owed -= count
        numbers = range(self._next, self._next + count)
        self._next += count
        return numbers
