"""Control topics that the brokers create (``auto.create.topics.enable``)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from k2ktui.config.clusters import ClusterConfig
from k2ktui.errors import Refused
from k2ktui.kafka.clients import Cluster
from k2ktui.kafka.control import ensure_state_topic
from k2ktui.replication.preflight.checks import Check, CheckOutcome
from k2ktui.replication.preflight.topics import _control
from k2ktui.runtime.node import KafkaNode
from tests.kafka.test_control import ensure, exists, pipeline
from tests.support.kafka import START_S, TIMEOUT, admin, create_topic, eventually, unique_name


@pytest.fixture(scope="module")
def creating(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaNode]:
    """A cluster whose brokers create topics, with four partitions."""
    properties = {"auto.create.topics.enable": "true", "num.partitions": "4"}
    with KafkaNode("creating", tmp_path_factory.mktemp("creating"), properties) as node:
        yield node.start(START_S)


@pytest.fixture
def names() -> dict[str, str]:
    roles = ("commit", "mapping", "metrics", "state", "assignment")
    return {role: unique_name(role) for role in roles}


def compact(node: KafkaNode, topic: str) -> None:
    """Do what the error's hint says."""
    operation = AlterConfigOpType.SET
    entry = ConfigEntry("cleanup.policy", "compact", incremental_operation=operation)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    client = admin(node)
    client.incremental_alter_configs([resource])[resource].result(20)


def test_the_brokers_create_them_and_they_are_checked(
    creating: KafkaNode, names: dict[str, str]
) -> None:
    config = pipeline(creating, names, features={})
    checks: list[Check] = list(_control(config, Cluster(config.target, "target")))
    assert [check.outcome for check in checks] == [CheckOutcome.WARN] * 3
    assert "the brokers create it" in checks[0].detail
    assert not exists(config, names["commit"]), "a check changes nothing"

    with pytest.raises(Refused, match=f"{names['commit']}.* has cleanup.policy delete") as refused:
        ensure(config)
    assert f"--entity-name {names['commit']}" in refused.value.hint
    compact(creating, names["commit"])
    eventually(lambda: exists(config, names["mapping"]), "the mapping topic was created")
    eventually(lambda: exists(config, names["assignment"]), "the assignment topic was created")
    compact(creating, names["assignment"])
    made = ensure(config)
    assert (made.commit_partitions, made.mapping_partitions) == (4, 4)


def test_settings_that_are_not_validated(creating: KafkaNode, names: dict[str, str]) -> None:
    config = pipeline(creating, names, features={"validateControlTopicSettings": "disabled"})
    made = ensure(config)
    assert set(made.created) == {names["commit"], names["mapping"], names["assignment"]}
    assert made.mapping_partitions == 4
    assert ensure_state_topic(config, Cluster(config.target, "target")) == 4


def test_brokers_that_do_not_create_topics(target: KafkaNode, names: dict[str, str]) -> None:
    config = pipeline(target, names, features={})
    with pytest.raises(Refused, match=r"features\.autoCreateControlTopics is disabled"):
        ensure(config)
    assert not exists(config, names["commit"])


def test_asking_for_the_cluster_creates_no_topic(creating: KafkaNode) -> None:
    """It is asked for with one topic, which may have been deleted since."""
    config = {"kafka": {"common": {"bootstrap.servers": creating.bootstrap}}}
    cluster = Cluster(ClusterConfig.model_validate(config), "target")
    topic = create_topic(creating, "-" + unique_name("first"))
    assert topic == min(cluster.topic_names())
    client = admin(creating)
    client.delete_topics([topic])[topic].result(TIMEOUT)
    eventually(lambda: topic not in client.list_topics(timeout=TIMEOUT).topics, "it is deleted")
    for _ in range(3):
        assert cluster.cluster_id() == creating.cluster_id
    create_topic(creating)  # after what would have been created before
    assert topic not in cluster.topic_names()
