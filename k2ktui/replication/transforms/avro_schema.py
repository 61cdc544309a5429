"""An Avro schema as text, and as Avro's library takes it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import count
from typing import Any

#: Has the logical type of a parsed schema, so that Avro's library reads and writes plain numbers.
LOGICAL_TYPE = "__k2k_logical_type"
_MEANINGFUL = (
    "decimal",
    "date",
    "time-millis",
    "time-micros",
    "timestamp-millis",
    "timestamp-micros",
    "timestamp-nanos",
    "local-timestamp-millis",
    "local-timestamp-micros",
    "local-timestamp-nanos",
)
# A type has its parts wherever it is named: 20 records that name each other twice have so many.
_MOST_PARTS = 1_000_000


@dataclass(frozen=True)
class AvroSchema:
    """A schema's text, after those of the types that it refers to."""

    texts: tuple[str, ...]

    @property
    def text(self) -> str:
        """The schema's own text."""
        return self.texts[-1]


def parse_schema(schema: AvroSchema, named: dict[str, Any] | None = None) -> Any:
    """Return the schema for Avro's library, without logical types; types have their full names.

    Args:
        schema: the schema.
        named: gets the definitions of named types.

    Raises:
        ValueError: it is not an Avro schema.
    """
    import fastavro

    named = {} if named is None else named
    parsed: Any = None
    try:
        for text in schema.texts:
            parsed = fastavro.parse_schema(_without_logical(json.loads(text)), named)
    except (fastavro.schema.SchemaParseException, fastavro.schema.UnknownType) as error:
        raise ValueError(str(error).replace(LOGICAL_TYPE, "logicalType")) from error
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"it is not an Avro schema: {type(error).__name__} {error}") from error
    return parsed


def find_conflict(writer: AvroSchema, reader: AvroSchema) -> str:
    """Return the first field whose numbers mean something else to the reader; "" for none.

    Avro's rules compare types only, so that milliseconds would be read as microseconds.

    Raises:
        ValueError: a schema has too many parts, or is not an Avro schema.
        RecursionError: its types are nested too deeply.
    """
    by_writer, by_reader = _meanings(writer), _meanings(reader)
    return next(
        (
            path
            for path in by_writer.keys() & by_reader.keys()
            if by_writer[path] != by_reader[path]
        ),
        "",
    )


def _meanings(schema: AvroSchema) -> dict[str, tuple[str, int]]:
    """Return the logical type and the scale of fields that have one, by their path."""
    named: dict[str, Any] = {}
    meanings: dict[str, tuple[str, int]] = {}
    parts = count()

    def walk(part: Any, path: str, opened: tuple[str, ...]) -> None:
        if next(parts) >= _MOST_PARTS:
            raise ValueError("an Avro schema with too many parts")
        if isinstance(part, list):
            for branch in part:
                walk(branch, path, opened)
        elif isinstance(part, str):
            if part in named and part not in opened:
                walk(named[part], path, opened)
        elif isinstance(part, dict):
            if part.get(LOGICAL_TYPE) in _MEANINGFUL:
                meanings[path] = part[LOGICAL_TYPE], part.get("scale", 0)
            for field in part.get("fields", ()):
                walk(field["type"], f"{path}.{field['name']}", (*opened, part["name"]))
            walk(part.get("items"), f"{path}[]", opened)
            walk(part.get("values"), f"{path}{{}}", opened)

    walk(parse_schema(schema, named), "", ())
    return meanings


def _without_logical(schema: Any) -> Any:
    """Rename logical types, and drop what makes the library take a schema for a parsed one."""
    if isinstance(schema, list):
        return [_without_logical(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {
        LOGICAL_TYPE if key == "logicalType" else key: _without_logical(value)
        if key in ("type", "items", "values")
        else value
        for key, value in schema.items()
        if not key.startswith("__")
    }
    if isinstance(plain.get("fields"), list):
        plain["fields"] = [_without_logical(field) for field in plain["fields"]]
    return plain
