"""A control topic is read whole or not at all: one left-out partition would look empty."""

from __future__ import annotations

from typing import Any

import pytest

from k2ktui.config.clusters import ClusterConfig, KafkaClients
from k2ktui.errors import TimedOut
from k2ktui.kafka.clients import Cluster, Partition
from k2ktui.kafka.control.reader import await_stable, read_committed, read_written, stable_ends
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import (
    TIMEOUT,
    create_topic,
    delete_before,
    produce,
    produce_transaction,
)
from tests.support.commands.waiting import seconds_waited

WAYS = {
    "ends": stable_ends,
    "committed": lambda *asked: [*read_committed(*asked)],
    "written": lambda *asked: [*read_written(*asked)],
    "decided": await_stable,
}


@pytest.fixture
def cluster(target: KafkaNode) -> Cluster:
    common = {"bootstrap.servers": target.bootstrap}
    return Cluster(ClusterConfig(kafka=KafkaClients(common=common)), "target")


def test_what_was_committed_and_what_was_written(target: KafkaNode, cluster: Cluster) -> None:
    topic = create_topic(target, partitions=2)
    produce_transaction(target, topic, [b"gone"], commit=False)
    produce(target, topic, [b"kept"])
    await_stable(cluster, topic, 2, TIMEOUT)  # the abort's marker comes after its answer

    assert [record.value for record in read_committed(cluster, topic, 2, TIMEOUT)] == [b"kept"]
    assert [record.value for record in read_written(cluster, topic, 2, TIMEOUT)] == [
        b"gone",
        b"kept",
    ]
    assert stable_ends(cluster, topic, 2) == {0: 3, 1: 0}


def test_a_small_topic_is_read_without_waiting(target: KafkaNode, cluster: Cluster) -> None:
    topic = create_topic(target)
    produce(target, topic, [b"1", b"2"])

    def read() -> None:
        records = read_committed(cluster, topic, 1, TIMEOUT)
        assert [record.value for record in records] == [b"1", b"2"]

    # A consumer that starts at OFFSET_BEGINNING, or fills its batches, waits 0.6 s each time; a
    # busy machine does not hold up all of so many.
    assert any(seconds_waited(read, 0.4) < 0.4 for _ in range(25))


def test_records_before_the_log_start_are_gone(target: KafkaNode, cluster: Cluster) -> None:
    topic = create_topic(target)
    produce(target, topic, [b"0", b"1", b"2"])
    delete_before(target, topic, 2)
    assert [record.value for record in read_committed(cluster, topic, 1, TIMEOUT)] == [b"2"]
    delete_before(target, topic, 3)
    assert [record.value for record in read_committed(cluster, topic, 1, TIMEOUT)] == []


@pytest.mark.parametrize("way", WAYS)
def test_a_partition_that_no_broker_leads(target: KafkaNode, cluster: Cluster, way: str) -> None:
    topic = create_topic(target)
    produce(target, topic, [b"0"])

    with pytest.raises(
        TimedOut, match=f"the log bounds of {topic}-1 on the target cluster are unavailable"
    ):
        WAYS[way](cluster, topic, 2, 0.2)  # type: ignore[operator]


class Electing(Cluster):
    """A cluster whose partitions have no leader for the first answers, as during an election."""

    left = 0

    def offsets(self, *asked: Any) -> dict[Partition, int]:
        self.left -= 1
        return {} if self.left >= 0 else super().offsets(*asked)


def test_a_leader_is_waited_for_whatever_is_asked_first(target: KafkaNode) -> None:
    """The leader may go between the questions for the ends and for the starts."""
    topic = create_topic(target)
    produce(target, topic, [b"0"])
    common = {"bootstrap.servers": target.bootstrap}
    cluster = Electing(ClusterConfig(kafka=KafkaClients(common=common)), "target")
    ends = stable_ends(cluster, topic, 1)
    cluster.left = 2
    read = read_committed(cluster, topic, 1, TIMEOUT, ends=ends)
    assert [record.value for record in read] == [b"0"]
