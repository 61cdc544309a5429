"""Maps ids of the source's registry to ids of the target's, while records are copied."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from k2ktui.engine.schemas.ids import IN_PAYLOAD, OnUnknownSchema, SchemaId, SchemaPart
from k2ktui.engine.schemas.model import is_same_schema, record_names
from k2ktui.engine.schemas.subjects import SubjectNaming, TopicRule, is_of_other_part, map_subject
from k2ktui.engine.schemas.topics import SchemaTopics
from k2ktui.registry.client import RegistryClient
from k2ktui.registry.content import read_versions
from k2ktui.registry.id_lookup import find_versions, id_of_version, read_first
from k2ktui.registry.registering import require_schema
from k2ktui.registry.settings import RegistrySettings, read_registry_settings

if TYPE_CHECKING:  # executors have no packages for configuration files
    from k2ktui.config.model import PipelineConfig

_ORDER = {SubjectNaming.TOPIC: 0, SubjectNaming.TOPIC_RECORD: 1, SubjectNaming.RECORD: 2}
_Key = tuple[str, SchemaPart, SchemaId]


@dataclass(frozen=True)
class SchemaMapperSettings:
    """What a mapper needs; can be pickled, and holds credentials.

    Attributes:
        source: the source's registry.
        target: the target's registry.
        topics: the topics that are copied, with their names on the target.
        types: schema types that are mapped; ids of others count as unknown.
        auto_register: whether schemas that the target lacks are registered.
        on_unknown: what to do with records whose id the source's registry does not know.
    """

    source: RegistrySettings
    target: RegistrySettings
    topics: SchemaTopics
    types: frozenset[str]
    auto_register: bool = False
    on_unknown: OnUnknownSchema = "fail"


def read_mapper_settings(config: PipelineConfig) -> SchemaMapperSettings:
    """Return what a pipeline's mapper needs.

    Raises:
        ConfigError: a registry's properties cannot be used.
    """
    section = config.schema_mapping
    return SchemaMapperSettings(
        read_registry_settings(config.source, "source"),
        read_registry_settings(config.target, "target"),
        config.schema_topics,
        frozenset(section.supported_types),
        section.auto_register,
        section.on_unknown_schema,
    )


class SchemaMapper:
    """Maps schema ids from the source's registry to the target's.

    Thread-safe; schemas that are registered while it runs are found. Make one per process from the
    settings, and close it. A mapped id is kept in memory. An id that the source does not know is
    asked for again on each call, since it may be registered now: ask once per batch of records.

    Args:
        settings: the registries and rules.

    Raises:
        NotInstalled: Confluent's registry client is not installed.
    """

    def __init__(self, settings: SchemaMapperSettings) -> None:
        self.settings = settings
        self._source = RegistryClient(settings.source)
        self._target = RegistryClient(settings.target)
        self._ids: dict[_Key, int] = {}
        self._lock = threading.Lock()

    def __enter__(self) -> SchemaMapper:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections to both registries."""
        self._source.close()
        self._target.close()

    def map_id(self, topic: str, part: SchemaPart, schema_id: SchemaId) -> int | None:
        """Return the value of a schema id on the target, for the same form.

        Args:
            topic: the record's topic on the source.
            part: whether the key or the value has the id.
            schema_id: the id that ``find_schema_ids`` found.

        Returns:
            The new value; None if the source's registry does not know the id, or its schema is of
            a type that is not mapped or only for the other part: ``settings.on_unknown`` says what
            to do.

        Raises:
            SchemaNotRegistered: the target's registry lacks the schema.
            SchemaRejected: the target's registry does not accept it.
            Refused: the target's registry gives it no id that fits into the form.
            ConnectionFailed: a registry does not respond, or rejects the login.
        """
        key = (topic, part, schema_id)
        target_id = self._ids.get(key)
        if target_id is None:
            # One request per schema, however many threads ask.
            with self._lock:
                target_id = self._ids.get(key)
                if target_id is None:
                    target_id = self._look_up(topic, part, schema_id)
                    if target_id is not None:
                        self._ids[key] = target_id
        return target_id

    def name_same_schema(self, source_id: SchemaId, target_id: SchemaId) -> bool:
        """Return whether an id of the source and one of the target name the same schema.

        It may be under another subject than the one that :meth:`map_id` looks in, and another
        version: a consumer reads the same objects with both.

        Raises:
            ConfigError: an id is one of Apicurio's own, and the registry's URL is not.
            ConnectionFailed: a registry does not respond, or rejects the login.
        """
        source, target = self._source, self._target
        source_pairs = find_versions(source, source_id)[:1]
        target_pairs = find_versions(target, target_id)[:1]
        here, there = read_first(source, source_pairs), read_first(target, target_pairs)
        if here is None or there is None:
            return False
        source_content = read_versions(source, source_pairs)
        target_content = read_versions(target, target_pairs)
        return is_same_schema(here.schema, source_content, there.schema, target_content)

    def _look_up(self, topic: str, part: SchemaPart, schema_id: SchemaId) -> int | None:
        pairs = find_versions(self._source, schema_id)
        # A schema such as "string" may have a thousand subjects: only what is needed is read.
        first = read_first(self._source, pairs)
        if first is None:
            return None
        names = record_names(first.schema)
        chosen = self._choose(topic, part, pairs, names)
        if chosen is None and schema_id.form not in IN_PAYLOAD:
            chosen = pairs[0], self._rename(topic, pairs[0][0], names)
        if chosen is None:
            return None
        pair, subject = chosen
        version = first if pair == pairs[0] else self._source.version(*pair)
        if version is None or version.schema.type not in self.settings.types:
            return None
        registered = require_schema(
            self._source,
            self._target,
            version,
            subject,
            lambda referred: self._rename(topic, referred.subject, record_names(referred.schema)),
            registers=self.settings.auto_register,
        )
        return id_of_version(self._target, schema_id.form, registered)

    def _choose(
        self,
        topic: str,
        part: SchemaPart,
        pairs: Sequence[tuple[str, int]],
        names: frozenset[str],
    ) -> tuple[tuple[str, int], str] | None:
        """Return the version whose subject the record's serializer used, and its target subject.

        Several subjects may have the same schema and id. None if only the other part uses them:
        then a payload may have the id by chance, as the 8 bytes of the number 20,000,000 have 1.
        """
        rules = partial(self._rule, topic, part)
        candidates = [
            (_ORDER[mapped.naming], pair, mapped.target)
            for pair in pairs
            for mapped in [map_subject(pair[0], names, rules)]
            if mapped is not None
        ]
        if candidates:
            _, chosen, subject = min(candidates, key=lambda candidate: candidate[:2])
            return chosen, subject
        # Records may be copied between topics, for example to a retry topic.
        others = (pair for pair in pairs if not is_of_other_part(pair[0], part, names))
        other = next(others, None)
        return (other, self._rename(topic, other[0], names)) if other else None

    def _rename(self, topic: str, subject: str, names: frozenset[str]) -> str:
        """Return the name on the target of a subject that any copied topic may use."""
        mapped = map_subject(subject, names, partial(self._rule, topic, None))
        return mapped.target if mapped else subject

    def _rule(self, own: str, part: SchemaPart | None, topic: str) -> TopicRule | None:
        """Return what is done with a topic's subjects; with a part, only of the record's own."""
        if topic != own:
            return None if part else self.settings.topics.rule(topic)
        target = self.settings.topics.mapping.target_for(topic)
        return TopicRule(target, frozenset({part} if part else SchemaPart)) if target else None
