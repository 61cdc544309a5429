"""The consumer groups of a pipeline at one moment, with what a move now would do to them; pure."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from k2ktui.engine.drill.pair_state import PairState
from k2ktui.engine.moves.failover import GroupEstimate, count_gone, count_waiting
from k2ktui.engine.moves.group_sums import GroupsOnBoth, estimate_moves, summarize_groups
from k2ktui.engine.moves.groups import (
    GroupRow,
    Snapshot,
    after_failover,
    make_group_rows,
    reading_notes,
)


@dataclass(frozen=True, slots=True)
class GroupPositions:
    """The consumer groups on both clusters; times are epoch seconds.

    Attributes:
        pipeline: name of the pipeline.
        taken_at: when the clusters were read.
        commits_at: when the source's commits were read: earlier than ``taken_at`` if the source
            does not answer and the commits kept on the target are used.
        pair_state: which cluster the workload uses.
        source_down: why the source does not answer; empty if it does.
        notes: what could not be read, for example a group, which then has no row.
        rows: each group on each partition, sorted by group, topic and partition.
        estimate: groups by what a move to the target now would do to them.
    """

    pipeline: str
    taken_at: float
    commits_at: float
    pair_state: PairState
    source_down: str
    notes: tuple[str, ...]
    rows: tuple[GroupRow, ...]
    estimate: GroupEstimate

    def as_json(self) -> dict[str, Any]:
        """Return the object that ``k2ktui groups --json`` prints."""
        return {
            "pipeline": self.pipeline,
            "taken_at": self.taken_at,
            "commits_at": self.commits_at,
            "pair_state": self.pair_state.as_json(),
            "source_down": self.source_down,
            "notes": list(self.notes),
            "groups": [row.as_json() for row in self.rows],
            "failover": {"groups": asdict(self.estimate)},
        }


def make_group_positions(snapshot: Snapshot, pair: PairState) -> GroupPositions:
    """Return the groups of a snapshot, as the state of the pair makes them to be read."""
    rows = make_group_rows(snapshot)
    if pair.moved:
        rows = after_failover(rows)
    return GroupPositions(
        pipeline=snapshot.pipeline,
        taken_at=snapshot.taken_at,
        commits_at=snapshot.commits_at,
        pair_state=pair,
        source_down=snapshot.source_down,
        # The source is in a field of its own.
        notes=tuple(reading_notes(replace(snapshot, source_down=""))),
        rows=tuple(rows),
        estimate=_estimate(snapshot, rows),
    )


def _estimate(snapshot: Snapshot, rows: list[GroupRow]) -> GroupEstimate:
    """Count and name the groups of a snapshot by what a move now would do to them."""
    both = GroupsOnBoth(snapshot.source, snapshot.target, rows)
    copies = {(at.topic, at.partition): replica for at, replica in snapshot.replicas.items()}
    new = {at for at, replica in copies.items() if replica.position is None}
    gone = count_gone(rows, {at: replica.source_start for at, replica in copies.items()})
    return estimate_moves(summarize_groups(both, {}, {}), count_waiting(rows, new), gone)
