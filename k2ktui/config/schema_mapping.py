"""The section ``schemaMapping``: whose schema ids are rewritten, and what is done with others."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import model_validator

from k2ktui.config.clusters import Section
from k2ktui.config.patterns import Pattern
from k2ktui.config.scalars import Toggle
from k2ktui.config.transform_rules import DeadLetters
from k2ktui.engine.schemas.ids import SchemaPart
from k2ktui.engine.schemas.rule import OnUnknownSchema
from k2ktui.engine.schemas.topics import SchemaTopics
from k2ktui.engine.topics import TopicMapping, TopicSelection

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


def schema_topics(
    section: SchemaMapping, selection: TopicSelection, mapping: TopicMapping
) -> SchemaTopics:
    """Return the topics of a section."""
    rules = tuple(
        (rule.pattern, {SchemaPart.KEY: rule.key, SchemaPart.VALUE: rule.value})
        for rule in section.topics
    )
    return SchemaTopics(selection, mapping, rules)
