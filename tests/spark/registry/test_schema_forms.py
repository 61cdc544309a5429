"""Every form of schema ids, from Confluent's serializers to its deserializers on the target."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from confluent_kafka.schema_registry import header_schema_id_serializer
from confluent_kafka.serialization import SerializationContext

from k2ktui.runtime.registry_node import RegistryNode
from tests.support.clusters.kafka import Out, create_topic, produce, read_all, unique_name
from tests.support.clusters.registries import (
    Registries,
    RegistryPair,
    content_id_of,
    own_ids,
    register,
)
from tests.support.clusters.registry_stand_in import two_stand_ins
from tests.support.commands.cli import k2ktui_json
from tests.support.pipelines.fixtures import MakePipeline
from tests.support.pipelines.schema_pipeline import mapping
from tests.support.records.protobuf_files import Shop
from tests.support.records.schemas import (
    KEY_SCHEMA,
    AvroWriter,
    ProtobufWriter,
    Reader,
    avro_reader,
    objects,
    order_schema,
    protobuf_reader,
)

pytestmark = pytest.mark.slow

COUNT = 40
_LONG_PREFIX = 9
MakeReader = Callable[[Any, str], Reader]


@dataclass(frozen=True)
class Form:
    """How the ids of a topic's records are written: its records, and who reads them.

    Attributes:
        write: returns the records of a topic.
        readers: returns the deserializers of a registry for a topic.
    """

    write: Callable[[str], list[Out]]
    readers: MakeReader


def copy_and_compare(
    make_pipeline: MakePipeline, registries: RegistryPair, *forms: Form, use_id: str = ""
) -> None:
    """The target's registry alone gives the objects of the source, from other bytes.

    ``use_id`` is the kind of 8-byte ids in both registries' settings.
    """
    pipeline = make_pipeline([])
    topics = {create_topic(pipeline.source, partitions=2): form for form in forms}
    pipeline.topics = list(topics)
    pipeline.settings = mapping(registries)
    for side in ("source", "target") if use_id else ():
        pipeline.settings[f"{side}.registry.config"]["apicurio.registry.use-id"] = use_id
    for topic, form in topics.items():
        produce(pipeline.source, topic, form.write(topic))
    pipeline.catch_up()
    for topic, form in topics.items():
        sent, landed = (read_all(node, topic) for node in (pipeline.source, pipeline.target))
        assert len(landed) == COUNT
        copied = objects(landed, form.readers(registries.target, topic))
        assert copied == objects(sent, form.readers(registries.source, topic))
        differ = [
            (got.key, got.headers) != (was.key, was.headers)
            and (got.value, got.headers) != (was.value, was.headers)
            for got, was in zip(landed, sent, strict=True)
        ]
        assert all(differ), "keys and values have other ids"
    verified = k2ktui_json("verify", "-f", pipeline.write(), "--sample", "5")
    assert verified["records"]["different"] == 0 and verified["records"]["same"] > 0


def id_in_header(payload: bytes, context: SerializationContext | None, schema_id: Any) -> bytes:
    """Put the byte 0 and the 4-byte id into Confluent's header, which its deserializers read."""
    assert context is not None and context.headers is not None
    context.headers.append((f"__{context.field}_schema_id", schema_id.id_to_bytes()))
    return payload


@dataclass(frozen=True)
class ApicurioIds:
    """Puts ids where Apicurio's serializers do, and takes them from there, of one registry.

    Confluent's serializers know content ids only.

    Attributes:
        registry: which one.
        kind: ``contentId`` or ``globalId``.
        in_header: whether they are in a header, else in 8 bytes of the payload.
    """

    registry: RegistryNode
    kind: str
    in_header: bool

    def put(self, payload: bytes, context: SerializationContext | None, schema_id: Any) -> bytes:
        """Put the id into the header or before the payload."""
        assert context is not None and context.headers is not None
        number: int = schema_id.id
        if self.kind == "globalId":
            number = own_ids(self.registry, f"{context.topic}-{context.field}")["globalId"]
        if not self.in_header:
            return b"\0" + number.to_bytes(8, "big") + payload
        context.headers.append((self._header(context), number.to_bytes(8, "big")))
        return payload

    def take(
        self, payload: bytes, context: SerializationContext | None, schema_id: Any
    ) -> io.BytesIO:
        """Take the id from the header or the payload."""
        assert context is not None and context.headers is not None
        data = payload[1:_LONG_PREFIX]
        if self.in_header:
            (data,) = (value for name, value in context.headers if name == self._header(context))
        else:
            payload = payload[_LONG_PREFIX:]
        schema_id.id = int.from_bytes(data, "big")
        if self.kind == "globalId":
            schema_id.id = content_id_of(self.registry, schema_id.id)
        return io.BytesIO(payload)

    def _header(self, context: SerializationContext) -> str:
        return f"apicurio.{context.field}.{self.kind}"


def avro_orders(registry: Any, id_in: Any) -> Callable[[str], list[Out]]:
    def write(topic: str) -> list[Out]:
        keys = AvroWriter(registry, KEY_SCHEMA, id_in)
        values = AvroWriter(registry, order_schema(), id_in)
        made = []
        for n in range(COUNT):
            headers: list[tuple[str, bytes]] = [("trace", b"%d" % n)]
            # Confluent's deserializers take fewer than 6 bytes for no registry's record.
            key = keys(topic, {"id": 2**60 + n}, "key", headers)
            value = values(topic, {"id": n, "item": f"item {n}"}, "value", headers)
            made.append(Out(value, key, n % 2, tuple(headers)))
        return made

    return write


def apicurio(registries: Registries, kind: str) -> list[Form]:
    """Ids of that kind in a header, and in 8 bytes of the payload."""

    def form(in_header: bool) -> Form:
        def read(registry: RegistryNode, topic: str) -> Reader:
            return avro_reader(registry, topic, ApicurioIds(registry, kind, in_header).take)

        ids = ApicurioIds(registries.source, kind, in_header)
        return Form(avro_orders(registries.source, ids.put), read)

    # The same schemas of another subject: from now on, global ids differ from content ids.
    for schema in (KEY_SCHEMA, order_schema()):
        register(registries.source, unique_name("twin"), schema)
    return [form(in_header=True), form(in_header=False)]


def test_content_ids(make_pipeline: MakePipeline, registries: Registries) -> None:
    """In Confluent's headers, where they have four bytes, and where Apicurio has them."""
    confluent = Form(avro_orders(registries.source, id_in_header), avro_reader)
    forms = [confluent, *apicurio(registries, "contentId")]
    copy_and_compare(make_pipeline, registries, *forms, use_id="contentId")


def test_global_ids(make_pipeline: MakePipeline, registries: Registries) -> None:
    forms = apicurio(registries, "globalId")
    copy_and_compare(make_pipeline, registries, *forms, use_id="globalId")


def test_guids_in_headers(make_pipeline: MakePipeline) -> None:
    """Between stand-ins of Confluent's registry: Apicurio Registry has no GUIDs."""
    with two_stand_ins() as pair:
        avro = Form(avro_orders(pair.source, header_schema_id_serializer), avro_reader)
        copy_and_compare(make_pipeline, pair, avro, protobuf_guids(pair))


def protobuf_guids(pair: RegistryPair) -> Form:
    """The indexes of the message follow the GUID."""
    shop = Shop()
    key, value = shop.message("Key"), shop.message("Refund")

    def write(topic: str) -> list[Out]:
        keys, values = (
            ProtobufWriter(pair.source, schema, header_schema_id_serializer)
            for schema in (key, value)
        )
        made = []
        for n in range(COUNT):
            headers: list[tuple[str, bytes]] = []
            made_key = keys(topic, key(id=2**60 + n), "key", headers)
            total = shop.money(cents=n + 1, currency="EUR")
            made_value = values(topic, value(id=n, total=total), "value", headers)
            made.append(Out(made_value, made_key, n % 2, tuple(headers)))
        return made

    def read(registry: Any, topic: str) -> Reader:
        return protobuf_reader(registry, topic, key, value)

    return Form(write, read)
