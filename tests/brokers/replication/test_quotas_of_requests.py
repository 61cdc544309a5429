"""Clusters with quotas on creating topics and on requests: waited for, and named."""

from __future__ import annotations

from typing import Any

import pytest

from k2ktui.config.model import PipelineConfig
from k2ktui.kafka.admin.topics import OverQuota, TopicSpec, create_topics
from k2ktui.kafka.clients import Cluster, TopicDescription, target_cluster
from k2ktui.kafka.control.topics import ensure_control_topics
from k2ktui.kafka.throttle import pause_with_progress
from k2ktui.replication.preflight.checks import CheckOutcome
from k2ktui.replication.preflight.suite import run_checks
from k2ktui.replication.topics.targets import ensure_targets
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import create_topic, eventually, unique_name
from tests.support.clusters.quotas import limited
from tests.support.pipelines.preflight import named, pipeline, plain

TOPICS = 45


def limited_pipeline(
    source: KafkaNode, target: KafkaNode, client: str, *topics: str
) -> PipelineConfig:
    side: dict[str, Any] = plain(target.bootstrap)
    side["kafka"]["common"]["client.id"] = client
    return pipeline(source, side, *topics)


def test_many_topics_are_created_although_a_quota_allows_few(
    source: KafkaNode, target: KafkaNode
) -> None:
    """The brokers do not read the connection for 80 s after that, longer than any request waits."""
    topics = [create_topic(source, partitions=4) for _ in range(TOPICS)]
    client, said = unique_name("slow"), list[str]()
    config = limited_pipeline(source, target, client, *topics)
    cluster, source_cluster = target_cluster(config), Cluster(config.source, "source")

    def give_up(text: str, _: float) -> bool:
        said.append(text)
        return True

    cluster.pause = give_up
    with limited(target, client, controller_mutation_rate=2.0):
        checks = run_checks(config)
        assert [check for check in checks if check.outcome is CheckOutcome.FAIL] == []
        tried = f"{TOPICS} of them to be created (1 of these tried"
        assert tried in named(checks, "target topics").detail
        ensure_control_topics(config, cluster)
        described = source_cluster.describe(topics).values()
        readable = [topic for topic in described if isinstance(topic, TopicDescription)]
        targets, refused = ensure_targets(config, source_cluster, cluster, readable, ())
        assert refused == {} and len(targets) == TOPICS
        assert cluster.throttled_s > 30
        # What is only read does not wait, and what the quota does not allow yet is said.
        assert len(cluster.describe(topics)) == TOPICS
        more = [TopicSpec(unique_name("more"), 1, 1)]
        for waits in (False, True):
            (outcome,) = create_topics(cluster, more, waits=waits).values()
            assert isinstance(outcome, OverQuota)
            assert "quota (controller_mutation_rate) allows no more for" in outcome.message
        (text,) = said
        assert text.startswith("creating topics on the target cluster waits ")


def test_the_quota_on_creating_topics_is_waited_for(target: KafkaNode) -> None:
    client, texts = unique_name("slow"), list[str]()
    config = limited_pipeline(target, target, client)

    def pause(text: str, seconds: float) -> bool:
        texts.append(text)
        return pause_with_progress(text, seconds)

    cluster = target_cluster(config)
    cluster.pause = pause

    def is_waited_for() -> bool:
        first, second = (TopicSpec(unique_name("t"), count, 1) for count in (85, 1))
        assert create_topics(cluster, [first]) == {first.name: None}
        texts.clear()  # the first of a repetition may wait, too
        assert create_topics(cluster, [second]) == {second.name: None}
        eventually(lambda: cluster.find(second.name), "the broker knows the topic")
        return bool(texts)

    with limited(target, client, controller_mutation_rate=5.0):
        # Where the machine stands still between the two, the quota allows the second one.
        eventually(is_waited_for, "a creation has waited")
        assert len(texts) == 1 and "for its quota (controller_mutation_rate)" in texts[0]


@pytest.mark.parametrize("side", ["source", "target"])
def test_checks_pass_under_a_quota_on_requests(
    source: KafkaNode, target: KafkaNode, side: str
) -> None:
    topic, client = create_topic(source), unique_name("slow")
    sides: dict[str, Any] = {"source": plain(source.bootstrap), "target": plain(target.bootstrap)}
    sides[side]["kafka"]["common"]["client.id"] = client
    config = pipeline(sides["source"], sides["target"], topic)
    node = {"source": source, "target": target}[side]
    with limited(node, client, request_percentage=0.1):
        checks = run_checks(config)
    passing = {CheckOutcome.PASS}
    assert [check for check in checks if check.outcome not in passing] == []
