"""The ``replication`` section: source topics, and target topics and partitions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    PlainSerializer,
    WithJsonSchema,
    field_validator,
)

from k2ktui.config.clusters import Section
from k2ktui.config.scalars import JavaText, Name, parse_text
from k2ktui.config.topics import TopicMapping
from k2ktui.engine.header_names import HeaderNames, check_replacement
from k2ktui.engine.java_patterns import NameSelection, compile_pattern


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


def _not_empty(name: str) -> str:
    if not name:
        raise ValueError("a non-empty string")
    return name


HeaderName = Annotated[Name, AfterValidator(_not_empty)]


class HeaderTracing(Section):
    """Names of headers with the coordinates of the source record; not added by default."""

    topic: HeaderName | None = None
    partition: HeaderName | None = None
    offset: HeaderName | None = None
    pipeline: HeaderName | None = None


class HeaderRule(Section):
    """What happens to the record headers of topics; not a Lenses setting.

    ``keep`` comes first, then ``drop``, ``rename``, ``add`` and ``tracing``.
    """

    topics: Pattern = ".*"
    keep: NamesOrPattern | None = None
    drop: NamesOrPattern | None = None
    rename: Mapping[Pattern, Name] | None = None
    add: Mapping[HeaderName, JavaText] | None = None
    tracing: HeaderTracing = HeaderTracing()

    @field_validator("rename")
    @classmethod
    def _groups_exist(cls, rename: Mapping[str, str] | None) -> Mapping[str, str] | None:
        for pattern, replacement in (rename or {}).items():
            check_replacement(pattern, replacement)
        return rename

    @property
    def names(self) -> HeaderNames:
        """Which headers of the source record are kept, and under which names."""
        return HeaderNames(
            _selection(self.keep), _selection(self.drop), tuple((self.rename or {}).items())
        )

    @property
    def added(self) -> tuple[tuple[str, str], ...]:
        """The tracing headers: pairs of a coordinate and the name of its header."""
        return tuple((what, name) for what, name in self.tracing if name)


def _selection(chosen: str | tuple[str, ...] | None) -> NameSelection | None:
    if chosen is None:
        return None
    return NameSelection(chosen) if isinstance(chosen, str) else NameSelection(None, chosen)


class Replication(Section):
    """What is replicated. In the file it is a list: a source, header rules if any, and a sink."""

    source: ReplicationSource = ReplicationSource()
    headers: tuple[HeaderRule, ...] = ()
    sink: ReplicationSink = ReplicationSink()

    def header_rule(self, topic: str) -> HeaderRule | None:
        """Return the first rule for the headers of a source topic, or None."""
        matching = (r for r in self.headers if compile_pattern(r.topics).fullmatch(topic))
        return next(matching, None)
