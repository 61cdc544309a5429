"""The two brokers, and what the benchmark asks of them from outside."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from k2ktui.replication.spark.archive import ARCHIVE_MAKER as SPARK_MAKER
from k2ktui.replication.spark.archive import TRANSFORM_ARCHIVE_MAKER
from k2ktui.runtime.class_archive import USE, VARIABLE
from k2ktui.runtime.node import ARCHIVE_MAKER as BROKER_MAKER
from k2ktui.runtime.node import KafkaNode

# What Kafka's own start script gives a broker, instead of the options that only start fast.
_JVM = (
    "-XX:TieredStopAtLevel=4",
    "-XX:-UseSerialGC",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
)
# Kafka's defaults where KafkaNode has smaller numbers, and early deletion of copied topics.
_PROPERTIES = {
    "num.network.threads": "3",
    "num.io.threads": "8",
    "background.threads": "10",
    "log.segment.delete.delay.ms": "1000",
}
_INTERNAL = ("__consumer_offsets", "__transaction_state", "__share_group_state")
_TIMEOUT = 30.0
# A broker deletes thousands of partitions.
_DELETE_S = 120.0


@dataclass(frozen=True, slots=True)
class Clusters:
    """Two running one-node clusters."""

    source: KafkaNode
    target: KafkaNode

    @property
    def both(self) -> tuple[KafkaNode, KafkaNode]:
        """Source, then target."""
        return self.source, self.target


def make_class_archives() -> None:
    """Make the archives with which Kafka and Spark start: none is made beside a measurement."""
    os.environ.setdefault(VARIABLE, USE)
    for module in (BROKER_MAKER, SPARK_MAKER, TRANSFORM_ARCHIVE_MAKER):
        subprocess.run([sys.executable, "-m", module], check=True)


@contextlib.contextmanager
def running(directory: Path, heap: str) -> Iterator[Clusters]:
    """Start both clusters on loopback with ``heap`` (as for -Xmx) each; stop them at the end."""
    nodes = [
        KafkaNode(name, directory / name, _PROPERTIES, heap=heap, jvm=(*_JVM, f"-Xms{heap}"))
        for name in ("source", "target")
    ]
    try:
        with ThreadPoolExecutor(len(nodes)) as pool:
            list(pool.map(KafkaNode.start, nodes))
        yield Clusters(*nodes)
    finally:
        for node in nodes:
            node.close()


def admin(bootstrap: str) -> AdminClient:
    """Return an admin client that keeps quiet about brokers that stop."""
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})


def create_topic(bootstrap: str, name: str, partitions: int) -> None:
    """Create a topic and wait until all its partitions have leaders."""
    client = admin(bootstrap)
    client.create_topics([NewTopic(name, partitions, 1)])[name].result(_TIMEOUT)
    wait_for(lambda: led_partitions(client, name) == partitions, f"leaders of {name}", _TIMEOUT)


def led_partitions(client: AdminClient, topic: str) -> int:
    """Return how many partitions of ``topic`` have a leader; 0 when there is no such topic."""
    try:
        metadata = client.list_topics(topic, timeout=_TIMEOUT).topics[topic]
    except KafkaException:
        return 0
    if metadata.error is not None:
        return 0
    return sum(1 for partition in metadata.partitions.values() if partition.leader >= 0)


def end_offsets(bootstrap: str | AdminClient, topic: str, partitions: int) -> tuple[int, ...]:
    """Return the last stable offset of each partition: what a read_committed reader may reach.

    Raises:
        KafkaException: the broker does not answer for one of them.
    """
    client = admin(bootstrap) if isinstance(bootstrap, str) else bootstrap
    asked = {TopicPartition(topic, number): OffsetSpec.latest() for number in range(partitions)}
    futures = client.list_offsets(
        asked, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=_TIMEOUT
    )
    return tuple(int(future.result(_TIMEOUT).offset) for future in futures.values())


def delete_topics(bootstrap: str, *, but: tuple[str, ...] = (), prefix: str = "") -> None:
    """Delete every topic with a prefix, and wait until they are gone.

    Kafka's internal ones and ``but`` are kept.
    """
    client = admin(bootstrap)

    def others() -> list[str]:
        return [
            name
            for name in client.list_topics(timeout=_TIMEOUT).topics
            if name.startswith(prefix) and name not in _INTERNAL and name not in but
        ]

    names = others()
    if names:
        for future in client.delete_topics(names).values():
            with contextlib.suppress(KafkaException):
                future.result(_DELETE_S)
        wait_for(lambda: not others(), "topics are deleted", _DELETE_S)


def wait_for(condition: Callable[[], bool], what: str, timeout: float) -> None:
    """Wait until ``condition`` holds.

    Raises:
        TimeoutError: it does not within ``timeout`` seconds.
    """
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {timeout:g} s: {what}")
        time.sleep(0.05)
