"""Records as applications with a schema registry write and read them: by Confluent's classes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from confluent_kafka.schema_registry import (
    SchemaRegistryClient,
    dual_schema_id_deserializer,
    prefix_schema_id_serializer,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from tests.support.clusters.kafka import Got
from tests.support.clusters.registries import ANSWER_S, HasUrl

FIELDS = {MessageField.KEY: "key", MessageField.VALUE: "value"}


def order_schema(*more: str) -> str:
    """Return the Avro schema of an order; ``more`` are optional text fields of later versions."""
    fields: list[dict[str, Any]] = [
        {"name": "id", "type": "long"},
        {"name": "item", "type": "string"},
        *({"name": name, "type": ["null", "string"], "default": None} for name in more),
    ]
    return json.dumps({"type": "record", "name": "Order", "namespace": "shop", "fields": fields})


KEY_SCHEMA = json.dumps(
    {"type": "record", "name": "OrderKey", "fields": [{"name": "id", "type": "long"}]}
)
INVOICE_SCHEMA = json.dumps(
    {
        "title": "Invoice",
        "type": "object",
        "properties": {"id": {"type": "integer"}, "total": {"type": "number"}},
    }
)


def registry_client(url: str) -> SchemaRegistryClient:
    """Return Confluent's client of a registry.

    It asks for associations, which Apicurio Registry does not know: of some 3,000 such requests on
    a busy machine, one got no answer, with all of the registry's threads idle. Without a time
    limit, this client would wait for ever; with one, it asks again.
    """
    return SchemaRegistryClient({"url": url, "timeout": ANSWER_S})


class AvroWriter:
    """Serializes objects of one Avro schema, which it registers, as an application does.

    ``id_in`` is Confluent's function, or one like it, that puts the id into payload or header.
    """

    def __init__(
        self, registry: HasUrl, schema: str, id_in: Any = prefix_schema_id_serializer
    ) -> None:
        settings = {"schema.id.serializer": id_in}
        self._serialize: Any = AvroSerializer(registry_client(registry.url), schema, conf=settings)

    def __call__(
        self,
        topic: str,
        value: Any,
        field: str = "value",
        headers: list[tuple[str, bytes]] | None = None,
    ) -> bytes:
        """Return the key or value of a record; its id may be added to ``headers``."""
        context = SerializationContext(topic, MessageField(field), headers)
        data = self._serialize(dict(value) if isinstance(value, Mapping) else value, context)
        assert isinstance(data, bytes)
        return data


class JsonWriter(AvroWriter):
    """Serializes objects of one JSON schema."""

    def __init__(self, registry: HasUrl, schema: str) -> None:
        self._serialize = JSONSerializer(schema, registry_client(registry.url))


class ProtobufWriter(AvroWriter):
    """Serializes messages of one class."""

    def __init__(
        self, registry: HasUrl, message: Any, id_in: Any = prefix_schema_id_serializer
    ) -> None:
        settings = {"schema.id.serializer": id_in}
        self._serialize = ProtobufSerializer(message, registry_client(registry.url), settings)


Reader = Callable[[Got], Any]


def avro_reader(registry: HasUrl, topic: str, id_from: Any = dual_schema_id_deserializer) -> Reader:
    """Return a function of a record to its key and value as objects, by one registry only.

    ``id_from`` is Confluent's function, or one like it, that takes the id from payload or header.
    """
    settings = {"schema.id.deserializer": id_from}
    return _reader(AvroDeserializer(registry_client(registry.url), conf=settings), topic)


def json_reader(registry: HasUrl, topic: str) -> Reader:
    """Return a function like :func:`avro_reader` for values with JSON schemas."""
    return _reader(
        JSONDeserializer(None, schema_registry_client=registry_client(registry.url)), topic
    )


def protobuf_reader(registry: HasUrl, topic: str, key: Any, value: Any) -> Reader:
    """Return a function like :func:`avro_reader` for messages of these classes."""
    client = registry_client(registry.url)
    read_key, read_value = (ProtobufDeserializer(payload, {}, client) for payload in (key, value))

    def deserialize(data: bytes, context: SerializationContext) -> str:
        read = read_key if context.field == MessageField.KEY else read_value
        return str(read(data, context))

    return _reader(deserialize, topic)


def _reader(deserialize: Any, topic: str) -> Reader:
    def read(got: Got) -> Any:
        parts = ((got.key, MessageField.KEY), (got.value, MessageField.VALUE))
        headers = list(got.headers)
        in_headers = any("schema_id" in name or "apicurio" in name for name, _ in headers)
        return tuple(
            data
            if data is None or (data[:1] != b"\0" and not in_headers)
            else deserialize(data, SerializationContext(topic, field, headers))
            for data, field in parts
        )

    return read


def objects(records: Iterable[Got], read: Reader) -> dict[int, list[Any]]:
    """Return the objects of each partition in the order of their offsets."""
    objects: dict[int, list[Any]] = {}
    for got in sorted(records, key=lambda got: (got.partition, got.offset)):
        objects.setdefault(got.partition, []).append(read(got))
    return objects
