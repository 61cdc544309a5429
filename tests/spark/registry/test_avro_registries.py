"""Avro in transforms with schemas of registries: writers' schemas by id, and ids for the target."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.clusters.kafka import Out, create_topic, eventually, produce, read_all
from tests.support.clusters.registries import Registries, avro_record, call, register
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.pipelines.fixtures import MakePipeline
from tests.support.pipelines.pipeline import Pipeline
from tests.support.records.schemas import AvroWriter, avro_reader, objects, order_schema

pytestmark = pytest.mark.slow
pytest.importorskip("pyarrow")  # of the extra ``transform``
pytest.importorskip("fastavro")  # of the extra ``avro``


def registry_settings(registries: Registries, rule: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "replication.transform": [rule],
        "schemaMapping": {"autoRegister": "enabled", **more},
        "source.registry.config": {"schema.registry.url": registries.source.url},
        "target.registry.config": {"schema.registry.url": registries.target.url},
    }


def has_copies(pipeline: Pipeline, topic: str, count: int) -> bool:
    return len(read_all(pipeline.target, topic)) == count


def test_schemas_of_a_registry(make_pipeline: MakePipeline, registries: Registries) -> None:
    """Records of two versions get the latest one, and its id on the target."""
    pipeline = make_pipeline([])
    topic = create_topic(pipeline.source)
    pipeline.topics = [topic]
    rule = {
        "topics": topic,
        "decode": {"value": "avro"},
        "set": {"value.item": "upper(value.item)"},
    }
    pipeline.settings = registry_settings(registries, rule) | {
        "replication.sink.topic": {"suffix": ".copy"}
    }
    versions = [AvroWriter(registries.source, order_schema(*more)) for more in ((), ("note",))]
    orders: list[dict[str, Any]] = [
        {"id": n, "item": f"item {n}", **({"note": "x"} if n % 2 else {})} for n in range(10)
    ]
    produce(
        pipeline.source,
        topic,
        [Out(versions[n % 2](topic, order)) for n, order in enumerate(orders)],
    )
    pipeline.settings["schemaMapping"]["autoRegister"] = "disabled"
    refused = k2ktui("start", "-f", pipeline.write(), "--until-caught-up", code=None)
    assert "is not registered as" in refused.stderr
    assert "Fix: Register it there, or set schemaMapping.autoRegister" in refused.stderr
    assert f"{topic}.copy-value" not in call(registries.target, "/subjects")

    pipeline.settings["schemaMapping"]["autoRegister"] = "enabled"
    pipeline.catch_up()
    copies = read_all(pipeline.target, f"{topic}.copy")
    values = objects(copies, avro_reader(registries.target, f"{topic}.copy"))[0]
    assert [value for _, value in values] == [
        {"note": None, **order, "item": order["item"].upper()} for order in orders
    ]
    assert call(registries.target, f"/subjects/{topic}.copy-value/versions") == [1, 2]
    report = k2ktui_json("compare", "-f", pipeline.write())
    assert (report["counts"], report["ignored"]) == ({"equal": 10}, {})


def test_an_unknown_id_stops_or_is_skipped_and_new_schemas_are_found(
    make_pipeline: MakePipeline, registries: Registries
) -> None:
    pipeline = make_pipeline([])
    topic = create_topic(pipeline.source)
    pipeline.topics = [topic]
    register(registries.source, f"{topic}-value", order_schema())
    rule = {
        "decode": {"value": {"avro": {"subject": f"{topic}-value"}}},
        "set": {"value.id": "value.id + 1"},
        "encode": {"value": "json"},
        "onError": "skip",
    }
    pipeline.settings = registry_settings(registries, rule)
    del pipeline.settings["target.registry.config"]
    with pipeline.start() as run:
        unknown = b"\0" + (4_000_000).to_bytes(4, "big") + b"data"
        other = AvroWriter(registries.source, avro_record("Other", "id"))
        produce(pipeline.source, topic, [Out(unknown), Out(b"plain"), Out(other("x", {"id": "1"}))])
        for number, more in enumerate(((), ("note",), ("note", "remark"))):
            write = AvroWriter(registries.source, order_schema(*more))
            produce(pipeline.source, topic, [Out(write(topic, {"id": number, "item": "i"}))])
            eventually(partial(has_copies, pipeline, topic, number + 1), "copied")
        assert run.stop() == 0
    values = [json.loads(got.value or b"") for got in read_all(pipeline.target, topic)]
    assert values == [{"id": n + 1, "item": "i"} for n in range(3)]


def test_a_version_of_a_subject_stays_the_schema(
    make_pipeline: MakePipeline, registries: Registries
) -> None:
    pipeline = make_pipeline([])
    topic = create_topic(pipeline.source)
    pipeline.topics = [topic]
    writers = [AvroWriter(registries.source, order_schema(*more)) for more in ((), ("note",))]
    orders = [{"id": 1, "item": "a"}, {"id": 2, "item": "b", "note": "new"}]
    produce(
        pipeline.source,
        topic,
        [Out(write(topic, order)) for write, order in zip(writers, orders, strict=True)],
    )
    source = {"avro": {"subject": f"{topic}-value", "version": 1}}
    pipeline.settings = registry_settings(
        registries, {"decode": {"value": source}, "encode": {"value": "json"}}
    )
    del pipeline.settings["target.registry.config"]
    pipeline.catch_up()
    values = [json.loads(got.value or b"") for got in read_all(pipeline.target, topic)]
    assert values == [{"id": 1, "item": "a"}, {"id": 2, "item": "b"}]


def test_the_schema_of_a_file_is_registered_for_the_target(
    make_pipeline: MakePipeline, registries: Registries, tmp_path: Path
) -> None:
    pipeline = make_pipeline([])
    topic = create_topic(pipeline.source)
    pipeline.topics = [topic]
    (tmp_path / "order.avsc").write_text(order_schema())
    rule = {
        "decode": {"value": {"json": {"schema": "id INT, item STRING"}}},
        "encode": {"value": {"avro": {"schemaFile": "order.avsc", "subject": f"{topic}-own"}}},
    }
    pipeline.settings = registry_settings(registries, rule)
    produce(pipeline.source, topic, [Out(b'{"id": 1, "item": "a"}'), Out(b'{"id": 2}')])
    run = pipeline.catch_up(code=1)
    (fault,) = [event["fault"] for event in run.events("stopped")]
    assert "(encode.value)" in fault["message"] and fault["offset"] == 1
    values = objects(read_all(pipeline.target, topic), avro_reader(registries.target, topic))
    assert [value for _, value in values[0]] == [{"id": 1, "item": "a"}]
    assert call(registries.target, f"/subjects/{topic}-own/versions") == [1]

    pipeline.settings["replication.transform"] = [
        rule | {"encode": {"value": {"avro": {"subject": f"{topic}-own", "version": 1}}}}
    ]
    pipeline.settings["schemaMapping"]["autoRegister"] = "disabled"
    pipeline.settings["replication.transform"][0]["onError"] = "skip"
    produce(pipeline.source, topic, [Out(b'{"id": 3, "item": "c"}')])
    pipeline.catch_up()
    values = objects(read_all(pipeline.target, topic), avro_reader(registries.target, topic))
    assert [value["id"] for _, value in values[0]] == [1, 3]
    # The ids are those of the target, and a comparison registers none.
    pipeline.settings["schemaMapping"]["autoRegister"] = "enabled"
    report = k2ktui_json("compare", "-f", pipeline.write())
    assert (report["counts"], report["ignored"]) == ({"equal": 2, "never copied": 1}, {})
    pipeline.settings["replication.transform"][0]["encode"] = {
        "value": {"avro": {"schemaFile": "order.avsc", "subject": f"{topic}-nosuch"}}
    }
    refused = k2ktui("compare", "-f", pipeline.write(), code=5)
    assert f"is not registered as {topic}-nosuch" in refused.stderr
    assert f"{topic}-nosuch" not in call(registries.target, "/subjects")
