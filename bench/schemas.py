"""Schema mapping beside plain copies, on two cores with both brokers.

``python -m bench.schemas --keep``: the same process copies 100-byte records verbatim, and orders in
Avro whose schema ids are replaced. Then the delay at a steady rate, and the memory for a quarter of
the records. Everything shares two cores: brokers, registries, replicator and measuring.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from bench import orders, report
from bench.clusters import Clusters, make_class_archives, running
from bench.copying import Patience
from bench.delay import Steady, delay
from bench.machine import describe
from bench.model import MB, CopyResult, DataSet, DelayResult, Results
from bench.ours import variants
from bench.plan import MAIN, Scope, tasks
from bench.run import Bench
from bench.sections import put_section
from bench.targets import chosen

TARGET = 500_000
_CORES = 2
_RESULTS = Path(__file__).with_name("RESULTS.md")
_RUNS = ("100-none-4-64k", "schemas-100-none-4-64k", "schemas-100-lz4-4-64k")


def main(arguments: list[str] | None = None) -> int:
    """Return the exit code: 0, or 1 when a run failed."""
    parser = argparse.ArgumentParser(prog="python -m bench.schemas", description=__doc__)
    parser.add_argument("--keep", action="store_true", help="Write the section of RESULTS.md.")
    parser.add_argument("--repeat", type=int, default=3, help="Runs of each kind.")
    parser.add_argument("--records", type=int, default=10_000_000, help="Records of each run.")
    options = parser.parse_args(arguments)
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:_CORES])
    sets = tuple(DataSet.named(name, options.records) for name in _RUNS)
    scope = Scope(sets, repeat=options.repeat)
    results = Results()
    with tempfile.TemporaryDirectory(prefix="k2ktui-bench-") as name:
        directory = Path(name)
        make_class_archives()
        with running(directory, scope.heap) as clusters:
            bench = Bench(clusters, scope, directory / "runs", directory, results)
            bench.run(tasks(scope, [f"copy/{MAIN}/{data}" for data in _RUNS]), Patience())
            few = Scope(sets).at_most(options.records // 4)
            quarter = Results()
            bench = Bench(clusters, few, directory / "quarter", directory, quarter)
            bench.run(tasks(few, [f"copy/{MAIN}/{_RUNS[1]}"]), Patience())
            delays = _delays(clusters, directory)
    text = section(results, quarter, delays)
    print(text)
    if options.keep:
        put_section(_RESULTS, "bench.schemas", text)
    return 1 if results.failed else 0


def _delays(clusters: Clusters, directory: Path) -> dict[str, DelayResult]:
    """Return the delays of verbatim copies, and of copies with ids replaced."""
    (ours,) = [variant for variant in variants() if variant.key == MAIN]
    delays: dict[str, DelayResult] = {}
    with orders.running(directory / "registries") as registries:
        for name, given in (("text, verbatim", None), ("ids replaced", registries)):
            run = f"delay-{len(delays)}"
            delays[name], _ = delay(clusters, ours, Steady(), run, directory / run, given)
    return delays


def section(results: Results, quarter: Results, delays: Mapping[str, DelayResult]) -> str:
    """Return the section of RESULTS.md.

    Args:
        results: the copies.
        quarter: a copy of a quarter of the records with ids.
        delays: the delays at a steady rate, by what was copied.
    """
    runs = chosen(results)
    few = chosen(quarter).get((MAIN, _RUNS[1]))
    rows = [_row(runs[MAIN, data]) for data in _RUNS if (MAIN, data) in runs]
    load = f"{os.getloadavg()[2]:.1f}"
    machine = describe()
    return "\n".join(
        (
            "## Schema mapping: 100 B, 4 partitions, 2 cores",
            "",
            "`python -m bench.schemas --keep`: brokers, registries, replicator and measuring share "
            f"two cores. Needed: ≥ {TARGET:,} records/s with all ids replaced. The median run of "
            "each kind.",
            "",
            "| records | records/s | CPU s/GB | peak memory, MB | found |",
            "| --- | --- | --- | --- | --- |",
            *rows,
            "",
            *(
                [f"Peak memory with {few.records:,} records, ids replaced: {_memory(few)} MB.", ""]
                if few
                else []
            ),
            "| 5,000 records/s | p50, ms | p99, ms | max, ms | records |",
            "| --- | --- | --- | --- | --- |",
            *(_delay_row(name, delay) for name, delay in delays.items()),
            "",
            f"{machine['Date']}, {machine['CPU']}, {machine['k2ktui']}; load average of the last "
            f"15 minutes {load}.",
            "",
        )
    )


def _row(one: CopyResult) -> str:
    kinds = {
        _RUNS[0]: "text, verbatim",
        _RUNS[1]: "Avro, ids replaced",
        _RUNS[2]: "Avro in lz4, ids replaced",
    }
    rate = "-" if one.rate is None else f"{one.rate:,.0f}"
    cpu = "-" if one.cpu_per_gb is None else f"{one.cpu_per_gb:.1f}"
    text = one.error.splitlines()[0] if one.error else report.found(one)
    return f"| {kinds[one.data]} | {rate} | {cpu} | {_memory(one)} | {text} |"


def _memory(one: CopyResult) -> str:
    return f"{one.rss_peak / MB:.0f}"


def _delay_row(name: str, one: DelayResult) -> str:
    if one.error:
        return f"| {name} | - | - | - | {one.error.splitlines()[0]} |"
    counted = f"{one.records:,} of {one.expected:,}"
    return f"| {name} | {one.p50_ms:.1f} | {one.p99_ms:.1f} | {one.max_ms:.1f} | {counted} |"


if __name__ == "__main__":
    raise SystemExit(main())
