"""What views take from a snapshot of groups, made again only where the snapshot differs.

While nothing is written and no group commits, one snapshot after another is the same; comparing
them costs a small part of translating all groups again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import partial

from k2ktui.engine.mapping.replica import Replica
from k2ktui.engine.moves.groups import GroupRow, Snapshot, make_group_rows
from k2ktui.engine.records.state import SourcePartition
from k2ktui.watch.facts import MappedSummary
from k2ktui.watch.model import RangeRow
from k2ktui.watch.unchanged import Same, Unchanged

# More than a view shows: mappings are read at another moment than positions, and may be ahead.
_LAST_RANGES = 64
_RANGES_UP_TO = 500
# Rows do not depend on the times; replicas are compared by what they hold.
_NOT_COMPARED = frozenset({"taken_at", "commits_at", "replicas"})
_COMPARED = [field.name for field in fields(Snapshot) if field.name not in _NOT_COMPARED]
_OF_REPLICA = [field.name for field in fields(Replica) if field.name != "target_ranges"]


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
