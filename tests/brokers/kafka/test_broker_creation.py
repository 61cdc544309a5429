"""Control topics that the brokers create (``auto.create.topics.enable``)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from k2ktui.config.clusters import ClusterConfig
from k2ktui.config.model import PipelineConfig
from k2ktui.errors import Refused
from k2ktui.kafka.clients import Cluster
from k2ktui.kafka.control.topics import ensure_state_topic
from k2ktui.replication.preflight.checks import Check, CheckOutcome
from k2ktui.replication.preflight.committed import CommittedTopics
from k2ktui.replication.preflight.topics import _control
from k2ktui.runtime.node import KafkaNode
from tests.brokers.kafka.test_control import ensure, exists, pipeline, settings
from tests.support.clusters.brokers import make_node
from tests.support.clusters.kafka import (
    START_S,
    alter_topic,
    create_topic,
    delete_topic,
    eventually,
    unique_name,
)

# With ZooKeeper, an altered setting is known a while later.
OLD = "2.5"


@pytest.fixture(scope="module", params=["", pytest.param(OLD, marks=pytest.mark.slow)])
def creating(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KafkaNode]:
    """A cluster whose brokers create topics, with four partitions."""
    properties = {"auto.create.topics.enable": "true", "num.partitions": "4"}
    path = tmp_path_factory.mktemp("creating")
    kind = request.param
    made = (
        make_node(kind, "creating", path, properties)
        if kind
        else KafkaNode("creating", path, properties)
    )
    with made.start(START_S) as node:
        yield node


@pytest.fixture
def names() -> dict[str, str]:
    roles = ("commit", "mapping", "metrics", "state", "assignment")
    return {role: unique_name(role) for role in roles}


def is_compacted(config: PipelineConfig, name: str) -> bool:
    return settings(config, name).get("cleanup.policy") == "compact"


def test_the_brokers_create_them_and_they_are_corrected(
    creating: KafkaNode, names: dict[str, str]
) -> None:
    config = pipeline(creating, names, features={})
    checks: list[Check] = list(
        _control(config, Cluster(config.target, "target"), CommittedTopics())
    )
    assert [check.outcome for check in checks] == [CheckOutcome.WARN] * 4
    assert "the brokers create it" in checks[0].detail
    assert not exists(config, names["commit"]), "a check changes nothing"

    made = ensure(config)
    assert (made.commit_partitions, made.mapping_partitions) == (4, 4)
    compacted = [names[role] for role in ("commit", "assignment", "state")]
    for name in compacted:
        eventually(partial(is_compacted, config, name), f"{name} is compacted")
        (note,) = [note for note in made.notes if f"topic {name} for " in note]
        assert note.endswith("with their own settings; its cleanup.policy was set to compact")
    assert len(made.notes) == 3
    assert not is_compacted(config, names["mapping"])
    assert ensure(config).notes == (), "they are as they should be"


@pytest.mark.parametrize("role", ["commit", "assignment", "state"])
def test_a_topic_that_they_had_created_before_stays_as_it_is(
    creating: KafkaNode, names: dict[str, str], role: str
) -> None:
    """Another program may have written to it, or expect its settings."""
    config = pipeline(creating, names, features={})
    create_topic(creating, names[role])
    with pytest.raises(Refused, match=f"{names[role]}.* has cleanup.policy delete") as refused:
        ensure(config)
    assert f"--entity-name {names[role]}" in refused.value.hint
    assert "cleanup.policy=compact" in refused.value.hint
    assert not is_compacted(config, names[role])
    alter_topic(creating, names[role], cleanup_policy="compact")  # as the hint says
    ensure(config)


def test_the_state_topic_alone(creating: KafkaNode, names: dict[str, str]) -> None:
    """Commands that write a journal create it, and a run without others its heartbeats."""
    config, notes = pipeline(creating, names, features={}), list[str]()
    cluster = Cluster(config.target, "target")
    assert ensure_state_topic(config, cluster, notes.append) == 4
    eventually(lambda: is_compacted(config, names["state"]), "it is compacted")
    assert ensure_state_topic(config, cluster, notes.append) == 4
    (note,) = notes
    assert "its cleanup.policy was set to compact" in note


def test_settings_that_are_not_validated(creating: KafkaNode, names: dict[str, str]) -> None:
    config = pipeline(creating, names, features={"validateControlTopicSettings": "disabled"})
    made = ensure(config)
    assert set(made.created) == {name for role, name in names.items() if role != "metrics"}
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
    delete_topic(creating, topic)
    for _ in range(3):
        assert cluster.cluster_id() == creating.cluster_id
    create_topic(creating)  # after what would have been created before
    assert topic not in cluster.topic_names()
