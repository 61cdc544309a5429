"""The demo's Kafka clients: the applications whose records and offsets are replicated."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeVar

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from k2ktui.demo.topics import TOPICS, DemoTopic
from k2ktui.errors import ConnectionFailed, TimedOut
from k2ktui.kafka.client_errors import NO_COORDINATOR_KNOWN
from k2ktui.kafka.wire.codes import COORDINATOR_RETRIABLE, LEADER_MOVED

T = TypeVar("T")

TIMEOUT_SECONDS = 30.0
RETRY_SECONDS = 2.0
_PASSING = {*COORDINATOR_RETRIABLE, *LEADER_MOVED, NO_COORDINATOR_KNOWN}

Where = tuple[str, int]


def settings(bootstrap: str, **more: object) -> dict[str, Any]:
    """Return librdkafka properties; ``_`` in a keyword name stands for ``.``."""
    # No librdkafka logs: a line on standard error would garble the live table.
    base: dict[str, Any] = {"bootstrap.servers": bootstrap, "log_level": 0}
    return base | {name.replace("_", "."): value for name, value in more.items()}


def admin(bootstrap: str) -> AdminClient:
    """Return an admin client; keep a reference until its futures are done."""
    return AdminClient(settings(bootstrap))


def producer(bootstrap: str, **more: object) -> Producer:
    """Return an idempotent producer, or a transactional one when given ``transactional_id``."""
    if "transactional_id" in more:
        # A transaction that is open when its cluster is killed ends soon after its return.
        more = {"transaction_timeout_ms": 10_000, **more}
    made = Producer(settings(bootstrap, enable_idempotence=True, linger_ms=20, **more))
    if "transactional_id" in more:
        made.init_transactions(TIMEOUT_SECONDS)
    return made


def consumer(bootstrap: str, group: str, **more: object) -> Consumer:
    """Return a read_committed consumer of ``group`` without auto-commit."""
    return Consumer(
        settings(
            bootstrap,
            group_id=group,
            isolation_level="read_committed",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            session_timeout_ms=10_000,
            **more,
        )
    )


class Delivery:
    """Delivery reports of one producer: the number of records, and the first error."""

    def __init__(self) -> None:
        self.delivered = 0
        self.error: KafkaError | None = None

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.delivered += 1
        else:
            self.error = self.error or error


def flush(made: Producer, delivery: Delivery, what: str) -> None:
    """Wait until everything produced is acknowledged.

    Raises:
        ConnectionFailed: not all records were acknowledged within 30 s.
    """
    left = made.flush(TIMEOUT_SECONDS)
    if left or delivery.error:
        reason = delivery.error.str() if delivery.error else f"{left} records unacknowledged"
        raise ConnectionFailed(f"The demo could not write {what}: {reason}.")


def client_error(error: KafkaException, what: str) -> ConnectionFailed:
    """Return the error shown to the operator when a client of the demo fails."""
    failure = error.args[0]
    reason = failure.str() if isinstance(failure, KafkaError) else str(error)
    return ConnectionFailed(f"The demo could not {what}: {reason}.")


def retry_while_starting(ask: Callable[[], T], what: str) -> T:
    """Ask a cluster; again while one that has just started elects leaders, or loads offsets.

    Args:
        ask: the question.
        what: what it does, as "commit offsets".

    Raises:
        ConnectionFailed: it was refused, or is still not possible after 30 s.
    """
    until = time.monotonic() + TIMEOUT_SECONDS
    while True:
        try:
            return ask()
        except KafkaException as error:
            if error.args[0].code() not in _PASSING or time.monotonic() > until:
                raise client_error(error, what) from error
            time.sleep(RETRY_SECONDS)


def create_topics(source: str, target: str, topics: Sequence[DemoTopic] = TOPICS) -> None:
    """Create the demo's topics on both clusters (bootstrap addresses).

    On the target, create only those that hold prior data; the pipeline creates the others.

    Args:
        source: the source cluster.
        target: the target cluster.
        topics: which topics.

    Raises:
        ConnectionFailed: a cluster rejected a request.
        TimedOut: a topic was not created in time.
    """
    _create(source, topics)
    prior = [topic for topic in topics if topic.prior]
    if prior:
        _create(target, prior)


def _create(bootstrap: str, topics: Sequence[DemoTopic]) -> None:
    made = admin(bootstrap)
    wanted = [NewTopic(t.name, t.partitions, 1, config=dict(t.config)) for t in topics]
    for name, future in made.create_topics(wanted).items():
        try:
            future.result(TIMEOUT_SECONDS)
        except KafkaException as error:
            raise client_error(error, f"create the topic {name}") from error
        except TimeoutError as error:
            raise TimedOut(
                f"The demo's topic {name} was not created within {TIMEOUT_SECONDS:g} s.",
                hint="Try again later: this machine is overloaded.",
            ) from error


def last_stable_offsets(bootstrap: str, partitions: Collection[Where]) -> dict[Where, int]:
    """Return where committed records end in partitions."""
    return _offsets(bootstrap, partitions, OffsetSpec.latest())


def log_start_offsets(bootstrap: str, partitions: Collection[Where]) -> dict[Where, int]:
    """Return where partitions begin."""
    return _offsets(bootstrap, partitions, OffsetSpec.earliest())


def _offsets(bootstrap: str, partitions: Collection[Where], spec: OffsetSpec) -> dict[Where, int]:
    asked = {TopicPartition(*partition): spec for partition in partitions}

    def read() -> dict[Where, int]:
        made = admin(bootstrap)  # an older one would ask the leaders that it remembers
        futures = made.list_offsets(asked, isolation_level=IsolationLevel.READ_COMMITTED)
        return {(tp.topic, tp.partition): future.result().offset for tp, future in futures.items()}

    return retry_while_starting(read, "read where its topics begin and end")


class Workers:
    """Threads that use clients until they are stopped; after a client's error, one begins again.

    Attributes:
        ended: set once they shall end.
    """

    def __init__(self) -> None:
        self.ended = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self, name: str, work: Callable[[], None]) -> None:
        """Start a thread."""

        def persist() -> None:
            while not self.ended.is_set():
                try:
                    work()
                except KafkaException:
                    # A stopped broker, or a fenced or fatal producer: retry with a new client.
                    self.ended.wait(RETRY_SECONDS)

        thread = threading.Thread(target=persist, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def stop(self, timeout: float = 5.0) -> None:
        """End the threads; what they have not finished by then is abandoned."""
        self.ended.set()
        deadline = time.monotonic() + timeout
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
