"""Holds: source topics and partitions that an operator keeps from being copied for a while.

A held partition keeps its position and its mappings, and is copied from there once it is released.
See ``docs/internals/record-formats.md``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from k2ktui.engine.records.state import SourcePartition
from k2ktui.engine.wire import MILLIS, NUMBER, TEXT, Wire, optional, or_none, required
from k2ktui.text import moment


@dataclass(frozen=True, slots=True)
class HoldKey:
    """Key of a hold: a source topic, and one of its partitions; None is the whole topic."""

    topic: str
    partition: int | None = None

    @property
    def name(self) -> str:
        """The name as commands take it: ``TOPIC`` or ``TOPIC:PARTITION``; not safe to print."""
        return self.topic if self.partition is None else f"{self.topic}:{self.partition}"

    def covers(self, source: SourcePartition) -> bool:
        """Return whether a partition is meant."""
        return source.topic == self.topic and self.partition in (None, source.partition)


@dataclass(frozen=True, slots=True)
class Hold:
    """What an operator has held.

    Attributes:
        topic, partition: as in the key; without a partition, those that appear later are held, too.
        who: ``user@host``.
        at_ms: since when, epoch milliseconds by the writer's clock.
        why: the operator's reason, may be empty.
    """

    topic: str
    partition: int | None
    who: str
    at_ms: int
    why: str = ""

    @property
    def key(self) -> HoldKey:
        """Key of the record."""
        return HoldKey(self.topic, self.partition)

    def describe(self) -> str:
        """Return who holds it, since when and why; not safe to print."""
        reason = f" ({self.why})" if self.why else ""
        return f"held by {self.who} since {moment(self.at_ms / 1000)}{reason}"


class Holds:
    """All holds of a pipeline; two with the same holds are equal."""

    def __init__(self, holds: Iterable[Hold] = ()) -> None:
        self._by_key = {hold.key: hold for hold in holds}

    def __bool__(self) -> bool:
        return bool(self._by_key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Holds) and self._by_key == other._by_key

    def __hash__(self) -> int:
        return hash(frozenset(self._by_key.items()))

    def get(self, key: HoldKey) -> Hold | None:
        """Return the hold with this very key."""
        return self._by_key.get(key)

    def of(self, topic: str, partition: int) -> Hold | None:
        """Return what holds a partition: the hold of its topic, or its own."""
        if not self._by_key:  # as of most pipelines, whatever the number of partitions
            return None
        return self._by_key.get(HoldKey(topic)) or self._by_key.get(HoldKey(topic, partition))

    def held(self, sources: Iterable[SourcePartition]) -> frozenset[SourcePartition]:
        """Return which of these partitions are held."""
        if not self._by_key:
            return frozenset()
        return frozenset(at for at in sources if self.of(at.topic, at.partition) is not None)

    @property
    def all(self) -> tuple[Hold, ...]:
        """The holds, by topic and partition."""
        return tuple(sorted(self._by_key.values(), key=_order))


NO_HOLDS = Holds()


def _order(hold: Hold) -> tuple[str, int]:
    return hold.topic, -1 if hold.partition is None else hold.partition


HOLD_KEY_WIRE = Wire(
    HoldKey, partition=optional("partition", or_none(NUMBER), None), topic=required("topic", TEXT)
)
HOLD_WIRE = Wire(
    Hold, who=required("who", TEXT), at_ms=required("at", MILLIS), why=optional("why", TEXT, "")
)
