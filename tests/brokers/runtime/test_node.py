"""One-node clusters: they keep their address and data, and end on request."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from k2ktui.errors import Refused
from k2ktui.progress import Progress
from k2ktui.runtime import probe
from k2ktui.runtime.artifacts import Classpath
from k2ktui.runtime.java import Java
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import (
    Got,
    Out,
    create_topic,
    end_offsets,
    eventually,
    open_transaction,
    produce,
    produce_transaction,
    read_all,
    start_offsets,
    unique_name,
)
from tests.support.oracle.group_offsets import commit_offsets, committed


def test_two_clusters_differ(source: KafkaNode, target: KafkaNode) -> None:
    assert source.bootstrap != target.bootstrap
    assert source.cluster_id != target.cluster_id


def test_records_come_back_whole(source: KafkaNode) -> None:
    topic = create_topic(source, partitions=2)
    headers = (("a", b"1"), ("b", None), ("a", b""))
    sent = [Out(b"v", b"k", 1, headers, 1_000), Out(None, b"k", 1), Out(b"", None, 0)]

    assert produce(source, topic, sent) == [0, 1, 0]

    records = read_all(source, topic)
    assert records[1] == Got(1, 0, b"k", b"v", headers, 1_000)
    assert [(r.partition, r.key, r.value) for r in records] == [
        (0, None, b""),
        (1, b"k", b"v"),
        (1, b"k", None),
    ]


def test_transactions(source: KafkaNode) -> None:
    topic = create_topic(source)
    produce_transaction(source, topic, [b"a", b"b"])
    produce_transaction(source, topic, [b"gone"], commit=False)
    left_open = open_transaction(source, topic, [b"open"])

    assert [r.value for r in read_all(source, topic, stays_open=True)] == [b"a", b"b"]
    assert len(read_all(source, topic, "read_uncommitted")) == 4
    assert end_offsets(source, topic) == {0: 6}
    assert end_offsets(source, topic, "read_committed") == {0: 5}
    assert start_offsets(source, topic) == {0: 0}
    left_open.abort_transaction()


def test_suspended_node_does_not_answer_until_resumed(source: KafkaNode) -> None:
    source.suspend()
    try:
        process = psutil.Process(source.pid)
        eventually(lambda: process.status() == psutil.STATUS_STOPPED, "the node is suspended")
        assert not probe.is_serving(source.bootstrap, timeout=0.3)
    finally:
        source.resume()
    eventually(lambda: probe.is_serving(source.bootstrap), "the node answers again")
    create_topic(source)  # for the next test, it is not fenced any more


def test_node_that_cannot_start_says_why(tmp_path: Path) -> None:
    node = KafkaNode("wrong", tmp_path, {"log.retention.hours": "many"})
    with pytest.raises(Refused, match=r"log\.retention\.hours"):
        node.start()
    node.close()


class NotAJvm(KafkaNode):
    """A node that ends at once; its log names the reason."""

    launches = 0

    def _jars(self, progress: Progress | None) -> Classpath:
        return Classpath((), ())

    def _format(self, java: Java, jars: Classpath) -> str:
        self.launches += 1
        return "id"


def test_a_port_that_was_taken_at_an_earlier_start_is_no_reason(tmp_path: Path) -> None:
    (tmp_path / "node.log").write_text("Address already in use\n")
    node = NotAJvm("wrong", tmp_path, jvm=("-XX:+NoSuchOption",))
    with pytest.raises(Refused, match="NoSuchOption"):
        node.start()
    node.close()
    assert node.launches == 1


def test_groups(source: KafkaNode) -> None:
    topic, group = create_topic(source), unique_name("group")
    commit_offsets(source, group, {(topic, 0): 5})
    assert committed(source, group) == {(topic, 0): 5}
