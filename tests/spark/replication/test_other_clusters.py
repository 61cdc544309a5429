"""An address is not a cluster: another one under the same address is not copied from, nor to.

Before, a source that was built again under its address passed every check; the run went on at the
old positions, and a part of the new records was never copied.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from k2ktui.config.load import load
from k2ktui.errors import ExitCode
from k2ktui.kafka.clients import target_cluster
from k2ktui.runtime.node import KafkaNode
from k2ktui.sync.store import StateStore
from tests.support.clusters.brokers import Brokers, make_node
from tests.support.clusters.kafka import (
    START_S,
    create_topic,
    eventually,
    produce,
    read_all,
    unique_name,
)
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.oracle.group_offsets import commit_offsets, committed
from tests.support.oracle.judge import prove
from tests.support.pipelines.pipeline import Pipeline, Run

pytestmark = pytest.mark.slow


@pytest.fixture
def rebuilt(tmp_path: Path) -> Iterator[tuple[KafkaNode, KafkaNode]]:
    """A source and a target that are built again under their addresses."""
    names = ("source", "target")
    nodes = [make_node("4-tv2", unique_name("rebuilt"), tmp_path / name) for name in names]
    try:
        with ThreadPoolExecutor(len(nodes)) as pool:
            list(pool.map(lambda node: node.start(START_S), nodes))
        yield nodes[0], nodes[1]
    finally:
        for node in nodes:
            node.kill()
            node.close()


def _swap(node: KafkaNode) -> None:
    """Stop a cluster, and start under its address the other one, which is new the first time."""
    node.kill()
    logs, aside = node.data_dir / "logs", node.data_dir / "aside"
    between = node.data_dir / "between"
    if aside.exists():
        aside.rename(between)
    logs.rename(aside)
    if between.exists():
        between.rename(logs)
    if hasattr(node, "new_cluster_id"):
        node.new_cluster_id = "A" + str(node.new_cluster_id)[1:][::-1]
    node.start(START_S)


def test_a_start_on_another_source_is_refused(
    brokers: Brokers, source: KafkaNode, target: KafkaNode, tmp_path: Path
) -> None:
    """Of any version: topic ids do not tell it apart where there are none."""
    (old,) = brokers("2.5")
    topic = unique_name()
    for node, value in ((source, b"recorded"), (old, b"other")):
        create_topic(node, name=topic)
        produce(node, topic, [value] * 100)
    produce(old, topic, [b"other"] * 50)
    pipeline = Pipeline(tmp_path, source, target, [topic])
    pipeline.catch_up()
    pipeline.source = old

    run = pipeline.catch_up(ExitCode.REFUSED)
    said = run.tail(60)
    assert source.cluster_id in said and old.cluster_id in said
    assert "coordination.commit.group" in said and "offsets clear" in said
    assert len(read_all(target, topic)) == 100
    checks = k2ktui_json("check", "-f", pipeline.write(), code=None)["checks"]
    (cluster_ids,) = [check for check in checks if check["name"] == "cluster ids"]
    assert cluster_ids["outcome"] == "fail" and old.cluster_id in cluster_ids["detail"]

    k2ktui("offsets", "clear", "-f", pipeline.write(), "--topic", ".*", "--yes")
    pipeline.catch_up()
    values = [got.value for got in read_all(target, topic)]
    assert values == [b"recorded"] * 100 + [b"other"] * 150


@pytest.mark.rotate("mode", ["exclusive", "shared"])
def test_a_run_waits_until_its_clusters_answer_again(
    rebuilt: tuple[KafkaNode, KafkaNode], tmp_path: Path, mode: str
) -> None:
    """First another target answers, then another source: nothing is copied to it, or from it.

    Nor does that erase the commits that are kept for a disaster.
    """
    source, target = rebuilt
    topic, group = create_topic(source), unique_name("group")
    produce(source, topic, [b"recorded"] * 100)
    commit_offsets(source, group, {(topic, 0): 40})
    pipeline = Pipeline(tmp_path, source, target, [topic], {"groups.pollInterval": "1 second"})
    pipeline.mode = mode
    with pipeline.start() as run:
        run.expect("started")

        def goes_on(count: int) -> None:
            eventually(
                lambda: len(read_all(target, topic)) == count, lambda: f"goes on\n{run.tail()}"
            )

        goes_on(100)
        with _another(target, source, topic, run):
            assert len(read_all(target, topic)) == OTHERS
        goes_on(110)
        _await_kept(pipeline, group)
        known = source.cluster_id
        with _another(source, source, topic, run):
            assert len(read_all(target, topic)) == 110
            _move(pipeline, group, known)
            assert committed(target, group) == {(topic, 0): 40}
        produce(source, topic, [b"again"] * 10)
        goes_on(120)
        assert run.stop() == 0
    prove(source, target, pipeline.name, topic)


OTHERS = 300


@contextmanager
def _another(node: KafkaNode, source: KafkaNode, topic: str, run: Run) -> Iterator[None]:
    """Another cluster with such a topic has the node's address, and the run has noticed it.

    There is something to copy.
    """
    known = node.cluster_id
    _swap(node)
    other = node.cluster_id
    assert other != known
    create_topic(node, name=topic)
    produce(node, topic, [b"other"] * OTHERS)
    produce(source, topic, [b"recorded"] * 10)
    run.expect("note", lambda event: other in event["text"] and known in event["text"])
    assert run.running
    yield
    _swap(node)
    assert node.cluster_id == known


def _await_kept(pipeline: Pipeline, group: str) -> None:
    config = load([pipeline.write()]).config
    store = StateStore(config, target_cluster(config))
    try:
        eventually(
            lambda: group in {commit.consumer_group for commit in store.read().commits},
            "commits are kept",
        )
    finally:
        store.close()


def _move(pipeline: Pipeline, group: str, known: str) -> None:
    """Move a group by the commits that are kept of the source that was known."""
    file, plan = pipeline.write(), pipeline.directory / "plan.json"
    planned = k2ktui("plan", "-f", file, "--output", plan)
    assert known in planned.stdout and pipeline.source.cluster_id in planned.stderr
    (row,) = k2ktui_json("plan", "-f", file)["rows"]
    assert (row["group"], row["basis"], row["proposed"]) == (group, "exact", 40)
    at = f"{pipeline.topics[0]}:0:40"
    (translation,) = k2ktui_json("translate", "-f", file, at, code=None)["positions"]
    assert translation["basis"] == "unmapped", (
        "whether it is an offset of the other cluster is unknown"
    )
    k2ktui("apply", plan, "--yes")
