"""MirrorMaker 2's checkpoints as a plan of commits on the target, and its preconditions.

A checkpoint holds a group's offset on the target as translated when the checkpoint was written.
Comparing the group's next record on both clusters shows whether it still applies. This module does
not access Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from k2ktui.engine.mapping.replica import TargetLog, TargetPartition
from k2ktui.engine.mapping.translate import Basis
from k2ktui.engine.moves.groups import ABSENT, EMPTY_STATES, GroupView
from k2ktui.engine.moves.pins import pin_logs
from k2ktui.engine.moves.plan import Action, Plan, PlanRow, Rewind, decide_action
from k2ktui.engine.moves.written import find_ours
from k2ktui.engine.records.mapping_version import MappingVersion
from k2ktui.engine.records.state import SourcePartition
from k2ktui.mm2.flows.formats import Checkpoint, GroupPartition
from k2ktui.replication.preflight.checks import Check
from k2ktui.text import counted, first_names, safe_text

GROUPS_EMPTY = "groups-empty"
CONSUMERS_STOPPED = "consumers-stopped"
PRODUCERS_STOPPED = "producers-stopped"
REPLICATED = "everything-replicated"
OWN_TOPICS = "topics-of-their-own"
RETAINED = "records-retained"
RESET = "auto-offset-reset"
# These checks must pass or be accepted by name before a plan is applied.
REQUIRED = (CONSUMERS_STOPPED, PRODUCERS_STOPPED, REPLICATED, OWN_TOPICS)


class NextRecordRelation(StrEnum):
    """Relation of a group's next record on the source to the checkpoint on the target.

    ``later``: the record's copy is at a higher offset than the checkpoint, so the records between
    are re-read; ``earlier``: it is at a lower offset and would be skipped.
    """

    SAME = "same"
    NEITHER = "neither"
    LATER = "later"
    EARLIER = "earlier"
    ONLY_TARGET = "only on the target"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ComparedRecords:
    """Result of comparing the next records; ``between`` is the number of re-read records."""

    next: NextRecordRelation
    between: int | None = None


_NOT_COMPARED = ComparedRecords(NextRecordRelation.UNKNOWN)


@dataclass(frozen=True, slots=True)
class ClusterObservation:
    """Both clusters at one moment; ``at`` is in epoch seconds.

    Attributes:
        pipeline: name of the flow.
        checkpoints: the newest checkpoint of each selected group-partition.
        sources: source topic of each target topic.
        source, target: the groups on each cluster.
        logs: bounds of target partitions.
        target_ids: ids of the target topics that exist.
        own_topics: whether the replication policy puts copies into separate topics.
        source_ends: end offsets of source partitions.
        watched_s: how long these were watched, in seconds.
        growing: source partitions that grew while they were watched.
        moving: groups whose committed offsets on the source changed meanwhile.
        nexts: comparison of the next record at the group's position on the source with the one at
            the checkpoint's offset on the target.
        behind: maximum number of records missing on the target, by source partition.
        unread: reason why data could not be read, by the check that needs it.
    """

    pipeline: str
    source_cluster: str
    target_cluster: str
    at: float
    checkpoints: tuple[Checkpoint, ...]
    sources: Mapping[str, str]
    source: Mapping[str, GroupView]
    target: Mapping[str, GroupView]
    logs: Mapping[TargetPartition, TargetLog]
    target_ids: Mapping[str, str]
    own_topics: bool
    source_ends: Mapping[SourcePartition, int]
    watched_s: float
    growing: frozenset[SourcePartition] = frozenset()
    moving: frozenset[str] = frozenset()
    nexts: Mapping[GroupPartition, ComparedRecords] = field(default_factory=dict)
    behind: Mapping[SourcePartition, int] = field(default_factory=dict)
    unread: Mapping[str, str] = field(default_factory=dict)

    @property
    def groups(self) -> frozenset[str]:
        """The groups that have checkpoints."""
        return frozenset(checkpoint.at.group for checkpoint in self.checkpoints)

    def log_of(self, at: GroupPartition) -> TargetLog | None:
        """Return the bounds of a checkpoint's target partition, if it exists."""
        return self.logs.get((at.topic, at.partition))

    def source_partition(self, at: GroupPartition) -> SourcePartition:
        """Return the source partition of a checkpoint's target partition."""
        return SourcePartition(self.sources[at.topic], at.partition)

    def source_offset(self, checkpoint: Checkpoint) -> int:
        """Return the group's committed offset on the source, or the checkpoint's if none."""
        source = self.source_partition(checkpoint.at)
        view = self.source.get(checkpoint.at.group, ABSENT)
        now = view.committed((source.topic, source.partition))
        return checkpoint.upstream if now is None else now.offset


def make_plan(
    seen: ClusterObservation,
    *,
    rewind: Rewind,
    valid_s: float,
    made_by: str,
    files: Iterable[str],
    guard_prefix: str = "k2k_",
) -> Plan:
    """Return the plan that commits the checkpoints; changes nothing.

    Args:
        seen: both clusters.
        rewind, valid_s, made_by, guard_prefix: as in ``PlanOptions``.
        files: the flow's files.
    """
    return Plan(
        pipeline=seen.pipeline,
        source_cluster=seen.source_cluster,
        target_cluster=seen.target_cluster,
        created_at=seen.at,
        expires_at=seen.at + valid_s,
        made_by=made_by,
        rewind=rewind,
        rows=tuple(_row(seen, checkpoint, rewind, guard_prefix) for checkpoint in seen.checkpoints),
        files=tuple(files),
        logs=pin_logs(
            {(checkpoint.at.topic, checkpoint.at.partition) for checkpoint in seen.checkpoints},
            seen.logs,
            seen.target_ids,
        ),
    )


def _row(
    seen: ClusterObservation, checkpoint: Checkpoint, rewind: Rewind, guard_prefix: str
) -> PlanRow:
    at = checkpoint.at
    source = seen.source_partition(at)
    target_group = seen.target.get(at.group, ABSENT)
    now = target_group.committed((at.topic, at.partition))
    compared = seen.nexts.get(at, _NOT_COMPARED)
    basis, reread, skipped, reason = _judge_checkpoint(checkpoint, seen.log_of(at), compared)
    offset = seen.source_offset(checkpoint)
    if offset != checkpoint.upstream:
        stale = f"the checkpoint is of source offset {checkpoint.upstream}"
        reason = "; ".join(part for part in (reason, stale) if part)
    row = PlanRow(
        group=at.group,
        topic=at.topic,
        partition=at.partition,
        source=f"{source}@{offset}",
        state_source=seen.source.get(at.group, ABSENT).state,
        state_target=_state(target_group),
        current=None if now is None else now.offset,
        proposed=None if basis is None else checkpoint.downstream,
        basis=basis or Basis.UNMAPPED,
        reread=reread,
        skipped=skipped,
        action=Action.BLOCKED,
        reason=reason,
        version=MappingVersion(0, 0),
        metadata=checkpoint.metadata,
    )
    if now is None:
        return decide_action(row, rewind, None, guarded=False)
    # What earlier releases committed begins with their mark, which applications cannot read.
    marked = find_ours(None, (at.topic, at.partition), now.offset, now.metadata, guard_prefix)
    return decide_action(row, rewind, marked, guarded=False, metadata=now.metadata)


def _state(view: GroupView) -> str:
    if view.error:
        return "unknown"
    return "with members" if view.members and view.state in EMPTY_STATES else view.state


def _judge_checkpoint(
    checkpoint: Checkpoint, log: TargetLog | None, compared: ComparedRecords
) -> tuple[Basis | None, int | None, int | None, str]:
    """Return basis, re-read and skipped records, and reason; the basis is None if unusable."""
    outside = _find_outside(checkpoint.downstream, log)
    if log is None or outside:
        return None, None, None, f"{outside}: its consumers would follow auto.offset.reset"
    most, between = log.end - checkpoint.downstream, compared.between
    further, relation = "its next record is further", NextRecordRelation
    by_next: dict[NextRecordRelation, tuple[Basis, int | None, int | None, str]] = {
        relation.SAME: (Basis.EXACT, 0, 0, ""),
        relation.NEITHER: (Basis.END, 0, 0, ""),
        relation.LATER: (Basis.BOUNDED, between, 0, f"{further} on (contents compared)"),
        relation.EARLIER: (Basis.UNMAPPED, 0, None, f"{further} back and would be skipped"),
        relation.ONLY_TARGET: (Basis.BOUNDED, most, 0, "it has read all records on the source"),
        relation.UNKNOWN: (
            Basis.BOUNDED,
            most,
            None,
            "its next record was not found on the target",
        ),
    }
    return by_next[compared.next]


def _find_outside(offset: int, log: TargetLog | None) -> str:
    """Return why the target does not hold an offset, "" if it does."""
    if log is None:
        return "its topic does not exist on the target"
    if offset < log.start:
        return f"offset {offset} is below the log start offset {log.start} there"
    return f"offset {offset} is beyond the end {log.end} there" if offset > log.end else ""


def checks(seen: ClusterObservation) -> list[Check]:
    """Return the results of all preconditions."""
    return [
        _groups_empty(seen),
        _consumers_stopped(seen),
        _run_check(seen, PRODUCERS_STOPPED, _producers_stopped),
        _run_check(seen, REPLICATED, _check_replicated),
        _own_topics(seen),
        _check_retained(seen),
        _reset(seen),
    ]


def standing_in_the_way(checks: Iterable[Check], accepted: Iterable[str]) -> list[Check]:
    """Return the required checks that did not pass and were not accepted."""
    fine = frozenset(accepted)
    return [c for c in checks if c.name in REQUIRED and c.name not in fine and c.hint]


def _run_check(
    seen: ClusterObservation, name: str, check: Callable[[ClusterObservation], Check]
) -> Check:
    if name in seen.unread:
        return Check.unknown(name, seen.unread[name], "Correct the cause, or accept the risk.")
    return check(seen)


def groups_in_use(views: Mapping[str, GroupView]) -> set[str]:
    """Return the groups with members, of those that can be read."""
    return {group for group, view in views.items() if not view.error and not view.empty}


def _groups_empty(seen: ClusterObservation) -> Check:
    used = [group for group in seen.groups if not seen.target.get(group, ABSENT).empty]
    if used:
        detail = (
            f"{counted(len(used), 'group')} in use on the target and not changed: "
            f"{first_names(used)}"
        )
        return Check.fails(GROUPS_EMPTY, detail, "Stop their consumers there.")
    return Check.passes(
        GROUPS_EMPTY, f"{counted(len(seen.groups), 'group')} without members on the target"
    )


def _consumers_stopped(seen: ClusterObservation) -> Check:
    views = {group: seen.source.get(group, ABSENT) for group in seen.groups}
    used = groups_in_use(views) | (seen.moving & seen.groups)
    if used:
        return Check.fails(
            CONSUMERS_STOPPED,
            f"{counted(len(used), 'group')} with members, or that committed, on the source: "
            f"{first_names(used)}",
            "Stop their consumers there; what they read on, those on the target read again.",
        )
    if unread := [group for group, view in views.items() if view.error]:
        first = min(unread)
        return Check.unknown(
            CONSUMERS_STOPPED,
            f"{counted(len(unread), 'group')} of the source cannot be read, the first "
            f"{safe_text(first)}: {views[first].error}",
            "Grant the source principal Describe on the groups, or accept the risk.",
        )
    return Check.passes(
        CONSUMERS_STOPPED,
        f"{counted(len(views), 'group')} without members on the source, and none committed for "
        f"{seen.watched_s:g} s",
    )


def _producers_stopped(seen: ClusterObservation) -> Check:
    for_s = f"{seen.watched_s:g} s"
    if seen.growing:
        return Check.fails(
            PRODUCERS_STOPPED,
            f"{counted(len(seen.growing), 'source partition')} grew within {for_s}: "
            f"{first_names(seen.growing)}",
            "Stop the producers; otherwise groups that move miss new records until "
            "MirrorMaker 2 has copied them.",
        )
    ends = counted(len(seen.source_ends), "source partition")
    return Check.passes(PRODUCERS_STOPPED, f"the ends of {ends} did not grow for {for_s}")


def _check_replicated(seen: ClusterObservation) -> Check:
    if seen.behind:
        records = sum(seen.behind.values())
        return Check.fails(
            REPLICATED,
            f"{counted(len(seen.behind), 'source partition')} with up to "
            f"{counted(records, 'record')} not copied yet: {first_names(seen.behind)}",
            "Wait until MirrorMaker 2 has caught up.",
        )
    return Check.passes(REPLICATED, "every record of the source is on the target")


def _own_topics(seen: ClusterObservation) -> Check:
    if seen.own_topics:
        return Check.passes(OWN_TOPICS, "the replication policy copies to separate topics")
    return Check.fails(
        OWN_TOPICS,
        "the replication policy keeps topic names: records produced on the target itself are "
        "in the same topics, and a group that moves could skip them",
        "Make sure that no application has produced to these topics on the target.",
    )


def _check_retained(seen: ClusterObservation) -> Check:
    gone = [
        f"{checkpoint.at.group} {checkpoint.at.topic}-{checkpoint.at.partition}"
        for checkpoint in seen.checkpoints
        if _find_outside(checkpoint.downstream, seen.log_of(checkpoint.at))
    ]
    if gone:
        return Check.fails(
            RETAINED,
            f"{counted(len(gone), 'checkpoint')} outside the target's log bounds and not "
            f"applied: {first_names(gone)}",
            "Set their offsets yourself: their consumers would follow auto.offset.reset.",
        )
    return Check.passes(RETAINED, "the target has the records to which the checkpoints point")


def _reset(seen: ClusterObservation) -> Check:
    """Find offsets committed on the source that no checkpoint translates."""
    known = {
        (checkpoint.at.group, seen.source_partition(checkpoint.at))
        for checkpoint in seen.checkpoints
    }
    topics = set(seen.sources.values())
    lacking = [
        f"{group} {topic}-{partition}"
        for group, view in seen.source.items()
        for (topic, partition), offset in view.offsets.items()
        if topic in topics
        and offset.offset >= 0
        and (group, SourcePartition(topic, partition)) not in known
    ]
    if lacking:
        return Check.fails(
            RESET,
            f"{counted(len(lacking), 'committed offset')} on the source without a checkpoint: "
            f"{first_names(lacking)}",
            "Find the correct offsets with k2ktui mm2 audit. Without one, consumers follow "
            "auto.offset.reset: latest skips records, earliest re-reads all.",
        )
    return Check.passes(RESET, "every committed offset on the source has a checkpoint")
