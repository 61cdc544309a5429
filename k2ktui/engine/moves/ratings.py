"""How a consumer group stands on the target, by partition and as a whole, with its sums; pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import total_ordering
from itertools import groupby
from operator import attrgetter

from k2ktui.engine.mapping.translate import Basis
from k2ktui.engine.members import GroupMember, sort_members
from k2ktui.engine.moves.audit import Audit, AuditRow
from k2ktui.engine.moves.groups import EMPTY_STATES, Finding, GroupRow, GroupView
from k2ktui.engine.severity import Severity, SeverityLabel
from k2ktui.engine.strict_json import MalformedRecord
from k2ktui.engine.trend import Direction
from k2ktui.text import counted, safe_text

# A view is kept in memory: of more members, the others are only counted.
_NAMED_MEMBERS = 50


@total_ordering
class Rating(Enum):
    """How a group stands on the target, from harmless to bad: a group has the worst of its rows.

    ``MOVED``: a failover has moved it there. ``MOVING``: its difference is explained, as it is in
    use. ``PARTLY_MOVED``: of a group, ``NOT_MOVED`` for some of its rows. ``CHOSEN``: an operator
    has decided where it continues. ``CHECKING``: a bad finding is reported only when the next poll
    agrees. ``BOTH_ACTIVE``: each side reads every record, and an offset is committed only for a
    group without members. ``DELETED``: a move does not bring back what the target's retention has
    deleted, or what was never copied. ``UNREAD``: the group cannot be read.
    """

    IN_STEP = SeverityLabel(Severity.OK, "in step")
    MOVED = SeverityLabel(Severity.OK, "moved")
    MOVING = SeverityLabel(Severity.OK, "moving")
    NOT_MOVED = SeverityLabel(Severity.INFO, "not moved")
    PARTLY_MOVED = SeverityLabel(Severity.INFO, "partly moved")
    CHOSEN = SeverityLabel(Severity.INFO, "chosen")
    CHECKING = SeverityLabel(Severity.INFO, "checking")
    BOUNDED = SeverityLabel(Severity.WARN, "bounded")
    BOTH_ACTIVE = SeverityLabel(Severity.WARN, "both active")
    RE_READS = SeverityLabel(Severity.WARN, "re-reads")
    DELETED = SeverityLabel(Severity.WARN, "deleted")
    UNKNOWN = SeverityLabel(Severity.UNKNOWN, "unknown")
    UNREAD = SeverityLabel(Severity.UNKNOWN, "unread")
    SKIPS = SeverityLabel(Severity.BAD, "skips")
    UNMAPPED = SeverityLabel(Severity.BAD, "unmapped")

    @property
    def severity(self) -> Severity:
        """How severe it is."""
        return self.value.severity

    @property
    def word(self) -> str:
        """The word for it on a screen."""
        return self.value.word

    def __lt__(self, other: Rating) -> bool:
        return _RANKS[self] < _RANKS[other]


_RANKS = {rating: rank for rank, rating in enumerate(Rating)}


def rate(row: GroupRow, *, is_split: bool = False) -> Rating:
    """Rate a group's position on the target for one partition, by the worst that applies.

    Args:
        row: the position.
        is_split: whether a drill moved other topics of the group, which may thus be active on both
            clusters. Tables rate a row by itself: there, the topics that stay are both active.
    """
    rating = _DECIDED.get(row.finding) or _rate_position(row)
    is_active = row.state_source not in EMPTY_STATES and row.state_target not in EMPTY_STATES
    if is_active and not (is_split or row.moved_by):
        return max(rating, Rating.BOTH_ACTIVE)
    return rating


_DECIDED = {Finding.MOVED: Rating.MOVED, Finding.CHOSEN: Rating.CHOSEN}


def _is_unknown(row: GroupRow) -> bool:
    """Whether the difference between the target's commit and the translation is unknown."""
    certain = row.basis is not Basis.UNMAPPED and row.basis is not Basis.BOUNDED
    return certain and row.target_offset is not None and row.divergence is None


def _rate_position(row: GroupRow) -> Rating:
    is_settled = row.finding is Finding.SETTLED
    rating = Rating.IN_STEP
    if row.basis is Basis.UNMAPPED and row.finding is not Finding.CHECKING:
        rating = Rating.UNMAPPED
    elif is_settled and (row.divergence or 0) > 0:
        rating = Rating.SKIPS
    elif row.finding is Finding.UNREAD:
        rating = Rating.UNREAD
    elif _is_unknown(row):
        rating = Rating.UNKNOWN
    elif row.skipped:
        rating = Rating.DELETED
    elif is_settled and (row.divergence or 0) < 0:
        rating = Rating.RE_READS
    elif row.basis is Basis.BOUNDED:
        rating = Rating.BOUNDED
    elif row.finding is Finding.CHECKING:
        rating = Rating.CHECKING
    elif row.target_offset is None:
        rating = Rating.NOT_MOVED
    elif row.finding is Finding.MOVING:
        rating = Rating.MOVING
    return rating


@dataclass(frozen=True, slots=True)
class GroupSide:
    """A group on one cluster: Kafka's state name, members (None: unknown), and any error.

    ``named`` are the first of its members by name.
    """

    state: str = ""
    members: int | None = None
    error: str = ""
    named: tuple[GroupMember, ...] = ()

    @property
    def is_active(self) -> bool:
        """Whether it has members, or a state that only a group with members has."""
        return self.state not in EMPTY_STATES or bool(self.members)


def rate_group(rows: Iterable[GroupRow], source: GroupSide, target: GroupSide) -> Rating:
    """Rate a group by the worst of its rows; one that cannot be read is that.

    Args:
        rows: its rows, with their findings.
        source, target: the group on both clusters.
    """
    if source.error or target.error:
        return Rating.UNREAD
    rows = tuple(rows)
    is_split = any(row.moved_by for row in rows)
    ratings = {rate(row, is_split=is_split) for row in rows} or {Rating.IN_STEP}
    if source.is_active and target.is_active and not is_split:
        ratings.add(Rating.BOTH_ACTIVE)
    worst = max(ratings)
    is_partly = worst is Rating.NOT_MOVED and len(ratings) > 1
    return Rating.PARTLY_MOVED if is_partly else worst


@dataclass(frozen=True, slots=True)
class RereadEstimate:
    """Records that a group would read again, or never, if it resumed on the target now.

    Attributes:
        records: records read again, in the partitions where that is known.
        skipped: records never read, in the same partitions.
        unknown: number of partitions where neither is known.
        without: number of partitions without a translated offset; ``auto.offset.reset`` decides.
    """

    records: int = 0
    skipped: int = 0
    unknown: int = 0
    without: int = 0

    def __add__(self, other: RereadEstimate) -> RereadEstimate:
        return RereadEstimate(
            self.records + other.records,
            self.skipped + other.skipped,
            self.unknown + other.unknown,
            self.without + other.without,
        )


NOTHING = RereadEstimate()


def estimate_rereads(rows: Iterable[GroupRow]) -> tuple[RereadEstimate, RereadEstimate]:
    """Return the effect of resuming on the target: as committed now, and after a move.

    Several source partitions on one target partition count as one position. A move does not set
    those that have no mapping. Those whose effect is unknown are counted as committed now only.
    """
    positions = {
        (row.group, row.target_topic, row.target_partition): row
        for row in rows
        if row.finding not in _DECIDED
    }.values()
    now = [row for row in positions if row.finding is Finding.SETTLED]
    moved = [row for row in positions if row.basis is not Basis.UNMAPPED]
    return (
        RereadEstimate(
            sum(row.reread_now or 0 for row in now),
            sum(row.skipped_now or 0 for row in now),
            sum(row.target_offset is not None and row.skipped_now is None for row in positions),
        ),
        RereadEstimate(
            sum(row.reread or 0 for row in moved),
            sum(row.skipped or 0 for row in moved),
        ),
    )


def estimate_by_checkpoints(rows: Iterable[AuditRow], partitions: int) -> RereadEstimate:
    """Return the effect of resuming at MirrorMaker 2's checkpoints.

    Args:
        rows: rows of one group.
        partitions: number of the group's partitions; those without a row have no checkpoint.
    """
    total, seen = NOTHING, 0
    for row in rows:
        seen += 1
        if row.checkpoint_offset is None:
            total += RereadEstimate(without=1)
        elif row.checkpoint_reread is None:
            total += RereadEstimate(unknown=1)
        else:
            total += RereadEstimate(row.checkpoint_reread, row.checkpoint_skipped or 0)
    return total + RereadEstimate(without=max(0, partitions - seen))


@dataclass(frozen=True, slots=True)
class GroupSummary:
    """A consumer group with the sums of its rows; see ``GroupRow``.

    Nothing here reads ``missing``, ``behind``, ``chosen``, ``moved_bounded`` and
    ``moved_with_topic``: they are for ``watch --json``, and for recordings that earlier releases
    read.

    Attributes:
        bases: number of rows per basis.
        missing: rows without a committed offset on the target.
        skips: records it would never read if it continued on the target as committed now.
        rereads: records it would read again there.
        lag: records that it has not read yet, None if unknown for any partition: of the source, and
            of ``moved`` rows of the target.
        lag_s: age of the first of them on the source in seconds; 0 if there is none.
        untimed: rows that have such a record, and whose age is not known.
        direction: trend of ``lag``.
        eta_s: seconds until it has caught up at this rate, None if it never does.
        moved_eta_s: the same if it also read again what it would read again after a move.
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
        moved: rows on the target, where a failover has moved the group; they are in no sum.
        moved_unmapped, moved_bounded: the ``moved`` rows without a mapping, and with a bound of it.
        moved_with_topic: the ``moved`` rows whose topic a drill moved; others may stay on the
            source, so that the group may be active on both clusters.
        rating: the worst of its rows, see :func:`rate_group`; ``UNREAD`` until it is rated.
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
    rating: Rating = Rating.UNREAD
    lag_s: float | None = None
    untimed: int = 0
    direction: Direction = Direction.UNKNOWN
    eta_s: float | None = None
    moved_eta_s: float | None = None

    @property
    def unmapped(self) -> int:
        """Rows that have no mapping, and need one: those that are moved do not."""
        return self.bases.get(Basis.UNMAPPED, 0) - self.moved_unmapped


def rate_groups(
    groups: Iterable[GroupSummary], rows: Iterable[GroupRow]
) -> tuple[GroupSummary, ...]:
    """Return groups of a recording, which has no ratings, with those of their rows.

    Raises:
        MalformedRecord: rows of a group are missing, or belong to none.
    """
    by_group: dict[str, list[GroupRow]] = defaultdict(list)
    for row in rows:
        by_group[row.group].append(row)
    rated = []
    for group in groups:
        rows_of_group = by_group.pop(group.group, [])
        if len(rows_of_group) != group.partitions:
            raise MalformedRecord(
                f"{len(rows_of_group):,} of {counted(group.partitions, 'row')} "
                f"of group {safe_text(group.group, 40)}"
            )
        rated.append(replace(group, rating=rate_group(rows_of_group, group.source, group.target)))
    if by_group:
        raise MalformedRecord(f"no group {safe_text(min(by_group), 40)}, which has rows")
    return tuple(rated)


def counts(words: Sequence[str]) -> dict[str, int]:
    """Return the number of occurrences of each word, sorted by word."""
    return dict(sorted(Counter(words).items()))


def summarize_groups(
    rows: Iterable[GroupRow],
    source: Mapping[str, GroupView],
    target: Mapping[str, GroupView],
    audit: Audit | None = None,
) -> tuple[GroupSummary, ...]:
    """Return every group with the sums of its rows, sorted by name.

    Args:
        rows: translated positions, sorted by group.
        source, target: the groups of both clusters, by name.
        audit: what MirrorMaker 2 would make of them.
    """
    by_group = {name: list(of) for name, of in groupby(rows, attrgetter("group"))}
    audited = audit.rows if audit else ()
    audited_by_group = {name: list(of) for name, of in groupby(audited, attrgetter("group"))}
    return tuple(
        _summarize(
            name,
            by_group.get(name, []),
            (_side(source.get(name)), _side(target.get(name))),
            audited_by_group.get(name, []) if audit else None,
        )
        for name in sorted(source.keys() | by_group.keys())
    )


def _summarize(
    name: str,
    rows: Sequence[GroupRow],
    sides: tuple[GroupSide, GroupSide],
    audited: Sequence[AuditRow] | None,
) -> GroupSummary:
    now, after = estimate_rereads(rows)
    settled = [row for row in rows if row.finding is Finding.SETTLED]
    checking = [row for row in rows if row.finding is Finding.CHECKING]
    moved = [row for row in rows if row.finding is Finding.MOVED]
    on_source = [row for row in rows if row.finding is not Finding.MOVED]
    left = [row for row in on_source if row.finding is not Finding.CHOSEN]
    unknown_moved = sum(row.basis is Basis.UNMAPPED or row.skipped is None for row in left)
    return GroupSummary(
        group=name,
        source=sides[0],
        target=sides[1],
        partitions=len(rows),
        bases=counts([str(row.basis) for row in rows]),
        missing=sum(row.target_offset is None for row in on_source),
        skips=now.skipped,
        rereads=now.records,
        # A move skips no record that is retained; those that retention has deleted do not count.
        ours=RereadEstimate(after.records, unknown=unknown_moved),
        theirs=None if audited is None else estimate_by_checkpoints(audited, len(rows)),
        unknown=sum(map(_is_unknown, left)),
        ahead=sum((row.divergence or 0) > 0 for row in settled),
        behind=sum((row.divergence or 0) < 0 for row in settled),
        moved_skips=after.skipped,
        moved_rereads=after.records,
        unknown_now=sum(row.skipped_now is None for row in left),
        unknown_moved=unknown_moved,
        checking=len(checking),
        checking_unmapped=sum(row.basis is Basis.UNMAPPED for row in checking),
        moved=len(moved),
        moved_unmapped=sum(row.basis is Basis.UNMAPPED for row in moved),
        chosen=len(on_source) - len(left),
        moved_bounded=sum(row.basis is Basis.BOUNDED for row in moved),
        moved_with_topic=sum(bool(row.moved_by) for row in moved),
        rating=rate_group(rows, *sides),
    )


def _side(view: GroupView | None) -> GroupSide:
    if view is None:
        return GroupSide()
    named = tuple(sort_members(view.named)[:_NAMED_MEMBERS])
    return GroupSide(view.state, view.members, view.error, named)
