"""Which path each topic takes, and the reason an operator reads."""

from __future__ import annotations

from typing import Any

import pytest

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.java_patterns import NameSelection
from k2ktui.engine.transforms.header_names import HeaderNames, HeaderRules
from k2ktui.errors import Refused
from k2ktui.kafka.admin.topics import TopicSpec
from k2ktui.kafka.clients import TopicDescription
from k2ktui.log.record import RecordPart
from k2ktui.replication.copying.slot_task import CopyPath, Route
from k2ktui.replication.preflight.explain import Explanation, explain
from k2ktui.replication.topics.routing import choose_path, routes_for
from k2ktui.replication.topics.targets import TargetPlan, TargetTopic
from k2ktui.sync.flow import Flow
from k2ktui.sync.verify.changed_records import ignored_parts

CLUSTER = {"kafka": {"common": {"bootstrap.servers": "localhost:1"}}}


def pipeline(**sections: Any) -> PipelineConfig:
    base = {"name": "p", "source": CLUSTER, "target": CLUSTER}
    return PipelineConfig.model_validate(base | sections)


def sink(**keys: Any) -> dict[str, Any]:
    return {"source": {"topic": ".*"}, "sink": keys}


def topic(name: str = "orders", partitions: int = 2) -> TopicDescription:
    return TopicDescription(name, "", partitions, 1)


def target(name: str = "orders", partitions: int = 2, stamps: str = "CreateTime") -> TargetTopic:
    return TargetTopic(name, "", partitions, timestamp_type=stamps)


def test_verbatim_keeps_partitions() -> None:
    routes = routes_for(pipeline(), topic(), [target("copy", 3)])
    assert routes == [Route(CopyPath.VERBATIM, "copy", number, 3) for number in (0, 1)]


def test_by_key() -> None:
    config = pipeline(replication=sink(partition="producer"))
    routes = routes_for(config, topic(partitions=4), [target(partitions=2)])
    assert routes == [Route(CopyPath.RECORD, "orders", None, 2)] * 4


def test_headers_dropped_and_added() -> None:
    features = {
        "headerReplication": "disabled",
        "tracingHeaders": {"offset": "enabled", "pipeline": "enabled"},
    }
    config = pipeline(features=features, tracing={"headers": {"offset": "at"}})

    (route,) = routes_for(config, topic(partitions=1), [target()])

    added = (("offset", "at"), ("pipeline", "__k2k_pipeline"))
    assert route == Route(CopyPath.RECORD, "orders", 0, 2, headers=HeaderRules(True, added))


@pytest.mark.parametrize(
    ("stamps", "path", "now"),
    [
        ("CreateTime", CopyPath.RECORD, True),
        ("", CopyPath.RECORD, True),
        ("LogAppendTime", CopyPath.VERBATIM, False),
    ],
)
def test_new_timestamps(stamps: str, path: CopyPath, now: bool) -> None:
    config = pipeline(features={"keepRecordCreationTimestamp": "disabled"})
    (route,) = routes_for(config, topic(partitions=1), [target(stamps=stamps)])
    assert (route.path, route.now_timestamps) == (path, now)


def test_partitions_without_a_place_have_no_route() -> None:
    assert len(routes_for(pipeline(), topic(partitions=5), [target(partitions=3)])) == 3


def test_every_reason_is_named() -> None:
    features = {
        "headerReplication": "disabled",
        "tracingHeaders": "enabled",
        "keepRecordCreationTimestamp": "disabled",
    }
    choice = choose_path(pipeline(features=features, replication=sink(partition="producer")))
    for setting in ("partition: producer", "tracingHeaders", *list(features)[::2]):
        assert setting in choice.reason


def test_append_time_on_the_target_is_said() -> None:
    assert "replaces timestamps" in choose_path(pipeline(), "LogAppendTime").reason
    assert "replaces timestamps" not in choose_path(pipeline(), "CreateTime").reason


RULES = [
    {"topics": "plain"},
    {"topics": "o.*", "keep": "t-.*", "drop": ["t-x"], "rename": {"t-(.*)": "u-$1"}},
    {"topics": ".*", "add": {"site": "east"}, "tracing": {"offset": "at"}},
]


def test_header_rules_are_for_their_topics() -> None:
    tracing = {"tracingHeaders": {"topic": "enabled"}}
    config = pipeline(replication={**sink(), "headers": RULES})
    (plain,) = routes_for(config, topic("plain", 1), [target()])
    assert plain == Route(CopyPath.VERBATIM, "orders", 0, 2)
    (route,) = routes_for(config, topic("orders", 1), [target()])
    names = HeaderNames(NameSelection("t-.*"), NameSelection(None, ("t-x",)), (("t-(.*)", "u-$1"),))
    assert route == Route(CopyPath.RECORD, "orders", 0, 2, headers=HeaderRules(names=names))
    traced = pipeline(features=tracing, replication={**sink(), "headers": RULES})
    (last,) = routes_for(traced, topic("zebra", 1), [target()])
    added = (("topic", "__k2k_topic"), ("offset", "at"))
    assert last.headers == HeaderRules(added=added, constants=(("site", "east"),))


def test_the_reason_says_what_a_header_rule_does() -> None:
    config = pipeline(replication={**sink(), "headers": RULES})
    assert choose_path(config).path is CopyPath.VERBATIM
    assert choose_path(config, topic="plain").path is CopyPath.VERBATIM
    assert choose_path(config, topic="orders").reason == (
        "replication.headers keeps only headers that match t-.*, drops headers that match t-x, "
        "renames headers that match t-(.*)"
    )
    assert choose_path(config, topic="z").reason == "replication.headers adds headers (site, at)"
    plans = [TargetPlan(name, (topic(name),), existing=topic(name)) for name in ("plain", "z")]
    rows = explain(config, [topic("plain"), topic("z")], plans, {}, {})
    assert [row.path for row in rows] == [CopyPath.VERBATIM, CopyPath.RECORD]


def test_views_show_the_path_of_each_topic() -> None:
    flow = Flow(pipeline(replication={**sink(), "headers": RULES}))
    assert (flow.path_of("plain"), flow.path_of("orders")) == ("verbatim", "record")


def test_verification_ignores_the_headers_of_topics_with_a_rule_only() -> None:
    config = pipeline(replication={**sink(), "headers": RULES})
    assert ignored_parts(config, "plain") == frozenset()
    assert ignored_parts(config, "orders") == {RecordPart.HEADERS}
    traced = pipeline(features={"tracingHeaders": "enabled"})
    assert ignored_parts(traced, "plain") == {RecordPart.HEADERS}


def test_explain_lists_every_topic() -> None:
    a, b, c, d = (topic(name) for name in "abcd")
    plans = [
        TargetPlan("all", (a, b), create=TopicSpec("all", 2)),
        TargetPlan("c", (c,), existing=topic("c", 1), grow_to=2),
    ]
    refused = {"d": Refused("d is not copied")}

    rows = explain(pipeline(), [d, c, b, a], plans, refused, {})

    assert [row.topic for row in rows] == list("abcd")
    assert rows[0].target == "all" and rows[0].path is CopyPath.VERBATIM
    assert "shares its target with 1 other source topic" in rows[0].reason
    assert "will be created with 2 partitions" in rows[1].reason
    assert "will be grown to 2 partitions" in rows[2].reason
    assert rows[3] == Explanation("d", "d", None, "d is not copied")
