"""One source topic of every kind that a copy must get right."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from confluent_kafka import Producer

from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import (
    TIMEOUT,
    Out,
    client,
    create_topic,
    delete_before,
    eventually,
    produce,
    produce_transaction,
    read_all,
    unique_name,
)
from tests.support.records.traffic import CODECS, mixture

Make = Callable[[KafkaNode, str], None]
_HOUR_MS = 3_600_000
_KEYS = 40


def make_all(node: KafkaNode, prefix: str) -> dict[str, str]:
    """Create and fill one topic a kind, at the same time; return kind to topic name."""
    names = {kind: f"{prefix}.{kind}" for kind in KINDS}
    with ThreadPoolExecutor(4) as pool:
        for made in [pool.submit(make, node, names[kind]) for kind, make in KINDS.items()]:
            made.result()
    return names


def _mixed(node: KafkaNode, topic: str) -> None:
    create_topic(node, topic, partitions=3)
    produce(node, topic, mixture(1, 1500, 3))


def _codec(codec: str, node: KafkaNode, topic: str) -> None:
    create_topic(node, topic)
    produce(node, topic, mixture(2, 400, 1), compression_type=codec, linger_ms=20)


def _many(node: KafkaNode, topic: str) -> None:
    create_topic(node, topic)
    produce(node, topic, [b"%06d" % i for i in range(20_000)], linger_ms=5)


def _empty(node: KafkaNode, topic: str) -> None:
    create_topic(node, topic, partitions=2)


def _tiny_batches(node: KafkaNode, topic: str) -> None:
    create_topic(node, topic)
    settings = {"batch_num_messages": 1, "linger_ms": 0}
    produce(node, topic, mixture(3, 500, 1), **settings)
    produce(node, topic, mixture(4, 200, 1), compression_type="gzip", **settings)


def _transactions(node: KafkaNode, topic: str) -> None:
    """Committed and aborted ones, one after the other and interleaved, and plain records."""
    create_topic(node, topic, partitions=2)
    for seed in range(6):
        produce_transaction(node, topic, mixture(seed, 50, 2), commit=seed % 3 != 1)
        produce(node, topic, mixture(seed, 5, 2))
    producers = [Producer(client(node, transactional_id=unique_name("tx"))) for _ in range(3)]
    for producer in producers:
        producer.init_transactions(TIMEOUT)
        producer.begin_transaction()
    dice = random.Random(7)
    for index in range(300):
        producer = dice.choice(producers)
        producer.produce(topic, b"i%d" % index, partition=index % 2)
        producer.flush(TIMEOUT)
    producers[0].commit_transaction(TIMEOUT)
    producers[1].abort_transaction(TIMEOUT)
    produce(node, topic, mixture(8, 20, 2))
    producers[2].commit_transaction(TIMEOUT)
    produce_transaction(node, topic, mixture(9, 30, 2), commit=False)


def _compacted(node: KafkaNode, topic: str) -> None:
    """Holes inside batches, whole batches gone, tombstones, and batches nothing was taken from."""
    config = {
        "cleanup.policy": "compact",
        "segment.ms": "200",
        "min.cleanable.dirty.ratio": "0.01",
        "min.compaction.lag.ms": "0",
    }
    create_topic(node, topic, config=config)
    dice = random.Random(5)
    latest: dict[bytes, bytes | None] = {}
    for number in range(12):
        batch = []
        for index in range(30):
            key = b"k%d" % dice.randrange(_KEYS)
            value = None if dice.random() < 0.3 else b"%d.%d" % (number, index)
            latest[key] = value
            batch.append(Out(value, key, timestamp=_now() - 1000 + index))
        produce(node, topic, batch, compression_type=CODECS[number % 5], linger_ms=50)
    untouched = [Out(None if i % 2 else b"u", b"u%d" % i) for i in range(20)]
    produce(node, topic, untouched, linger_ms=50)

    def compacted() -> bool:
        # The segment rolls when something is appended to it and it is old enough.
        produce(node, topic, [Out(b"end", unique_name("end").encode())])
        time.sleep(0.3)
        left = [got for got in read_all(node, topic) if got.key and got.key.startswith(b"k")]
        return len(left) == len(latest)

    eventually(compacted, f"{topic} is compacted")


def _append_time(node: KafkaNode, topic: str) -> None:
    create_topic(node, topic, config={"message.timestamp.type": "LogAppendTime"})
    for seed, codec in enumerate(CODECS):
        produce(node, topic, mixture(seed, 60, 1), compression_type=codec, linger_ms=20)


def _times(node: KafkaNode, topic: str) -> None:
    """As old as they get, from the next half hour, and not in order."""
    create_topic(node, topic, config={"retention.ms": "-1"})
    dice = random.Random(6)
    stamps = [0, 1, 86_400_000, _now() + _HOUR_MS // 2]
    stamps += [dice.randrange(_now()) for _ in range(200)]
    produce(node, topic, [Out(b"%d" % t, timestamp=t or 1) for t in stamps], linger_ms=20)


def _large(node: KafkaNode, topic: str) -> None:
    create_topic(node, topic, config={"max.message.bytes": "4000000"})
    big = random.Random(8).randbytes(3_000_000)
    settings = {"message_max_bytes": 4_000_000}
    produce(node, topic, [b"small", big, b"small", big[:950_000], b"small"], **settings)


def _beheaded(node: KafkaNode, topic: str) -> None:
    """Its head is deleted, in the middle of a batch."""
    create_topic(node, topic)
    produce(node, topic, mixture(10, 300, 1), linger_ms=50)
    delete_before(node, topic, 137)


def _now() -> int:
    return int(time.time() * 1000)


KINDS: dict[str, Make] = {
    "compacted": _compacted,
    "tiny-batches": _tiny_batches,
    "transactions": _transactions,
    "mixed": _mixed,
    "many": _many,
    "empty": _empty,
    "append-time": _append_time,
    "times": _times,
    "large": _large,
    "beheaded": _beheaded,
    **{codec: partial(_codec, codec) for codec in CODECS[1:]},
}
