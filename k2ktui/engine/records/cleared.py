"""Positions that an operator has removed, as the state topic keeps it.

The record outlives the commit topic: what an earlier run left on the target (mappings, heartbeats)
is no sign of a lost position if the position was removed on purpose after that run. See
``docs/internals/record-formats.md``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from k2ktui.engine.records.run_record import TERM
from k2ktui.engine.records.state import SourcePartition
from k2ktui.engine.wire import (
    MILLIS,
    NUMBER,
    TEXT,
    Wire,
    optional,
    required,
    table_of,
)


@dataclass(frozen=True, slots=True)
class ClearedKey:
    """Key of what was removed of a source topic; "" is the whole pipeline."""

    topic: str = ""


@dataclass(frozen=True, slots=True)
class Cleared:
    """The terms up to which nothing that earlier runs left says anything about a position.

    Attributes:
        topic: source topic; "" is the whole pipeline, with all topics that it has and gets.
        who: ``user@host``.
        at_ms: when, epoch milliseconds by the writer's clock.
        term: of the whole pipeline; 0 in the record of a topic.
        partitions: the term of each partition of the topic.
    """

    topic: str
    who: str
    at_ms: int
    term: int = 0
    partitions: Mapping[int, int] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def key(self) -> ClearedKey:
        """Key of the record."""
        return ClearedKey(self.topic)

    def joined(self, before: Cleared | None) -> Cleared:
        """Return this record with what an earlier one says; the higher terms count."""
        if before is None:
            return self
        partitions = dict(before.partitions)
        for partition, term in self.partitions.items():
            partitions[partition] = max(term, partitions.get(partition, 0))
        return replace(self, term=max(self.term, before.term), partitions=partitions)


class ClearedTerms:
    """Up to which term each partition's evidence is void; two with the same records are equal."""

    def __init__(self, records: Iterable[Cleared] = ()) -> None:
        self._by_topic = {record.topic: record for record in records}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ClearedTerms) and self._by_topic == other._by_topic

    def __hash__(self) -> int:
        return hash(frozenset(self._by_topic))

    def get(self, topic: str) -> Cleared | None:
        """Return the record of a topic; "" is the whole pipeline."""
        return self._by_topic.get(topic)

    @property
    def all(self) -> tuple[Cleared, ...]:
        """The records, by topic."""
        return tuple(record for _, record in sorted(self._by_topic.items()))

    @property
    def whole(self) -> int:
        """The term of the whole pipeline; 0 if it was never cleared as a whole."""
        return self._by_topic[""].term if "" in self._by_topic else 0

    def of(self, source: SourcePartition) -> int:
        """Return the term up to which the evidence of a partition is void; 0 if none is."""
        record = self._by_topic.get(source.topic)
        own = record.partitions.get(source.partition, 0) if record is not None else 0
        return max(self.whole, own)


NOTHING_CLEARED = ClearedTerms()


CLEARED_KEY_WIRE = Wire(ClearedKey, topic=optional("topic", TEXT, ""))
CLEARED_WIRE = Wire(
    Cleared,
    who=required("who", TEXT),
    at_ms=required("at", MILLIS),
    term=optional("term", TERM, 0),
    partitions=optional("partitions", table_of(NUMBER, TERM, columns=(1, 1)), {}),
)
