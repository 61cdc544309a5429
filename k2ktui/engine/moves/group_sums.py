"""Consumer groups with the sums of their partitions, and how each is rated; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

from k2ktui.engine.mapping.translate import Basis
from k2ktui.engine.moves.audit import (
    NOTHING,
    Audit,
    AuditRow,
    RereadEstimate,
    estimate_by_checkpoints,
    estimate_by_translation,
)
from k2ktui.engine.moves.failover import GroupEstimate, GroupMove, estimate_groups
from k2ktui.engine.moves.groups import EMPTY_STATES, Finding, GroupRow, GroupView, outcome
from k2ktui.engine.severity import Severity, SeverityLabel

SourceEnds = Mapping[tuple[str, int], int | None]
TargetEnds = Mapping[tuple[str, int | None], int | None]


@dataclass(frozen=True, slots=True)
class GroupSide:
    """A group on one cluster: Kafka's state name, members (None: unknown), and any error."""

    state: str = ""
    members: int | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class GroupSummary:
    """A consumer group with the sums of its rows; see ``GroupRow``.

    Attributes:
        bases: number of rows per basis.
        missing: rows without a committed offset on the target.
        skips: records it would never read if it continued on the target as committed now.
        rereads: records it would read again there.
        lag: source records that it has not read yet, None if unknown for any partition.
        ours: what it would read again on the target from the translated position.
        theirs: the same from MirrorMaker 2's checkpoints; None if they are not compared.
        unknown: rows with a commit on the target for which it is unknown what the group would
            skip or read again; they are in no sum.
        ahead: rows whose commit on the target skips records that a move would not skip.
        behind: rows whose commit on the target reads records again that a move would not.
        moved_skips, moved_rereads: what it would skip and read again after a move, as in the plan;
            rows without a mapping are not moved.
        unknown_now: rows without a commit on the target, or for which it is unknown what the group
            would skip as committed now.
        unknown_moved: rows that cannot be moved.
        checking: rows found bad once: in no sum, and bad only if the next poll agrees.
        checking_unmapped: the ``checking`` rows that seem to have no mapping.
        moved: rows on the target, where a failover has moved the group; they are in no sum, and
            ``lag`` is that on the target.
        moved_unmapped, moved_bounded: the ``moved`` rows without a mapping, and with a bound of it.
        moved_with_topic: the ``moved`` rows whose topic a drill moved; others may stay on the
            source, so that the group may be active on both clusters.
        chosen: rows for which an operator has decided where the group continues.
    """

    group: str
    source: GroupSide
    target: GroupSide
    partitions: int
    bases: Mapping[str, int]
    missing: int
    skips: int
    rereads: int
    lag: int | None = None
    ours: RereadEstimate = NOTHING
    theirs: RereadEstimate | None = None
    unknown: int = 0
    ahead: int = 0
    behind: int = 0
    moved_skips: int = 0
    moved_rereads: int = 0
    unknown_now: int = 0
    unknown_moved: int = 0
    checking: int = 0
    checking_unmapped: int = 0
    moved: int = 0
    moved_unmapped: int = 0
    chosen: int = 0
    moved_bounded: int = 0
    moved_with_topic: int = 0

    @property
    def unmapped(self) -> int:
        """Rows that have no mapping, and need one: those that are moved do not."""
        return self.bases.get(Basis.UNMAPPED, 0) - self.moved_unmapped


def counts(words: Sequence[str]) -> dict[str, int]:
    """Return the number of occurrences of each word, sorted by word."""
    occurrences: dict[str, int] = {}
    for word in words:
        occurrences[word] = occurrences.get(word, 0) + 1
    return dict(sorted(occurrences.items()))


@dataclass(frozen=True, slots=True)
class GroupsOnBoth:
    """The groups of both clusters, by name, and their translated positions, sorted by group."""

    source: Mapping[str, GroupView]
    target: Mapping[str, GroupView]
    rows: Sequence[GroupRow]


def summarize_groups(
    groups: GroupsOnBoth,
    ends: SourceEnds,
    target_ends: TargetEnds,
    audit: Audit | None = None,
) -> tuple[GroupSummary, ...]:
    """Return every group with the sums of its rows, sorted by name.

    Args:
        groups: the groups.
        ends: of source partitions; a group's lag is unknown without them.
        target_ends: of target partitions, for groups that a failover has moved there.
        audit: what MirrorMaker 2 would make of them.
    """
    by_group = {name: list(rows) for name, rows in groupby(groups.rows, attrgetter("group"))}
    audited = {name: list(rows) for name, rows in groupby(_of(audit), attrgetter("group"))}
    return tuple(
        _summary(
            name,
            by_group.get(name, []),
            groups,
            (ends, target_ends),
            audited.get(name, []) if audit else None,
        )
        for name in sorted(set(groups.source) | by_group.keys())
    )


def _of(audit: Audit | None) -> tuple[AuditRow, ...]:
    return audit.rows if audit else ()


def _summary(
    name: str,
    rows: Sequence[GroupRow],
    groups: GroupsOnBoth,
    ends: tuple[SourceEnds, TargetEnds],
    audited: Sequence[AuditRow] | None,
) -> GroupSummary:
    sums = outcome(rows)
    settled = [row for row in rows if row.finding is Finding.SETTLED]
    checking = [row for row in rows if row.finding is Finding.CHECKING]
    moved = [row for row in rows if row.finding is Finding.MOVED]
    on_source = [row for row in rows if row.finding is not Finding.MOVED]
    left = [row for row in on_source if row.finding is not Finding.CHOSEN]
    return GroupSummary(
        group=name,
        source=_side(groups.source.get(name)),
        target=_side(groups.target.get(name)),
        partitions=len(rows),
        bases=counts([str(row.basis) for row in rows]),
        missing=sum(row.target_offset is None for row in on_source),
        skips=sums.skips,
        rereads=sums.rereads,
        lag=_sum(_lag(on_source, ends[0]), _lag_on_target(moved, ends[1])),
        ours=estimate_by_translation(rows),
        theirs=None if audited is None else estimate_by_checkpoints(audited, len(rows)),
        unknown=sum(_unknown(row) for row in rows),
        ahead=sum((row.divergence or 0) > 0 for row in settled),
        behind=sum((row.divergence or 0) < 0 for row in settled),
        moved_skips=sums.moved_skips,
        moved_rereads=sums.moved_rereads,
        unknown_now=sum(row.skipped_now is None for row in left),
        unknown_moved=sum(row.basis is Basis.UNMAPPED or row.skipped is None for row in left),
        checking=len(checking),
        checking_unmapped=sum(row.basis is Basis.UNMAPPED for row in checking),
        moved=len(moved),
        moved_unmapped=sum(row.basis is Basis.UNMAPPED for row in moved),
        chosen=len(on_source) - len(left),
        moved_bounded=sum(row.basis is Basis.BOUNDED for row in moved),
        moved_with_topic=sum(bool(row.moved_by) for row in moved),
    )


def _unknown(row: GroupRow) -> bool:
    """Whether the difference between the target's commit and the translation is unknown."""
    if row.finding in (Finding.MOVED, Finding.CHOSEN):
        return False
    certain = row.basis is not Basis.UNMAPPED and row.basis is not Basis.BOUNDED
    return certain and row.target_offset is not None and row.divergence is None


def _sum(first: int | None, second: int | None) -> int | None:
    return None if first is None or second is None else first + second


def _lag_on_target(moved: Sequence[GroupRow], ends: TargetEnds) -> int | None:
    """Return the records that a group has not read where it was moved."""
    total = 0
    offsets = {(row.target_topic, row.target_partition): row.target_offset for row in moved}
    for at, offset in offsets.items():
        end = ends.get(at)
        if end is None or offset is None:
            return None
        total += max(0, end - offset)
    return total


def _lag(rows: Sequence[GroupRow], ends: SourceEnds) -> int | None:
    total = 0
    for row in rows:
        end = ends.get((row.topic, row.partition))
        if end is None or row.source_offset is None:
            return None
        total += max(0, end - row.source_offset)
    return total


def _side(view: GroupView | None) -> GroupSide:
    return GroupSide() if view is None else GroupSide(view.state, view.members, view.error)


def estimate_moves(
    groups: Iterable[GroupSummary], waiting: Mapping[str, int], gone: Mapping[str, int | None]
) -> GroupEstimate:
    """Count and name groups by what a move now would do to them.

    Args:
        groups: their sums.
        waiting: see :func:`count_waiting`.
        gone: see :func:`count_gone`.
    """
    return estimate_groups(
        _move(group, waiting.get(group.group, 0), gone.get(group.group)) for group in groups
    )


def _move(group: GroupSummary, waiting: int, known_gone: int | None) -> GroupMove:
    unmapped = group.unmapped
    # Records of which it is not known whether the source has them count as lost by the move.
    gone = min(known_gone or 0, group.moved_skips)
    checking = min(group.checking_unmapped, unmapped - waiting)
    return GroupMove(
        moved=0 < group.moved == group.partitions,
        active=bool(group.source.members) or group.source.state not in EMPTY_STATES,
        name=group.group,
        lost=group.moved_skips - gone,
        gone=gone,
        reread=group.moved_rereads,
        unmapped=unmapped - waiting - checking,
        waiting=waiting,
        unknown=group.unknown_moved - unmapped + checking,
        error=group.source.error or group.target.error,
    )


def judge_group_row(row: GroupRow) -> SeverityLabel:
    """Rate a group's position on the target for one partition."""
    if row.finding is Finding.CHECKING:
        return _CHECKING
    if row.finding is Finding.MOVED:
        return _MOVED
    if row.finding is Finding.CHOSEN:
        return _CHOSEN
    if row.basis is Basis.UNMAPPED:
        return SeverityLabel(Severity.BAD, "unmapped")
    if row.divergence is not None and row.divergence > 0:
        return _MOVING if row.finding is Finding.MOVING else SeverityLabel(Severity.BAD, "skips")
    if row.skipped:
        return _DELETED
    if row.divergence is not None and row.divergence < 0 and row.finding is not Finding.MOVING:
        return SeverityLabel(Severity.WARN, "re-reads")
    if row.state_source not in EMPTY_STATES and row.state_target not in EMPTY_STATES:
        return BOTH_ACTIVE
    if row.basis is Basis.BOUNDED:
        return SeverityLabel(Severity.WARN, "bounded")
    if row.target_offset is None:
        return SeverityLabel(Severity.INFO, "not moved")
    if row.divergence is None:
        return SeverityLabel(Severity.UNKNOWN, "unknown")
    return _MOVING if row.finding is Finding.MOVING else SeverityLabel(Severity.OK, "in step")


def judge_group(group: GroupSummary) -> SeverityLabel:
    """Rate a group by the worst of its partitions, as ``judge_group_row`` does."""
    if group.source.error or group.target.error:
        return SeverityLabel(Severity.UNKNOWN, "unread")
    if group.unmapped > group.checking_unmapped:
        return SeverityLabel(Severity.BAD, "unmapped")
    if group.ahead:
        return SeverityLabel(Severity.BAD, "skips")
    if group.unknown:
        return SeverityLabel(Severity.UNKNOWN, "unknown")
    if group.moved_skips:
        return _DELETED
    if group.behind:
        return SeverityLabel(Severity.WARN, "re-reads")
    if _is_active(group.source) and _is_active(group.target) and not group.moved_with_topic:
        return BOTH_ACTIVE
    if group.bases.get(Basis.BOUNDED, 0) > group.moved_bounded:
        return SeverityLabel(Severity.WARN, "bounded")
    if group.checking:
        return _CHECKING
    if group.chosen:
        return _CHOSEN
    if group.missing:
        moved = "partly moved" if group.missing < group.partitions else "not moved"
        return SeverityLabel(Severity.INFO, moved)
    return _MOVED if group.moved else SeverityLabel(Severity.OK, "in step")


def _is_active(side: GroupSide) -> bool:
    return side.state not in EMPTY_STATES or bool(side.members)


# Each side reads every record, and an offset is committed only for a group without members.
BOTH_ACTIVE = SeverityLabel(Severity.WARN, "both active")
# A bad finding is reported only when the next poll agrees.
_CHECKING = SeverityLabel(Severity.INFO, "checking")
_MOVING = SeverityLabel(Severity.OK, "moving")
# On the target, where a failover has moved it.
_MOVED = SeverityLabel(Severity.OK, "moved")
# An operator has decided where the group continues.
_CHOSEN = SeverityLabel(Severity.INFO, "chosen")
# A move does not bring back what the target's retention has deleted, or what was never copied.
_DELETED = SeverityLabel(Severity.WARN, "deleted")
