"""JSON with a schema's id before it, as Confluent's serializer writes it, in transforms."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from tests.proof.test_transform_faults import origin_of
from tests.support.clusters.kafka import Out, create_topic, produce, read_all
from tests.support.clusters.registries import Registries, register
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.pipelines.fixtures import MakePipeline

pytestmark = pytest.mark.slow
pytest.importorskip("pyarrow")  # of the extra ``transform``

FIELDS = {"id": {"type": "integer"}, "item": {"type": "string"}}
SCHEMA = json.dumps({"title": "Order", "type": "object", "properties": FIELDS})
# Another schema for Apicurio, which no consumer has yet.
NEWER = json.dumps({"title": "Order", "type": "object", "properties": FIELDS, "required": ["id"]})


def serializer(url: str, **config: Any) -> Any:
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.schema_registry.json_schema import JSONSerializer

    return JSONSerializer(SCHEMA, SchemaRegistryClient({"url": url}), conf=config)


def context(topic: str, part: str) -> Any:
    from confluent_kafka.serialization import SerializationContext

    return SerializationContext(topic, part)


def test_ids_are_those_of_the_target(make_pipeline: MakePipeline, registries: Registries) -> None:
    """Confluent's deserializer reads the target's records, which have the id of its registry."""
    from confluent_kafka.schema_registry.json_schema import JSONDeserializer

    pipeline = make_pipeline([])
    topic = create_topic(pipeline.source)
    pipeline.topics = [topic]
    write = serializer(registries.source.url)
    key_id = register(registries.target, f"{topic}-key", NEWER, "JSON")
    number = register(registries.target, f"{topic}-value", SCHEMA, "JSON")
    register(registries.target, f"{topic}-value", NEWER, "JSON")
    decoded = {"json": {"schema": "id BIGINT, item STRING", "schemaId": "enabled"}}
    rule = {
        "decode": {"key": decoded, "value": decoded},
        "filter": "value.id > 0",
        "set": {"value.item": "upper(value.item)", "headers.n": "string(10 / (value.id - 3))"},
        "encode": {
            "key": {"json": {"subject": f"{topic}-key"}},
            "value": {"json": {"subject": f"{topic}-value", "version": 1}},
        },
        "onError": "deadLetter",
    }
    pipeline.settings = {
        "replication.transform": [rule],
        "target.registry.config": {"schema.registry.url": registries.target.url},
    }
    orders: list[dict[str, Any]] = [{"id": n, "item": f"item {n}"} for n in range(5)]
    orders.append({"id": 5, "item": "\u00e9" * 600})  # longer than what PyArrow parses
    sent = [
        Out(write(order, context(topic, "value")), write({"id": n}, context(topic, "key")))
        for n, order in enumerate(orders)
    ]
    plain = Out(b'{"id": 6}', b"plain")
    short, wide = Out(b"\0\0", None), Out(b"\0" * 8 + b'\1{"id": 7}', None)
    produce(pipeline.source, topic, [*sent, Out(None, sent[0].key), plain, short, wide])
    assert (sent[1].value or b"")[:5] != b"\0" + number.to_bytes(4, "big")
    pipeline.catch_up()
    copies = read_all(pipeline.target, topic)
    assert {(got.value or b"")[:5] for got in copies} == {b"\0" + number.to_bytes(4, "big")}
    assert {(got.key or b"")[:5] for got in copies} == {b"\0" + key_id.to_bytes(4, "big")}
    assert [json.loads((got.key or b"")[5:]) for got in copies] == [{"id": n} for n in (1, 2, 4, 5)]
    read = JSONDeserializer(SCHEMA)
    report = k2ktui_json("compare", "-f", pipeline.write())
    assert (report["counts"], report["ignored"]) == ({"equal": 4, "never copied": 6}, {})
    values = [read(got.value, context(topic, "value")) for got in copies]
    assert values == [{**orders[n], "item": orders[n]["item"].upper()} for n in (1, 2, 4, 5)]
    letters = sorted(read_all(pipeline.target, f"{topic}.dead-letter"), key=origin_of)
    # As they were, with their own ids.
    originals = [sent[3], plain, short, wide]
    assert [(got.key, got.value) for got in letters] == [(o.key, o.value) for o in originals]
    causes = [dict(got.headers)["__k2k.error.cause"] or b"" for got in letters[1:]]
    assert causes[0].startswith(b"the key is not JSON of the schema")
    assert {cause[:38] for cause in causes[1:]} == {b"the value is not JSON of the schema id "[:38]}


def test_previews_show_the_json_after_ids(make_pipeline: MakePipeline) -> None:
    """Also the sample of an inferred schema."""
    pipeline = make_pipeline([])
    topic = create_topic(pipeline.source)
    pipeline.topics = [topic]
    produce(pipeline.source, topic, [Out(b"\0\0\0\1\xff" + b'{"id":1}'), Out(b"\0\0", b"k")])
    options = ("-f", pipeline.write(), "--topic", topic)
    inferred = k2ktui("transform", "schema", *options)
    assert inferred.stdout == (
        'decode: {value: {json: {schema: "id BIGINT", schemaId: enabled}}}\n'
    )
    assert 'offset 0: {"id":1}' in inferred.stderr
    assert k2ktui_json("transform", "schema", *options) == {
        **yaml.safe_load(inferred.stdout),
        "sample": [{"partition": 0, "offset": 0, "value": '{"id":1}'}],
    }
    rule = {
        "decode": yaml.safe_load(inferred.stdout)["decode"],
        "set": {"value.id": "value.id + 1"},
        "encode": {"value": "json"},
        "onError": "skip",
    }
    pipeline.settings = {"replication.transform": [rule]}
    pipeline.write()
    first, second = k2ktui_json("transform", "preview", *options)["records"]
    assert (first["before"]["value"], first["after"]["value"]) == ('{"id":1}', '{"id":2}')
    assert second["step"] == "decode.value" and second["after"] is None


def test_a_subject_must_have_a_json_schema(
    make_pipeline: MakePipeline, registries: Registries
) -> None:
    pipeline = make_pipeline([])
    topic = create_topic(pipeline.source)
    pipeline.topics = [topic]
    decoded = {"json": {"schema": "id BIGINT", "schemaId": "enabled"}}
    encoded = {"json": {"subject": f"{topic}-value"}}
    rule = {"decode": {"value": decoded}, "encode": {"value": encoded}}
    pipeline.settings = {
        "replication.transform": [rule],
        "target.registry.config": {"schema.registry.url": registries.target.url},
    }
    missing = k2ktui("start", "-f", pipeline.write(), "--until-caught-up", code=None)
    assert f"does not have subject {topic}-value" in missing.stderr and missing.returncode
    register(registries.target, f"{topic}-value", '{"type": "string"}')
    other = k2ktui("start", "-f", pipeline.write(), "--until-caught-up", code=None)
    assert f"subject {topic}-value in " in other.stderr and other.returncode
    assert "is not a JSON schema" in other.stderr
