"""Fill a source topic fast: several processes, each with its share of the sequence numbers.

Record number n is always the same: its key is eight hexadecimal digits scattered over n, its value
begins with n in eight bytes and continues with text from a fixed pool of words and random digits,
which lz4 makes about half as large.
"""

from __future__ import annotations

import functools
import itertools
import multiprocessing
import random
import struct
import subprocess
from dataclasses import dataclass

from confluent_kafka import Producer

from bench import orders, payments
from bench.clusters import create_topic, end_offsets
from bench.model import KEY_BYTES, DataSet
from k2ktui.runtime import artifacts
from k2ktui.runtime.java import find_java

_SEQUENCE = struct.Struct(">Q")
_POOL_BYTES = 1 << 20
_WORDS = 200
_PLAIN_SHARE = 0.9
_CHUNK = 2000
_SCATTER = 2654435761  # Knuth's multiplier: odd, so that n -> n * it is one-to-one below 2**32
_FLUSH_SECONDS = 120.0
_TOOLS = f"org.apache.kafka:kafka-tools:{artifacts.KAFKA_VERSION}"
_PERF_TEST = "org.apache.kafka.tools.ProducerPerformance"
_SINCE_NS = 1_700_000_000_000_000_000


@dataclass(frozen=True, slots=True)
class Share:
    """What one loader process does: the sequence numbers from ``first`` to before ``last``."""

    bootstrap: str
    data: DataSet
    first: int
    last: int
    schema_id: int = 0


@functools.cache
def pool() -> bytes:
    """Return the text that values are cut from."""
    chance = random.Random(20)
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["".join(chance.choices(letters, k=chance.randint(3, 9))) for _ in range(_WORDS)]
    parts: list[str] = []
    length = 0
    while length < _POOL_BYTES + (1 << 16):
        part = (
            chance.choice(words)
            if chance.random() < _PLAIN_SHARE
            else f"{chance.getrandbits(32):x}"
        )
        parts.append(part)
        length += len(part) + 1
    return " ".join(parts).encode()


def key_of(number: int) -> bytes:
    """Return the key of record ``number``."""
    return b"%08x" % (number * _SCATTER & 0xFFFFFFFF)


def value_of(number: int, size: int) -> bytes:
    """Return the value of record ``number`` in a data set of ``size`` bytes a record."""
    length = size - KEY_BYTES - _SEQUENCE.size
    start = number * 7919 % _POOL_BYTES
    return _SEQUENCE.pack(number) + pool()[start : start + length]


def payment_of(number: int, size: int) -> bytes:
    """Return the value of record ``number`` in a data set of payments."""
    start = number * 7919 % _POOL_BYTES
    text, at = pool()[start : start + size], _SINCE_NS + number
    return payments.payment(number, payments.amount_of(number), at, size - KEY_BYTES, text)


def order_of(number: int, size: int, schema_id: int) -> bytes:
    """Return the value of record ``number`` in a data set of orders."""
    start = number * 7919 % _POOL_BYTES
    text, length = pool()[start : start + size], size - KEY_BYTES - orders.ID_BYTES
    return orders.prefix(schema_id) + orders.order(_SEQUENCE.pack(number), text, length)


def load(bootstrap: str, data: DataSet, *, processes: int, schema_id: int = 0) -> None:
    """Create the topic of ``data`` and fill it; orders have the schema id.

    Raises:
        RuntimeError: the topic does not hold exactly the records of ``data`` afterwards.
    """
    create_topic(bootstrap, data.topic, data.partitions)
    if data.values == "perf":
        _run_perf_test(bootstrap, data)
    else:
        _fill_all(bootstrap, data, processes, schema_id)
    count = sum(end_offsets(bootstrap, data.topic, data.partitions))
    if count != data.records:
        raise RuntimeError(f"{data.topic} holds {count} records instead of {data.records}")


def _run_perf_test(bootstrap: str, data: DataSet) -> None:
    """Let Kafka's own tool produce with the defaults of Kafka's producer."""
    command = perf_test(bootstrap, data.topic, data.records, data.size, data.batch_kib)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"kafka-producer-perf-test failed:\n{done.stdout}{done.stderr}")


def perf_test(
    bootstrap: str, topic: str, records: int, size: int, batch_kib: int = 16, rate: int = -1
) -> list[str]:
    """Return the command of Kafka's own tool; ``rate`` is in records/s, -1 for no limit."""
    jars = artifacts.classpath(_TOOLS, artifacts.LOGGING)
    options = {
        "--bootstrap-server": bootstrap,
        "--topic": topic,
        "--num-records": records,
        "--record-size": size,
        "--throughput": rate,
        # Kafka's defaults, in words: batch.size and no compression; linger.ms is left as it is.
        "--command-property": f"batch.size={batch_kib << 10}",
    }
    words = [str(word) for option in options.items() for word in option]
    return [str(find_java().executable), "-Xmx512m", "-cp", jars.argument, _PERF_TEST, *words]


def _fill_all(bootstrap: str, data: DataSet, processes: int, schema_id: int) -> None:
    bounds = [data.records * number // processes for number in range(processes + 1)]
    shares = [
        Share(bootstrap, data, first, last, schema_id) for first, last in itertools.pairwise(bounds)
    ]
    # Spawned, not forked: this process has threads of librdkafka.
    with multiprocessing.get_context("spawn").Pool(processes) as workers:
        workers.map(fill, shares, chunksize=1)


def fill(share: Share) -> None:
    """Produce one share; runs in a process of its own."""
    data = share.data
    producer = Producer(
        {
            "bootstrap.servers": share.bootstrap,
            "log_level": 3,
            "enable.idempotence": True,  # a retry must not load a record twice
            "partitioner": "murmur2_random",  # as Java's, so that partition: producer is the same
            "compression.type": data.codec,
            "batch.size": data.batch_kib << 10,
            "batch.num.messages": 1_000_000,
            "linger.ms": 200,
            "queue.buffering.max.messages": 500_000,
            "queue.buffering.max.kbytes": 512 << 10,
        }
    )
    for start in range(share.first, share.last, _CHUNK):
        numbers = range(start, min(start + _CHUNK, share.last))
        value = payment_of if data.values == "json" else value_of
        if data.values == "schemas":
            value = functools.partial(order_of, schema_id=share.schema_id)
        _send(producer, data.topic, [(key_of(n), value(n, data.size)) for n in numbers])
    if producer.flush(_FLUSH_SECONDS):
        raise RuntimeError(f"{data.topic}: not everything was acknowledged")


def _send(producer: Producer, topic: str, records: list[tuple[bytes, bytes]]) -> None:
    left = [{"key": key, "value": value} for key, value in records]
    while left:
        producer.produce_batch(topic, left)
        left = [message for message in left if message.pop("_error", None)]
        producer.poll(0.05 if left else 0)
