"""What the demo's producers write: older records before the pipeline starts, then live traffic."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import islice

from confluent_kafka import KafkaException

from k2ktui.demo import clients
from k2ktui.demo.clients import Workers, Writer
from k2ktui.demo.topics import BOUNDED, TOPICS, DemoTopic, by_name, native
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
            if prior and topic.prior:
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
    writer = Writer(bootstrap, topic, "demo-past")
    for count, first in enumerate(range(0, topic.seeded, _TRANSACTION_RECORDS)):
        with writer.transaction(aborts=count % _ABORT_EVERY == 1):
            for number in range(first, min(topic.seeded, first + _TRANSACTION_RECORDS)):
                _write(writer, topic, number, chance)
    writer.flush()


def _write_prior(bootstrap: str, topic: DemoTopic, chance: random.Random) -> None:
    writer = Writer(bootstrap, replace(topic, transactional=False), "")
    for partition, count in enumerate(topic.prior):
        for number in range(count):
            writer.write(native(chance, number), partition)
    writer.flush()


def _write(writer: Writer, topic: DemoTopic, number: int, chance: random.Random) -> None:
    record = topic.make(chance, number)
    writer.write(record, topic.partition_for(record, number))


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
    from k2ktui.kafka.admin.topics import alter_topics

    setting = "retention.bytes"
    changes = {topic.name: {setting: BOUNDED[setting]}}
    for error in alter_topics(clients.cluster(bootstrap), changes).values():
        raise error


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
        # A new first number in each run: a continued demo must not repeat earlier records.
        self._first = time.time_ns() // 1_000_000

    def start(self) -> None:
        """Start the threads."""
        for topic in self._topics:
            self._workers.start(topic.name, partial(self._write, topic))

    def stop(self) -> None:
        """End the threads; records not acknowledged by then are abandoned."""
        self._workers.stop()

    def _write(self, topic: DemoTopic) -> None:
        writer = Writer(self._bootstrap, topic, "demo-live", self._end.is_set)
        chance = random.Random()  # noqa: S311 - content, not secrets
        pace, count = Pace(topic.rate * self._factor, self._end, self._first), 0
        while not self._end.is_set():
            # From 0.1 to 2 seconds: some short, some that hold back the last stable offset.
            ticks = round(chance.choice((0.1, 0.3, 0.5, 2.0)) / _TICK_SECONDS)
            count += 1
            with writer.transaction(aborts=count % _ABORT_EVERY == 0):
                for numbers in islice(pace, ticks):
                    for number in numbers:
                        _write(writer, topic, number, chance)
        writer.flush()


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
