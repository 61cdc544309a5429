"""A cluster is who it says it is: every connection asks, before anything else is sent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kafka.net.connection import KafkaConnection
from kafka.protocol.producer import ProduceRequest

from k2ktui.config.clusters import ClusterConfig
from k2ktui.kafka.clients import Cluster
from k2ktui.kafka.properties.translation import wire
from k2ktui.kafka.unreachable import OtherCluster
from k2ktui.kafka.wire.cluster import Loop, Wire
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.brokers import Brokers
from tests.support.clusters.cluster_ids import by_librdkafka
from tests.support.clusters.kafka import TIMEOUT

OTHER = "AnotherClusterAtThisAdr"


def _config(node: KafkaNode) -> ClusterConfig:
    return ClusterConfig.model_validate(
        {"kafka": {"common": {"bootstrap.servers": node.bootstrap}}}
    )


@pytest.fixture
def loop() -> Iterator[Loop]:
    made = Loop()
    yield made
    made.close()


def _open(loop: Loop, node: KafkaNode, cluster_id: str) -> Wire:
    connection = Wire(loop, wire(_config(node), "admin"), "source", cluster_id)
    loop.run(lambda: connection.open(TIMEOUT))
    return connection


@pytest.mark.slow
def test_an_old_broker_says_its_cluster_too(brokers: Brokers, loop: Loop) -> None:
    (node,) = brokers("2.5")
    cluster_id = by_librdkafka(_config(node))
    assert cluster_id
    _open(loop, node, cluster_id).close()
    with pytest.raises(OtherCluster, match=cluster_id):
        _open(loop, node, OTHER)


def test_another_cluster_is_not_opened(source: KafkaNode, loop: Loop) -> None:
    with pytest.raises(OtherCluster) as raised:
        _open(loop, source, OTHER)
    assert source.cluster_id in raised.value.message and OTHER in raised.value.message
    _open(loop, source, source.cluster_id).close()


def test_a_connection_that_is_open_already_is_judged_as_well(source: KafkaNode, loop: Loop) -> None:
    """Workers connect before they know what their first task copies."""
    connection = _open(loop, source, "")
    connection.require(source.cluster_id)
    assert loop.run(connection.brokers)
    with pytest.raises(OtherCluster):
        connection.require(OTHER)
    connection.close()


def test_nothing_is_sent_on_a_new_connection_to_another_cluster(
    source: KafkaNode, loop: Loop
) -> None:
    """A connection that was lost comes back, and leads to a cluster that was built again."""
    connection = _open(loop, source, source.cluster_id)
    (node,) = loop.run(connection.brokers)
    sent: list[Any] = []
    connection.drop(node)
    vars(connection)["_manager"].expected = OTHER  # what answers now is another cluster

    written = vars(KafkaConnection)["_send_request"]

    def spy_on_wire(self: Any, request: Any, *rest: Any, **more: Any) -> Any:
        sent.append(request)
        return written(self, request, *rest, **more)

    request = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[], max_version=8)
    with pytest.MonkeyPatch.context() as patch, pytest.raises(OtherCluster):
        patch.setattr(KafkaConnection, "_send_request", spy_on_wire)
        loop.run(lambda: connection.send(request, node))
    assert not [request for request in sent if isinstance(request, ProduceRequest)]
    connection.close()


def test_the_admin_client_compares_each_answer(source: KafkaNode) -> None:
    cluster = Cluster(_config(source), "source")
    cluster.expected_id = source.cluster_id
    cluster.require_expected()
    cluster.consumer().close()
    assert cluster.partition_counts() is not None
    cluster.expected_id = OTHER
    for ask in (
        cluster.require_expected,
        cluster.partition_counts,
        cluster.topic_names,
        cluster.consumer,
    ):
        with pytest.raises(OtherCluster, match=source.cluster_id):
            ask()
    cluster.expected_id = source.cluster_id
    cluster.require_expected()
