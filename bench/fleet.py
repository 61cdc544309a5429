"""``python -m bench.fleet``: what it costs to watch many pipelines of two clusters.

It makes two one-node clusters, and on them pipelines with their positions, mappings, summaries and
groups, whose control topics all pipelines share, as they do by default. Then a process of its own
watches the directory: seconds until every pipeline was seen, and CPU time and memory from then on.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ClassVar

from bench.clusters import Clusters, running
from bench.sections import put_section
from k2ktui.engine.moves.pipeline_summary import GroupCount, PipelineSummary
from k2ktui.engine.records.state import Run, run_key, run_value
from k2ktui.engine.severity import Severity
from k2ktui.kafka.clients import target_cluster
from k2ktui.sync.store import StateStore
from tests.support.clusters.kafka import Out, create_topic, produce
from tests.support.oracle.group_offsets import commit_offsets
from tests.support.pipelines.copied import Copied

_RESULTS = Path(__file__).parent / "RESULTS.md"
PARTITIONS, GROUPS, RECORDS = 12, 10, 240

_CHILD = """
import json, resource, sys, time
from pathlib import Path
from k2ktui.fleet.feed import FleetFeed
from k2ktui.fleet.files import read_directory

directory, seconds = Path(sys.argv[1]), float(sys.argv[2])
began = time.monotonic()
feed = FleetFeed(read_directory(directory), 5.0)
feed.begin()
while any(row.taken_at is None for row in feed.rows):
    time.sleep(0.05)
seen_s = time.monotonic() - began
before, at = time.process_time(), time.monotonic()
time.sleep(seconds)
cpu_s, passed_s = time.process_time() - before, time.monotonic() - at
rss = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmRSS"))
feed.end()
print(json.dumps({
    "seen_s": seen_s, "first_cpu_s": before, "share": cpu_s / passed_s, "mb": rss / 1024,
    "bad": sum(row.severity == 4 for row in feed.rows), "interval_s": feed.interval,
}))
"""


class SharedTopics(Copied):
    """A pipeline whose control topics are those of all pipelines of the target."""

    commits, mappings, state = "__k2k_commits", "__k2k_mappings", "__k2k_state"
    _made: ClassVar[set[str]] = set()

    def __post_init__(self) -> None:
        if not self._made:
            for name in (self.commits, self.state):
                create_topic(self.target, name, 1, {"cleanup.policy": "compact"})
            create_topic(self.target, self.mappings, 1)
            self._made.add(self.target.bootstrap)
        produce(self.target, self.commits, [Out(run_value(Run(1, 1)), run_key(self.name))])


def make_pipeline(directory: Path, clusters: Clusters) -> None:
    """Make a pipeline with its topic, copy, groups and summary."""
    source, target = clusters.both
    topic = create_topic(source, partitions=PARTITIONS)
    produce(source, topic, [Out(b"x", partition=n % PARTITIONS) for n in range(RECORDS)])
    sink = {"topic": "source", "partition": "source"}
    settings = {"replication": [{"source": {"topic": topic}}, {"sink": sink}]}
    pipeline = SharedTopics(directory, source, target, settings)
    pipeline.copy(topic)
    for number in range(GROUPS):
        offsets = {(topic, partition): number for partition in range(PARTITIONS)}
        commit_offsets(source, pipeline.group(f"g{number}"), offsets)
    assert pipeline.file.exists()
    store = StateStore(pipeline.config, target_cluster(pipeline.config))
    groups = (GroupCount(Severity.OK, "in step", GROUPS),)
    store.put([PipelineSummary(int(time.time() * 1000), RECORDS, RECORDS, groups)])
    store.close()


def section(pipelines: int, figures: Mapping[str, float], load: float) -> str:
    """Return the section of RESULTS.md."""
    what = f"{pipelines} of {PARTITIONS} partitions and {GROUPS} groups"
    return f"""## Many pipelines: {what}, on two clusters

| | |
|---|---|
| until every pipeline was seen | {figures["seen_s"]:.1f} s |
| CPU from then on | {100 * figures["share"]:.1f} % of a core |
| memory | {figures["mb"]:,.0f} MB |
| a pipeline is read every | {figures["interval_s"]:.1f} s |

`python -m bench.fleet`: a process that reads a directory of {pipelines} pipelines, whose control
topics are shared, and on which nothing is copied; load of the machine {load:.0f}.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures as JSON."""
    parser = argparse.ArgumentParser(prog="python -m bench.fleet")
    parser.add_argument("--pipelines", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--keep", action="store_true", help="write the section of RESULTS.md")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="k2ktui-fleet-") as place:
        directory = Path(place, "pipelines")
        directory.mkdir()
        with running(Path(place, "clusters"), "512m") as clusters:
            make_pipeline(directory, clusters)  # the first one makes the control topics
            with ThreadPoolExecutor(4) as pool:
                for _ in pool.map(
                    lambda _: make_pipeline(directory, clusters), range(options.pipelines - 1)
                ):
                    pass
            command = [sys.executable, "-c", _CHILD, str(directory), str(options.seconds)]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
    figures = json.loads(done.stdout)
    print(json.dumps({"pipelines": options.pipelines, **figures}))
    if options.keep:
        load = os.getloadavg()[0]
        put_section(_RESULTS, "fleet", section(options.pipelines, figures, load))
    return 0


if __name__ == "__main__":
    sys.exit(main())
