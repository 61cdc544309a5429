"""Everything that a source may hold, written while a test breaks things."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterable
from functools import partial
from types import TracebackType
from typing import Self

from confluent_kafka import KafkaError, KafkaException, Producer

from k2ktui.runtime.node import KafkaNode
from tests.support.kafka import TIMEOUT, Headers, Out, client, eventually, unique_name

_NOT_KNOWN_YET = (KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION)

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
    """

    def __init__(
        self,
        node: KafkaNode,
        topics: dict[str, int],
        seed: int,
        *,
        pause: float = 0.05,
        transactions: bool = True,
    ) -> None:
        self._dice = random.Random(seed)
        self._topics = topics
        self._pause = pause
        self._plain = [
            _producer(node, compression_type=codec, linger_ms=linger)
            for codec, linger in (("none", 0), ("lz4", 5), ("zstd", 20))
        ]
        identity = unique_name("traffic")
        self._transactional = _producer(
            node, transactional_id=identity, transaction_timeout_ms=120_000
        )
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
        if kind is None and self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            while not self._over.wait(self._dice.expovariate(1 / self._pause)):
                self._burst()
        except BaseException as error:
            self._failure = error

    def _burst(self) -> None:
        topic = self._dice.choice(list(self._topics))
        count = self._dice.choice((1, 3, 30, 200))
        records = mixture(self._dice.randrange(1 << 30), count, self._topics[topic])
        if not self._transactions or self._dice.random() < 0.5:
            self._send(self._dice.choice(self._plain), topic, records)
            return
        self._transactional.begin_transaction()
        try:
            self._send(self._transactional, topic, records)
            if self._dice.random() < 0.33:
                self._transactional.abort_transaction(TIMEOUT)
            else:
                self._transactional.commit_transaction(TIMEOUT)
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            self._transactional.abort_transaction(TIMEOUT)

    def _send(self, producer: Producer, topic: str, records: Iterable[Out]) -> None:
        for out in records:
            eventually(partial(_sent, producer, topic, out), f"{topic} is known")
            self.sent += 1
        assert producer.flush(TIMEOUT) == 0


def _sent(producer: Producer, topic: str, out: Out) -> bool:
    """Send; False while a broker of ZooKeeper's time has not been told of the topic yet."""
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
    # Brokers go away in these tests; the clients need to be patient, and not to tell.
    patient = client(node, delivery_timeout_ms=120_000, **settings) | {"log_level": 0}
    return Producer(patient)
