"""What a micro-batch of a transform reads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from k2ktui.config.clusters import ClusterConfig, KafkaClients
from k2ktui.engine.state import Position, SourcePartition
from k2ktui.kafka.producer_id import Producer
from k2ktui.kafka.properties import wire
from k2ktui.kafka.wire import Loop, Wire
from k2ktui.replication.slot_settings import CommitPolicy
from k2ktui.replication.slot_task import Assignment, CopyPath, Route, SlotTask, StateTopics
from k2ktui.replication.stages.read import MicroBatchReader
from k2ktui.runtime.node import KafkaNode
from tests.support.kafka import create_topic, produce

VALUE = b"x" * 1000


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
        policy=CommitPolicy(lap_s=20.0),
        assignments=(Assignment(SourcePartition(topic, 0), position, route, until),),
    )
    config = ClusterConfig(kafka=KafkaClients(common={"bootstrap.servers": node.bootstrap}))
    loop = Loop()
    connection = Wire(loop, wire(config, "consumer"), "source")
    try:
        loop.run(lambda: connection.open(10.0))
        reader = MicroBatchReader(
            task, connection, None, longest_gather_s=20.0, shortest_s=shortest_s
        )
        (records,) = loop.run(reader.run).records
        return [] if records is None else records.offsets.tolist()
    finally:
        connection.close()
        loop.close()


def test_a_micro_batch_takes_more_than_one_response_of_a_partition_that_is_behind(
    source: KafkaNode,
) -> None:
    topic = create_topic(source)
    produce(source, topic, [VALUE] * 7000)
    assert read(source, topic, 0) == list(range(7000))
    assert read(source, topic, 6990) == list(range(6990, 7000))


def test_a_micro_batch_that_has_only_begun_waits_for_more_records(source: KafkaNode) -> None:
    topic = create_topic(source)
    produce(source, topic, [VALUE])
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(read, source, topic, 0, 100, 20.0)
        for _ in range(99):
            produce(source, topic, [VALUE])
        assert reading.result() == list(range(100))
