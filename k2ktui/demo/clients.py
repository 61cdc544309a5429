"""The demo's Kafka clients: the applications whose records and offsets are replicated."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

from k2ktui.demo.topics import TOPICS, DemoRecord, DemoTopic
from k2ktui.errors import ConnectionFailed
from k2ktui.kafka.client_errors import NO_COORDINATOR_KNOWN
from k2ktui.kafka.wire.codes import COORDINATOR_RETRIABLE, LEADER_MOVED

if TYPE_CHECKING:
    from k2ktui.kafka.clients import Cluster

T = TypeVar("T")

TIMEOUT_SECONDS = 30.0
RETRY_SECONDS = 2.0
_END_SECONDS = 2.0
_POLL_SECONDS = 0.1
_PASSING = {*COORDINATOR_RETRIABLE, *LEADER_MOVED, NO_COORDINATOR_KNOWN}

Where = tuple[str, int]


def settings(bootstrap: str, **more: object) -> dict[str, Any]:
    """Return librdkafka properties; ``_`` in a keyword name stands for ``.``."""
    # No librdkafka logs: a line on standard error would garble the console.
    base: dict[str, Any] = {"bootstrap.servers": bootstrap, "log_level": 0}
    return base | {name.replace("_", "."): value for name, value in more.items()}


def admin(bootstrap: str) -> AdminClient:
    """Return an admin client; keep a reference until its futures are done."""
    return AdminClient(settings(bootstrap))


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


class Writer:
    """Writes the records of a topic, in transactions if it has them.

    Args:
        bootstrap: the cluster.
        topic: the topic.
        name: what the transactional id begins with.
        is_ended: ends the wait for a full queue, without the record: a cluster that is down empties
            none.
    """

    def __init__(
        self,
        bootstrap: str,
        topic: DemoTopic,
        name: str,
        is_ended: Callable[[], bool] = lambda: False,
    ) -> None:
        self._topic, self._is_ended = topic, is_ended
        self._error: KafkaError | None = None
        more: dict[str, object] = {}
        if topic.transactional:
            # One that is open when its cluster is killed ends soon after its return.
            more = {"transactional_id": f"{name}-{topic.name}", "transaction_timeout_ms": 10_000}
        more |= {"enable_idempotence": True, "linger_ms": 20, "compression_type": topic.compression}
        self._producer = Producer(settings(bootstrap, **more))
        if topic.transactional:
            self._producer.init_transactions(TIMEOUT_SECONDS)

    @contextlib.contextmanager
    def transaction(self, *, aborts: bool) -> Iterator[None]:
        """Write what a block writes in a transaction, if the topic has them; abort or commit it."""
        if not self._topic.transactional:
            yield
            return
        self._producer.begin_transaction()
        yield
        if self._is_ended():
            self._producer.abort_transaction(_END_SECONDS)
        elif aborts:
            # Flush first, so that the aborted records are in the log.
            self._producer.flush(TIMEOUT_SECONDS)
            self._producer.abort_transaction(TIMEOUT_SECONDS)
        else:
            self._producer.commit_transaction(TIMEOUT_SECONDS)

    def write(self, record: DemoRecord, partition: int) -> None:
        """Produce a record; -1 leaves the partition to the key's hash."""
        while not self._is_ended():
            try:
                self._producer.produce(
                    self._topic.name,
                    value=record.value,
                    key=record.key,
                    headers=list(record.headers),
                    partition=partition,
                    on_delivery=self._note,
                )
            except BufferError:
                self._producer.poll(_POLL_SECONDS)
            else:
                self._producer.poll(0)
                return

    def _note(self, error: KafkaError | None, message: Message) -> None:
        self._error = self._error or error

    def flush(self) -> None:
        """Wait until everything is acknowledged, after the end at most two seconds.

        Raises:
            ConnectionFailed: not all records were acknowledged within 30 s.
        """
        left = self._producer.flush(_END_SECONDS if self._is_ended() else TIMEOUT_SECONDS)
        if (left or self._error) and not self._is_ended():
            reason = self._error.str() if self._error else f"{left} records unacknowledged"
            raise ConnectionFailed(f"The demo could not write {self._topic.name}: {reason}.")


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
        K2kError: a cluster rejected a request, or did not answer.
    """
    _create(source, topics)
    prior = [topic for topic in topics if topic.prior]
    if prior:
        _create(target, prior)


def _create(bootstrap: str, topics: Sequence[DemoTopic]) -> None:
    from k2ktui.kafka.admin.topics import TopicSpec, create_topics

    specs = [TopicSpec(topic.name, topic.partitions, 1, topic.config) for topic in topics]
    for error in create_topics(cluster(bootstrap), specs).values():
        if error is not None:
            raise error


def cluster(bootstrap: str) -> Cluster:
    """Return a cluster as k2ktui's own administration takes it."""
    # Imported here, as above: not needed in the demo's first seconds.
    from k2ktui.config.clusters import ClusterConfig, KafkaClients
    from k2ktui.kafka.clients import Cluster

    common = {"bootstrap.servers": bootstrap}
    return Cluster(ClusterConfig(kafka=KafkaClients(common=common)), "demo's")


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
