"""A pipeline of thousands of partitions: start, idle CPU and the delay of a single record.

``python -m bench.growth --partitions 1000 --partitions 5000`` prints a JSON object per step. Three
starts of each, in each ``--mode``: with target topics that exist, with none (the run creates them),
and again after a stop. What a broker takes to create the same topics for a plain client is measured
by itself.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import psutil
import yaml
from confluent_kafka import Consumer, IsolationLevel, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from bench.child import Child
from bench.clusters import (
    Clusters,
    admin,
    delete_topics,
    make_class_archives,
    running,
    wait_for,
)
from bench.growth_report import Growth, report
from bench.model import Launch
from bench.sections import put_section
from k2ktui.runtime.node import KafkaNode

PER_TOPIC = 10
_WATCHED = 20
_START_S = 240.0
_CREATE_S = 240.0
_AT_ONCE = 100
# Laps, discovery and heartbeats repeat within this time.
_SETTLE_S = 12.0
_APART_S = 0.2
_CLIENT_S = 2.0
# Up to so many partitions, a broker with at most 20,000 open files has room for two copies.
_TWICE = 7_000

_Partition = tuple[str, int]


class Measurement:
    """Measures pipelines on two clusters.

    Args:
        clusters: the clusters; their topics are deleted before each size.
        directory: for configuration and logs.
        options: of the command line.
    """

    def __init__(self, clusters: Clusters, directory: Path, options: argparse.Namespace) -> None:
        self._clusters, self._directory, self._options = clusters, directory, options
        self._source = clusters.source.bootstrap
        self._target = clusters.target.bootstrap

    def measure(self, partitions: int, mode: str) -> Growth:
        """Return the figures of one size in one ``coordination.mode``."""
        for node in self._clusters.both:
            _delete(node)
        topics = [f"growth-{number:05}" for number in range(partitions // PER_TOPIC)]
        dice = random.Random(partitions)
        watched = [(dice.choice(topics), dice.randrange(PER_TOPIC)) for _ in range(_WATCHED)]
        create(self._source, topics)
        self._fill(topics)
        create_s = create(self._target, [f"there.{name}" for name in topics])
        _say(event="created", partitions=partitions, mode=mode, create_s=create_s)
        first_s, all_s, again_s = 0.0, 0.0, 0.0
        idle: dict[str, float] = {}
        with self._run(f"there-{mode}-{partitions}", "there.", mode) as child:
            first_s, all_s = self._await_records(child, "there.", watched)
            cpu_s = child.meter.cpu_at(child.started + first_s)
            _say(event="first", first_s=first_s, all_s=all_s, cpu_s=cpu_s)
            time.sleep(_SETTLE_S)
            idle, brokers = self._idle(child)
            _say(event="idle", percent=idle, brokers=brokers)
            delays = single_delays(self._clusters, "there.", watched, self._options.delay_seconds)
            _say(event="delays", ms=delays)
            rss_mb = psutil_rss(child)
        before = self._ends("there.", watched)
        self._produce(watched[0])
        with self._run(f"there-{mode}-{partitions}", "there.", mode) as child:
            again_s, _ = self._await_records(child, "there.", watched[:1], before)
            _say(event="first again", first_s=again_s)
        if partitions > _TWICE:
            _delete(self._clusters.target, "there.")
        with self._run(f"new-{mode}-{partitions}", "new.", mode) as child:
            created_s, _ = self._await_records(child, "new.", watched)
            _say(event="first with creation", first_s=created_s)
        return Growth(
            partitions,
            create_s,
            first_s,
            all_s,
            created_s,
            again_s,
            cpu_s,
            idle,
            brokers,
            delays,
            rss_mb,
            mode,
        )

    def _run(self, name: str, prefix: str, mode: str) -> Child:
        directory = self._directory / name
        directory.mkdir(exist_ok=True)
        file = directory / "pipeline.yaml"
        text = yaml.safe_dump(self._pipeline(name, prefix, mode), sort_keys=False)
        file.write_text(text)
        command = (sys.executable, "-m", "k2ktui", "start", "-f", str(file), "--log-format", "json")
        return Child(Launch(command, prefix, text, ends=False), directory)

    def _pipeline(self, name: str, prefix: str, mode: str) -> dict[str, object]:
        return {
            "name": name,
            "coordination": {"mode": mode},
            "features": {"autoCreateControlTopics": "enabled"},
            "topicCreation": {"control": {"common": {"replication": 1}}},
            "source": {"kafka": {"common": {"bootstrap.servers": self._source}}},
            "target": {"kafka": {"common": {"bootstrap.servers": self._target}}},
            "replication": [
                {"source": {"topic": "growth-.*"}},
                {"sink": {"topic": {"prefix": prefix}, "partition": "source"}},
            ],
        }

    def _fill(self, topics: Sequence[str]) -> None:
        """Write a record to every partition."""
        producer = Producer({"bootstrap.servers": self._source, "log_level": 3, "linger.ms": 50})
        for name in topics:
            for partition in range(PER_TOPIC):
                producer.produce(name, b"first", partition=partition)
            producer.poll(0)
        producer.flush(_CREATE_S)

    def _produce(self, where: _Partition) -> None:
        producer = Producer({"bootstrap.servers": self._source, "log_level": 3})
        producer.produce(where[0], b"again", partition=where[1])
        producer.flush(30.0)

    def _ends(self, prefix: str, where: Sequence[_Partition]) -> dict[_Partition, int]:
        return ends(admin(self._target), prefix, where)

    def _await_records(
        self,
        child: Child,
        prefix: str,
        where: Sequence[_Partition],
        before: dict[_Partition, int] | None = None,
    ) -> tuple[float, float]:
        """Return the seconds from the start until the first and the last partition has grown."""
        client, renew_at, first_s = admin(self._target), _CLIENT_S, 0.0
        while (now_s := time.monotonic() - child.started) < _START_S:
            if now_s > renew_at:  # what a client did not find, it may not look for again
                client, renew_at = admin(self._target), now_s + _CLIENT_S
            ends_now = ends(client, prefix, where)
            grown = [at for at, end in ends_now.items() if end > (before or {}).get(at, 0)]
            if grown and not first_s:
                first_s = now_s
            if len(grown) == len(set(where)):
                return first_s, now_s
            if child.exit_code is not None:
                break
            time.sleep(0.1)
        raise TimeoutError(f"not all records were copied:\n{child.tail()}")

    def _idle(self, child: Child) -> tuple[dict[str, float], float]:
        """Return the CPU use of the run, by kind of process, and of both brokers, in percent."""
        processes = run_processes(child)
        brokers = [find_broker(node.data_dir) for node in self._clusters.both]
        before, of_brokers = _cpu_by_kind(processes), _cpu(brokers)
        began = time.monotonic()
        time.sleep(self._options.idle)
        seconds = time.monotonic() - began
        after = _cpu_by_kind(processes)
        idle = {kind: 100 * (cpu - before[kind]) / seconds for kind, cpu in after.items()}
        return idle, 100 * (_cpu(brokers) - of_brokers) / seconds


def single_delays(
    clusters: Clusters, prefix: str, where: Sequence[_Partition], seconds: float
) -> tuple[float, float, float]:
    """Write single records to the source; return median, 99 % and largest delay, in ms.

    Raises:
        TimeoutError: one of them did not become visible.
    """
    where = sorted(set(where))
    consumer = Consumer(
        {
            "bootstrap.servers": clusters.target.bootstrap,
            "log_level": 3,
            "group.id": "bench-growth",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 10,
        }
    )
    producer = Producer(
        {"bootstrap.servers": clusters.source.bootstrap, "log_level": 3, "linger.ms": 0}
    )
    delays: list[float] = []
    try:
        ends_now = ends(admin(clusters.target.bootstrap), prefix, where)
        consumer.assign([TopicPartition(prefix + t, p, ends_now[t, p]) for t, p in where])
        until = time.monotonic() + seconds
        number = 0
        while time.monotonic() < until:
            topic, partition = where[number % len(where)]
            producer.produce(topic, str(time.time_ns()).encode(), partition=partition)
            producer.flush(10.0)
            number += 1
            again = time.monotonic() + _APART_S
            while (left := again - time.monotonic()) > 0:
                delays += _read(consumer, left)
        end = time.monotonic() + 30.0
        while len(delays) < number and time.monotonic() < end:
            delays += _read(consumer, 0.5)
    finally:
        consumer.close()
    if len(delays) < number:
        raise TimeoutError(f"{number - len(delays)} of {number} single records did not arrive")
    ordered = sorted(delays)
    return statistics.median(ordered), ordered[int(0.99 * len(ordered))], ordered[-1]


def _delete(node: KafkaNode, prefix: str = "") -> None:
    """Delete a broker's topics with a prefix, and wait until their files are gone: it is idle."""
    delete_topics(node.bootstrap, prefix=prefix)
    what = "the files of deleted topics are gone"
    wait_for(lambda: not any(node.data_dir.rglob("*-delete")), what, _CREATE_S)


def create(bootstrap: str, topics: Sequence[str]) -> float:
    """Create topics and wait for their leaders; return the seconds that it took."""
    client, began = admin(bootstrap), time.monotonic()
    for at in range(0, len(topics), _AT_ONCE):
        wanted = [NewTopic(name, PER_TOPIC, 1) for name in topics[at : at + _AT_ONCE]]
        for future in client.create_topics(wanted, request_timeout=_CREATE_S).values():
            future.result(_CREATE_S)
    while True:
        existing = client.list_topics(timeout=_CREATE_S).topics
        led = [
            name
            for name in topics
            if name in existing and sum(p.leader >= 0 for p in existing[name].partitions.values())
        ]
        if len(led) == len(topics):
            return time.monotonic() - began
        time.sleep(0.1)


def ends(client: AdminClient, prefix: str, where: Sequence[_Partition]) -> dict[_Partition, int]:
    """Return last stable offsets; 0 where there is no such partition yet."""
    asked = {TopicPartition(prefix + topic, p): OffsetSpec.latest() for topic, p in where}
    futures = client.list_offsets(
        asked, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=5.0
    )
    end_offsets = {}
    for at, future in futures.items():
        try:
            end = int(future.result(10.0).offset)
        except KafkaException:
            end = 0
        end_offsets[at.topic.removeprefix(prefix), at.partition] = max(0, end)
    return end_offsets


def find_broker(directory: Path) -> psutil.Process:
    """Return the Java process of the broker whose files are in a directory."""
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        is_broker = "java" in process.name() and "kafka.Kafka" in words
        if is_broker and words[-1].startswith(str(directory)):
            return process
    raise LookupError(f"no broker of {directory.name}")


def run_processes(child: Child) -> list[psutil.Process]:
    """Return the processes of a run: its driver, Spark's Java process, the Python workers."""
    driver = psutil.Process(child.pid)
    return [driver, *driver.children(recursive=True)]


def find_cpu(child: Child) -> float:
    """Return the CPU seconds of a run so far, of all its processes that live."""
    return _cpu(run_processes(child))


def psutil_rss(child: Child) -> float:
    """Return the resident memory of a run, in MB."""
    return sum(process.memory_info().rss for process in run_processes(child)) / 1e6


def _read(consumer: Consumer, seconds: float) -> list[float]:
    message = consumer.poll(seconds)
    if message is None or message.error():
        return []
    return [(time.time_ns() - int(message.value())) / 1e6]


def _cpu(processes: Sequence[psutil.Process]) -> float:
    return sum(sum(process.cpu_times()[:2]) for process in processes)


def _cpu_by_kind(processes: Sequence[psutil.Process]) -> dict[str, float]:
    seconds: dict[str, float] = {}
    for index, process in enumerate(processes):
        kind = "driver" if not index else "Java" if "java" in process.name() else "workers"
        seconds[kind] = seconds.get(kind, 0.0) + _cpu([process])
    return seconds


def _say(**what: object) -> None:
    print(json.dumps({"at": time.strftime("%H:%M:%S"), **what}, default=str), flush=True)


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, and put the section into RESULTS.md if asked to; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.growth", description=__doc__)
    add = parser.add_argument
    add("--partitions", type=int, action="append", help="a size, a multiple of 10; can be repeated")
    add(
        "--mode",
        choices=("shared", "standby", "exclusive"),
        action="append",
        help="coordination.mode, shared unless given; can be repeated",
    )
    add("--idle", type=float, default=60.0, metavar="SECONDS", help="how long idle CPU is measured")
    add(
        "--delay-seconds",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="how long single records",
    )
    add("--heap", default="1g", help="Java heap of each broker")
    add("--data", type=Path, help="directory for the clusters' data; removed at the end")
    add("--keep", action="store_true", help="write the figures to RESULTS.md")
    options = parser.parse_args(arguments)
    directory = Path(tempfile.mkdtemp(prefix="k2ktui-growth-", dir=options.data))
    try:
        make_class_archives()
        with running(directory, options.heap) as clusters:
            measurement = Measurement(clusters, directory / "runs", options)
            (directory / "runs").mkdir()
            results = []
            modes = options.mode or ["shared"]
            for partitions, mode in itertools.product(options.partitions or [1_000, 5_000], modes):
                results.append(measurement.measure(partitions, mode))
                _say(event="measured", **asdict(results[-1]))
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    text = report(results)
    print(text)
    if options.keep:
        put_section(Path(__file__).parent / "RESULTS.md", "growth", text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
