"""Drills: a rehearsal of many groups, and a switchover of the demo: ``python -m bench.drill``.

The times are those of the drills' own reports: what a phase took, and how much of it was the tool,
without waiting for people, applications and the proof of the fence. :mod:`bench.drill_runbook`
adds what a runbook with Kafka's own tools takes and re-reads on the same data.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psutil
from confluent_kafka import KafkaException

from bench.clusters import create_topic, end_offsets, make_class_archives, running, wait_for
from bench.drill_runbook import Runbook, compare, report_runbook
from bench.groups import TOPIC, TRANSACTIONS, commit, produce, write_pipeline
from bench.machine import describe
from bench.sections import put_section

REHEARSE_TARGET_S, PLANNED_TARGET_S = 60.0, 30.0
_SAMPLED = 100
_WAIT_S = 600.0
_TIMES = (
    "Times are those of the drill's report; *of the tool* leaves out waiting for people, "
    "applications and the proof of the fence."
)
_REPORT = re.compile(r"on the target: k2ktui drill report (\S+) -f (\S+)")
_RESULTS = Path(__file__).with_name("RESULTS.md")
PARTS = ("rehearse", "planned", "runbook")


@dataclass(frozen=True, slots=True)
class Measured:
    """A drill by its report.

    Attributes:
        phases: seconds by phase: from its beginning to its end, and of the tool.
        tool_s: seconds of the tool.
        rto_s: seconds to the first record read on the target; None if none was read.
        summary: the report's first lines.
    """

    phases: Mapping[str, tuple[float, float]]
    tool_s: float
    rto_s: float | None
    summary: tuple[str, ...]


def read_report(report: Mapping[str, Any]) -> Measured:
    """Return the figures of a drill's report in JSON."""
    phases = {}
    for phase in report["phases"]:
        if phase["began_ms"] is not None and phase["ended_ms"] is not None:
            took = phase["ended_ms"] - phase["began_ms"]
            phases[phase["phase"]] = took / 1000, (took - phase["waited_ms"]) / 1000
    first = report["figures"]["first_record_ms"]
    rto = None if first is None else (first - report["started_ms"]) / 1000
    return Measured(phases, report["tool_ms"] / 1000, rto, tuple(report["summary"]))


def k2ktui_json(*arguments: object, codes: Sequence[int] = (0, 1)) -> dict[str, Any]:
    """Run a command with ``--json``, and return what it prints.

    Raises:
        RuntimeError: it ended with another exit code.
    """
    command = [sys.executable, "-m", "k2ktui", *map(str, arguments), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in codes:
        raise RuntimeError(f"k2ktui {arguments[0]} ended with {done.returncode}: {done.stderr}")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def rehearse(groups: int, partitions: int, records: int) -> Measured:
    """Rehearse a failover of groups that committed at random, while the pipeline runs."""
    with (
        tempfile.TemporaryDirectory(prefix="k2ktui-bench-") as name,
        running(Path(name), "1g") as clusters,
    ):
        file, target = write_pipeline(Path(name), clusters), clusters.target.bootstrap
        create_topic(clusters.source.bootstrap, TOPIC, partitions)
        produce(clusters.source.bootstrap, partitions, records)
        commit(clusters.source.bootstrap, groups, partitions, records)
        pipeline = _start("start", "-f", file)
        try:
            wanted = records // TRANSACTIONS * TRANSACTIONS
            copied = partial(_is_copied, target, partitions, wanted)
            wait_for(copied, "everything is copied", _WAIT_S)
            return read_report(k2ktui_json("drill", "rehearse", "-f", file))
        finally:
            _stop(pipeline)


def _is_copied(target: str, partitions: int, records: int) -> bool:
    try:
        return min(end_offsets(target, TOPIC, partitions)) >= records
    except KafkaException:
        return False  # the topic is not there yet


def switch_demo_over() -> tuple[Measured, Measured]:
    """Return the rehearsal and the planned switchover of the demo's tour."""
    with tempfile.TemporaryDirectory(prefix="k2ktui-bench-") as name:
        environment = {**os.environ, "XDG_STATE_HOME": name}
        demo = _start(
            "demo",
            "--headless",
            "--drill",
            "--seconds",
            "120",
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            for line in demo.stdout or ():
                if match := _REPORT.search(line):
                    drill_id, file = match.groups()
                    break
            else:
                raise RuntimeError("the demo ended before its report")
            drills = k2ktui_json("drill", "list", "-f", file)["drills"]
            (rehearsal,) = [drill["id"] for drill in drills if drill["kind"] == "rehearse"]
            reports = [k2ktui_json("drill", "report", n, "-f", file) for n in (rehearsal, drill_id)]
        finally:
            _stop(demo)
    return read_report(reports[0]), read_report(reports[1])


def _start(*arguments: object, **how: Any) -> subprocess.Popen[Any]:
    command = [sys.executable, "-m", "k2ktui", *map(str, arguments)]
    return subprocess.Popen(command, **({"stdout": subprocess.DEVNULL} | how))


def _stop(process: subprocess.Popen[Any]) -> None:
    process.send_signal(signal.SIGINT)
    try:
        process.wait(120)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(30)


def report_rehearsal(measured: Measured, groups: int, partitions: int, records: int) -> str:
    """Return the section of RESULTS.md about the rehearsal."""
    lines = [
        f"## Drill: rehearsal of {groups:,} groups of {partitions} partitions\n",
        f"Written by `python -m bench.drill --keep`. {_TIMES} {records:,} records a partition; the "
        f"pipeline runs; shadow groups of {min(_SAMPLED, groups)} groups read {partitions} "
        "partitions each.\n",
        *_phases(measured, REHEARSE_TARGET_S),
    ]
    return _end(lines)


def report_demo(rehearsal: Measured, switchover: Measured) -> str:
    """Return the section of RESULTS.md about the demo."""
    lines = [
        "## Drill: planned switchover of the demo\n",
        f"Written by `python -m bench.drill --keep`. {_TIMES} The rehearsal before it needed "
        f"{rehearsal.tool_s:.1f} s of the tool.\n",
        *_phases(switchover, PLANNED_TARGET_S),
        *(f"- {line}" for line in switchover.summary),
        "",
    ]
    return _end(lines)


def report_ways(ways: Sequence[Runbook]) -> str:
    """Return the section of RESULTS.md about the runbook."""
    return _end(report_runbook(ways))


def _end(lines: Sequence[str]) -> str:
    machine, busy = describe(), psutil.getloadavg()[2]
    end = (
        f"{machine['Date']}, {machine['CPU']}, {machine['k2ktui']}; load average of the last 15 "
        f"minutes {busy:.1f}."
    )
    return "\n".join([*lines, end]) + "\n"


def _phases(measured: Measured, target_s: float | None) -> list[str]:
    rows = [
        f"| {name} | {took:.1f} | {tool:.1f} |" for name, (took, tool) in measured.phases.items()
    ]
    total = sum(took for took, _ in measured.phases.values())
    rto = "" if measured.rto_s is None else f"; first record read after {measured.rto_s:.1f} s"
    wanted = "" if target_s is None else f" (target ≤ {target_s:g})"
    return [
        "| phase | seconds | of the tool |",
        "|---|---|---|",
        *rows,
        f"| all{wanted} | {total:.1f} | {measured.tool_s:.1f} |",
        f"\nRTO: {measured.tool_s:.1f} s of the tool{rto}.\n",
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print the section."""
    parser = argparse.ArgumentParser(prog="python -m bench.drill", description=__doc__)
    parser.add_argument("--groups", type=int, default=1_000)
    parser.add_argument("--partitions", type=int, default=10)
    parser.add_argument("--records", type=int, default=3_000, help="a partition")
    parser.add_argument("--runbook-records", type=int, default=400_000)
    parser.add_argument("--only", action="append", choices=PARTS, help="parts; can be repeated")
    parser.add_argument("--keep", action="store_true", help="put the section into RESULTS.md")
    options = parser.parse_args(arguments)
    make_class_archives()
    parts = options.only or PARTS

    reports: dict[str, str] = {}
    if "rehearse" in parts:
        scope = options.groups, options.partitions, options.records
        reports["rehearse"] = report_rehearsal(rehearse(*scope), *scope)
    if "planned" in parts:
        reports["planned"] = report_demo(*switch_demo_over())
    if "runbook" in parts:
        reports["runbook"] = report_ways(compare(options.runbook_records))
    for part, text in reports.items():
        print(text)
        if options.keep:
            put_section(_RESULTS, f"bench.drill.{part}", text)


if __name__ == "__main__":
    main()
