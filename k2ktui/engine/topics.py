"""Selection of topics and groups, and mapping of topic names to the target."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Literal

from k2ktui.engine.java_patterns import NameSelection, compile_pattern

# The broker's rule (Topic.java). An illegal name can come only from the configuration.
LEGAL_TOPIC = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")
KAFKA_INTERNAL_TOPICS = frozenset(
    {
        "__cluster_metadata",
        "__consumer_offsets",
        "__remote_log_metadata",
        "__share_group_state",
        "__transaction_state",
    }
)


# Topics in which other programs keep their own state. Appended to those of the same programs on the
# target, they would mix the state of two installations. MirrorMaker 2 leaves out "__.*" and
# ".*[-.]internal" (DefaultTopicFilter), which also hits users' own topics; these names hit none.
PROGRAM_TOPICS: Mapping[str, re.Pattern[str]] = {
    program: re.compile(pattern)
    for program, pattern in {
        "k2ktui": r"__k2k_(consumer-offsets|offset_mappings|assignment|state|metrics)",
        "Kafka Connect": r"_*(.+[-_.])?connect([-_.]cluster)?[-_.](configs?|offsets?|status(es)?)",
        "MirrorMaker 2": r"mm2-(configs|offsets|status)([-_.].+)?[-_.]internal"
        r"|mm2-offset-syncs[-_.].+[-_.]internal|.+[-_.]checkpoints[-_.]internal"
        r"|(.+[-_.])?mirror-?maker-?2(-cluster)?-(configs|offsets|status)",
        "a schema registry": r"_schemas([_-].*)?|_schema_encoders|kafkasql-(journal|snapshots)",
        "Cruise Control": r"__CruiseControl.*|__KafkaCruiseControl.*|strimzi\.cruisecontrol\..+",
        "a monitor of the cluster": r"__(strimzi|redhat_strimzi|amazon_msk)_canary.*"
        r"|_?_?(strimzi|kafka)[-_]canary|xinfra-monitor-topic|_kminion-.*",
        "the cluster's operator": r"__strimzi[-_].*|__amazon_msk.*",
        "the cluster's platform": r"_{1,2}confluent[-_.].*|_{1,2}redpanda[-_.].*|__audit_log"
        r"|_internal_connectors.*|_kafka_lenses_.*|__topology(__metrics)?",
    }.items()
}
# Programs use these names, and so may users: they are copied, with a warning.
_AMBIGUOUS = re.compile(r"(.+\.)?heartbeats")


def program_of(topic: str) -> str:
    """Return the program that keeps its own state in a topic of this name; "" for none."""
    programs = (program for program, names in PROGRAM_TOPICS.items() if names.fullmatch(topic))
    return next(programs, "")


def may_be_heartbeats(topic: str) -> bool:
    """Return whether a topic has the name of MirrorMaker 2's heartbeats, which users may have."""
    return bool(_AMBIGUOUS.fullmatch(topic))


@dataclass(frozen=True)
class TopicSelection(NameSelection):
    """The source topics of a pipeline; see ``PipelineConfig.topics``.

    A pattern does not match topics of other programs (``PROGRAM_TOPICS``), if
    ``excludes_programs``. Such topics are still copied if they were replicated before: an upgrade
    must not stop a running copy.
    """

    excludes_programs: bool = True

    def matches(self, name: str, replicated: Collection[str] = ()) -> bool:
        """Return whether a topic is selected.

        Args:
            name: the topic.
            replicated: topics that have a position.
        """
        if not super().matches(name):
            return False
        return name in replicated or not self._excludes(name)

    def left_out(self, name: str) -> str:
        """Return the program because of which a matching topic is not selected; "" if it is."""
        return program_of(name) if super().matches(name) and self._excludes(name) else ""

    def _excludes(self, name: str) -> bool:
        by_pattern = self.pattern is not None and self.excludes_programs
        return by_pattern and bool(program_of(name))


class GroupSelection(NameSelection):
    """Consumer groups; see ``consumer_groups`` and ``measured_groups`` of ``PipelineConfig``."""


MappingKind = Literal["source", "affix", "static", "staticMapping", "expression"]


@dataclass(frozen=True)
class TopicMapping:
    """Maps a source topic name to its name on the target.

    ``kind`` selects the fields that apply: ``source`` (same name), ``affix`` (prefix and suffix
    around the name), ``static`` (all topics into one), ``staticMapping`` (the first pattern
    that matches the full name) or ``expression`` (Spark SQL chooses one of ``topics`` for each
    record).
    """

    kind: MappingKind = "source"
    prefix: str = ""
    suffix: str = ""
    static: str = ""
    rules: tuple[tuple[str, str], ...] = ()
    expression: str = ""
    topics: tuple[str, ...] = ()

    def target_for(self, topic: str) -> str | None:
        """Return the target topic of ``topic``, or None if there is not exactly one."""
        return _TARGETS[self.kind](self, topic)

    def targets_for(self, topic: str) -> tuple[str, ...]:
        """Return the target topics of ``topic``; none if no static mapping covers it."""
        if self.kind == "expression":
            return self.topics
        target = self.target_for(topic)
        return () if target is None else (target,)

    def __str__(self) -> str:
        if self.kind == "affix":
            return f"{self.prefix}<topic>{self.suffix}"
        if self.kind == "static":
            return self.static
        if self.kind == "expression":
            return ", ".join(self.topics)
        return self.kind


def _by_rule(mapping: TopicMapping, topic: str) -> str | None:
    chosen = (to for pattern, to in mapping.rules if compile_pattern(pattern).fullmatch(topic))
    return next(chosen, None)


_TARGETS: dict[str, Callable[[TopicMapping, str], str | None]] = {
    "source": lambda mapping, topic: topic,
    "affix": lambda mapping, topic: f"{mapping.prefix}{topic}{mapping.suffix}",
    "static": lambda mapping, topic: mapping.static,
    "staticMapping": _by_rule,
    "expression": lambda mapping, topic: mapping.topics[0] if len(mapping.topics) == 1 else None,
}
