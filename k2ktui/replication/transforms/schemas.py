"""The schemas of a pipeline's transforms: from files and registries, read once."""

from __future__ import annotations

import importlib.util
import threading
from dataclasses import dataclass
from pathlib import Path

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.schemas.ids import SchemaId, SchemaIdForm, encode_schema_id
from k2ktui.engine.schemas.model import AVRO, JSON, PROTOBUF, Schema, SchemaVersion, record_names
from k2ktui.engine.schemas.subjects import TopicRule, map_subject
from k2ktui.engine.transforms.model import WITH_SCHEMA, Format, SchemaSource, Transform, plan_steps
from k2ktui.errors import ConfigError, NotInstalled, Refused, install_command
from k2ktui.registry.client import RegistryClient
from k2ktui.registry.id_lookup import id_of_version
from k2ktui.registry.mapper import SchemaMapperSettings, read_mapper_settings
from k2ktui.registry.registering import SchemaNotRegistered, require_schema
from k2ktui.registry.settings import RegistrySettings, Side, read_registry_settings
from k2ktui.replication.transforms.avro_codec import AvroCodec, read_avro_schema
from k2ktui.replication.transforms.avro_schema import AvroSchema
from k2ktui.replication.transforms.avro_types import make_type
from k2ktui.replication.transforms.codec_batches import Codecs
from k2ktui.replication.transforms.columns import ValueCodec
from k2ktui.replication.transforms.protobuf_codec import (
    MessageSchema,
    ProtobufCodec,
)
from k2ktui.replication.transforms.protobuf_compiler import collect_files, compile_files
from k2ktui.text import safe_message, safe_text

_PARTS = ("key", "value")
_NOTHING = "Nothing was copied."
_LARGEST_FILE = 1 << 20
_KINDS = {PROTOBUF: "Protobuf", JSON: "JSON"}


@dataclass(frozen=True)
class _LoadedSchema:
    """A schema, and its version in the registry if it is from one."""

    schema: AvroSchema
    version: SchemaVersion | None = None


class TransformSchemas:
    """Finds the schemas of transforms; what was found stays the same while it exists.

    Thread-safe. Nothing is read before it is needed.

    Args:
        config: the pipeline.
        registers: whether a schema that the target's registry lacks may be registered, if
            ``schemaMapping.autoRegister`` is enabled.
    """

    def __init__(self, config: PipelineConfig, *, registers: bool = True) -> None:
        self._config = config
        self._registers = registers and config.schema_mapping.auto_register
        self._lock = threading.RLock()
        self._loaded: dict[tuple[Side, SchemaSource], _LoadedSchema] = {}
        self._messages: dict[SchemaSource, MessageSchema] = {}
        self._prefixes: dict[tuple[SchemaSource | None, SchemaSource], bytes] = {}
        self._target_ids: dict[tuple[str, SchemaSource], bytes] = {}
        self._clients: dict[Side, RegistryClient] = {}

    def mapper_settings(self) -> SchemaMapperSettings | None:
        """Return how tasks reach both registries to replace schema ids; None if they do not."""
        config = self._config
        return read_mapper_settings(config) if config.features.schema_mapping else None

    def codecs(self, transform: Transform, name: str, *, writes: bool = False) -> Codecs:
        """Return what decodes and encodes the records of a transform.

        Args:
            transform: the steps.
            name: of the transform in the file, for messages.
            writes: the records are written, with the ids of their schemas in the target's registry;
                what it lacks is registered if ``schemaMapping.autoRegister`` is enabled.

        Raises:
            NotInstalled: a format's library or the registry's client is not installed.
            ConfigError: a schema cannot be read or used.
            Refused: a registry lacks a schema.
            ConnectionFailed: a registry does not respond.
        """
        with self._lock:
            decoders: dict[str, ValueCodec] = {}
            encoders: dict[str, ValueCodec] = {}
            steps: dict[str, int] = {}
            prefixes: dict[str, bytes] = {}
            for part in _PARTS:
                how = transform.format_of(part)
                if how.kind in WITH_SCHEMA:
                    decoders[part] = self._decoder(how, f"{name}.decode.{part}")
                if transform.encoding_of(part) in WITH_SCHEMA:
                    step = f"encode.{part}"
                    encoders[part] = self._encoder(transform, part, f"{name}.{step}", writes)
                    steps[part] = plan_steps(transform).index(step)
                own = transform.encode_schema_of(part)
                if writes and own is not None and transform.encoding_of(part) == "json":
                    prefixes[part] = self._target_id(own, JSON, f"{name}.encode.{part}")
            keeps = bool(encoders) and transform.on_error == "deadLetter"
            return Codecs(decoders, encoders, steps, keeps, prefixes)

    def may_register(self, transform: Transform) -> bool:
        """Return whether ``codecs`` may register schemas for writing."""
        return self._registers and any(
            transform.encoding_of(part) in WITH_SCHEMA for part in _PARTS
        )

    def check(self, transform: Transform, name: str) -> None:
        """Raise what ``codecs`` would raise for writing, and register nothing."""
        if not self._registers:
            self.codecs(transform, name, writes=True)
            return
        for part in _PARTS:  # only Avro is ever registered
            own, step = transform.encode_schema_of(part), f"{name}.encode.{part}"
            if transform.encoding_of(part) == "protobuf":
                self._encoder(transform, part, step, writes=True)
            elif transform.encoding_of(part) == "json" and own is not None:
                self._target_id(own, JSON, step)

    def _decoder(self, how: Format, name: str) -> ValueCodec:
        assert how.source is not None
        if how.kind == "protobuf":
            return ProtobufCodec(self._read_message(how.source, name), how.source.has_id)
        loaded = self._read("source", how.source, name)
        return AvroCodec(loaded.schema, self._settings("source") if how.source.subject else None)

    def _encoder(self, transform: Transform, part: str, name: str, writes: bool) -> ValueCodec:
        own, decoded = transform.encode_schema_of(part), transform.format_of(part).source
        if transform.encoding_of(part) == "protobuf":
            source = own if own is not None and own.file else decoded
            assert source is not None
            message, prefix = self._read_message(source, name), b""
            if writes and own is not None and own.subject:
                prefix = self._target_id(own, PROTOBUF, name) + message.indexes
            return ProtobufCodec(message, prefix=prefix)
        if own is None:
            assert decoded is not None
            loaded = self._read("source", decoded, name)
            source = decoded
        else:
            source = own
            read = SchemaSource(own.file) if own.file else own
            loaded = self._read("target", read, name)
        if not writes or not source.subject:
            return AvroCodec(loaded.schema)
        key = (own, source)
        if key not in self._prefixes:
            self._prefixes[key] = self._encode_id(self._require(own, source, loaded))
        return AvroCodec(loaded.schema, prefix=self._prefixes[key])

    def _target_id(self, own: SchemaSource, kind: str, name: str) -> bytes:
        """Return the bytes of the id that a subject of the target's registry has."""
        key = kind, own
        if key not in self._target_ids:
            version = self._find_schema("target", own, kind, name)
            self._target_ids[key] = self._encode_id(version)
        return self._target_ids[key]

    def _read_message(self, source: SchemaSource, name: str) -> MessageSchema:
        if source not in self._messages:
            _require("google.protobuf", "protobuf", name)
            try:
                if source.file:
                    descriptors = self._read_file(source.file, name)
                else:
                    descriptors = self._compile_message(source, name)
                schema = MessageSchema(source.message, descriptors)
                schema.check()
            except ValueError as error:
                raise _unusable(name, source, error) from error
            self._messages[source] = schema
        return self._messages[source]

    def _compile_message(self, source: SchemaSource, name: str) -> bytes:
        """Return the descriptors of a subject's schema in the source's registry."""
        _require("grpc_tools", "protobuf-registry", name)
        schema = self._find_schema("source", source, PROTOBUF, name).schema
        return compile_files(*collect_files(schema, self._client("source").version))

    def _find_schema(self, side: Side, source: SchemaSource, kind: str, name: str) -> SchemaVersion:
        """Return a version whose schema has a type; raises Refused for another type."""
        version = self._find_version(side, source, name)
        if version.schema.type == kind:
            return version
        raise Refused(
            f"{name}: {safe_text(str(source))} in {self._client(side).address} is not a "
            f"{_KINDS[kind]} schema",
            unchanged=_NOTHING,
            hint="Name a subject with the schema of the records.",
        )

    def _encode_id(self, version: SchemaVersion) -> bytes:
        """Return the bytes of the id of a version in the target's registry."""
        schema_id = id_of_version(self._client("target"), SchemaIdForm.PREFIX, version)
        return encode_schema_id(SchemaId(SchemaIdForm.PREFIX, schema_id))

    def _require(
        self, own: SchemaSource | None, source: SchemaSource, loaded: _LoadedSchema
    ) -> SchemaVersion:
        """Return a schema's version on the target."""
        registers = self._registers
        if own is None:
            assert loaded.version is not None
            version = loaded.version
            try:
                return require_schema(
                    self._client("source"),
                    self._client("target"),
                    version,
                    self._rename(version),
                    self._rename,
                    registers=registers,
                )
            except SchemaNotRegistered as missing:
                # ``schemas apply`` leaves out the parts of topics that a transform decodes.
                raise SchemaNotRegistered(
                    missing.message,
                    unchanged=missing.unchanged,
                    hint="Register it there, or set schemaMapping.autoRegister: enabled.",
                ) from missing
        if loaded.version is not None:
            return loaded.version
        target, schema = self._client("target"), Schema(AVRO, loaded.schema.text)
        registered = target.find(source.subject, schema)
        if registered is not None:
            return registered
        if not registers:
            raise SchemaNotRegistered(
                f"the schema in {safe_text(source.file)} is not registered as "
                f"{safe_text(source.subject)} in {target.address}",
                unchanged="Nothing was registered, and nothing was copied.",
                hint="Register it, or set schemaMapping.autoRegister: enabled.",
            )
        schema_id = target.register(source.subject, schema)
        registered = target.find(source.subject, schema)
        # The answer to a registration has no version; no version has the number 0.
        return registered or SchemaVersion(source.subject, 0, schema_id, schema)

    def _rename(self, version: SchemaVersion) -> str:
        """Return the name on the target of a subject of the source."""
        topics = self._config.schema_topics

        def rule(topic: str) -> TopicRule | None:
            target = topics.mapping.target_for(topic) if topics.selection.matches(topic) else None
            return TopicRule(target) if target else None

        mapped = map_subject(version.subject, record_names(version.schema), rule)
        return mapped.target if mapped else version.subject

    def _read(self, side: Side, source: SchemaSource, name: str) -> _LoadedSchema:
        key = side, source
        if key not in self._loaded:
            _require("fastavro", "avro", name)
            loaded = None if source.file else self._read_version(side, source, name)
            try:
                if loaded is None:
                    text = self._read_file(source.file, name).decode()
                    loaded = _LoadedSchema(AvroSchema((text,)))
                make_type(loaded.schema)
            except ValueError as error:
                raise _unusable(name, source, error) from error
            self._loaded[key] = loaded
        return self._loaded[key]

    def _read_file(self, file: str, name: str) -> bytes:
        try:
            with Path(file).open("rb") as opened:
                text = opened.read(_LARGEST_FILE + 1)
            if len(text) > _LARGEST_FILE:
                raise ValueError(f"it is larger than {_LARGEST_FILE} bytes")
            return text
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise ConfigError(
                f"{name}: {safe_text(file)} cannot be read: {reason}",
                unchanged=_NOTHING,
                hint="Check schemaFile; a relative name is below the YAML file's directory.",
            ) from error

    def _read_version(self, side: Side, source: SchemaSource, name: str) -> _LoadedSchema:
        client, version = self._client(side), self._find_version(side, source, name)
        schema = read_avro_schema(client, version.schema)
        if schema is None:
            raise Refused(
                f"{name}: {safe_text(str(source))} in {client.address} is not an Avro schema that "
                "can be read",
                unchanged=_NOTHING,
                hint="Name a subject with an Avro schema.",
            )
        return _LoadedSchema(schema, version)

    def _find_version(self, side: Side, source: SchemaSource, name: str) -> SchemaVersion:
        client = self._client(side)
        number = source.version or next(reversed(client.versions(source.subject)), 0)
        version = client.version(source.subject, number) if number else None
        if version is None:
            raise Refused(
                f"{name}: {client.address} does not have {safe_text(str(source))}",
                unchanged=_NOTHING,
                hint="Register the schema, or name another subject or a schemaFile.",
            )
        return version

    def _settings(self, side: Side) -> RegistrySettings:
        cluster = self._config.source if side == "source" else self._config.target
        return read_registry_settings(cluster, side)

    def _client(self, side: Side) -> RegistryClient:
        settings, known = self._settings(side), self._clients.get(side)
        if known is None or known.settings != settings:
            known = self._clients[side] = RegistryClient(settings)
        return known


def _require(package: str, extra: str, name: str) -> None:
    try:
        missing = importlib.util.find_spec(package) is None
    except ModuleNotFoundError:  # its parent package
        missing = True
    if missing:
        raise NotInstalled(
            f"{name}: {extra} needs a package that is not installed: {package}",
            unchanged=_NOTHING,
            hint="Install it, in k2ktui's checkout, with: "
            f"{install_command(f'spark,transform,{extra}')}",
        )


def _unusable(name: str, source: SchemaSource, error: ValueError) -> ConfigError:
    return ConfigError(
        f"{name}: the schema ({safe_text(str(source))}) cannot be used: "
        f"{safe_message(str(error), 300)}",
        unchanged=_NOTHING,
        hint="Use another schema; docs/transforms.md lists the types.",
    )
