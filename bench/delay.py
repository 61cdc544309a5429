"""Delay from produce to visible, at a steady rate, for a read_committed reader of the target.

The producer runs in a process of its own and writes its clock into each value; the reader compares
it with the clock of the same machine when the record is handed to it.
"""

from __future__ import annotations

import multiprocessing
import struct
import time
from dataclasses import dataclass, replace
from multiprocessing.synchronize import Event
from pathlib import Path

import numpy as np
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from bench import orders, payments
from bench.child import Child
from bench.clusters import Clusters, admin, create_topic, end_offsets, led_partitions, wait_for
from bench.load import key_of, pool
from bench.model import KEY_BYTES, Contender, DelayResult, Job

_CLOCK = struct.Struct(">QQ")  # sequence number, nanoseconds since 1970
_TICK_SECONDS = 0.002
_TAIL_SECONDS = 10.0
_CAUGHT_UP_MS = 2000.0


@dataclass(frozen=True, slots=True)
class Steady:
    """The load: ``rate`` records a second, measured for ``seconds``.

    Records have ``size`` bytes; those of contenders that transform are payments of ``json_size``
    bytes, all of which are kept.

    ``warm_up`` seconds before that count from when the copy appears on the target. Neither its
    appearance nor catching up takes longer than ``start_timeout`` seconds.
    """

    rate: int = 5000
    size: int = 100
    json_size: int = 200
    partitions: int = 4
    seconds: float = 30.0
    warm_up: float = 20.0
    start_timeout: float = 90.0


def delay(
    clusters: Clusters,
    contender: Contender,
    steady: Steady,
    run: str,
    directory: Path,
    registries: orders.Registries | None = None,
) -> tuple[DelayResult, str]:
    """Run ``contender`` over a steadily growing topic; return its delays and its configuration.

    With registries, values begin with a schema id of the source's, which is mapped.
    """
    directory.mkdir(parents=True)
    topic = f"bench-delay-{run}"
    addresses = (clusters.source.bootstrap, clusters.target.bootstrap)
    job = Job(run, *addresses, topic, directory, steady=True, registries=registries)
    head = b"" if registries is None else orders.prefix(registries.register(topic))
    create_topic(job.source, topic, steady.partitions)
    launch = contender.prepare(job)
    blank = DelayResult(contender.key, steady.rate, steady.seconds, steady.partitions)
    context = multiprocessing.get_context("spawn")
    enough = context.Event()
    load = (job.source, topic, steady, enough, contender.transforms, head)
    producer = context.Process(target=produce_steadily, args=load)
    producer.start()
    try:
        with Child(launch, directory) as child:
            try:
                _await_start(job.target, launch.target_topic, steady)
                result = _measure(job.target, launch.target_topic, steady, blank, child, len(head))
                return result, launch.config
            except (KafkaException, TimeoutError) as failure:
                return replace(blank, error=f"{failure}\n{child.tail()}"), launch.config
    finally:
        enough.set()
        producer.join(_TAIL_SECONDS)
        if producer.is_alive():
            producer.kill()


def produce_steadily(
    bootstrap: str, topic: str, steady: Steady, enough: Event, as_json: bool, head: bytes
) -> None:
    """Produce at the rate until ``enough``; runs in a process of its own."""
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 3, "linger.ms": 1})
    padding = pool()[: steady.size - KEY_BYTES - _CLOCK.size - len(head)]
    text, json_size = pool()[: steady.json_size], steady.json_size - KEY_BYTES
    started = time.monotonic()
    number = 0
    while not enough.is_set():
        due = int((time.monotonic() - started) * steady.rate)
        while number < due:
            now = time.time_ns()
            value = (
                payments.payment(number, 1 + number % 4, now, json_size, text)
                if as_json
                else head + _CLOCK.pack(number, now) + padding
            )
            producer.produce(topic, value, key_of(number), partition=number % steady.partitions)
            number += 1
        producer.poll(0)
        time.sleep(_TICK_SECONDS)
    producer.flush(5.0)


def _await_start(bootstrap: str, topic: str, steady: Steady) -> None:
    client = admin(bootstrap)
    timeout = steady.start_timeout
    wait_for(lambda: led_partitions(client, topic) == steady.partitions, f"{topic} exists", timeout)

    def flows() -> bool:
        try:
            return all(end_offsets(client, topic, steady.partitions))
        except KafkaException:
            return False  # just created, and not everywhere known

    wait_for(flows, f"every partition of {topic} has records", timeout)


def _measure(
    bootstrap: str, topic: str, steady: Steady, blank: DelayResult, child: Child, head: int
) -> DelayResult:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "log_level": 3,
            "group.id": "bench-delay",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 10,
        }
    )
    try:
        ends = enumerate(end_offsets(bootstrap, topic, steady.partitions))
        consumer.assign([TopicPartition(topic, number, end) for number, end in ends])
        _warm_up(consumer, steady, head)
        begun, cpu = time.monotonic(), child.meter
        numbers, delays = read_until(consumer, begun + steady.seconds, head)
        ended = time.monotonic()
    finally:
        consumer.close()
    if not len(delays):
        return replace(blank, error=f"No record came within {steady.seconds:g} s.")
    p50, p90, p99 = np.percentile(delays, [50, 90, 99])
    return replace(
        blank,
        records=len(delays),
        expected=_expected(numbers, steady.partitions),
        p50_ms=float(p50),
        p90_ms=float(p90),
        p99_ms=float(p99),
        max_ms=float(delays.max()),
        cpu=(cpu.cpu_at(ended) - cpu.cpu_at(begun)) / (ended - begun),
    )


def _warm_up(consumer: Consumer, steady: Steady, head: int) -> None:
    """Read for the warm-up, and on until what piled up before the start is copied too."""
    read_until(consumer, time.monotonic() + steady.warm_up, head)
    deadline = time.monotonic() + steady.start_timeout
    while time.monotonic() < deadline:
        _, delays = read_until(consumer, time.monotonic() + 1.0, head)
        if len(delays) and np.median(delays) < _CAUGHT_UP_MS:
            return


def _expected(numbers: np.ndarray, partitions: int) -> int:
    """How many records lie between the first and the last that came, partition by partition."""
    parts = (numbers[numbers % partitions == number] for number in range(partitions))
    return sum(int(one.max() - one.min()) // partitions + 1 for one in parts if len(one))


def read_until(consumer: Consumer, deadline: float, head: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the sequence numbers of the records that came, and their delays in milliseconds.

    ``head`` is the number of bytes before the clock.
    """
    numbers: list[int] = []
    delays: list[float] = []
    while time.monotonic() < deadline:
        message = consumer.poll(0.1)
        if message is None or message.error():
            continue
        value = message.value()
        is_json = value[:1] == b"{"
        number, produced = payments.clock_of(value) if is_json else _CLOCK.unpack_from(value, head)
        numbers.append(number)
        delays.append((time.time_ns() - produced) / 1e6)
    return np.array(numbers, dtype=np.int64), np.array(delays)
