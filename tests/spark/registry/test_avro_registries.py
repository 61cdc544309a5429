"""Avro in transforms: schemas that a registry gets, or does not have, while a pipeline runs."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest

from tests.support.clusters.kafka import Out, create_topic, eventually, produce, read_all
from tests.support.clusters.registries import Registries, avro_record, register
from tests.support.pipelines.fixtures import MakePipeline
from tests.support.pipelines.pipeline import Pipeline
from tests.support.records.schemas import AvroWriter, order_schema

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
        run.expect("started")
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
