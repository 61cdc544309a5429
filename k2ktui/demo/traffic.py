"""Live traffic on the source, paced so that two cores suffice for two brokers and a pipeline."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence

from confluent_kafka import KafkaException

from k2ktui.demo import clients
from k2ktui.demo.clients import Delivery
from k2ktui.demo.seed import write
from k2ktui.demo.topics import TOPICS, DemoTopic

_TICK_SECONDS = 0.1
_RETRY_SECONDS = 2.0
_ABORT_EVERY = 5


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
        self._end = threading.Event()
        self._threads: list[threading.Thread] = []
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
            thread = threading.Thread(
                target=self._persistently, args=(work, topic), name=topic.name, daemon=True
            )
            self._threads.append(thread)
            thread.start()

    def stop(self, timeout: float = 5.0) -> None:
        """End the threads; records not acknowledged by then are abandoned."""
        self._end.set()
        deadline = time.monotonic() + timeout
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _persistently(self, work: Callable[[DemoTopic, Delivery], None], topic: DemoTopic) -> None:
        delivery = Delivery()
        self._deliveries.append(delivery)
        while not self._end.is_set():
            try:
                work(topic, delivery)
            except KafkaException:
                # A stopped broker, or a fenced or fatal producer: retry with a new one.
                self._end.wait(_RETRY_SECONDS)

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
