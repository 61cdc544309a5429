"""The section ``schemaMapping``: whose schema ids are rewritten, and what is done with others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Self

from pydantic import model_validator

from k2ktui.config.clusters import Section
from k2ktui.config.patterns import Pattern
from k2ktui.config.scalars import Toggle
from k2ktui.config.topics import TopicMapping, TopicSelection
from k2ktui.config.transform_rules import DeadLetters
from k2ktui.engine.java_patterns import compile_pattern
from k2ktui.engine.schema_ids import SchemaPart
from k2ktui.engine.schema_rule import OnUnknownSchema
from k2ktui.engine.schema_subjects import TopicRule

SchemaType = Literal["AVRO", "JSON", "PROTOBUF", "YANG"]


class SchemaMappingRule(Section):
    """Whether keys and values of matching topics contain schema ids."""

    pattern: Pattern
    key: Toggle = True
    value: Toggle = True


class SchemaMapping(Section):
    """Schema types and topics whose schema ids are rewritten.

    ``auto_register``, ``on_unknown_schema`` and ``dead_letter`` are not Lenses settings.
    """

    supported_types: tuple[SchemaType, ...] = ("AVRO", "JSON", "PROTOBUF", "YANG")
    topics: tuple[SchemaMappingRule, ...] = ()
    auto_register: Toggle = False
    on_unknown_schema: OnUnknownSchema = "fail"
    dead_letter: DeadLetters = DeadLetters()

    @model_validator(mode="after")
    def _dead_letters_are_used(self) -> Self:
        if self.dead_letter.topic is not None and self.on_unknown_schema != "deadLetter":
            raise ValueError("onUnknownSchema: deadLetter for deadLetter")
        return self


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


def schema_topics(
    section: SchemaMapping, selection: TopicSelection, mapping: TopicMapping
) -> SchemaTopics:
    """Return the topics of a section."""
    rules = tuple(
        (rule.pattern, {SchemaPart.KEY: rule.key, SchemaPart.VALUE: rule.value})
        for rule in section.topics
    )
    return SchemaTopics(selection, mapping, rules)
