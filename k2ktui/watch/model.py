"""A view of a pipeline at one moment: everything that a screen or a log shows, without secrets.

None means unknown, never zero. Times are epoch seconds.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from k2ktui.engine.compare.record import ComparedPartitions, ComparisonRecord
from k2ktui.engine.drill.model import Drill, find_last_rehearsal
from k2ktui.engine.drill.objectives import NO_OBJECTIVES, Objectives
from k2ktui.engine.drill.pair_state import NOT_READ, PairState
from k2ktui.engine.drill.rehearsals import Rehearsal
from k2ktui.engine.mapping.strange_records import OtherWriters
from k2ktui.engine.moves.audit import Audit
from k2ktui.engine.moves.failover import (
    FailoverEstimate,
    count_gone,
    count_waiting,
    estimate_moves,
)
from k2ktui.engine.moves.groups import GroupRow
from k2ktui.engine.moves.journal import JournalHeader, Runner
from k2ktui.engine.moves.ratings import NOTHING, GroupSummary, RereadEstimate
from k2ktui.engine.status import PartitionStatus
from k2ktui.engine.trend import Direction

# A part whose read is pending for this many seconds is shown as stale, whatever its last error.
LATE_S = 5.0

Span = tuple[int, int]
RangeRow = tuple[int, int, int]


class PartName(StrEnum):
    """A part that is read and can fail separately; ``comparison`` exists only on request."""

    SOURCE = "source"
    TARGET = "target"
    GROUPS = "groups"
    STATE = "state"
    COMPARISON = "comparison"


@dataclass(frozen=True, slots=True)
class Part:
    """Read status of one part of a view.

    Attributes:
        taken_at: when its values were read; None if they never were.
        error: why the last attempt failed, empty if it succeeded; after an error the values are
            stale.
        pending_s: seconds since the start of an unanswered attempt, 0 if there is none.
        timed_out: whether the error is that no answer came.
    """

    taken_at: float | None = None
    error: str = ""
    pending_s: float = 0.0
    timed_out: bool = False

    @property
    def stale(self) -> bool:
        """Whether the values are from an earlier attempt: the last one failed, or is overdue."""
        return bool(self.error) or self.pending_s >= LATE_S

    @property
    def is_paused(self) -> bool:
        """Whether it is old because polling is paused, which is no problem."""
        return False


@dataclass(frozen=True, slots=True)
class PausedPart(Part):
    """A part that is old, or may be at any moment, because polling is paused."""

    @property
    def stale(self) -> bool:
        """Whether the values are old: always."""
        return True

    @property
    def is_paused(self) -> bool:
        """Whether it is old because polling is paused, and not because it cannot be read."""
        return not (self.error or self.pending_s >= LATE_S)


@dataclass(frozen=True, slots=True)
class ClusterView:
    """A cluster: its id, the Kafka release whose protocol it speaks, and its address.

    Empty strings mean unknown.
    """

    cluster_id: str = ""
    version: str = ""
    address: str = ""


@dataclass(frozen=True, slots=True)
class PartitionRow:
    """One source partition.

    Attributes:
        status: offsets, lag and coverage.
        why: explanation of its state for the operator; may be empty.
        rate: source offsets copied per second, None while unknown.
        direction: trend of its lag.
        eta_s: seconds until it has caught up at this rate, None if it never does.
        spans: source offsets ``[low, high)`` whose translation is exact.
        gaps: source offsets ``[first, end)`` that were lost before they could be copied.
        ranges: the last mapping ranges, ``(source, target, count)``.
    """

    status: PartitionStatus
    why: str = ""
    rate: float | None = None
    direction: Direction = Direction.UNKNOWN
    eta_s: float | None = None
    spans: tuple[Span, ...] = ()
    gaps: tuple[Span, ...] = ()
    ranges: tuple[RangeRow, ...] = ()

    @property
    def key(self) -> tuple[str, int]:
        """Topic and partition on the source."""
        return self.status.topic, self.status.partition


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over a pipeline; partitions of unknown lag are counted in ``unknown``.

    Attributes:
        lag_records: source offsets not copied yet.
        lag_seconds: age of the oldest record not copied yet.
        rate: source offsets copied per second.
        direction: trend of ``lag_records``.
        eta_s: seconds until everything has caught up at this rate.
        coverage: share of retained source offsets whose translation is exact, 0 to 1.
        commit_coverage: share of group-partitions with an exact position on the target.
        states: partitions by state.
        bases: group-partitions by basis.
        diverging: groups whose committed offset on the target is not the translated one.
        skips, rereads: records that those would skip, and read again, as committed now.
        moved_skips, moved_rereads: the same after a move of all groups that can be moved.
        arrived_records: the part of ``lag_records`` that was on the source when a drill moved the
            workload there: it came from the target, and is no loss.
        rpo_s: age of the oldest record that did not, if ``arrived_records`` are known.
        unknown: partitions whose lag is unknown.
        held_partitions: partitions that operators hold. What they lag is in ``held_records`` and
            ``held_s``, and in no other sum: it is no alarm.
        moved_topics, moved_partitions: source topics whose clients drills moved to the target, and
            their partitions: these are in ``partitions`` and ``states`` only, and their
            group-partitions in no sum.
    """

    partitions: int = 0
    lag_records: int | None = None
    lag_seconds: float | None = None
    rate: float | None = None
    direction: Direction = Direction.UNKNOWN
    eta_s: float | None = None
    coverage: float | None = None
    commit_coverage: float | None = None
    mapped_records: int | None = None
    states: Mapping[str, int] = field(default_factory=dict)
    groups: int | None = None
    bases: Mapping[str, int] = field(default_factory=dict)
    diverging: int = 0
    skips: int = 0
    rereads: int = 0
    unknown: int = 0
    moved_skips: int = 0
    moved_rereads: int = 0
    arrived_records: int = 0
    rpo_s: float | None = None
    held_partitions: int = 0
    held_records: int | None = None
    held_s: float | None = None
    moved_topics: int = 0
    moved_partitions: int = 0


@dataclass(frozen=True, slots=True)
class Point:
    """The totals at one moment, for a plot."""

    at: float
    lag_records: int | None
    lag_seconds: float | None
    rate: float | None
    coverage: float | None


@dataclass(frozen=True, slots=True)
class PipelinePair:
    """Identity of a view's pipeline, with its environment and read-only settings.

    ``mirror``: it is a flow of MirrorMaker 2, which does the copying. ``source`` and ``target`` are
    the configured names of its clusters; empty without one. ``bidirectional``: another pipeline
    copies the other way. ``equal_offsets``: another program does the copying, with equal offsets.
    """

    pipeline: str
    environment: str = ""
    read_only: bool = False
    mirror: bool = False
    source: str = ""
    target: str = ""
    bidirectional: bool = False
    equal_offsets: bool = False


def cluster_names(pair: PipelinePair, source: str, target: str) -> tuple[str, str]:
    """Return the names of source and target; without a configured one, the first bootstrap host.

    Two clusters of one host are told apart by the port.

    Args:
        pair: the pipeline, with the configured names.
        source, target: ``bootstrap.servers``; a name is empty if both are.
    """
    servers = [text.split(",")[0].strip().rpartition("://")[2] for text in (source, target)]
    hosts = [host or port for host, _, port in (server.rpartition(":") for server in servers)]
    if hosts[0] == hosts[1]:
        hosts = servers
    return pair.source or hosts[0], pair.target or hosts[1]


@dataclass(frozen=True, slots=True)
class View:
    """A pipeline at one moment.

    Attributes:
        taken_at: when the view was assembled; each part has its own time.
        heartbeat_at: last heartbeat of a MirrorMaker 2 flow; None if there was none.
        commits_at: when the source's commits were read; older than the part if they are the copy
            kept on the target.
        source_down: why that copy is used, empty if it is not.
        points: totals of the last minutes, the oldest first.
        audit: what a MirrorMaker 2 flow would make of the groups; None if that is not compared,
            or not known yet.
        drills: failover drills, the newest first; none in recordings of early releases.
        rehearsals: rehearsals in a few numbers, the oldest first; none as above.
        pair_state: which cluster the workload uses; lag, RPO and verdicts follow from it.
        objectives: what a failover may cost at most, by the pipeline's file.
        last_comparison: the last comparison of all records; None if there was none.
        mappings_expire_at: when the first mapping that a group needs expires, unless it is written
            again; None if none is needed or expires, or if it is not known.
        other_writers: who else has written to the target partitions, while the pair is
            replicating; None if that is not told.
        notes: messages for the operator about the pipeline as a whole.
        has_run: False if the target knows no run of the pipeline.
    """

    pair: PipelinePair
    taken_at: float
    parts: Mapping[PartName, Part]
    source: ClusterView = ClusterView()
    target: ClusterView = ClusterView()
    partitions: tuple[PartitionRow, ...] = ()
    groups: tuple[GroupRow, ...] = ()
    summaries: tuple[GroupSummary, ...] = ()
    heartbeat_at: float | None = None
    commits_at: float | None = None
    source_down: str = ""
    runners: tuple[Runner, ...] = ()
    journal: tuple[JournalHeader, ...] = ()
    drills: tuple[Drill, ...] = ()
    rehearsals: tuple[Rehearsal, ...] = ()
    pair_state: PairState = NOT_READ
    objectives: Objectives = NO_OBJECTIVES
    last_comparison: ComparisonRecord | None = None
    totals: Totals = Totals()
    points: tuple[Point, ...] = ()
    audit: Audit | None = None
    mappings_expire_at: float | None = None
    other_writers: OtherWriters | None = None
    notes: tuple[str, ...] = ()
    has_run: bool = True

    @property
    def whole(self) -> bool:
        """Whether every part was read, or failed."""
        return all(part.error or part.taken_at is not None for part in self.parts.values())

    def stale(self, *names: PartName) -> bool:
        """Whether any of these parts is stale, so that values based on it are shown as old."""
        return any(self.part(name).stale for name in names)

    @property
    def copy_stale(self) -> bool:
        """Whether lag, states and rates are based on an old reading of either cluster."""
        return self.stale(PartName.SOURCE, PartName.TARGET)

    @property
    def groups_stale(self) -> bool:
        """Whether group data is old, or the source's commits are a kept copy."""
        return self.stale(PartName.GROUPS) or bool(self.source_down)

    @property
    def is_current(self) -> bool:
        """Whether everything was read recently; only then does the absence of problems count."""
        parts = [part for name, part in self.parts.items() if name is not PartName.COMPARISON]
        read = all(part.taken_at is not None and not part.stale for part in parts)
        return read and self.whole and not self.source_down

    @property
    def settled(self) -> bool:
        """Whether no group is waiting for a second poll to confirm a bad finding."""
        return not any(group.checking for group in self.summaries)

    @property
    def awaits_mapping(self) -> bool:
        """Whether the next view tells more of strange records, by the mapping that this one has."""
        mapped = self.part(PartName.GROUPS).taken_at is not None
        return mapped and self.other_writers is not None and self.other_writers.awaits_mapping

    @property
    def compares(self) -> bool:
        """Whether groups are compared with what MirrorMaker 2 would make of them."""
        return self.audit is not None or PartName.COMPARISON in self.parts

    @property
    def audit_stale(self) -> bool:
        """Whether the last attempt to audit failed or is overdue."""
        # A MirrorMaker 2 flow is audited together with its groups.
        part = PartName.GROUPS if self.pair.mirror else PartName.COMPARISON
        return self.part(part).stale

    @property
    def again(self) -> tuple[RereadEstimate, RereadEstimate]:
        """Re-reads of all groups on the target: by translation, and by MM2's checkpoints."""
        by_translation = sum((group.ours for group in self.summaries), NOTHING)
        by_checkpoints = sum((group.theirs for group in self.summaries if group.theirs), NOTHING)
        return by_translation, by_checkpoints

    @property
    def waiting(self) -> Counter[str]:
        """Each group's unmapped positions on partitions of which nothing is copied yet."""
        new = {row.key for row in self.partitions if row.status.position is None}
        return count_waiting(self.groups, new)

    @property
    def compared(self) -> ComparedPartitions:
        """What the last comparison has found on each partition of these clusters."""
        last, read = self.last_comparison, (self.source.cluster_id, self.target.cluster_id)
        is_of_others = last is not None and any(
            cluster_id and cluster_id != compared
            for cluster_id, compared in zip(
                read, (last.source_cluster, last.target_cluster), strict=True
            )
        )
        return ComparedPartitions(None if is_of_others else last)

    @property
    def failover(self) -> FailoverEstimate:
        """What a failover now would do."""
        totals, pair = self.totals, self.pair_state
        lag, oldest = totals.lag_records, totals.lag_seconds
        if totals.arrived_records and lag is not None:
            lag, oldest = max(0, lag - totals.arrived_records), totals.rpo_s
        return FailoverEstimate(
            groups=(
                None
                if totals.groups is None
                else estimate_moves(self.summaries, self.waiting, self.gone_unread)
            ),
            rpo_records=pair.rpo_records if pair.moved else lag,
            rpo_s=None if pair.moved else oldest,
            unknown_partitions=0 if pair.moved else totals.unknown,
            commits_at=self.commits_at,
            rpo_at_least=pair.rpo_at_least,
            failed_over=pair.moved,
            held_partitions=0 if pair.moved else totals.held_partitions,
            held_records=None if pair.moved else totals.held_records,
            held_s=None if pair.moved else totals.held_s,
        )

    @property
    def missed_rpo(self) -> list[str]:
        """The objectives that a failover now would miss by its loss; none once it has happened."""
        failover = self.failover
        if failover.failed_over:
            return []
        return self.objectives.list_missed(
            rpo_records=failover.rpo_records, rpo_s=failover.rpo_s, rto_s=None
        )

    @property
    def missed_rto(self) -> list[str]:
        """The objective that the last rehearsal missed by the time that the tool needed."""
        last = find_last_rehearsal(self.drills)
        took = None if last is None else last.tool_ms / 1000
        return self.objectives.list_missed(rpo_records=None, rpo_s=None, rto_s=took)

    @property
    def moved_topics(self) -> dict[str, tuple[str, ...]]:
        """The source topics whose clients were moved to the target, by the drill that did."""
        topics: dict[str, dict[str, None]] = {}
        for row in self.partitions if self.totals.moved_topics else ():
            if row.status.moved_by:
                topics.setdefault(row.status.moved_by, {})[row.status.topic] = None
        return {drill: tuple(topics[drill]) for drill in sorted(topics)}

    @property
    def held_names(self) -> tuple[str, ...]:
        """What operators hold, as ``k2ktui release`` takes it; not safe to print."""
        held: dict[str, list[int]] = {}
        partitions: Counter[str] = Counter()
        for row in self.partitions if self.totals.held_partitions else ():
            partitions[row.status.topic] += 1
            if row.status.hold:
                held.setdefault(row.status.topic, []).append(row.status.partition)
        names: list[str] = []
        for topic, numbers in held.items():
            is_whole = len(numbers) == partitions[topic]
            names += [topic] if is_whole else [f"{topic}:{number}" for number in numbers]
        return tuple(names)

    @property
    def is_left(self) -> bool:
        """Whether the clients of every topic were moved: the pipeline can be retired."""
        return 0 < self.totals.moved_partitions == self.totals.partitions

    @property
    def gone_unread(self) -> dict[str, int | None]:
        """Each group's unread records that a move skips, and that the source has deleted, too.

        See :func:`count_gone`.
        """
        if not any(group.moved_skips for group in self.summaries):
            return {}
        return count_gone(
            self.groups, {row.key: row.status.source_start for row in self.partitions}
        )

    def part(self, name: PartName) -> Part:
        """Return a part; an unread one if the view does not have it."""
        return self.parts.get(name, Part())

    def age(self, name: PartName, now: float) -> float | None:
        """Return the age of a part's values in seconds, None if there are none."""
        taken = self.part(name).taken_at
        return None if taken is None else max(0.0, now - taken)


def pause_view(view: View, before: float = math.inf) -> View:
    """Return a view as it is shown while polling is paused: all of it is old.

    Rates and trends are left out, as they are if a cluster does not answer.

    Args:
        view: the last view.
        before: parts that were read at this time or later are as new as they look. After a pause,
            the first view still has parts from before it.
    """
    parts = {name: _paused(part, before) for name, part in view.parts.items()}
    if not any(part.is_paused for part in parts.values()):
        return view
    return replace(
        view,
        parts=parts,
        partitions=tuple(
            replace(row, rate=None, direction=Direction.UNKNOWN, eta_s=None)
            for row in view.partitions
        ),
        groups=tuple(replace(row, direction=Direction.UNKNOWN, eta_s=None) for row in view.groups),
        summaries=tuple(
            replace(group, direction=Direction.UNKNOWN, eta_s=None, moved_eta_s=None)
            for group in view.summaries
        ),
        totals=replace(view.totals, rate=None, direction=Direction.UNKNOWN, eta_s=None),
    )


def _paused(part: Part, before: float) -> Part:
    if part.taken_at is None or part.taken_at >= before:
        return part
    return PausedPart(part.taken_at, part.error, part.pending_s)


def ranges_below(ranges: Sequence[RangeRow], position: int | None) -> tuple[RangeRow, ...]:
    """Return mapping ranges up to a replicated position; all of them if it is None.

    Mappings and positions are read at different moments, and mappings may be ahead.
    """
    if position is None:
        return tuple(ranges)
    return tuple(
        (source, target, min(count, position - source))
        for source, target, count in ranges
        if source < position
    )
