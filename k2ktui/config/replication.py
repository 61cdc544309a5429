"""The ``replication`` section: source topics, and target topics and partitions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, PlainSerializer, WithJsonSchema

from k2ktui.config.clusters import Section
from k2ktui.config.scalars import Name, parse_text
from k2ktui.config.topics import TopicMapping, compile_pattern


def _checked_pattern(pattern: str) -> str:
    compile_pattern(pattern)
    return pattern


def _names_or_pattern(value: Any) -> str | tuple[str, ...]:
    if isinstance(value, (list, tuple)):
        return tuple(parse_text(name) for name in value)
    try:
        return _checked_pattern(parse_text(value))
    except ValueError as error:
        raise ValueError(_PATTERN_OR_LIST if str(error) == "a string" else str(error)) from None


_PATTERN_OR_LIST = "one regular expression, or a list of exact names"

Pattern = Annotated[Name, AfterValidator(_checked_pattern)]
NamesOrPattern = Annotated[
    str | tuple[str, ...],
    BeforeValidator(_names_or_pattern),
    WithJsonSchema({"type": ["string", "array"], "items": {"type": "string"}}),
]


def _topic_mapping(value: Any) -> TopicMapping:
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
    raise ValueError(
        "source, {prefix: …, suffix: …}, {static: topic} or {staticMapping: {pattern: topic}}"
    )


def _rules(value: Any) -> tuple[tuple[str, str], ...]:
    tables = value if isinstance(value, (list, tuple)) else [value]
    if not tables or not all(isinstance(table, Mapping) for table in tables):
        raise ValueError("a mapping {source pattern: target topic}, or a list of such mappings")
    pairs = [pair for table in tables for pair in table.items()]
    return tuple((_checked_pattern(parse_text(a)), parse_text(b)) for a, b in pairs)


def _mapping_yaml(mapping: TopicMapping) -> str | dict[str, Any]:
    if mapping.kind == "affix":
        affixes = {"prefix": mapping.prefix, "suffix": mapping.suffix}
        return {key: text for key, text in affixes.items() if text}
    if mapping.kind == "static":
        return {"static": mapping.static}
    if mapping.kind == "staticMapping":
        # A list preserves the order and repeated patterns.
        return {"staticMapping": [{pattern: target} for pattern, target in mapping.rules]}
    return "source"


TopicMappingField = Annotated[
    TopicMapping,
    BeforeValidator(_topic_mapping),
    PlainSerializer(_mapping_yaml),
    WithJsonSchema({"type": ["string", "object"]}),
]


class ReplicationSource(Section):
    """The source topics: one regular expression for full names, or a list of exact names."""

    name: Name | None = None
    topic: NamesOrPattern = ()

    @property
    def topic_choice(self) -> tuple[str | None, tuple[str, ...]]:
        """The pattern (None for a list) and the exact names."""
        return (self.topic, ()) if isinstance(self.topic, str) else (None, self.topic)


class ReplicationSink(Section):
    """Target topics and partitions: ``source`` keeps the partition, ``producer`` hashes the key."""

    name: Name | None = None
    topic: TopicMappingField = TopicMapping()
    partition: Literal["source", "producer"] = "source"


class Replication(Section):
    """What is replicated. In the file it is a list of one source and one sink entry."""

    source: ReplicationSource = ReplicationSource()
    sink: ReplicationSink = ReplicationSink()
