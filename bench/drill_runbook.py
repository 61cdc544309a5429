"""A planned move of groups by a runbook with MirrorMaker 2's checkpoints, and by a drill.

Both copy the same source side by side while it is written; the groups have stopped at their lags,
and the producers have stopped. The runbook uses ``kafka-consumer-groups`` of Apache Kafka, and
waits until MirrorMaker 2 has committed the groups on the target and moves them no more. Then every
group really consumes on the target, and what comes again is counted record by record.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.clusters import create_topic, end_offsets, running, wait_for
from bench.failover import (
    EAGER,
    LAGS,
    PARTITIONS,
    TOPIC,
    Found,
    commit,
    committed_on,
    consumed,
    fill,
    group_of,
    is_copied,
    start_contender,
)
from bench.ours import K2ktui
from bench.peer import MirrorMaker
from k2ktui.runtime import artifacts
from k2ktui.runtime.java import find_java

RUNBOOK, DRILL = "runbook with MirrorMaker 2's checkpoints", "k2ktui drill planned"
_TOOLS = f"org.apache.kafka:kafka-tools:{artifacts.KAFKA_VERSION}"
_GROUPS_TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
_WAIT_S = 300.0
# Its interval of checkpoints and of commits: what it commits later would be missed before.
_INTERVAL_S = 5.0
_FROZEN_S = 10


@dataclass(frozen=True, slots=True)
class Runbook:
    """One way to move the groups.

    Attributes:
        name: the way.
        steps: seconds by step.
        found: what each group then read.
    """

    name: str
    steps: Mapping[str, float]
    found: tuple[Found, ...]


def compare(records: int) -> list[Runbook]:
    """Move the same groups in both ways, and let them read on the target."""
    with (
        tempfile.TemporaryDirectory(prefix="k2k-runbook-") as name,
        running(Path(name) / "clusters", "512m") as clusters,
        contextlib.ExitStack() as stack,
    ):
        directory = Path(name)
        source, target = (node.bootstrap for node in clusters.both)
        create_topic(source, TOPIC, PARTITIONS)
        theirs_running = stack.enter_context(contextlib.ExitStack())
        theirs = start_contender(
            theirs_running, MirrorMaker("mm2", "", EAGER), source, target, directory
        )
        ours = start_contender(stack, K2ktui("k2ktui", ""), source, target, directory)
        fill(source, records)
        ends = end_offsets(source, TOPIC, PARTITIONS)
        commits = {lag: [max(0, end - lag // PARTITIONS) for end in ends] for lag in LAGS}
        for lag, offsets in commits.items():
            commit(source, lag, offsets)
        steps = _follow_runbook(source, target, theirs.target_topic, records)
        theirs_running.close()
        by_runbook = _consume(target, RUNBOOK, theirs.target_topic, commits, ends)
        wait_for(
            lambda: is_copied(target, ours.target_topic, records), "everything is copied", _WAIT_S
        )
        drill_steps = _drill(directory / "k2ktui" / "pipeline.yaml")
        by_drill = _consume(target, DRILL, ours.target_topic, commits, ends)
    return [Runbook(RUNBOOK, steps, by_runbook), Runbook(DRILL, drill_steps, by_drill)]


def _consume(
    target: str,
    name: str,
    topic: str,
    commits: Mapping[int, list[int]],
    ends: Sequence[int],
) -> tuple[Found, ...]:
    starts = committed_on(target, topic)
    return tuple(
        consumed(target, lag, name, topic, starts[lag], commits[lag], ends) for lag in LAGS
    )


def _follow_runbook(source: str, target: str, topic: str, records: int) -> dict[str, float]:
    """Do what a careful runbook does; return the seconds of each step."""
    steps: dict[str, float] = {}

    def timed(step: str, act: Callable[[], object]) -> None:
        began = time.monotonic()
        act()
        steps[step] = time.monotonic() - began

    timed("positions on the source: `--describe`", lambda: _describe(source))
    timed(
        "until everything is copied",
        lambda: wait_for(lambda: is_copied(target, topic, records), topic, _WAIT_S),
    )
    timed("until its commits move no more", lambda: _await_settled(target, topic))
    timed("positions on the target: `--describe`", lambda: _describe(target))
    return steps


def _await_settled(target: str, topic: str) -> None:
    """Wait until every group is committed, and nothing has moved for two intervals."""
    until = time.monotonic() + _WAIT_S
    before = _describe(target)
    while time.monotonic() < until:
        time.sleep(2 * _INTERVAL_S)
        now = _describe(target)
        if now == before and all(_has(now, group_of(lag), topic) for lag in LAGS):
            return
        before = now
    raise TimeoutError(f"MirrorMaker 2 has not committed every group within {_WAIT_S:g} s")


def _has(described: frozenset[tuple[str, ...]], group: str, topic: str) -> bool:
    rows = [row for row in described if row[:2] == (group, topic)]
    return len(rows) == PARTITIONS and all(row[3].isdigit() for row in rows)


def _describe(bootstrap: str) -> frozenset[tuple[str, ...]]:
    """Return group, topic, partition and offset of all groups, by ``kafka-consumer-groups``."""
    jars = artifacts.classpath(_TOOLS, artifacts.LOGGING).argument
    command = [str(find_java().executable), "-cp", jars, _GROUPS_TOOL]
    done = subprocess.run(
        [*command, "--bootstrap-server", bootstrap, "--describe", "--all-groups"],
        capture_output=True,
        text=True,
        check=True,
    )
    rows = [line.split() for line in done.stdout.splitlines()]
    return frozenset(tuple(row[:4]) for row in rows if len(row) > 4 and row[0] != "GROUP")


def _drill(file: Path) -> dict[str, float]:
    """Switch over with a drill; return the seconds of its phases."""
    command = ["drill", "planned", "-f", str(file), "--yes-to", "all", "--frozen", str(_FROZEN_S)]
    # D42: the pipeline runs in the foreground, not as a job that the drill stops.
    command += ["--accept", "D42"]
    done = subprocess.run(
        [sys.executable, "-m", "k2ktui", *command, "--watch", "0", "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    report = json.loads(done.stdout) if done.stdout else {}
    if report.get("status") != "done":
        live = [phase for phase in report.get("phases", ()) if phase["status"] == "failed"]
        raise RuntimeError(f"the drill did not end: {live or done.stderr}")
    return {
        phase["phase"]: (phase["ended_ms"] - phase["began_ms"]) / 1000 for phase in report["phases"]
    }


def report_runbook(ways: Sequence[Runbook]) -> list[str]:
    """Return the part of the section."""
    lines = [
        "## A planned move: a runbook, and a drill, on the same data\n",
        "Written by `python -m bench.drill --keep`. Records of 100 bytes in 4 partitions, copied "
        "by both at the same time; the producers and "
        f"the groups have stopped. MirrorMaker 2 writes checkpoints and commits groups every "
        f"{_INTERVAL_S:g} seconds instead of every 60. The runbook compares nothing and fences "
        f"nothing; the drill proves the fence for {_FROZEN_S} s, compares the next record of each "
        "group on both clusters, and fences the replicator. Time of people is in neither.\n",
        "| way | seconds | steps |",
        "|---|---|---|",
    ]
    for way in ways:
        steps = ", ".join(f"{name} {seconds:.1f}" for name, seconds in way.steps.items())
        lines.append(f"| {way.name} | {sum(way.steps.values()):.1f} | {steps} |")
    lines += [
        "",
        "| lag of the group | way | unread | read again | never read |",
        "| ---: | --- | ---: | ---: | ---: |",
    ]
    for lag in LAGS:
        for way in ways:
            (group,) = [counted for counted in way.found if counted.lag == lag]
            lines.append(
                f"| {lag:,} | {way.name} | {group.unread:,} | {group.again:,} | {group.missing:,} |"
            )
    return [*lines, ""]
