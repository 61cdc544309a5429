"""Offsets of partitions whose leader has changed since they were last asked for."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import IsolationLevel
from confluent_kafka.admin import NewTopic, OffsetSpec

from k2ktui.config.clusters import ClusterConfig
from k2ktui.errors import K2kError
from k2ktui.kafka.admin.broker_creation import creates_topics
from k2ktui.kafka.admin.topics import broker_count
from k2ktui.kafka.clients import Cluster, TopicDescription
from k2ktui.kafka.producer_id import Producer
from k2ktui.kafka.properties.translation import wire
from k2ktui.kafka.wire.cluster import Loop, Wire
from k2ktui.kafka.wire.transactions import init_producer
from k2ktui.runtime import probe
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.brokers import Brokers, TwoBrokers
from tests.support.clusters.kafka import (
    START_S,
    TIMEOUT,
    admin,
    create_topic,
    eventually,
    produce,
    read_all,
    unique_name,
)

# Brokers are fenced for 7 of 8 seconds, as one is that was suspended until its next heartbeat.
LATE = {"broker.session.timeout.ms": "1000", "broker.heartbeat.interval.ms": "8000"}


def cluster_at(servers: str) -> Cluster:
    config = ClusterConfig.model_validate({"kafka": {"common": {"bootstrap.servers": servers}}})
    return Cluster(config, "target")


@pytest.mark.slow
def test_a_new_leader_epoch_is_learned(target: KafkaNode) -> None:
    """librdkafka would ask with the old one, and be refused, until its metadata is renewed.

    A node that was killed, or stopped, keeps its address and its data.
    """
    topic = create_topic(target)
    produce(target, topic, [b"a", b"b"])
    before = (target.bootstrap, target.cluster_id)
    cluster = cluster_at(target.bootstrap)
    where = (topic, 0)

    def end() -> int | None:
        return cluster.offsets([where], OffsetSpec.latest(), IsolationLevel.READ_COMMITTED).get(
            where
        )

    assert end() == 2
    for ends in (target.kill, target.stop):
        ends()
        assert not target.running
        assert not probe.is_serving(target.bootstrap)
        target.restart(START_S)
        assert (target.bootstrap, target.cluster_id) == before
        # Its node serves a moment before it leads.
        assert eventually(end, "the end is known") == 2
        assert [got.value for got in read_all(target, topic)] == [b"a", b"b"]


@pytest.mark.slow
def test_the_leader_after_a_dead_one_is_asked(brokers: Brokers) -> None:
    """librdkafka would ask the dead one repeatedly, and return -1001 without an error."""
    two = brokers.two
    topic = create_topic(two, replicas=[[2, 1]])
    produce(two, topic, [b"a", b"b"])
    cluster, where = cluster_at(two.bootstrap), (topic, 0)
    assert cluster.offsets([where], OffsetSpec.latest()) == {where: 2}
    two.stop_second()
    try:
        ends = eventually(lambda: cluster.offsets([where], OffsetSpec.latest()), "the end")
        assert ends == {where: 2}
    finally:
        two.start()


@pytest.mark.slow
def test_a_leader_that_does_not_know_its_new_topic_yet(tmp_path: Path) -> None:
    """The controller has confirmed the topic, and another broker names its leader."""
    patient = {"broker.session.timeout.ms": "120000"}
    with closing(TwoBrokers("late", tmp_path, patient)) as two:
        cluster = cluster_at(two.start().first.bootstrap)
        known, name = create_topic(two, replicas=[[2]]), unique_name("new")
        assert cluster.offsets([(known, 0)], OffsetSpec.latest()) == {(known, 0): 0}
        topic, with_admin = NewTopic(name, 1, replica_assignment=[[2]]), admin(two.first)
        # Any broker passes requests on to the controller; it is asked of the one that goes on.
        eventually(lambda: with_admin.list_topics(timeout=TIMEOUT).controller_id == 1, "the first")
        two.second.suspend()
        try:
            with_admin.create_topics([topic])[name].result(TIMEOUT)
            with ThreadPoolExecutor(1) as pool:
                asked = pool.submit(cluster.offsets, [(name, 0)], OffsetSpec.latest())
                time.sleep(1)  # the leader finds the question before it hears of the topic
                two.second.resume()
                assert asked.result(TIMEOUT) == {(name, 0): 0}
        finally:
            two.second.resume()


@pytest.mark.slow
def test_a_request_for_the_controller_goes_to_the_next_one(brokers: Brokers) -> None:
    """librdkafka would wait for the dead one, using a whole core, until the request times out."""
    two = brokers.two
    topic = create_topic(two, replicas=[[1, 2]])
    cluster = cluster_at(two.bootstrap)

    def second_is_known_as_the_controller() -> bool:
        # In KRaft mode, a broker names any of those that are alive.
        listed = cluster.admin.list_topics(timeout=TIMEOUT)
        return bool(listed.controller_id == two.second.number)

    # Killed first, it would be named for as long only as its session lasts.
    eventually(second_is_known_as_the_controller, "the client takes it for the controller")
    two.second.kill()
    try:
        assert isinstance(cluster.describe([topic])[topic], TopicDescription)
    finally:
        two.start()


@pytest.mark.slow
def test_clients_reach_brokers_that_were_fenced(tmp_path: Path) -> None:
    """librdkafka drops all brokers while they are fenced, and does not always find them again.

    What it says of a request to one that it has dropped says nothing of the topic.
    """
    with closing(TwoBrokers("two", tmp_path)) as two:
        topic = create_topic(two.start(), replicas=[[1, 2]])
        two.kill()
        late = TwoBrokers("two", tmp_path, LATE)  # of the same data, on the same ports
        for node in late.nodes:
            node.start(START_S)
        asks_while_fenced(cluster_at(two.bootstrap), two.cluster_id)
        clusters = [cluster_at(two.bootstrap) for _ in range(5)]
        with ThreadPoolExecutor(len(clusters)) as pool:
            until = time.monotonic() + 20
            asked = pool.map(lambda cluster: ask_often(cluster, topic, until), clusters)
            assert {code for codes in asked for code in codes if code < 0} == set()
        late.kill()
        two.start()
        with ThreadPoolExecutor(len(clusters)) as pool:
            list(
                pool.map(
                    lambda cluster: eventually(partial(finds, cluster, topic), "found"), clusters
                )
            )


def asks_while_fenced(cluster: Cluster, cluster_id: str) -> None:
    """Brokers answer that the cluster has none, and DescribeCluster would abort this process."""

    def answer(ask: Callable[[], object]) -> object:
        with suppress(K2kError):
            return ask()
        return None

    eventually(lambda: not cluster.broker_ids("counting"), "they are fenced")
    for _ in range(20):
        assert answer(cluster.cluster_id) in (cluster_id, None)
        answer(lambda: broker_count(cluster))
        answer(lambda: creates_topics(cluster))
    eventually(lambda: cluster.broker_ids("counting"), "one is back")
    eventually(lambda: answer(cluster.cluster_id) == cluster_id, "the id is known again")


def ask_often(cluster: Cluster, topic: str, until: float) -> set[int]:
    """Return the codes of the errors that a topic was said to have."""
    codes = set()
    while time.monotonic() < until:
        with suppress(K2kError):
            cluster.cluster_id()
        with suppress(K2kError):
            described = cluster.describe([topic])[topic]
            if not isinstance(described, TopicDescription):
                codes.add(described.code())
        time.sleep(0.1)  # brokers are fenced for seconds: hundreds of questions meet that
    return codes


def finds(cluster: Cluster, topic: str) -> bool:
    with suppress(K2kError):
        return isinstance(cluster.find(topic), TopicDescription)
    return False


@pytest.mark.slow
def test_a_coordinator_that_has_joined_is_reached(brokers: Brokers) -> None:
    """It was away when the brokers were asked for, which are asked for again after 5 minutes."""
    two = brokers.two
    name = unique_name("tx")
    while not two.coordinates(name, 2):
        name = unique_name("tx")
    loop = Loop()
    connection = Wire(loop, wire(cluster_at(two.bootstrap).config, "admin"), "target")
    current = Producer(name)

    async def init() -> Producer:
        return await init_producer(connection, current, 60_000, TIMEOUT)

    try:
        loop.run(lambda: connection.open(TIMEOUT))
        two.stop_second()
        current = loop.run(init)
        eventually(lambda: loop.run(connection.brokers) == [1], "the second is not known")
        two.start()
        assert two.coordinates(name, 2)
        assert loop.run(init).epoch == current.epoch + 1
    finally:
        two.start()
        connection.close()
        loop.close()
