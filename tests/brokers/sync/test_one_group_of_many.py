"""One group, or one of its partitions, that cannot be moved: the others are not affected."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, ShareConsumer, TopicPartition

from k2ktui.kafka.wire.groups import ConsumerGroupClient, GroupCommit
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.brokers import Brokers
from tests.support.clusters.kafka import (
    TIMEOUT,
    Out,
    client,
    create_topic,
    eventually,
    produce,
    unique_name,
)
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.oracle.group_offsets import commit_offsets
from tests.support.pipelines.copied import Copied, committed

pytestmark = pytest.mark.slow


def _topic(node: KafkaNode, partitions: int = 1) -> str:
    name = create_topic(node, partitions=partitions)
    produce(node, name, [Out(b"%d" % n, partition=n % partitions) for n in range(10 * partitions)])
    return name


@contextlib.contextmanager
def open_commit(node: KafkaNode, group: str, topic: str, partition: int) -> Iterator[None]:
    """A transaction that commits an offset of one partition and does not end."""
    producer = Producer(
        client(node, transactional_id=unique_name("open"), transaction_timeout_ms=600_000)
    )
    consumer = Consumer(client(node, group_id=group, enable_auto_commit=False))
    producer.init_transactions(TIMEOUT)
    producer.begin_transaction()
    where = [TopicPartition(topic, partition, 7)]
    producer.send_offsets_to_transaction(where, consumer.consumer_group_metadata(), TIMEOUT)
    try:
        yield
    finally:
        producer.abort_transaction(TIMEOUT)
        consumer.close()


def test_a_hanging_commit_holds_up_its_own_partition(
    source: KafkaNode, target: KafkaNode, tmp_path: Path
) -> None:
    copied, topic = Copied(tmp_path, source, target, prior=0), _topic(source, 3)
    copied.copy(topic)
    group = copied.group("g")
    commit_offsets(source, group, {(topic, n): 3 for n in range(3)})
    commit_offsets(target, group, {(topic, n): 1 for n in range(3)})
    with open_commit(source, group, topic, 0), open_commit(target, group, topic, 1):
        rows = {
            row["partition"]: row
            for row in k2ktui_json("groups", "-f", copied.file, code=None)["groups"]
        }
        assert [rows[n]["basis"] for n in range(3)] == ["unmapped", "exact", "exact"]
        assert f"on the source: {topic}-0: a transaction" in rows[0]["reason"]
        assert "on the target: a transaction" in rows[1]["reason"]
        assert "transaction" not in rows[2]["reason"]
        file = tmp_path / "plan.json"
        planned = k2ktui_json("plan", "-f", copied.file, "-o", file)["rows"]
        actions = {row["partition"]: row["action"] for row in planned}
        assert actions == {0: "skip", 1: "skip", 2: "advance"}
        k2ktui("apply", file, "--yes")
    there = committed(target, group, [(topic, n) for n in range(3)])
    assert there == {(topic, 0): 1, (topic, 1): 1, (topic, 2): 3}


def test_a_share_group_has_the_name_of_a_group(
    source: KafkaNode, target: KafkaNode, tmp_path: Path
) -> None:
    copied, topic = Copied(tmp_path, source, target, prior=0), _topic(source)
    copied.copy(topic)
    group, other = copied.group("shared"), copied.group("other")
    commit_offsets(source, group, {(topic, 0): 3})
    consumer = ShareConsumer(client(target, group_id=group))
    consumer.subscribe([topic])
    try:

        def is_listed() -> bool:
            with contextlib.suppress(Exception):
                consumer.poll(0.1)
            with ConsumerGroupClient({"bootstrap_servers": [target.bootstrap]}, "target") as groups:
                groups.open(TIMEOUT)
                return group in groups.list()

        eventually(is_listed, "the share group is listed")
        # Nothing can move: that is a finding.
        (row,) = k2ktui_json("plan", "-f", copied.file, code=1)["rows"]
        assert row["action"] == "skip"
        assert "on the target: a share group has this name there" in row["reason"]
        (listed,) = k2ktui_json("groups", "-f", copied.file, code=None)["groups"]
        assert "a share group has this name there" in listed["reason"]
        commit_offsets(source, other, {(topic, 0): 3})
        rows = k2ktui_json("plan", "-f", copied.file)["rows"]
        assert {row["group"]: row["action"] for row in rows} == {group: "skip", other: "create"}
    finally:
        consumer.close()


@pytest.mark.parametrize("kind", ["2.8", "4.0.0"])
def test_a_group_with_the_empty_id(
    brokers: Brokers, source: KafkaNode, tmp_path: Path, kind: str
) -> None:
    """It is not moved, says why, and lets the others be moved and kept."""
    (target,) = brokers(kind)
    settings = {"groups": {"consumerGroups": ".*"}}
    copied, topic = Copied(tmp_path, source, target, settings, prior=0), _topic(source)
    copied.copy(topic)
    group = copied.group("g")
    commit_offsets(source, group, {(topic, 0): 3})
    options = {"bootstrap_servers": [source.bootstrap]}
    with ConsumerGroupClient(options, "target") as groups:
        groups.open(TIMEOUT)
        try:
            assert groups.commit({"": {(topic, 0): GroupCommit(3)}}) == {"": {(topic, 0): ""}}
            rows = k2ktui_json("plan", "-f", copied.file)["rows"]
            by_group = {row["group"]: row for row in rows if row["topic"] == topic}
            assert {name: row["action"] for name, row in by_group.items()} == {
                "": "skip",
                group: "create",
            }
            assert "on the source: its id is empty" in by_group[""]["reason"]
            k2ktui("sync", "-f", copied.file, "--once", code=None)
            assert committed(target, group, [(topic, 0)]) == {(topic, 0): 3}
        finally:
            assert groups.delete([""]) == {"": ""}  # the cluster is other tests', too
            assert "" not in groups.list()
