"""Which topic settings differ, and what is not done about them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2ktui.config.model import NOT_COPIED, Parity, ParitySection
from k2ktui.engine.parity.model import Difference, ParityAction, ParityItem, ParityMemory
from k2ktui.engine.parity.rules import ParityKind
from k2ktui.engine.parity.topic_configs import (
    Setting,
    Settings,
    TargetLimits,
    TopicPair,
    apply_limits,
    compare_topics,
    find_drift,
)

ALL = ParitySection()
DEFAULT = Parity().topic_configs
SET, REMOVE, REPORT = ParityAction.SET, ParityAction.REMOVE, ParityAction.REPORT


def own(**values: str) -> dict[str, Setting]:
    return {key.replace("_", "."): Setting(value, is_own=True) for key, value in values.items()}


def default(**values: str) -> dict[str, Setting]:
    return {key.replace("_", "."): Setting(value, is_own=False) for key, value in values.items()}


def compare(
    source: Settings,
    target: Settings,
    wanted: dict[str, str] | None = None,
    *,
    rules: ParitySection = ALL,
    memory: ParityMemory | None = None,
    limits: TargetLimits | None = None,
) -> list[Difference]:
    pair = TopicPair("t", {"t": source}, target, wanted or {})
    rows = compare_topics([pair], rules.compares, memory or ParityMemory())
    return apply_limits(rows, limits or TargetLimits(), {"t": target})


def test_the_sources_value_is_wanted() -> None:
    (row,) = compare(own(retention_ms="2"), default(retention_ms="1"))
    assert (row.source, row.target, row.before, row.wanted) == ("2", "1", None, "2")
    assert row.action is SET and row.write.creates


def test_unless_the_file_sets_another() -> None:
    (row,) = compare(own(retention_ms="2"), own(retention_ms="2"), {"retention.ms": "9"})
    assert (row.wanted, row.action, row.why) == ("9", SET, "topicCreation sets it")
    assert compare(own(retention_ms="2"), own(retention_ms="9"), {"retention.ms": "9"}) == []


def test_what_both_inherit_is_not_compared() -> None:
    assert compare(default(retention_ms="1"), default(retention_ms="2")) == []
    assert compare(own(retention_ms="2"), default(retention_ms="2")) == []


def test_values_that_mean_the_same() -> None:
    assert compare(own(cleanup_policy="compact,delete"), own(cleanup_policy="delete,compact")) == []
    assert compare(own(x="0.50"), own(x="0.5")) == []


def test_what_the_source_no_longer_sets_is_removed_only_if_parity_created_it() -> None:
    item = ParityItem(ParityKind.TOPIC_CONFIG, "t", "retention.ms")
    source, target = default(retention_ms="7"), own(retention_ms="2")
    (row,) = compare(source, target, memory=ParityMemory({item: "2"}))
    assert (row.wanted, row.action) == (None, REMOVE)
    for memory in (ParityMemory(), ParityMemory({item: "3"})):
        (row,) = compare(source, target, memory=memory)
        assert (row.wanted, row.action, row.why) == ("7", SET, "the source's default")


def test_a_larger_limit_of_the_sources_brokers_is_wanted() -> None:
    (row,) = compare(default(max_message_bytes="5000000"), default(max_message_bytes="1048588"))
    assert (row.wanted, row.action) == ("5000000", SET)
    (row,) = compare(own(max_message_bytes="1000"), default(max_message_bytes="1048588"))
    assert row.action is REPORT and "lower limit" in row.why


@pytest.mark.parametrize(
    "setting",
    [
        # MirrorMaker 2's config.properties.exclude.
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
        "message.timestamp.difference.max.ms",
        "message.timestamp.type",
        "unclean.leader.election.enable",
        "min.insync.replicas",
    ],
)
def test_what_must_not_be_copied_is_not_compared_by_default(setting: str) -> None:
    source, target = {setting: Setting("1", True)}, {setting: Setting("2", False)}
    assert compare(source, target, rules=DEFAULT) == []
    assert compare(source, target, rules=ALL)


def test_the_defaults_are_patterns_of_settings() -> None:
    assert all(
        not ParitySection(exclude=(pattern,)).compares("x") or pattern for pattern in NOT_COPIED
    )
    assert DEFAULT.compares("retention.ms") and DEFAULT.compares("cleanup.policy")
    assert not DEFAULT.compares("confluent.tier.enable")


def test_what_would_endanger_the_target_is_named() -> None:
    (row,) = compare(own(min_insync_replicas="3"), default(min_insync_replicas="1"))
    assert row.action is REPORT and "unknown" in row.why
    limits = TargetLimits({"t": 2}, False, 3600.0)
    (row,) = compare(own(min_insync_replicas="3"), default(min_insync_replicas="1"), limits=limits)
    assert row.action is REPORT and "has 2 replicas" in row.why
    (row,) = compare(own(min_insync_replicas="2"), default(min_insync_replicas="1"), limits=limits)
    assert row.action is SET
    throttled = {"leader.replication.throttled.replicas": Setting("0:1", True)}
    (row,) = compare(throttled, default(leader_replication_throttled_replicas=""))
    assert row.action is REPORT and "throttle" in row.why
    for key in ("remote_storage_enable", "local_retention_ms"):
        (row,) = compare(own(**{key: "5"}), default(**{key: "1"}), limits=limits)
        assert row.action is REPORT and "tiered storage" in row.why
        tiered = TargetLimits(has_tiered_storage=True)
        (row,) = compare(own(**{key: "5"}), default(**{key: "1"}), limits=tiered)
        assert row.action is SET
    (row,) = compare(own(retention_ms="60000"), default(retention_ms="9"), limits=limits)
    assert row.action is REPORT and "shorter than the RPO" in row.why
    compacted = {**own(retention_ms="60000", cleanup_policy="compact")}
    rows = compare(compacted, default(retention_ms="9", cleanup_policy="delete"), limits=limits)
    assert [row.action for row in rows] == [SET, SET]
    (row,) = compare(
        own(message_timestamp_type="LogAppendTime"), default(message_timestamp_type="CreateTime")
    )
    assert row.action is REPORT
    (row,) = compare(own(unheard_of="1"), {})
    assert row.action is REPORT and "do not know" in row.why


def test_several_sources_of_one_target() -> None:
    sources = {"a": own(retention_ms="1"), "b": own(retention_ms="2")}
    pair = TopicPair("t", sources, default(retention_ms="9"))
    (row,) = compare_topics([pair], ALL.compares, ParityMemory())
    assert row.action is REPORT and "a: 1; b: 2" in row.why and row.origin == "a, b"
    agreed = TopicPair("t", {"a": sources["a"], "b": sources["a"]}, default(retention_ms="9"))
    (row,) = compare_topics([agreed], ALL.compares, ParityMemory())
    assert (row.wanted, row.action) == ("1", SET)


NAMES = st.sampled_from(["retention.ms", "cleanup.policy", "segment.bytes", "x"])
SETTINGS = st.dictionaries(
    NAMES, st.builds(Setting, st.sampled_from(["1", "2", "compact"]), st.booleans())
)


@given(SETTINGS, SETTINGS, st.dictionaries(NAMES, st.sampled_from(["1", "2"])))
def test_what_is_applied_differs_no_more(
    source: Settings, target: Settings, wanted: dict[str, str]
) -> None:
    rows = compare(source, target, wanted)
    after = dict(target)
    for row in rows:
        if row.action is SET:
            assert row.wanted is not None and row.target is not None
            after[row.item.key] = Setting(row.wanted, is_own=True)
        assert row.action is not REMOVE  # parity has created nothing
    assert [row for row in compare(source, after, wanted) if row.changes] == []


def test_drift_counts_only_what_a_failover_shows() -> None:
    source = {
        "cleanup.policy": "compact,delete",
        "retention.ms": "1000",
        "retention.bytes": "-1",
        "max.message.bytes": "100",
        "message.timestamp.type": "LogAppendTime",
        "min.insync.replicas": "2",
    }
    like = {
        **source,
        "cleanup.policy": "delete,compact",
        "max.message.bytes": "200",
        "message.timestamp.type": "CreateTime",
        "min.insync.replicas": "3",
    }
    assert find_drift("t", source, like) == []
    worse = {**like, "retention.ms": "1", "min.insync.replicas": "1", "max.message.bytes": "99"}
    drifts = find_drift("t", source, worse)
    assert [drift.item.key for drift in drifts] == [
        "retention.ms",
        "max.message.bytes",
        "min.insync.replicas",
    ]
    first = drifts[0]
    assert (str(first.item), first.target, first.source) == ("t retention.ms", "1", "1000")
    assert len(find_drift("t", source, worse, ["retention.ms"])) == 2
    assert find_drift("t", source, {}) == [], "what cannot be read is no drift"
