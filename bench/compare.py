"""How fast ``k2ktui compare`` reads, beside the copy: ``python -m bench.compare --keep``.

k2ktui copies a data set, and then compares it in its own process and in Spark tasks on this
machine. This is done several times in turns, so that each comparison has a copy of the same minute
to be divided by. Then a standalone Spark cluster compares with 1 and with 2 executors of one core,
with the same amount of data for each: every executor should need the same CPU time. The executors
share this machine's cores with both brokers, so that their CPU time is what counts there.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from bench.child import Child
from bench.clusters import Clusters, delete_topics, make_class_archives, running
from bench.copying import Patience, copy
from bench.executors import cpu_of
from bench.load import load
from bench.machine import describe
from bench.model import GB, MB, DataSet, Job, Launch
from bench.ours import K2ktui
from bench.run import say
from bench.sections import put_section
from k2ktui.private_files import user_path
from tests.support.clusters.spark_cluster import SparkCluster

#: What producers send by default, the same in lz4, large batches, and JSON whose filter and mask
#: Spark runs again.
DATA_SETS = (
    DataSet(1000, "none", 4, 1_000_000, "perf", 16),
    DataSet(1000, "lz4", 4, 1_000_000, batch_kib=16),
    DataSet(1000, "none", 4, 1_000_000, batch_kib=64),
    DataSet(200, "none", 4, 1_500_000, "json"),
)
COPY, LOCAL, SPARK = "copy", "compare --local", "compare --spark"
GOAL = 0.5

_PER_EXECUTOR = 4
_QUICK_RECORDS = 100_000
_RESULTS = Path(__file__).with_name("RESULTS.md")
# With ``-v``, the last line before a comparison reads.
_BEGINS = {LOCAL: "comparison of ", SPARK: "comparing in "}
_LOOK_S = 0.02
_RUN_S = 600.0


@dataclass(frozen=True, slots=True)
class Pass:
    """A data set was copied, or compared, once.

    Attributes:
        mb_per_s: MB/s of its records' bytes, each counted once although both sides are read.
        cpu_per_gb: CPU seconds per GB of the same bytes.
        whole_s: seconds from the start of the process to its end.
    """

    mb_per_s: float
    cpu_per_gb: float
    whole_s: float


@dataclass(frozen=True, slots=True)
class Shared:
    """What a comparison took on a Spark cluster.

    Attributes:
        gigabytes: what was compared while it was measured, by all executors together.
        cpu_s: CPU seconds of each executor: its Java process and its Python workers.
        seconds: from when the first part was compared until the last one was.
    """

    gigabytes: float
    cpu_s: tuple[float, ...]
    seconds: float

    @property
    def mb_per_cpu_s(self) -> float:
        """MB compared in a CPU second of the executor that needed most: MB/s, were it alone."""
        return self.gigabytes * GB / MB / max(self.cpu_s)


@dataclass(frozen=True, slots=True)
class _Look:
    """At a moment: records compared so far, and CPU seconds of executors."""

    at: float
    compared: int
    executors: tuple[float, ...]


def ways(data: DataSet) -> tuple[str, ...]:
    """Return how a data set is compared: transforms need Spark."""
    return (SPARK,) if _is_transformed(data) else (LOCAL, SPARK)


def _is_transformed(data: DataSet) -> bool:
    return data.values == "json"


def measure_turns(
    clusters: Clusters, data: DataSet, rounds: int, directory: Path, *, warm_up: bool
) -> list[dict[str, Pass]]:
    """Copy and compare a data set ``rounds`` times, after a warm-up once more, uncounted."""
    load(clusters.source.bootstrap, data, processes=2)
    turns = []
    for number in range(0 if warm_up else 1, rounds + 1):
        run = f"compare{number}-{data.name}"
        turn = {COPY: _copy(clusters, data, run, directory / run)}
        file = directory / run / "pipeline.yaml"
        for way in ways(data) if number % 2 else reversed(ways(data)):
            turn[way] = _compare(file, way, data, directory / f"{run}-{way.split('-')[-1]}")
        if number:
            turns.append(turn)
        rates = ", ".join(f"{way}: {one.mb_per_s:,.0f} MB/s" for way, one in turn.items())
        say(f"{data.name} {number} of {rounds}: {rates}")
        delete_topics(clusters.target.bootstrap)
    delete_topics(clusters.source.bootstrap)
    return turns


def measure_executors(clusters: Clusters, executors: int, records: int, directory: Path) -> Shared:
    """Compare ``records`` of 1,000 bytes for each executor on a cluster of so many."""
    data = DataSet(1000, "none", _PER_EXECUTOR * executors, records * executors, batch_kib=16)
    load(clusters.source.bootstrap, data, processes=2)
    run = f"executors{executors}"
    _copy(clusters, data, run, directory / run)
    there = directory / f"{run}-compared"
    there.mkdir()
    with SparkCluster(directory / f"{run}-spark", executors) as spark:
        settings = {
            "master": spark.master,
            "config": {**spark.settings, "spark.pyspark.python": sys.executable},
        }
        addresses = clusters.source.bootstrap, clusters.target.bootstrap
        K2ktui("k2ktui", "", spark=settings).prepare(Job(run, *addresses, data.topic, there))

        def measure() -> tuple[float, ...]:
            try:
                return tuple(map(cpu_of, sorted(spark.executors(), key=lambda one: one.pid)))
            except psutil.NoSuchProcess:
                return ()

        with Child(_launch(there / "pipeline.yaml", SPARK, there), there) as child:
            began, ended = _follow(child, SPARK, data, measure, executors)
            _check(child, data, there)
    for node in clusters.both:
        delete_topics(node.bootstrap)
    cpu_s = (after - before for before, after in zip(began.executors, ended.executors, strict=True))
    gigabytes = (ended.compared - began.compared) * data.size / GB
    return Shared(gigabytes, tuple(cpu_s), ended.at - began.at)


def _copy(clusters: Clusters, data: DataSet, run: str, directory: Path) -> Pass:
    contender = K2ktui("k2ktui", "", transforms=_is_transformed(data))
    result, _ = copy(clusters, contender, data, run, directory, Patience())
    if result.error or not result.exact or result.exit_code:
        raise RuntimeError(f"{data.name} was not copied: {result.error or result}")
    # A few records are visible all at once; then there is no time between the first and the last.
    rate = result.rate or result.rate_from_start
    cpu = result.cpu_per_gb or result.cpu_per_gb_from_start
    return Pass(rate * data.size / MB, cpu, result.ended_s or result.all_records_s)


def _launch(file: Path, way: str, directory: Path) -> Launch:
    program = (sys.executable, "-m", "k2ktui", *way.split(), "-v")
    return Launch((*program, "-f", str(file), "-o", str(directory / "report")), "", "")


def _compare(file: Path, way: str, data: DataSet, directory: Path) -> Pass:
    directory.mkdir()
    with Child(_launch(file, way, directory), directory) as child:
        began, ended = _follow(child, way, data)
        _check(child, data, directory)
        whole_s = time.monotonic() - child.started
        cpu_s = child.meter.cpu_at(ended.at) - child.meter.cpu_at(began.at)
    compared = (ended.compared - began.compared) * data.size
    return Pass(compared / MB / (ended.at - began.at), cpu_s / (compared / GB), whole_s)


def _follow(
    child: Child,
    way: str,
    data: DataSet,
    measure: Callable[[], tuple[float, ...]] = tuple,
    executors: int = 0,
) -> tuple[_Look, _Look]:
    """Watch a comparison to its end; return the looks at its first and its last part.

    As with copies, what was compared until the first look does not count, nor does the time that
    it took: Spark's workers start meanwhile. Of a few records, all are compared at once; then it
    begins when the comparison says that it reads. Both looks have all executors.
    """
    started, until = time.time(), time.monotonic() + _RUN_S
    looks: list[_Look] = []
    while child.exit_code is None and time.monotonic() < until:
        if looks or _BEGINS[way] in child.text():
            compared = _compared_records(data.topic, started)
            looks.append(_Look(time.monotonic(), compared, measure()))
        time.sleep(_LOOK_S)
    looks = list(_rising(look for look in looks if len(look.executors) == executors))
    most = max((look.compared for look in looks), default=0)
    if not most:
        raise RuntimeError(f"{way} was not seen to compare anything.\n{child.tail()}")
    began = next((look for look in looks if 0 < look.compared < most), looks[0])
    if began.compared == most:
        raise RuntimeError(f"{data} is too little: all was compared before it was looked at.")
    return began, next(look for look in looks if look.compared == most)


def _rising(looks: Iterable[_Look]) -> Iterator[_Look]:
    """Yield looks whose CPU seconds do not fall: of processes that have ended, nothing is left."""
    most: tuple[float, ...] = ()
    for look in looks:
        most = tuple(map(max, look.executors, most or look.executors))
        yield replace(look, executors=most)


def _compared_records(topic: str, since: float) -> int:
    """Return how many records the file that ``--resume`` would read has results of.

    Files of before ``since``, epoch seconds, are those of stopped comparisons.
    """
    records = 0
    for file in (user_path("state") / "compare").glob("*.jsonl"):
        try:
            lines = file.read_bytes().split(b"\n")[1:-1] if file.stat().st_mtime > since else []
        except FileNotFoundError:
            continue  # everything was compared
        results = [json.loads(line)["result"] for line in lines]
        records += sum(one["source_records"] for one in results if one["topic"] == topic)
    return records


def _check(child: Child, data: DataSet, directory: Path) -> None:
    """Raise RuntimeError if not every record was compared, and was equal or left out rightly."""
    code = child.wait(_RUN_S)
    expected = {"equal": data.kept, "never copied": data.records - data.kept}
    report = directory / "report.json"
    counts = json.loads(report.read_bytes())["counts"] if report.exists() else None
    if code or counts != {outcome: count for outcome, count in expected.items() if count}:
        raise RuntimeError(f"compare ended with {code}: {counts}\n{child.tail()}")


def ratios(turns: Sequence[Mapping[str, Pass]], way: str) -> list[float]:
    """Return the rate of each comparison, divided by the one of the copy before it."""
    return [turn[way].mb_per_s / turn[COPY].mb_per_s for turn in turns]


def spread(values: Iterable[float], digits: int) -> str:
    """Return the median with the lowest and the highest value."""
    several = list(values)
    median, *ends = (statistics.median(several), min(several), max(several))
    low, high = (f"{end:,.{digits}f}" for end in ends)
    return f"{median:,.{digits}f} ({low} to {high})"


def section(turns: Mapping[DataSet, Sequence[Mapping[str, Pass]]], shared: Sequence[Shared]) -> str:
    """Return the section of RESULTS.md.

    Args:
        turns: of each data set.
        shared: comparisons on a Spark cluster, the one with the fewest executors first.
    """
    shown = ("Date", "CPU", "Apache Kafka", "Python", "Spark", "k2ktui")
    return "\n".join(
        [
            "## Compare: every retained record, beside the copy",
            "",
            *(f"{name}: {value}  " for name, value in describe().items() if name in shown),
            f"Load average at the end: {os.getloadavg()[0]:.1f}",
            "",
            *(_turns_table(turns) if turns else ()),
            *(_executors_table(shared) if shared else ()),
        ]
    )


def _turns_table(turns: Mapping[DataSet, Sequence[Mapping[str, Pass]]]) -> list[str]:
    lines = [
        "| records | | MB/s | of the copy's rate | CPU s/GB | whole command, s |",
        "|---|---|---|---|---|---|",
    ]
    reached = []
    for data, some in turns.items():
        for way in (COPY, *ways(data)):
            passes = [turn[way] for turn in some]
            share = "" if way == COPY else spread(ratios(some, way), 2)
            if way != COPY and not _is_transformed(data):
                reached.append(statistics.median(ratios(some, way)))
            lines.append(
                f"| {data} | `{way}` | {spread((one.mb_per_s for one in passes), 0)} | {share} "
                f"| {spread((one.cpu_per_gb for one in passes), 2)} "
                f"| {spread((one.whole_s for one in passes), 1)} |"
            )
    lowest = min(reached, default=GOAL)
    verdict = "met" if lowest >= GOAL else f"not met, lowest {lowest:.2f}"
    return [
        *lines,
        "",
        f"Needed: at least {GOAL:g} of the rate of a verbatim copy, in the median: {verdict}.",
        "",
        "`python -m bench.compare`: k2ktui copies a data set exactly once and compares it, in",
        "turns; the first turn does not count. The copy is verbatim, or, of JSON, by a transform",
        "that keeps four of five records and masks a field: Spark runs it again. Medians, with the",
        "lowest and the highest in parentheses; the share is that of each comparison and the copy",
        "before it. Each record counts once, although a comparison reads both sides. The copy is",
        "measured from the first records that are visible until all are, a comparison from when",
        "its first part, of up to 100,000 records, is compared until the last one is. To start and",
        "to end is in the time of the whole command. `--spark`: `local[*]`. Brokers and k2ktui",
        "share the machine's cores.",
        "",
    ]


def _executors_table(shared: Sequence[Shared]) -> list[str]:
    lines = [
        "| executors | GB | CPU s of each | CPU s/GB | MB in a CPU second of the busiest executor "
        "| of one executor's | wall, s |",
        "|---|---|---|---|---|---|---|",
    ]
    for one in shared:
        lines.append(
            f"| {len(one.cpu_s)} | {one.gigabytes:.2f} "
            f"| {', '.join(f'{seconds:.2f}' for seconds in one.cpu_s)} "
            f"| {sum(one.cpu_s) / one.gigabytes:.2f} | {one.mb_per_cpu_s:,.0f} "
            f"| {one.mb_per_cpu_s / shared[0].mb_per_cpu_s:.2f} | {one.seconds:.1f} |"
        )
    return [
        *lines,
        "",
        "A standalone Spark cluster with authentication and encryption, executors of one core,",
        f"1,000 B, batches of 16 KiB, uncompressed, {_PER_EXECUTOR} partitions and the same data",
        "for each executor; from when the first part is compared until the last one is. Executors,",
        "driver and brokers share the machine's cores: the wall time says nothing about a real",
        "cluster. The busiest executor's CPU time is what a cluster with a core for each waits",
        "for: two executors should compare twice as much in it.",
        "",
    ]


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, and write if asked to; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.compare", description=__doc__)
    add = parser.add_argument
    add("--rounds", type=int, default=3, help="turns that count, of each data set")
    add("--data", action="append", help="name of a data set; may be repeated [all]")
    add("--records", type=int, help="records of each data set, and for each executor")
    add("--executors", type=int, action="append", help="how many; may be repeated [1, 2]")
    add(
        "--quick",
        action="store_true",
        help="little data and one turn, without a warm-up: no figures to keep",
    )
    add("--keep", action="store_true", help="write the section of RESULTS.md")
    add("--heap", default="1g", help="Java heap of each broker")
    options = parser.parse_args(arguments)
    records = options.records or (_QUICK_RECORDS if options.quick else None)
    rounds = 1 if options.quick else options.rounds
    turns: dict[DataSet, list[dict[str, Pass]]] = {}
    shared: list[Shared] = []
    with tempfile.TemporaryDirectory(prefix="k2ktui-compare-") as name:
        make_class_archives()
        with running(Path(name), options.heap) as clusters:
            runs = Path(name) / "runs"
            runs.mkdir()
            for data in DATA_SETS:
                if options.data is None or data.name in options.data:
                    chosen = replace(data, records=records or data.records)
                    turns[chosen] = measure_turns(
                        clusters, chosen, rounds, runs, warm_up=not options.quick
                    )
            for number in options.executors or [1, 2]:
                of_each = records or DATA_SETS[0].records
                shared.append(measure_executors(clusters, number, of_each, runs))
    text = section(turns, shared)
    print(text)
    if options.keep:
        put_section(_RESULTS, "compare", text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
