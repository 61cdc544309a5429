"""Everything that a source may hold, written while a test breaks things."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Self

from confluent_kafka import KafkaError, KafkaException, Producer

from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import (
    TIMEOUT,
    Headers,
    Out,
    await_stable,
    client,
    eventually,
    unique_name,
)

_NOT_KNOWN_YET = (KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION)

# A broker of ZooKeeper's time takes this long to serve again on a busy machine.
_RESTART_S = 180.0

# Longer than any test; a topic's state in the client is older than the default of 30 seconds.
_PROPAGATION_MS = 3_600_000

ORIGIN, NUMBER = "origin", "number"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def mixture(seed: int, count: int, partitions: int) -> list[Out]:
    """Return records with every kind of key, value, header and time, the same for a seed."""
    dice = random.Random(seed)
    now = int(time.time() * 1000)
    return [_record(dice, now, index, partitions) for index in range(count)]


def _record(dice: random.Random, now: int, index: int, partitions: int) -> Out:
    key = dice.choice((None, b"", b"k%d" % dice.randrange(40), dice.randbytes(12)))
    value = dice.choice((None, b"", b"v%d" % index, dice.randbytes(dice.randrange(400))))
    return Out(
        value=value,
        key=key,
        partition=dice.randrange(partitions),
        headers=_headers(dice),
        timestamp=now - dice.choice((0, 0, 1, 60_000, 3_600_000)),
    )


def _headers(dice: random.Random) -> Headers:
    names = ("h", "h", "trace", "", "ключ")
    values = (None, b"", b"x", dice.randbytes(20))
    count = dice.choice((0, 0, 0, 1, 3))
    return tuple((dice.choice(names), dice.choice(values)) for _ in range(count))


class Traffic:
    """Writes to topics in the background, plainly and in transactions, until the block is left.

    Args:
        node: the source.
        topics: topic to number of partitions.
        seed: decides what is written; how it meets the faults is up to the clock.
        pause: seconds between bursts, on average.
        transactions: whether some of it is transactional, with every third one aborted.
        origin: name of the cluster, added with a number as headers that make each record unique.
        prefixes: every value that is neither null nor empty begins with one of these.
        batches: settings of all producers, and then of long bursts, which fill many batches.
        keyed: whether every record has a key, as compacted topics demand.
    """

    def __init__(
        self,
        node: KafkaNode,
        topics: dict[str, int],
        seed: int,
        *,
        pause: float = 0.2,
        transactions: bool = True,
        origin: str = "",
        prefixes: Sequence[bytes] = (),
        batches: Mapping[str, object] | None = None,
        keyed: bool = False,
    ) -> None:
        self._bursts = (1, 3, 30, 200) if batches is None else (3, 200, 600)
        self._origin = origin.encode()
        self._prefixes, self._keyed = prefixes, keyed
        self._numbers = itertools.count()
        self._dice = random.Random(seed)
        self._node = node
        self._topics = topics
        self._pause = pause
        own = batches or {}
        self._plain = [
            _producer(node, **{"compression_type": codec, "linger_ms": linger, **own})
            for codec, linger in (("none", 0), ("lz4", 5), ("zstd", 20))
        ]
        self._start_transactional = partial(
            _producer,
            node,
            transactional_id=unique_name("traffic"),
            transaction_timeout_ms=120_000,
            **own,
        )
        self._transactional = self._start_transactional()
        self._transactions = transactions
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._failure: BaseException | None = None
        self.sent = 0

    def __enter__(self) -> Self:
        if self._transactions:
            self._transactional.init_transactions(TIMEOUT)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()
        if self._failure is None:
            if error is None:
                for topic in self._topics if self._transactions else ():
                    await_stable(self._node, topic, _RESTART_S)
            return
        if error is None:
            raise self._failure
        error.add_note(f"the traffic had ended before, with {self._failure!r}")

    def _run(self) -> None:
        try:
            while not self._over.wait(self._dice.expovariate(1 / self._pause)):
                self._burst()
        except BaseException as error:
            self._failure = error

    def _burst(self) -> None:
        topic = self._dice.choice(list(self._topics))
        count = self._dice.choice(self._bursts)
        records = mixture(self._dice.randrange(1 << 30), count, self._topics[topic])
        if self._keyed:
            records = [replace(record, key=record.key or b"k") for record in records]
        if self._prefixes:
            records = [self._begin(record) for record in records]
        if self._origin:
            records = [self._mark(record) for record in records]
        if not self._transactions or self._dice.random() < 0.5:
            producer = self._dice.choice(self._plain)
            self._send(producer, topic, records)
            eventually(lambda: not producer.flush(TIMEOUT), f"{topic} has them", _RESTART_S)
            return
        try:
            self._send_in_transaction(topic, records)
        except KafkaException:
            # Like an application that starts again after a fatal error. An abort of what had not
            # reached a broker that was killed is one. What is open is aborted.
            self._transactional = self._start_transactional()
            self._transactional.init_transactions(TIMEOUT)

    def _begin(self, record: Out) -> Out:
        prefix = self._dice.choice(self._prefixes)
        return replace(record, value=prefix + record.value) if record.value else record

    def _mark(self, record: Out) -> Out:
        number = b"%d" % next(self._numbers)
        own = ((ORIGIN, self._origin), (NUMBER, number))
        return replace(record, headers=(*record.headers, *own))

    def _send_in_transaction(self, topic: str, records: Iterable[Out]) -> None:
        producer = self._transactional
        producer.begin_transaction()
        try:
            self._send(producer, topic, records)
            if producer.flush(TIMEOUT):
                raise KafkaException(KafkaError(KafkaError._MSG_TIMED_OUT))
            if self._dice.random() < 0.33:
                producer.abort_transaction(TIMEOUT)
            else:
                producer.commit_transaction(TIMEOUT)
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            producer.abort_transaction(TIMEOUT)

    def _send(self, producer: Producer, topic: str, records: Iterable[Out]) -> None:
        for out in records:
            eventually(partial(_sent, producer, topic, out), f"{topic} is known")
            self.sent += 1


def _sent(producer: Producer, topic: str, out: Out) -> bool:
    """Send; False while a broker of ZooKeeper's time does not know the topic yet."""
    try:
        producer.produce(
            topic,
            value=out.value,
            key=out.key,
            partition=out.partition or 0,
            headers=list(out.headers),
            timestamp=out.timestamp or 0,
        )
    except KafkaException as error:
        if error.args[0].code() not in _NOT_KNOWN_YET:
            raise
        return False
    return True


def _producer(node: KafkaNode, **settings: object) -> Producer:
    """Make a client for brokers that go away: patient, and silent.

    A broker of ZooKeeper's time that has just started answers that topics do not exist, until its
    controller has announced them. librdkafka believes the first such answer once it has known the
    topic for ``topic.metadata.propagation.max.ms``: it drops what it has buffered, and then does
    not believe for as long that the topic exists.
    """
    patient = {
        "delivery.timeout.ms": 120_000,
        "topic.metadata.propagation.max.ms": _PROPAGATION_MS,
        # What is waited for may be a partition that was added just now.
        "topic.metadata.refresh.interval.ms": 10_000,
    }
    return Producer(client(node, **settings) | patient | {"log_level": 0})
