"""Records that fail a transform are on the dead-letter topic, once, and have no copy."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.spark.transforms.test_transforms import JSON, payments
from tests.support.clusters.kafka import Got, Out, admin, create_topic, produce, read_all
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.oracle.group_offsets import commit_offsets, committed
from tests.support.oracle.judge import Expected, prove
from tests.support.pipelines.fixtures import MakePipeline

pytestmark = pytest.mark.slow
pytest.importorskip("pyarrow")  # of the extra ``transform``

RULE: dict[str, Any] = {
    "decode": JSON,
    "set": {"value.id": "20 div value.amount"},
    "onError": "deadLetter",
}


def is_changed(sent: Got) -> bool:
    """Return whether the rule can change a record."""
    try:
        order = json.loads(sent.value or b"")
    except ValueError:
        return False
    return bool(order["amount"])


def changed(sent: Got) -> bytes:
    order = json.loads(sent.value or b"")
    order["id"] = 20 // order["amount"]
    return json.dumps(order, separators=(",", ":")).encode()


def test_dead_letters_have_the_record_its_origin_and_the_cause(make_pipeline: MakePipeline) -> None:
    pipeline = make_pipeline([])
    topic = create_topic(pipeline.source, partitions=2, config={"cleanup.policy": "compact"})
    pipeline.topics = [topic]
    group = f"{pipeline.name}-group"
    pipeline.settings = {
        "replication.transform": [RULE],
        "replication.sink.topic": {"suffix": ".copy"},
        "groups.consumerGroups": [group],
    }
    records = payments(60)
    records[21] = Out(b"{", b"k21", 1, (("h", None), ("h", b"\xff")))
    produce(pipeline.source, topic, records)
    file, dead = pipeline.write(), f"{topic}.copy.dead-letter"

    (row,) = k2ktui_json("explain", "-f", file)["topics"]
    assert f"sets value.id, writes records that fail to {dead}" in row["reason"]
    checks = {check["name"]: check for check in k2ktui_json("check", "-f", file)["checks"]}
    assert checks[f"dead-letter topic {dead}"]["detail"] == "to be created with 2 partitions"
    shown = k2ktui_json("transform", "preview", "-f", file, "--topic", topic, "--limit", "60")
    outcomes = [record["outcome"] for record in shown["records"]]
    assert outcomes.count("dead letter") == 13
    assert not {topic, dead} & {*admin(pipeline.target).list_topics(timeout=30).topics}

    run = pipeline.catch_up()
    notes = [event["text"] for event in run.events("note") if "onError" in event["text"]]
    assert notes and all(f"written to {dead} (onError: deadLetter)" in note for note in notes)
    expected = Expected(topic, f"{topic}.copy", value=changed, copied=is_changed)
    prove(pipeline.source, pipeline.target, pipeline.name, expected)

    failed = [got for got in read_all(pipeline.source, topic) if not is_changed(got)]
    letters = read_all(pipeline.target, dead)
    assert [as_sent(got) for got in sorted_by_place(letters)] == [
        (*as_sent(got)[:4], (*got.headers, *described(got, topic, pipeline.name)))
        for got in sorted_by_place(failed)
    ]

    at = {(topic, 0): 0, (topic, 1): 2}
    commit_offsets(pipeline.source, group, at)
    plan = file.with_suffix(".plan")
    k2ktui("plan", "-f", file, "-o", plan)
    k2ktui("apply", "-f", file, plan, "--yes")
    moved = committed(pipeline.target, group)
    copies = read_all(pipeline.target, f"{topic}.copy")
    for (_, partition), offset in at.items():
        unread = [
            got.key
            for got in read_all(pipeline.source, topic)
            if got.partition == partition and got.offset >= offset and is_changed(got)
        ]
        first = moved[f"{topic}.copy", partition]
        assert unread == [g.key for g in copies if g.partition == partition and g.offset >= first]
    verified = k2ktui_json("verify", "-f", file, "--sample", "5")
    assert verified["positions"]["different"] == verified["records"]["different"] == 0, verified
    assert verified["positions"]["same"] == 2 and verified["records"]["same"] > 0


def sorted_by_place(copies: list[Got]) -> list[Got]:
    return sorted(copies, key=lambda got: (got.partition, got.offset))


def as_sent(got: Got) -> tuple[Any, ...]:
    return got.partition, got.key, got.value, got.timestamp, got.headers


def described(got: Got, topic: str, pipeline: str) -> list[tuple[str, bytes]]:
    is_json = got.value != b"{"
    cause = (
        "Spark SQL cannot evaluate 20 div value.amount"
        if is_json
        else "the value is not JSON of the schema id BIGINT, amount BIGINT, card STRING"
    )
    return [
        ("__k2k.error.step", b"set value.id" if is_json else b"decode.value"),
        ("__k2k.error.cause", cause.encode()),
        ("__k2k.error.pipeline", pipeline.encode()),
        ("__k2k.error.topic", topic.encode()),
        ("__k2k.error.partition", b"%d" % got.partition),
        ("__k2k.error.offset", b"%d" % got.offset),
    ]


def test_a_dead_letter_topic_is_no_target_and_must_exist(make_pipeline: MakePipeline) -> None:
    """One of fewer partitions, shared by topics; the topic of that name is not copied."""
    pipeline = make_pipeline([])
    topic, letters = create_topic(pipeline.source, partitions=3), create_topic(pipeline.source)
    pipeline.topics = [topic, letters]
    rule = {**RULE, "deadLetter": {"topic": letters}}
    pipeline.settings = {
        "replication.transform": [rule],
        "features.autoCreateTopics": "disabled",
    }
    create_topic(pipeline.target, topic, partitions=3)
    produce(pipeline.source, topic, [Out(b"{", b"k%d" % n, n % 3) for n in range(30)])
    file = pipeline.write()
    reasons = {row["topic"]: row for row in k2ktui_json("explain", "-f", file)["topics"]}
    assert "its dead-letter topic" in reasons[topic]["reason"]
    assert "does not exist, and features.autoCreateTopics" in reasons[topic]["reason"]
    assert reasons[topic]["path"] is None

    create_topic(pipeline.target, letters, partitions=2)
    reasons = {row["topic"]: row for row in k2ktui_json("explain", "-f", file)["topics"]}
    assert "is a dead-letter topic of this pipeline" in reasons[letters]["reason"]
    run = pipeline.catch_up(code=1)
    (fault,) = [event["fault"] for event in run.events("stopped")]
    assert fault["source"]["topic"] == letters
    got = read_all(pipeline.target, letters)
    assert sorted((copy.partition, copy.key) for copy in got) == sorted(
        (n % 3 % 2, b"k%d" % n) for n in range(30)
    )
    assert read_all(pipeline.target, topic) == []
