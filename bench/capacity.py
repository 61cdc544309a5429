"""What the model in docs/capacity.md needs, and the model: ``python -m bench.capacity``.

Without options it prints the model's tables from the figures in RESULTS.md and results.json.
``--measure`` copies two data sets first and measures what no other benchmark does: the CPU time of
the brokers from the start on, and the size of what k2ktui keeps on the target. ``--keep`` writes
what was measured to RESULTS.md, and the tables to docs/capacity.md.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench.child import Child
from bench.clusters import Clusters, make_class_archives, running
from bench.growth import find_broker
from bench.load import load
from bench.machine import describe
from bench.model import MB, CopyResult, DataSet, Job, Results, recall
from bench.ours import K2ktui
from bench.plan import MAIN
from bench.sections import put_section
from bench.targets import RECORD_PATH, chosen
from k2ktui.runtime.node import KafkaNode
from k2ktui.runtime.paths import write_atomically

RESULTS = Path(__file__).parent / "RESULTS.md"
PAGE = Path(__file__).parents[1] / "docs" / "capacity.md"
_SECTION = "capacity"
_GB = 1e9
_RUN_S = 600.0
_SIZES = {100: 8_000_000, 1000: 1_000_000}
_KEPT = ("consumer-offsets", "offset_mappings")


@dataclass(frozen=True, slots=True)
class Broker:
    """What a copy costs beside the run, for each GB of records.

    Attributes:
        source_s: CPU seconds of the source's broker.
        target_s: CPU seconds of the target's broker.
        mapping_mb: size of the mapping topic.
        commit_mb: size of the commit topic, before it is compacted.
    """

    source_s: float
    target_s: float
    mapping_mb: float
    commit_mb: float


@dataclass(frozen=True, slots=True)
class Growing:
    """A line of RESULTS.md on many partitions: CPU until the first records, idle CPU, memory."""

    partitions: int
    start_cpu_s: float
    idle: float
    memory_mb: float


@dataclass(frozen=True, slots=True)
class Constants:
    """The measured figures that the model uses.

    Attributes:
        cpu_s: CPU seconds of a run per GB, by path and record size.
        slot_mb: MB/s of one slot, by path and record size.
        brokers: by record size.
        cores: of the machine that ran the brokers, too.
        growth: by number of partitions, in order.
    """

    cpu_s: dict[tuple[str, int], float]
    slot_mb: dict[tuple[str, int], float]
    brokers: dict[int, Broker]
    cores: int
    growth: tuple[Growing, ...]

    def brokers_s(self, path: str, size: int) -> float:
        """Return the CPU seconds of both brokers per GB, at most.

        They had what the run left of the machine's cores.
        """
        measured = self.brokers[size].source_s + self.brokers[size].target_s
        left = 1000 * self.cores / self.slot_mb[path, size] - self.cpu_s[path, size]
        return min(measured, round(left, 1))


def measure(clusters: Clusters, size: int, records: int, directory: Path) -> Broker:
    """Copy records of one size twice, and return what the second copy takes beside the run.

    The first one warms up the brokers: their code is compiled then.
    """
    data = DataSet(size, "none", 4, records)
    load(clusters.source.bootstrap, data, processes=2)
    for run in (f"warm{size}", f"capacity{size}"):
        broker = _copy(clusters, data, run, directory / run)
    return broker


def _copy(clusters: Clusters, data: DataSet, run: str, directory: Path) -> Broker:
    directory.mkdir(parents=True)
    job = Job(run, clusters.source.bootstrap, clusters.target.bootstrap, data.topic, directory)
    launch = K2ktui("k2ktui", "").prepare(job)
    brokers = [find_broker(node.data_dir) for node in clusters.both]
    before = [_cpu(broker) for broker in brokers]
    with Child(launch, directory) as child:
        if child.wait(_RUN_S) != 0:
            raise RuntimeError(f"not copied:\n{child.tail()}")
    source_s, target_s = (_cpu(broker) - cpu for broker, cpu in zip(brokers, before, strict=True))
    gigabytes = data.bytes / _GB
    commit, mapping = (_log_bytes(clusters.target, f"__k2k_{run}_{name}") for name in _KEPT)
    values = (source_s, target_s, mapping / 1e6, commit / 1e6)
    return Broker(*(value / gigabytes for value in values))


def _cpu(process: psutil.Process) -> float:
    return sum(process.cpu_times()[:2])


def _log_bytes(node: KafkaNode, topic: str) -> int:
    logs = (node.data_dir / "logs").glob(f"{topic}-*/*.log")
    return sum(path.stat().st_blocks * 512 for path in logs)


def section(brokers: dict[int, Broker]) -> str:
    """Return the section of RESULTS.md."""
    rows = [
        f"| {size:,} | {broker.source_s:.1f} | {broker.target_s:.1f} | {broker.mapping_mb:.2f} "
        f"| {broker.commit_mb:.2f} |"
        for size, broker in brokers.items()
    ]
    shown = ("Date", "CPU", "Apache Kafka", "k2ktui")
    return "\n".join(
        [
            "## Capacity: what a copy takes beside the run, per GB",
            "",
            *(f"{name}: {value}  " for name, value in describe().items() if name in shown),
            f"Load average at the end: {os.getloadavg()[0]:.1f}",
            "",
            "| record, B | source broker, CPU s | target broker, CPU s | mapping topic, MB "
            "| commit topic, MB |",
            "|---|---|---|---|---|",
            *rows,
            "",
            "`python -m bench.capacity --measure`: verbatim, exactly-once, uncompressed, 4",
            "partitions, replication factor 1, no TLS; the second of two copies. CPU of the",
            "brokers from the start of the run to its end; sizes on disk before compaction.",
            "",
        ]
    )


def constants(text: str, results: Results) -> Constants:
    """Return the constants from the sections of RESULTS.md and from results.json.

    Raises:
        LookupError: a section or a copy is missing.
    """
    copies = {
        (path, size): _copy_of(results, key, size)
        for path, key, size in (
            ("verbatim", MAIN, 100),
            ("verbatim", MAIN, 1000),
            ("record path", RECORD_PATH, 100),
        )
    }
    brokers = {
        int(cells[0].replace(",", "")): Broker(*(float(cell) for cell in cells[1:]))
        for cells in _rows(text, _SECTION)
    }
    growth = tuple(
        Growing(int(c[0].replace(",", "")), float(c[6]), float(c[7]), float(c[11]))
        for c in _rows(text, "growth")
        if c[12] == "shared"
    )
    return Constants(
        {key: round(one.cpu_per_gb or 0.0, 1) for key, one in copies.items()},
        {key: round((one.rate or 0.0) * one.record_bytes / MB, 1) for key, one in copies.items()},
        brokers,
        _cores(results.machine.get("CPU", "")),
        growth,
    )


def _cores(cpu: str) -> int:
    match = re.search(r", (\d+) cores$", cpu)
    if match is None:
        raise LookupError("results.json does not say how many cores the machine had")
    return int(match[1])


def _copy_of(results: Results, key: str, size: int) -> CopyResult:
    name = DataSet(size, "none", 4, 0).name
    copied = chosen(results).get((key, name))
    if copied is None:
        raise LookupError(f"results.json has no copy/{key}/{name}")
    return copied


def _rows(results: str, name: str) -> list[list[str]]:
    part = results.partition(f"<!-- {name} -->")[2].partition(f"<!-- /{name} -->")[0]
    lines = [line for line in part.splitlines() if re.match(r"\| [\d,]+ \|", line)]
    if not lines:
        raise LookupError(f"RESULTS.md has no section {name}: run python -m bench.{name} --keep")
    return [line.strip("| ").split(" | ") for line in lines]


def tables(known: Constants) -> str:
    """Return the model's tables, as they are in docs/capacity.md."""
    return "\n".join([*_measured(known), "", *_loads(known), "", *_partitions(known), ""])


def _measured(known: Constants) -> list[str]:
    lines = [
        "| path | record | run, CPU s/GB | one slot, MB/s | both brokers, CPU s/GB, at most "
        "| mapping topic, MB/GB | commit topic, MB/GB |",
        "|---|---|---|---|---|---|---|",
    ]
    for (path, size), cpu_s in known.cpu_s.items():
        broker = known.brokers[size]
        lines.append(
            f"| {path} | {size:,} B | {cpu_s} | {known.slot_mb[path, size]} "
            f"| {known.brokers_s(path, size):.1f} | {broker.mapping_mb} | {broker.commit_mb} |"
        )
    return lines


def _loads(known: Constants) -> list[str]:
    lines = [
        "| load | path | record | cores of runs | slots | cores of both clusters' brokers, at most "
        "| network of runs, each way | mapping topic a day |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for rate in (1, 10):
        for (path, size), cpu_s in known.cpu_s.items():
            broker = known.brokers[size]
            mapping = rate * broker.mapping_mb * 86_400 / 1000
            lines.append(
                f"| {rate} GB/s | {path} | {size:,} B | {_up(rate * cpu_s)} "
                f"| {_up(rate * 1000 / known.slot_mb[path, size])} "
                f"| {_up(rate * known.brokers_s(path, size))} | {8 * rate} Gbit/s "
                f"| {mapping:,.0f} GB |"
            )
    return lines


def per_partition(growth: Sequence[Growing]) -> Growing:
    """Return what each 1,000 partitions add, by the smallest and the largest measured number.

    Nothing where the smallest took more: a difference within the noise of a measurement, carried on
    to 100,000 partitions, would be less than nothing.
    """
    low, high = growth[0], growth[-1]
    thousands = (high.partitions - low.partitions) / 1000
    return Growing(
        1000,
        max(0.0, high.start_cpu_s - low.start_cpu_s) / thousands,
        max(0.0, high.idle - low.idle) / thousands,
        max(0.0, high.memory_mb - low.memory_mb) / thousands,
    )


def _partitions(known: Constants) -> list[str]:
    lines = [
        "| partitions | CPU to the first records, s | idle, % of a core | memory, MB | |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {growth.partitions:,} | {growth.start_cpu_s} | {growth.idle} | {growth.memory_mb:.0f} "
        "| measured |"
        for growth in known.growth
    ]
    if len(known.growth) < 2:
        return lines
    more, last = per_partition(known.growth), known.growth[-1]
    for partitions in (20_000, 100_000):
        thousands = (partitions - last.partitions) / 1000
        lines.append(
            f"| {partitions:,} | {last.start_cpu_s + thousands * more.start_cpu_s:.0f} "
            f"| {last.idle + thousands * more.idle:.0f} "
            f"| {last.memory_mb + thousands * more.memory_mb:,.0f} | extrapolated |"
        )
    return lines


def _up(cores: float) -> int:
    return math.ceil(round(cores, 3))


def put_tables(page: str, text: str) -> str:
    """Return the page with these tables between its marks."""
    pattern = re.compile(r"(<!-- tables -->\n).*?(<!-- /tables -->)", re.DOTALL)
    return pattern.sub(lambda match: f"{match[1]}{text}{match[2]}", page)


def main(arguments: list[str] | None = None) -> int:
    """Print the tables; measure and write if asked to; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.capacity", description=__doc__)
    add = parser.add_argument
    add("--measure", action="store_true", help="copy and measure first")
    add("--keep", action="store_true", help="write to RESULTS.md and docs/capacity.md")
    add("--heap", default="1g", help="Java heap of each broker")
    add("--data", type=Path, help="directory for the clusters' data; removed at the end")
    options = parser.parse_args(arguments)
    if options.measure:
        text = section(_measure_all(options))
        print(text, flush=True)
        if options.keep:
            put_section(RESULTS, _SECTION, text)
    sections = tables(constants(RESULTS.read_text(), recall(RESULTS.parent)))
    print(sections)
    if options.keep:
        write_atomically(PAGE, put_tables(PAGE.read_text(), sections).encode())
    return 0


def _measure_all(options: argparse.Namespace) -> dict[int, Broker]:
    directory = Path(tempfile.mkdtemp(prefix="k2ktui-capacity-", dir=options.data))
    try:
        make_class_archives()
        with running(directory, options.heap) as clusters:
            time.sleep(2.0)  # the brokers come to rest
            return {
                size: measure(clusters, size, records, directory / "runs")
                for size, records in _SIZES.items()
            }
    finally:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
