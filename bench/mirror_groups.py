"""Exact positions for many groups of a real MirrorMaker 2: ``python -m bench.mirror_groups``.

It copies one topic; then groups commit at random on the source. What it recorded is a bound for
nearly all of them; ``k2ktui plan`` and ``k2ktui sync`` compare records on both clusters to make
them exact, and are timed from their start to their end, as processes.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import Counter
from pathlib import Path

from confluent_kafka import KafkaException

from bench.child import Child
from bench.clusters import create_topic, end_offsets, running, wait_for
from bench.groups import TOPIC, TRANSACTIONS, Timed, command, commit, produce
from bench.machine import describe
from bench.model import Job
from bench.peer import MirrorMaker
from bench.sections import put_section

_WAIT_S = 300.0
_SETTINGS = {
    "offset-syncs.topic.replication.factor": "1",
    "{target}.offset.flush.interval.ms": "1000",
}
Found = list[tuple[str, Timed, Counter[str]]]


def measure(groups: int, partitions: int, records: int) -> Found:
    """Return how long each command took, and the rows of each basis."""
    with (
        tempfile.TemporaryDirectory(prefix="k2ktui-bench-") as name,
        running(Path(name), "512m") as clusters,
    ):
        directory, source, target = Path(name), *(node.bootstrap for node in clusters.both)
        create_topic(source, TOPIC, partitions)
        job = Job("mm2", source, target, TOPIC, directory, steady=True)
        launch = MirrorMaker("mm2", "", _SETTINGS).prepare(job)
        with Child(launch, directory):
            produce(source, partitions, records)
            wanted = records // TRANSACTIONS * TRANSACTIONS

            def copied() -> bool:
                try:
                    return min(end_offsets(target, launch.target_topic, partitions)) >= wanted
                except KafkaException:
                    return False

            wait_for(copied, "everything is copied", _WAIT_S)
        commit(source, groups, partitions, wanted)
        return _timed(directory / "mm2.properties", directory / "plan.json")


def _timed(file: Path, plan: Path) -> Found:
    results: Found = []
    for label, arguments in (
        ("`k2ktui plan`, nothing known yet", ("plan", "-o", plan)),
        ("`k2ktui sync --once`, which keeps what it proves", ("sync", "--once")),
        ("`k2ktui plan` from then on", ("plan", "-o", plan)),
    ):
        timed = command(*arguments, "-f", file)
        rows = json.loads(plan.read_text())["rows"]
        results.append((label, timed, Counter(row["basis"] for row in rows)))
    return results


def report(results: Found, groups: int, partitions: int, records: int) -> str:
    """Return the section of RESULTS.md."""
    lines = [
        f"## Exact positions for {groups:,} groups of {partitions} partitions of MirrorMaker 2\n",
        "Written by `python -m bench.mirror_groups`. Seconds of the whole process, start of Python "
        f"included. {records:,} records a partition, {groups * partitions:,} committed offsets at "
        "random; a walk through both logs serves all groups of a partition, so that each record "
        "is read once.\n",
        "| command | seconds | CPU seconds | peak MB | basis of the plan's rows |",
        "|---|---|---|---|---|",
    ]
    for label, timed, basis in results:
        shown = ", ".join(f"{count:,} `{name}`" for name, count in basis.most_common())
        lines.append(
            f"| {label} | {timed.seconds:.1f} | {timed.cpu_seconds:.1f} | {timed.peak_mb:.0f} "
            f"| {shown} |"
        )
    machine = describe()
    lines.append(f"\n{machine['Date']}, {machine['CPU']}, {machine['k2ktui']}.")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure and print the section."""
    parser = argparse.ArgumentParser(prog="python -m bench.mirror_groups")
    parser.add_argument("--groups", type=int, default=1_000)
    parser.add_argument("--partitions", type=int, default=50)
    parser.add_argument("--records", type=int, default=3_000, help="a partition")
    parser.add_argument("--keep", action="store_true", help="put the section into RESULTS.md")
    options = parser.parse_args()
    results = measure(options.groups, options.partitions, options.records)
    text = report(results, options.groups, options.partitions, options.records)
    print(text)
    if options.keep:
        put_section(Path(__file__).with_name("RESULTS.md"), "bench.mirror_groups", text)


if __name__ == "__main__":
    main()
