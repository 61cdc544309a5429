"""Decode keys and values with the schemas that a registry has under the ids in them.

Both the data and the schemas are untrusted: what could take memory or depth without bytes for it
is not decoded.
"""

from __future__ import annotations

import importlib
import json
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from io import BytesIO
from typing import Any

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.schemas.ids import (
    IN_PAYLOAD,
    Header,
    SchemaId,
    SchemaIdForm,
    SchemaPart,
    describe_schema_id,
    encode_schema_id,
    find_schema_ids,
)
from k2ktui.engine.schemas.model import AVRO, JSON, PROTOBUF, Schema
from k2ktui.errors import K2kError, install_command
from k2ktui.registry.client import RegistryClient
from k2ktui.registry.id_lookup import read_schema
from k2ktui.registry.settings import Side, read_registry_settings
from k2ktui.replication.transforms.avro_codec import read_avro_schema
from k2ktui.replication.transforms.avro_schema import parse_schema
from k2ktui.replication.transforms.protobuf_compiler import collect_files, compile_files
from k2ktui.replication.transforms.protobuf_types import read_index_path, read_message_class

log = logging.getLogger(__name__)

#: Larger keys and values are not decoded.
LARGEST_BYTES = 4 << 20

_Decode = Callable[[bytes], str]


class NotDecoded(Exception):
    """Why bytes with a schema id are not decoded; the text is not safe to print yet."""


class SchemaDecoder:
    """Decodes what one cluster's records hold; a context manager that disconnects at the end.

    Connects when the first id is found; a registry that does not answer is not asked again.

    Args:
        config: the pipeline.
        side: whose registry has the schemas.
    """

    def __init__(self, config: PipelineConfig, side: Side) -> None:
        self._config = config
        self._side = side
        self._client: RegistryClient | None = None
        self._decoders: dict[SchemaId, _Decode | NotDecoded] = {}
        self._trouble = ""

    def __enter__(self) -> SchemaDecoder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Disconnect."""
        if self._client is not None:
            self._client.close()

    def decode(self, part: SchemaPart, data: bytes, headers: Sequence[Header]) -> str | None:
        """Return a key or value as JSON; None if it has no schema id.

        Raises:
            NotDecoded: it has one, and cannot be decoded.
        """
        ids = find_schema_ids(part, data, headers)
        if not ids:
            return None
        if len(data) > LARGEST_BYTES:
            raise NotDecoded(f"more than {LARGEST_BYTES >> 20} MiB are not decoded")
        decode = self._find(ids[0])
        prefix = len(encode_schema_id(ids[0])) if ids[0].form in IN_PAYLOAD else 0
        try:
            return decode(data[prefix:])
        except NotDecoded:
            raise
        except Exception as error:  # any bytes are possible, and so is any error of the libraries
            # The error's text may quote the record.
            log.debug("decoding with schema id %s: %s", ids[0], type(error).__name__)
            shown = describe_schema_id(ids[0])
            raise NotDecoded(f"it was not written with the schema of id {shown}") from error

    def _find(self, schema_id: SchemaId) -> _Decode:
        if schema_id not in self._decoders:
            self._decoders[schema_id] = self._make(schema_id)
        decoder = self._decoders[schema_id]
        if isinstance(decoder, NotDecoded):
            raise decoder
        return decoder

    def _make(self, schema_id: SchemaId) -> _Decode | NotDecoded:
        if self._trouble:
            return NotDecoded(self._trouble)
        try:
            if self._client is None:
                cluster = getattr(self._config, self._side)
                self._client = RegistryClient(read_registry_settings(cluster, self._side))
            client = self._client
            schema = read_schema(client, schema_id)
            if schema is None:
                shown = describe_schema_id(schema_id)
                return NotDecoded(f"schema id {shown} is not in {client.address}")
            return _make_decoder(client, schema, schema_id.form)
        except NotDecoded as error:
            return error
        except K2kError as error:
            self._trouble = error.message
            return NotDecoded(error.message)


def _make_decoder(client: RegistryClient, schema: Schema, form: SchemaIdForm) -> _Decode:
    """Return what decodes a schema's data.

    Raises:
        NotDecoded: nothing does.
    """
    if schema.type == JSON:
        return lambda data: json.dumps(json.loads(data), ensure_ascii=False)
    if schema.type == AVRO:
        _require("fastavro", "avro")
        return _avro_decoder(client, schema)
    if schema.type == PROTOBUF and form is SchemaIdForm.PREFIX:
        _require("grpc_tools", "protobuf-registry")
        return _protobuf_decoder(client, schema)
    raise NotDecoded(f"schemas of type {schema.type} are not decoded here")


def _require(module: str, extra: str) -> None:
    try:
        importlib.import_module(module)
    except ImportError as error:
        raise NotDecoded(f"to decode it: {install_command(extra)}") from error


def _avro_decoder(client: RegistryClient, schema: Schema) -> _Decode:
    import fastavro

    avro_schema = read_avro_schema(client, schema)
    if avro_schema is None:
        raise NotDecoded("its schema is not a usable Avro schema")
    parsed = parse_schema(avro_schema)
    _require_bounded(parsed, {}, ())

    def decode(data: bytes) -> str:
        stream = BytesIO(data)
        value = fastavro.schemaless_reader(stream, parsed, None)
        if stream.tell() != len(data):
            raise ValueError("bytes are left over")
        return json.dumps(value, ensure_ascii=False, default=_bytes_text)

    return decode


def _bytes_text(value: Any) -> str:
    """Return bytes as Avro's JSON encoding has them: a character for each."""
    return bytes(value).decode("latin-1")


def _require_bounded(schema: Any, named: dict[str, bool], opened: tuple[str, ...]) -> bool:
    """Return whether values of an Avro schema may have no bytes.

    Raises:
        NotDecoded: a few bytes could become any number of values, or any depth.
    """
    if isinstance(schema, list):
        for branch in schema:
            _require_bounded(branch, named, opened)
        return False
    kind = schema["type"] if isinstance(schema, dict) else schema
    if isinstance(kind, (dict, list)):
        return _require_bounded(kind, named, opened)
    if kind in opened:
        raise NotDecoded("its schema contains itself")
    if kind in named:
        return named[kind]
    if kind in ("array", "map"):
        inner = _require_bounded(schema["items" if kind == "array" else "values"], named, opened)
        if kind == "array" and inner:
            raise NotDecoded("its schema has an array of values without bytes")
        return False
    if kind in ("record", "error"):
        name = schema["name"]
        fields = [
            _require_bounded(field["type"], named, (*opened, name)) for field in schema["fields"]
        ]
        named[name] = all(fields)
        return named[name]
    if kind == "fixed":
        named[schema["name"]] = schema["size"] == 0
        return named[schema["name"]]
    return bool(kind == "null")


def _protobuf_decoder(client: RegistryClient, schema: Schema) -> _Decode:
    from google.protobuf import descriptor_pb2, json_format

    try:
        main, files = collect_files(schema, client.version)
        descriptors = compile_files(main, files)
    except ValueError as error:
        raise NotDecoded(f"its schema cannot be compiled: {error}") from error
    file_set = descriptor_pb2.FileDescriptorSet.FromString(descriptors)
    file = next(file for file in file_set.file if file.name == main)

    def decode(data: bytes) -> str:
        path, start = read_index_path(data, 0)
        messages, names = file.message_type, [file.package] if file.package else []
        for index in path:
            names.append(messages[index].name)
            messages = messages[index].nested_type
        made = read_message_class(descriptors, ".".join(names))
        message = made.FromString(data[start:])
        return str(
            json_format.MessageToJson(message, indent=None, preserving_proto_field_name=True)
        )

    return decode


@contextmanager
def open_decoders(config: PipelineConfig) -> Iterator[dict[str, SchemaDecoder]]:
    """Yield the decoder of each cluster that names a registry."""
    sides: tuple[Side, ...] = ("source", "target")
    named = [side for side in sides if getattr(config, side).registry.config]
    with ExitStack() as stack:
        yield {side: stack.enter_context(SchemaDecoder(config, side)) for side in named}
