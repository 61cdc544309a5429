"""Results that are kept as long as what they were made from does not change.

While nothing is written and no group commits, one snapshot of groups after another is the same;
comparing them costs a small part of translating all groups again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import partial
from typing import Generic, TypeVar

from k2ktui.engine.mapping.replica import Replica
from k2ktui.engine.moves.groups import GroupRow, Snapshot, make_group_rows
from k2ktui.engine.records.state import SourcePartition
from k2ktui.watch.facts import MappedSummary
from k2ktui.watch.model import RangeRow

T = TypeVar("T")

# More than a view shows: mappings are read at another moment than positions, and may be ahead.
_LAST_RANGES = 64
_RANGES_UP_TO = 500
# Rows do not depend on the times; replicas are compared by what they hold.
_NOT_COMPARED = frozenset({"taken_at", "commits_at", "replicas"})
_COMPARED = [field.name for field in fields(Snapshot) if field.name not in _NOT_COMPARED]
_OF_REPLICA = [field.name for field in fields(Replica) if field.name != "target_ranges"]


class Unchanged(Generic[T]):
    """The last result of a function, returned again for equal inputs; not thread-safe."""

    def __init__(self) -> None:
        self._last: tuple[object, T] | None = None

    def get(self, inputs: object, make: Callable[[], T]) -> T:
        """Return the last result if it was made from equal inputs, else what ``make`` returns.

        The inputs are kept, so they must not be changed afterwards.
        """
        if self._last is None or self._last[0] != inputs:
            self._last = (inputs, make())
        return self._last[1]


@dataclass(frozen=True, slots=True, eq=False)
class Same:
    """An input that counts as unchanged only if it is the same object."""

    value: object

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


class SnapshotRows:
    """The rows and mapping summaries of successive snapshots; not thread-safe."""

    def __init__(self) -> None:
        self._rows: Unchanged[list[GroupRow]] = Unchanged()
        self._mapped: dict[SourcePartition, Unchanged[MappedSummary]] = {}

    def rows(self, snapshot: Snapshot) -> list[GroupRow]:
        """Return what :func:`make_group_rows` does; the list is kept and must not be changed."""
        return self._rows.get(inputs_of_rows(snapshot), partial(make_group_rows, snapshot))

    def summaries(
        self, replicas: Mapping[SourcePartition, Replica]
    ) -> dict[SourcePartition, MappedSummary]:
        """Return what is mapped of each partition; with its last ranges if there are not many."""
        few = len(replicas) <= _RANGES_UP_TO
        self._mapped = {at: self._mapped.get(at) or Unchanged() for at in replicas}
        return {
            at: self._mapped[at].get(
                (few, _inputs_of(replica)), partial(summarize_mapping, replica, few)
            )
            for at, replica in replicas.items()
        }


def inputs_of_rows(snapshot: Snapshot) -> object:
    """Return what the rows of a snapshot depend on, to be compared with that of a later one."""
    # The opposite pipeline's mappings are extended in place.
    opposite = Same(snapshot) if snapshot.opposite else None
    replicas = {at: _inputs_of(replica) for at, replica in snapshot.replicas.items()}
    return [getattr(snapshot, name) for name in _COMPARED], opposite, replicas


def _inputs_of(replica: Replica) -> object:
    if replica.anchors is not None:  # they are extended in place
        return Same(replica)
    ranges = {at: (Same(ranges), ranges.revision) for at, ranges in replica.target_ranges.items()}
    return [getattr(replica, name) for name in _OF_REPLICA], ranges


def summarize_mapping(replica: Replica, with_ranges: bool) -> MappedSummary:
    """Return what a replica's mappings cover, with or without the last ranges."""
    if replica.anchors is not None:
        return MappedSummary(len(replica.anchors) // 2, 0, exact=len(replica.anchors))
    return MappedSummary(
        records=replica.mapped,
        known_from=replica.known_from,
        holes=replica.holes,
        ranges=last_ranges(replica, _LAST_RANGES) if with_ranges else (),
    )


def last_ranges(replica: Replica, count: int) -> tuple[RangeRow, ...]:
    """Return the last mapping ranges of a partition that are held in memory, in source order."""
    last: list[RangeRow] = []
    for ranges in replica.target_ranges.values():
        columns = ranges.columns()
        rows = (columns.source[-count:], columns.target[-count:], columns.count[-count:])
        last += zip(*(column.tolist() for column in rows), strict=True)
    return tuple(sorted(last)[-count:])
