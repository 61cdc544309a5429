"""The topics whose schema ids are rewritten; needed by Spark tasks, which have no configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from k2ktui.engine.java_patterns import compile_pattern
from k2ktui.engine.schemas.ids import SchemaPart
from k2ktui.engine.schemas.subjects import TopicRule
from k2ktui.engine.topics import TopicMapping, TopicSelection


@dataclass(frozen=True)
class SchemaTopics:
    """The topics whose schema ids are rewritten; can be pickled.

    Attributes:
        selection: the topics that are copied.
        mapping: their names on the target.
        rules: pattern, and whether keys and values have ids; the first that matches applies.
            Without a match, both have.
    """

    selection: TopicSelection
    mapping: TopicMapping
    rules: tuple[tuple[str, Mapping[SchemaPart, bool]], ...] = ()

    def parts(self, topic: str) -> frozenset[SchemaPart]:
        """Return the parts of a topic's records that have schema ids."""
        matching = (parts for at, parts in self.rules if compile_pattern(at).fullmatch(topic))
        enabled = next(matching, dict.fromkeys(SchemaPart, True))
        return frozenset(part for part in SchemaPart if enabled[part])

    def rule(self, topic: str) -> TopicRule | None:
        """Return what is done with a topic's schemas; None if it is not copied."""
        target = self.mapping.target_for(topic) if self.selection.matches(topic) else None
        if target is None:
            return None
        return TopicRule(target, self.parts(topic), exact=self.selection.pattern is None)
