"""Which names a pipeline takes, and what it calls them on the target."""

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
    """Compile a Java regular expression that must match a whole name.

    Raises:
        ValueError: it is no valid expression, or uses a Java construct that Python has not.
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
    """A choice of names: one regular expression for the whole name, or a list of exact names.

    ``excluded`` names are never matched by the expression; a list that names them takes them.
    """

    pattern: str | None = None
    names: tuple[str, ...] = ()
    excluded: frozenset[str] = frozenset()

    def matches(self, name: str) -> bool:
        """Tell whether ``name`` is chosen."""
        if self.pattern is None:
            return name in self.names
        return name not in self.excluded and bool(compile_pattern(self.pattern).fullmatch(name))

    def __str__(self) -> str:
        return self.pattern if self.pattern is not None else ", ".join(self.names)


class TopicSelection(NameSelection):
    """The source topics of a pipeline; ``PipelineConfig.topics`` makes it."""


class GroupSelection(NameSelection):
    """The consumer groups whose offsets a pipeline translates; ``PipelineConfig`` makes it."""


MappingKind = Literal["source", "affix", "static", "staticMapping"]


@dataclass(frozen=True)
class TopicMapping:
    """How a source topic is called on the target.

    ``kind`` says which of the other fields count: ``source`` (same name), ``affix`` (prefix and
    suffix around the name), ``static`` (all into one topic) or ``staticMapping`` (the first
    pattern that matches the whole name decides).
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
