"""An Avro schema as text, and as Avro's library takes it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class AvroSchema:
    """A schema's text, after those of the types that it refers to."""

    texts: tuple[str, ...]

    @property
    def text(self) -> str:
        """The schema's own text."""
        return self.texts[-1]


def parse_schema(schema: AvroSchema) -> Any:
    """Return the schema for Avro's library, without logical types.

    Raises:
        ValueError: it is not an Avro schema.
    """
    import fastavro

    named: dict[str, Any] = {}
    parsed: Any = None
    try:
        for text in schema.texts:
            parsed = fastavro.parse_schema(_without_logical(json.loads(text)), named)
    except (fastavro.schema.SchemaParseException, fastavro.schema.UnknownType) as error:
        raise ValueError(str(error)) from None
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"it is not an Avro schema: {type(error).__name__} {error}") from None
    return parsed


def _without_logical(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_logical(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {
        key: _without_logical(value) if key in ("type", "items", "values") else value
        for key, value in schema.items()
        if key != "logicalType"
    }
    if isinstance(found.get("fields"), list):
        found["fields"] = [_without_logical(each) for each in found["fields"]]
    return found
