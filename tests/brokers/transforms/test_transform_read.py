"""What a micro-batch of a transform reads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from crc32c import crc32c

from k2ktui.config.clusters import ClusterConfig, KafkaClients
from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.kafka.producer_id import Producer
from k2ktui.kafka.properties.translation import wire
from k2ktui.kafka.wire.cluster import Loop, Wire
from k2ktui.log.batch import HEADER_BYTES
from k2ktui.log.rebuild import build_batches
from k2ktui.log.records import make_records
from k2ktui.replication.copying.partition_reader import PartitionReader
from k2ktui.replication.copying.slot_settings import CommitPolicy
from k2ktui.replication.copying.slot_task import Assignment, CopyPath, Route, SlotTask, StateTopics
from k2ktui.replication.transforms.read import MicroBatchReader, take_columns
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import TIMEOUT, create_topic, produce

VALUE = b"x" * 1000


def one_record(offset: int, size: int, *, damaged: bool = False) -> bytes:
    """Return a batch of one record."""
    (built,) = build_batches(make_records([(offset, 0, b"k", b"v" * size)]), 0, 1)
    data = built.data
    data[0:8] = offset.to_bytes(8, "big")
    if damaged:
        data[HEADER_BYTES] ^= 2  # the length of the record
        data[17:21] = crc32c(memoryview(data)[21:]).to_bytes(4, "big")
    return bytes(data)


def reader_of(batches: list[bytes]) -> PartitionReader:
    position = Position(0, 0, -1, "", 1, 0, "t", 0)
    route = Route(CopyPath.RECORD, "t", 0, 1)
    reader = PartitionReader(Assignment(SourcePartition("t", 0), position, route, None))
    reader.receive(b"".join(batches), [])
    return reader


def test_small_batches_are_decoded_together() -> None:
    reader = reader_of([one_record(offset, 10) for offset in range(500)])
    columns = take_columns(reader)
    assert columns is not None and columns.offsets.tolist() == list(range(500))
    assert not reader.ready and reader.handed == 500
    reader = reader_of([one_record(offset, 100_000) for offset in range(5)])
    taken = [take_columns(reader) for _ in range(3)]
    assert [part and part.offsets.tolist() for part in taken] == [[0, 1], [2, 3], [4]]


@pytest.mark.parametrize("at", [0, 1, 6, 99])
def test_a_partition_stops_before_the_damaged_one_of_small_batches(at: int) -> None:
    reader = reader_of([one_record(offset, 10, damaged=offset == at) for offset in range(100)])
    offsets = []
    while (columns := take_columns(reader)) is not None:
        offsets += columns.offsets.tolist()
    assert offsets == list(range(at)) and reader.handed == at
    assert reader.fault is not None and reader.fault.offset == at and not reader.ready


def read(
    node: KafkaNode, topic: str, offset: int, until: int | None = None, shortest_s: float = 0.0
) -> list[int]:
    """Return the offsets of one micro-batch of a partition, read from an offset."""
    position = Position(offset, 0, -1, "", 1, 0, topic, 0)
    route = Route(CopyPath.RECORD, topic, 0, 1)
    task = SlotTask(
        slot=0,
        producer=Producer(None),
        transactional=False,
        state_topics=StateTopics("p", "p", 1, "commits", 0, "", 0),
        policy=CommitPolicy(lap_s=TIMEOUT),
        assignments=(Assignment(SourcePartition(topic, 0), position, route, until),),
    )
    config = ClusterConfig(kafka=KafkaClients(common={"bootstrap.servers": node.bootstrap}))
    loop = Loop()
    connection = Wire(loop, wire(config, "consumer"), "source")
    try:
        loop.run(lambda: connection.open(TIMEOUT))
        reader = MicroBatchReader(
            task, connection, None, longest_gather_s=TIMEOUT, shortest_s=shortest_s
        )
        ((records,), _) = loop.run(reader.run)
        return [] if records is None else records.offsets.tolist()
    finally:
        connection.close()
        loop.close()


def test_a_micro_batch_takes_more_than_one_response_of_a_partition_that_is_behind(
    source: KafkaNode,
) -> None:
    topic = create_topic(source)
    produce(source, topic, [VALUE] * 14_000)
    assert read(source, topic, 0) == list(range(14_000))
    assert read(source, topic, 13_990) == list(range(13_990, 14_000))


def test_a_micro_batch_that_has_only_begun_waits_for_more_records(source: KafkaNode) -> None:
    topic = create_topic(source)
    produce(source, topic, [VALUE])
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(read, source, topic, 0, 100, TIMEOUT)
        for _ in range(99):
            produce(source, topic, [VALUE])
        assert reading.result() == list(range(100))
