"""Guided failover drills: kinds, phases, and the state of one drill; pure.

A drill runs its phases in order. What it changes on a cluster is recorded as a :class:`Change`,
with the state before, before the change is made: a process that resumes or aborts the drill on
another host knows what may have been changed, and finds out on the cluster whether it was.

Times are epoch milliseconds. The record on the state topic is in :mod:`k2ktui.engine.drill.format`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Annotated, Any

from pydantic import FailFast

from k2ktui.engine.bounded import Count, Flag, Millis, Number, Seconds, Text
from k2ktui.engine.drill.checks import CheckResult, DrillKind, DrillPhase
from k2ktui.engine.drill.clients import GroupClient
from k2ktui.engine.drill.hooks import HookRecord
from k2ktui.engine.drill.objectives import Objectives
from k2ktui.engine.drill.site_mark import SiteMark
from k2ktui.engine.drill.tail import PartitionEnd, TailChoice, TailPartition

_SWITCHOVER = (
    DrillPhase.PREFLIGHT,
    DrillPhase.LAG,
    DrillPhase.FENCE_PRODUCERS,
    DrillPhase.DRAIN,
    DrillPhase.STOP_CONSUMERS,
    DrillPhase.APPLY,
    DrillPhase.VERIFY,
    DrillPhase.FENCE_REPLICATOR,
    DrillPhase.OPEN_TARGET,
    DrillPhase.WATCH_CLIENTS,
    DrillPhase.REVERSE,
    DrillPhase.REPORT,
)
PHASES: Mapping[DrillKind, tuple[DrillPhase, ...]] = {
    DrillKind.REHEARSE: (
        DrillPhase.PREFLIGHT,
        DrillPhase.PLAN,
        DrillPhase.CONTENT,
        DrillPhase.SHADOW,
        DrillPhase.REPORT,
    ),
    DrillKind.PLANNED: _SWITCHOVER,
    # The replicator is fenced first: a source that answers again must not move what is planned.
    DrillKind.DISASTER: (
        DrillPhase.PREFLIGHT,
        DrillPhase.SOURCE_LOST,
        DrillPhase.FENCE_REPLICATOR,
        DrillPhase.APPLY,
        DrillPhase.VERIFY,
        DrillPhase.OPEN_TARGET,
        DrillPhase.WATCH_CLIENTS,
        DrillPhase.REPORT,
    ),
    DrillKind.FAILBACK: (DrillPhase.SOURCE_BACK, DrillPhase.TAIL, *_SWITCHOVER),
}


def phases_of(
    kind: DrillKind, topics: Collection[str] = (), *, redirects: bool = False
) -> tuple[DrillPhase, ...]:
    """Return the phases of a kind of drill.

    Releases that do not know ``move-topics`` or ``redirect`` cannot read the record, and so cannot
    act on the whole pipeline, or leave its clients where they are.

    Args:
        kind: kind of the drill.
        topics: of a drill over some topics: it does not fence the pipeline, which goes on with the
            others; it moves its own. It redirects nothing: clients may use other topics, too.
        redirects: whether the clients' name moves once the target is open.
    """
    if not topics:
        phases = PHASES[kind]
        if not redirects or kind is DrillKind.REHEARSE:
            return phases
        opened = phases.index(DrillPhase.OPEN_TARGET) + 1
        return (*phases[:opened], DrillPhase.REDIRECT, *phases[opened:])
    partial = {DrillPhase.FENCE_REPLICATOR: DrillPhase.MOVE_TOPICS}
    return tuple(partial.get(phase, phase) for phase in PHASES[kind])


CONFIRMED = frozenset(
    {
        DrillPhase.TAIL,
        DrillPhase.SOURCE_LOST,
        DrillPhase.FENCE_PRODUCERS,
        DrillPhase.APPLY,
        DrillPhase.FENCE_REPLICATOR,
        DrillPhase.MOVE_TOPICS,
        DrillPhase.OPEN_TARGET,
        DrillPhase.REDIRECT,
    }
)


class Fence(StrEnum):
    """How producers are kept from writing to the source.

    ``cutoff`` closes the way of all clients to the source, also of consumers.
    ``quota`` cannot be chosen any more. A drill that was begun with it may have lowered quotas.
    """

    HAND = "hand"
    ACL = "acl"
    CUT_OFF = "cutoff"
    QUOTA = "quota"

    @property
    def is_by_people(self) -> bool:
        """Whether people stop the producers, and the drill only proves it."""
        return self not in (Fence.ACL, Fence.CUT_OFF)


FENCES = (Fence.HAND, Fence.ACL, Fence.CUT_OFF)
"""Those that a drill can begin with."""


class PhaseStatus(StrEnum):
    """Status of a phase; a failed one is run again when the drill is resumed."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"


class DrillStatus(StrEnum):
    """Status of a drill; ``aborting`` until everything that it changed is restored."""

    OPEN = "open"
    DONE = "done"
    ABORTING = "aborting"
    ABORTED = "aborted"


class ChangeKind(StrEnum):
    """What a drill may change."""

    SHADOW_GROUPS = "shadow-groups"
    ACLS = "acls"
    QUOTAS = "quotas"
    OFFSETS = "offsets"
    JOB = "job"
    EPOCHS = "epochs"
    TAIL = "tail"
    POSITIONS = "positions"
    RELEASE = "release"
    STARTED_JOB = "started-job"
    RIGHTS = "rights"
    MOVED_TOPICS = "moved-topics"
    RELEASED_TOPICS = "released-topics"


class ChangeStatus(StrEnum):
    """Status of a change; ``intended``: it may have been made, only the cluster knows."""

    INTENDED = "intended"
    MADE = "made"
    UNDONE = "undone"
    KEPT = "kept"


@dataclass(frozen=True, slots=True)
class PhaseRecord:
    """A phase of one drill.

    Attributes:
        phase: the phase.
        status: its status.
        began_ms, ended_ms: None before.
        waited_ms: how long it waited for people or applications, not for the tool.
        live: what it found, or waits for, in one line.
        findings: what the operator should know or fix.
        failed_checks: ids of the checks whose failures are the last findings, in their order;
            records of earlier releases have none.
    """

    phase: DrillPhase
    status: PhaseStatus = PhaseStatus.WAITING
    began_ms: Millis | None = None
    ended_ms: Millis | None = None
    waited_ms: Millis = 0
    live: Text = ""
    findings: Annotated[tuple[Text, ...], FailFast()] = ()
    failed_checks: Annotated[tuple[Text, ...], FailFast()] = ()

    def list_findings(self) -> tuple[tuple[str, str], ...]:
        """Return each finding with the id of the check that failed; "" if it is of no check."""
        others = max(0, len(self.findings) - len(self.failed_checks))
        return tuple(zip(self.findings, ("",) * others + self.failed_checks, strict=False))

    @property
    def took_ms(self) -> int | None:
        """How long it took from beginning to end; None before its end."""
        if self.began_ms is None or self.ended_ms is None:
            return None
        return max(0, self.ended_ms - self.began_ms)


@dataclass(frozen=True, slots=True)
class Change:
    """Something that a drill changes, recorded before it does.

    Attributes:
        phase: the phase that makes it.
        kind: what is changed.
        what: the change, as a sentence.
        before, after: the states before and after, as JSON.
        undo: how to take it back by hand.
        status: whether it was made.
    """

    phase: DrillPhase
    kind: ChangeKind
    what: Text
    before: Text
    after: Text
    undo: Text
    status: ChangeStatus = ChangeStatus.INTENDED


@dataclass(frozen=True, slots=True)
class DrillEvent:
    """One entry of the journal about a drill; ``digest`` also covers the events before it."""

    at_ms: Millis
    who: Text
    phase: Text
    text: Text
    entry: Text = ""
    digest: Text = ""


@dataclass(frozen=True, slots=True)
class CheckpointEffect:
    """What a group would read again or never read if it resumed at MirrorMaker 2's checkpoints.

    Attributes:
        reread, skipped: records, in the partitions where they are known.
        unknown: number of partitions where they are not known.
        without: number of partitions without a checkpoint; ``auto.offset.reset`` decides there.
    """

    reread: Count = 0
    skipped: Count = 0
    unknown: Number = 0
    without: Number = 0


@dataclass(frozen=True, slots=True)
class GroupResult:
    """What a drill found for one consumer group; None is unknown.

    Attributes:
        group: its name.
        partitions: number of its target partitions in the plan.
        unmapped: number of them without an applicable translation.
        reread, skipped: upper bounds of the records read again and never read.
        compared: number of records that the shadow group read and that were compared.
        different: number of them that were not the expected record.
        was_active: whether it had members on the source when the drill began.
        joined: whether it joined on the target.
        first_ms: when it was first seen past its applied offset.
        note: what the operator should know.
        checkpoints: effect of MirrorMaker 2's checkpoints, for comparison with ``reread`` and
            ``skipped``; None if k2ktui copies.
        clients: the first of its members on the source, and when they came to the target.
    """

    group: Text
    partitions: Number = 0
    unmapped: Number = 0
    reread: Count | None = None
    skipped: Count | None = None
    compared: Number = 0
    different: Number = 0
    was_active: Flag | None = None
    joined: Flag | None = None
    first_ms: Millis | None = None
    note: Text = ""
    checkpoints: CheckpointEffect | None = None
    clients: tuple[GroupClient, ...] = ()


@dataclass(frozen=True, slots=True)
class DrillFigures:
    """What a drill measured; None is unknown.

    Attributes:
        rpo_records: records committed on the source and not on the target.
        rpo_at_least: the lower bound, if ``rpo_records`` is an upper bound only.
        rpo_bytes: their size: keys, values and headers.
        rpo_s: age of the oldest of them in seconds.
        silent_s: for how long nothing was read from the source, in seconds.
        source_ends: digest of the source's log ends when its producers were proven to be fenced.
        opened_ms: when the target was opened; from then on, records may exist only there.
        first_record_ms: when a group was first seen to have read a record on the target.
        content_compared, content_different: records compared by content.
        content_limit: the limit above which rows are sampled; 0 if all were compared.
        topics_left: of a drill over some topics, how many of the pipeline's were not moved when it
            ended.
    """

    rpo_records: Count | None = None
    rpo_at_least: Count | None = None
    rpo_bytes: Count | None = None
    rpo_s: Seconds | None = None
    silent_s: Seconds | None = None
    source_ends: Text = ""
    opened_ms: Millis | None = None
    first_record_ms: Millis | None = None
    content_compared: Count = 0
    content_different: Count = 0
    content_limit: Count = 0
    topics_left: Count | None = None


@dataclass(frozen=True, slots=True)
class DrillOptions:
    """What an operator chooses when a drill begins.

    Attributes:
        groups: pattern of the groups; empty for all that the pipeline looks after.
        topics: pattern of the source topics; empty for the whole pipeline.
        fence: how producers are fenced.
        lag_records: largest lag in records with which a switchover continues.
        frozen_s: how long nothing must change on the source, in seconds.
        wait_s: how long a phase waits for a condition, in seconds.
        watch_s: how long clients are watched on the target, in seconds.
        shadow_groups: largest number of groups that are consumed as shadow groups.
        shadow_records: number of records that each shadow group reads per partition.
        content_rows: number of rows above which the content proof is sampled.
        accepted: ids of checks whose failure does not stop the drill.
        tail: what to do with the records of the old source that were never copied.
        show_keys: whether the first keys of these records are shown.
        export_to: directory of exported records; empty for one beside the pipeline's file.
        forward: file of the forward pipeline; empty for the one that the reverse file names.
    """

    groups: Text = ""
    fence: Fence = Fence.HAND
    lag_records: Count = 10_000
    frozen_s: Seconds = 30.0
    wait_s: Seconds = 600.0
    watch_s: Seconds = 300.0
    shadow_groups: Number = 100
    shadow_records: Number = 10
    content_rows: Number = 20_000
    accepted: Annotated[tuple[Text, ...], FailFast()] = ()
    tail: TailChoice = TailChoice.STOP
    show_keys: Flag = False
    export_to: Text = ""
    forward: Text = ""
    topics: Text = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeOptions:
    """How a drill or a site drill is continued: the options of ``k2ktui drill resume``.

    Attributes:
        take_over: whether it is taken over from the operator who acts on it, without a question.
        as_disaster: whether it continues without its source.
        from_fence: whether it begins again with fencing the producers.
        accept: ids of failed checks that do not stop it any more.
        left_out: names of pipelines of a site drill that are left out.
        chosen: options that replace those with which it was begun.
    """

    take_over: bool = False
    as_disaster: bool = False
    from_fence: bool = False
    accept: Sequence[str] = ()
    left_out: Collection[str] = ()
    chosen: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_final(self) -> bool:
        """Whether an abort does not bring back what this changes.

        That is: who acted on it, the phases that need the source, and what was left out.
        """
        return self.take_over or self.as_disaster or bool(self.left_out)


AS_BEFORE = ResumeOptions()


@dataclass(frozen=True, slots=True)
class Drill:
    """A drill: what it is to do, who acts, what was done, and what was found.

    Attributes:
        id: its id, which begins with its time.
        kind: its kind.
        pipeline: name of the pipeline.
        files: the pipeline's files where the drill began.
        source_cluster, target_cluster: ids of the clusters; the source's may be unknown.
        version: k2ktui version that began it.
        started_ms, started_by: when and by whom (``user@host``) it was begun.
        options: what the operator chose.
        owner: who acts, ``user@host``.
        session: random id of the process that acts; empty if none does.
        beat_ms: when that process last wrote the record.
        status: its status.
        ended_ms: when it ended; None before.
        phases: its phases in order.
        changes: what it changed, in order.
        events: its journal entries, in order.
        checks: results of the checks.
        groups: results by group.
        figures: what it measured.
        tail: the records of the old source that had not been copied when it looked first.
        returned: of a failover, the source's partitions when a failback led back to it; everything
            that had been written to the target was then on the source. Below these ends is what the
            reverse pipeline had copied there.
        opened_ends: the target's partitions when it was opened; clients write from there on.
        plans: ids of the plans that it applied or was about to.
        blockers: what would have stopped, or stopped, a failover.
        site: the site drill that it belongs to; None without one.
        objectives: those of the pipeline's file when it began; None without any.
        hooks: the hooks of the pipeline's file, and those that ran and are not in it any more.
        hooks_digest: digest of the hooks of the file that a person has agreed to; "" for none.
        topics: the source topics of a drill over some topics, sorted, as chosen when it began;
            empty if it is over the whole pipeline.
        doubt: why it was not proven who had written the record when a process continued it; "" if
            it was. It stays: what that process writes is proven to be its own, but not true.
    """

    id: Text
    kind: DrillKind
    pipeline: Text
    source_cluster: Text
    target_cluster: Text
    version: Text
    started_ms: Millis
    started_by: Text
    options: DrillOptions = DrillOptions()
    files: Annotated[tuple[Text, ...], FailFast()] = ()
    owner: Text = ""
    session: Text = ""
    beat_ms: Millis = 0
    status: DrillStatus = DrillStatus.OPEN
    ended_ms: Millis | None = None
    phases: Annotated[tuple[PhaseRecord, ...], FailFast()] = ()
    changes: Annotated[tuple[Change, ...], FailFast()] = ()
    events: Annotated[tuple[DrillEvent, ...], FailFast()] = ()
    checks: Annotated[tuple[CheckResult, ...], FailFast()] = ()
    groups: Annotated[tuple[GroupResult, ...], FailFast()] = ()
    figures: DrillFigures = DrillFigures()
    tail: Annotated[tuple[TailPartition, ...], FailFast()] = ()
    returned: Annotated[tuple[PartitionEnd, ...], FailFast()] = ()
    opened_ends: Annotated[tuple[PartitionEnd, ...], FailFast()] = ()
    plans: Annotated[tuple[Text, ...], FailFast()] = ()
    blockers: Annotated[tuple[Text, ...], FailFast()] = ()
    site: SiteMark | None = None
    objectives: Objectives | None = None
    hooks: Annotated[tuple[HookRecord, ...], FailFast()] = ()
    hooks_digest: Text = ""
    topics: Annotated[tuple[Text, ...], FailFast()] = ()
    doubt: Text = ""

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.status in (DrillStatus.DONE, DrillStatus.ABORTED)

    @property
    def redirects(self) -> bool:
        """Whether the clients' name moves once the target is open."""
        return any(record.phase is DrillPhase.REDIRECT for record in self.phases)

    @property
    def next_verb(self) -> str:
        """The command that continues it: once its abort has begun, only that can."""
        return "abort" if self.status is DrillStatus.ABORTING else "resume"

    @property
    def tool_ms(self) -> int:
        """How long the tool took in milliseconds, without waiting for anyone."""
        return sum(max(0, (phase.took_ms or 0) - phase.waited_ms) for phase in self.phases)

    def record(self, phase: DrillPhase) -> PhaseRecord:
        """Return the record of a phase; a waiting one if the kind does not have it."""
        return next((record for record in self.phases if record.phase is phase), PhaseRecord(phase))

    def with_phase(self, record: PhaseRecord) -> Drill:
        """Return the drill with another record of a phase."""
        phases = tuple(record if old.phase is record.phase else old for old in self.phases)
        return replace(self, phases=phases)


def new_phases(
    kind: DrillKind, topics: Collection[str] = (), *, redirects: bool = False
) -> tuple[PhaseRecord, ...]:
    """Return the phases of a new drill; arguments as for :func:`phases_of`."""
    phases = phases_of(kind, topics, redirects=redirects)
    return tuple(PhaseRecord(phase) for phase in phases)


def find_last_rehearsal(drills: Iterable[Drill]) -> Drill | None:
    """Return the rehearsal of the whole pipeline that has ended last; None if there is none."""
    done = [
        drill
        for drill in drills
        if drill.kind is DrillKind.REHEARSE
        and drill.status is DrillStatus.DONE
        and drill.ended_ms
        and not drill.topics
    ]
    return max(done, key=lambda drill: drill.ended_ms or 0, default=None)
