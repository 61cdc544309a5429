"""What a batch costs in Python: ``python -m bench.functions --keep``.

One slot copies a backlog, verbatim and exactly once, on a thread of this process instead of in
Spark: first as it is, for the CPU time of the thread, then with Python's profiler, for the
functions that it calls. Brokers are other processes.
"""

from __future__ import annotations

import argparse
import cProfile
import os
import pstats
import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.clusters import Clusters, delete_topics, running
from bench.load import load
from bench.machine import describe
from bench.meter import own_usage
from bench.model import GB, DataSet, Job
from bench.ours import K2ktui
from bench.sections import put_section
from k2ktui.config.load import load as load_config
from k2ktui.config.model import PipelineConfig
from k2ktui.kafka.clients import source_cluster, target_cluster
from k2ktui.kafka.control.topics import ensure_control_topics
from k2ktui.kafka.properties.translation import wire
from k2ktui.replication.copying.slot_task import SlotResult, SlotTask
from k2ktui.replication.copying.worker import run_slot
from k2ktui.replication.driver.heartbeat import Heartbeat
from k2ktui.replication.driver.run_parts import RunParts
from k2ktui.replication.reports.status import RunStatus
from k2ktui.runtime.stop_flag import StopFlag
from k2ktui.shared_runs import SharedRun
from k2ktui.sync.standby import beat_interval_s

LONGEST = 8
_RESULTS = Path(__file__).with_name("RESULTS.md")
_PARTITIONS = 4


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the profile: calls per batch, and its share of the time of all of them."""

    name: str
    calls: float
    share: float


@dataclass(frozen=True, slots=True)
class Measured:
    """What copying a data set took.

    Attributes:
        data: the data set.
        user, system: CPU seconds of the slot's thread per GB.
        batches: batches of all records.
        python: calls of Python functions per batch.
        built_in: calls of built-in functions and methods per batch.
        longest: the functions with most time of their own.
        brokers: CPU seconds per GB of the source's broker and of the target's meanwhile.
    """

    data: DataSet
    user: float
    system: float
    batches: float
    python: float
    built_in: float
    longest: tuple[Function, ...]
    brokers: tuple[float, float]

    @property
    def user_us(self) -> float:
        """Microseconds of Python, without system calls, for each batch."""
        return self.user * self.data.bytes / GB / self.batches * 1e6


class OneThread:
    """A ``LapRunner`` with one thread, whose CPU time it adds up.

    Args:
        options: connection options of the source and of the target.
        profile: also collects what is called.
    """

    def __init__(
        self, options: tuple[dict[str, Any], dict[str, Any]], profile: cProfile.Profile | None
    ) -> None:
        self._options, self._profile = options, profile
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="lap")
        self.user = self.system = 0.0

    def submit(self, tasks: Sequence[SlotTask]) -> Future[list[SlotResult]]:
        return self._pool.submit(self._run, tuple(tasks))

    def is_waiting(self, lap: Future[list[SlotResult]]) -> bool:
        return False

    def give_up(self, lap: Future[list[SlotResult]]) -> None:
        lap.cancel()

    def close(self) -> None:
        """Wait for the last lap."""
        self._pool.shutdown(cancel_futures=True)

    def _run(self, tasks: tuple[SlotTask, ...]) -> list[SlotResult]:
        before = resource.getrusage(resource.RUSAGE_THREAD)
        if self._profile is not None:
            self._profile.enable()
        try:
            return [run_slot(task, self._options) for task in tasks]
        finally:
            if self._profile is not None:
                self._profile.disable()
            after = resource.getrusage(resource.RUSAGE_THREAD)
            self.user += after.ru_utime - before.ru_utime
            self.system += after.ru_stime - before.ru_stime


def measure(clusters: Clusters, data: DataSet, directory: Path) -> Measured:
    """Copy a data set twice, and return what it took."""
    load(clusters.source.bootstrap, data, processes=2)
    try:
        before = _broker_seconds(clusters)
        plain = _copy(clusters, data, directory / "plain", None)
        after = _broker_seconds(clusters)
        profile = cProfile.Profile(time.thread_time)  # waiting takes none
        _copy(clusters, data, directory / "profiled", profile)
    finally:
        for node in clusters.both:
            delete_topics(node.bootstrap)
    batches = data.bytes / (data.batch_kib << 10)
    gigabytes = data.bytes / GB
    stats = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    return Measured(
        data,
        plain.user / gigabytes,
        plain.system / gigabytes,
        batches,
        sum(row[1] for name, row in stats.items() if name[0] != "~") / batches,
        sum(row[1] for name, row in stats.items() if name[0] == "~") / batches,
        _longest(stats, batches),
        ((after[0] - before[0]) / gigabytes, (after[1] - before[1]) / gigabytes),
    )


def _broker_seconds(clusters: Clusters) -> tuple[float, float]:
    source, target = (own_usage(node.pid).cpu_s for node in clusters.both)
    return source, target


def _longest(
    stats: dict[tuple[str, int, str], tuple[Any, ...]], batches: float
) -> tuple[Function, ...]:
    together = sum(row[2] for row in stats.values())
    most = sorted(stats.items(), key=lambda row: -row[1][2])[:LONGEST]
    return tuple(Function(_name(*name), row[1] / batches, row[2] / together) for name, row in most)


def _name(file: str, line: int, function: str) -> str:
    return function if file == "~" else f"{Path(file).stem}.{function}"


def _copy(
    clusters: Clusters, data: DataSet, directory: Path, profile: cProfile.Profile | None
) -> OneThread:
    directory.mkdir(parents=True)
    addresses = clusters.source.bootstrap, clusters.target.bootstrap
    job = Job(f"functions-{directory.name}", *addresses, data.topic, directory)
    contender = K2ktui("k2ktui", "", mode="shared", spark={"slots": 1, "lap": "5 seconds"})
    contender.prepare(job)
    config = load_config([directory / "pipeline.yaml"]).config
    laps = OneThread((wire(config.source, "consumer"), wire(config.target, "producer")), profile)
    try:
        run_with(config, laps, StopFlag(), until_caught_up=True)
    finally:
        laps.close()
    return laps


def run_with(
    config: PipelineConfig, laps: OneThread, stop: StopFlag, *, until_caught_up: bool
) -> None:
    """Copy as ``k2ktui start`` does, with these laps, until ``stop`` or caught up."""
    source, target = source_cluster(config), target_cluster(config)
    control = ensure_control_topics(config, target, {})
    status = RunStatus(config.name, lambda report: None)
    heartbeat = Heartbeat(
        config, status.began_at, lambda note: None, status, beat_s=beat_interval_s(config)
    )
    heartbeat.stand_by(waiting=True)
    with heartbeat:
        parts = RunParts(
            config,
            source,
            target,
            wire(config.target, "producer"),
            control,
            laps,
            heartbeat,
            status,
            take_over=False,
            until_caught_up=until_caught_up,
        )
        finished = SharedRun(parts).run(1, stop)
    if finished.faults:
        raise RuntimeError(f"not everything was copied: {finished.faults[0].message}")


def section(results: Sequence[Measured]) -> str:
    """Return the section of RESULTS.md."""
    shown = ("Date", "CPU", "Python", "k2ktui")
    rows = [
        f"| {one.data} | {one.user:.2f} | {one.system:.2f} | {one.user_us:.0f} "
        f"| {one.python:.0f} | {one.built_in:.0f} | {one.brokers[0]:.2f} | {one.brokers[1]:.2f} |"
        for one in results
    ]
    parts = [
        f"| {one.data} | `{function.name}` | {function.calls:.1f} | {100 * function.share:.0f} % |"
        for one in results
        for function in one.longest
    ]
    return "\n".join(
        [
            "## Functions: what a batch takes in Python",
            "",
            *(f"{name}: {value}  " for name, value in describe().items() if name in shown),
            f"Load average at the end: {os.getloadavg()[0]:.1f}",
            "",
            "| records | user, CPU s/GB | system, CPU s/GB | user, µs a batch "
            "| Python calls a batch | built-in calls a batch | source, CPU s/GB | target |",
            "|---|---|---|---|---|---|---|---|",
            *rows,
            "",
            "| records | most time of its own | calls a batch | of the time |",
            "|---|---|---|---|",
            *parts,
            "",
            "`python -m bench.functions`: one slot copies a backlog, exactly once, on one thread",
            "without Spark; batches are those of the source, before compression. CPU time is",
            "that of this thread and, in the last columns, of the brokers; calls and shares are",
            "those of a second copy under Python's profiler, which makes small functions look",
            "longer than they are.",
            "",
        ]
    )


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, and put the section into RESULTS.md if asked to."""
    parser = argparse.ArgumentParser(prog="python -m bench.functions", description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=1.5, help="how much of each data set")
    parser.add_argument("--batch-kib", type=int, default=64, help="size of the source's batches")
    parser.add_argument("--codec", action="append", help="only data sets with this compression")
    parser.add_argument("--heap", default="1g", help="Java heap of each broker")
    parser.add_argument("--keep", action="store_true", help="write the section of RESULTS.md")
    options = parser.parse_args(arguments)
    results: list[Measured] = []
    with (
        tempfile.TemporaryDirectory(prefix="k2ktui-functions-") as name,
        running(Path(name), options.heap) as clusters,
    ):
        data_sets = _data_sets(options.gigabytes, options.batch_kib)
        chosen = [
            data_set
            for data_set in data_sets
            if data_set.codec in (options.codec or [data_set.codec])
        ]
        for number, data in enumerate(chosen):
            results.append(measure(clusters, data, Path(name, str(number))))
    text = section(results)
    print(text)
    if options.keep:
        put_section(_RESULTS, "functions", text)
    return 0


def _data_sets(gigabytes: float, batch_kib: int) -> list[DataSet]:
    size = int(gigabytes * GB)
    return [
        DataSet(1000, "none", _PARTITIONS, size // 1000, batch_kib=batch_kib),
        DataSet(1000, "lz4", _PARTITIONS, size // 1000, batch_kib=batch_kib),
        DataSet(100, "none", _PARTITIONS, size // 100, batch_kib=batch_kib),
    ]


if __name__ == "__main__":
    sys.exit(main())
