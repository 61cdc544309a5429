"""The demo's consumer groups: every state that a failover has to handle."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from k2ktui.demo import clients, seed
from k2ktui.demo.topics import by_name
from k2ktui.kafka.codes import COORDINATOR_RETRIABLE

Side = Literal["source", "target"]

_RETRY_SECONDS = 2.0
_POLL_SECONDS = 0.5
_COMMIT_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class LiveGroup:
    """A group with a member: cluster, topics and rate (records/s; 0 means unlimited)."""

    name: str
    side: Side
    topics: tuple[str, ...]
    rate: float = 0.0


LIVE: tuple[LiveGroup, ...] = (
    LiveGroup("fulfilment", "source", ("orders", "payments")),
    LiveGroup("recommender", "source", ("clicks",), rate=60),
    LiveGroup("billing", "source", ("payments",)),
    # The same group on the target: one instance has already been moved there.
    LiveGroup("billing", "target", ("payments",)),
)

STOPPED = "legacy-report"
CAUGHT_UP = "archive"


def commit_seed_offsets(source: str, target: str, *, flaws: bool = True) -> None:
    """Commit the offsets of two groups that have no members.

    ``legacy-report`` stopped long ago, early in ``orders``. ``archive`` is caught up with
    ``invoices``.

    Args:
        source: the source cluster.
        target: the target cluster.
        flaws: ``legacy-report`` has what a failover warns of: offsets on the target that were
            copied unchanged, where they refer to other records; no offset in two partitions; and
            in ``sessions`` one that retention has deleted since.

    Raises:
        ConnectionFailed: the cluster rejected a commit.
    """
    numbers = {("orders", 0): 250, ("orders", 1): 19}
    stopped = {**numbers, ("orders", 2): 130, ("orders", 3): 75}
    if flaws:
        starts, _ = seed.bounds(source, by_name("sessions"))
        stopped = {**numbers, ("sessions", 0): starts[0] // 2}
    _, ends = seed.bounds(source, by_name("invoices"))
    caught_up = {("invoices", number): end for number, end in enumerate(ends)}
    for cluster, group, offsets in (
        (source, STOPPED, stopped),
        (source, CAUGHT_UP, caught_up),
        *(((target, STOPPED, numbers),) if flaws else ()),
    ):
        try:
            _commit(cluster, group, offsets)
        except KafkaException as error:
            raise clients.client_error(error, f"commit offsets of {group}") from None


def _commit(bootstrap: str, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
    consumer = clients.consumer(bootstrap, group)
    try:
        wanted = [TopicPartition(topic, number, at) for (topic, number), at in offsets.items()]
        _persist(consumer, wanted)
    finally:
        consumer.close()


def _persist(consumer: Consumer, wanted: list[TopicPartition]) -> None:
    """Commit; retry while a newly elected coordinator loads its offsets."""
    until = time.monotonic() + clients.TIMEOUT_SECONDS
    while True:
        try:
            consumer.commit(offsets=wanted, asynchronous=False)
            return
        except KafkaException as error:
            if error.args[0].code() not in COORDINATOR_RETRIABLE or time.monotonic() > until:
                raise
            time.sleep(_RETRY_SECONDS)


class DemoGroups:
    """The members of the live groups, one thread each.

    Args:
        source: bootstrap address of the source cluster.
        target: bootstrap address of the target cluster.
        groups: the groups.
        processed: called with a group and each record that it has read.
    """

    def __init__(
        self,
        source: str,
        target: str,
        groups: Sequence[LiveGroup] = LIVE,
        processed: Callable[[str, Message], None] = lambda group, message: None,
    ) -> None:
        self._groups, self._processed = groups, processed
        self._addresses = {"source": source, "target": target}
        self._end = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Start the members."""
        for group in self._groups:
            name = f"{group.name}@{group.side}"
            thread = threading.Thread(
                target=self._persistently, args=(group,), name=name, daemon=True
            )
            self._threads.append(thread)
            thread.start()

    def stop(self, timeout: float = 5.0) -> None:
        """Let the members commit and leave their groups."""
        self._end.set()
        deadline = time.monotonic() + timeout
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _persistently(self, group: LiveGroup) -> None:
        while not self._end.is_set():
            try:
                self._consume(group)
            except KafkaException:
                self._end.wait(_RETRY_SECONDS)  # the user may have stopped a broker

    def _consume(self, group: LiveGroup) -> None:
        consumer = clients.consumer(self._addresses[group.side], group.name)
        try:
            consumer.subscribe(list(group.topics))
            self._work(consumer, group)
        finally:
            consumer.close()

    def _work(self, consumer: Consumer, group: LiveGroup) -> None:
        most = max(1, round(group.rate * _POLL_SECONDS)) if group.rate else 2_000
        commit_at = time.monotonic() + _COMMIT_SECONDS
        unsaved = False
        while not self._end.is_set():
            found = consumer.consume(most, timeout=_POLL_SECONDS)
            for message in found:
                if message.error() is None:
                    self._processed(group.name, message)
                    unsaved = True
            if unsaved and time.monotonic() >= commit_at:
                consumer.commit(asynchronous=False)
                commit_at = time.monotonic() + _COMMIT_SECONDS
                unsaved = False
            if group.rate:
                self._end.wait(_POLL_SECONDS)
        if unsaved:
            consumer.commit(asynchronous=False)
