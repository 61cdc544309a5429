"""Work per executor on a Spark cluster: ``python -m bench.executors --keep``.

A standalone cluster gets 1, 2 and 4 executors of one core each, and each executor the same amount
of data, so that every executor should need the same CPU time. The executors share this machine's
cores with both brokers: their CPU time is measured, and records/s say nothing about a real cluster.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench.child import Child
from bench.clusters import Clusters, delete_topics, make_class_archives, running
from bench.load import load
from bench.machine import describe
from bench.model import GB, DataSet, Job
from bench.ours import K2ktui
from bench.sections import put_section
from bench.verify import count
from bench.watch import Watcher
from tests.support.clusters.spark_cluster import SparkCluster

PER_EXECUTOR = 4
_RESULTS = Path(__file__).with_name("RESULTS.md")
_LOOK_S = 0.05
_QUIET_S = 2.0
_RUN_S = 900.0


@dataclass(frozen=True, slots=True)
class Share:
    """What a copy took, by executor.

    Attributes:
        gigabytes: what each executor copied while it was measured.
        cpu_s: CPU seconds of each executor: its Java process and its Python workers.
        switches: context switches of all threads of the executors together.
        driver_s: CPU seconds of the driver: its Python and its Java process.
        distinct: records on the target, each counted once.
        expected: records on the source.
        visible: records on the target.
    """

    gigabytes: float
    cpu_s: tuple[float, ...]
    switches: int
    driver_s: float
    distinct: int
    expected: int
    visible: int

    @property
    def exact(self) -> bool:
        """Whether every record was there once."""
        return self.distinct == self.visible == self.expected


@dataclass(frozen=True, slots=True)
class _Sample:
    at: float
    executors: tuple[float, ...]
    switches: int
    driver: float


def measure(clusters: Clusters, executors: int, records: int, directory: Path) -> Share:
    """Copy ``records`` of 100 bytes for each executor, and return what each of them took."""
    data = DataSet(100, "none", PER_EXECUTOR * executors, records * executors)
    load(clusters.source.bootstrap, data, processes=2)
    directory.mkdir(parents=True)
    try:
        with SparkCluster(directory / "spark", executors) as spark:
            return _copy(clusters, spark, data, executors, directory)
    finally:
        for node in clusters.both:
            delete_topics(node.bootstrap)


def _copy(
    clusters: Clusters, spark: SparkCluster, data: DataSet, executors: int, directory: Path
) -> Share:
    settings = {
        "master": spark.master,
        "config": {**spark.settings, "spark.pyspark.python": sys.executable},
    }
    addresses = clusters.source.bootstrap, clusters.target.bootstrap
    job = Job(f"executors{executors}", *addresses, data.topic, directory, steady=True)
    launch = K2ktui("k2ktui", "", spark=settings).prepare(job)
    watcher = Watcher(job.target, launch.target_topic, data.partitions)
    watcher.start()
    samples: list[_Sample] = []
    try:
        with Child(launch, directory) as child:
            for sample in _samples(spark, child):
                samples.append(sample)
                last = watcher.last_change
                if last.total >= data.records and sample.at - last.at > _QUIET_S:
                    break
    finally:
        watcher.stop()
    # Before, an executor may still be starting.
    first = next(sight for sight in watcher.changes if all(sight.ends))
    counted = count(job.target, launch.target_topic, first.ends, values=data.values)
    before, after = _at(samples, first.at), _at(samples, watcher.last_change.at)
    copied = (counted.records - counted.below) * data.size / GB
    return Share(
        copied / executors,
        tuple(end - begin for begin, end in zip(before.executors, after.executors, strict=True)),
        after.switches - before.switches,
        after.driver - before.driver,
        counted.distinct,
        data.records,
        counted.records,
    )


def _samples(spark: SparkCluster, child: Child) -> Iterator[_Sample]:
    """Yield the CPU seconds so far of the executors, in the order of their process ids."""
    until = time.monotonic() + _RUN_S
    driver = psutil.Process(child.pid)
    while time.monotonic() < until:
        if child.exit_code is not None:
            raise RuntimeError(f"It ended with {child.exit_code}.\n{child.tail()}")
        executors = sorted(spark.executors(), key=lambda process: process.pid)
        at = time.monotonic()
        with contextlib.suppress(psutil.NoSuchProcess):
            yield _Sample(
                at, tuple(map(cpu_of, executors)), sum(map(_switches, executors)), cpu_of(driver)
            )
        time.sleep(_LOOK_S)
    raise TimeoutError(f"Not copied within {_RUN_S:g} s.\n{child.tail()}")


def cpu_of(process: psutil.Process) -> float:
    """Return the CPU seconds so far of a process and its children that still run."""
    tree = [process, *process.children(recursive=True)]
    return sum(sum(part.cpu_times()[:2]) for part in tree)


def _switches(process: psutil.Process) -> int:
    """Return how often the threads of a process and its children were switched."""
    switches = 0
    for part in [process, *process.children(recursive=True)]:
        for status in Path(f"/proc/{part.pid}/task").glob("*/status"):
            with contextlib.suppress(OSError):  # a thread that has just ended
                lines = status.read_text().splitlines()
                switches += sum(int(line.split()[1]) for line in lines if "ctxt_switches" in line)
    return switches


def _at(samples: Sequence[_Sample], moment: float) -> _Sample:
    """Return the first sample from a moment on."""
    return next((sample for sample in samples if sample.at >= moment), samples[-1])


def section(shares: dict[int, Share]) -> str:
    """Return the section of RESULTS.md."""
    rows = [
        f"| {number} | {one.gigabytes:.2f} | {', '.join(f'{core:.2f}' for core in one.cpu_s)} "
        f"| {sum(one.cpu_s) / number / one.gigabytes:.1f} "
        f"| {one.switches / number / one.gigabytes / 1000:.0f} | {one.driver_s:.2f} "
        f"| {'all, once' if one.exact else f'{one.distinct:,} of {one.expected:,}'} |"
        for number, one in shares.items()
    ]
    shown = ("Date", "CPU", "Spark", "k2ktui")
    return "\n".join(
        [
            "## Executors: CPU time of each, with the same data for each",
            "",
            *(f"{name}: {value}  " for name, value in describe().items() if name in shown),
            f"Load average at the end: {os.getloadavg()[0]:.1f}",
            "",
            "| executors | GB each | CPU s of each | CPU s/GB | 1,000 context switches/GB "
            "| CPU s of the driver | found |",
            "|---|---|---|---|---|---|---|",
            *rows,
            "",
            "`python -m bench.executors`: a standalone Spark cluster with authentication and",
            "encryption, executors of one core, verbatim copies of 100 B, uncompressed,",
            f"{PER_EXECUTOR} partitions for each executor; from when records of all partitions are",
            "visible on the target until all are. Executors, driver and brokers share the",
            "machine's cores.",
            "",
        ]
    )


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, and write if asked to; return the exit code, 1 when something is missing."""
    parser = argparse.ArgumentParser(prog="python -m bench.executors", description=__doc__)
    add = parser.add_argument
    add("--executors", type=int, action="append", help="how many; may be repeated [1, 2, 4]")
    add("--records", type=int, default=10_000_000, help="records of 100 B for each executor")
    add("--keep", action="store_true", help="write the section of RESULTS.md")
    add("--heap", default="1g", help="Java heap of each broker")
    options = parser.parse_args(arguments)
    shares: dict[int, Share] = {}
    with tempfile.TemporaryDirectory(prefix="k2ktui-executors-") as name:
        make_class_archives()
        with running(Path(name), options.heap) as clusters:
            for number in options.executors or [1, 2, 4]:
                where = Path(name) / "runs" / str(number)
                shares[number] = measure(clusters, number, options.records, where)
                print(section(shares), flush=True)
    if options.keep:
        put_section(_RESULTS, "executors", section(shares))
    return 0 if all(share.exact for share in shares.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
