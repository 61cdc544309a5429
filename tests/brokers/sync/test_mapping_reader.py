"""Reading a mapping topic on either cluster: what cannot be described, and with which right."""

from __future__ import annotations

import pytest

from k2ktui.config.clusters import ClusterConfig, KafkaClients
from k2ktui.errors import Refused
from k2ktui.kafka.clients import Cluster
from k2ktui.runtime.node import KafkaNode
from k2ktui.sync.mapping.reader import TopicReader
from tests.support.clusters.kafka import create_topic, unique_name
from tests.support.clusters.secure import SecureNode


@pytest.mark.parametrize("label", ["source", "target"])
def test_a_missing_right_names_the_cluster_that_is_read(secure: SecureNode, label: str) -> None:
    """The opposite pipeline's mapping topic is on our source."""
    topic = create_topic(secure.node)
    config = ClusterConfig(kafka=KafkaClients(common=secure.java("stranger")))
    with pytest.raises(Refused) as failure:
        TopicReader(Cluster(config, label), topic).describe()
    assert f"{topic} cannot be described on the {label} cluster" in failure.value.message
    assert failure.value.hint == f"Grant the {label} principal Describe and Read on it."


def test_a_topic_that_does_not_exist(source: KafkaNode) -> None:
    config = ClusterConfig(kafka=KafkaClients(common={"bootstrap.servers": source.bootstrap}))
    assert TopicReader(Cluster(config, "source"), unique_name()).describe() is None
