"""An address is not a cluster: another one under the same address is not copied from, nor to.

Before, a source that was built again under its address passed every check; the run went on at the
old positions, and a part of the new records was never copied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
from tests.support.pipelines.pipeline import Pipeline

pytestmark = pytest.mark.slow


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Callable[[str], KafkaNode]]:
    nodes: list[KafkaNode] = []

    def make(kind: str) -> KafkaNode:
        nodes.append(make_node(kind, unique_name("rebuilt"), tmp_path / "node"))
        return nodes[-1].start(START_S)

    yield make
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
@pytest.mark.parametrize("side", ["source", "target"])
def test_a_run_waits_until_its_cluster_answers_again(
    made: Callable[[str], KafkaNode],
    source: KafkaNode,
    target: KafkaNode,
    tmp_path: Path,
    side: str,
    mode: str,
) -> None:
    node = made("4-tv2")
    known = node.cluster_id
    ours, theirs = (node, target) if side == "source" else (source, node)
    topic = create_topic(ours)
    produce(ours, topic, [b"recorded"] * 100)
    pipeline = Pipeline(tmp_path, ours, theirs, [topic])
    pipeline.mode = mode
    with pipeline.start() as run:
        eventually(lambda: len(read_all(theirs, topic)) == 100, "copied")
        _swap(node)
        other = node.cluster_id
        assert other != known
        create_topic(node, name=topic)
        produce(node, topic, [b"other"] * 300)
        if side == "target":
            produce(source, topic, [b"recorded"] * 10)
        run.expect("note", lambda event: other in event["text"] and known in event["text"])
        assert run.running
        if side == "source":
            assert len(read_all(theirs, topic)) == 100
        else:
            assert len(read_all(node, topic)) == 300
        _swap(node)
        assert node.cluster_id == known
        produce(ours, topic, [b"again"] * 10)
        more = 110 if side == "source" else 120
        eventually(
            lambda: len(read_all(theirs, topic)) == more, lambda: f"goes on\n{run.tail()}", 180
        )
        assert run.stop() == 0
    prove(ours, theirs, pipeline.name, topic)


def test_an_empty_cluster_erases_no_commits_that_are_kept_for_a_disaster(
    made: Callable[[str], KafkaNode], target: KafkaNode, tmp_path: Path
) -> None:
    node = made("4-tv2")
    known, group = node.cluster_id, unique_name("group")
    topic = create_topic(node)
    produce(node, topic, [b"recorded"] * 100)
    commit_offsets(node, group, {(topic, 0): 40})
    pipeline = Pipeline(tmp_path, node, target, [topic], {"groups.pollInterval": "1 second"})
    file = pipeline.write()
    with pipeline.start() as run:
        eventually(lambda: len(read_all(target, topic)) == 100, "copied")
        config = load([file]).config
        store = StateStore(config, target_cluster(config))

        def kept() -> set[str]:
            return {commit.consumer_group for commit in store.read().commits}

        eventually(lambda: group in kept(), "commits are kept")
        store.close()
        _swap(node)
        create_topic(node, name=topic)
        run.expect("note", lambda event: node.cluster_id in event["text"])
        assert run.stop() == 0

    planned = k2ktui("plan", "-f", file, "--output", tmp_path / "plan.json")
    assert known in planned.stdout and node.cluster_id in planned.stderr
    (row,) = k2ktui_json("plan", "-f", file)["rows"]
    assert (row["group"], row["basis"], row["proposed"]) == (group, "exact", 40)
    (translation,) = k2ktui_json("translate", "-f", file, f"{topic}:0:40", code=None)["positions"]
    assert translation["basis"] == "unmapped", (
        "whether it is an offset of the other cluster is unknown"
    )
    k2ktui("apply", tmp_path / "plan.json", "--yes")
    assert committed(target, group) == {(topic, 0): 40}
