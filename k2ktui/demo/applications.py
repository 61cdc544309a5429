"""The demo's producers and consumers, which a tour or its user stops and starts elsewhere.

Its groups are in every state that a failover has to handle. What they have read is compared with
what there was to read: a plain consumer reads the topics, and nothing of k2ktui takes part. Records
are the same if topic, partition, key, value, headers and timestamp are.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from k2ktui.demo import clients
from k2ktui.demo.clients import Where, Workers
from k2ktui.demo.topics import by_name
from k2ktui.demo.traffic import Traffic
from k2ktui.errors import TimedOut

_POLL_SECONDS = 0.5
_COMMIT_SECONDS = 1.0
_READER = "k2ktui-demo-reader"
_SILENCE_S = 30.0
_AT_ONCE = 2_000
_NAMED = 3

Side = Literal["source", "target"]


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
        first = "sessions", 0
        start = clients.log_start_offsets(source, [first])[first]
        stopped = {**numbers, first: start // 2}
    caught_up = clients.last_stable_offsets(source, by_name("invoices").places)
    for cluster, group, offsets in (
        (source, STOPPED, stopped),
        (source, CAUGHT_UP, caught_up),
        *(((target, STOPPED, numbers),) if flaws else ()),
    ):
        _commit(cluster, group, offsets)


def _commit(bootstrap: str, group: str, offsets: Mapping[Where, int]) -> None:
    consumer = clients.consumer(bootstrap, group)
    wanted = [TopicPartition(topic, number, at) for (topic, number), at in offsets.items()]
    try:
        clients.retry_while_starting(
            lambda: consumer.commit(offsets=wanted, asynchronous=False),
            f"commit offsets of {group}",
        )
    finally:
        consumer.close()


# No group reads on the target before the switchover. All of them catch up, so that what they have
# read can be compared at the end.
ON_SOURCE = tuple(replace(group, rate=0.0) for group in LIVE if group.side == "source")
_SIDES: tuple[Side, ...] = ("source", "target")


class Consumers:
    """The members of groups on one cluster, one thread each.

    Args:
        bootstrap: the cluster.
        groups: the groups.
        processed: called with a group and each record that it has read, once its commit stands.
    """

    def __init__(
        self,
        bootstrap: str,
        groups: Sequence[LiveGroup],
        processed: Callable[[str, Message], None],
    ) -> None:
        self._bootstrap = bootstrap
        self.names = tuple(group.name for group in groups)
        self._workers = Workers()
        for group in groups:
            # A member that begins again after an error has what it had read before.
            uncommitted = Uncommitted(partial(processed, group.name))
            work = partial(self._consume, group, uncommitted)
            self._workers.start(f"{group.name}@{group.side}", work)

    def stop(self) -> None:
        """Let the members commit and leave their groups."""
        self._workers.stop()

    def _consume(self, group: LiveGroup, uncommitted: Uncommitted) -> None:
        consumer = clients.consumer(self._bootstrap, group.name)
        try:
            consumer.subscribe(list(group.topics), on_assign=uncommitted.begin)
            self._work(consumer, group, uncommitted)
        finally:
            consumer.close()

    def _work(self, consumer: Consumer, group: LiveGroup, uncommitted: Uncommitted) -> None:
        most = max(1, round(group.rate * _POLL_SECONDS)) if group.rate else 2_000
        commit_at = time.monotonic() + _COMMIT_SECONDS
        while not self._workers.ended.is_set():
            for message in consumer.consume(most, timeout=_POLL_SECONDS):
                if message.error() is None:
                    uncommitted.add(message)
            if uncommitted and time.monotonic() >= commit_at:
                uncommitted.commit(consumer)
                commit_at = time.monotonic() + _COMMIT_SECONDS
            if group.rate:
                self._workers.ended.wait(_POLL_SECONDS)
        if uncommitted:
            uncommitted.commit(consumer)


class Uncommitted:
    """What a member has read since its last commit.

    A record counts as read once a commit covers it, as for an application that keeps its results
    together with its offsets. A member that has lost its place, as on a machine that stands still
    for seconds, reads again what it had not committed: no move of its group is the cause. It counts
    an offset once.

    Args:
        processed: called with each record that counts.
    """

    def __init__(self, processed: Callable[[Message], None]) -> None:
        self._processed = processed
        self._messages: dict[Where, list[Message]] = defaultdict(list)
        self._counted: dict[Where, int] = defaultdict(int)  # up to this offset

    def __bool__(self) -> bool:
        return any(self._messages.values())

    def add(self, message: Message) -> None:
        """Add a record that was read."""
        self._messages[message.topic() or "", message.partition() or 0].append(message)

    def commit(self, consumer: Consumer) -> None:
        """Commit; records of partitions that the member has lost meanwhile stay.

        Raises:
            KafkaException: it is not known whether the commit was made.
        """
        self._count(consumer.commit(asynchronous=False) or [])

    def begin(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Begin where the group stands: a commit whose answer was lost counts, the rest does not.

        Raises:
            KafkaException: the committed offsets could not be read.
        """
        if self:
            self._count(consumer.committed(partitions, timeout=clients.TIMEOUT_SECONDS))
        self._messages.clear()

    def _count(self, committed: Sequence[TopicPartition]) -> None:
        for offset in committed:
            place = offset.topic, offset.partition
            if offset.error is not None or place not in self._messages:
                continue
            messages = self._messages.pop(place)
            for message in messages:
                at = message.offset() or 0
                if at >= offset.offset:
                    self._messages[place].append(message)
                elif at >= self._counted[place]:
                    self._processed(message)
                    self._counted[place] = at + 1


@dataclass(frozen=True, slots=True)
class ReadTotals:
    """Records that groups read, read again, and did not read."""

    read: int
    again: int
    skipped: int

    @property
    def is_exact(self) -> bool:
        """Whether each record was read once."""
        return bool(self.read) and not self.again and not self.skipped


class ReadRecords:
    """Collects what the members of groups read; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._read: dict[str, Counter[bytes]] = defaultdict(Counter)

    def recorder(self) -> Callable[[str, Message], None]:
        """Return what adds a record that a group has read, until the next :meth:`clear`.

        A member of a cluster that was killed may commit when it is back, long after it was stopped.
        """
        read = self._read

        def add(group: str, message: Message) -> None:
            with self._lock:
                read[group][_digest(message)] += 1

        return add

    def clear(self) -> None:
        """Begin again."""
        self._read = defaultdict(Counter)

    def compare(
        self, bootstrap: str, starts: Mapping[str, Mapping[Where, int]]
    ) -> dict[str, ReadTotals]:
        """Compare with the records of a cluster, from offsets of each group on.

        Raises:
            TimedOut: the records could not be read.
        """
        totals = {}
        for group, offsets in starts.items():
            existing = _read_all(bootstrap, offsets)
            with self._lock:
                read = self._read[group].copy()
            totals[group] = ReadTotals(
                read.total(), (read - existing).total(), (existing - read).total()
            )
        return totals


def committed(bootstrap: str, group: str, where: Collection[Where]) -> dict[Where, int]:
    """Return the committed offsets of a group, 0 where it has none.

    Raises:
        ConnectionFailed: they could not be read.
    """
    consumer = clients.consumer(bootstrap, group)
    places = [TopicPartition(topic, number) for topic, number in where]
    try:
        offsets_read: list[TopicPartition] = clients.retry_while_starting(
            lambda: consumer.committed(places, timeout=clients.TIMEOUT_SECONDS),
            f"read the offsets of {group}",
        )
    finally:
        consumer.close()
    return {(tp.topic, tp.partition): max(0, tp.offset) for tp in offsets_read}


def _read_all(bootstrap: str, offsets: Mapping[Where, int]) -> Counter[bytes]:
    """Read the committed records from these offsets to the ends of now.

    Raises:
        TimedOut: no partition that is not read to its end has had a record for half a minute.
    """
    until = clients.last_stable_offsets(bootstrap, offsets.keys())
    left = {at for at, offset in offsets.items() if offset < until[at]}
    digests: Counter[bytes] = Counter()
    consumer = clients.consumer(bootstrap, _READER)
    try:
        consumer.assign([TopicPartition(*at, offsets[at]) for at in left])
        last, error = time.monotonic(), None
        while left:
            for message in consumer.consume(_AT_ONCE, timeout=0.5):
                at = message.topic() or "", message.partition() or 0
                if message.error() is not None:
                    error = message.error()
                elif (message.offset() or 0) < until[at]:
                    digests[_digest(message)] += 1
                    last = time.monotonic()
            # Control records have no message: the position passes them.
            places = [TopicPartition(*at) for at in left]
            read = {
                (tp.topic, tp.partition)
                for tp in consumer.position(places)
                if tp.offset >= until[tp.topic, tp.partition]
            }
            if read:
                left, last = left - read, time.monotonic()
            elif time.monotonic() - last > _SILENCE_S:
                raise _not_read(left, error)
    finally:
        consumer.close()
    return digests


def _not_read(left: Collection[Where], error: KafkaError | None) -> TimedOut:
    where = ", ".join(f"{topic}-{number}" for topic, number in sorted(left)[:_NAMED])
    reason = f"; the last error was: {error.str()}" if error is not None else ""
    return TimedOut(
        f"The demo could not read {where} to the end: no record in {_SILENCE_S:g} s{reason}.",
        unchanged="Nothing was compared.",
        hint="Check that the demo's clusters run, then compare again.",
    )


def _digest(message: Message) -> bytes:
    headers = message.headers() or []
    parts = (
        message.topic(),
        message.partition(),
        message.key(),
        message.value(),
        message.timestamp()[1],
        [(name, value) for name, value in headers],
    )
    return hashlib.sha256(repr(parts).encode()).digest()


class Applications:
    """Producers and consumers, on one of the clusters or on both.

    Args:
        source: bootstrap address of the source cluster.
        target: bootstrap address of the target cluster.
        rate: multiplies the traffic.
        groups: the consumers, each on the cluster where it is started first.

    Attributes:
        records: what each group has read.
    """

    def __init__(
        self, source: str, target: str, rate: float, groups: Sequence[LiveGroup] = ON_SOURCE
    ) -> None:
        self._addresses: dict[Side, str] = {"source": source, "target": target}
        self._rate, self._first = rate, tuple(groups)
        self._traffic: Traffic | None = None
        self._writes_to: Side | None = None
        self._consumers: dict[Side, Consumers] = {}
        self.records = ReadRecords()

    def start(self) -> None:
        """Start the producers on the source, and each consumer where it is first."""
        self._start("source", self._first)

    def start_on(self, side: Side) -> None:
        """Start all of them on one cluster; those that run are stopped."""
        groups = {group.name: replace(group, side=side) for group in self._first}
        self._start(side, tuple(groups.values()))

    def _start(self, producers: Side, groups: Sequence[LiveGroup]) -> None:
        self.stop()
        self._traffic = Traffic(self._addresses[producers], factor=self._rate)
        self._traffic.start()
        self._writes_to = producers
        add = self.records.recorder()
        for side in _SIDES:
            here = tuple(group for group in groups if group.side == side)
            if here:
                self._consumers[side] = Consumers(self._addresses[side], here, add)

    @property
    def producers(self) -> Side | None:
        """The cluster to which the producers write; None if they are stopped."""
        return self._writes_to

    def consumers(self, side: Side) -> tuple[str, ...]:
        """Return the groups that read on a cluster."""
        running = self._consumers.get(side)
        return running.names if running else ()

    def stop_producers(self) -> None:
        """Stop the producers."""
        if self._traffic is not None:
            self._traffic.stop()
        self._traffic = self._writes_to = None

    def stop_consumers(self, sides: Sequence[Side] = _SIDES) -> None:
        """Let the consumers on these clusters commit and leave their groups."""
        for side in sides:
            running = self._consumers.pop(side, None)
            if running is not None:
                running.stop()

    def stop(self) -> None:
        """Stop those that run."""
        self.stop_producers()
        self.stop_consumers()
