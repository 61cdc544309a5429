"""Clusters that are upgraded while a pipeline copies between them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka.admin import KafkaAdminClient

from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.brokers import KINDS, KRaftNode
from tests.support.clusters.kafka import create_topic, eventually
from tests.support.pipelines.pipeline import Pipeline
from tests.support.records.traffic import Traffic

_OLD, _NEW = KINDS["3.9"], KINDS["4-tv2"]


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[list[KRaftNode]]:
    """A source and a target of the old version; replace them by those that they become."""
    made = [KRaftNode(name, tmp_path / name, kind=_OLD) for name in ("source", "target")]
    try:
        for node in made:
            node.start()
        yield made
    finally:
        for node in made:
            node.close()


@pytest.mark.proof
def test_clusters_are_upgraded_while_a_run_copies(nodes: list[KRaftNode], tmp_path: Path) -> None:
    """First the brokers, then their features: the run meets transaction version 2 on its way."""
    source, target = nodes
    topics = {create_topic(source, partitions=n): n for n in (1, 2, 3)}
    pipeline = Pipeline(tmp_path, source, target, list(topics), {})
    pipeline.mode = "shared"
    try:
        with Traffic(source, topics, 1):
            run = pipeline.start()
            run.expect("firstrecord")
            for number in (1, 0):
                nodes[number] = replaced(nodes[number])
                pipeline.await_copying()
                finalize(nodes[number])
                pipeline.await_copying()
                for step in ("sent", "before-commit"):
                    pipeline.arm(step)
                    pipeline.await_hit(step)
                pipeline.await_copying()
            pipeline.suspend_at("sent", run).resume()
            pipeline.await_copying()
        pipeline.end(run)
        pipeline.prove()
    finally:
        pipeline.close()


def replaced(node: KRaftNode) -> KRaftNode:
    """Stop a node, and start the new version with its files, at its address."""
    address = node.bootstrap
    node.stop()
    after = KRaftNode(node.name, node.data_dir, kind=_NEW).start()
    assert after.bootstrap == address
    return after


def finalize(node: KafkaNode) -> None:
    """Use the newest level of each feature, as ``kafka-features.sh upgrade`` does."""
    client = KafkaAdminClient(bootstrap_servers=node.bootstrap)
    try:
        levels = client.describe_features()
        newest = {
            name: levels[name]["supported"][1] for name in ("metadata.version", "group.version")
        }
        newest["transaction.version"] = 2
        for name, level in newest.items():
            assert client.update_features({name: level}) == {name: "OK"}

        def has_followed() -> bool:
            return bool(client.describe_features()["transaction.version"]["finalized"][1] == 2)

        eventually(has_followed, "the broker has followed its controller")
    finally:
        client.close()
