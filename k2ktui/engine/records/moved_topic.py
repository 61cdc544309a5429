"""Moved topics: source topics whose clients a drill has moved to the target.

A moved topic is not copied again by any run until it is released. The records are beside the
positions, in the commit topic (``docs/internals/record-formats.md``): a run reads both together
when it takes over, and can so never know a position without the moves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from k2ktui.engine.strict_json import MalformedRecord, dump_object, parse_object, require_version
from k2ktui.engine.wire import MILLIS, TEXT, Wire, required
from k2ktui.text import moment

MOVED = "moved"
_VERSION = 1
_LARGEST_KEY = 1 << 20


class _OfTopic(Protocol):
    @property
    def topic(self) -> str: ...


_Source = TypeVar("_Source", bound=_OfTopic)


@dataclass(frozen=True, slots=True)
class MovedTopic:
    """A source topic of a pipeline that a drill has moved.

    Attributes:
        topic: on the source; with all partitions, also those that appear later.
        target: the topic on the target whose clients have moved.
        drill: id of the drill that has moved it.
        at_ms: since when, epoch milliseconds by the writer's clock.
        who: ``user@host``.
    """

    topic: str
    target: str
    drill: str
    at_ms: int
    who: str

    def describe(self) -> str:
        """Return by which drill, who and since when it was moved; not safe to print."""
        return f"moved by drill {self.drill} ({self.who}) at {moment(self.at_ms / 1000)}"


_WIRE = Wire(
    MovedTopic,
    target=required("target", TEXT),
    drill=required("drill", TEXT),
    at_ms=required("at", MILLIS),
    who=required("who", TEXT),
)


@dataclass(frozen=True, slots=True)
class ReleasedTopic:
    """The tombstone of a moved topic: it is copied again."""

    topic: str


class MovedTopics:
    """All moved topics of a pipeline; two with the same ones are equal."""

    def __init__(self, moved: Iterable[MovedTopic] = ()) -> None:
        self._by_topic = {one.topic: one for one in moved}

    def __bool__(self) -> bool:
        return bool(self._by_topic)

    def __len__(self) -> int:
        return len(self._by_topic)

    def __contains__(self, topic: str) -> bool:
        return topic in self._by_topic

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MovedTopics) and self._by_topic == other._by_topic

    def __hash__(self) -> int:
        return hash(frozenset(self._by_topic.items()))

    def get(self, topic: str) -> MovedTopic | None:
        """Return what moved a source topic; None if nothing did."""
        return self._by_topic.get(topic)

    def not_by(self, drill: str, topics: Iterable[str]) -> dict[str, MovedTopic | None]:
        """Return those of these topics that a drill has not moved, with what else has."""
        moves = {topic: self.get(topic) for topic in topics}
        return {t: move for t, move in moves.items() if move is None or move.drill != drill}

    def of(self, sources: Iterable[_Source]) -> frozenset[_Source]:
        """Return which of these source partitions are of a moved topic."""
        if not self._by_topic:
            return frozenset()
        return frozenset(at for at in sources if at.topic in self._by_topic)

    @property
    def all(self) -> tuple[MovedTopic, ...]:
        """The moved topics, by name."""
        return tuple(self._by_topic[topic] for topic in sorted(self._by_topic))


NO_MOVED_TOPICS = MovedTopics()


@dataclass(frozen=True, slots=True)
class TopicMoves:
    """What one takeover changes: topics that are moved now, and topics that are released."""

    moved: tuple[MovedTopic, ...] = ()
    released: tuple[str, ...] = ()


def moved_topic_key(group: str, topic: str) -> bytes:
    """Compaction key of a record; ``group`` is ``coordination.commit.group``."""
    return dump_object({"group": group, "kind": MOVED, "topic": topic})


def moved_topic_value(moved: MovedTopic) -> bytes:
    """Value of a record."""
    return dump_object({"v": _VERSION, **_WIRE.write(moved)})


def parse_moved_topic(topic: str, value: Mapping[str, Any]) -> MovedTopic:
    """Return the record of a topic, from its decoded value.

    Raises:
        MalformedRecord: a field is missing or wrong, or the version is another.
    """
    require_version(value, _VERSION)
    return _WIRE.read(value, topic=topic)


def is_moved_key(key: bytes | None) -> bool:
    """Return whether a key is that of a moved topic, even if it can be used for nothing else."""
    try:
        return parse_object(key, "the key", largest=_LARGEST_KEY).get("kind") == MOVED
    except MalformedRecord:
        return False
