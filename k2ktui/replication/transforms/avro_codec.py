"""Decodes Avro values into Arrow columns, and encodes columns as Avro; for tasks and the driver."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from hashlib import sha256
from io import BytesIO
from typing import TYPE_CHECKING, Any

from k2ktui.engine.schemas.ids import SchemaId, SchemaIdForm
from k2ktui.engine.schemas.model import AVRO, Schema
from k2ktui.registry.lookup_limit import LookupLimit
from k2ktui.replication.transforms.avro_schema import AvroSchema, find_conflict, parse_schema
from k2ktui.replication.transforms.avro_types import AvroType, make_type
from k2ktui.replication.transforms.columns import encode_column, make_column

if TYPE_CHECKING:
    import pyarrow as pa

    from k2ktui.registry.client import RegistryClient
    from k2ktui.registry.settings import RegistrySettings

_MAGIC, _PREFIX = 0, 5
_DEEPEST = 100


@dataclass(frozen=True)
class AvroCodec:
    """Decodes and encodes Avro.

    Attributes:
        schema: the schema of the column.
        registry: has the writer's schema of the id before each value that is decoded; None if these
            have no id, and the writer's schema is that of the column.
        prefix: what stands before each value that is encoded: nothing, or the schema's id.
    """

    schema: AvroSchema
    registry: RegistrySettings | None = None
    prefix: bytes = b""

    @property
    def type(self) -> AvroType:
        """The column's type."""
        return _type(self.schema)

    def decode(self, values: pa.BinaryArray, limit: LookupLimit | None = None) -> pa.Array:
        """Return a value for each; null where it is null or cannot be decoded."""
        made, reader = _type(self.schema), _parse(self.schema)
        writers = None
        if self.registry is not None:
            writers = _Writers(self.registry, self.schema, limit or LookupLimit())
        decoded = [_read(value, made, reader, writers) for value in values.to_pylist()]
        return make_column(decoded, made.arrow)

    def encode(self, column: pa.Array) -> tuple[list[bytes | None], list[int]]:
        """Return the bytes of each value, and the rows that cannot be encoded."""
        import fastavro

        made, writer = _type(self.schema), _parse(self.schema)

        def write(value: Any) -> bytes:
            data = BytesIO()
            data.write(self.prefix)
            fastavro.schemaless_writer(data, writer, made.dump(value))
            return data.getvalue()

        return encode_column(column, write)


def _read(value: bytes | None, made: AvroType, reader: Any, writers: _Writers | None) -> Any:
    if value is None:
        return None
    if writers is None:
        return _decode(value, 0, reader, reader, made)
    if len(value) < _PREFIX or value[0] != _MAGIC:
        return None
    writer = writers[int.from_bytes(value[1:_PREFIX], "big")]
    return None if writer is None else _decode(value, _PREFIX, writer, reader, made)


def _decode(value: bytes, start: int, writer: Any, reader: Any, made: AvroType) -> Any:
    import fastavro

    data = BytesIO(value)
    data.seek(start)
    try:
        decoded = fastavro.schemaless_reader(data, writer, None if writer is reader else reader)
        # What is left over was written with another schema.
        if data.tell() != len(value):
            return None
        return decoded if made.load is None else made.load(decoded)
    except Exception:  # any bytes are possible, and so is any error of the library
        return None


class _Writers(dict[int, Any]):
    """Schemas of writers by id, as Avro's library takes them; None for what cannot be read.

    A registry is asked once for what it does not have, or has with another type.
    """

    def __init__(self, settings: RegistrySettings, reader: AvroSchema, limit: LookupLimit) -> None:
        super().__init__()
        self._registry, self._reader, self._limit = _registry(settings), reader, limit

    def __missing__(self, schema_id: int) -> Any:
        schema = self._registry.known.get(schema_id)
        if schema is None:
            schema = self._limit.ask(lambda: self._registry.find(schema_id))
        usable = schema is not None and _fits(schema, self._reader)
        self[schema_id] = _parse(schema) if usable else None
        return self[schema_id]


@dataclass(frozen=True)
class _Registry:
    """A registry's client, and the schemas that it has found; micro-batches share them."""

    settings: RegistrySettings
    known: dict[int, AvroSchema] = field(default_factory=dict)

    @cached_property
    def client(self) -> RegistryClient:
        """Its client, made when the first schema is looked up."""
        from k2ktui.registry.client import RegistryClient  # not for workers without a registry

        return RegistryClient(self.settings)

    def find(self, schema_id: int) -> AvroSchema | None:
        """Return the schema of an id; None if there is none that is Avro."""
        from k2ktui.registry.id_lookup import read_schema  # not for workers without a registry

        schema = read_schema(self.client, SchemaId(SchemaIdForm.PREFIX, schema_id))
        avro_schema = None if schema is None else read_avro_schema(self.client, schema)
        if avro_schema is not None:
            self.known[schema_id] = avro_schema
        return avro_schema


# Of a worker process; laps that follow find what was found.
_registries: dict[str, _Registry] = {}


def _registry(settings: RegistrySettings) -> _Registry:
    name = sha256(pickle.dumps(settings)).hexdigest()
    if name not in _registries:
        _registries[name] = _Registry(settings)
    return _registries[name]


def read_avro_schema(client: RegistryClient, schema: Schema) -> AvroSchema | None:
    """Return a schema after those that it refers to; None if it is not a usable Avro schema."""
    if schema.type != AVRO:
        return None
    texts: list[str] = []
    _add_texts(client.version, schema, texts, 0)
    avro_schema = AvroSchema(tuple(texts))
    try:
        _parse(avro_schema)
    except ValueError:
        return None
    return avro_schema


def _add_texts(
    version: Callable[[str, int], Any], schema: Schema, texts: list[str], depth: int
) -> None:
    for reference in schema.references:
        referred = version(reference.subject, reference.version)
        if referred is not None and depth < _DEEPEST and referred.schema.text not in texts:
            _add_texts(version, referred.schema, texts, depth + 1)
    texts.append(schema.text)


@lru_cache(1024)
def _type(schema: AvroSchema) -> AvroType:
    return make_type(schema)


@lru_cache(1024)
def _fits(writer: AvroSchema, reader: AvroSchema) -> bool:
    """Return whether numbers mean the same to both; false if their types are too many."""
    try:
        return not find_conflict(writer, reader)
    except (RecursionError, ValueError):
        return False


@lru_cache(1024)
def _parse(schema: AvroSchema) -> Any:
    return parse_schema(schema)
