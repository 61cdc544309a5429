"""The console on a real pipeline: ``python -m bench.console_live``.

Two local clusters, a run that copies nothing at the moment, and the console on a pty. Figures: from
its start to the first figures on the screen, and the CPU time that it takes while nothing changes.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil
import yaml
from confluent_kafka import KafkaException, Producer

from bench.child import Child
from bench.clusters import (
    Clusters,
    admin,
    create_topic,
    end_offsets,
    led_partitions,
    running,
    wait_for,
)
from bench.machine import describe
from bench.model import Launch
from bench.sections import put_section
from k2ktui.kafka.wire.groups import ConsumerGroupClient, GroupCommit
from tests.support.console.terminal import Terminal

TOPICS, PARTITIONS, GROUPS, RECORDS = 3, 4, 5, 40
SIZE = (120, 40)
START_TARGET_S, CPU_TARGET = 3.0, 1.0
_COPY_S, _SHOW_S = 120.0, 60.0
_SETTLE_S = 15.0
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\x1b[=>]")
# The lines of the first screen, with all figures of the clusters.
_FIGURES = {
    "lag": r"[^\d,]0 records\s",
    "groups": rf"[^\d,]{GROUPS} groups\s",
}


@dataclass(frozen=True, slots=True)
class Start:
    """Seconds from the start of the process, and the CPU seconds of the process until the last.

    Attributes:
        painted_s: until anything of the console was on the screen.
        figures_s: until lag and partitions were.
        groups_s: until groups were.
        cpu_s: CPU time until then.
    """

    painted_s: float
    figures_s: float
    groups_s: float
    cpu_s: float


@dataclass(frozen=True, slots=True)
class Idle:
    """CPU of the console in percent of a core, in all and of its threads by name."""

    cpu: float
    seconds: float
    threads: Mapping[str, float]


def write_pipeline(directory: Path, clusters: Clusters) -> Path:
    """Write the pipeline's file and return its path."""
    tree = {
        "name": "bench-console",
        "features": {"autoCreateControlTopics": "enabled"},
        "topicCreation": {"control": {"common": {"replication": 1}}},
        "source": {"kafka": {"common": {"bootstrap.servers": clusters.source.bootstrap}}},
        "target": {"kafka": {"common": {"bootstrap.servers": clusters.target.bootstrap}}},
        "replication": [
            {"source": {"topic": "console-.*"}},
            {"sink": {"topic": "source", "partition": "source"}},
        ],
    }
    file = directory / "pipeline.yaml"
    file.write_text(yaml.safe_dump(tree))
    return file


def fill(clusters: Clusters) -> None:
    """Create topics with records, and groups that have read half of them."""
    topics = [f"console-{number}" for number in range(TOPICS)]
    producer = Producer({"bootstrap.servers": clusters.source.bootstrap, "log_level": 3})
    for topic in topics:
        create_topic(clusters.source.bootstrap, topic, PARTITIONS)
        for partition in range(PARTITIONS):
            for number in range(RECORDS):
                producer.produce(topic, f"record {number}".encode(), partition=partition)
    producer.flush(_COPY_S)
    options = {"bootstrap_servers": clusters.source.bootstrap}
    half = {(t, p): GroupCommit(RECORDS // 2) for t in topics for p in range(PARTITIONS)}
    # As an application does; this client writes nothing to a cluster that is called source.
    with ConsumerGroupClient(options, "target") as groups:
        groups.open(_COPY_S)
        written = groups.commit({f"group-{number}": half for number in range(GROUPS)})
    if errors := {
        text for errors_by_topic in written.values() for text in errors_by_topic.values() if text
    }:
        raise RuntimeError(f"groups were not written: {errors}")


@contextlib.contextmanager
def pipeline(clusters: Clusters, directory: Path) -> Iterator[Path]:
    """Run the pipeline, and yield its file when everything is copied."""
    file = write_pipeline(directory, clusters)
    command = (sys.executable, "-m", "k2ktui", "start", "-f", str(file), "--log-format", "json")
    target = admin(clusters.target.bootstrap)

    def copied() -> bool:
        if child.exit_code is not None:
            raise RuntimeError(f"the run ended:\n{child.tail()}")
        topics = [f"console-{number}" for number in range(TOPICS)]
        if not all(led_partitions(target, topic) == PARTITIONS for topic in topics):
            return False
        # A copied record is followed by the marker of its transaction.
        with contextlib.suppress(KafkaException):  # a leader was just elected
            return all(min(end_offsets(target, t, PARTITIONS)) > RECORDS for t in topics)
        return False

    with Child(Launch(command, "", file.read_text(), ends=False), directory) as child:
        wait_for(copied, "everything is copied", _COPY_S)
        yield file


def console(file: Path) -> Terminal:
    """Open the console of a pipeline's file."""
    command = [sys.executable, "-m", "k2ktui", "-f", str(file)]
    env = {"PYTHONPATH": os.getcwd(), "XDG_CONFIG_HOME": tempfile.gettempdir(), "LANG": "C.UTF-8"}
    return Terminal(command, size=SIZE, env=env)


def measure_start(file: Path) -> Start:
    """Open the console, wait for its figures, and leave it."""
    began = time.monotonic()
    with console(file) as terminal:
        start = _await_figures(terminal, began)
        terminal.send("\x03")
        terminal.wait()
    return start


def measure_idle(file: Path, seconds: float) -> Idle:
    """Return the CPU time of a console without typing."""
    with console(file) as terminal:
        _await_figures(terminal, time.monotonic())
        terminal.quiet(_SETTLE_S)
        process = psutil.Process(terminal.process.pid)
        before, began = thread_seconds(process), time.monotonic()
        cpu = _cpu(process)
        terminal.quiet(seconds)
        used, after = _cpu(process) - cpu, thread_seconds(process)
        over = time.monotonic() - began
        terminal.send("\x03")
        terminal.wait()
    threads: dict[str, float] = {}
    for key, value in after.items():
        name = key[1]
        threads[name] = threads.get(name, 0.0) + 100 * (value - before.get(key, 0.0)) / over
    return Idle(
        100 * used / over, over, dict(sorted(threads.items(), key=lambda thread: -thread[1]))
    )


def thread_seconds(process: psutil.Process) -> dict[tuple[int, str], float]:
    """Return the CPU seconds of every thread of a process, by id and name (Linux)."""
    seconds = {}
    for thread in process.threads():
        path = Path(f"/proc/{process.pid}/task/{thread.id}/comm")
        name = path.read_text().strip() if path.exists() else "ended"
        seconds[thread.id, name] = thread.user_time + thread.system_time
    return seconds


def _await_figures(terminal: Terminal, began: float) -> Start:
    text, painted, times = "", 0.0, dict.fromkeys(_FIGURES, 0.0)
    process = psutil.Process(terminal.process.pid)
    while not all(times.values()):
        now = time.monotonic() - began
        if now > _SHOW_S:
            raise TimeoutError(f"no figures on the screen: {text[-3000:]!r}")
        text += _ESCAPES.sub("", terminal.first(0.05).decode(errors="replace"))
        now = time.monotonic() - began
        painted = painted or (now if "bench-console" in text else 0.0)
        for name, pattern in _FIGURES.items():
            if not times[name] and re.search(pattern, text):
                times[name] = now
    return Start(painted, times["lag"], times["groups"], _cpu(process))


def _cpu(process: psutil.Process) -> float:
    return sum(process.cpu_times()[:2])


def report(starts: list[Start], idle: Idle, load: float) -> str:
    """Return the section of RESULTS.md."""

    def middle(name: str) -> str:
        values = [getattr(start, name) for start in starts]
        return f"{statistics.median(values):.2f} ({min(values):.2f}-{max(values):.2f}) s"

    rows = [
        ("first paint", middle("painted_s"), "-"),
        ("lag and partitions on the screen", middle("figures_s"), f"{START_TARGET_S:.0f} s"),
        ("groups on the screen", middle("groups_s"), "-"),
        ("CPU time until then", middle("cpu_s"), "-"),
        (f"CPU, idle for {idle.seconds:.0f} s", f"{idle.cpu:.2f} %", f"{CPU_TARGET:.0f} %"),
    ]
    lines = [
        f"## Console on a real pipeline: {TOPICS * PARTITIONS} partitions, {GROUPS} groups",
        "",
        *(f"{name}: {value}  " for name, value in describe().items() if name in _SHOWN),
        f"Load average after the starts: {load:.1f}, at the end: {os.getloadavg()[0]:.1f}",
        "",
        "| | measured | target |",
        "|---|---|---|",
        *(f"| {what} | {value} | {target} |" for what, value, target in rows),
        "",
        "`python -m bench.console_live`: two brokers, a run that has copied everything, and",
        "`k2ktui -f FILE` on a pty. Times are from the start of the process,",
        f"median (lowest-highest) of {len(starts)}; other work on the machine makes them longer.",
        "",
    ]
    return "\n".join(lines)


_SHOWN = ("Date", "CPU", "Python", "k2ktui")


def main() -> None:
    """Measure, print the section, and put it into RESULTS.md if asked to."""
    parser = argparse.ArgumentParser(prog="python -m bench.console_live", description=__doc__)
    parser.add_argument("--idle", type=float, default=180.0, metavar="SECONDS")
    parser.add_argument("--starts", type=int, default=5, metavar="COUNT")
    parser.add_argument("--keep", action="store_true", help="write the figures to RESULTS.md")
    options = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="k2ktui-console-"))
    try:
        with running(directory, "512m") as clusters:
            (directory / "run").mkdir()
            fill(clusters)
            with pipeline(clusters, directory / "run") as file:
                starts = []
                for _ in range(options.starts):
                    starts.append(measure_start(file))
                    print(json.dumps(asdict(starts[-1])), flush=True)
                load = os.getloadavg()[0]
                idle = measure_idle(file, options.idle)
                print(json.dumps(asdict(idle)), flush=True)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    text = report(starts, idle, load)
    print(text)
    if options.keep:
        put_section(Path(__file__).parent / "RESULTS.md", "console-live", text)


if __name__ == "__main__":
    main()
