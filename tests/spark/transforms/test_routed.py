"""Expressions that choose topics and partitions on real clusters: copies, groups, kills."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.proof.test_transform_faults import origin_of, place_of
from tests.support.clusters.kafka import (
    Got,
    Out,
    create_topic,
    end_offsets,
    produce,
    read_all,
    unique_name,
)
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.drill.checks import grow_topic
from tests.support.oracle.group_offsets import commit_offsets, committed
from tests.support.oracle.judge import Expected, by_key, prove
from tests.support.pipelines.fixtures import MakePipeline
from tests.support.pipelines.kills import copy_despite_kills
from tests.support.pipelines.pipeline import Pipeline

pytestmark = pytest.mark.slow
pytest.importorskip("pyarrow")  # of the extra ``transform``

_STEP = "__k2k.error.step"
REGION = "get_json_object(CAST(value AS STRING), '$.region')"


def order(number: int) -> Out:
    region = ("eu", "us", "asia")[number % 3]
    value = json.dumps({"id": number, "region": region}).encode()
    return Out(value, b"k%d" % (number % 7), number % 2, (("site", region.encode()),))


def region_of(sent: Got) -> str:
    return str(json.loads(sent.value or b"")["region"])


def targets_of(pipeline: Pipeline) -> list[str]:
    return [f"{pipeline.name}-{name}" for name in ("eu", "us", "asia")]


def test_groups_move_to_several_topics_exactly(make_pipeline: MakePipeline) -> None:
    """By a field of the value; then a group reads on the target what it has not on the source."""
    pipeline = make_pipeline([])
    topic = create_topic(pipeline.source, partitions=2)
    pipeline.topics = [topic]
    names = targets_of(pipeline)
    group = f"{pipeline.name}-group"
    pipeline.settings = {
        "replication.sink.topic": {
            "expression": f"concat('{pipeline.name}-', {REGION})",
            "topics": names,
        },
        "groups.consumerGroups": [group],
    }
    produce(pipeline.source, topic, [order(n) for n in range(600)])
    file = pipeline.write()
    (row,) = k2ktui_json("explain", "-f", file)["topics"]
    assert row["target"] == ", ".join(names) and row["path"] == "record"
    assert "replication.sink chooses the topic by expression" in row["reason"]
    assert all(f"{name}: the target will be created with 2" in row["reason"] for name in names)
    pipeline.catch_up()
    proof = prove(
        pipeline.source,
        pipeline.target,
        pipeline.name,
        Expected(
            topic, targets=tuple(names), routed=lambda got: f"{pipeline.name}-{region_of(got)}"
        ),
    )
    assert proof.records == 600
    position = proof.position(topic)
    assert (position["targetTopic"], position["targetPartition"]) == (names[0], None)
    assert [name for name, _ in position["furtherTargets"]] == names[1:]
    assert all(end_offsets(pipeline.target, name) for name in names)

    at = {(topic, 0): 101, (topic, 1): 250}
    commit_offsets(pipeline.source, group, at)
    plan = file.with_suffix(".plan")
    k2ktui("plan", "-f", file, "-o", plan)
    k2ktui("apply", "-f", file, plan, "--yes")
    moved = committed(pipeline.target, group)
    assert moved.keys() == {(name, number) for name in names for number in (0, 1)}
    unread = {
        (got.partition, got.offset)
        for got in read_all(pipeline.source, topic)
        if got.offset >= at[topic, got.partition]
    }
    sent = read_all(pipeline.source, topic)
    values = {(got.partition, got.offset): got.value or b"" for got in sent}
    read = [
        got.value or b""
        for name in names
        for got in read_all(pipeline.target, name)
        if got.offset >= moved[name, got.partition]
    ]
    # Each record once: 0 re-read, 0 skipped.
    assert sorted(read) == sorted(values[place] for place in unread)
    rows = k2ktui_json("groups", "-f", file)["groups"]
    assert {row["basis"] for row in rows} <= {"exact", "end"}
    verified = k2ktui_json("verify", "-f", file, "--sample", "5")
    assert verified["positions"]["different"] == verified["records"]["different"] == 0, verified
    assert verified["positions"]["same"] == 6


def test_several_topics_fan_in_and_out_by_key_and_header(make_pipeline: MakePipeline) -> None:
    """Two source topics meet on two target topics; an expression chooses the partition."""
    pipeline = make_pipeline([])
    topics = [create_topic(pipeline.source, partitions=2) for _ in range(2)]
    pipeline.topics = topics
    even, odd = names = [f"{pipeline.name}-even", f"{pipeline.name}-odd"]
    header = "CAST(filter(headers, h -> h.key = 'site')[0].value AS STRING)"
    pipeline.settings = {
        "replication.sink.topic": {
            "expression": f"IF(ascii(substr(CAST(key AS STRING), 2)) % 2 = 0, '{even}', '{odd}')",
            "topics": names,
        },
        "replication.sink.partition": {"expression": f"IF({header} = 'eu', 2, partition)"},
        "topicCreation.replication.common": {"partitions": 3},
    }
    for topic in topics:
        produce(pipeline.source, topic, [order(n) for n in range(90)])
    pipeline.catch_up()

    def routed(got: Got) -> str:
        return odd if (got.key or b"")[1] % 2 else even

    expected = [
        Expected(
            topic,
            targets=tuple(names),
            routed=routed,
            partition=lambda got: 2 if region_of(got) == "eu" else got.partition,
        )
        for topic in topics
    ]
    assert prove(pipeline.source, pipeline.target, pipeline.name, *expected).records == 180
    file = pipeline.write()
    report = k2ktui_json("compare", "-f", file)
    assert (report["counts"], report["ignored"]) == ({"equal": 180}, {})
    shown = k2ktui_json("transform", "preview", "-f", file, "--topic", topics[0], "--limit", "4")
    for row in shown["records"]:
        name = odd if row["before"]["key"][1] in "1357" else even
        site = dict(row["before"]["headers"])["site"]
        assert row["target"] == f"{name}-{2 if site == 'eu' else row['partition']}"


def test_a_topic_that_is_not_declared_stops_its_partition_or_is_skipped(
    make_pipeline: MakePipeline,
) -> None:
    pipeline = make_pipeline([])
    topic = create_topic(pipeline.source, partitions=2)
    pipeline.topics = [topic]
    known = [f"{pipeline.name}-{name}" for name in ("eu", "us")]
    sink: dict[str, Any] = {
        "replication.sink.topic": {
            "expression": f"concat('{pipeline.name}-', {REGION})",
            "topics": known,
        },
        "replication.sink.partition": {"expression": "IF(offset = 4, 7, partition)"},
    }
    pipeline.settings = sink
    produce(pipeline.source, topic, [order(n) for n in range(30)])
    run = pipeline.catch_up(code=1)
    faults = [event["fault"] for event in run.events("stopped")]
    assert len(faults) == 2
    assert all("sink.topic" in fault["message"] for fault in faults)

    file = pipeline.write()
    shown = k2ktui_json("transform", "preview", "-f", file, "--topic", topic, "--limit", "30")
    steps = {(row["partition"], row["offset"]): row["step"] for row in shown["records"]}
    # Where both are wrong, the topic is named.
    assert (steps[0, 4], steps[1, 4]) == ("sink.topic", "sink.partition")
    assert set(steps.values()) == {"", "sink.topic", "sink.partition"}
    assert {row["outcome"] for row in shown["records"]} == {"copied", "stops the partition"}

    pipeline.settings = {**sink, "replication.transform": [{"onError": "skip"}]}
    run = pipeline.catch_up()
    notes = " ".join(event["text"] for event in run.events("note"))
    assert "sink.topic" in notes or "sink.partition" in notes
    counts = k2ktui_json("compare", "-f", file)["counts"]
    outcomes = Counter(row["outcome"] for row in shown["records"])
    assert counts == {
        "equal": outcomes["copied"],
        "never copied": outcomes["stops the partition"],
    }
    got = [got for name in known for got in read_all(pipeline.target, name)]
    sent = [
        got
        for got in read_all(pipeline.source, topic)
        if region_of(got) != "asia" and got.offset != 4
    ]
    assert sorted(copy.value or b"" for copy in got) == sorted(copy.value or b"" for copy in sent)


def test_a_stopped_partition_continues_when_the_target_has_grown(
    make_pipeline: MakePipeline,
) -> None:
    pipeline = make_pipeline([])
    topic = create_topic(pipeline.source)
    pipeline.topics = [topic]
    pipeline.settings = {
        "replication.sink.partition": {"expression": "CAST(CAST(value AS STRING) AS INT)"}
    }
    produce(pipeline.source, topic, [Out(b"%d" % n, b"k", 0) for n in (0, 0, 2, 0)])
    (stopped,) = pipeline.catch_up(code=1).events("stopped")
    assert "fails at the record at offset 2 (sink.partition)" in stopped["fault"]["message"]
    assert [got.value for got in read_all(pipeline.target, topic)] == [b"0", b"0"]

    grow_topic(pipeline.target, topic, 3)
    pipeline.catch_up()
    expected = Expected(topic, partition=lambda got: int(got.value or b""))
    assert prove(pipeline.source, pipeline.target, pipeline.name, expected).records == 4


def test_records_without_a_route_are_dead_letters(make_pipeline: MakePipeline) -> None:
    """Null, an error, a topic that is not declared or not legal, and a missing partition."""
    pipeline = make_pipeline([])
    topic = create_topic(pipeline.source, partitions=2)
    pipeline.topics = [topic]
    names = targets_of(pipeline)[:2]
    pipeline.settings = {
        "replication.sink.topic": {
            "expression": f"CASE offset WHEN 1 THEN NULL WHEN 2 THEN '../' || chr(27) "
            f"WHEN 3 THEN array('a')[offset] ELSE concat('{pipeline.name}-', {REGION}) END",
            "topics": names,
        },
        "replication.sink.partition": {
            "expression": "CASE offset WHEN 6 THEN -1 WHEN 7 THEN 2 WHEN 8 THEN 4294967296 "
            "WHEN 9 THEN 1 div (offset - 9) WHEN 10 THEN NULL ELSE partition END"
        },
        "replication.transform": [{"onError": "deadLetter"}],
    }
    produce(pipeline.source, topic, [order(n) for n in range(60)])
    file, dead = pipeline.write(), f"{names[0]}.dead-letter"
    checks = {check["name"]: check for check in k2ktui_json("check", "-f", file)["checks"]}
    assert checks[f"dead-letter topic {dead}"]["detail"] == "to be created with 2 partitions"
    assert checks["target topics"]["detail"] == "2 topics as required, 2 of them to be created"
    pipeline.catch_up()

    def is_copied(got: Got) -> bool:
        return region_of(got) != "asia" and got.offset not in {1, 2, 3, 6, 7, 8, 9, 10}

    expected = Expected(
        topic,
        targets=tuple(names),
        routed=lambda got: f"{pipeline.name}-{region_of(got)}",
        copied=is_copied,
    )
    prove(pipeline.source, pipeline.target, pipeline.name, expected)
    failed = [got for got in read_all(pipeline.source, topic) if not is_copied(got)]
    letters = read_all(pipeline.target, dead)
    assert sorted(map(origin_of, letters)) == sorted(map(place_of, failed))
    steps = {
        (
            int(origin["__k2k.error.partition"] or b""),
            int(origin["__k2k.error.offset"] or b""),
        ): origin[_STEP]
        for origin in (dict(letter.headers) for letter in letters)
    }
    for got in failed:
        by_topic = region_of(got) == "asia" or got.offset in {1, 2, 3}
        assert steps[got.partition, got.offset] == (
            b"sink.topic" if by_topic else b"sink.partition"
        )


def test_expressions_see_fields_of_avro_and_protobuf(
    make_pipeline: MakePipeline, tmp_path: Path
) -> None:
    """As the steps before left them; dead letters of every step are the bytes of the source."""
    from tests.spark.transforms.test_transform_avro import PAYMENT, payment, read
    from tests.spark.transforms.test_transform_protobuf import SOURCE, Order, order_file
    from tests.spark.transforms.test_transform_protobuf import order as message
    from tests.unit.transforms.test_avro_codec import written
    from tests.unit.transforms.test_protobuf_codec import schema

    (tmp_path / "payment.avsc").write_text(json.dumps(PAYMENT))
    (tmp_path / "order.desc").write_bytes(schema(file=order_file()).descriptors)
    pipeline = make_pipeline([])
    topic = create_topic(pipeline.source, partitions=2)
    pipeline.topics = [topic]
    new, done = names = [f"{pipeline.name}-{name}" for name in ("new", "done")]
    changed = {
        "value.state": "IF(value.id = 11, 'OLD', value.state)",
        "value.id": "value.id + 1",
    }
    pipeline.settings = {
        "replication.transform": [
            {
                "decode": {
                    "key": {"protobuf": SOURCE},
                    "value": {"avro": {"schemaFile": "payment.avsc"}},
                },
                "set": changed,
                "onError": "deadLetter",
            }
        ],
        "replication.sink.topic": {
            "expression": f"CASE WHEN value.id = 8 THEN 'x' WHEN value.state = 'NEW' THEN '{new}' "
            f"ELSE '{done}' END",
            "topics": names,
        },
        "replication.sink.partition": {
            "expression": "IF(value.id = 21, 9, IF(key.count IS NULL, 0, value.id % 2 + 1))"
        },
        "topicCreation.replication.common": {"partitions": 3},
    }
    sent = [
        Out(written(PAYMENT, payment(n)), message(n // 2).SerializeToString(), n % 2)
        for n in range(60)
    ]
    sent[4] = Out(b"\x02", sent[4].key, 0)
    produce(pipeline.source, topic, sent)
    options = ("-f", pipeline.write(), "--topic", topic, "--limit", "60")
    shown = k2ktui_json("transform", "preview", *options)["records"]
    copied = [row for row in shown if row["outcome"] == "copied"]
    assert {row["target"].rpartition("-")[0] for row in copied} == set(names)
    for row in copied:
        state = json.loads(row["after"]["value"])["state"]
        assert row["target"].startswith(f"{new if state == 'NEW' else done}-")
    pipeline.catch_up()

    failed = {4: b"decode.value", 7: b"sink.topic", 11: b"encode.value", 20: b"sink.partition"}

    def number_of(got: Got) -> int:
        return 2 * got.offset + got.partition

    def value(got: Got) -> bytes:
        payment = read(got.value)
        return written(PAYMENT, payment | {"id": payment["id"] + 1})

    def partition(got: Got) -> int:
        counted = Order.FromString(got.key).HasField("count")
        return (number_of(got) + 1) % 2 + 1 if counted else 0

    expected = Expected(
        topic,
        targets=tuple(names),
        value=value,
        routed=lambda got: new if number_of(got) % 2 else done,
        partition=partition,
        copied=lambda got: number_of(got) not in failed,
    )
    assert prove(pipeline.source, pipeline.target, pipeline.name, expected).records == 56
    letters = read_all(pipeline.target, f"{new}.dead-letter")
    steps = {origin_of(letter): (letter.key, dict(letter.headers)[_STEP]) for letter in letters}
    assert steps == {
        (n % 2, n // 2, sent[n].value): (sent[n].key, step) for n, step in failed.items()
    }


@pytest.mark.proof
@pytest.mark.seeds(1)
def test_workers_killed_at_every_step_of_a_route(
    pipeline: Pipeline, topics: dict[str, int], seed: int
) -> None:
    """Any records, onto three topics that all sources share; those without one are dead letters."""
    names = [unique_name("routed") for _ in range(3)]
    pipeline.settings = {
        "replication.sink.topic": {
            "expression": f"array('{names[0]}', '{names[1]}', '{names[2]}')"
            "[coalesce(length(value), 0) % 4]",
            "topics": names,
        },
        "replication.transform": [{"onError": "deadLetter"}],
        "replication.sink.partition": "producer",
        "topicCreation.replication.common": {"partitions": 2},
    }
    pipeline.mode = "shared"
    sent = copy_despite_kills(pipeline, topics, seed)
    expected = [
        Expected(
            topic,
            targets=tuple(names),
            routed=lambda got: names[len(got.value or b"") % 4],
            partition=by_key(2),
            copied=has_route,
        )
        for topic in topics
    ]
    proof = prove(pipeline.source, pipeline.target, pipeline.name, *expected)
    assert proof.records >= sent // 6
    failed = [got for topic in topics for got in read_all(pipeline.source, topic)]
    failed = [got for got in failed if not has_route(got)]
    letters = read_all(pipeline.target, f"{names[0]}.dead-letter")
    assert sorted(map(origin_of, letters)) == sorted(map(place_of, failed))


def has_route(got: Got) -> bool:
    return len(got.value or b"") % 4 < 3
