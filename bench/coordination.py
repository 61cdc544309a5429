"""Starts with each ``coordination.mode``: ``python -m bench.coordination --keep``.

What a run takes until its first record is on the target: at the first start of a pipeline, after a
stop, and after ``kill -9`` of the run before; and how long copying pauses if the run that copies is
killed while another one waits or shares the pipeline. ``--copies`` compares how fast one run copies
a backlog with ``exclusive`` and with ``shared``, in turns.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil
import yaml
from confluent_kafka import Producer

from bench.child import Child
from bench.clusters import (
    Clusters,
    admin,
    create_topic,
    delete_topics,
    make_class_archives,
    running,
)
from bench.copying import Patience, copy
from bench.growth import ends, find_cpu, run_processes, single_delays
from bench.load import load
from bench.machine import describe
from bench.model import CopyResult, DataSet, Launch
from bench.ours import K2ktui
from bench.sections import put_section

MODES = ("exclusive", "standby", "shared")
_COMPARED = ("exclusive", "shared")
_COPIED = (
    DataSet(100, "none", 4, 4_000_000),
    DataSet(100, "none", 64, 4_000_000),
    DataSet(1000, "none", 4, 1_000_000),
)
_PARTITIONS = 4
_START_S = 180.0
_SETTLE_S = 8.0
_IDLE_S = 20.0
_DELAY_S = 30.0


@dataclass(frozen=True, slots=True)
class Starts:
    """What was measured with one mode; times in seconds, those of several pipelines in order.

    Attributes:
        mode: ``coordination.mode``.
        first_s: from the start of the process to the first record, of pipelines that are new.
        stopped_s: the same after a run that was stopped.
        killed_s: the same after a run that was killed.
        idle: percent of a core of all processes of an idle run.
        delays_ms: median, 99 % and largest delay of single records.
        pause_s: from ``kill -9`` of the run that was first until all partitions are copied again by
            the other one; None for ``exclusive``, which has no other one.
    """

    mode: str
    first_s: tuple[float, ...]
    stopped_s: tuple[float, ...]
    killed_s: tuple[float, ...]
    idle: float
    delays_ms: tuple[float, float, float]
    pause_s: float | None


class Measurement:
    """Measures starts on two clusters.

    Args:
        clusters: the clusters.
        directory: for configuration and logs.
    """

    def __init__(self, clusters: Clusters, directory: Path) -> None:
        self._clusters, self._directory = clusters, directory

    def measure(self, mode: str, times: int) -> Starts:
        """Return the figures of one mode."""
        first_s, stopped_s, killed_s = [], [], []
        for number in range(times):
            one = _Pipeline(self._clusters, self._directory, mode, number)
            first_s.append(one.first_record(one.run()))
            stopped_s.append(one.first_record(one.run(), kill=True))
            killed_s.append(one.first_record(one.run()))
            _say(mode=mode, first_s=first_s[-1], stopped_s=stopped_s[-1], killed_s=killed_s[-1])
        idle, delays_ms, pause_s = self._steady(mode, times)
        return Starts(
            mode, tuple(first_s), tuple(stopped_s), tuple(killed_s), idle, delays_ms, pause_s
        )

    def _steady(
        self, mode: str, number: int
    ) -> tuple[float, tuple[float, float, float], float | None]:
        one = _Pipeline(self._clusters, self._directory, mode, number)
        with one.run() as child:
            one.await_growth(child)
            time.sleep(_SETTLE_S)
            began, before = time.monotonic(), find_cpu(child)
            time.sleep(_IDLE_S)
            idle = 100 * (find_cpu(child) - before) / (time.monotonic() - began)
            delays_ms = single_delays(self._clusters, one.prefix, one.partitions, _DELAY_S)
            _say(mode=mode, idle=idle, delays_ms=delays_ms)
            if mode == "exclusive":
                return idle, delays_ms, None
            with one.run("second") as second:
                one.await_second(second)
                processes = run_processes(child)
                began = time.monotonic()
                os.kill(child.pid, signal.SIGKILL)
                # Its workers still copy what is there until they have ended.
                psutil.wait_procs(processes, timeout=_SETTLE_S)
                one.await_growth(second)
                return idle, delays_ms, time.monotonic() - began


class _Pipeline:
    """A pipeline of one topic."""

    def __init__(self, clusters: Clusters, directory: Path, mode: str, number: int) -> None:
        self._clusters, self._directory, self._mode = clusters, directory, mode
        self._topic = f"coordination-{mode}-{number}"
        self.prefix = "copy."
        self.partitions = [(self._topic, partition) for partition in range(_PARTITIONS)]
        for node, name in zip(clusters.both, (self._topic, self.prefix + self._topic), strict=True):
            create_topic(node.bootstrap, name, _PARTITIONS)

    def run(self, name: str = "run") -> Child:
        """Return a run, which is not started."""
        directory = self._directory / f"{self._topic}-{name}"
        directory.mkdir(exist_ok=True)
        file = directory / "pipeline.yaml"
        text = yaml.safe_dump(self._settings(), sort_keys=False)
        file.write_text(text)
        command = (sys.executable, "-m", "k2ktui", "start", "-f", str(file), "--log-format", "json")
        return Child(Launch(command, self.prefix + self._topic, text, ends=False), directory)

    def first_record(self, run: Child, *, kill: bool = False) -> float:
        """Start a run; return the seconds until all partitions have grown by what was written."""
        before = self._ends()
        self._produce()
        with run as child:
            took = self._await(child, before, child.started)
            time.sleep(_SETTLE_S)
            if kill:
                os.kill(child.pid, signal.SIGKILL)
                child.wait(10.0)
        return took

    def await_growth(self, child: Child) -> float:
        """Write a record to each partition; return the seconds until all are on the target."""
        before = self._ends()
        self._produce()
        return self._await(child, before, time.monotonic())

    def await_second(self, child: Child) -> None:
        """Wait until a second run waits as a standby, or shares the pipeline."""
        sought = '"event": "waiting"' if self._mode == "standby" else "shared by 2 runs"
        until = time.monotonic() + _START_S
        while sought not in child.text():
            if time.monotonic() > until or child.exit_code is not None:
                raise TimeoutError(f"the second run did not say {sought}:\n{child.tail()}")
            time.sleep(0.1)
        time.sleep(_SETTLE_S)

    def _await(self, child: Child, before: dict[tuple[str, int], int], since: float) -> float:
        client = admin(self._clusters.target.bootstrap)
        while time.monotonic() - since < _START_S:
            ends_now = ends(client, self.prefix, self.partitions)
            if all(ends_now[at] > before[at] for at in self.partitions):
                return time.monotonic() - since
            if child.exit_code is not None:
                break
            time.sleep(0.05)
        raise TimeoutError(f"not all records were copied:\n{child.tail()}")

    def _ends(self) -> dict[tuple[str, int], int]:
        return ends(admin(self._clusters.target.bootstrap), self.prefix, self.partitions)

    def _produce(self) -> None:
        producer = Producer({"bootstrap.servers": self._clusters.source.bootstrap, "log_level": 3})
        for topic, partition in self.partitions:
            producer.produce(topic, b"record", partition=partition)
        producer.flush(30.0)

    def _settings(self) -> dict[str, object]:
        source, target = (node.bootstrap for node in self._clusters.both)
        return {
            "name": self._topic,
            "features": {"autoCreateControlTopics": "enabled"},
            "topicCreation": {"control": {"common": {"replication": 1}}},
            "coordination": {"mode": self._mode},
            "spark": {"slots": 2},
            "source": {"kafka": {"common": {"bootstrap.servers": source}}},
            "target": {"kafka": {"common": {"bootstrap.servers": target}}},
            "replication": [
                {"source": {"topic": self._topic}},
                {"sink": {"topic": {"prefix": self.prefix}, "partition": "source"}},
            ],
        }


def compare_copies(clusters: Clusters, directory: Path, times: int) -> list[CopyResult]:
    """Let one run copy each data set with ``exclusive`` and with ``shared``, in turns."""
    copies = []
    for data in _COPIED:
        load(clusters.source.bootstrap, data, processes=2)
        for number in range(times + 1):  # the first one warms up
            for mode in _COMPARED:
                one = K2ktui(mode, mode, mode=mode)
                run = f"{mode}{number}-{data.name}"
                result, _ = copy(clusters, one, data, run, directory / run, Patience())
                _say(run=run, rate=result.rate, error=result.error)
                delete_topics(clusters.target.bootstrap)
                if number and not result.error:
                    copies.append(result)
        delete_topics(clusters.source.bootstrap)
    return copies


def copies_section(copies: Sequence[CopyResult]) -> str:
    """Return the section of RESULTS.md that compares copies."""
    rows = []
    for data in _COPIED:
        cells, medians = [], []
        for mode in _COMPARED:
            some = [copy for copy in copies if (copy.contender, copy.data) == (mode, data.name)]
            if not some:
                break
            rates = [copy.rate or 0.0 for copy in some]
            medians.append(statistics.median(rates))
            cpu = statistics.median(copy.cpu_per_gb_from_start for copy in some)
            cells.append(f"{', '.join(f'{rate / 1000:,.0f}' for rate in rates)} | {cpu:.1f}")
        else:
            exclusive, shared = medians
            name = f"{data.size} B, {data.partitions} partitions"
            rows.append(f"| {name} | {' | '.join(cells)} | {shared / exclusive:.2f} |")
    return "\n".join(
        [
            "## Copies with each coordination.mode",
            "",
            *_header(),
            "",
            "| records | `exclusive`: 1,000 records/s | CPU s/GB | `shared`: 1,000 records/s "
            "| CPU s/GB | ratio |",
            "|---|---|---|---|---|---|",
            *rows,
            "",
            "`python -m bench.coordination --copies`: one run copies a backlog, verbatim and",
            "exactly once, in turns; CPU time is that of the whole run with its start. Ratio of",
            "the medians.",
            "",
        ]
    )


def _header() -> list[str]:
    shown = ("Date", "CPU", "Apache Kafka", "Python", "k2ktui")
    return [
        *(f"{name}: {value}  " for name, value in describe().items() if name in shown),
        f"Load average at the end: {os.getloadavg()[0]:.1f}",
    ]


def section(starts_by_mode: Sequence[Starts]) -> str:
    """Return the section of RESULTS.md."""
    return "\n".join(
        [
            "## Starts with each coordination.mode",
            "",
            *_header(),
            "",
            "| mode | first start, s | after a stop, s | after kill -9, s | idle, % of a core "
            "| delay p50 / p99 / max, ms | pause when the run that copies is killed, s |",
            "|---|---|---|---|---|---|---|",
            *(_row(mode_starts) for mode_starts in starts_by_mode),
            "",
            f"`python -m bench.coordination`: a topic of {_PARTITIONS} partitions, two slots, the",
            "default `graceWindow`, one broker per cluster. From the start of the process until",
            "a record of each partition is visible; one figure per pipeline. Pause: another run",
            "on the same host waits (`standby`) or copies half of the partitions (`shared`).",
            "",
        ]
    )


def _row(mode_starts: Starts) -> str:
    starts = (mode_starts.first_s, mode_starts.stopped_s, mode_starts.killed_s)
    cells = " | ".join(", ".join(f"{one:.1f}" for one in some) for some in starts)
    delays = " / ".join(f"{value:.0f}" for value in mode_starts.delays_ms)
    pause = "—" if mode_starts.pause_s is None else f"{mode_starts.pause_s:.1f}"
    return f"| `{mode_starts.mode}` | {cells} | {mode_starts.idle:.1f} | {delays} | {pause} |"


def _say(**what: object) -> None:
    print(json.dumps({"at": time.strftime("%H:%M:%S"), **what}, default=str), flush=True)


def _measure(clusters: Clusters, runs: Path, options: argparse.Namespace) -> tuple[str, str]:
    """Return the name of a section, and its text."""
    if options.copies:
        results = compare_copies(clusters, runs, options.pipelines)
        return "coordination-copies", copies_section(results)
    measurement, measured = Measurement(clusters, runs), []
    for mode in options.mode or MODES:
        measured.append(measurement.measure(mode, options.pipelines))
        _say(event="measured", **asdict(measured[-1]))
    return "coordination", section(measured)


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, and put the section into RESULTS.md if asked to; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.coordination", description=__doc__)
    add = parser.add_argument
    add("--mode", choices=MODES, action="append", help="a mode; can be repeated [all]")
    add("--copies", action="store_true", help="compare copies instead of starts")
    add("--pipelines", type=int, default=3, help="new pipelines for each mode")
    add("--heap", default="1g", help="Java heap of each broker")
    add("--keep", action="store_true", help="write the figures to RESULTS.md")
    options = parser.parse_args(arguments)
    directory = Path(tempfile.mkdtemp(prefix="k2ktui-coordination-"))
    try:
        make_class_archives()
        with running(directory, options.heap) as clusters:
            (directory / "runs").mkdir()
            name, text = _measure(clusters, directory / "runs", options)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    print(text)
    if options.keep:
        put_section(Path(__file__).parent / "RESULTS.md", name, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
