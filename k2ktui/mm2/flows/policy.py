"""MirrorMaker 2's replication policies (topic names) and its topic and group filters.

The rules are those of Kafka 4's ``DefaultReplicationPolicy``, ``IdentityReplicationPolicy``,
``DefaultTopicFilter`` and ``DefaultGroupFilter``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from k2ktui.engine.java_patterns import compile_pattern

HEARTBEATS = "heartbeats"
TOPICS_DEFAULT, GROUPS_DEFAULT = ".*", ".*"
TOPICS_EXCLUDE_DEFAULT = r"mm2.*\.internal, .*\.replica, __.*"
GROUPS_EXCLUDE_DEFAULT = "console-consumer-.*, connect-.*, __.*"


# Quoted text, a reference to a group, any other escape, a character class.
_TOKENS = re.compile(r"\\Q.*?(?:\\E|$)|\\([1-9]\d*)|\\.|\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)


def numbered_references(pattern: str) -> list[str]:
    """Return the numbers of the groups that a Java regular expression refers to."""
    return [token[1] for token in _TOKENS.finditer(pattern) if token[1]]


def shift_references(pattern: str, by: int) -> str:
    """Return a Java regular expression for use behind ``by`` other groups."""

    def shifted(token: re.Match[str]) -> str:
        return rf"(?:\{int(token[1]) + by})" if token[1] else token[0]

    return _TOKENS.sub(shifted, pattern) if by else pattern


@dataclass(frozen=True)
class NameFilter:
    """Accepts names that match one of ``includes`` and none of ``excludes``; each is a regular
    expression for the full name."""

    includes: tuple[str, ...]
    excludes: tuple[str, ...] = ()

    @cached_property
    def include(self) -> str:
        """The includes as one expression, joined as in MirrorMaker 2."""
        return "|".join(self.includes)

    @cached_property
    def exclude(self) -> str:
        """The excludes as one expression; "" if there are none."""
        return "|".join(self.excludes)

    def check(self) -> None:
        """Compile both expressions; ValueError if one is invalid or means something else here."""
        for pattern in (self.include, self.exclude):
            # Java reads \\12 as group 12 or as group 1 and a "2", whichever exists.
            if any(int(number) > 9 for number in numbered_references(pattern)):
                raise ValueError(r"a regular expression without references above \9")
            compile_pattern(pattern)

    def matches(self, name: str) -> bool:
        """Return whether the filter accepts ``name``."""
        if not self.includes or not compile_pattern(self.include).fullmatch(name):
            return False
        return not self.excludes or not compile_pattern(self.exclude).fullmatch(name)


@dataclass(frozen=True, slots=True)
class ReplicationPolicy:
    """Names of replicated and internal topics.

    Attributes:
        kind: ``default`` prefixes the name with the source's alias, ``identity`` keeps the name.
        separator: separator between alias and name.
        internal_separator: separator in names of internal topics.
        own_alias: the source's alias; ``identity`` reports it as the origin of every topic.

    Alias and separator may be blank: copies then have a shorter prefix, or none.
    """

    kind: Literal["default", "identity"] = "default"
    separator: str = "."
    internal_separator: str = "."
    own_alias: str = ""

    @property
    def prefix(self) -> str:
        """What the flow's copies have before the names of their sources; "" if they keep them."""
        return "" if self.kind == "identity" else f"{self.own_alias}{self.separator}"

    def source_topic(self, copy: str) -> str | None:
        """Return the source topic of one of the flow's copies; None if it is none of them."""
        return copy.removeprefix(self.prefix) if copy.startswith(self.prefix) else None

    def remote_topic(self, alias: str, topic: str) -> str:
        """Return the name of the copy of ``topic`` from the cluster ``alias``."""
        if self._keeps(topic):
            return topic
        return f"{alias}{self.separator}{topic}"

    def topic_source(self, topic: str) -> str | None:
        """Return the alias of the cluster that a topic was copied from, or None if not copied."""
        if self._keeps(topic):
            return self.own_alias
        # Java splits at a blank separator into single characters, and drops empty parts at the end.
        parts = topic.split(self.separator) if self.separator else list(topic)
        while parts and not parts[-1]:
            parts.pop()
        return parts[0] if len(parts) > 1 else None

    def upstream_topic(self, topic: str) -> str | None:
        """Return a copied topic's name on the cluster it came from, or None if not copied."""
        if self._keeps(topic):
            return topic
        source = self.topic_source(topic)
        return None if source is None else topic[len(source) + len(self.separator) :]

    def original_topic(self, topic: str) -> str:
        """Return a topic's original name, before copies over any number of clusters."""
        upstream = self.upstream_topic(topic)
        return topic if upstream in (None, topic) else self.original_topic(str(upstream))

    def offset_syncs_topic(self, other_alias: str) -> str:
        """Return the offset-syncs topic; its name contains the alias of the other cluster."""
        return f"mm2-offset-syncs{self.internal_separator}{other_alias}{self._internal}"

    def checkpoints_topic(self, source_alias: str) -> str:
        """Return the checkpoints topic of a flow from ``source_alias``."""
        return f"{source_alias}{self._checkpoints}"

    def is_internal(self, topic: str) -> bool:
        """Return whether a topic is never copied, regardless of the filter."""
        own = topic.startswith("mm2") and topic.endswith(self._internal)
        return own or topic.endswith(self._checkpoints) or topic.startswith(("__", "."))

    def is_heartbeats(self, topic: str) -> bool:
        """Return whether a topic is a heartbeats topic of this or another cluster."""
        return self.original_topic(topic) == HEARTBEATS

    def _keeps(self, topic: str) -> bool:
        return self.kind == "identity" and not topic.endswith(HEARTBEATS)

    @property
    def _internal(self) -> str:
        return f"{self.internal_separator}internal"

    @property
    def _checkpoints(self) -> str:
        return f"{self.internal_separator}checkpoints{self._internal}"
