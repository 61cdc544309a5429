"""Records with schema ids between clusters whose registries disagree about them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import (
    TIMEOUT,
    Got,
    Out,
    admin,
    create_topic,
    eventually,
    produce,
    read_all,
    unique_name,
)
from tests.support.clusters.registries import Registries, call, register
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.oracle.group_offsets import commit_offsets, committed
from tests.support.pipelines.both_ways import BothWays
from tests.support.pipelines.fixtures import MakePipeline
from tests.support.pipelines.pipeline import Pipeline
from tests.support.pipelines.schema_pipeline import mapping
from tests.support.records.schemas import (
    INVOICE_SCHEMA,
    KEY_SCHEMA,
    AvroWriter,
    JsonWriter,
    Reader,
    avro_reader,
    json_reader,
    objects,
    order_schema,
)

pytestmark = pytest.mark.slow


def order(number: int) -> dict[str, Any]:
    more = {"note": f"note {number}"} if number % 2 else {}
    return {"id": number, "item": f"item {number}", **more}


def orders(registries: Registries, topic: str, count: int, first: int = 0) -> list[Out]:
    """Return orders of two versions of a schema, for two partitions."""
    write_key = AvroWriter(registries.source, KEY_SCHEMA)
    versions = [AvroWriter(registries.source, order_schema(*more)) for more in ((), ("note",))]
    return [
        Out(versions[n % 2](topic, order(n)), write_key(topic, {"id": n}, "key"), n % 2)
        for n in range(first, first + count)
    ]


def check_objects(pipeline: Pipeline, topic: str, there: Reader, here: Reader) -> None:
    """The target's registry gives the objects that the source's registry gives."""
    sent, landed = (read_all(node, topic) for node in (pipeline.source, pipeline.target))
    assert objects(landed, there) == objects(sent, here)
    ids = [{(got.value or b"")[:5] for got in side if got.value} for side in (sent, landed)]
    assert ids[0] != ids[1]


def unknown(number: int = 4_000_000) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + b"data"


def check_topic(pipeline: Pipeline, topic: str, registries: Registries) -> None:
    readers = (avro_reader(registry, topic) for registry in (registries.target, registries.source))
    check_objects(pipeline, topic, *readers)


def test_schemas_that_are_not_registered_wait_for_the_operator(
    make_pipeline: MakePipeline, registries: Registries
) -> None:
    """Then a consumer of the target reads the same objects; an unknown id stops its partition.

    There are two versions, keys and values, records without a schema, and a plain topic.
    """
    pipeline = make_pipeline([])
    topic, stopping = (create_topic(pipeline.source, partitions=2) for _ in range(2))
    plain, group = create_topic(pipeline.source), unique_name("group")
    pipeline.topics = [topic, stopping, plain]
    rules = [{"pattern": plain, "key": "disabled", "value": "disabled"}]
    pipeline.settings = mapping(registries, topics=rules, autoRegister="disabled") | {
        "groups.consumerGroups": [group]
    }
    more = [Out(None, b"no schema"), Out(b"", None, 1)]
    produce(pipeline.source, topic, [*orders(registries, topic, 200), *more])
    sent = orders(registries, stopping, 20)
    produce(pipeline.source, stopping, [*sent[:10], Out(unknown(), b"k", 0), *sent[10:]])
    produce(pipeline.source, plain, [b"plain", b"more"])
    run = pipeline.catch_up(code=1)
    faults = [event["fault"] for event in run.events("stopped")]
    assert len(faults) == 4
    for fault in faults:
        assert "is not registered" in fault["message"] and "k2ktui schemas apply" in fault["hint"]
    assert not any(got.value for got in read_all(pipeline.target, topic))

    for name in (topic, stopping):
        register(registries.target, f"{name}-key", KEY_SCHEMA)
        for fields in ((), ("note",)):
            register(registries.target, f"{name}-value", order_schema(*fields))
    run = pipeline.catch_up(code=1)
    check_topic(pipeline, topic, registries)
    (fault,) = [event["fault"] for event in run.events("stopped")]
    assert (fault["source"]["topic"], fault["source"]["partition"]) == (stopping, 0)
    assert (fault["kind"], fault["offset"]) == ("schema", 5)
    assert "the value at offset 5 has the schema id 4000000" in fault["message"]
    copies = Counter(got.partition for got in read_all(pipeline.target, stopping))
    assert copies == {0: 5, 1: 10}

    file = pipeline.write()
    paths = {row["topic"]: row for row in k2ktui_json("explain", "-f", file)["topics"]}
    assert (paths[topic]["path"], paths[plain]["path"]) == ("record", "verbatim")
    assert "schemaMapping replaces schema ids in key and value" in paths[topic]["reason"]

    at = {(topic, 0): 40, (topic, 1): 41, (plain, 0): 1}
    commit_offsets(pipeline.source, group, at)
    plan = file.with_suffix(".plan")
    k2ktui("plan", "-f", file, "-o", plan)
    k2ktui("apply", "-f", file, plan, "--yes")
    assert committed(pipeline.target, group) == at
    verified = k2ktui_json("verify", "-f", file, "--sample", "5")
    assert verified["positions"]["different"] == verified["records"]["different"] == 0, verified
    assert verified["positions"]["same"] == 3 and verified["records"]["same"] > 0


def test_new_schemas_are_mapped_while_the_pipeline_runs(
    make_pipeline: MakePipeline, registries: Registries
) -> None:
    """Beside JSON whose target partition is that of the key, and unknown ids that pass through."""
    pipeline = make_pipeline([])
    topic, invoices = (create_topic(pipeline.source) for _ in range(2))
    passing = create_topic(pipeline.source, partitions=2)
    pipeline.topics = [topic, invoices, passing]
    rules = [{"pattern": invoices, "key": "disabled"}]
    pipeline.settings = mapping(registries, topics=rules, onUnknownSchema="passthrough") | {
        "replication.sink.partition": "producer",
        "features.tracingHeaders": {"offset": "enabled"},
    }
    write = JsonWriter(registries.source, INVOICE_SCHEMA)
    invoiced = [Out(write(invoices, {"id": n, "total": n / 4}), b"k%d" % n) for n in range(50)]
    produce(pipeline.source, invoices, invoiced)
    sent = orders(registries, passing, 20)
    produce(pipeline.source, passing, [*sent[:10], Out(unknown(), b"k", 0), *sent[10:]])
    with pipeline.start() as run:
        run.expect("started")
        for number, more in enumerate(((), ("note",), ("note", "remark"))):
            writer = AvroWriter(registries.source, order_schema(*more))
            record = {"id": number, "item": "i", **{name: f"{name} {number}" for name in more}}
            produce(pipeline.source, topic, [Out(writer(topic, record))])
            await_copies(pipeline, topic, number + 1)
        # Reported when its lap ends, which a stop does not wait for.
        note = run.expect("note", lambda event: "schema mapping" in event["text"])["text"]
        pipeline.end(run)
    check_topic(pipeline, topic, registries)
    subject = f"/subjects/{topic}-value/versions"
    assert call(registries.target, subject) == call(registries.source, subject) == [1, 2, 3]
    readers = (
        json_reader(registry, invoices) for registry in (registries.target, registries.source)
    )
    check_objects(pipeline, invoices, *readers)

    assert len([e for e in run.events("note") if "schema mapping" in e["text"]]) == 1
    assert "1 record copied with an unknown schema id" in note
    assert f"the last at {passing}-0 offset 5: the value has the id 4000000" in note
    assert unknown() in [got.value for got in read_all(pipeline.target, passing)]


def await_copies(pipeline: Pipeline, topic: str, count: int) -> None:
    eventually(lambda: len(copies_of(pipeline, topic)) == count, "copied")


def copies_of(pipeline: Pipeline, topic: str) -> list[Got]:
    """Return what a topic has on the target, nothing while it does not exist."""
    if topic not in admin(pipeline.target).list_topics(timeout=TIMEOUT).topics:
        return []
    return read_all(pipeline.target, topic)


def test_unknown_ids_become_dead_letters(
    make_pipeline: MakePipeline, registries: Registries
) -> None:
    """They are as on the source, have no copy, and groups move over them.

    Their topic has the copies' name, which is created, or a name of its own, which must exist where
    topics may not be created.
    """
    pipeline = make_pipeline([])
    topic, group = create_topic(pipeline.source, partitions=2), unique_name("group")
    pipeline.topics = [topic]
    own = {"groups.consumerGroups": [group]}
    pipeline.settings = mapping(registries, onUnknownSchema="deadLetter") | own
    sent, dead = orders(registries, topic, 20), f"{topic}.dead-letter"
    failed = Out(unknown(), sent[0].key, 0, (("h", None), ("h", b"\xff")))
    produce(pipeline.source, topic, [*sent[:10], failed, Out(b"v", unknown(), 1), *sent[10:]])
    file = pipeline.write()
    (row,) = k2ktui_json("explain", "-f", file)["topics"]
    assert f"in key and value, writes records with unknown ids to {dead}" in row["reason"]
    checks = {check["name"]: check for check in k2ktui_json("check", "-f", file)["checks"]}
    assert checks[f"dead-letter topic {dead}"]["detail"] == "to be created with 2 partitions"

    dead = unique_name("letters")
    rules = {"onUnknownSchema": "deadLetter", "deadLetter": {"topic": dead}}
    pipeline.settings = mapping(registries, **rules) | own
    pipeline.settings |= {"features.autoCreateTopics": "disabled"}
    create_topic(pipeline.target, topic, partitions=2)
    (row,) = k2ktui_json("explain", "-f", pipeline.write())["topics"]
    assert f"its dead-letter topic {dead} does not exist" in row["reason"] and not row["path"]
    create_topic(pipeline.target, dead, partitions=2)
    run = pipeline.catch_up()
    notes = [e["text"] for e in run.events("note") if "schema mapping" in e["text"]]
    assert notes and all(f"written to {dead} (onUnknownSchema: deadLetter)" in n for n in notes)
    first, second = sorted(read_all(pipeline.target, dead), key=lambda got: got.partition)
    assert (first.key, first.value, first.headers[:2]) == (failed.key, failed.value, failed.headers)
    described = dict(first.headers[2:])
    assert described["__k2k.error.step"] == b"schemaMapping.value"
    assert b"the value has the schema id 4000000" in (described["__k2k.error.cause"] or b"")
    assert described["__k2k.error.topic"] == topic.encode()
    assert described["__k2k.error.offset"] == b"5"
    assert (second.key, second.value) == (unknown(), b"v")
    here, there = (
        avro_reader(registry, topic) for registry in (registries.source, registries.target)
    )
    kept = [
        got for got in read_all(pipeline.source, topic) if unknown() not in (got.key, got.value)
    ]
    copies = read_all(pipeline.target, topic)
    assert objects(copies, there) == objects(kept, here)

    at = {(topic, 0): 5, (topic, 1): 8}
    commit_offsets(pipeline.source, group, at)
    plan = file.with_suffix(".plan")
    k2ktui("plan", "-f", file, "-o", plan)
    k2ktui("apply", "-f", file, plan, "--yes")
    moved = committed(pipeline.target, group)
    unread = [got for got in copies if got.offset >= moved[topic, got.partition]]
    wanted = [got for got in kept if got.offset >= at[topic, got.partition]]
    assert objects(unread, there) == objects(wanted, here) and len(wanted) == 8
    verified = k2ktui_json("verify", "-f", file, "--sample", "5")
    assert verified["positions"]["different"] == verified["records"]["different"] == 0, verified
    assert verified["positions"]["same"] == 2 and verified["records"]["same"] > 0


def test_a_topic_whose_transform_changes_what_has_ids_is_refused(
    make_pipeline: MakePipeline, registries: Registries
) -> None:
    pipeline = make_pipeline([])
    topic, other = (create_topic(pipeline.source) for _ in range(2))
    pipeline.topics = [topic, other]
    pipeline.settings = mapping(registries) | {
        "replication.transform": [{"topics": topic, "set": {"value": "concat(value, X'21')"}}]
    }
    paths = {row["topic"]: row for row in k2ktui_json("explain", "-f", pipeline.write())["topics"]}
    assert paths[topic]["path"] is None and paths[other]["path"] == "record"
    assert "schema ids, and the transform decodes or changes them" in paths[topic]["reason"]


def test_the_way_back_maps_back(
    source: KafkaNode, target: KafkaNode, tmp_path: Path, registries: Registries
) -> None:
    """Both directions, each from its registry to the other one; nothing comes back."""
    topic = unique_name("both")
    for node in (source, target):
        create_topic(node, topic, 2)
    both = BothWays(tmp_path, source, target, [topic])
    try:
        for pipeline, pair in (
            (both.there, registries),
            (both.back, Registries(registries.target, registries.source)),
        ):
            pipeline.settings = {**pipeline.settings, **mapping(pair)}
            first = 0 if pair is registries else 1000
            produce(pipeline.source, topic, orders(pair, topic, 40, first))
        both.catch_up()
        sides = (
            Counter(
                str(read(got))
                for read in (avro_reader(registry, topic),)
                for got in read_all(node, topic)
            )
            for node, registry in ((source, registries.source), (target, registries.target))
        )
        assert len(set(map(frozenset, (side.items() for side in sides)))) == 1
        assert len(read_all(source, topic)) == len(read_all(target, topic)) == 80
    finally:
        both.close()
