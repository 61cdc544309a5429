"""Formats of keys and values in ``replication.transform``: what ``decode`` and ``encode`` name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

from k2ktui.config.scalars import Text, parse_text
from k2ktui.config.tree import Node
from k2ktui.engine.transforms.model import WITH_SCHEMA, Encoding, Format, SchemaSource

_PLAIN: Mapping[str, Encoding] = {"bytes": "bytes", "string": "string", "json": "json"}
_AVRO = "for Avro avro, {avro: {schemaFile: FILE}} or {avro: {subject: NAME}}"
_PROTOBUF = (
    "for Protobuf {protobuf: {schemaFile: FILE, message: NAME}}, or decode with subject: NAME in "
    "place of schemaFile"
)
_JSON = '{json: {schema: "id BIGINT, name STRING"}}'
_DECODED = f"bytes, string or {_JSON}; {_AVRO}; {_PROTOBUF}"
_ENCODED = f"bytes, string or json; {_AVRO}; {_PROTOBUF}"
_FILE, _SUBJECT, _VERSION, _SCHEMA = "schemaFile", "subject", "version", "schema"
_NAMES = (_FILE, _SUBJECT)
#: Keys of the format ``avro``.
AVRO_KEYS = (_FILE, _SUBJECT, _VERSION)
_MESSAGE, _SCHEMA_ID = "message", "schemaId"
#: Keys of the format ``protobuf``, to decode and to encode.
PROTOBUF_KEYS = (_FILE, _MESSAGE, _SCHEMA_ID, _SUBJECT, _VERSION)
#: Keys of the format ``json``, to decode and to encode.
JSON_KEYS = (_SCHEMA, _SCHEMA_ID, _SUBJECT, _VERSION)


def needs_schema(how: Format) -> bool:
    """Return whether the schema follows from something else than the format."""
    return how.source == SchemaSource()


def _parse_decode(value: Any) -> Format:
    match value:
        case Format():
            return value
        case "bytes" | "string":
            return Format(_PLAIN[value])
        case {"json": schema, **others} if not others:
            return _parse_json(schema)
        case {"protobuf": message, **others} if not others:
            return _parse_message(message)
    source = _parse_source(value)
    if source is None:
        raise ValueError(_DECODED)
    if source.file and source.subject:
        raise ValueError(f"{_FILE} or {_SUBJECT} for avro, not both")
    return Format("avro", source=source)


def _parse_encode(value: Any) -> Format:
    match value:
        case Format():
            return value
        case "bytes" | "string" | "json":
            return Format(_PLAIN[value])
        case "protobuf":
            return Format("protobuf", source=SchemaSource())
        case {"json": schema, **others} if not others:
            return _parse_target_json(schema)
        case {"protobuf": message, **others} if not others:
            return _parse_target_message(message)
    source = _parse_source(value)
    if source is None:
        raise ValueError(_ENCODED)
    return Format("avro", source=source)


def _parse_source(value: Any) -> SchemaSource | None:
    """Return where an Avro schema is; None if the value is another format."""
    if value == "avro":
        return SchemaSource()
    if not isinstance(value, Mapping) or set(value) != {"avro"}:
        return None
    inner = value["avro"]
    if not isinstance(inner, Mapping) or not set(inner) <= {*AVRO_KEYS} or not inner:
        return None
    file, subject = (parse_text(inner[key]).strip() if key in inner else None for key in _NAMES)
    if file == "" or subject == "" or (file is None and subject is None):
        return None
    schema = SchemaSource(file or "", subject or "")
    if _VERSION not in inner:
        return schema
    if not schema.subject or schema.file:
        raise ValueError(f"{_SUBJECT} without {_FILE} for {_VERSION}")
    return replace(schema, version=_parse_version(inner[_VERSION]))


def _parse_version(value: Any) -> int:
    text = str(value)
    if not text.isascii() or not text.isdigit() or not int(text):
        raise ValueError(f"the number of a version, 1 or more, for {_VERSION}")
    return int(text)


def _parse_json(inner: Any) -> Format:
    """Return how JSON is decoded."""
    given = _texts(inner, (_SCHEMA, _SCHEMA_ID))
    if given is None or _SCHEMA not in given:
        raise ValueError(_DECODED)
    source = SchemaSource(has_id=True) if _has_id(given) else None
    return Format("json", given[_SCHEMA], source)


def _parse_target_json(inner: Any) -> Format:
    """Return how JSON is encoded whose schema has an id."""
    given = _texts(inner, (_SUBJECT, _VERSION))
    if given is None or _SUBJECT not in given:
        raise ValueError("json or {json: {subject: NAME}}")
    version = _parse_version(given[_VERSION]) if _VERSION in given else 0
    return Format("json", source=SchemaSource(subject=given[_SUBJECT], version=version))


def _has_id(given: Mapping[str, str]) -> bool:
    chosen = given.get(_SCHEMA_ID, "disabled")
    if chosen not in ("enabled", "disabled"):
        raise ValueError(f"enabled or disabled for {_SCHEMA_ID}")
    return chosen == "enabled"


def _parse_message(inner: Any) -> Format:
    """Return how Protobuf is decoded."""
    given = _texts(inner, PROTOBUF_KEYS)
    if given is None or _MESSAGE not in given or (_FILE in given) == (_SUBJECT in given):
        raise ValueError(_PROTOBUF)
    wrong, place = (_VERSION, _SUBJECT) if _FILE in given else (_SCHEMA_ID, _FILE)
    if wrong in given:
        raise ValueError(f"{place} for {wrong}")
    version = _parse_version(given[_VERSION]) if _VERSION in given else 0
    # Values whose schema is in a registry have its id.
    has_id = _SUBJECT in given or _has_id(given)
    names = (given.get(key, "") for key in (_FILE, _SUBJECT))
    file, subject = names
    source = SchemaSource(file, subject, version, given[_MESSAGE], has_id)
    return Format("protobuf", source=source)


def _parse_target_message(inner: Any) -> Format:
    """Return how Protobuf is encoded."""
    given = _texts(inner, (_FILE, _MESSAGE, _SUBJECT, _VERSION))
    if not given or (_FILE in given) != (_MESSAGE in given):
        raise ValueError(f"{_PROTOBUF} or {{protobuf: {{subject: NAME}}}}")
    if _VERSION in given and _SUBJECT not in given:
        raise ValueError(f"{_SUBJECT} for {_VERSION}")
    version = _parse_version(given[_VERSION]) if _VERSION in given else 0
    names = (given.get(key, "") for key in (_FILE, _SUBJECT, _MESSAGE))
    file, subject, message = names
    return Format("protobuf", source=SchemaSource(file, subject, version, message))


def _texts(inner: Any, keys: tuple[str, ...]) -> dict[str, str] | None:
    """Return the texts of a mapping with some of these keys; None if it is another one."""
    if not isinstance(inner, Mapping) or not set(inner) <= {*keys}:
        return None
    texts = {key: parse_text(str(value)).strip() for key, value in inner.items()}
    return texts if all(texts.values()) else None


def _format_yaml(chosen: Format) -> str | dict[str, Any]:
    source = chosen.source or SchemaSource()
    if source == SchemaSource() and not chosen.schema:
        return chosen.kind
    named = {
        _SCHEMA: chosen.schema,
        _FILE: source.file,
        _MESSAGE: source.message,
        _SCHEMA_ID: "enabled" if source.has_id and not source.subject else "",
        _SUBJECT: source.subject,
        _VERSION: source.version,
    }
    return {chosen.kind: {key: value for key, value in named.items() if value}}


DecodeField = Annotated[
    Format,
    BeforeValidator(_parse_decode),
    PlainSerializer(_format_yaml),
    WithJsonSchema({"type": ["string", "object"]}),
]
EncodeField = Annotated[
    Format,
    BeforeValidator(_parse_encode),
    PlainSerializer(_format_yaml),
    WithJsonSchema({"type": ["string", "object"]}),
]


def place_schema_files(tree: Node) -> Node:
    """Return the tree with names of schema files that are relative to the YAML file's directory."""
    return _place(tree, ("replication", "transform"))


def _place(node: Node, below: tuple[str, ...]) -> Node:
    if isinstance(node.value, list):
        return replace(node, value=[_place(item, below) for item in node.value])
    if isinstance(node.value, dict):
        entries = {
            key: _place(item, below[1:]) if not below or key == below[0] else item
            for key, item in node.value.items()
        }
        for kind in () if below else WITH_SCHEMA:
            if isinstance(entries.get(kind), Node):
                entries[kind] = _place_file(entries[kind])
        return replace(node, value=entries)
    return node


def _place_file(how: Node) -> Node:
    file = how.table.get(_FILE)
    if file is None or not isinstance(file.value, str) or not file.value.strip():
        return how
    placed = Path(file.mark.file).parent / file.value.strip()
    return replace(how, value={**how.table, _FILE: replace(file, value=Text(str(placed)))})
