"""Subjects of a pipeline's topics, and their names on the target."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from enum import StrEnum

from k2ktui.engine.schema_ids import SchemaPart


class SubjectNaming(StrEnum):
    """How a subject got its name."""

    TOPIC = "topic"  # <topic>-key, <topic>-value, or <topic> (Apicurio's simple strategy)
    TOPIC_RECORD = "topic-record"  # <topic>-<record>
    RECORD = "record"  # <record>
    REFERENCE = "reference"  # any: a mapped schema refers to it


@dataclass(frozen=True, slots=True)
class TopicRule:
    """A topic whose records' schema ids are rewritten.

    Attributes:
        target: its name on the target.
        parts: the parts of its records that have schemas.
    """

    target: str
    parts: frozenset[SchemaPart] = frozenset(SchemaPart)


@dataclass(frozen=True, slots=True)
class MappedSubject:
    """A subject's name on the target, and how it was recognized."""

    target: str
    naming: SubjectNaming


def map_subject(
    subject: str, records: Set[str], topics: Mapping[str, TopicRule]
) -> MappedSubject | None:
    """Return a subject's name on the target; None if no record of the topics uses it.

    The strategy is recognized by the name: a topic's suffix comes first, then topic and record,
    then the record alone.

    Args:
        subject: its name in the source registry.
        records: names of the records that its schemas describe.
        topics: the topics that are mapped.
    """
    for part in SchemaPart:
        topic = subject.removesuffix(f"-{part}")
        if topic != subject and topic in topics:
            if part not in topics[topic].parts:
                return None
            return MappedSubject(f"{topics[topic].target}-{part}", SubjectNaming.TOPIC)
    if subject in topics and subject not in records:
        found = topics[subject]
        return MappedSubject(found.target, SubjectNaming.TOPIC) if found.parts else None
    for record in sorted(records, key=len, reverse=True):
        topic = subject.removesuffix(f"-{record}")
        if topic != subject and topic in topics:
            if not topics[topic].parts:
                return None
            target = f"{topics[topic].target}-{record}"
            return MappedSubject(target, SubjectNaming.TOPIC_RECORD)
    if subject in records and any(rule.parts for rule in topics.values()):
        return MappedSubject(subject, SubjectNaming.RECORD)
    return None
