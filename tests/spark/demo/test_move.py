"""The demo's source is lost, every group moves to the target; then the demo is killed."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from k2ktui.config.model import PipelineConfig
from k2ktui.demo.applications import CAUGHT_UP, LIVE, STOPPED
from k2ktui.kafka.clients import target_cluster
from k2ktui.kafka.properties.translation import load_checked
from k2ktui.runtime.node import EAGER_CLEANING, KafkaNode
from k2ktui.sync.commit_snapshots import POLL
from k2ktui.sync.store import StateStore
from tests.spark.demo.test_real import (
    COMMAND,
    COUNT,
    FLOWING_SECONDS,
    check_lines,
    command_lines,
    mark,
    marked,
    orders_of,
)
from tests.support.clusters.kafka import Got, eventually, read_all, read_unread
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.oracle.group_offsets import committed

__all__ = ["mark"]  # a fixture

pytestmark = pytest.mark.slow

HERE = {group.name for group in LIVE if group.side == "target"}
GROUPS = {STOPPED, CAUGHT_UP} | {group.name for group in LIVE}
Partition = tuple[str, int]


@dataclass
class DemoCluster:
    """A cluster of the demo's process."""

    bootstrap: str


@dataclass
class Demo:
    """A running demo."""

    process: subprocess.Popen[bytes]
    data: Path
    mark: str

    @property
    def file(self) -> Path:
        """The pipeline's file."""
        return self.data / "pipeline.yaml"

    def kill_source(self) -> None:
        """Kill -9 the source's broker."""
        config = str(self.data / "source" / "server.properties")
        lines = command_lines(self.mark)
        # A process that it starts has the same arguments for a moment.
        broker = [process for process, line in lines.items() if line.endswith(f" {config}")]
        assert broker
        for process in broker:
            process.kill()
        psutil.wait_procs(broker, timeout=10)

    def kill(self) -> None:
        """Kill -9 it: its data stays, and nothing else."""
        self.process.kill()
        self.process.wait(120)
        eventually(lambda: not marked(self.mark), "everything is gone")
        assert not list((self.data.parents[1] / "jobs").glob("*/*")), "the job is forgotten"


@pytest.fixture
def demo(mark: str, tmp_path: Path) -> Iterator[Demo]:
    """One with MirrorMaker 2 and two schema registries: ids are mapped, and objects stay."""
    data = tmp_path / "k2ktui" / "demo" / "data"
    file, log = data / "pipeline.yaml", tmp_path / "demo.log"
    options = ("--with-mirrormaker", "--with-schemas", "--keep")
    with log.open("wb") as out:
        process = subprocess.Popen([*COMMAND, *options], stdout=out, stderr=out)

    def orders() -> list[list[object]]:
        assert process.poll() is None, log.read_text()
        if not file.exists():
            return []
        config = yaml.safe_load(file.read_text())
        sides = [orders_of(config[side]) for side in ("source", "target")]
        return sides if all(len(side) == COUNT for side in sides) else []

    try:
        source, target = eventually(orders, "orders on both sides", 2 * FLOWING_SECONDS)
        assert source == target
        eventually(lambda: check_lines(log.read_text()), log.read_text, FLOWING_SECONDS)
        # Two clusters, Spark's Java and Python, MirrorMaker 2, two registries, supervisors.
        assert len(marked(mark)) > 9
        assert any("MirrorMaker" in line for line in command_lines(mark).values())
        yield Demo(process, data, mark)
    finally:
        process.kill()
        process.wait(120)


def config_of(file: Path) -> PipelineConfig:
    return load_checked((str(file),)).config


def positions(file: Path) -> dict[Partition, int]:
    """Replicated positions, without the source."""
    reported = k2ktui_json("offsets", "show", "-f", file)
    return {(row["topic"], row["partition"]): row["position"] for row in reported["partitions"]}


def kept_groups(file: Path) -> set[str]:
    """Groups whose commits on the source are kept on the target."""
    config = config_of(file)
    store = StateStore(config, target_cluster(config))
    try:
        return {commit.consumer_group for commit in store.read().commits}
    finally:
        store.close()


def offset_of(row: Mapping[str, Any]) -> tuple[Partition, int]:
    """Source partition and committed offset that a plan's row was made from."""
    where, _, offset = row["source"].rpartition("@")
    topic, _, partition = where.rpartition("-")
    return (topic, int(partition)), int(offset)


def contents(records: list[Got], partition: int) -> list[tuple[Any, ...]]:
    return [
        (got.key, got.value, got.headers, got.timestamp)
        for got in records
        if got.partition == partition
    ]


def test_every_group_continues_with_exactly_what_it_had_not_read(demo: Demo) -> None:
    """Of Ctrl-C, see the tours (``test_tour.py``); of signals, ``tests/unit/demo/test_app.py``."""
    eventually(lambda: kept_groups(demo.file) >= GROUPS | {POLL}, "all commits are kept")
    demo.kill_source()
    eventually(lambda: "bounded" not in k2ktui("plan", "-f", demo.file).stdout, "all is decided")

    path = demo.data / "plan.json"
    k2ktui("plan", "-f", demo.file, "-o", path)
    plan = json.loads(path.read_text())["rows"]
    applied = k2ktui_json("apply", path, "--yes")

    target = DemoCluster(config_of(demo.file).target.bootstrap_servers)
    moved = [row for row in plan if row["group"] not in HERE]
    assert {row["group"] for row in moved} == GROUPS - HERE
    assert {row["action"] for row in moved} <= {"create", "advance", "keep"}, moved
    # The numbers of the source, which somebody has taken over to the target, are put right.
    assert {row["group"] for row in moved if row["action"] == "advance"} == {STOPPED}
    changes = sum(row["action"] in ("create", "advance") for row in moved)
    assert applied["counts"] == {"applied": changes}
    # Whose members are on the target already is left alone, and it is said.
    for row in plan:
        if row["group"] in HERE:
            assert row["action"] in {"skip", "keep"} and "on the target" in row["reason"], row

    unread = {}
    for row in moved:
        where, _ = offset_of(row)
        copies = read_unread(target, row["group"], where[0], [where[1]])
        unread[row["group"], where] = contents(copies, where[1])
    reached = positions(demo.file)
    demo.kill()

    with KafkaNode("source", demo.data / "source", EAGER_CLEANING).start() as source:
        records = {where[0]: read_all(source, where[0]) for _, where in unread}
        commits = {group: committed(source, group) for group in GROUPS}
    for row in moved:
        where, offset = offset_of(row)
        last = commits[row["group"]][where]
        assert offset <= last, "what was kept may be a poll old, and never newer"
        if row["group"] in (STOPPED, CAUGHT_UP):
            assert offset == last
        left = [got for got in records[where[0]] if offset <= got.offset < reached[where]]
        compare(unread[row["group"], where], contents(left, where[1]), where[0])


def compare(read: list[tuple[Any, ...]], left: list[tuple[Any, ...]], topic: str) -> None:
    """What a group read on the target is what it had left on the source, no more and no less."""
    assert read == left, topic
