"""Selection of topics and groups, and mapping of topic names to the target."""

from __future__ import annotations

import re
from collections.abc import Callable
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


class TopicSelection(NameSelection):
    """The source topics of a pipeline; see ``PipelineConfig.topics``."""


class GroupSelection(NameSelection):
    """The consumer groups whose offsets are translated; see ``PipelineConfig.consumer_groups``."""


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
