"""A start, step by step: ``python -m bench.start_timeline``.

Two local clusters with a loaded topic; a new pipeline starts ``--repeat`` times. The functions that
``bench.timeline`` names say when they began and ended, in the driver and in Spark's Python workers.
``--against DIRECTORY`` starts the version of another checkout in turns with this one, both without
these notes: only the time until the first record is visible, and CPU seconds until then.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bench import timeline
from bench.child import Child
from bench.clusters import Clusters, delete_topics, make_class_archives, running
from bench.load import load
from bench.model import Codec, DataSet, Job
from bench.ours import K2ktui
from bench.watch import Watcher

_ROOT = Path(__file__).resolve().parent.parent
_START_S = 60.0
_WIDTH = 50
_SETTLE_S = 2.0  # the broker deletes what the start before has copied
# Starts that copy everything first: brokers compile what they do often.
_WARM_UPS = 2


@dataclass(frozen=True, slots=True)
class Start:
    """One start: seconds until the first record was visible, and CPU seconds until then.

    Attributes:
        began_at: epoch seconds of its begin.
    """

    version: str
    began_at: float
    first_s: float
    cpu_s: float


def start(
    clusters: Clusters,
    data: DataSet,
    name: str,
    directory: Path,
    mode: str,
    *,
    of: Path,
    traced: bool,
    whole: bool = False,
) -> Start:
    """Start a new pipeline, wait for its first record, and stop it; ``whole`` lets it catch up."""
    directory.mkdir()
    spark = {"master": "local[*]"}
    if traced:
        spark["config"] = {"spark.python.daemon.module": timeline.DAEMON}  # type: ignore[assignment]
    pipeline = K2ktui("timeline", "", mode=mode, spark=spark)
    job = Job(name, clusters.source.bootstrap, clusters.target.bootstrap, data.topic, directory)
    launch = pipeline.prepare(job)
    module = "bench.timeline" if traced else "k2ktui"
    python = of / ".venv" / "bin" / "python"
    command = (
        str(python if python.exists() else sys.executable),
        "-m",
        module,
        *launch.command[3:],
    )
    watcher = Watcher(job.target, launch.target_topic, data.partitions)
    watcher.start()
    try:
        began_at = time.time()
        with Child(replace(launch, command=command), directory) as child:
            until = time.monotonic() + _START_S
            while not watcher.changes:
                if time.monotonic() > until or child.exit_code not in (None, 0):
                    raise TimeoutError(f"no record was copied:\n{child.tail()}")
                time.sleep(0.02)
            first = watcher.changes[0].at
            if whole:
                child.wait(_START_S)
            return Start(of.name, began_at, first - child.started, child.meter.cpu_at(first))
    finally:
        watcher.stop()


def show(trace: Path, begun: Start) -> str:
    """Return the timeline of a start as text: a line for each step, in the order of their begin."""
    lines = [json.loads(line) for line in trace.read_text().splitlines()]
    lines.sort(key=lambda line: line["began"])
    pids = list(dict.fromkeys(line["pid"] for line in lines))
    whole = begun.first_s
    shown = [f"first record visible after {whole:.2f} s, CPU until then {begun.cpu_s:.2f} s"]
    for line in lines:
        began, ended = (line[key] - begun.began_at for key in ("began", "ended"))
        if began > whole:
            continue
        before = round(min(began, whole) / whole * _WIDTH)
        length = max(1, round((min(ended, whole) - began) / whole * _WIDTH))
        bar = " " * before + "█" * length
        process = "driver" if line["pid"] == pids[0] else f"worker {pids.index(line['pid'])}"
        shown.append(f"{began:6.2f} {ended:6.2f} {bar[:_WIDTH]:{_WIDTH}} {process}: {line['step']}")
    return "\n".join(shown)


def summary(starts: Sequence[Start]) -> str:
    """Return a line for each version."""
    of = defaultdict(list)
    for start in starts:
        of[start.version].append(start)
    lines = []
    for version, some in of.items():
        first, cpu = ([getattr(one, key) for one in some] for key in ("first_s", "cpu_s"))
        lines.append(
            f"{version}: first record {statistics.median(first):.2f} s "
            f"({', '.join(f'{value:.2f}' for value in first)}), "
            f"CPU {statistics.median(cpu):.2f} s ({', '.join(f'{value:.2f}' for value in cpu)})"
        )
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Measure and print; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.start_timeline", description=__doc__)
    add = parser.add_argument
    add("--partitions", type=int, default=64)
    add("--records", type=int, default=1_000_000)
    add("--size", type=int, default=100)
    add("--codec", choices=("none", "lz4"), default="lz4")
    add("--mode", choices=("exclusive", "shared"), default="exclusive")
    add("--repeat", type=int, default=3)
    add("--heap", default="1g", help="Java heap of each broker")
    add("--against", type=Path, help="another checkout, whose starts are measured in turns")
    options = parser.parse_args(arguments)
    codec: Codec = options.codec
    data = DataSet(options.size, codec, options.partitions, options.records)
    versions = [_ROOT, *([options.against.resolve()] if options.against else [])]
    make_class_archives()
    starts = []
    with (
        tempfile.TemporaryDirectory(prefix="k2ktui-timeline-") as name,
        running(Path(name), options.heap) as clusters,
    ):
        load(clusters.source.bootstrap, data, processes=2)
        for number in range(_WARM_UPS + options.repeat):
            for version in versions:
                run = f"start{number}{version.name}"
                trace = Path(name, f"{run}.jsonl")
                os.environ[timeline.VARIABLE] = str(trace)
                os.environ["PYTHONPATH"] = str(version)
                result = start(
                    clusters,
                    data,
                    run,
                    Path(name, run),
                    options.mode,
                    of=version,
                    traced=not options.against,
                    whole=number < _WARM_UPS,
                )
                delete_topics(clusters.target.bootstrap)
                time.sleep(_SETTLE_S)
                if number >= _WARM_UPS:
                    starts.append(result)
                    print(result if options.against else show(trace, result), flush=True)
    print(summary(starts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
