"""What a failover now would do to the consumer groups of a pipeline; pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class MoveOutcome(StrEnum):
    """What a move to the target now means for a group; each group has exactly one."""

    MOVED = "moved"
    SAFE = "safe"
    STOP_FIRST = "stop-first"
    NOT_COPIED = "not-copied"
    UNKNOWN = "unknown"
    UNMOVABLE = "unmovable"
    LOSES = "loses"


@dataclass(frozen=True, slots=True)
class GroupMove:
    """A group as a move would find it.

    Attributes:
        active: whether it has members on the source.
        lost: records that it would never read after the move.
        reread: records that it would read again after the move.
        unmapped: number of its other positions without a translation.
        waiting: number of its positions on partitions of which nothing is copied yet.
        unknown: number of its positions whose move has an unknown effect.
        error: why it could not be read; empty if it was.
        moved: whether the pair has failed over, and it is on the target.
    """

    active: bool = False
    lost: int = 0
    reread: int = 0
    unmapped: int = 0
    unknown: int = 0
    waiting: int = 0
    error: str = ""
    moved: bool = False

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
        return MoveOutcome.STOP_FIRST if self.active else MoveOutcome.SAFE


@dataclass(frozen=True, slots=True)
class GroupEstimate:
    """Groups by what a failover now would do to them; each group is counted once.

    Attributes:
        safe: groups that can be moved now and lose no record.
        stop_first: the same, after their members on the source were stopped.
        not_copied: groups with a position on a partition of which nothing is copied yet.
        unknown: groups of which the effect is unknown.
        unmovable: groups with a position that has no translation.
        losing: groups that would never read ``lost_records`` records.
        reread_records: records that the groups would read again.
        moved: groups that are on the target, where a failover has moved them.
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

    @property
    def total(self) -> int:
        """Number of groups."""
        return (
            self.moved
            + self.safe
            + self.stop_first
            + self.not_copied
            + self.unknown
            + self.unmovable
            + self.losing
        )


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
    """

    groups: GroupEstimate | None = None
    rpo_records: int | None = None
    rpo_s: float | None = None
    unknown_partitions: int = 0
    commits_at: float | None = None
    rpo_at_least: int | None = None
    failed_over: bool = False

    def as_json(self) -> dict[str, Any]:
        """Return the object that commands print."""
        return asdict(self)


def estimate_groups(moves: Iterable[GroupMove]) -> GroupEstimate:
    """Count groups by what a failover now would do to them."""
    counts = dict.fromkeys(MoveOutcome, 0)
    lost = reread = 0
    for move in moves:
        counts[move.outcome] += 1
        lost += move.lost
        reread += move.reread
    return GroupEstimate(
        safe=counts[MoveOutcome.SAFE],
        stop_first=counts[MoveOutcome.STOP_FIRST],
        not_copied=counts[MoveOutcome.NOT_COPIED],
        unknown=counts[MoveOutcome.UNKNOWN],
        unmovable=counts[MoveOutcome.UNMOVABLE],
        losing=counts[MoveOutcome.LOSES],
        lost_records=lost,
        reread_records=reread,
        moved=counts[MoveOutcome.MOVED],
    )
