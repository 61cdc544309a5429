"""The consumer groups of a pipeline, and what a failover now would do to them; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

from k2ktui.engine.drill.pair_state import PairState
from k2ktui.engine.mapping.translate import Basis
from k2ktui.engine.moves.groups import (
    Finding,
    GroupRow,
    Snapshot,
    after_failover,
    make_group_rows,
    reading_notes,
)
from k2ktui.engine.moves.lags import NO_LOGS, ReadLogs, with_lags
from k2ktui.engine.moves.ratings import GroupSummary, summarize_groups


class MoveOutcome(StrEnum):
    """What a move to the target now means for a group; each group has exactly one."""

    MOVED = "moved"
    SAFE = "safe"
    STOP_FIRST = "stop-first"
    NOT_COPIED = "not-copied"
    UNKNOWN = "unknown"
    UNMOVABLE = "unmovable"
    LOSES = "loses"
    LOST_ALREADY = "lost-already"


# The worst first: the order in which groups are named.
_NAMED = (
    MoveOutcome.LOSES,
    MoveOutcome.LOST_ALREADY,
    MoveOutcome.UNMOVABLE,
    MoveOutcome.UNKNOWN,
    MoveOutcome.STOP_FIRST,
    MoveOutcome.NOT_COPIED,
)

# The field of an estimate that counts the groups with an outcome.
_COUNTED = {
    **{outcome: outcome.value.replace("-", "_") for outcome in MoveOutcome},
    MoveOutcome.LOSES: "losing",
}


@dataclass(frozen=True, slots=True)
class NamedMove:
    """A group as a move to the target now would find it.

    Attributes:
        group: its name.
        outcome: what a move means for it.
        active: whether it has members on the source, which must be stopped first.
        lost_records: records that it would never read, and that the source still has.
        gone_records: records that it would never read, and that both clusters have deleted.
    """

    group: str
    outcome: MoveOutcome
    active: bool = False
    lost_records: int = 0
    gone_records: int = 0


@dataclass(frozen=True, slots=True)
class GroupEstimate:
    """Groups by what a failover now would do to them; each group is counted once.

    Attributes:
        safe: groups that can be moved now and lose no record.
        stop_first: the same, after their members on the source were stopped.
        not_copied: groups with a position on a partition of which nothing is copied yet.
        unknown: groups of which the effect is unknown.
        unmovable: groups with a position that has no translation.
        losing: groups that would never read ``lost_records`` records, which the source still has.
        lost_already: groups that would never read ``gone_records`` records, which both clusters
            have deleted: the move is not what loses them, and it does not bring them back.
        reread_records: records that the groups would read again.
        moved: groups that are on the target, where a failover has moved them.
        named: the groups that are neither safe nor moved, the worst first.
    """

    safe: int = 0
    stop_first: int = 0
    not_copied: int = 0
    unknown: int = 0
    unmovable: int = 0
    losing: int = 0
    lost_records: int = 0
    reread_records: int = 0
    moved: int = 0
    lost_already: int = 0
    gone_records: int = 0
    named: tuple[NamedMove, ...] = ()

    @property
    def total(self) -> int:
        """Number of groups."""
        return sum(map(self.count, MoveOutcome))

    def count(self, outcome: MoveOutcome) -> int:
        """Return the number of groups with an outcome."""
        number: int = getattr(self, _COUNTED[outcome])
        return number

    def of(self, outcome: MoveOutcome) -> list[NamedMove]:
        """Return the named groups with an outcome."""
        return [move for move in self.named if move.outcome is outcome]


@dataclass(frozen=True, slots=True)
class FailoverEstimate:
    """What a failover now would do; None is unknown.

    Attributes:
        groups: the groups; None if they were not read.
        rpo_records: records on the source that were not copied; of the partitions whose lag is
            known. After a failover: those that were missing when the target was opened.
        rpo_at_least: the lower bound of these, if no more is known.
        rpo_s: age of the oldest of them in seconds.
        unknown_partitions: number of partitions whose lag is unknown.
        commits_at: when the groups' commits on the source were read, in epoch seconds.
        failed_over: whether the pair has failed over: the workload is on the target.
        held_partitions: number of partitions that operators hold.
        held_records: records of these that were not copied, which ``rpo_records`` leaves out.
        held_s: age of the oldest of them in seconds.
    """

    groups: GroupEstimate | None = None
    rpo_records: int | None = None
    rpo_s: float | None = None
    unknown_partitions: int = 0
    commits_at: float | None = None
    rpo_at_least: int | None = None
    failed_over: bool = False
    held_partitions: int = 0
    held_records: int | None = None
    held_s: float | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the object that commands print."""
        return asdict(self)


def count_waiting(rows: Iterable[GroupRow], new: Collection[tuple[str, int]]) -> Counter[str]:
    """Count each group's unmapped positions on partitions of which nothing is copied yet.

    Args:
        rows: group-partitions.
        new: those partitions of the source.
    """
    return Counter(
        row.group
        for row in (rows if new else ())
        if row.basis is Basis.UNMAPPED
        and row.finding is not Finding.MOVED
        and (row.topic, row.partition) in new
    )


def count_gone(
    rows: Iterable[GroupRow], starts: Mapping[tuple[str, int], int | None]
) -> dict[str, int | None]:
    """Count each group's unread records that a move skips and the source has deleted as well.

    The move is not what loses them. Only groups with skipped records have an entry; it is None if
    the source's log start offset is unknown for one of their partitions.

    Args:
        rows: group-partitions.
        starts: log start offsets on the source.
    """
    # Several source partitions may share the position on a target partition, and what it skips.
    skipped: dict[tuple[str, str, int | None], int] = {}
    gone: Counter[tuple[str, str, int | None]] = Counter()
    unknown: set[str] = set()
    for row in rows:
        if not row.skipped or row.source_offset is None:
            continue
        start = starts.get((row.topic, row.partition))
        at = row.group, row.target_topic, row.target_partition
        skipped[at] = row.skipped
        gone[at] += max(0, (start or 0) - row.source_offset)
        if start is None:
            unknown.add(row.group)
    by_group: Counter[str] = Counter()
    for at, count in skipped.items():
        by_group[at[0]] += min(count, gone[at])
    return {group: None if group in unknown else count for group, count in by_group.items()}


def estimate_moves(
    groups: Iterable[GroupSummary], waiting: Mapping[str, int], gone: Mapping[str, int | None]
) -> GroupEstimate:
    """Count and name groups by what a failover now would do to them.

    Args:
        groups: their sums.
        waiting: see :func:`count_waiting`.
        gone: see :func:`count_gone`.
    """
    groups = tuple(groups)
    moves = [_move(group, waiting.get(group.group, 0), gone.get(group.group)) for group in groups]
    counts = Counter(move.outcome for move in moves)
    return GroupEstimate(
        **{name: counts[outcome] for outcome, name in _COUNTED.items()},
        lost_records=sum(move.lost_records for move in moves),
        reread_records=sum(group.moved_rereads for group in groups),
        gone_records=sum(move.gone_records for move in moves),
        named=tuple(sorted((move for move in moves if move.outcome in _NAMED), key=_worst_first)),
    )


def _worst_first(move: NamedMove) -> tuple[int, int, int, str]:
    return _NAMED.index(move.outcome), -move.lost_records, -move.gone_records, move.group


def _move(group: GroupSummary, waiting: int, known_gone: int | None) -> NamedMove:
    """Return what a move means for a group: the worst that applies."""
    # Records of which it is not known whether the source has them count as lost by the move.
    gone = min(known_gone or 0, group.moved_skips)
    lost = group.moved_skips - gone
    unmapped = group.unmapped - waiting
    is_unread = group.source.error or group.target.error
    outcome = MoveOutcome.STOP_FIRST if group.source.is_active else MoveOutcome.SAFE
    if 0 < group.moved == group.partitions:
        outcome = MoveOutcome.MOVED
    elif lost:
        outcome = MoveOutcome.LOSES
    elif unmapped > group.checking_unmapped:
        outcome = MoveOutcome.UNMOVABLE
    elif unmapped or group.unknown_moved > group.unmapped or is_unread:
        outcome = MoveOutcome.UNKNOWN
    elif waiting:
        outcome = MoveOutcome.NOT_COPIED
    elif gone:
        outcome = MoveOutcome.LOST_ALREADY
    return NamedMove(group.group, outcome, group.source.is_active, lost, gone)


def estimate_snapshot(
    snapshot: Snapshot, rows: Sequence[GroupRow]
) -> tuple[tuple[GroupSummary, ...], GroupEstimate]:
    """Return the groups of a snapshot with the sums of their rows, and what a move now would do."""
    groups = summarize_groups(rows, snapshot.source, snapshot.target)
    copies = {(at.topic, at.partition): replica for at, replica in snapshot.replicas.items()}
    new = {at for at, replica in copies.items() if replica.position is None}
    gone = count_gone(rows, {at: replica.source_start for at, replica in copies.items()})
    return groups, estimate_moves(groups, count_waiting(rows, new), gone)


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


def make_group_positions(
    snapshot: Snapshot, pair: PairState, logs: ReadLogs = NO_LOGS
) -> GroupPositions:
    """Return the groups of a snapshot, as the state of the pair makes them to be read.

    Args:
        snapshot: both clusters.
        pair: which cluster the workload uses.
        logs: what lags are measured against; without it they are unknown.
    """
    rows = make_group_rows(snapshot)
    if pair.moved:
        rows = after_failover(rows)
    rows = with_lags(rows, logs)
    return GroupPositions(
        pipeline=snapshot.pipeline,
        taken_at=snapshot.taken_at,
        commits_at=snapshot.commits_at,
        pair_state=pair,
        source_down=snapshot.source_down,
        # The source is in a field of its own.
        notes=tuple(reading_notes(replace(snapshot, source_down=""))),
        rows=tuple(rows),
        estimate=estimate_snapshot(snapshot, rows)[1],
    )
