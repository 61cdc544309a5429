"""A topic that is not there is distinguished from one of which nothing is known."""

from __future__ import annotations

import pytest

from k2ktui.config.clusters import ClusterConfig, KafkaClients
from k2ktui.errors import K2kError
from k2ktui.kafka.clients import Cluster
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import create_topic, unique_name


def test_only_what_the_cluster_says_is_missing_is_missing(target: KafkaNode) -> None:
    common = {"bootstrap.servers": target.bootstrap}
    cluster = Cluster(ClusterConfig(kafka=KafkaClients(common=common)), "target")
    topic = create_topic(target, partitions=3)
    description = cluster.find(topic)
    assert description is not None
    assert (description.name, description.partitions) == (topic, 3)
    assert cluster.find(unique_name("none")) is None
    with pytest.raises(K2kError, match="on the target cluster"):
        cluster.find("no topic can be called this")
