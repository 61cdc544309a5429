"""A control topic that is read repeatedly: what is new, and when everything is read again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException

from k2ktui.config.clusters import ClusterConfig, KafkaClients
from k2ktui.errors import TimedOut
from k2ktui.kafka.clients import Cluster
from k2ktui.kafka.control.tail import ControlTail
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import (
    TIMEOUT,
    create_topic,
    delete_before,
    delete_topic,
    eventually,
    produce,
    produce_transaction,
)


@pytest.fixture
def cluster(target: KafkaNode) -> Cluster:
    common = {"bootstrap.servers": target.bootstrap}
    return Cluster(ClusterConfig(kafka=KafkaClients(common=common)), "target")


@pytest.fixture(params=[False, True], ids=["ends", "starts"])
def tail(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[ControlTail]:
    made = ControlTail(cluster, check_starts=request.param)
    yield made
    made.close()


def read(cluster: Cluster, tail: ControlTail, topic: str) -> tuple[bool, list[bytes]]:
    described = cluster.find(topic)
    assert described is not None
    again = tail.begin(described)
    return again, sorted(record.value or b"" for record in tail.records(TIMEOUT))


def test_each_reading_returns_what_is_new(
    target: KafkaNode, cluster: Cluster, tail: ControlTail
) -> None:
    topic = create_topic(target, partitions=2)
    assert read(cluster, tail, topic) == (True, [])
    produce(target, topic, [b"1"])
    assert read(cluster, tail, topic) == (False, [b"1"])
    assert read(cluster, tail, topic) == (False, [])
    produce_transaction(target, topic, [b"gone"], commit=False)
    produce_transaction(target, topic, [b"2", b"3"], commit=True)
    produce(target, topic, [b"4"])
    values: list[bytes] = []

    def all_is_read() -> bool:
        values.extend(read(cluster, tail, topic)[1])
        return b"4" in values  # a marker follows the answer to its producer

    eventually(all_is_read, "all is read")
    assert sorted(values) == [b"2", b"3", b"4"]


class Counting(Cluster):
    """A cluster that keeps the consumers it made."""

    def __init__(self, like: Cluster) -> None:
        super().__init__(like.config, like.label)
        self.made: list[Consumer] = []

    def consumer(self, look_after: Callable[[], None] | None = None, **overrides: Any) -> Consumer:
        self.made.append(super().consumer(look_after, **overrides))
        return self.made[-1]


def test_between_readings_nothing_is_fetched(
    target: KafkaNode, cluster: Cluster, request: pytest.FixtureRequest
) -> None:
    topic = create_topic(target)
    cluster = Counting(cluster)
    tail = ControlTail(cluster)
    request.addfinalizer(tail.close)
    for value in (b"1", b"2", b"3"):
        produce(target, topic, [value])
        assert read(cluster, tail, topic)[1] == [value]
    # The first one read everything, and was closed; the second one stays.
    assert len(cluster.made) == 2
    assert cluster.made[1].assignment() == []
    assert read(cluster, tail, topic)[1] == []
    assert len(cluster.made) == 2


def test_a_topic_that_was_created_again_is_read_again(
    target: KafkaNode, cluster: Cluster, tail: ControlTail
) -> None:
    topic = create_topic(target)
    produce(target, topic, [b"1"])
    assert read(cluster, tail, topic) == (True, [b"1"])
    delete_topic(target, topic)
    eventually(lambda: cluster.find(topic) is None, "the topic is gone")

    def create() -> bool:
        try:
            create_topic(target, topic)
        except KafkaException:
            return False  # its deletion has not ended
        return True

    eventually(create, "the topic exists again")
    produce(target, topic, [b"2"])
    assert read(cluster, tail, topic) == (True, [b"2"])


def test_deleted_records_are_noticed_where_that_is_asked_for(
    target: KafkaNode, cluster: Cluster
) -> None:
    topic = create_topic(target)
    produce(target, topic, [b"1", b"2"])
    tails = [ControlTail(cluster, check_starts=checked) for checked in (True, False)]
    for tail in tails:
        assert read(cluster, tail, topic) == (True, [b"1", b"2"])
    delete_before(target, topic, 1)

    assert read(cluster, tails[0], topic) == (True, [b"2"])
    assert read(cluster, tails[1], topic) == (False, [])


def test_a_reading_that_failed_is_continued(
    target: KafkaNode, cluster: Cluster, tail: ControlTail
) -> None:
    topic = create_topic(target)
    described = cluster.find(topic)
    assert described is not None
    produce(target, topic, [b"1", b"2", b"3"])
    tail.begin(described)
    with pytest.raises(TimedOut):
        list(tail.records(-1.0))
    assert not tail.begin(described)
    first = tail.records(TIMEOUT)
    assert [next(first).value, next(first).value] == [b"1", b"2"]
    first.close()  # type: ignore[attr-defined]

    again, left = read(cluster, tail, topic)
    assert not again and left in ([b"2", b"3"], [b"3"])
    assert read(cluster, tail, topic) == (False, [])


@pytest.mark.parametrize(
    "given",
    [{}, {"reconnect.backoff.ms": "5000"}, {"reconnect.backoff.max.ms": "20000"}],
    ids=["default", "least", "most"],
)
def test_a_kept_consumer_respects_what_is_configured(given: dict[str, str]) -> None:
    """The library refuses a maximum below the minimum; no broker is needed to see that."""
    common = {"bootstrap.servers": "127.0.0.1:1", **given}
    cluster = Cluster(ClusterConfig(kafka=KafkaClients(common=common)), "target")
    cluster.kept_consumer().close()
