from __future__ import annotations

import pytest

from k2ktui.engine.java_patterns import NameSelection, compile_pattern
from k2ktui.engine.topics import TopicMapping
from tests.unit.config.files import Files


@pytest.mark.parametrize(
    ("pattern", "name", "taken"),
    [
        ("orders", "orders", True),
        ("orders", "orders-1", False),
        ("orders-.*", "my-orders-1", False),
        ("a|ab", "ab", True),
        ("^my-app-.*", "my-app-1", True),
        (r"\Qa.b\E.*", "a.b1", True),
        (r"\Qa.b\E.*", "axb1", False),
        ("(?<first>a)b", "ab", True),
        ("(?!secret).*", "secret-1", False),
    ],
)
def test_a_pattern_is_javas_and_matches_whole_names(pattern: str, name: str, taken: bool) -> None:
    assert NameSelection(pattern).matches(name) is taken


@pytest.mark.parametrize("pattern", ["[a-z&&[^b]]", r"\p{Alpha}+", "*", "("])
def test_what_python_cannot_match_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="regular expression"):
        compile_pattern(pattern)


def test_a_list_is_never_a_pattern() -> None:
    chosen = NameSelection(names=("a.c", "b"))
    assert chosen.matches("a.c")
    assert not chosen.matches("abc")


def test_a_pattern_takes_no_internal_topic(files: Files) -> None:
    topics = files.over_minimal("coordination: {commit: {topic: mine}}").config.topics
    ours = ["mine", "__k2k_assignment", "__k2k_metrics", "__k2k_offset_mappings"]
    for name in [*ours, "__k2k_state", "__consumer_offsets", "__transaction_state"]:
        assert not topics.matches(name)
    # Not this pipeline's, but another one's.
    assert not topics.matches("__k2k_consumer-offsets")
    assert topics.left_out("__k2k_consumer-offsets") == "k2ktui"
    assert topics.matches("__other")


def test_a_list_takes_what_it_names(files: Files) -> None:
    topics = files.over_minimal("replication: [source: {topic: [__k2k_metrics]}]").config.topics
    assert topics.matches("__k2k_metrics")


@pytest.mark.parametrize(
    ("yaml", "topic", "target"),
    [
        ("source", "t", "t"),
        ("{prefix: dr.}", "t", "dr.t"),
        ("{prefix: a-, suffix: -b}", "t", "a-t-b"),
        ("{static: all}", "t", "all"),
        ("{staticMapping: {'a.*': x, 'ab': y}}", "ab", "x"),
        ("{staticMapping: [{'b': x}, {'ab': y}]}", "ab", "y"),
        ("{staticMapping: {'a': x}}", "ab", None),
    ],
)
def test_topic_mappings(files: Files, yaml: str, topic: str, target: str | None) -> None:
    loaded = files.over_minimal(f"replication: [sink: {{topic: {yaml}}}]")
    assert loaded.config.topic_mapping.target_for(topic) == target


def test_topic_mapping_defaults_to_source() -> None:
    assert TopicMapping().target_for("t") == "t"


@pytest.mark.parametrize(
    ("topic", "program"),
    [
        ("_schemas", "a schema registry"),
        ("connect-configs", "Kafka Connect"),
        ("my-connect-cluster-offsets", "Kafka Connect"),
        ("_connect_status", "Kafka Connect"),
        ("mm2-configs.west.internal", "MirrorMaker 2"),
        ("mm2-offset-syncs.west.internal", "MirrorMaker 2"),
        ("west.checkpoints.internal", "MirrorMaker 2"),
        ("mirrormaker2-cluster-status", "MirrorMaker 2"),
        ("__CruiseControlMetrics", "Cruise Control"),
        ("strimzi.cruisecontrol.modeltrainingsamples", "Cruise Control"),
        ("__strimzi_canary", "a monitor of the cluster"),
        ("__amazon_msk_canary", "a monitor of the cluster"),
        ("_confluent-metrics", "the cluster's platform"),
    ],
)
def test_a_pattern_leaves_out_topics_of_other_programs(
    topic: str, program: str, files: Files
) -> None:
    everything = files.over_minimal("replication: [source: {topic: '.*'}]").config.topics
    assert not everything.matches(topic) and everything.left_out(topic) == program
    # What was copied before goes on, and what is listed by name is meant.
    assert everything.matches(topic, {topic})
    assert files.over_minimal(f"replication: [source: {{topic: [{topic}]}}]").config.topics.matches(
        topic
    )


@pytest.mark.parametrize(
    "topic",
    [
        *("orders.internal", "orders-changelog", "heartbeats", "west.heartbeats", "canary"),
        *("connection-status", "disconnect-reasons", "schemas", "_orders", "connect-requests"),
    ],
)
def test_users_topics_are_copied_whatever_they_are_called(topic: str, files: Files) -> None:
    everything = files.over_minimal("replication: [source: {topic: '.*'}]").config.topics
    assert everything.matches(topic) and not everything.left_out(topic)


def test_the_list_of_program_topics_can_be_switched_off(files: Files) -> None:
    text = "{replication: [source: {topic: '.*'}], features: {excludeProgramTopics: disabled}}"
    everything = files.over_minimal(text).config.topics
    assert everything.matches("_schemas") and not everything.left_out("_schemas")
    assert not everything.matches("__consumer_offsets")
