"""Expressions in ``replication.sink``: what is read, what is refused and where."""

from __future__ import annotations

import pytest

from k2ktui.config.reverse import reverse_file
from k2ktui.config.show import to_yaml
from k2ktui.engine.transforms.model import Routing, Transform
from k2ktui.errors import ConfigError, K2kError, Refused
from k2ktui.replication.topics.naming import check_supported, dead_letter_name, target_names
from tests.unit.config.files import MINIMAL, Files

TOPIC = "{expression: \"IF(key IS NULL, 'a', 'b')\", topics: [a, b]}"


def with_sink(topic: str, partition: str = "source", transform: str = "") -> str:
    start = 'replication:\n  - source: {topic: ".*"}\n'
    rules = f"  - transform: [{transform}]\n" if transform else ""
    return f"{start}{rules}  - sink: {{topic: {topic}, partition: {partition}}}\n"


def test_expressions_are_read_and_shown(files: Files) -> None:
    rule = '{topics: pay, filter: "key IS NOT NULL", onError: skip}'
    loaded = files.over_minimal(with_sink(TOPIC, '{expression: " offset % 3 "}', rule))
    replication = loaded.config.replication
    routing = Routing("IF(key IS NULL, 'a', 'b')", ("a", "b"), "offset % 3")
    assert replication.sink.routing == routing
    assert replication.sink.scatters and not replication.sink.keeps_partitions
    filtered = Transform(filter="key IS NOT NULL", routing=routing, on_error="skip")
    assert replication.transform_for("pay") == filtered
    assert replication.transform_for("other") == Transform(routing=routing)
    assert replication.transforms() == [
        ("replication.transform[0]", filtered),
        ("replication.sink", Transform(routing=routing)),
    ]
    assert target_names(loaded.config, "pay") == ("a", "b")
    assert files.load(to_yaml(loaded, with_sources=True)).config.replication == replication


@pytest.mark.parametrize(
    ("source", "rules", "bytes_too"),
    [
        ('".*"', "{filter: 'offset > 1'}", False),
        ("pay|order", "{topics: pay|order, filter: 'offset > 1'}", False),
        ("[pay, order]", "{topics: pay}, {topics: 'o.*'}", False),
        ("[pay, order]", "{topics: pay}", True),
        ("pay|order", "{topics: pay}", True),
        ('".*"', "{topics: pay}", True),
    ],
)
def test_routes_without_a_rule_are_planned_only_where_a_topic_may_lack_one(
    files: Files, source: str, rules: str, bytes_too: bool
) -> None:
    """An expression over decoded fields would be refused over bytes."""
    text = with_sink(TOPIC, transform=rules).replace('{topic: ".*"}', f"{{topic: {source}}}", 1)
    names = [name for name, _ in files.over_minimal(text).config.replication.transforms()]
    assert ("replication.sink" in names) == bytes_too
    assert "replication.transform[0]" in names


def test_on_error_of_a_rule_without_steps_is_for_routes(files: Files) -> None:
    config = files.over_minimal(with_sink(TOPIC, transform="{topics: pay, onError: skip}")).config
    for topic, on_error in (("pay", "skip"), ("other", "fail")):
        transform = config.replication.transform_for(topic)
        assert transform is not None and transform.on_error == on_error and not transform.words


def test_records_that_fail_have_one_dead_letter_topic(files: Files) -> None:
    config = files.over_minimal(with_sink(TOPIC, transform="{onError: deadLetter}")).config
    check_supported(config)
    assert dead_letter_name(config, "pay") == "a.dead-letter"


def test_without_expressions_nothing_is_routed(files: Files) -> None:
    sink = files.over_minimal(with_sink("{suffix: .copy}")).config.replication.sink
    assert sink.routing is None and not sink.scatters
    assert files.over_minimal(with_sink("source", "producer")).config.replication.sink.scatters


@pytest.mark.parametrize(
    ("topic", "partition", "error"),
    [
        ("{expression: key}", "source", "with every topic it may name"),
        ("{expression: key, topics: a}", "source", "with every topic it may name"),
        ("{expression: key, topics: []}", "source", "with each topic once"),
        ("{expression: key, topics: [a, a]}", "source", "with each topic once"),
        ('{expression: " ", topics: [a]}', "source", "a Spark SQL expression"),
        ("{topics: [a]}", "source", "or {expression: SQL, topics: [topic, …]}"),
        ("{}", "source", "source, {prefix: …, suffix: …}, {static: topic}"),
        ("{prefix: x, static: y}", "source", "source, {prefix: …, suffix: …}, {static: topic}"),
        ("{static: x, bla: y}", "source", "source, {prefix: …, suffix: …}, {static: topic}"),
        ("{expression: k, topics: [a], prefix: x}", "source", "{expression: SQL, topics: [topic"),
        ("source", "{expression: }", "source, producer or {expression: SQL}"),
        ("source", "{by: key}", "source, producer or {expression: SQL}"),
    ],
)
def test_what_is_not_right_is_refused(files: Files, topic: str, partition: str, error: str) -> None:
    (problem,) = files.errors(MINIMAL, with_sink(topic, partition))
    assert error in problem and "replication[1].sink." in problem


def test_topics_that_must_not_be_written_to_are_refused(files: Files) -> None:
    config = files.over_minimal(
        with_sink("{expression: key, topics: [a, __consumer_offsets]}")
    ).config
    with pytest.raises(Refused, match="its target __consumer_offsets is an internal topic"):
        target_names(config, "pay")


def test_several_records_of_one_are_refused(files: Files) -> None:
    rule = "{explode: {value: split(value)}}"
    config = files.over_minimal(with_sink(TOPIC, transform=rule)).config
    with pytest.raises(ConfigError, match="the two cannot be combined"):
        check_supported(config)


REGISTRY = "{registry: {config: {schema.registry.url: 'http://r'}}}"


@pytest.mark.parametrize(
    ("topic", "encode", "is_refused"),
    [
        (TOPIC, "", True),
        (TOPIC, "value: {avro: {subject: own}}", False),
        (TOPIC, "value: json", False),
        ("{expression: key, topics: [a]}", "", False),
    ],
)
def test_a_subject_follows_one_topic(
    files: Files, topic: str, encode: str, is_refused: bool
) -> None:
    rule = f"{{topics: pay, decode: {{value: avro}}, encode: {{{encode}}}}}"
    registries = f"source: {REGISTRY}\ntarget: {REGISTRY}\n"
    config = files.over_minimal(registries, with_sink(topic, transform=rule)).config
    if not is_refused:
        check_supported(config)
        return
    with pytest.raises(ConfigError) as refused:
        check_supported(config)
    assert refused.value.message.startswith("replication.transform[0]: the subject of the value ")
    assert "encode.value" in refused.value.hint


def test_there_is_no_way_back(files: Files) -> None:
    text = f"{with_sink(TOPIC)}features: {{bidirectionalReplication: enabled}}\n"
    with pytest.raises(ConfigError, match="the way back cannot tell which topic"):
        check_supported(files.over_minimal(text).config)
    with pytest.raises(K2kError, match="an expression chooses where records go"):
        reverse_file(files.write({"a.yaml": MINIMAL, "b.yaml": with_sink(TOPIC)}))
