"""A site is lost in the middle of its drill, and comes back: real pipelines on three brokers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from k2ktui.drill.checks.catalog import CATALOG
from k2ktui.engine.drill.checks import DrillKind, DrillPhase
from k2ktui.engine.drill.model import DrillStatus
from k2ktui.fleet.files import read_directory
from k2ktui.runtime.node import KafkaNode
from k2ktui.site.operations import (
    SiteActor,
    SiteChoice,
    list_sites,
    read_site,
    start_site,
    verify_site,
)
from k2ktui.site.report import site_markdown
from tests.support.clusters.kafka import START_S, eventually
from tests.support.commands.cli import k2ktui_json
from tests.support.drill.failback import Workload
from tests.support.drill.runs import QUICK, keep_commits, kill_at
from tests.support.drill.sites import SiteYes
from tests.support.pipelines.pipeline import RUN_TIMEOUT, START_TIMEOUT

pytestmark = pytest.mark.slow
QUICKLY = ("--yes-to", "all", "--accept", ",".join(CATALOG))


@pytest.fixture
def third(tmp_path: Path) -> Iterator[KafkaNode]:
    """Another target."""
    node = KafkaNode("third", tmp_path / "third").start(START_S)
    yield node
    node.close()


def begin(works: Sequence[Workload]) -> None:
    """Let all groups read a part of what was written."""
    for work in works:
        work.write(work.a, 100)
        work.consume(work.a, work.groups[0], 20)
        work.consume(work.a, work.groups[1], 5)


def await_copied(work: Workload, count: int) -> None:
    """Wait until so many records are on the target."""
    eventually(lambda: len(work.content(work.b)) == count, "all is copied", RUN_TIMEOUT)


def read_the_rest(work: Workload, node: KafkaNode) -> None:
    """Let the groups read on: each has read each record once."""
    for group in work.groups:
        work.consume(node, group)
        assert Counter(work.read[group]) == work.content(node), group
    assert set(work.content(node).values()) == {1}


def test_a_site_is_lost_and_the_operator_killed_in_the_middle(
    tmp_path: Path, lost: KafkaNode, target: KafkaNode, third: KafkaNode
) -> None:
    """Four pipelines over three brokers: three leave the lost one, the fourth goes on."""
    directory = tmp_path / "pipelines"
    directory.mkdir()
    ways = [(lost, target), (lost, third), (lost, target), (target, third)]
    one_slot = {"spark.master": "local[1]", "spark.slots": 1}
    works = [Workload(directory, a, b, one_slot) for a, b in ways]
    moved, stays = works[:3], works[3]
    try:
        begin(works)
        runs = [work.forward.start() for work in works]
        for run in runs:
            run.expect("started", timeout=2 * START_TIMEOUT)
        for work in works:
            await_copied(work, 100)
        for work in moved:
            keep_commits(work.flow.config)
        cluster = lost.cluster_id
        begun = ["drill", "planned", "-d", str(directory), "--from", cluster, "--frozen", "1"]
        kill_at("drill-fence-producers-begun", tmp_path / "crash", *begun, *QUICKLY)
        ((drill,), _) = list_sites(read_directory(directory))
        lost.close()
        again = ["drill", "resume", drill.id, "-d", str(directory), "--as", "disaster", *QUICKLY]
        kill_at("drill-open-target-begun", tmp_path / "crash-again", *again)
        report = k2ktui_json(*again, code=None)
        site = read_site(read_directory(directory), drill.id)
        assert report["status"] == "done", site_markdown(site)
        assert site.kind is DrillKind.DISASTER and len(site.members) == 3
        assert {own.pipeline for own in site.drills} == {work.forward.name for work in moved}
        for own in site.drills:
            assert own.record(DrillPhase.VERIFY).status == "done"
            assert own.figures.opened_ms is not None
        assert verify_site(read_directory(directory), drill.id) == []
        for work, run in zip(moved, runs, strict=False):
            assert run.wait(RUN_TIMEOUT) != 0  # fenced
            read_the_rest(work, work.b)
        # The pipeline between the others was not touched.
        stays.write(stays.a, 20)
        await_copied(stays, 120)
    finally:
        for work in works:
            work.close()


def test_a_site_comes_back(tmp_path: Path, source: KafkaNode, target: KafkaNode) -> None:
    """A planned site drill, work on the other side, and a failback of all pipelines at once."""
    directory = tmp_path / "pipelines"
    directory.mkdir()
    works = [Workload(directory, source, target) for _ in range(2)]
    try:
        begin(works)
        for work in works:
            work.forward.catch_up()
        there = start_site(
            SiteActor(read_directory(directory), SiteYes()),
            DrillKind.PLANNED,
            QUICK,
            SiteChoice(source.cluster_id),
        )
        assert there.status is DrillStatus.DONE, site_markdown(there)
        for work in works:
            work.write(work.b, 40)
            work.consume(work.b, work.groups[0])
            work.consume(work.b, work.groups[1], 50)
            work.copy_back()
        operator = SiteYes()
        back = start_site(
            SiteActor(read_directory(directory), operator),
            DrillKind.FAILBACK,
            replace(QUICK, watch_s=5.0),
            SiteChoice(target.cluster_id),
        )
        assert back.status is DrillStatus.DONE, site_markdown(back)
        assert DrillPhase.OPEN_TARGET in operator.phases
        for work in works:
            work.write(work.a, 30)
            read_the_rest(work, work.a)
            work.forward.catch_up()
            assert work.content(work.b) == work.content(work.a)
    finally:
        for work in works:
            work.close()
