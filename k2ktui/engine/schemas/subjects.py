"""Subjects of a pipeline's topics, and their names on the target."""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass
from enum import StrEnum

from k2ktui.engine.schemas.ids import SchemaPart


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
        exact: whether its name is known, rather than matched by a pattern that matches many names:
            only then does a subject with just its name belong to it.
    """

    target: str
    parts: frozenset[SchemaPart] = frozenset(SchemaPart)
    exact: bool = True


#: Returns what is done with a topic's schemas; None for a topic that is not copied.
TopicRules = Callable[[str], TopicRule | None]


@dataclass(frozen=True, slots=True)
class MappedSubject:
    """A subject's name on the target, and how it was recognized."""

    target: str
    naming: SubjectNaming


def map_subject(subject: str, records: Set[str], rules: TopicRules) -> MappedSubject | None:
    """Return a subject's name on the target; None if no record of the copied topics uses it.

    The strategy is recognized by the name: a topic's suffix comes first, then topic and record,
    then the record alone.

    Args:
        subject: its name in the source registry.
        records: names of the records that its schemas describe.
        rules: the topics that are copied.
    """
    for part in SchemaPart:
        rule = _rule(subject, f"-{part}", rules)
        if rule is not None:
            target = f"{rule.target}-{part}"
            return MappedSubject(target, SubjectNaming.TOPIC) if part in rule.parts else None
    for record in sorted(records, key=len, reverse=True):
        rule = _rule(subject, f"-{record}", rules)
        if rule is not None:
            target = f"{rule.target}-{record}"
            return MappedSubject(target, SubjectNaming.TOPIC_RECORD) if rule.parts else None
    if subject in records:
        return MappedSubject(subject, SubjectNaming.RECORD)
    rule = rules(subject)
    if rule is not None and rule.exact and rule.parts:
        return MappedSubject(rule.target, SubjectNaming.TOPIC)
    return None


def is_of_other_part(subject: str, part: SchemaPart, records: Set[str]) -> bool:
    """Return whether only the other part of a topic's records uses a subject, by its name.

    The topic may be any, also one that is not copied.

    Args:
        subject: its name in the source registry.
        part: the part that has an id of its schema.
        records: names of the records that its schemas describe; a subject that is one of them may
            be used by both parts.
    """
    others = tuple(f"-{other}" for other in SchemaPart if other is not part)
    return subject.endswith(others) and subject not in records


def _rule(subject: str, suffix: str, rules: TopicRules) -> TopicRule | None:
    topic = subject.removesuffix(suffix)
    return rules(topic) if topic and topic != subject else None
