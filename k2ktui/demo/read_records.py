"""What the demo's groups have read, compared with what there was to read.

A plain consumer reads the topics; nothing of k2ktui takes part. Records are the same if topic,
partition, key, value, headers and timestamp are.
"""

from __future__ import annotations

import hashlib
import threading
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from time import monotonic

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import OffsetSpec

from k2ktui.demo import clients
from k2ktui.errors import TimedOut

_READER = "k2ktui-demo-reader"
_SILENCE_S = 30.0
_AT_ONCE = 2_000
_NAMED = 3

Where = tuple[str, int]


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

    def add(self, group: str, message: Message) -> None:
        """Add a record that a group has read."""
        with self._lock:
            self._read[group][_digest(message)] += 1

    def clear(self) -> None:
        """Begin again."""
        with self._lock:
            self._read.clear()

    def compare(
        self, bootstrap: str, starts: Mapping[str, Mapping[Where, int]]
    ) -> dict[str, ReadTotals]:
        """Compare with the records of a cluster, from offsets of each group on.

        Raises:
            TimedOut: the records could not be read.
        """
        found = {}
        for group, offsets in starts.items():
            there = _read_all(bootstrap, offsets)
            with self._lock:
                read = self._read[group].copy()
            found[group] = ReadTotals(read.total(), (read - there).total(), (there - read).total())
        return found


def committed(bootstrap: str, group: str, where: Collection[Where]) -> dict[Where, int]:
    """Return the committed offsets of a group, 0 where it has none."""
    consumer = clients.consumer(bootstrap, group)
    try:
        places = [TopicPartition(topic, number) for topic, number in where]
        found = consumer.committed(places, timeout=clients.TIMEOUT_SECONDS)
    except KafkaException as error:
        raise clients.client_error(error, f"read the offsets of {group}") from None
    finally:
        consumer.close()
    return {(tp.topic, tp.partition): max(0, tp.offset) for tp in found}


def ends(bootstrap: str, where: Collection[Where]) -> dict[Where, int]:
    """Return the last stable offsets of partitions."""
    admin = clients.admin(bootstrap)
    asked = {TopicPartition(*at): OffsetSpec.latest() for at in where}
    futures = admin.list_offsets(asked, isolation_level=IsolationLevel.READ_COMMITTED)
    return {(tp.topic, tp.partition): future.result().offset for tp, future in futures.items()}


def _read_all(bootstrap: str, offsets: Mapping[Where, int]) -> Counter[bytes]:
    """Read the committed records from these offsets to the ends of now.

    Raises:
        TimedOut: no partition that is not read to its end has had a record for half a minute.
    """
    until = ends(bootstrap, offsets.keys())
    left = {at for at, offset in offsets.items() if offset < until[at]}
    found: Counter[bytes] = Counter()
    consumer = clients.consumer(bootstrap, _READER)
    try:
        consumer.assign([TopicPartition(*at, offsets[at]) for at in left])
        last, error = monotonic(), None
        while left:
            for message in consumer.consume(_AT_ONCE, timeout=0.5):
                at = message.topic() or "", message.partition() or 0
                if message.error() is not None:
                    error = message.error()
                elif (message.offset() or 0) < until[at]:
                    found[_digest(message)] += 1
                    last = monotonic()
            # Control records have no message: the position passes them.
            places = [TopicPartition(*at) for at in left]
            read = {
                (tp.topic, tp.partition)
                for tp in consumer.position(places)
                if tp.offset >= until[tp.topic, tp.partition]
            }
            if read:
                left, last = left - read, monotonic()
            elif monotonic() - last > _SILENCE_S:
                raise _not_read(left, error)
    finally:
        consumer.close()
    return found


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
