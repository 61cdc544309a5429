"""Selection of topics and groups, and mapping of topic names to the target."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

KAFKA_INTERNAL_TOPICS = frozenset(
    {
        "__cluster_metadata",
        "__consumer_offsets",
        "__remote_log_metadata",
        "__share_group_state",
        "__transaction_state",
    }
)

_UNSUPPORTED = (
    (re.compile(r"\\[pP]\{|\\[pP][A-Z]"), r"\p{…} classes"),
    (re.compile(r"\[[^\]]*&&"), "class intersections (&&)"),
    (re.compile(r"\\[GRXhHkvV]"), r"\G, \R, \X, \h, \k and \v"),
)
_QUOTED = re.compile(r"\\Q(.*?)(?:\\E|$)", re.DOTALL)


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Compile a Java regular expression that must match a full name.

    Raises:
        ValueError: the expression is invalid, or uses a Java construct that Python lacks.
    """
    bare = _QUOTED.sub("", pattern)
    for construct, words in _UNSUPPORTED:
        if construct.search(bare):
            raise ValueError(
                f"a regular expression without Java's {words}, which are not supported"
            )
    translated = _QUOTED.sub(lambda quoted: re.escape(quoted[1]), pattern)
    translated = re.sub(r"\(\?<(?=[A-Za-z])", "(?P<", translated).replace(r"\z", r"\Z")
    try:
        return re.compile(translated)
    except re.error as error:
        raise ValueError(f"a valid regular expression ({error})") from None


@dataclass(frozen=True)
class NameSelection:
    """A selection of names: one regular expression for the full name, or a list of exact names.

    The expression never matches ``excluded`` names; a list of exact names may contain them.
    """

    pattern: str | None = None
    names: tuple[str, ...] = ()
    excluded: frozenset[str] = frozenset()

    def matches(self, name: str) -> bool:
        """Return whether ``name`` is selected."""
        if self.pattern is None:
            return name in self.names
        return name not in self.excluded and bool(compile_pattern(self.pattern).fullmatch(name))

    def __str__(self) -> str:
        return self.pattern if self.pattern is not None else ", ".join(self.names)


class TopicSelection(NameSelection):
    """The source topics of a pipeline; see ``PipelineConfig.topics``."""


class GroupSelection(NameSelection):
    """The consumer groups whose offsets are translated; see ``PipelineConfig.consumer_groups``."""


MappingKind = Literal["source", "affix", "static", "staticMapping"]


@dataclass(frozen=True)
class TopicMapping:
    """Maps a source topic name to its name on the target.

    ``kind`` selects the fields that apply: ``source`` (same name), ``affix`` (prefix and suffix
    around the name), ``static`` (all topics into one) or ``staticMapping`` (the first pattern
    that matches the full name).
    """

    kind: MappingKind = "source"
    prefix: str = ""
    suffix: str = ""
    static: str = ""
    rules: tuple[tuple[str, str], ...] = ()

    def target_for(self, topic: str) -> str | None:
        """Return the target topic of ``topic``, or None when no static mapping covers it."""
        return _TARGETS[self.kind](self, topic)

    def __str__(self) -> str:
        if self.kind == "affix":
            return f"{self.prefix}<topic>{self.suffix}"
        if self.kind == "static":
            return self.static
        return self.kind


def _by_rule(mapping: TopicMapping, topic: str) -> str | None:
    chosen = (to for pattern, to in mapping.rules if compile_pattern(pattern).fullmatch(topic))
    return next(chosen, None)


_TARGETS: dict[str, Callable[[TopicMapping, str], str | None]] = {
    "source": lambda mapping, topic: topic,
    "affix": lambda mapping, topic: f"{mapping.prefix}{topic}{mapping.suffix}",
    "static": lambda mapping, topic: mapping.static,
    "staticMapping": _by_rule,
}
