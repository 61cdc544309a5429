"""Where records go: the values of ``sink.topic`` and ``sink.partition``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

from k2ktui.config.patterns import checked_pattern
from k2ktui.config.scalars import TEMPLATE, parse_text
from k2ktui.engine.topics import TopicMapping


@dataclass(frozen=True)
class PartitionExpression:
    """Spark SQL that returns the number of the target partition of a record."""

    expression: str


def _parse_mapping(value: Any) -> TopicMapping:
    if isinstance(value, TopicMapping):
        return value
    if isinstance(value, str) and value == "source":
        return TopicMapping()
    if isinstance(value, Mapping):
        keys = set(value)
        if keys and keys <= {"prefix", "suffix"}:
            prefix, suffix = (parse_text(value.get(key) or "") for key in ("prefix", "suffix"))
            return TopicMapping(kind="affix", prefix=prefix, suffix=suffix)
        if keys == {"static"}:
            return TopicMapping(kind="static", static=parse_text(value["static"]))
        if keys == {"staticMapping"}:
            return TopicMapping(kind="staticMapping", rules=_rules(value["staticMapping"]))
        if "expression" in keys:
            return _by_expression(value)
    raise ValueError(
        "source, {prefix: …, suffix: …}, {static: topic}, {staticMapping: {pattern: topic}} or "
        "{expression: SQL, topics: [topic, …]}"
    )


def _by_expression(value: Mapping[str, Any]) -> TopicMapping:
    topics = value.get("topics")
    if set(value) != {"expression", "topics"} or not isinstance(topics, (list, tuple)):
        raise ValueError("{expression: SQL, topics: [topic, …]} with every topic it may name")
    names = tuple(parse_text(name) for name in topics)
    if not names or len(set(names)) != len(names):
        raise ValueError("{expression: SQL, topics: [topic, …]} with each topic once")
    return TopicMapping(
        kind="expression", expression=_expression(value["expression"]), topics=names
    )


def _expression(value: Any) -> str:
    text = parse_text(value).strip()
    if not text:
        raise ValueError("a Spark SQL expression")
    return text


def _rules(value: Any) -> tuple[tuple[str, str], ...]:
    tables = value if isinstance(value, (list, tuple)) else [value]
    if not tables or not all(isinstance(table, Mapping) for table in tables):
        raise ValueError("a mapping {source pattern: target topic}, or a list of such mappings")
    pairs = [pair for table in tables for pair in table.items()]
    return tuple((checked_pattern(parse_text(a)), parse_text(b)) for a, b in pairs)


def _mapping_yaml(mapping: TopicMapping) -> str | dict[str, Any]:
    if mapping.kind == "affix":
        affixes = {"prefix": mapping.prefix, "suffix": mapping.suffix}
        return {key: text for key, text in affixes.items() if text}
    if mapping.kind == "static":
        return {"static": mapping.static}
    if mapping.kind == "staticMapping":
        # A list preserves the order and repeated patterns.
        return {"staticMapping": [{pattern: target} for pattern, target in mapping.rules]}
    if mapping.kind == "expression":
        return {"expression": mapping.expression, "topics": list(mapping.topics)}
    return "source"


def _parse_partition(value: Any) -> str | PartitionExpression:
    if isinstance(value, PartitionExpression) or value in ("source", "producer"):
        return value if isinstance(value, PartitionExpression) else str(value)
    if isinstance(value, Mapping) and set(value) == {"expression"}:
        return PartitionExpression(_expression(value["expression"]))
    raise ValueError("source, producer or {expression: SQL}")


def _partition_yaml(value: str | PartitionExpression) -> str | dict[str, str]:
    return value if isinstance(value, str) else {"expression": value.expression}


# For editors; a key without a value counts as absent.
_TEXT = {"type": ["string", "number", "boolean", "null"]}
TopicMappingField = Annotated[
    TopicMapping,
    BeforeValidator(_parse_mapping),
    PlainSerializer(_mapping_yaml),
    WithJsonSchema(
        {
            "anyOf": [
                {"enum": ["source"]},
                TEMPLATE,
                {
                    "type": "object",
                    "properties": {
                        "prefix": _TEXT,
                        "suffix": _TEXT,
                        "static": _TEXT,
                        "staticMapping": {"type": ["object", "array", "null"]},
                        "expression": _TEXT,
                        "topics": {"type": ["array", "null"]},
                    },
                    "additionalProperties": {"type": "null"},
                },
            ]
        }
    ),
]
PartitionField = Annotated[
    Literal["source", "producer"] | PartitionExpression,
    BeforeValidator(_parse_partition),
    PlainSerializer(_partition_yaml),
    WithJsonSchema(
        {
            "anyOf": [
                {"enum": ["source", "producer"]},
                TEMPLATE,
                {
                    "type": "object",
                    "properties": {"expression": _TEXT},
                    "required": ["expression"],
                    "additionalProperties": {"type": "null"},
                },
            ]
        }
    ),
]
