"""When the record at an offset was written, over the wire."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from k2ktui.config.clusters import ClusterConfig, KafkaClients
from k2ktui.kafka.clients import Cluster
from k2ktui.log.content import ContentReader
from k2ktui.replication.topics.record_times import RecordTimes, read_times
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import (
    Out,
    await_stable,
    create_topic,
    end_offsets,
    produce,
    produce_transaction,
    unique_name,
)
from tests.support.commands.waiting import seconds_waited
from tests.support.records.sent_batches import make_batch, send_batches

NOW = int(time.time()) * 1000
PATIENCE = 60.0


@pytest.fixture
def reader(source: KafkaNode) -> Iterator[ContentReader]:
    properties = {"bootstrap.servers": source.bootstrap}
    opened = ContentReader(Cluster(ClusterConfig(kafka=KafkaClients(common=properties)), "source"))
    yield opened
    opened.close()


def stamped(count: int, first: int = 0, partition: int = 0) -> list[Out]:
    """Records whose timestamps tell their numbers."""
    return [Out(b"v" * 100, partition=partition, timestamp=NOW + first + i) for i in range(count)]


@pytest.mark.parametrize("codec", ["none", "lz4", "zstd", "snappy", "gzip"])
def test_a_record_inside_a_batch(source: KafkaNode, reader: ContentReader, codec: str) -> None:
    topic = create_topic(source)
    produce(source, topic, stamped(500), compression_type=codec, linger_ms=50)
    for offset in (0, 123, 499):
        found = read_times(reader, {(topic, 0): offset}, PATIENCE)
        assert found.times == {(topic, 0): (NOW + offset) / 1000}


def test_aborted_records_are_passed_over(source: KafkaNode, reader: ContentReader) -> None:
    topic = create_topic(source)
    produce_transaction(source, topic, stamped(200), commit=False)
    produce_transaction(source, topic, stamped(10, first=1000))
    await_stable(source, topic)
    assert read_times(reader, {(topic, 0): 0}, PATIENCE).times == {(topic, 0): (NOW + 1000) / 1000}


def test_many_partitions_with_batches_larger_than_what_is_asked_for(
    source: KafkaNode, reader: ContentReader
) -> None:
    topic = create_topic(source, partitions=40)
    for partition in range(40):
        records = [Out(bytes(90_000), partition=partition, timestamp=NOW + partition)]
        produce(source, topic, records)
    found = read_times(reader, {(topic, p): 0 for p in range(40)}, PATIENCE)
    assert found.times == {(topic, p): (NOW + p) / 1000 for p in range(40)}


def test_what_is_not_there_is_left_out(source: KafkaNode, reader: ContentReader) -> None:
    topic = create_topic(source)
    produce(source, topic, stamped(3))
    end = end_offsets(source, topic)[0]
    where = {(topic, 0): 1, (unique_name("missing"), 0): 0, (topic, 7): 0}
    assert read_times(reader, where, PATIENCE).times == {(topic, 0): (NOW + 1) / 1000}
    assert read_times(reader, {(topic, 0): end}, PATIENCE).times == {}
    assert read_times(reader, {(topic, 0): end + 5}, PATIENCE).times == {}, (
        "out of range is no reason to wait"
    )


def test_partitions_without_a_further_record_are_known(
    source: KafkaNode, reader: ContentReader
) -> None:
    """Only the marker of a transaction follows; where a record follows, it is not exhausted."""
    topic = create_topic(source, partitions=2)
    produce(source, topic, [Out(b"v", partition=1, timestamp=NOW)])
    produce_transaction(source, topic, [Out(b"v", partition=0, timestamp=NOW)])
    where = {(topic, 0): 1, (topic, 1): 0}
    found = read_times(reader, where, PATIENCE)
    assert found == RecordTimes({(topic, 1): NOW / 1000}, frozenset({(topic, 0)}))
    waited = seconds_waited(lambda: read_times(reader, where, PATIENCE), PATIENCE / 2)
    assert waited < PATIENCE / 2, "it does not wait for a record"
    assert not read_times(reader, {(topic, 0): 0}, PATIENCE).exhausted


def test_no_time_is_no_time(source: KafkaNode, reader: ContentReader) -> None:
    """Their timestamp is -1, which is not the last millisecond of 1969."""
    topic = create_topic(source, partitions=2)
    send_batches(source, topic, [make_batch([b"v"] * 3, timestamp=-1)])
    produce(source, topic, stamped(1, partition=1))
    found = read_times(reader, {(topic, 0): 1, (topic, 1): 0}, PATIENCE)
    assert found == RecordTimes({(topic, 1): NOW / 1000}, untimed=frozenset({(topic, 0)}))


def test_no_broker_answers() -> None:
    properties = {"bootstrap.servers": "127.0.0.1:1"}
    reader = ContentReader(Cluster(ClusterConfig(kafka=KafkaClients(common=properties)), "source"))
    assert read_times(reader, {("topic", 0): 0}, 0.5).times == {}
