"""The only writer of a control topic: what it says once it cannot write any more."""

from __future__ import annotations

import random

import pytest

from k2ktui.config.clusters import ClusterConfig, KafkaClients
from k2ktui.errors import K2kError, Refused
from k2ktui.kafka.clients import Cluster
from k2ktui.kafka.control.fenced_writer import FencedWriter, WriterFenced
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import create_topic, read_all, unique_name


def writer_of(node: KafkaNode, topic: str, identity: str) -> FencedWriter:
    config = ClusterConfig(kafka=KafkaClients(common={"bootstrap.servers": node.bootstrap}))
    made = FencedWriter(Cluster(config, "target"), topic, identity)
    made.open()
    return made


def test_after_a_failure_each_write_names_its_cause(target: KafkaNode) -> None:
    topic = create_topic(target, config={"max.message.bytes": "1000"})
    writer = writer_of(target, topic, unique_name("id"))
    try:
        writer.put([(b"k", b"small")])
        with pytest.raises(Refused, match="a record is too large"):
            writer.put([(b"k", random.Random(1).randbytes(5_000))])
        with pytest.raises(K2kError, match=r"earlier failure: .*a record is too large") as later:
            writer.put([(b"k", b"small")])
        assert later.value.hint == f"Raise max.message.bytes of {topic}."
        assert later.value.unchanged == "Nothing was written."
    finally:
        writer.close()
    assert [record.value for record in read_all(target, topic)] == [b"small"]


def test_a_second_writer_with_the_same_id_fences_the_first(target: KafkaNode) -> None:
    topic, identity = create_topic(target), unique_name("id")
    first = writer_of(target, topic, identity)
    second = writer_of(target, topic, identity)
    try:
        with pytest.raises(WriterFenced):
            first.put([(b"k", b"first")])
        second.put([(b"k", b"second")])
    finally:
        first.close()
        second.close()
    assert [record.value for record in read_all(target, topic)] == [b"second"]
