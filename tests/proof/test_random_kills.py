"""The tool is killed at random moments of a drill and continued, until the drill has ended.

What the drill came to is compared with what an undisturbed one came to: phases, changes, groups,
checks, the verdict, committed offsets, and jobs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from k2ktui.engine.drill.checks import DrillKind
from k2ktui.engine.drill.model import Drill, Fence
from k2ktui.engine.drill.tail import TailChoice
from k2ktui.jobs.local_jobs import find_job
from k2ktui.kafka.admin.acls import denied_topics
from k2ktui.kafka.clients import source_cluster, target_cluster
from k2ktui.runtime.node import KafkaNode
from k2ktui.sync.drill.guard import refuse_fenced
from k2ktui.sync.operations import read_entry, read_journal
from tests.support.clusters.kafka import START_S, TIMEOUT, eventually
from tests.support.clusters.secure import SecureNode
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.drill.failback import Workload
from tests.support.drill.process import DrillCommand, comparable
from tests.support.drill.runs import NOBODY_COMES, Pair, keep_commits
from tests.support.pipelines.pipeline import START_TIMEOUT

pytestmark = pytest.mark.proof
OPTIONS = replace(NOBODY_COMES, wait_s=300.0)
Compared = dict[str, Any]
Undisturbed = tuple[Compared, float]


def written_offsets(pair: Pair) -> list[tuple[str, str, int]]:
    """Return the rows that were applied, by group, topic and partition."""
    config = pair.flow.config
    entries = [
        read_entry(config, header.id)
        for header in read_journal(config)
        if header.operation == "apply"
    ]
    return sorted(
        (row.write.group, row.write.topic, row.write.partition)
        for entry in entries
        for row in entry.rows
        if row.outcome == "applied"
    )


def compare_pair(pair: Pair, drill: Drill) -> Compared:
    """Return what a drill of a pair came to; no offset was committed twice."""
    written = written_offsets(pair)
    assert len(written) == len(set(written)) == 8
    for number, group in enumerate(pair.groups):
        assert pair.target_offsets(group) == pair.expected_offsets(number)
    refused = is_fenced(pair)
    return comparable(drill, [*pair.groups, *pair.topics, pair.copied.name], lambda: refused)


def is_fenced(pair: Pair) -> bool:
    config = pair.flow.config
    with pytest.raises(Exception, match="fenced by drill"):
        refuse_fenced(config, target_cluster(config))
    return True


@pytest.fixture(scope="module")
def planned(
    tmp_path_factory: pytest.TempPathFactory,
    secure: SecureNode,
    clusters: tuple[KafkaNode, KafkaNode],
) -> Undisturbed:
    """What a planned switchover comes to, and how long it takes."""
    pair = Pair(tmp_path_factory.mktemp("undisturbed"), secure.node, clusters[1])
    drill, seconds = planned_drill(pair).run_undisturbed()
    return compare_pair(pair, drill), seconds


def planned_drill(pair: Pair) -> DrillCommand:
    return DrillCommand(pair.file, DrillKind.PLANNED, replace(OPTIONS, fence=Fence.ACL))


@pytest.mark.seeds(2)
def test_a_planned_switchover(
    tmp_path: Path, secure: SecureNode, target: KafkaNode, planned: Undisturbed, seed: int
) -> None:
    expected, seconds = planned
    pair = Pair(tmp_path, secure.node, target)
    drill, killed = planned_drill(pair).run_killed(seed, seconds)
    assert compare_pair(pair, drill) == expected, f"killed {killed} times"
    assert denied_topics(source_cluster(pair.flow.config), pair.topics) == set(pair.topics)


@pytest.fixture(scope="module")
def disaster(
    tmp_path_factory: pytest.TempPathFactory, clusters: tuple[KafkaNode, KafkaNode]
) -> Undisturbed:
    """What a failover without the source comes to, and how long it takes."""
    directory = tmp_path_factory.mktemp("undisturbed")
    node = KafkaNode("lost", directory / "lost").start(START_S)
    try:
        pair = Pair(directory, node, clusters[1])
        keep_commits(pair.flow.config)
        node.kill()
        command = DrillCommand(pair.file, DrillKind.DISASTER, OPTIONS)
        drill, seconds = command.run_undisturbed()
        return compare_pair(pair, drill), seconds
    finally:
        node.close()


@pytest.mark.seeds(2)
def test_a_disaster(
    tmp_path: Path, lost: KafkaNode, target: KafkaNode, disaster: Undisturbed, seed: int
) -> None:
    expected, seconds = disaster
    pair = Pair(tmp_path, lost, target)
    keep_commits(pair.flow.config)
    lost.kill()
    command = DrillCommand(pair.file, DrillKind.DISASTER, OPTIONS)
    drill, killed = command.run_killed(seed, seconds)
    assert compare_pair(pair, drill) == expected, f"killed {killed} times"


def away(work: Workload) -> None:
    """Fail over; then records are on both sides that the other side does not have."""
    work.write(work.a, 100)
    k2ktui("jobs", "start", "-f", work.file)
    eventually(lambda: caught_up(work.file), "the forward pipeline has caught up", START_TIMEOUT)
    work.consume(work.a, work.groups[0], 20)
    work.consume(work.a, work.groups[1], 5)
    drill = DrillCommand(work.file, DrillKind.PLANNED, OPTIONS).run_undisturbed()[0]
    assert drill.is_over
    work.write(work.a, 30)
    work.write(work.b, 40)
    work.consume(work.b, work.groups[0])
    work.consume(work.b, work.groups[1], 50)
    k2ktui("jobs", "start", "-f", work.back)
    eventually(lambda: caught_up(work.back), "the reverse pipeline has caught up", START_TIMEOUT)


def caught_up(file: Path) -> bool:
    rows = k2ktui_json("status", "-f", file, code=None)["partitions"]
    return bool(rows) and all(row["lag_records"] == 0 for row in rows)


def back_again(work: Workload, drill: Drill) -> Compared:
    """Return what a failback came to; a plain consumer says what each group has read."""

    def job_runs(file: Path) -> bool:
        job = find_job([str(file)], lambda: work.flow.config)
        return job is not None and job.alive

    jobs = job_runs(work.file), job_runs(work.back)
    assert jobs == (True, False)
    work.write(work.a, 30)
    for group in work.groups:
        work.consume(work.a, group)
        read = {identity: work.read[group].count(identity) for identity in work.content(work.a)}
        assert set(read.values()) == {1} and len(read) == len(work.read[group]), group
    eventually(lambda: work.content(work.b) == work.content(work.a), "everything is on both")
    names = [*work.groups, work.topic, work.reverse_flow.config.name, work.flow.config.name]
    return comparable(drill, names, lambda: jobs)


def failback(work: Workload) -> DrillCommand:
    # Longer than the pause of the groups, so that they have read everything when they return.
    options = replace(OPTIONS, tail=TailChoice.REPLAY, frozen_s=15.0)
    return DrillCommand(work.back, DrillKind.FAILBACK, options)


@contextmanager
def reading(work: Workload) -> Iterator[None]:
    """Groups that continue to read on the other cluster: also what the failback copies there."""
    ended = threading.Event()

    def read() -> None:
        while not ended.wait(0.2):
            for group in work.groups:
                work.consume(work.b, group)

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(TIMEOUT)
    assert not thread.is_alive()


@pytest.fixture(scope="module")
def make_workload(
    tmp_path_factory: pytest.TempPathFactory, clusters: tuple[KafkaNode, KafkaNode]
) -> Iterator[Callable[[], Workload]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        made: list[Workload] = []

        def make() -> Workload:
            made.append(Workload(tmp_path_factory.mktemp("workload"), *clusters))
            return made[-1]

        yield make
        for work in made:
            work.close()


def end_jobs(work: Workload) -> None:
    for file in (work.file, work.back):
        if file.exists():
            k2ktui("jobs", "stop", "-f", file, "--kill", code=None)


@pytest.fixture(scope="module")
def returned(make_workload: Callable[[], Workload]) -> Undisturbed:
    """What a failback with a tail comes to, and how long it takes."""
    work = make_workload()
    try:
        away(work)
        with reading(work):
            drill, seconds = failback(work).run_undisturbed()
        return back_again(work, drill), seconds
    finally:
        end_jobs(work)


@pytest.mark.seeds(2)
def test_a_failback_with_a_tail(
    make_workload: Callable[[], Workload],
    source: KafkaNode,
    target: KafkaNode,
    returned: Undisturbed,
    seed: int,
) -> None:
    expected, seconds = returned
    work = make_workload()
    try:
        away(work)
        with reading(work):
            drill, killed = failback(work).run_killed(seed, seconds)
        assert back_again(work, drill) == expected, f"killed {killed} times"
    finally:
        end_jobs(work)
