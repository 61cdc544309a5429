"""Control topics: created when allowed, otherwise checked, with a hint in the error."""

from __future__ import annotations

from typing import Any

import pytest

from k2ktui.config.model import PipelineConfig
from k2ktui.errors import ConfigError, Refused
from k2ktui.kafka.admin.topics import TopicSpec, create_topics, grow_topics, require_topic_settings
from k2ktui.kafka.clients import Cluster
from k2ktui.kafka.control.topics import (
    ControlTopics,
    create_mapping_application_topics,
    ensure_control_topics,
    ensure_state_topic,
)
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import create_topic, eventually, unique_name
from tests.support.pipelines.modes import in_mode

NO_METRICS: dict[str, str] = {}


@pytest.fixture
def names() -> dict[str, str]:
    return {
        role: unique_name(f"__k2k_{role}")
        for role in ("commit", "mapping", "metrics", "state", "assignment")
    }


def pipeline(target: KafkaNode, names: dict[str, str], **sections: Any) -> PipelineConfig:
    """A pipeline that only its target matters of; ``sections`` are laid over."""
    there = {"kafka": {"common": {"bootstrap.servers": target.bootstrap}}}
    return PipelineConfig.model_validate(
        {
            "name": "p",
            "source": there,
            "target": there,
            "coordination": {
                "commit": {"topic": names["commit"]},
                "state": {"topic": names["state"]},
                "assignment": {"topic": names["assignment"]},
            },
            "offsetMapping": {"topic": names["mapping"]},
            "metrics": {"kafka": {"topic": names["metrics"]}},
            "features": {"autoCreateControlTopics": "enabled"},
        }
        | sections
    )


def ensure(config: PipelineConfig, env: dict[str, str] = NO_METRICS) -> ControlTopics:
    return ensure_control_topics(config, Cluster(config.target, "target"), env)


def settings(config: PipelineConfig, name: str) -> dict[str, str]:
    settings_read = require_topic_settings(Cluster(config.target, "target"), [name])[name]
    return {key: entry.value for key, entry in settings_read.items() if not entry.is_default}


def exists(config: PipelineConfig, name: str) -> bool:
    return name in Cluster(config.target, "target").topic_names()


def test_missing_topics_are_created(target: KafkaNode, names: dict[str, str]) -> None:
    config = pipeline(target, names)
    made = ensure(config)

    assert (made.commit_partitions, made.mapping_partitions, made.metrics_partitions) == (1, 6, 0)
    roles = ("commit", "mapping", "assignment", "state")
    assert set(made.created) == {names[role] for role in roles}
    assert settings(config, names["assignment"])["cleanup.policy"] == "compact"
    assert settings(config, names["commit"])["cleanup.policy"] == "compact"
    assert settings(config, names["mapping"])["retention.ms"] == "604800000"
    assert not exists(config, names["metrics"])


def test_the_state_topic_is_made_by_its_first_writer(
    target: KafkaNode, names: dict[str, str]
) -> None:
    """A run that neither shares the pipeline nor stands by copies without heartbeats."""
    names["assignment"] = names["commit"]
    config = in_mode(pipeline(target, names), "exclusive")
    cluster = Cluster(config.target, "target")
    ensure(config)
    assert not exists(config, names["state"]), "copying does not need it"

    assert [ensure_state_topic(config, cluster) for _ in range(2)] == [1, 1]
    assert settings(config, names["state"])["cleanup.policy"] == "compact"


def test_a_state_topic_that_is_missing_or_expires_is_refused(
    target: KafkaNode, names: dict[str, str]
) -> None:
    config = pipeline(target, names, features={})
    cluster = Cluster(config.target, "target")
    with pytest.raises(Refused, match="does not exist") as refused:
        ensure_state_topic(config, cluster)
    assert f"--create --topic {names['state']} --partitions 1" in refused.value.hint

    create_topic(target, names["state"], config={"cleanup.policy": "compact,delete"})
    with pytest.raises(Refused, match="journal would expire"):
        ensure_state_topic(config, cluster)


def test_present_topics_are_taken_as_they_are(target: KafkaNode, names: dict[str, str]) -> None:
    create_topic(target, names["commit"], 3, {"cleanup.policy": "compact"})
    create_topic(target, names["mapping"], 2)
    for role in ("assignment", "state"):
        create_topic(target, names[role], config={"cleanup.policy": "compact"})

    topics = ensure(pipeline(target, names, features={}))

    assert topics == ControlTopics(commit_partitions=3, mapping_partitions=2)


def test_metrics_only_with_the_kafka_exporter(target: KafkaNode, names: dict[str, str]) -> None:
    config = pipeline(
        target, names, features={"autoCreateControlTopics": True, "offsetMapping": "disabled"}
    )
    made = ensure(config, {"OTEL_METRICS_EXPORTER": "prometheus, kafka"})

    assert (made.mapping_partitions, made.metrics_partitions) == (0, 3)
    assert settings(config, names["metrics"])["retention.ms"] == "2592000000"
    assert not exists(config, names["mapping"])


def test_settings_of_the_file_are_used(target: KafkaNode, names: dict[str, str]) -> None:
    control = {
        "common": {"partitions": 3, "replication": 1, "config": {"min.insync.replicas": 1}},
        "offsetMapping": {"partitions": 2, "config": {"retention.ms": 3_600_000}},
    }
    config = pipeline(target, names, topicCreation={"control": control})
    made = ensure(config)

    assert (made.commit_partitions, made.mapping_partitions) == (3, 2)
    assert settings(config, names["mapping"]) == {
        "cleanup.policy": "delete",
        "retention.ms": "3600000",
        "min.insync.replicas": "1",
    }


def test_one_commit_partition_a_slot(target: KafkaNode, names: dict[str, str]) -> None:
    features = {"autoCreateControlTopics": True, "optimizeOffsetCommitPartition": "disabled"}
    config = pipeline(target, names, features=features, spark={"slots": 4})

    assert ensure(config).commit_partitions == 4


def test_missing_without_leave_names_both_fixes(target: KafkaNode, names: dict[str, str]) -> None:
    config = pipeline(target, names, features={})

    with pytest.raises(Refused) as refused:
        ensure(config)

    text = str(refused.value)
    assert all(names[role] in text for role in ("commit", "mapping", "assignment", "state"))
    assert "features.autoCreateControlTopics: enabled" in text
    create = f"--bootstrap-server {target.bootstrap} --create --topic {names['mapping']}"
    assert f"kafka-topics.sh {create} --partitions 6 --config cleanup.policy=delete" in text
    assert not exists(config, names["commit"])


@pytest.mark.parametrize(
    ("role", "policy", "wanted"),
    [
        ("commit", "delete", "compact"),
        ("commit", "compact,delete", "compact"),
        ("mapping", "compact", "delete"),
        ("mapping", "compact,delete", "delete"),
    ],
)
def test_wrong_policy(
    target: KafkaNode, names: dict[str, str], role: str, policy: str, wanted: str
) -> None:
    create_topic(target, names[role], config={"cleanup.policy": policy})
    config = pipeline(target, names)

    with pytest.raises(Refused) as refused:
        ensure(config)

    assert f"--entity-name {names[role]} --alter" in refused.value.hint
    assert f"cleanup.policy={wanted}" in refused.value.hint
    other = names["mapping" if role == "commit" else "commit"]
    assert not exists(config, other), "nothing may be created while another topic is wrong"

    unchecked = {"autoCreateControlTopics": True, "validateControlTopicSettings": "disabled"}
    assert ensure(pipeline(target, names, features=unchecked)).commit_partitions == 1


def test_wrong_policy_is_refused_before_creation(target: KafkaNode, names: dict[str, str]) -> None:
    control = {"common": {"config": {"cleanup.policy": "compact"}}}
    config = pipeline(target, names, topicCreation={"control": control})

    with pytest.raises(Refused, match="would get") as refused:
        ensure(config)

    assert "topicCreation.control.offsetMapping.config" in refused.value.hint
    assert not exists(config, names["mapping"])


def test_wrong_partition_count(target: KafkaNode, names: dict[str, str]) -> None:
    create_topic(target, names["mapping"], partitions=2)
    control = {"offsetMapping": {"partitions": 5}}

    with pytest.raises(Refused, match="has 2 partitions") as refused:
        ensure(pipeline(target, names, topicCreation={"control": control}))

    assert "topicCreation.control.offsetMapping.partitions: 2" in refused.value.hint


def test_other_partition_counts_are_only_noted_without_validation(
    target: KafkaNode, names: dict[str, str]
) -> None:
    create_topic(target, names["mapping"], partitions=2)
    unchecked = {"autoCreateControlTopics": True, "validateControlTopicSettings": "disabled"}
    control = {"common": {"partitions": 5}}
    made = ensure(pipeline(target, names, features=unchecked, topicCreation={"control": control}))
    (note,) = made.notes
    assert "has 2 partitions; topicCreation.control.common.partitions is 5" in note
    assert made.mapping_partitions == 2


@pytest.mark.parametrize("role", ["commit", "mapping", "assignment", "state"])
def test_settings_of_all_topics_are_for_their_creation(
    target: KafkaNode, names: dict[str, str], role: str
) -> None:
    """The files of two programs that share them differ; whichever runs first creates them."""
    policy = {} if role == "mapping" else {"cleanup.policy": "compact"}
    create_topic(target, names[role], 2, policy)
    control = {"common": {"partitions": 3}}
    config = pipeline(target, names, topicCreation={"control": control})

    made = ensure(config)

    (note,) = made.notes
    assert f"topic {names[role]} for " in note
    assert "2 partitions; topicCreation.control.common.partitions is 3: it is used as it" in note
    assert names[role] not in made.created
    assert ensure_state_topic(config, Cluster(config.target, "target")) == (
        2 if role == "state" else 3
    )


def test_the_state_topic_is_compacted_whatever_the_file_says_of_all_topics(
    target: KafkaNode, names: dict[str, str]
) -> None:
    """Lenses' mapping application has only topics that expire, and says so for all of them."""
    control = {"common": {"config": {"cleanup.policy": "delete", "retention.ms": "60000"}}}
    config = pipeline(target, names, topicCreation={"control": control})
    cluster = Cluster(config.target, "target")
    created, _ = create_mapping_application_topics(config, cluster, NO_METRICS)
    assert set(created) == {names["mapping"], names["state"]}
    assert settings(config, names["state"])["cleanup.policy"] == "compact"


@pytest.mark.parametrize("role", ["mapping", "state"])
def test_one_name_for_two_topics(target: KafkaNode, names: dict[str, str], role: str) -> None:
    names[role] = names["commit"]
    config = pipeline(target, names)

    with pytest.raises(ConfigError, match="must be different topics"):
        ensure(config)

    assert not exists(config, names["commit"])


def test_replication_that_the_cluster_cannot_give(target: KafkaNode, names: dict[str, str]) -> None:
    config = pipeline(target, names, topicCreation={"control": {"common": {"replication": 3}}})

    with pytest.raises(Refused) as refused:
        ensure(config)

    assert names["commit"] in refused.value.message
    assert "number of brokers" in refused.value.hint


def test_extended_by_another_in_between(target: KafkaNode, names: dict[str, str]) -> None:
    """Two runs that share a pipeline find at the same time that a source topic has grown."""
    create_topic(target, names["commit"], partitions=3)
    cluster = Cluster(pipeline(target, names).target, "target")

    assert grow_topics(cluster, {names["commit"]: 3}) == {names["commit"]: None}
    assert grow_topics(cluster, {names["commit"]: 2}) == {names["commit"]: None}


def test_created_by_another_in_between(target: KafkaNode, names: dict[str, str]) -> None:
    """Two pipelines that share control topics start at the same time: both may create them."""
    create_topic(target, names["commit"])
    cluster = Cluster(pipeline(target, names).target, "target")

    assert create_topics(cluster, [TopicSpec(names["commit"])]) == {names["commit"]: None}
    eventually(lambda: exists(pipeline(target, names), names["commit"]), "it is listed")


def test_more_partitions_than_a_controller_creates_at_once(target: KafkaNode) -> None:
    """It refuses requests of 10,000 records, also those that only validate."""
    there = {"kafka": {"common": {"bootstrap.servers": target.bootstrap}}}
    config = PipelineConfig.model_validate({"name": "p", "source": there, "target": there})
    cluster = Cluster(config.target, "target")
    names = [unique_name("many") for _ in range(11)]

    specs = [TopicSpec(name, 1_000) for name in names]
    errors = create_topics(cluster, specs, validate_only=True)
    assert errors == dict.fromkeys(names)

    assert create_topics(cluster, [TopicSpec(name) for name in names]) == dict.fromkeys(names)
    eventually(lambda: set(names) <= cluster.topic_names(), "they are listed")
    grown = grow_topics(cluster, dict.fromkeys(names, 1_000), validate_only=True)
    assert grown == dict.fromkeys(names)
