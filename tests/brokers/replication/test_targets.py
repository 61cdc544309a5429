"""Target topics: made like their source, grown with it, never shrunk; refused one by one."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest

from k2ktui.config.model import PipelineConfig
from k2ktui.errors import ConfigError, K2kError
from k2ktui.kafka.admin.topics import TopicSpec, require_topic_settings
from k2ktui.kafka.clients import Cluster, TopicDescription
from k2ktui.replication.topics.target_settings import FUTURE_LIMIT, NO_LIMIT
from k2ktui.replication.topics.targets import (
    TargetPlan,
    TargetTopic,
    create_reduced,
    ensure_targets,
    with_reduced,
)
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.brokers import Brokers
from tests.support.clusters.kafka import (
    await_leaders,
    create_topic,
    eventually,
    grow_topic,
    unique_name,
)


class Pair:
    """Both clusters and a pipeline over them."""

    def __init__(self, source: KafkaNode, target: KafkaNode) -> None:
        self.nodes = (source, target)

    def config(self, **sections: Any) -> PipelineConfig:
        sides = {
            side: {"kafka": {"common": {"bootstrap.servers": node.bootstrap}}}
            for side, node in zip(("source", "target"), self.nodes, strict=True)
        }
        sections.setdefault("replication", sink())
        exclusions = sections.pop("exclusions", ())
        sides["target"]["kafka"]["topicPropsExclusionList"] = exclusions
        return PipelineConfig.model_validate({"name": "p", **sides, **sections})

    def ensure(
        self, config: PipelineConfig, *names: str, replicated: Collection[str] = ()
    ) -> tuple[dict[str, TargetTopic], dict[str, K2kError]]:
        targets, refused = self.ensure_all(config, *names, replicated=replicated)
        return {name: target for name, (target,) in targets.items()}, refused

    def ensure_all(
        self, config: PipelineConfig, *names: str, replicated: Collection[str] = ()
    ) -> tuple[dict[str, tuple[TargetTopic, ...]], dict[str, K2kError]]:
        clusters = (Cluster(config.source, "source"), Cluster(config.target, "target"))
        return ensure_targets(config, *clusters, self.describe(*names), replicated)

    def describe(self, *names: str) -> list[TopicDescription]:
        described = Cluster(self.config().source, "source").describe(names)
        return [topic for topic in described.values() if isinstance(topic, TopicDescription)]

    def partitions(self, name: str) -> int:
        """Number of partitions on the target, 0 if it does not exist."""
        described = Cluster(self.config().target, "target").describe([name])[name]
        return described.partitions if isinstance(described, TopicDescription) else 0

    def settings(self, name: str) -> dict[str, str]:
        settings_read = require_topic_settings(Cluster(self.config().target, "target"), [name])[
            name
        ]
        return {key: entry.value for key, entry in settings_read.items() if not entry.is_default}

    def grow_source(self, name: str, count: int) -> None:
        grow_topic(self.nodes[0], name, count)
        eventually(lambda: self.describe(name)[0].partitions == count, "the source has grown")


def sink(topic: Any = "source", partition: str = "source") -> dict[str, Any]:
    return {"source": {"topic": ".*"}, "sink": {"topic": topic, "partition": partition}}


@pytest.fixture
def pair(source: KafkaNode, target: KafkaNode) -> Pair:
    return Pair(source, target)


def test_made_like_the_source(pair: Pair) -> None:
    own = {
        "cleanup.policy": "compact",
        "retention.ms": "3600000",
        "max.message.bytes": "2000000",
        "min.insync.replicas": "1",
        "message.timestamp.type": "LogAppendTime",
        "unclean.leader.election.enable": "true",
        "message.timestamp.before.max.ms": "86400000",
        "segment.bytes": "1048576",
    }
    topic = create_topic(pair.nodes[0], partitions=5, config=own)

    targets, refused = pair.ensure(pair.config(exclusions=("segment.bytes",)), topic)

    assert refused == {}
    made = targets[topic]
    assert (made.name, made.partitions, made.timestamp_type) == (topic, 5, "CreateTime")
    assert made.sizes == (2_000_000, "producer")
    assert len(made.topic_id) == 32
    assert made.notes == () and made.short is None
    kept = ("cleanup.policy", "retention.ms", "max.message.bytes")
    assert pair.settings(topic) == {key: own[key] for key in kept}


@pytest.mark.parametrize(
    ("own", "excluded", "made"),
    [
        ("604800000", (), "604800000"),
        ("60000", (), None),  # a copy needs no lower limit
        ("604800000", (FUTURE_LIMIT,), None),
        (None, (), None),
    ],
)
def test_timestamps_in_the_future_that_the_source_takes(
    pair: Pair, own: str | None, excluded: tuple[str, ...], made: str | None
) -> None:
    topic = create_topic(pair.nodes[0], config={FUTURE_LIMIT: own} if own else {})
    targets, refused = pair.ensure(pair.config(exclusions=excluded), topic)
    assert refused == {} and targets[topic].notes == ()
    assert pair.settings(topic).get(FUTURE_LIMIT) == made


def test_a_source_before_kafka_4_has_no_limit(pair: Pair, brokers: Brokers) -> None:
    (old,) = brokers("3.9")
    topic = create_topic(old)
    from_old = Pair(old, pair.nodes[1])
    assert from_old.ensure(from_old.config(), topic)[1] == {}
    assert from_old.settings(topic) == {FUTURE_LIMIT: str(NO_LIMIT)}
    limited = create_topic(old, config={"message.timestamp.difference.max.ms": "7200000"})
    from_old.ensure(from_old.config(), limited)
    assert from_old.settings(limited) == {FUTURE_LIMIT: "7200000"}
    back = Pair(pair.nodes[1], old)
    wide = create_topic(pair.nodes[1], config={FUTURE_LIMIT: "604800000"})
    back.ensure(back.config(), wide)
    assert back.settings(wide) == {}, "its own limit is none"


def test_a_limit_that_the_target_refuses_is_left_out(pair: Pair) -> None:
    name, config = unique_name("refused"), pair.config()
    target = Cluster(config.target, "target")
    spec = TopicSpec(name, 1, 1, {FUTURE_LIMIT: "-1", "retention.ms": "3600000"})
    for validate_only in (True, False):
        failed, reduced = create_reduced(config, target, [spec], validate_only=validate_only)
        assert failed == {name: None}
        (done,) = with_reduced([TargetPlan(name, (), create=spec)], reduced)
        assert len(done.notes) == 1 and f"without {FUTURE_LIMIT}" in done.notes[0]
    await_leaders(pair.nodes[1], name, 1)
    assert pair.settings(name) == {"retention.ms": "3600000"}
    chosen = {"replication": {"common": {"config": {FUTURE_LIMIT: "-1"}}}}
    wanted = replace(spec, name=f"{name}-2")
    failed, reduced = create_reduced(pair.config(topicCreation=chosen), target, [wanted])
    assert failed[wanted.name] is not None and not reduced, "the file asks for it"


def test_the_file_overrides_the_source(pair: Pair) -> None:
    topic = create_topic(pair.nodes[0], partitions=2, config={"retention.ms": "3600000"})
    name = f"copy.{topic}"
    creation = {
        "common": {"config": {"retention.ms": 1000, "min.insync.replicas": 1}},
        "rules": [{"pattern": r"copy\..*", "properties": {"partitions": 3}}],
    }
    config = pair.config(
        replication=sink({"prefix": "copy."}), topicCreation={"replication": creation}
    )

    targets, _ = pair.ensure(config, topic)

    assert (targets[topic].name, targets[topic].partitions) == (name, 3)
    assert pair.settings(name) == {"retention.ms": "1000", "min.insync.replicas": "1"}


def test_a_second_look_changes_nothing(pair: Pair) -> None:
    topic = create_topic(pair.nodes[0], partitions=2)
    config = pair.config()
    assert pair.ensure(config, topic) == pair.ensure(config, topic, replicated=[topic])


def test_grown_with_its_source_and_never_shrunk(pair: Pair) -> None:
    topic = create_topic(pair.nodes[0], partitions=2)
    config = pair.config()
    pair.ensure(config, topic)
    pair.grow_source(topic, 4)

    targets, refused = pair.ensure(config, topic, replicated=[topic])
    assert (targets[topic].partitions, refused) == (4, {})
    assert pair.partitions(topic) == 4

    wide = create_topic(pair.nodes[0], partitions=1)
    create_topic(pair.nodes[1], wide, partitions=3)
    targets, _ = pair.ensure(config, wide, replicated=[wide])
    assert targets[wide].partitions == pair.partitions(wide) == 3


def test_a_narrow_target_is_refused_before_anything_is_written(pair: Pair) -> None:
    narrow = create_topic(pair.nodes[0], partitions=3)
    create_topic(pair.nodes[1], narrow, partitions=2)
    other = create_topic(pair.nodes[0])

    targets, refused = pair.ensure(pair.config(), narrow, other)

    assert set(targets) == {other} and set(refused) == {narrow}
    assert "has 3 partitions and its target" in refused[narrow].message
    assert f"--alter --topic {narrow} --partitions 3" in refused[narrow].hint
    assert pair.partitions(narrow) == 2


def test_by_key_a_narrow_target_does(pair: Pair) -> None:
    topic = create_topic(pair.nodes[0], partitions=3)
    create_topic(pair.nodes[1], topic, partitions=2)

    config = pair.config(replication=sink(partition="producer"))
    targets, refused = pair.ensure(config, topic, replicated=[topic])

    assert (targets[topic].partitions, refused) == (2, {})
    assert pair.partitions(topic) == 2, "growing would move keys to other partitions"


def test_without_leave_to_grow_only_the_new_partitions_stop(pair: Pair) -> None:
    topic = create_topic(pair.nodes[0], partitions=3)
    create_topic(pair.nodes[1], topic, partitions=2)
    config = pair.config(features={"autoCreateTopics": "disabled"})

    targets, refused = pair.ensure(config, topic, replicated=[topic])

    assert refused == {}
    assert targets[topic].partitions == pair.partitions(topic) == 2
    short = targets[topic].short
    assert short is not None and "partitions from 2 on" in short.unchanged


def test_without_leave_to_create(pair: Pair) -> None:
    topic = create_topic(pair.nodes[0], partitions=3, config={"retention.ms": "3600000"})

    targets, refused = pair.ensure(pair.config(features={"autoCreateTopics": False}), topic)

    assert targets == {} and pair.partitions(topic) == 0
    assert "autoCreateTopics" in refused[topic].message
    command = f"--create --topic {topic} --partitions 3 --replication-factor 1"
    assert f"{command} --config retention.ms=3600000" in refused[topic].hint


def test_a_vanished_target_is_not_made_again(pair: Pair) -> None:
    topic = create_topic(pair.nodes[0])

    targets, refused = pair.ensure(pair.config(), topic, replicated=[topic])

    assert targets == {} and pair.partitions(topic) == 0
    assert "does not exist on the target any more" in refused[topic].message


def test_fewer_partitions_configured_than_needed(pair: Pair) -> None:
    topic = create_topic(pair.nodes[0], partitions=3)
    creation = {"replication": {"common": {"partitions": 2}}}

    _, refused = pair.ensure(pair.config(topicCreation=creation), topic)
    assert "gives its target" in refused[topic].message
    assert pair.partitions(topic) == 0

    by_key = pair.config(topicCreation=creation, replication=sink(partition="producer"))
    targets, refused = pair.ensure(by_key, topic)
    assert (targets[topic].partitions, refused) == (2, {})


def test_more_copies_than_the_target_has_brokers(pair: Pair) -> None:
    topic = create_topic(pair.nodes[0])
    config = pair.config()
    described = [replace(pair.describe(topic)[0], replication=3)]
    clusters = (Cluster(config.source, "source"), Cluster(config.target, "target"))

    targets, refused = ensure_targets(config, *clusters, described, ())

    assert refused == {}
    (target,) = targets[topic]
    assert target.notes[0].startswith("the source keeps 3 copies and the target has 1 broker")

    other = create_topic(pair.nodes[0])
    three = {"replication": {"common": {"replication": 3}}}
    _, refused = pair.ensure(pair.config(topicCreation=three), other)
    assert "number of brokers" in refused[other].hint


def test_a_setting_that_the_target_refuses(pair: Pair) -> None:
    bad, good = create_topic(pair.nodes[0]), create_topic(pair.nodes[0])
    rule = {"pattern": bad, "properties": {"config": {"retention.ms": "soon"}}}
    config = pair.config(topicCreation={"replication": {"rules": [rule]}})

    targets, refused = pair.ensure(config, bad, good)

    assert set(targets) == {good}
    assert "topicPropsExclusionList" in refused[bad].hint


def test_several_sources_on_one_target(pair: Pair) -> None:
    sizes = {create_topic(pair.nodes[0], partitions=n): n for n in (1, 4)}
    settings = {"retention.ms": "3600000", "cleanup.policy": "compact"}
    odd = create_topic(pair.nodes[0], partitions=2, config=settings)
    name = unique_name("all")

    targets, refused = pair.ensure(pair.config(replication=sink({"static": name})), *sizes, odd)

    assert refused == {}
    assert {(t.name, t.partitions) for t in targets.values()} == {(name, 4)}
    assert pair.settings(name) == {}
    assert "differ in cleanup.policy, retention.ms" in targets[odd].notes[0]


def test_each_topic_that_an_expression_may_name(pair: Pair) -> None:
    """All are created and described in the declared order; a narrow one refuses its sources."""
    one, other = create_topic(pair.nodes[0], partitions=2), create_topic(pair.nodes[0])
    names = [f"z.{one}", f"a.{one}"]
    config = pair.config(replication=sink({"expression": "topic", "topics": names}))

    targets, refused = pair.ensure_all(config, one, other)

    assert refused == {} and targets[one] == targets[other]
    assert [(target.name, target.partitions) for target in targets[one]] == [(n, 2) for n in names]

    more = [*names, f"new.{one}"]
    config = pair.config(replication=sink({"expression": "topic", "topics": more}))
    _, refused = pair.ensure_all(config, one, other, replicated={one, other})
    assert refused.keys() == {one, other} and pair.partitions(more[-1]) == 0
    assert "If the topic is new in replication.sink.topic, create it: " in refused[one].hint

    pair.grow_source(other, 3)
    config = pair.config(replication=sink({"expression": "topic", "topics": names}))
    targets, refused = pair.ensure_all(config, one, other)
    assert refused.keys() == {other} and targets.keys() == {one}


def test_no_topic_is_created_for_a_source_that_another_target_refuses(pair: Pair) -> None:
    topic, narrow = create_topic(pair.nodes[0], partitions=2), create_topic(pair.nodes[1])
    declared = [f"new.{topic}", narrow, f"last.{topic}"]
    config = pair.config(replication=sink({"expression": "topic", "topics": declared}))
    targets, refused = pair.ensure_all(config, topic)
    assert not targets and refused.keys() == {topic}
    assert [pair.partitions(name) for name in declared] == [0, 1, 0]


def test_one_of_several_sources_does_not_fit(pair: Pair) -> None:
    small, big = create_topic(pair.nodes[0]), create_topic(pair.nodes[0], partitions=3)
    name = create_topic(pair.nodes[1], partitions=2)

    config = pair.config(replication=sink({"static": name}))
    targets, refused = pair.ensure(config, small, big)

    assert set(targets) == {small} and set(refused) == {big}


@pytest.mark.parametrize(
    ("mapping", "why"),
    [
        ({"static": "__consumer_offsets"}, "is an internal topic of Kafka"),
        ({"static": "__k2k_offset_mappings"}, "is a control topic"),
        ({"staticMapping": {"other": "x"}}, "no pattern of replication.sink.topic.staticMapping"),
        ({"prefix": "no spaces "}, "not a valid topic name"),
        ({"prefix": "x" * 250}, "not a valid topic name"),
        ({"prefix": "\x1b[2J"}, r"\x1b[2J"),
    ],
)
def test_targets_that_are_never_written_to(pair: Pair, mapping: Any, why: str) -> None:
    topic = create_topic(pair.nodes[0])

    targets, refused = pair.ensure(pair.config(replication=sink(mapping)), topic)

    assert targets == {}
    assert why in refused[topic].message
    assert "\x1b" not in str(refused[topic])


def test_internal_topics_are_never_copied(pair: Pair) -> None:
    config = pair.config()
    clusters = (Cluster(config.source, "source"), Cluster(config.target, "target"))
    names = ["__consumer_offsets", "__share_group_state", "__k2k_metrics"]
    topics = [TopicDescription(name, "", 1, 1) for name in names]

    targets, refused = ensure_targets(config, *clusters, topics, ())

    assert targets == {} and set(refused) == set(names)


def test_registries_that_cannot_be_used_are_refused_before_anything(pair: Pair) -> None:
    topic = create_topic(pair.nodes[0])

    with pytest.raises(ConfigError, match=r"source.registry.config.*schema.registry.url"):
        pair.ensure(pair.config(features={"schemaMapping": "enabled"}), topic)

    assert pair.partitions(topic) == 0
