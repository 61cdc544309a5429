"""Schema mapping beside plain copies, on two cores with both brokers.

``python -m bench.schemas --keep``: the same process copies 100-byte records verbatim, and orders in
Avro whose schema ids are replaced. Everything shares two cores: brokers, registries, replicator and
measuring.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

from bench import report
from bench.clusters import make_class_archives, running
from bench.copying import Patience
from bench.machine import describe
from bench.model import MB, CopyResult, Results
from bench.plan import MAIN, Scope, tasks
from bench.run import Bench
from bench.sections import put_section
from bench.targets import chosen

TARGET = 500_000
_CORES = 2
_RESULTS = Path(__file__).with_name("RESULTS.md")
_RUNS = ("100-none-4", "schemas-100-none-4", "schemas-100-lz4-4")


def main(arguments: list[str] | None = None) -> int:
    """Return the exit code: 0, or 1 when a run failed."""
    parser = argparse.ArgumentParser(prog="python -m bench.schemas", description=__doc__)
    parser.add_argument("--keep", action="store_true", help="Write the section of RESULTS.md.")
    parser.add_argument("--repeat", type=int, default=3, help="Runs of each kind.")
    parser.add_argument("--records", type=int, default=10_000_000, help="Records of each run.")
    options = parser.parse_args(arguments)
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:_CORES])
    sizes = ((100, options.records),)
    scope = Scope(records=sizes, schema_records=sizes, json_records=(), repeat=options.repeat)
    results = Results()
    with tempfile.TemporaryDirectory(prefix="k2ktui-bench-") as name:
        directory = Path(name)
        make_class_archives()
        with running(directory, scope.heap) as clusters:
            bench = Bench(clusters, scope, directory / "runs", directory, results)
            bench.run(tasks(scope, [f"copy/{MAIN}/{data}" for data in _RUNS]), Patience())
    text = section(results)
    print(text)
    if options.keep:
        put_section(_RESULTS, "bench.schemas", text)
    return 1 if results.failed else 0


def section(results: Results) -> str:
    """Return the section of RESULTS.md."""
    runs = chosen(results)
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
            f"{machine['Date']}, {machine['CPU']}, {machine['k2ktui']}; load average of the last "
            f"15 minutes {load}.",
            "",
        )
    )


def _row(one: CopyResult) -> str:
    kinds = {
        "100-none-4": "text, verbatim",
        "schemas-100-none-4": "Avro, ids replaced",
        "schemas-100-lz4-4": "Avro in lz4, ids replaced",
    }
    rate = "-" if one.rate is None else f"{one.rate:,.0f}"
    cpu = "-" if one.cpu_per_gb is None else f"{one.cpu_per_gb:.1f}"
    found = one.error.splitlines()[0] if one.error else report.found(one)
    return f"| {kinds[one.data]} | {rate} | {cpu} | {one.rss_peak / MB:.0f} | {found} |"


if __name__ == "__main__":
    raise SystemExit(main())
