"""What a failover now would do to the consumer groups of a pipeline; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from k2ktui.engine.mapping.translate import Basis
from k2ktui.engine.moves.groups import Finding, GroupRow


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
class GroupMove:
    """A group as a move would find it.

    Attributes:
        active: whether it has members on the source.
        lost: records that it would never read after the move, and that the source still has, or
            may still have.
        reread: records that it would read again after the move.
        unmapped: number of its other positions without a translation.
        waiting: number of its positions on partitions of which nothing is copied yet.
        unknown: number of its positions whose move has an unknown effect.
        error: why it could not be read; empty if it was.
        moved: whether the pair has failed over, and it is on the target.
        name: its name.
        gone: further records that it would never read, with or without a move: both clusters have
            deleted them.
    """

    active: bool = False
    lost: int = 0
    reread: int = 0
    unmapped: int = 0
    unknown: int = 0
    waiting: int = 0
    error: str = ""
    moved: bool = False
    name: str = ""
    gone: int = 0

    @property
    def outcome(self) -> MoveOutcome:
        """The worst that applies."""
        if self.moved:
            return MoveOutcome.MOVED
        if self.lost:
            return MoveOutcome.LOSES
        if self.unmapped:
            return MoveOutcome.UNMOVABLE
        if self.unknown or self.error:
            return MoveOutcome.UNKNOWN
        if self.waiting:
            return MoveOutcome.NOT_COPIED
        if self.gone:
            return MoveOutcome.LOST_ALREADY
        return MoveOutcome.STOP_FIRST if self.active else MoveOutcome.SAFE


@dataclass(frozen=True, slots=True)
class NamedMove:
    """A group that is not simply safe to move.

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


def estimate_groups(moves: Iterable[GroupMove]) -> GroupEstimate:
    """Count groups by what a failover now would do to them."""
    counts = dict.fromkeys(MoveOutcome, 0)
    lost = reread = gone = 0
    named: list[NamedMove] = []
    for move in moves:
        outcome = move.outcome
        counts[outcome] += 1
        lost += move.lost
        gone += move.gone
        reread += move.reread
        if outcome in _NAMED:
            named.append(NamedMove(move.name, outcome, move.active, move.lost, move.gone))
    named.sort(
        key=lambda move: (
            _NAMED.index(move.outcome),
            -move.lost_records,
            -move.gone_records,
            move.group,
        )
    )
    return GroupEstimate(
        **{_COUNTED[outcome]: count for outcome, count in counts.items()},
        lost_records=lost,
        reread_records=reread,
        gone_records=gone,
        named=tuple(named),
    )
