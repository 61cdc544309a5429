"""Where the delay of a steady load goes: ``python -m bench.delay_timeline``.

One slot copies what a producer writes at a steady rate, exactly once, on a thread of this process
instead of in Spark, as ``bench.functions`` does. Each step of its transactions is timed. Brokers,
the producer and a reader of the target are other processes.
"""

# ruff: noqa: SLF001 - it times the steps from outside

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Event
from pathlib import Path
from time import monotonic
from typing import Any
from unittest import mock

import numpy as np
from confluent_kafka import Consumer, TopicPartition

from bench.clusters import (
    Clusters,
    admin,
    create_topic,
    end_offsets,
    led_partitions,
    running,
    wait_for,
)
from bench.delay import Steady, produce_steadily, read_until
from bench.functions import OneThread, run_with
from bench.model import Job
from bench.ours import K2ktui
from k2ktui.config.load import load as load_config
from k2ktui.kafka.properties.translation import wire
from k2ktui.kafka.wire import transactions
from k2ktui.kafka.wire.codes import Code
from k2ktui.replication.copying.batch_sender import BatchSender
from k2ktui.replication.copying.partition_reader import PartitionReader
from k2ktui.replication.copying.slot_task import SlotResult, SlotTask
from k2ktui.replication.copying.source_fetcher import SourceFetcher
from k2ktui.replication.copying.transaction_writer import TransactionWriter
from k2ktui.runtime.stop_flag import StopFlag

Slice = tuple[float, np.ndarray]
_SLICE_S = 0.25
_LAP_START_S = 0.5

STEPS = (
    ("committed", "dispatched", "first batch after the commit before"),
    ("dispatched", "joined", "AddPartitionsToTxn, retries included"),
    ("joined", "acknowledged", "records acknowledged"),
    ("acknowledged", "committing", "until the commit is due"),
    ("committing", "state", "state records acknowledged"),
    ("state", "ended", "EndTxn"),
    ("committed", "ended", "whole transaction, from one commit to the next"),
)


@dataclass
class Timeline:
    """The steps of one lap's transactions, in monotonic seconds."""

    steps: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    counts: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    _at: dict[str, float] = field(default_factory=dict)

    def begin(self) -> None:
        """Begin another lap."""
        self._at = {}

    def mark(self, step: str, *, first: bool = False) -> None:
        """Note that a step is over; ``first``: unless it has been noted in this transaction."""
        if not first or step not in self._at:
            self._at[step] = monotonic()

    def end(self) -> None:
        """Count a transaction."""
        self.mark("ended")
        for begin, end, _ in STEPS:
            if begin in self._at and end in self._at:
                self.steps[f"{begin}-{end}"].append(self._at[end] - self._at[begin])
        self.counts["transactions"] += 1
        self._at = {"committed": self._at["ended"]}


class TimedLaps(OneThread):
    """Laps on one thread, each with a timeline.

    Args:
        options: connection options of the source and of the target.
        name_lap: called with the number of a lap before it begins; returns what to file it under.
    """

    def __init__(
        self, options: tuple[dict[str, Any], dict[str, Any]], name_lap: Callable[[int], str]
    ) -> None:
        super().__init__(options, None)
        self._name_lap = name_lap
        self.timelines: dict[str, Timeline] = {}
        self.spans: list[tuple[str, float, float]] = []
        self.samples: list[Slice] = []
        self.cpu: dict[str, float] = defaultdict(float)

    def _run(self, tasks: tuple[SlotTask, ...]) -> list[SlotResult]:
        name = self._name_lap(len(self.spans))
        began, cpu = time.time(), self.user + self.system
        with timed(self.timelines.setdefault(name, Timeline())):
            results = super()._run(tasks)
        self.spans.append((name, began, time.time()))
        self.cpu[name] += self.user + self.system - cpu
        return results


@contextmanager
def timed(line: Timeline) -> Iterator[None]:
    """Note the steps of the laps that run meanwhile."""
    line.begin()
    fetcher, pause = SourceFetcher, transactions._retry_or_raise
    laps = TransactionWriter
    join, commit, record = laps._join, laps.commit, PartitionReader.acknowledge
    fetch, answer, drain = fetcher._fetch, fetcher._handle_response, BatchSender.drain

    async def timed_join(self: TransactionWriter) -> None:
        line.mark("dispatched", first=True)
        await join(self)
        line.mark("joined", first=True)

    def timed_record(self: PartitionReader, outgoing: Any, base: int) -> None:
        line.mark("acknowledged")
        record(self, outgoing, base)

    async def timed_drain(self: BatchSender) -> None:
        await drain(self)
        line.mark("state")

    async def timed_commit(self: TransactionWriter, dirty: Any) -> None:
        line.mark("committing")
        await commit(self, dirty)
        line.end()

    def timed_fetch(self: SourceFetcher, *arguments: Any) -> None:
        line.counts["fetches"] += 1
        fetch(self, *arguments)

    def timed_answer(self: SourceFetcher, *arguments: Any) -> None:
        before = self.buffered
        answer(self, *arguments)
        line.counts["answers with records"] += self.buffered > before

    async def timed_pause(wire: Any, producer: Any, code: int, request: str, until: float) -> None:
        if code == Code.CONCURRENT_TRANSACTIONS:
            line.counts["refused: the transaction before is not complete"] += 1
        await pause(wire, producer, code, request, until)

    with (
        mock.patch.object(laps, "_join", timed_join),
        mock.patch.object(laps, "commit", timed_commit),
        mock.patch.object(PartitionReader, "acknowledge", timed_record),
        mock.patch.object(BatchSender, "drain", timed_drain),
        mock.patch.object(fetcher, "_fetch", timed_fetch),
        mock.patch.object(fetcher, "_handle_response", timed_answer),
        mock.patch.object(transactions, "_retry_or_raise", timed_pause),
    ):
        yield


def _read(bootstrap: str, topic: str, partitions: int, enough: Event, slices: Queue[Slice]) -> None:
    """Read what becomes visible until ``enough``; runs in a process of its own."""
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
    ends = enumerate(end_offsets(bootstrap, topic, partitions))
    consumer.assign([TopicPartition(topic, number, end) for number, end in ends])
    try:
        while not enough.is_set():
            _, delays = read_until(consumer, monotonic() + _SLICE_S, 0)
            slices.put((time.time(), delays))
    finally:
        consumer.close()


def measure(
    clusters: Clusters,
    steady: Steady,
    directory: Path,
    name_lap: Callable[[int], str] = lambda number: "",
) -> TimedLaps:
    """Copy for the time of the load; return the laps, with timelines."""
    topic = "delay"
    job = Job("line", clusters.source.bootstrap, clusters.target.bootstrap, topic, directory)
    create_topic(job.source, topic, steady.partitions)
    contender = K2ktui("k2ktui", "", spark={"slots": 1, "lap": "5 seconds"})
    launch = contender.prepare(job)
    config = load_config([directory / "pipeline.yaml"]).config
    laps = TimedLaps((wire(config.source, "consumer"), wire(config.target, "producer")), name_lap)
    context = multiprocessing.get_context("spawn")
    enough, stop = context.Event(), StopFlag()
    slices: Queue[Slice] = context.Queue()
    producer = context.Process(
        target=produce_steadily, args=(job.source, topic, steady, enough, False, b"")
    )
    copying = threading.Thread(
        target=run_with, args=(config, laps, stop), kwargs={"until_caught_up": False}
    )
    producer.start()
    copying.start()
    client = admin(job.target)
    wait_for(
        lambda: led_partitions(client, launch.target_topic) == steady.partitions, "the copy", 60.0
    )
    reader = context.Process(
        target=_read,
        args=(job.target, launch.target_topic, steady.partitions, enough, slices),
    )
    time.sleep(steady.warm_up)
    reader.start()
    until = monotonic() + steady.seconds
    try:
        while monotonic() < until:
            laps.samples.append(slices.get(timeout=30.0))
    finally:
        stop.set()
        copying.join(30.0)
        enough.set()
        laps.close()
        for process in (producer, reader):
            process.join(5.0)
            process.kill()
    return laps


def report(laps: TimedLaps) -> str:
    """Return a table for each name of laps: medians and p99 of delays and steps."""
    lines = []
    for name, line in laps.timelines.items():
        spans = [(a, b) for span, a, b in laps.spans if span == name]
        delays = [
            sample
            for at, sample in laps.samples
            if any(a + _LAP_START_S + _SLICE_S < at < b for a, b in spans)
        ]
        together = np.concatenate(delays) if delays else np.array([np.nan])
        seconds = sum(b - a for a, b in spans)
        lines += [
            f"## {name}" if name else "",
            f"{len(together)} records, {line.counts['transactions']} transactions, "
            f"{laps.cpu[name] / seconds:.3f} of a core",
            "",
            "| step | median, ms | p99, ms |",
            "|---|---|---|",
            _row("produced until visible", together),
            *(
                _row(meaning, np.array(step_seconds) * 1000)
                for begin, end, meaning in STEPS
                if (step_seconds := line.steps.get(f"{begin}-{end}"))
            ),
            "",
            *(
                f"{what} for each transaction: {count / line.counts['transactions']:.2f}  "
                for what, count in sorted(line.counts.items())
                if what != "transactions"
            ),
        ]
    return "\n".join(lines)


def _row(what: str, seconds: np.ndarray) -> str:
    p50, p99 = np.percentile(seconds, [50, 99])
    return f"| {what} | {p50:.1f} | {p99:.1f} |"


def main(arguments: list[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.delay_timeline", description=__doc__)
    parser.add_argument("--rate", type=int, default=5000, help="records a second")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--heap", default="1g", help="Java heap of each broker")
    options = parser.parse_args(arguments)
    with (
        tempfile.TemporaryDirectory(prefix="k2ktui-delay-") as name,
        running(Path(name), options.heap) as clusters,
    ):
        steady = Steady(options.rate, seconds=options.seconds, warm_up=10.0)
        directory = Path(name, "run")
        directory.mkdir()
        print(report(measure(clusters, steady, directory)))
    print(f"Load average at the end: {os.getloadavg()[0]:.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
