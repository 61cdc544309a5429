"""Protobuf in transforms: what the target gets, with and without a schema's id."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.proof.test_transform_faults import origin_of
from tests.spark.transforms.test_transform_avro import topic_of
from tests.support.clusters.kafka import Got, Out, create_topic, produce, read_all
from tests.support.clusters.registries import HasUrl, Registries, register
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.oracle.judge import Expected, prove
from tests.support.pipelines.fixtures import MakePipeline
from tests.support.pipelines.pipeline import Pipeline
from tests.unit.transforms.test_protobuf_codec import FIELD, add, add_optional, schema

pytestmark = pytest.mark.slow
pytest.importorskip("pyarrow")  # of the extra ``transform``
descriptor_pb2 = pytest.importorskip("google.protobuf.descriptor_pb2")  # of ``protobuf``

PROTO = """\
syntax = "proto3";
package shop;
message Other { string x = 1; }
message Order { int64 id = 1; string item = 2; repeated string tags = 3; optional int32 count = 4; }
"""


def order_file() -> Any:
    """The descriptor of PROTO."""
    file = descriptor_pb2.FileDescriptorProto(name="order.proto", package="shop", syntax="proto3")
    add(file.message_type.add(name="Other"), "x", FIELD.TYPE_STRING)
    order = file.message_type.add(name="Order")
    add(order, "id", FIELD.TYPE_INT64)
    add(order, "item", FIELD.TYPE_STRING)
    add(order, "tags", FIELD.TYPE_STRING, repeated=True)
    add_optional(order, "count", FIELD.TYPE_INT32)
    return file


def order_class() -> Any:
    from k2ktui.replication.transforms.protobuf_types import read_message_class

    return read_message_class(schema(file=order_file()).descriptors, "shop.Order")


Order = order_class()
SOURCE = {"schemaFile": "order.desc", "message": "shop.Order"}


def order(number: int) -> Any:
    more = {"count": number} if number % 2 else {}
    return Order(id=number, item=f"item {number}", tags=["a", "b"][: number % 3], **more)


@pytest.fixture
def protobuf_pipeline(make_pipeline: MakePipeline, tmp_path: Path) -> Pipeline:
    """A pipeline of one topic, with the descriptors beside its file."""
    pipeline = make_pipeline([])
    pipeline.topics = [create_topic(pipeline.source, partitions=2)]
    (tmp_path / "order.desc").write_bytes(schema(file=order_file()).descriptors)
    return pipeline


def test_messages_are_filtered_and_changed(protobuf_pipeline: Pipeline) -> None:
    """Each record has its one copy, and those that cannot be decoded are dead letters."""
    pipeline, topic = protobuf_pipeline, topic_of(protobuf_pipeline)
    rule = {
        "decode": {"value": {"protobuf": SOURCE}},
        "filter": "value.id > 3",
        "set": {"value.item": "upper(value.item)", "value.count": "value.count + size(value.tags)"},
        "onError": "deadLetter",
    }
    pipeline.settings = {"replication.transform": [rule]}
    records = [Out(order(n).SerializeToString(), b"k%d" % n, n % 2) for n in range(60)]
    records[7] = Out(b"\xff", b"bad", 1)
    records[8] = Out(order(8).SerializeToString() + b"\x48\x01", b"newer", 0)
    produce(pipeline.source, topic, [*records, Out(None, b"deleted", 1)])
    shown = k2ktui_json(
        *("transform", "preview", "-f", pipeline.write(), "--topic", topic, "--limit", "60")
    )["records"]
    assert '"item": "item 10"' in next(
        record["before"]["value"] for record in shown if record["before"]["key"] == "k10"
    )
    pipeline.catch_up()

    def is_copied(got: Got) -> bool:
        if got.value is None or got.key in (b"bad", b"newer"):
            return False
        return bool(Order.FromString(got.value).id > 3)

    def changed(got: Got) -> bytes:
        order = Order.FromString(got.value)
        order.item = order.item.upper()
        if order.HasField("count"):
            order.count += len(order.tags)
        value: bytes = order.SerializeToString(deterministic=True)
        return value

    expected = Expected(topic, value=changed, copied=is_copied)
    prove(pipeline.source, pipeline.target, pipeline.name, expected)
    letters = sorted(read_all(pipeline.target, f"{topic}.dead-letter"), key=origin_of)
    assert [got.key for got in letters] == [b"newer", b"bad"]
    cause = dict(letters[0].headers)["__k2k.error.cause"] or b""
    assert b"the value is not Protobuf of the schema (message shop.Order" in cause


def test_ids_are_those_of_the_target(protobuf_pipeline: Pipeline, registries: Registries) -> None:
    """Confluent's deserializer reads the target's records, which have the id of its registry."""
    from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    pipeline, topic = protobuf_pipeline, topic_of(protobuf_pipeline)
    number = register(registries.target, f"{topic}-value", PROTO, "PROTOBUF")
    newer = PROTO.replace("count = 4;", "count = 4; string more = 5;")
    assert register(registries.target, f"{topic}-value", newer, "PROTOBUF") != number
    rule = {
        "decode": {"value": {"protobuf": {**SOURCE, "schemaId": "enabled"}}},
        "set": {"value.id": "value.id + 1"},
        "encode": {"value": {"protobuf": {"subject": f"{topic}-value", "version": 1}}},
    }
    pipeline.settings = {
        "replication.transform": [rule],
        "target.registry.config": {"schema.registry.url": registries.target.url},
    }
    framed = b"\0\0\0\0\7\x02\x02"  # id 7, the second message
    produce(pipeline.source, topic, [Out(framed + order(n).SerializeToString()) for n in range(5)])
    pipeline.catch_up()
    copies = read_all(pipeline.target, topic)
    assert {(got.value or b"")[:7] for got in copies} == {
        b"\0" + number.to_bytes(4, "big") + b"\x02\x02"
    }
    deserialize = ProtobufDeserializer(Order, {"use.deprecated.format": False})
    context = SerializationContext(topic, MessageField.VALUE)
    ids = sorted(deserialize(got.value, context).id for got in copies)
    assert ids == [1, 2, 3, 4, 5]
    report = k2ktui_json("compare", "-f", pipeline.write())
    assert (report["counts"], report["ignored"]) == ({"equal": 5}, {})

    rule["encode"] = {"value": {"protobuf": {"subject": f"{topic}-nosuch"}}}
    refused = k2ktui("start", "-f", pipeline.write(), "--until-caught-up", code=None)
    assert f"does not have subject {topic}-nosuch" in refused.stderr


MONEY = 'syntax = "proto3"; package shop; message Money { int64 units = 1; }'
PRICED = """\
syntax = "proto3";
package shop;
import "money.proto";
import "google/protobuf/timestamp.proto";
message Other { string x = 1; }
message Priced { int64 id = 1; Money price = 2; google.protobuf.Timestamp at = 3; }
"""


def register_priced(registry: HasUrl, topic: str, text: str = PRICED) -> int:
    """Register PRICED with its import and return its id."""
    register(registry, f"{topic}-money", MONEY, "PROTOBUF")
    imported = {"name": "money.proto", "subject": f"{topic}-money", "version": 1}
    return register(registry, f"{topic}-value", text, "PROTOBUF", [imported])


def test_a_message_of_a_registry(protobuf_pipeline: Pipeline, registries: Registries) -> None:
    """Its text and that of its import are compiled at the start; ids are those of the target."""
    pytest.importorskip("grpc_tools")  # of the extra ``protobuf-registry``
    pipeline, topic = protobuf_pipeline, topic_of(protobuf_pipeline)
    number = register_priced(registries.source, topic)
    there = register_priced(registries.target, topic)
    assert number != there
    subject = {"subject": f"{topic}-value"}
    rule = {
        "decode": {"value": {"protobuf": {**subject, "message": "shop.Priced"}}},
        "filter": "value.price.units > 1 AND value.at.seconds = 5",
        "set": {"value.price.units": "value.price.units * 2"},
        "encode": {"value": {"protobuf": subject}},
        "onError": "skip",
    }
    pipeline.settings = {
        "replication.transform": [rule],
        "source.registry.config": {"schema.registry.url": registries.source.url},
        "target.registry.config": {"schema.registry.url": registries.target.url},
    }
    # The message in bytes: id, price {units}, at {seconds: 5}.
    values = [b"\x08%c\x12\x02\x08%c\x1a\x02\x08\5" % (n, n) for n in range(1, 5)]
    framed = b"\0" + number.to_bytes(4, "big") + b"\x02\x02"  # the second message
    produce(pipeline.source, topic, [Out(framed + value) for value in values])
    produce(pipeline.source, topic, [Out(values[2]), Out(framed[:5] + b"\0" + values[2])])
    pipeline.catch_up()
    copied = sorted(got.value or b"" for got in read_all(pipeline.target, topic))
    prefix = b"\0" + there.to_bytes(4, "big") + b"\x02\x02"
    assert copied == [
        prefix + b"\x08%c\x12\x02\x08%c\x1a\x02\x08\5" % (n, 2 * n) for n in (2, 3, 4)
    ]

    register(registries.source, f"{topic}-avro", '{"type": "string"}')
    for source, why in (
        ({**subject, "message": "shop.Nosuch"}, "it does not have the message shop.Nosuch"),
        ({"subject": f"{topic}-avro", "message": "M"}, "is not a Protobuf schema"),
        (
            {"subject": f"{topic}-nosuch", "message": "M"},
            f"does not have message M, subject {topic}",
        ),
    ):
        rule["decode"] = {"value": {"protobuf": source}}
        refused = k2ktui("start", "-f", pipeline.write(), "--until-caught-up", code=None)
        assert why in refused.stderr and refused.returncode


def test_an_unusable_message_is_refused(protobuf_pipeline: Pipeline) -> None:
    pipeline = protobuf_pipeline
    for source, why in (
        ({**SOURCE, "message": "shop.Nosuch"}, "it does not have the message shop.Nosuch"),
        ({**SOURCE, "schemaFile": "nosuch.desc"}, "nosuch.desc cannot be read"),
    ):
        pipeline.settings = {"replication.transform": [{"decode": {"value": {"protobuf": source}}}]}
        refused = k2ktui("start", "-f", pipeline.write(), "--until-caught-up", code=None)
        assert why in refused.stderr
