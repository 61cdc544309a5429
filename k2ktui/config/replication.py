"""The ``replication`` section: source topics, and target topics and partitions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainSerializer,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    field_validator,
)

from k2ktui.config.clusters import Section
from k2ktui.config.scalars import JavaText, Name, NamesOrPattern, Pattern, parse_text
from k2ktui.config.transforms import TransformRule
from k2ktui.engine.java_patterns import NameSelection, compile_pattern
from k2ktui.engine.topics import TopicMapping
from k2ktui.engine.transforms.header_names import HeaderNames, check_replacement
from k2ktui.engine.transforms.model import Routing, Transform

_TOPIC = (
    "source, {prefix: …, suffix: …}, {static: topic}, {staticMapping: {pattern: topic}} or "
    "{expression: SQL, topics: [topic, …]}"
)


def _one_of(expected: str) -> WrapValidator:
    """Return a validator that gives one message for all alternatives, or that of a wrong value."""

    def check(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
        try:
            return handler(value)
        except ValidationError as failure:
            errors = failure.errors(include_url=False, include_input=False)
            own = [str(error["ctx"]["error"]) for error in errors if error["type"] == "value_error"]
            # The cause quotes all alternatives.
            raise ValueError(own[0] if own else expected) from None

    return WrapValidator(check)


def _expression(value: Any) -> str:
    text = parse_text(value).strip()
    if not text:
        raise ValueError("a Spark SQL expression")
    return text


def _tables(value: Any) -> Any:
    tables = value if isinstance(value, (list, tuple)) else [value]
    if not tables or not all(isinstance(table, Mapping) for table in tables):
        raise ValueError("a mapping {source pattern: target topic}, or a list of such mappings")
    return tables


def _tables_of_one(tables: tuple[Mapping[str, str], ...]) -> list[dict[str, str]]:
    """Return a table for each pair: a list preserves the order and repeated patterns."""
    return [{pattern: topic} for table in tables for pattern, topic in table.items()] or [{}]


_Tables = tuple[Mapping[Pattern, Name], ...]
Expression = Annotated[str, BeforeValidator(_expression)]


# Pydantic gives a dataclass the settings of the section that has it: names as in the file, and no
# other keys. So at most one of these accepts a table.
@dataclass(frozen=True)
class Affix:
    """Text before and after the name of the source topic."""

    prefix: Name | None = None
    suffix: Name | None = None

    def __post_init__(self) -> None:
        if self.prefix is None and self.suffix is None:
            raise ValueError(_TOPIC)

    @property
    def mapping(self) -> TopicMapping:
        """Where topics go."""
        if not (self.prefix or self.suffix):
            return TopicMapping()
        return TopicMapping("affix", prefix=self.prefix or "", suffix=self.suffix or "")


@dataclass(frozen=True)
class OneTopic:
    """One target topic for all."""

    static: Name

    @property
    def mapping(self) -> TopicMapping:
        """Where topics go."""
        return TopicMapping("static", static=self.static)


@dataclass(frozen=True)
class ByPattern:
    """Target topics by patterns, of which the first that matches applies."""

    static_mapping: Annotated[
        _Tables,
        BeforeValidator(_tables, json_schema_input_type=Mapping[Pattern, Name] | _Tables),
        PlainSerializer(_tables_of_one),
    ]

    @property
    def mapping(self) -> TopicMapping:
        """Where topics go."""
        rules = tuple(pair for table in self.static_mapping for pair in table.items())
        return TopicMapping("staticMapping", rules=rules)


@dataclass(frozen=True)
class TopicExpression:
    """Spark SQL that returns the target topic of a record."""

    expression: Expression
    topics: Annotated[
        tuple[Name, ...] | None,
        BeforeValidator(lambda v: v if isinstance(v, list | tuple) else None),
    ] = None

    def __post_init__(self) -> None:
        if self.topics is None:
            raise ValueError("{expression: SQL, topics: [topic, …]} with every topic it may name")
        if not self.topics or len(set(self.topics)) != len(self.topics):
            raise ValueError("{expression: SQL, topics: [topic, …]} with each topic once")

    @property
    def mapping(self) -> TopicMapping:
        """Where topics go."""
        return TopicMapping("expression", expression=self.expression, topics=self.topics or ())


@dataclass(frozen=True)
class PartitionExpression:
    """Spark SQL that returns the number of the target partition of a record."""

    expression: Expression


TopicField = Annotated[
    Literal["source"] | Affix | OneTopic | ByPattern | TopicExpression, _one_of(_TOPIC)
]
PartitionField = Annotated[
    Literal["source", "producer"] | PartitionExpression,
    _one_of("source, producer or {expression: SQL}"),
]


class ReplicationSource(Section):
    """The source topics: one regular expression for full names, or a list of exact names."""

    name: Name | None = Field(default=None, description="Description without effect")
    topic: NamesOrPattern = Field(
        default=(),
        description=(
            "Source topics; required for everything that replicates, and a pattern leaves out "
            "control topics"
        ),
    )

    @property
    def topic_choice(self) -> tuple[str | None, tuple[str, ...]]:
        """The pattern (None for a list) and the exact names."""
        return (self.topic, ()) if isinstance(self.topic, str) else (None, self.topic)


class ReplicationSink(Section):
    """Target topics and partitions.

    ``source`` keeps the partition, ``producer`` hashes the key; an expression chooses one.
    """

    name: Name | None = Field(default=None, description="Description without effect")
    topic: TopicField = Field(
        default="source",
        description=(
            "Target topic: `source` for the same name, or one of the forms with a prefix, one "
            "name, a mapping or an expression"
        ),
    )
    partition: PartitionField = Field(
        default="source",
        description=(
            "Target partition: `source` keeps the number, `producer` hashes the key as Java does, "
            "an expression chooses it"
        ),
    )

    @cached_property
    def mapping(self) -> TopicMapping:
        """The mapping from source topic names to target topic names."""
        return TopicMapping() if self.topic == "source" else self.topic.mapping

    @property
    def keeps_partitions(self) -> bool:
        """Whether records go to the partition of their source's number."""
        return self.partition == "source"

    @property
    def scatters(self) -> bool:
        """Whether records of one source partition may go to several target partitions."""
        return not self.keeps_partitions or len(self.mapping.topics) > 1

    @property
    def routing(self) -> Routing | None:
        """What expressions decide; None if there are none."""
        mapping, chosen = self.mapping, self.partition
        partition = chosen.expression if isinstance(chosen, PartitionExpression) else ""
        if not (partition or mapping.expression):
            return None
        return Routing(mapping.expression, mapping.topics, partition)


def _not_empty(name: str) -> str:
    if not name:
        raise ValueError("a non-empty string")
    return name


HeaderName = Annotated[Name, AfterValidator(_not_empty)]


class HeaderTracing(Section):
    """Names of headers with the coordinates of the source record; not added by default."""

    topic: HeaderName | None = Field(
        default=None, description="Header with the topic of the source record"
    )
    partition: HeaderName | None = Field(
        default=None, description="Header with the partition of the source record"
    )
    offset: HeaderName | None = Field(
        default=None, description="Header with the offset of the source record"
    )
    pipeline: HeaderName | None = Field(default=None, description="Header with the pipeline's name")


class HeaderRule(Section):
    """What happens to the record headers of topics; not a Lenses setting.

    ``keep`` comes first, then ``drop``, ``rename``, ``add`` and ``tracing``.
    """

    topics: Pattern = Field(
        default=".*",
        description=(
            "Pattern for the names of source topics; the first rule that matches applies, alone"
        ),
    )
    keep: NamesOrPattern | None = Field(
        default=None, description="Headers of the source record that are kept; by default all"
    )
    drop: NamesOrPattern | None = Field(
        default=None, description="Headers of the source record that are dropped"
    )
    rename: Mapping[Pattern, Name] | None = Field(
        default=None,
        description=(
            "`{pattern: new name}`: the first pattern that is a header's whole name applies, and "
            "`$1` to `$9` are its groups"
        ),
    )
    add: Mapping[HeaderName, JavaText] | None = Field(
        default=None,
        description=(
            "`{name: value}`: headers that are added as text, also where the source record has "
            "one of that name"
        ),
    )
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
            None if self.keep is None else NameSelection.of(self.keep),
            None if self.drop is None else NameSelection.of(self.drop),
            tuple((self.rename or {}).items()),
        )

    @property
    def added(self) -> tuple[tuple[str, str], ...]:
        """The tracing headers: pairs of a coordinate and the name of its header."""
        return tuple((what, name) for what, name in self.tracing if name)


class Replication(Section):
    """What is replicated. In the file it is a list: a source, stages if any, and a sink."""

    source: ReplicationSource = ReplicationSource()
    transform: tuple[TransformRule, ...] = Field(
        default=(), description="Rules that change records"
    )
    headers: tuple[HeaderRule, ...] = Field(default=(), description="Rules for record headers")
    sink: ReplicationSink = ReplicationSink()

    def header_rule(self, topic: str) -> HeaderRule | None:
        """Return the first rule for the headers of a source topic, or None."""
        matching = (r for r in self.headers if compile_pattern(r.topics).fullmatch(topic))
        return next(matching, None)

    def transform_for(self, topic: str) -> Transform | None:
        """Return what the first matching rule does to the records of a source topic, or None."""
        matching = (r for r in self.transform if compile_pattern(r.topics).fullmatch(topic))
        return self._with_routing(next(matching, None))

    def transforms(self) -> list[tuple[str, Transform]]:
        """Return every transform, each with its name in error messages.

        Routes of topics without a rule are among them if there may be such topics.
        """
        named = [
            (f"replication.transform[{number}]", self._with_routing(rule))
            for number, rule in enumerate(self.transform)
        ]
        if not self._rules_match_all:
            named.append(("replication.sink", self._with_routing(None)))
        return [(name, transform) for name, transform in named if transform is not None]

    @property
    def _rules_match_all(self) -> bool:
        """Whether every source topic certainly has a rule in ``transform``."""
        pattern, names = self.source.topic_choice
        if pattern is not None:
            return any(rule.topics in (".*", pattern) for rule in self.transform)
        patterns = [compile_pattern(rule.topics) for rule in self.transform]
        return bool(names) and all(any(p.fullmatch(name) for p in patterns) for name in names)

    def _with_routing(self, rule: TransformRule | None) -> Transform | None:
        routing = self.sink.routing
        if routing is None:
            return rule.transform if rule is not None else None
        # The rule's onError applies to expressions in the sink, even if it has no steps.
        return replace(rule.steps if rule is not None else Transform(), routing=routing)
