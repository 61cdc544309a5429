"""Formats of keys and values in ``replication.transform``: what ``decode`` and ``encode`` name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

from k2ktui.config.scalars import Text, parse_text
from k2ktui.config.tree import Node
from k2ktui.engine.transforms import Encoding, Format, SchemaSource

_PLAIN: Mapping[str, Encoding] = {"bytes": "bytes", "string": "string", "json": "json"}
_AVRO = "for Avro avro, {avro: {schemaFile: FILE}} or {avro: {subject: NAME}}"
_DECODED = f'bytes, string or {{json: {{schema: "id BIGINT, name STRING"}}}}; {_AVRO}'
_ENCODED = f"bytes, string or json; {_AVRO}"
_UNSUPPORTED = "protobuf is not supported yet"
_FILE, _SUBJECT, _VERSION = "schemaFile", "subject", "version"
_NAMES = (_FILE, _SUBJECT)
#: Keys of the format ``avro``.
AVRO_KEYS = (_FILE, _SUBJECT, _VERSION)


def needs_schema(how: Format) -> bool:
    """Return whether the schema of Avro follows from something else than the format."""
    return how.kind == "avro" and how.source == SchemaSource()


def _parse_decode(value: Any) -> Format:
    if isinstance(value, Format):
        return value
    if isinstance(value, str) and value in ("bytes", "string"):
        return Format(_PLAIN[value])
    if isinstance(value, Mapping) and set(value) == {"json"}:
        inner = value["json"]
        if isinstance(inner, Mapping) and set(inner) == {"schema"}:
            schema = parse_text(inner["schema"]).strip()
            if schema:
                return Format("json", schema)
    source = _parse_source(value)
    if source is None:
        raise ValueError(_with_later(_DECODED, value))
    if source.file and source.subject:
        raise ValueError(f"{_FILE} or {_SUBJECT} for avro, not both")
    return Format("avro", source=source)


def _parse_encode(value: Any) -> Format:
    if isinstance(value, Format):
        return value
    if isinstance(value, str) and value in _PLAIN:
        return Format(_PLAIN[value])
    source = _parse_source(value)
    if source is None:
        raise ValueError(_with_later(_ENCODED, value))
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
    found = SchemaSource(file or "", subject or "")
    if _VERSION not in inner:
        return found
    text = str(inner[_VERSION])
    if not found.subject or found.file:
        raise ValueError(f"{_SUBJECT} without {_FILE} for {_VERSION}")
    if not text.isascii() or not text.isdigit() or not int(text):
        raise ValueError(f"the number of a version, 1 or more, for {_VERSION}")
    return replace(found, version=int(text))


def _with_later(expected: str, value: Any) -> str:
    names = [value] if isinstance(value, str) else list(value) if isinstance(value, Mapping) else []
    return f"{expected}; {_UNSUPPORTED}" if "protobuf" in names else expected


def _format_yaml(chosen: Format) -> str | dict[str, Any]:
    if chosen.schema:
        return {"json": {"schema": chosen.schema}}
    if chosen.source is None or chosen.source == SchemaSource():
        return chosen.kind
    source = chosen.source
    named = {_FILE: source.file, _SUBJECT: source.subject, _VERSION: source.version}
    return {"avro": {key: value for key, value in named.items() if value}}


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
        if not below and isinstance(entries.get("avro"), Node):
            entries["avro"] = _place_file(entries["avro"])
        return replace(node, value=entries)
    return node


def _place_file(avro: Node) -> Node:
    file = avro.table.get(_FILE)
    if file is None or not isinstance(file.value, str) or not file.value.strip():
        return avro
    placed = Path(file.mark.file).parent / file.value.strip()
    return replace(avro, value={**avro.table, _FILE: replace(file, value=Text(str(placed)))})
