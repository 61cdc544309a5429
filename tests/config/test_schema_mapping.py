"""The topics whose schema ids are rewritten."""

from __future__ import annotations

import pickle

import pytest

from k2ktui.engine.schema_ids import SchemaPart
from k2ktui.engine.schema_subjects import TopicRule
from tests.config.files import Files

KEY, VALUE = SchemaPart.KEY, SchemaPart.VALUE
RULES = """\
schemaMapping:
  topics:
    - {pattern: "pay.*", key: disabled}
    - {pattern: "pay-eu", value: disabled}
    - {pattern: "raw", key: disabled, value: disabled}
"""


@pytest.mark.parametrize(
    ("topic", "parts"),
    [("pay-eu", {VALUE}), ("pay", {VALUE}), ("raw", set()), ("other", {KEY, VALUE})],
)
def test_the_first_rule_that_matches_a_topic_applies(
    files: Files, topic: str, parts: set[SchemaPart]
) -> None:
    topics = files.over_minimal(RULES).config.schema_topics
    assert topics.parts(topic) == parts
    assert pickle.loads(pickle.dumps(topics)).rule(topic) == TopicRule(
        topic, frozenset(parts), exact=False
    )


def test_topics_that_are_not_copied_have_no_rule(files: Files) -> None:
    sink = "sink: {topic: {prefix: dr.}}"
    chosen = f"replication: [{{source: {{topic: [pay]}}}}, {{{sink}}}]"
    topics = files.over_minimal(chosen).config.schema_topics
    assert topics.rule("pay") == TopicRule("dr.pay")
    assert topics.rule("other") is None and topics.rule("__consumer_offsets") is None
