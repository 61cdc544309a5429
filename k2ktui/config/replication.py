"""The ``replication`` section: source topics, and target topics and partitions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated

from pydantic import AfterValidator, field_validator

from k2ktui.config.clusters import Section
from k2ktui.config.patterns import NamesOrPattern, Pattern
from k2ktui.config.scalars import JavaText, Name
from k2ktui.config.sink_rules import PartitionExpression, PartitionField, TopicMappingField
from k2ktui.config.transform_rules import TransformRule
from k2ktui.engine.java_patterns import NameSelection, compile_pattern
from k2ktui.engine.topics import TopicMapping
from k2ktui.engine.transforms.header_names import HeaderNames, check_replacement
from k2ktui.engine.transforms.model import Routing, Transform


class ReplicationSource(Section):
    """The source topics: one regular expression for full names, or a list of exact names."""

    name: Name | None = None
    topic: NamesOrPattern = ()

    @property
    def topic_choice(self) -> tuple[str | None, tuple[str, ...]]:
        """The pattern (None for a list) and the exact names."""
        return (self.topic, ()) if isinstance(self.topic, str) else (None, self.topic)


class ReplicationSink(Section):
    """Target topics and partitions.

    ``source`` keeps the partition, ``producer`` hashes the key; an expression chooses one.
    """

    name: Name | None = None
    topic: TopicMappingField = TopicMapping()
    partition: PartitionField = "source"

    @property
    def keeps_partitions(self) -> bool:
        """Whether records go to the partition of their source's number."""
        return self.partition == "source"

    @property
    def scatters(self) -> bool:
        """Whether records of one source partition may go to several target partitions."""
        return not self.keeps_partitions or len(self.topic.topics) > 1

    @property
    def routing(self) -> Routing | None:
        """What expressions decide; None if there are none."""
        chosen = self.partition
        partition = chosen.expression if isinstance(chosen, PartitionExpression) else ""
        if not (partition or self.topic.expression):
            return None
        return Routing(self.topic.expression, self.topic.topics, partition)


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
