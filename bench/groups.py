"""Plan and apply for many groups, as an operator runs it: ``python -m bench.groups``.

Two local clusters, one pipeline run to its end, then groups that committed at random on the source.
``k2ktui plan`` and ``k2ktui apply`` are timed from their start to their end, as processes.
``--against DIRECTORY`` measures in turns with another checkout what plan, apply, polls of ``sync``
and a start take, the first three without the time in which the program loads.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil
import yaml
from confluent_kafka import Producer

from bench.child import Child
from bench.clusters import Clusters, create_topic, running
from bench.machine import describe
from bench.model import Launch
from bench.sections import put_section
from k2ktui.kafka.wire.groups import ConsumerGroupClient, GroupCommit

TOPIC = "bench-groups"
TRANSACTIONS = 3
_START_S = 60.0
PLAN_TARGET_S, APPLY_TARGET_S = 10.0, 20.0


@dataclass(frozen=True, slots=True)
class Timed:
    """A command: seconds from start to end, CPU seconds, and peak memory in MB."""

    seconds: float
    cpu_seconds: float
    peak_mb: float


def command(*arguments: object) -> Timed:
    """Run ``k2ktui`` with arguments, and measure it."""
    began = time.monotonic()
    process = psutil.Popen(
        [sys.executable, "-m", "k2ktui", *map(str, arguments)], stdout=subprocess.DEVNULL
    )
    peak, cpu = 0.0, 0.0
    while process.poll() is None:
        try:
            peak = max(peak, process.memory_info().rss / 1e6)
            cpu = sum(process.cpu_times()[:2])
        except psutil.Error:
            break
        time.sleep(0.02)
    if process.wait() != 0:
        raise RuntimeError(f"k2ktui {arguments[0]} ended with {process.returncode}")
    return Timed(time.monotonic() - began, cpu, peak)


def write_pipeline(directory: Path, clusters: Clusters, state: str = "") -> Path:
    """Write the pipeline's file and return its path; ``state`` names a state topic of its own."""
    tree: dict[str, Any] = {
        "name": "bench-groups",
        "features": {"autoCreateControlTopics": "enabled"},
        **({"coordination": {"state": {"topic": f"state-{state}"}}} if state else {}),
        "topicCreation": {"control": {"common": {"replication": 1}}},
        "source": {"kafka": {"common": {"bootstrap.servers": clusters.source.bootstrap}}},
        "target": {"kafka": {"common": {"bootstrap.servers": clusters.target.bootstrap}}},
        "replication": [
            {"source": {"topic": [TOPIC]}},
            {"sink": {"topic": "source", "partition": "source"}},
        ],
    }
    file = directory / f"pipeline{state}.yaml"
    file.write_text(yaml.safe_dump(tree))
    return file


def produce(bootstrap: str, partitions: int, records: int) -> None:
    """Write so many records to each partition, in transactions, so that offsets diverge."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "bench-groups"})
    producer.init_transactions(60)
    for _ in range(TRANSACTIONS):
        producer.begin_transaction()
        for number in range(records // TRANSACTIONS):
            for partition in range(partitions):
                producer.produce(TOPIC, value=b"%d" % number, partition=partition)
            producer.poll(0)
        producer.commit_transaction(60)


def commit(bootstrap: str, groups: int, partitions: int, records: int) -> None:
    """Let groups without members commit at random places of every partition."""
    chance = random.Random(1)
    wanted = {
        f"group-{number:04}": {
            (TOPIC, partition): GroupCommit(chance.randrange(records))
            for partition in range(partitions)
        }
        for number in range(groups)
    }
    # The label of the side that may be written; this is the source, and its applications' part.
    with ConsumerGroupClient({"bootstrap_servers": [bootstrap]}, "target") as connection:
        connection.open(30)
        connection.commit(wanted)


def measure(groups: int, partitions: int, records: int, repeat: int) -> dict[str, list[Timed]]:
    """Return how long plan, apply and undo of everything took, each ``repeat`` times."""
    timed: dict[str, list[Timed]] = {"plan": [], "apply": [], "undo": []}
    with (
        tempfile.TemporaryDirectory(prefix="k2ktui-bench-") as name,
        running(Path(name), "1g") as clusters,
    ):
        directory = Path(name)
        file, plan = write_pipeline(directory, clusters), directory / "plan.json"
        create_topic(clusters.source.bootstrap, TOPIC, partitions)
        produce(clusters.source.bootstrap, partitions, records)
        command("start", "-f", file, "--until-caught-up")
        commit(clusters.source.bootstrap, groups, partitions, records)
        for _ in range(repeat):
            timed["plan"].append(command("plan", "-f", file, "-o", plan, "--csv"))
            rows = json.loads(plan.read_text())["rows"]
            changes = sum(row["action"] == "create" for row in rows)
            if changes != groups * partitions:
                raise RuntimeError(f"{changes} rows to create, not {groups * partitions}")
            timed["apply"].append(command("apply", plan, "--yes", "--json"))
            timed["undo"].append(command("undo", _last_entry(file), "-f", file, "--yes", "--json"))
    return timed


def compare(other: Path, groups: int, partitions: int, records: int, repeat: int) -> str:
    """Return medians of this checkout and of another one, CPU and wall seconds, and their ratio."""
    versions = {"this": Path(__file__).resolve().parent.parent, "other": other.resolve()}
    values_by_version: dict[str, dict[str, list[tuple[float, float]]]] = {
        name: {} for name in versions
    }
    with (
        tempfile.TemporaryDirectory(prefix="k2ktui-bench-") as name,
        running(Path(name), "1g") as clusters,
    ):
        create_topic(clusters.source.bootstrap, TOPIC, partitions)
        produce(clusters.source.bootstrap, partitions, records)
        command("start", "-f", write_pipeline(Path(name), clusters), "--until-caught-up")
        commit(clusters.source.bootstrap, groups, partitions, records)
        for number in range(repeat):
            for version, path in versions.items():
                file = write_pipeline(Path(name), clusters, f"{version}{number}")
                figures = _calls(path, file)
                figures["start"] = [_start(path, file)]
                for step, values in figures.items():
                    values_by_version[version].setdefault(step, []).extend(values)
    lines = ["step: CPU s other, this, ratio; wall s other, this, ratio"]
    for step, values in values_by_version["this"].items():
        parts = []
        for at in range(2):
            ours, theirs = (
                statistics.median(pair[at] for pair in some)
                for some in (values, values_by_version["other"][step])
            )
            parts.append(f"{theirs:.3f} {ours:.3f} {ours / theirs:.2f}")
        lines.append(f"{step}: {'; '.join(parts)}")
    return "\n".join(lines)


def _calls(checkout: Path, file: Path) -> dict[str, list[tuple[float, float]]]:
    """Run ``bench.group_calls`` with the code of a checkout."""
    script = Path(__file__).with_name("group_calls.py")
    done = subprocess.run(
        [sys.executable, str(script), str(file), "3"],
        env={**os.environ, "PYTHONPATH": str(checkout), "PYTHONSAFEPATH": "1"},
        stdout=subprocess.PIPE,
        check=True,
    )
    figures: dict[str, list[tuple[float, float]]] = json.loads(done.stdout)
    return figures


def _start(checkout: Path, file: Path) -> tuple[float, float]:
    """Return CPU seconds of all its processes, and seconds, of a start that has nothing to copy."""
    command = (sys.executable, "-m", "k2ktui", "start", "-f", str(file), "--until-caught-up")
    os.environ["PYTHONPATH"] = str(checkout)
    with Child(Launch(command, "", ""), file.parent) as child:
        if child.wait(_START_S) != 0:
            raise RuntimeError(f"the start failed:\n{child.tail()}")
        ended = time.monotonic()
        return child.meter.cpu_at(ended), ended - child.started


def _last_entry(file: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "k2ktui", "journal", "-f", str(file), "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    newest: str = json.loads(done.stdout)["journal"][0]["id"]
    return newest


def report(timed: dict[str, list[Timed]], groups: int, partitions: int) -> str:
    """Return the section of RESULTS.md."""
    lines = [
        f"## Moving {groups:,} groups of {partitions} partitions\n",
        "Written by `python -m bench.groups`. Seconds of the whole process, start of Python "
        f"included; the best of {len(timed['plan'])}. {groups * partitions:,} committed offsets, "
        "all to be created; undo takes all of them back.\n",
        "| command | seconds | target | CPU seconds | peak MB |",
        "|---|---|---|---|---|",
    ]
    targets = {"plan": f"≤ {PLAN_TARGET_S:g}", "apply": f"≤ {APPLY_TARGET_S:g}", "undo": ""}
    for name, runs in timed.items():
        best = min(runs, key=lambda run: run.seconds)
        lines.append(
            f"| `k2ktui {name}` | {best.seconds:.1f} | {targets[name]} | {best.cpu_seconds:.1f} "
            f"| {best.peak_mb:.0f} |"
        )
    machine = describe()
    busy = psutil.getloadavg()[2]
    lines.append(
        f"\n{machine['Date']}, {machine['CPU']}, {machine['k2ktui']}; load average of the last 15 "
        f"minutes {busy:.1f}: of a busy machine only CPU seconds can be compared."
    )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure and print the section."""
    parser = argparse.ArgumentParser(prog="python -m bench.groups")
    parser.add_argument("--groups", type=int, default=1_000)
    parser.add_argument("--partitions", type=int, default=50)
    parser.add_argument("--records", type=int, default=3_000, help="a partition")
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--json", action="store_true", help="print figures")
    parser.add_argument("--keep", action="store_true", help="put the section into RESULTS.md")
    parser.add_argument("--against", type=Path, help="another checkout, measured in turns")
    options = parser.parse_args()
    if options.against:
        sizes = (options.groups, options.partitions, options.records, options.repeat)
        print(compare(options.against, *sizes))
        return
    timed = measure(options.groups, options.partitions, options.records, options.repeat)
    if options.json:
        print(json.dumps({name: [asdict(run) for run in runs] for name, runs in timed.items()}))
        return
    text = report(timed, options.groups, options.partitions)
    print(text)
    if options.keep:
        put_section(Path(__file__).with_name("RESULTS.md"), "bench.groups", text)


if __name__ == "__main__":
    main()
