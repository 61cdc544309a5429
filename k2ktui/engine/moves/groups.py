"""Consumer groups of both clusters side by side: committed, translated, divergence.

A snapshot holds what was read from both clusters. Rows and plans are computed from it alone, so a
plan is made of exactly what is shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any

from k2ktui.engine.mapping.both_directions import translate_both_ways
from k2ktui.engine.mapping.opposite_copy import OppositeCopy
from k2ktui.engine.mapping.replica import Lookup, Replica, TargetLog, TargetPartition
from k2ktui.engine.mapping.translate import Basis, Translation
from k2ktui.engine.members import GroupMember, sort_members
from k2ktui.engine.moves.choice import Choice
from k2ktui.engine.moves.resume_effect import UNKNOWN, Standing, in_both, standing
from k2ktui.engine.moves.written import WrittenCommits, choice_in_force
from k2ktui.engine.records.moved_topic import NO_MOVED_TOPICS, MovedTopic, MovedTopics
from k2ktui.engine.records.state import SourcePartition
from k2ktui.engine.trend import Direction
from k2ktui.text import counted, duration, moment, safe_text

EMPTY_STATES = frozenset({"Empty", "Dead", ""})
Partition = tuple[str, int]
_NAMED = 3


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """A committed offset and its metadata; a negative offset means none."""

    offset: int
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class GroupView:
    """A consumer group on one cluster.

    Attributes:
        state: Kafka's group state; empty if the group does not exist there.
        members: number of members, None without permission to describe the group.
        named: the members by name, as far as brokers say who they are.
        offsets: committed offsets.
        error: why the group could not be read, or is not moved; empty if it could.
        unsettled: of single partitions, why the committed offset is missing or not final.
        seen_at: when it was last seen, in epoch seconds, if that was before the other groups of a
            snapshot were read; None if it was seen with them.
    """

    state: str
    members: int | None = 0
    offsets: Mapping[Partition, CommittedOffset] = field(default_factory=dict)
    error: str = ""
    unsettled: Mapping[Partition, str] = field(default_factory=dict)
    seen_at: float | None = None
    named: tuple[GroupMember, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether the group has no active members."""
        return self.state in EMPTY_STATES and not self.members

    @property
    def is_active(self) -> bool:
        """Whether the group is known to have members."""
        return not self.empty and not self.error

    def committed(self, at: Partition) -> CommittedOffset | None:
        """Return the committed offset of a partition; None if there is none."""
        commit = self.offsets.get(at)
        return commit if commit is not None and commit.offset >= 0 else None

    def unread(self, at: Partition) -> str:
        """Return why the committed offset of a partition is unknown; "" if it is known."""
        return self.error or self.unsettled.get(at, "")


ABSENT = GroupView("")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Both clusters at one moment; times are epoch seconds.

    Attributes:
        pipeline: name of the pipeline.
        taken_at: when the snapshot was taken.
        commits_at: when the source's commits were read: earlier than ``taken_at`` if the source is
            unreachable and the commit snapshots kept on the target are used.
        source_down: why the source is unreachable; empty if it is reachable.
        source: chosen groups of the source.
        target: the same groups on the target, read after those of the source.
        source_later: the groups of ``source`` that had moved when read again after ``target``.
        replicas: copies of source partitions.
        opposite: what the opposite pipeline copied from target partitions, if there is one.
        logs: bounds of target partitions.
        target_ids: ids of target topics, empty strings on brokers that have none.
        conflicting_pipelines: per source partition that several pipelines map, their names.
        notes: what the operator should know about the snapshot as a whole.
        written: what was written for groups, read after ``target``: their commits that equal it
            are ours.
        longest_metadata: length of the longest commit metadata that the target accepts, None if
            unknown.
        moved: source topics whose clients drills moved to the target, read with the positions.
        mappings_expire_at: when the first mapping that a group needs expires, unless it is written
            again; None if none is needed or expires, or if it is not known.
        unmapped: why no copied record is mapped; "" if one is.
    """

    pipeline: str
    source_cluster: str
    target_cluster: str
    taken_at: float
    commits_at: float
    source_down: str = ""
    source: Mapping[str, GroupView] = field(default_factory=dict)
    target: Mapping[str, GroupView] = field(default_factory=dict)
    source_later: Mapping[str, GroupView] = field(default_factory=dict)
    replicas: Mapping[SourcePartition, Replica] = field(default_factory=dict)
    opposite: Mapping[TargetPartition, OppositeCopy] = field(default_factory=dict)
    logs: Mapping[TargetPartition, TargetLog] = field(default_factory=dict)
    target_ids: Mapping[str, str] = field(default_factory=dict)
    conflicting_pipelines: Mapping[SourcePartition, tuple[str, ...]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    written: Mapping[str, WrittenCommits] = field(default_factory=dict)
    longest_metadata: int | None = None
    moved: MovedTopics = NO_MOVED_TOPICS
    mappings_expire_at: float | None = None
    unmapped: str = ""


def snapshot_notes(snapshot: Snapshot) -> list[str]:
    """Return what an operator must know about the snapshot as a whole."""
    notes = reading_notes(snapshot)
    if snapshot.source_down:
        age = duration(snapshot.taken_at - snapshot.commits_at)
        at = moment(snapshot.commits_at)
        notes[0] += f"; its commits are from a snapshot of {at}, {age} old"
    return notes


@dataclass(frozen=True, slots=True)
class MemberRow:
    """A member of a group on ``source`` or ``target``."""

    group: str
    side: str
    member: GroupMember


def list_members(snapshot: Snapshot) -> list[MemberRow]:
    """Return the members of all groups on both clusters, by group."""
    sides = (("source", snapshot.source), ("target", snapshot.target))
    return [
        MemberRow(name, side, member)
        for name in sorted(snapshot.source.keys() | snapshot.target.keys())
        for side, views in sides
        if name in views
        for member in sort_members(views[name].named)
    ]


def members_json(snapshot: Snapshot) -> dict[str, Any]:
    """Return the object that ``k2ktui groups --members --json`` prints."""

    def of(view: GroupView | None) -> dict[str, Any] | None:
        if view is None:
            return None
        named = [member.as_json() for member in sort_members(view.named)]
        # Who is not known is not nobody.
        return {
            "state": view.state,
            "error": view.error,
            "members": None if view.members is None else named,
        }

    return {
        "pipeline": snapshot.pipeline,
        "taken_at": snapshot.taken_at,
        "source_down": snapshot.source_down,
        "notes": reading_notes(replace(snapshot, source_down="")),
        "groups": [
            {
                "group": name,
                "source": of(snapshot.source.get(name)),
                "target": of(snapshot.target.get(name)),
            }
            for name in sorted(snapshot.source.keys() | snapshot.target.keys())
        ],
    }


def reading_notes(snapshot: Snapshot) -> list[str]:
    """Return what could not be read, and why; first the source, if it is unreachable."""
    notes = [snapshot.source_down] if snapshot.source_down else []
    notes += snapshot.notes
    for side, views in (("source", snapshot.source), ("target", snapshot.target)):
        notes += unread_notes(views, side)
        for name, view in views.items():
            for (topic, partition), why in list(view.unsettled.items())[:_NAMED]:
                place = f"{safe_text(topic)}-{partition}"
                notes.append(f"group {safe_text(name)} on the {side}: {place}: {why}")
    return notes


def unread_notes(views: Mapping[str, GroupView], side: str) -> list[str]:
    """Return why groups of a cluster could not be read: they have no rows, and are not moved."""
    return [
        f"group {safe_text(name)} on the {side}: {view.error}"
        for name, view in views.items()
        if view.error
    ]


class Finding(StrEnum):
    """Whether a difference is confirmed.

    ``settled``: there is none, or readings some seconds apart agree on it. ``checking``: it was
    read once. ``moving``: the group is consuming, which explains the difference. ``moved``: the
    workload has failed over, or that of the topic, and the group is on the target: there is nothing
    to compare. ``chosen``: an operator has decided where the group continues. ``unread``: the group
    cannot be read on the target, and no commit of it was; all else that is known of a row is rated.
    """

    SETTLED = "settled"
    CHECKING = "checking"
    MOVING = "moving"
    MOVED = "moved"
    CHOSEN = "chosen"
    UNREAD = "unread"


@dataclass(frozen=True, slots=True)
class GroupRow:
    """One group on one source partition and the target partition it maps to; None is unknown.

    Attributes:
        topic: source topic.
        partition: source partition.
        state_source: state of the group on the source, empty if it does not exist or is unknown.
        state_target: the same on the target.
        source_offset: committed offset on the source.
        target_topic: where the partition's records go; empty if it was never replicated.
        target_offset: committed offset on the target.
        translated_offset: where the group would resume on the target.
        basis: why the translation can be trusted.
        reread: upper bound of the records read again after a move to the translated offset.
        skipped: upper bound of the records never read after that move.
        divergence: ``target_offset`` minus ``translated_offset``, counted in source records.
            Negative: the group would read records again on the target; positive: it would miss
            records that it would not miss after a move. For a group that moves during the
            readings, only what holds against the source readings before and after the target's.
        reason: what an operator should know.
        reread_now: upper bound of the records read again from the current target commit.
        skipped_now: upper bound of the records never read from the current target commit.
        finding: whether the difference is confirmed; set by callers that read more than once.
        chosen_by: who chose where the group continues, ``user@host``; "" for nobody.
        moved_by: id of the drill that moved the topic's clients to the target, "" if none has: no
            forward operation writes the row.
        lag_records: records that the group has not read yet, on the target if it has moved there.
        lag_s: age of the first of them on the source in seconds; 0 if there is none.
        direction: trend of ``lag_records``.
        eta_s: seconds until it has caught up at this rate, None if it never does.
    """

    group: str
    topic: str
    partition: int
    state_source: str
    state_target: str
    source_offset: int | None
    target_topic: str
    target_partition: int | None
    target_offset: int | None
    translated_offset: int | None
    basis: Basis
    reread: int | None
    skipped: int | None
    divergence: int | None
    reason: str = ""
    reread_now: int | None = None
    skipped_now: int | None = None
    finding: Finding = Finding.SETTLED
    chosen_by: str = ""
    moved_by: str = ""
    lag_records: int | None = None
    lag_s: float | None = None
    direction: Direction = Direction.UNKNOWN
    eta_s: float | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the object that commands print."""
        value = asdict(self)
        del value["finding"]  # needs more than one reading
        return value


def after_failover(rows: Iterable[GroupRow]) -> list[GroupRow]:
    """Return the rows of a pair that has failed over.

    A group whose commit on the target is at or beyond the translated source commit has moved: its
    source commit is history, and the difference is not a loss. A group below the translation still
    re-reads records, and a group without a commit on the target was not moved; their rows do not
    change.
    """
    return [_moved(row) if _is_on_target(row) else row for row in rows]


def _moved(row: GroupRow) -> GroupRow:
    return replace(
        row,
        reread=None,
        skipped=None,
        divergence=None,
        reason="",
        reread_now=None,
        skipped_now=None,
        finding=Finding.MOVED,
    )


def _moved_with_topic(row: GroupRow, moved: MovedTopics) -> GroupRow:
    """Return the row; that of a moved topic says so, as its group lives on the target."""
    move = moved.get(row.topic)
    if move is None:
        return row
    reason = describe_move(move)
    return replace(_moved(row), reason=reason, chosen_by="", moved_by=move.drill)


def describe_move(move: MovedTopic) -> str:
    """Return by which drill a topic was moved, and when; not safe to print."""
    return f"moved to the target by drill {move.drill} at {moment(move.at_ms / 1000)}"


def _is_on_target(row: GroupRow) -> bool:
    # A commit below the log's start reads nothing again, although it is before the translation.
    behind = row.divergence is not None and row.divergence < 0 and row.reread_now != 0
    return row.target_offset is not None and not behind


@dataclass(frozen=True, slots=True)
class TranslatedGroup:
    """A group with its translations, one per target partition."""

    group: str
    source: GroupView
    target: GroupView
    translations: tuple[Translation, ...]
    unplaced: tuple[SourcePartition, ...]


def translate_groups(snapshot: Snapshot, *, later: bool = False) -> list[TranslatedGroup]:
    """Translate every group of a snapshot, sorted by name; ``later``: those that had moved."""
    views = snapshot.source_later if later else snapshot.source
    commits = {name: _commits(view) for name, view in views.items()}
    wanted: dict[SourcePartition, set[int]] = {}
    for offsets in commits.values():
        for source, offset in offsets.items():
            wanted.setdefault(source, set()).add(offset)
    lookup = Lookup(snapshot.replicas, wanted)
    translated = []
    for name in sorted(commits):
        offsets = commits[name]
        known = {s: o for s, o in offsets.items() if s in snapshot.replicas}
        view_on_target = snapshot.target.get(name, ABSENT)
        current = {at: commit.offset for at, commit in view_on_target.offsets.items()}
        rows = translate_both_ways(
            snapshot.replicas, known, snapshot.logs, snapshot.opposite, lookup, current
        )
        placed = {source for row in rows for source in row.sources}
        translated.append(
            TranslatedGroup(
                name,
                views[name],
                view_on_target,
                tuple(_settle(row, views[name]) for row in rows),
                tuple(sorted(offsets.keys() - placed)),
            )
        )
    return translated


def _settle(row: Translation, source: GroupView) -> Translation:
    """Return a translation only if the commits behind it are final."""
    reasons = [f"on the source: {source.error}"] if source.error else []
    for at in row.sources:
        why = source.unsettled.get((at.topic, at.partition))
        reasons += [f"on the source: {at}: {why}"] if why else []
    if not reasons:
        return row
    return row.unmapped("; ".join(filter(None, (*reasons, row.reason))))


def _commits(view: GroupView) -> dict[SourcePartition, int]:
    return {
        SourcePartition(*where): committed.offset
        for where, committed in view.offsets.items()
        if committed.offset >= 0
    }


def make_group_rows(snapshot: Snapshot) -> list[GroupRow]:
    """Return every group-partition of a snapshot, sorted by group, topic and partition."""
    later = {
        (group.group, translation.target): _standing(snapshot, group, translation)
        for group in translate_groups(snapshot, later=True)
        for translation in group.translations
    }
    group_rows: list[GroupRow] = []
    for group in translate_groups(snapshot):
        for translation in group.translations:
            read_again = group.group in snapshot.source_later
            after = later.get((group.group, translation.target), UNKNOWN) if read_again else None
            group_rows += _rows_of(snapshot, group, translation, after)
        for source in group.unplaced:
            group_rows.append(_unmapped_row(group, source))
    if snapshot.moved:
        group_rows = [_moved_with_topic(row, snapshot.moved) for row in group_rows]
    return sorted(group_rows, key=lambda row: (row.group, row.topic, row.partition))


def _standing(snapshot: Snapshot, group: TranslatedGroup, translation: Translation) -> Standing:
    current = group.target.committed(translation.target)
    return standing_at(snapshot, group, translation, current.offset if current else None)


def source_text(group: TranslatedGroup, translation: Translation) -> str:
    """Return the source commits of a translation: ``topic-partition@offset``, joined by commas."""
    offsets = group.source.offsets
    return ",".join(f"{s}@{offsets[s.topic, s.partition].offset}" for s in translation.sources)


def remembered_choice(
    snapshot: Snapshot, group: TranslatedGroup, translation: Translation
) -> Choice | None:
    """Return what an operator chose for a row, if its source commits are as they were then."""
    current = group.target.committed(translation.target)
    return choice_in_force(
        snapshot.written.get(group.group),
        translation.target,
        source_text(group, translation),
        current.offset if current else None,
    )


def standing_at(
    snapshot: Snapshot, group: TranslatedGroup, translation: Translation, offset: int | None
) -> Standing:
    """Return the effect of resuming at an offset on the target; None is no offset."""
    return standing(
        snapshot.replicas,
        translation,
        _commits(group.source),
        offset,
        snapshot.logs.get(translation.target),
        snapshot.opposite.get(translation.target),
    )


def _rows_of(
    snapshot: Snapshot, group: TranslatedGroup, translation: Translation, later: Standing | None
) -> Iterable[GroupRow]:
    current = group.target.committed(translation.target)
    topic, partition = translation.target
    before = _standing(snapshot, group, translation)
    now = before if later is None else in_both(before, later)
    # Without a current reading of the source, a target that is ahead may just have moved since.
    outdated = bool(snapshot.source_down) and now.divergence is not None and now.divergence > 0
    reasons = [with_conflicting_pipelines(snapshot, translation)]
    if now.divergence != before.divergence:
        reasons.append("it was committed further on the source while both clusters were read")
    if outdated:
        reasons.append("the source's commits are older than the target's; this is not a skip")
    unread = group.target.error or group.target.unsettled.get(translation.target)
    if unread:
        reasons.append(f"on the target: {unread}")
    log = snapshot.logs.get(translation.target)
    if current is not None and log is not None and current.offset < log.start:
        reasons.append(
            f"the target's log starts at {log.start}, after its committed offset: "
            "auto.offset.reset decides where it continues"
        )
    if current is not None and log is not None and current.offset > log.written:
        reasons.append(
            f"the target's log ends at {log.written}, before its committed offset there: "
            "auto.offset.reset decides where it continues"
        )
    finding = Finding.MOVING if outdated else Finding.SETTLED
    if group.target.error and current is None and translation.basis is not Basis.UNMAPPED:
        finding = Finding.UNREAD
    choice = remembered_choice(snapshot, group, translation)
    if choice is not None:
        reasons, now, finding = [choice.text], replace(now, divergence=None), Finding.CHOSEN
    for source in translation.sources:
        yield GroupRow(
            group=group.group,
            topic=source.topic,
            partition=source.partition,
            state_source=group.source.state,
            state_target=group.target.state,
            source_offset=group.source.offsets[source.topic, source.partition].offset,
            target_topic=topic,
            target_partition=partition,
            target_offset=current.offset if current else None,
            translated_offset=translation.offset,
            basis=translation.basis if choice is None else Basis.CHOSEN,
            reread=translation.reread,
            skipped=translation.skipped,
            divergence=now.divergence,
            reason="; ".join(filter(None, reasons)),
            reread_now=now.reread,
            skipped_now=now.skipped,
            finding=finding,
            chosen_by=choice.by if choice is not None else "",
        )


def _unmapped_row(group: TranslatedGroup, source: SourcePartition) -> GroupRow:
    return GroupRow(
        group=group.group,
        topic=source.topic,
        partition=source.partition,
        state_source=group.source.state,
        state_target=group.target.state,
        source_offset=group.source.offsets[source.topic, source.partition].offset,
        target_topic="",
        target_partition=None,
        target_offset=None,
        translated_offset=None,
        basis=Basis.UNMAPPED,
        reread=None,
        skipped=None,
        divergence=None,
        reason="this partition is not replicated",
    )


def describe_conflicts(snapshot: Snapshot, policy: str) -> list[str]:
    """Return a note if several pipelines map partitions that groups have committed.

    Args:
        snapshot: the snapshot.
        policy: ``errorHandling.onMultipleTargetCommittedOffsets``.
    """
    conflicts = describe_conflicting_pipelines(snapshot)
    effects = {
        "fail": "no offset is committed",
        "skip": "their offsets are not committed",
        "ignore": "the mappings of one of them are used",
    }
    key = "errorHandling.onMultipleTargetCommittedOffsets"
    return [f"{conflicts}: {effects[policy]} ({key}: {policy})"] if conflicts else []


def describe_conflicting_pipelines(snapshot: Snapshot) -> str:
    """Return which pipelines map the same partitions that groups have committed; "" if none do."""
    committed = {SourcePartition(*at) for view in snapshot.source.values() for at in view.offsets}
    pipelines_of = [
        names for at, names in snapshot.conflicting_pipelines.items() if at in committed
    ]
    names = ", ".join(
        safe_text(name) for name in sorted({n for pipelines in pipelines_of for n in pipelines})
    )
    count = counted(len(pipelines_of), "source partition")
    return f"{count} mapped by several pipelines ({names})" if pipelines_of else ""


def with_conflicting_pipelines(snapshot: Snapshot, translation: Translation) -> str:
    """Return a translation's reason, including other pipelines that map the same records."""
    names = sorted(
        {n for s in translation.sources for n in snapshot.conflicting_pipelines.get(s, ())}
    )
    if not names:
        return translation.reason
    rival = f"mapped by several pipelines: {', '.join(names)}"
    return "; ".join(part for part in (rival, translation.reason) if part)
