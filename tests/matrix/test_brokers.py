"""The brokers of the matrix are what they are called."""

from __future__ import annotations

import pytest
from kafka.admin import KafkaAdminClient

from tests.support.clusters.brokers import KINDS, Brokers
from tests.support.clusters.kafka import Out, create_topic, end_offsets, produce

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_has_its_features(brokers: Brokers, kind: str) -> None:
    (node,) = brokers(kind)
    client = KafkaAdminClient(bootstrap_servers=node.bootstrap)
    features = client.describe_features()
    client.close()
    finalized = {
        name: levels["finalized"][1] for name, levels in features.items() if "finalized" in levels
    }
    assert ("metadata.version" in finalized) is not KINDS[kind].zookeeper
    assert ("group.version" in finalized) is KINDS[kind].consumer_protocol
    assert finalized.get("transaction.version", 0) == KINDS[kind].features.get(
        "transaction.version", 0
    )


def test_one_of_two_brokers_stops_and_comes_back(brokers: Brokers) -> None:
    two = brokers.two
    topic = create_topic(two, replicas=[[1, 2], [2, 1]], config={"min.insync.replicas": "2"})
    records = [Out(b"a", partition=0), Out(b"b", partition=1)]
    assert produce(two, topic, records) == [0, 0]
    two.stop_second()
    with pytest.raises(AssertionError, match="TIMED_OUT"):
        produce(two, topic, records, message_timeout_ms=500)
    two.start()
    produce(two, topic, records)
    assert min(end_offsets(two, topic).values()) >= 2
