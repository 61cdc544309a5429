"""Records as applications with a schema registry write and read them: by Confluent's classes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from k2ktui.runtime.registry_node import RegistryNode
from tests.support.kafka import Got

FIELDS = {MessageField.KEY: "key", MessageField.VALUE: "value"}


def order_schema(*more: str) -> str:
    """Return the Avro schema of an order; ``more`` are optional text fields of later versions."""
    fields: list[dict[str, Any]] = [
        {"name": "id", "type": "long"},
        {"name": "item", "type": "string"},
        *({"name": each, "type": ["null", "string"], "default": None} for each in more),
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


def registry_client(registry: RegistryNode) -> SchemaRegistryClient:
    """Return Confluent's client of a registry."""
    return SchemaRegistryClient({"url": registry.url})


class AvroWriter:
    """Serializes objects of one Avro schema, which it registers, as an application does."""

    def __init__(self, registry: RegistryNode, schema: str) -> None:
        self._serialize = AvroSerializer(registry_client(registry), schema)

    def __call__(self, topic: str, value: Mapping[str, Any], field: str = "value") -> bytes:
        """Return the key or value of a record."""
        found = self._serialize(dict(value), SerializationContext(topic, MessageField(field)))
        assert isinstance(found, bytes)
        return found


class JsonWriter(AvroWriter):
    """Serializes objects of one JSON schema."""

    def __init__(self, registry: RegistryNode, schema: str) -> None:
        self._serialize = JSONSerializer(schema, registry_client(registry))


Reader = Callable[[Got], Any]


def avro_reader(registry: RegistryNode, topic: str) -> Reader:
    """Return a function of a record to its key and value as objects, by one registry only."""
    deserialize = AvroDeserializer(registry_client(registry))
    return _reader(deserialize, topic)


def json_reader(registry: RegistryNode, topic: str) -> Reader:
    """Return a function like :func:`avro_reader` for values with JSON schemas."""
    return _reader(JSONDeserializer(None, schema_registry_client=registry_client(registry)), topic)


def _reader(deserialize: Any, topic: str) -> Reader:
    def read(got: Got) -> Any:
        parts = ((got.key, MessageField.KEY), (got.value, MessageField.VALUE))
        return tuple(
            data
            if data is None or data[:1] != b"\0"
            else deserialize(data, SerializationContext(topic, field))
            for data, field in parts
        )

    return read


def objects(records: Iterable[Got], read: Reader) -> dict[int, list[Any]]:
    """Return the objects of each partition in the order of their offsets."""
    found: dict[int, list[Any]] = {}
    for got in sorted(records, key=lambda got: (got.partition, got.offset)):
        found.setdefault(got.partition, []).append(read(got))
    return found
