"""The topics whose schema ids are rewritten."""

from __future__ import annotations

import pickle

import pytest

from k2ktui.engine.schemas.ids import SchemaPart
from k2ktui.engine.schemas.subjects import TopicRule
from tests.unit.config.files import Files

KEY, VALUE = SchemaPart.KEY, SchemaPart.VALUE
RULES = """\
schemaMapping:
  topics:
    - {pattern: "pay.*", key: disabled}
    - {pattern: "pay-eu", value: disabled}
    - {pattern: "raw", key: disabled, value: disabled}
"""
REGISTRIES = """\
features: {schemaMapping: enabled}
source: {registry: {config: {schema.registry.url: "http://s"}}}
target: {registry: {config: {schema.registry.url: "http://t"}}}
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


_KEY_IDS = ("__key_schema_id", "apicurio.key.globalId", "apicurio.key.contentId")
_VALUE_IDS = ("__value_schema_id", "apicurio.value.globalId", "apicurio.value.contentId")
_LIST = "replication: [{source: {topic: %s}}, {headers: [%s]}, {sink: {topic: source}}]"
_NO_KEYS = "schemaMapping: {topics: [{pattern: '.*', key: disabled}]}"
_NO_IDS = "schemaMapping: {topics: [{pattern: 'a.*', key: disabled, value: disabled}]}"


@pytest.mark.parametrize(
    ("texts", "key", "lost"),
    [
        (["features: {headerReplication: disabled}"], "features.headerReplication", "all"),
        (["features: {headerReplication: disabled}", _NO_KEYS], "features.headerReplication", "v"),
        ([_LIST % ("'.*'", "{keep: [a]}")], "keep", "all"),
        ([_LIST % ("'.*'", "{keep: [a]}"), _NO_KEYS], "keep", "v"),
        ([_LIST % ("'.*'", "{drop: '(__|apicurio).*'}")], "drop", "all"),
        ([_LIST % ("'.*'", "{drop: '__.*'}")], "drop", "__key_schema_id, __value_schema_id"),
        ([_LIST % ("'.*'", "{rename: {'__value(.*)': 'x$1'}}")], "rename", "__value_schema_id"),
        ([_LIST % ("[a1, b]", "{topics: 'a.*', keep: [a]}")], "keep", "all"),
        # Headers that stay, and topics without ids.
        ([_LIST % ("'.*'", "{keep: '.*schema_id|apicurio.*', drop: [a]}")], "", ""),
        ([_LIST % ("'.*'", "{add: {a: b}}")], "", ""),
        ([_LIST % ("[a1, b]", "{topics: 'a.*', keep: [a]}"), _NO_IDS], "", ""),
        ([_LIST % ("'.*'", "{topics: 'a.*', keep: [a]}"), _NO_IDS], "", ""),
        ([_LIST % ("[a1, b]", "{topics: 'c', keep: [a]}")], "", ""),
    ],
)
def test_keys_that_drop_headers_with_ids_are_noted(
    files: Files, texts: list[str], key: str, lost: str
) -> None:
    notes = files.over_minimal(REGISTRIES, *texts).notes
    if not key:
        assert notes == ()
        return
    (note,) = notes
    names = {"all": ", ".join(_KEY_IDS + _VALUE_IDS), "v": ", ".join(_VALUE_IDS)}.get(lost, lost)
    assert f"{key}: records whose schema ids are in headers ({names}) lose them" in note
    disabled = "features: {schemaMapping: disabled}"
    assert not any("lose them" in note for note in files.over_minimal(*texts, disabled).notes)
