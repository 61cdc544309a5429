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
from k2ktui.config.patterns import NamesOrPattern, Pattern, checked_pattern
from k2ktui.config.scalars import JavaText, Name, parse_text
from k2ktui.config.transform_rules import TransformRule
from k2ktui.engine.header_names import HeaderNames, check_replacement
from k2ktui.engine.java_patterns import NameSelection, compile_pattern
from k2ktui.engine.topics import TopicMapping
from k2ktui.engine.transforms import Transform


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
    """What is replicated. In the file it is a list: a source, stages if any, and a sink."""

    source: ReplicationSource = ReplicationSource()
    transform: tuple[TransformRule, ...] = ()
    headers: tuple[HeaderRule, ...] = ()
    sink: ReplicationSink = ReplicationSink()

    def header_rule(self, topic: str) -> HeaderRule | None:
        """Return the first rule for the headers of a source topic, or None."""
        matching = (r for r in self.headers if compile_pattern(r.topics).fullmatch(topic))
        return next(matching, None)

    def transform_for(self, topic: str) -> Transform | None:
        """Return what the first matching rule does to the records of a source topic, or None."""
        matching = (r for r in self.transform if compile_pattern(r.topics).fullmatch(topic))
        rule = next(matching, None)
        return rule.transform if rule is not None else None
