"""Who writes to a log, as its batches and coordinators say: producers of each kind."""

from __future__ import annotations

from contextlib import closing

from confluent_kafka import Producer as KafkaProducer

from k2ktui.config.clusters import ClusterConfig
from k2ktui.engine.producers import NO_ID, Producer, Writers
from k2ktui.kafka.clients import Cluster
from k2ktui.log.writers import WriterReader, WriterWatch
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import (
    TIMEOUT,
    client,
    create_topic,
    eventually,
    open_transaction,
    unique_name,
)


def cluster_of(node: KafkaNode) -> Cluster:
    own = {"kafka": {"common": {"bootstrap.servers": node.bootstrap}}}
    return Cluster(ClusterConfig.model_validate(own), "source")


def send(node: KafkaNode, topic: str, partition: int, count: int, *, idempotent: bool) -> None:
    producer = KafkaProducer(client(node, enable_idempotence=idempotent))
    for number in range(count):
        producer.produce(topic, str(number).encode(), partition=partition)
    assert producer.flush(TIMEOUT) == 0


def test_a_watch_begins_before_the_end_and_names_who_comes(source: KafkaNode) -> None:
    topic = create_topic(source)
    send(source, topic, 0, 30, idempotent=True)
    with closing(WriterWatch(cluster_of(source), look_back=10)) as watch:
        (before,) = watch.poll([(topic, 0)])
        assert (before.rate, before.last) == (None, {(topic, 0): 29}) and before.producer.id >= 0
        assert watch.poll([(topic, 0)])[0].records == before.records, "nothing was written"
        send(source, topic, 0, 5, idempotent=False)
        writers = {writer.producer.id: writer for writer in watch.poll([(topic, 0)])}
        assert writers[NO_ID].records == 5 and (writers[NO_ID].rate or 0) > 0


def test_producers_of_each_kind_are_named(source: KafkaNode) -> None:
    topic, of_tx, name = create_topic(source, partitions=2), create_topic(source), unique_name("tx")
    send(source, topic, 0, 4, idempotent=False)
    send(source, topic, 1, 3, idempotent=True)
    # Its transaction is open: what it writes is above the last stable offset.
    transactional = open_transaction(source, of_tx, [b"1", b"2"], transactional_id=name)
    with closing(WriterReader(cluster_of(source))) as reader:
        at = (of_tx, 0)
        written = {one.at: one for one in reader.read({(topic, 0): 0, (topic, 1): 0, at: 0})}
        sums = {where: (one.records, one.last_offset) for where, one in written.items()}
        assert sums == {(topic, 0): (4, 3), (topic, 1): (3, 2), at: (2, 1)}
        assert written[topic, 0].producer == Producer(NO_ID)
        idempotent, named = written[topic, 1].producer, written[at].producer
        assert idempotent.id >= 0 and not idempotent.is_transactional
        assert named.is_transactional and named.transactional_id == name
        writers = Writers()
        writers.add(written.values(), 0.0)
        assert writers.list()[0].describe().startswith(f"a producer without id on {topic} 0 (4 ")
        transactional.commit_transaction(TIMEOUT)
        (marker,) = eventually(lambda: reader.read({at: 2}), "the end of the transaction is seen")
        assert (marker.records, marker.producer) == (0, named)
        assert reader.read({at: marker.last_offset + 1}) == []
