"""Transforms on real clusters: what the target gets, its mapping, and what stops or is skipped."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
import yaml

from tests.support.clusters.group_members import consume
from tests.support.clusters.kafka import (
    Got,
    Headers,
    Out,
    create_topic,
    eventually,
    produce,
    read_all,
)
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.oracle.judge import Expected, by_key, prove
from tests.support.pipelines.fixtures import MakePipeline
from tests.support.pipelines.kills import copy_despite_kills
from tests.support.pipelines.pipeline import Pipeline
from tests.support.records.traffic import Traffic

pytestmark = pytest.mark.slow
pytest.importorskip("pyarrow")  # of the extra ``transform``

SCHEMA = "id BIGINT, amount BIGINT, card STRING"
JSON = {"value": {"json": {"schema": SCHEMA}}}
RULE: dict[str, Any] = {
    "decode": JSON,
    "filter": "value.amount > 2",
    "set": {"value.card": "sha2(value.card, 256)"},
}
# Any record, whatever its bytes.
APPENDED: dict[str, Any] = {
    "filter": "value IS NULL OR length(value) % 3 <> 0",
    "set": {"value": "concat(value, X'21')", "headers.k": "coalesce(hex(key), 'none')"},
}


def payment(number: int) -> dict[str, Any]:
    return {"id": number, "amount": number % 5, "card": f"4000-{number}"}


def payments(count: int, partitions: int = 2) -> list[Out]:
    return [
        Out(json.dumps(payment(n)).encode(), b"k%d" % n, n % partitions, (("h", b"%d" % n),))
        for n in range(count)
    ]


def masked(sent: Got) -> bytes:
    order = json.loads(sent.value or b"")
    order["card"] = hashlib.sha256(order["card"].encode()).hexdigest()
    return json.dumps(order, separators=(",", ":")).encode()


def is_large(sent: Got) -> bool:
    return bool(json.loads(sent.value or b"")["amount"] > 2)


def appended(topic: str, target: str = "", **more: Any) -> Expected:
    def headers(sent: Got) -> Headers:
        hexed = b"none" if sent.key is None else sent.key.hex().upper().encode()
        return (*((name, v) for name, v in sent.headers if name != "k"), ("k", hexed))

    return Expected(
        topic,
        target,
        headers=headers,
        value=lambda sent: None if sent.value is None else sent.value + b"!",
        copied=lambda sent: sent.value is None or len(sent.value) % 3 != 0,
        **more,
    )


def test_groups_of_a_filtered_and_masked_topic_move_exactly(make_pipeline: MakePipeline) -> None:
    """Copy, mapping, translation, verification and consuming, with a plain topic beside it."""
    pipeline = make_pipeline([])
    topic, plain = (create_topic(pipeline.source, partitions=2) for _ in range(2))
    pipeline.topics = [topic, plain]
    group = f"{pipeline.name}-group"
    pipeline.settings = {
        "replication.transform": [{**RULE, "topics": topic}],
        "spark.slots": 1,
        "groups.consumerGroups": [group],
    }
    for name in pipeline.topics:
        produce(pipeline.source, name, payments(500))
    run = pipeline.catch_up()
    print(run.tail())
    prove(
        pipeline.source,
        pipeline.target,
        pipeline.name,
        Expected(topic, value=masked, copied=is_large),
        plain,
    )
    file = pipeline.write()
    paths = {row["topic"]: row for row in k2ktui_json("explain", "-f", file)["topics"]}
    assert (paths[topic]["path"], paths[plain]["path"]) == ("record", "verbatim")
    assert "replication.transform decodes value (json), filters" in paths[topic]["reason"]

    stops = {(topic, 0): 100, (topic, 1): 101, (plain, 0): 7, (plain, 1): 0}
    before = consume(pipeline.source, group, pipeline.topics, until=stops)
    plan = file.with_suffix(".plan")
    k2ktui("plan", "-f", file, "-o", plan)
    k2ktui("apply", "-f", file, plan, "--yes")
    verified = k2ktui_json("verify", "-f", file, "--sample", "5")
    assert verified["positions"]["different"] == verified["records"]["different"] == 0, verified
    assert verified["positions"]["same"] == 3 and verified["records"]["same"] > 0
    # The group reads on as a member of the target: each record once, in order.
    after = consume(pipeline.target, group, pipeline.topics)
    sent = {name: read_all(pipeline.source, name) for name in pipeline.topics}
    for (name, partition), offset in stops.items():
        own = [got for got in sent[name] if got.partition == partition]
        assert before[name, partition] == own[:offset]
        rest = [got.key for got in own[offset:] if name == plain or is_large(got)]
        assert [got.key for got in after[name, partition]] == rest and rest


def test_a_record_that_fails_stops_its_partition_or_is_skipped(make_pipeline: MakePipeline) -> None:
    pipeline = make_pipeline([])
    topic = create_topic(pipeline.source, partitions=2)
    pipeline.topics = [topic]
    pipeline.settings = {
        "replication.transform": [{"decode": JSON, "set": {"value.id": "10 / value.id"}}]
    }
    records = payments(20)[2:]
    records[10] = Out(b'{"id": ', b"k12", 0)
    records[11] = Out(json.dumps({"id": 0}).encode(), b"k13", 1)
    records.append(Out(None, b"tombstone", 0))
    produce(pipeline.source, topic, records)
    run = pipeline.catch_up(code=1)
    faults = [event["fault"] for event in run.events("stopped")]
    stopped = {fault["source"]["partition"]: fault for fault in faults}
    assert "decode.value" in stopped[0]["message"] and "offset 5 " in stopped[0]["message"]
    assert "set value.id" in stopped[1]["message"] and "offset 5 " in stopped[1]["message"]
    assert len(read_all(pipeline.target, topic)) == 10

    skipping = {"decode": JSON, "set": {"value.id": "10 / value.id"}, "onError": "skip"}
    pipeline.settings = {"replication.transform": [skipping]}
    run = pipeline.catch_up()
    notes = [event["text"] for event in run.events("note") if "skipped" in event["text"]]
    assert notes and all("onError: skip" in note and "failed" in note for note in notes)
    keys = {got.key for got in read_all(pipeline.target, topic)}
    assert keys == {out.key for out in records} - {b"k12", b"k13"}
    (tombstone,) = [got for got in read_all(pipeline.target, topic) if got.key == b"tombstone"]
    assert tombstone.value is None


def test_any_records_by_key(make_pipeline: MakePipeline) -> None:
    """Transactions, null keys and values and all kinds of headers, onto partitions by key."""
    pipeline = make_pipeline([])
    topic = create_topic(pipeline.source, partitions=3)
    pipeline.topics = [topic]
    target = f"{topic}.copy"
    pipeline.settings = {
        "replication.transform": [APPENDED],
        "replication.sink.topic": {"suffix": ".copy"},
        "replication.sink.partition": "producer",
        "topicCreation.replication.common": {"partitions": 2},
    }
    with Traffic(pipeline.source, {topic: 3}, 5) as traffic:
        eventually(lambda: traffic.sent > 1000, "some traffic")
    pipeline.catch_up()
    expected = appended(topic, target, partition=by_key(2))
    prove(pipeline.source, pipeline.target, pipeline.name, expected)


def test_keys_headers_and_formats(make_pipeline: MakePipeline) -> None:
    pipeline = make_pipeline([])
    topic = create_topic(pipeline.source)
    pipeline.topics = [topic]
    rule = {
        "decode": {"key": "string", **JSON},
        "set": {
            "key": "upper(key)",
            "headers.h": "filter(headers, h -> h.key = 'h')[0].value || X'2B'",
            "headers.at": "concat_ws(':', topic, partition, offset)",
            "headers.gone": "CAST(NULL AS STRING)",
            "value.id": "value.id + 1",
        },
        "drop": ["value.card"],
        "encode": {"key": "string"},
    }
    pipeline.settings = {"replication.transform": [rule]}
    headers = (("h", b"1"), ("gone", b"2"), ("kept", None), ("h", b"3"))
    produce(pipeline.source, topic, [Out(json.dumps(payment(7)).encode(), b"key", 0, headers)])
    file = pipeline.write()
    shown = k2ktui_json("transform", "preview", "-f", file, "--topic", topic)
    (previewed,) = shown["records"]
    plain = k2ktui("transform", "preview", "-f", file, "--topic", topic, "--mask")
    assert "4000" not in plain.stdout and "1 copied. Nothing was written." in plain.stdout
    schema = k2ktui("transform", "schema", "-f", file, "--topic", topic).stdout
    assert schema.strip() == (
        'decode: {value: {json: {schema: "amount BIGINT,card STRING,id BIGINT"}}}'
    )
    pipeline.catch_up()
    (got,) = read_all(pipeline.target, topic)
    assert (got.key, got.value) == (b"KEY", b'{"id":8,"amount":2}')
    assert got.headers == (("kept", None), ("h", b"1+"), ("at", f"{topic}:0:0".encode()))
    assert previewed["outcome"] == "copied" and previewed["before"]["key"] == "key"
    assert previewed["after"]["value"] == '{"id":8,"amount":2}'
    assert [tuple(header) for header in previewed["after"]["headers"]] == [
        (name, value and value.decode()) for name, value in got.headers
    ]


def test_a_schema_is_inferred_from_a_sample_that_is_shown(make_pipeline: MakePipeline) -> None:
    """What the command prints is an entry of the file, and copies what it was inferred from."""
    pipeline = make_pipeline([])
    topic = create_topic(pipeline.source)
    pipeline.topics = [topic]
    values = [{"id": 1, "in": {"a b": [1]}}, {"id": 1 << 40, "s": "x7"}]
    records = [Out(json.dumps(value).encode(), b'{"k": %d}' % n) for n, value in enumerate(values)]
    produce(pipeline.source, topic, [*records, Out(b"other", None)])
    options = ("-f", pipeline.write(), "--topic", topic)
    done = k2ktui("transform", "schema", *options, "--mask")
    assert f'note: sample: {topic}-0 offset 1: {{"id":"9999999999999","s":"x9"}}' in done.stderr
    assert "inferred from 2 values" in done.stderr and "x7" not in done.stderr
    entry = yaml.safe_load(done.stdout)["decode"]
    assert entry["value"]["json"]["schema"] == "id BIGINT,in STRUCT<`a b`: ARRAY<BIGINT>>,s STRING"
    keys = k2ktui("transform", "schema", *options, "--key")
    assert f'sample: {topic}-0 offset 0: {{"k": 0}}' in keys.stderr
    entry |= yaml.safe_load(keys.stdout)["decode"]
    pipeline.settings = {"replication.transform": [{"decode": entry, "onError": "skip"}]}
    pipeline.catch_up()
    copies = sorted(read_all(pipeline.target, topic), key=lambda got: got.offset)
    assert [json.loads(got.value or b"") for got in copies] == values
    assert [got.key for got in copies] == [b'{"k":0}', b'{"k":1}']


@pytest.mark.proof
@pytest.mark.seeds(1)
def test_workers_killed_at_every_step_of_a_transform(
    pipeline: Pipeline, topics: dict[str, int], seed: int
) -> None:
    pipeline.settings = {"replication.transform": [APPENDED]}
    pipeline.mode = "shared"
    sent = copy_despite_kills(pipeline, topics, seed)
    expected = [appended(topic) for topic in topics]
    proof = prove(pipeline.source, pipeline.target, pipeline.name, *expected)
    assert proof.records >= sent // 6
