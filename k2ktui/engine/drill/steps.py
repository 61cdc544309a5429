"""What a drill does next, whether it can go back, and what an abort restores; pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from k2ktui.engine.drill.checks import DrillKind, DrillPhase
from k2ktui.engine.drill.model import (
    CONFIRMED,
    Change,
    ChangeKind,
    ChangeStatus,
    Drill,
    DrillStatus,
    Fence,
    PhaseRecord,
    PhaseStatus,
    phases_of,
)
from k2ktui.engine.drill.tail import TailChoice
from k2ktui.text import safe_text

SILENT_AFTER_MS = 15_000
_OVER = (PhaseStatus.DONE, PhaseStatus.SKIPPED)

_FENCES: Mapping[Fence, str] = {
    Fence.HAND: "Waits until the producers on the source are stopped by hand, and proves it: "
    "nothing is written there, and no transaction is open.",
    Fence.ACL: "Denies Write on the replicated topics of the source to everyone, and proves that "
    "nothing is written any more.",
    Fence.CUT_OFF: "Closes the clients' way to the source, also the consumers', and proves it: a "
    "connection is refused, and nothing is written there any more.",
    Fence.QUOTA: "Waits until nothing is written to the source, and no transaction is open. Lowers "
    "no quota any more: stop the producers by hand.",
}
_READS = " Changes nothing."
# What differs in a drill over some topics: producers and consumers go on with the others.
_OF_TOPICS: Mapping[DrillPhase, str] = {
    DrillPhase.FENCE_PRODUCERS: "Waits until the producers of the chosen topics on the source are "
    "stopped by hand, and proves it: nothing is written to them, and no transaction is open.",
    DrillPhase.STOP_CONSUMERS: "Waits until the consumers on the source have left the chosen "
    "topics: stop them by hand, or let them go on with other topics." + _READS,
    DrillPhase.OPEN_TARGET: "Declares the target open for the chosen topics: from then on their "
    "producers and consumers use it, and you cannot go back.",
    DrillPhase.WATCH_CLIENTS: "Waits until the producers and consumers of the chosen topics are "
    "started on the target by hand, and the groups that were active read there." + _READS,
}
# What differs where clients are cut off, and follow their name to the target.
_OF_CUT_OFF: Mapping[DrillPhase, str] = {
    DrillPhase.SOURCE_LOST: "Finds out that the source does not answer, and what is known of it; "
    "then closes the clients' way to it, if the file has a cut-off.",
    DrillPhase.STOP_CONSUMERS: "Waits until the source has found out that the consumers, which are "
    "cut off, have left: their session timeouts." + _READS,
    DrillPhase.WATCH_CLIENTS: "Waits until the groups that were active have followed the name, and "
    "read on the target." + _READS,
}
_SENTENCES: Mapping[DrillPhase, str] = {
    DrillPhase.SOURCE_BACK: "Finds out that the old source answers, is the same cluster, and still "
    "has what was copied from it." + _READS,
    DrillPhase.TAIL: "Lists the records of the old source that were never copied, and copies them "
    "now, exports them or leaves them out, as you chose.",
    DrillPhase.PREFLIGHT: "Checks both clusters, the pipeline, its mappings and the groups."
    + _READS,
    DrillPhase.LAG: "Waits until the lag is below its bound." + _READS,
    DrillPhase.SOURCE_LOST: "Finds out that the source does not answer, and what is known of it."
    + _READS,
    DrillPhase.DRAIN: "Waits until everything on the source is on the target, and proves it for "
    "every partition." + _READS,
    DrillPhase.STOP_CONSUMERS: "Waits until the consumers on the source are stopped by hand."
    + _READS,
    DrillPhase.PLAN: "Plans the offsets of every group." + _READS,
    DrillPhase.CONTENT: "Compares the next record of every group on both clusters." + _READS,
    DrillPhase.SHADOW: "Commits the planned offsets for shadow groups on the target, reads their "
    "first records, compares them with the source, and deletes the groups again.",
    DrillPhase.APPLY: "Plans the offsets of every group and commits them on the target.",
    DrillPhase.VERIFY: "Reads the committed offsets back, and compares the next record of every "
    "group." + _READS,
    DrillPhase.FENCE_REPLICATOR: "Stops the pipeline's job on this host, and raises the producer "
    "epochs so that no driver anywhere can write for this pipeline. If MirrorMaker 2 copies: waits "
    "until it is stopped by hand, and proves it.",
    DrillPhase.MOVE_TOPICS: "Records that the chosen topics have moved, and raises the producer "
    "epochs of all runs: none copies these topics any more. The other topics stop for seconds.",
    DrillPhase.OPEN_TARGET: "Declares the target open: from then on your producers and consumers "
    "use it, and you cannot go back.",
    DrillPhase.REDIRECT: "Moves the clients' name to the target, and proves it: the name and every "
    "broker that it advertises answer as the target. Only a failback moves it back.",
    DrillPhase.WATCH_CLIENTS: "Waits until the producers and consumers are started on the target "
    "by hand, and the groups that were active read there." + _READS,
    DrillPhase.REVERSE: "Writes the file of the pipeline for the way back beside the file of this "
    "one; a failback lets that pipeline start again.",
    DrillPhase.REPORT: "Completes the report.",
}


def drill_command(drill: Drill, verb: str) -> str:
    """Return the command that acts on a drill, or on the site drill that it belongs to."""
    if drill.site is not None and drill.kind is not DrillKind.REHEARSE:
        return f"k2ktui drill {verb} {safe_text(drill.site.id)} -d DIR"
    return f"k2ktui drill {verb} {safe_text(drill.id)} -f FILE"


def describe_phase(phase: DrillPhase, fence: Fence, topics: Collection[str] = ()) -> str:
    """Return what a phase does, in one or two sentences; of a drill over some topics with these."""
    by_hand = phase is not DrillPhase.FENCE_PRODUCERS or fence.is_by_people
    if fence is Fence.CUT_OFF and phase in _OF_CUT_OFF:
        return _OF_CUT_OFF[phase]
    if topics and by_hand and phase in _OF_TOPICS:
        return _OF_TOPICS[phase]
    return _FENCES[fence] if phase is DrillPhase.FENCE_PRODUCERS else _SENTENCES[phase]


def describe_phase_of(drill: Drill, phase: DrillPhase) -> str:
    """Return what a phase of a drill does, in one or two sentences."""
    return describe_phase(phase, drill.options.fence, drill.topics)


def next_phase(drill: Drill) -> DrillPhase | None:
    """Return the first phase that is not over; None if all are, or the drill is."""
    if drill.status is not DrillStatus.OPEN:
        return None
    return next((record.phase for record in drill.phases if record.status not in _OVER), None)


def describe_status(drill: Drill, record: PhaseRecord) -> str:
    """Return the status of a phase; "not run" for one that a drill which is over did not reach."""
    unreached = drill.is_over and record.status is PhaseStatus.WAITING
    return "not run" if unreached else str(record.status)


def describe_next(drill: Drill, *, acting: bool = False) -> str:
    """Return what the drill does next, in one or two sentences.

    Args:
        drill: the drill.
        acting: whether a process acts on it: a phase that was begun then runs now.
    """
    if drill.status is DrillStatus.ABORTING:
        return f"The drill is being aborted. Continue with: {drill_command(drill, 'abort')}"
    phase = next_phase(drill)
    if phase is None:
        return "Nothing is left to do."
    runs = acting and drill.record(phase).status is PhaseStatus.RUNNING
    return f"{'Now' if runs else 'Next'}, {phase}: {describe_phase_of(drill, phase)}"


def failed_phase(drill: Drill) -> PhaseRecord | None:
    """Return the phase that has stopped a drill; None if none has."""
    phase = next_phase(drill)
    record = drill.record(phase) if phase is not None else None
    return record if record is not None and record.status is PhaseStatus.FAILED else None


def waits_for_tail_choice(drill: Drill) -> bool:
    """Return whether a failback has listed its tail, and the operator has to choose."""
    stopped = failed_phase(drill)
    chosen = drill.options.tail is not TailChoice.STOP
    return stopped is not None and stopped.phase is DrillPhase.TAIL and not chosen


def can_go_back(drill: Drill) -> bool:
    """Return whether an abort restores everything that the drill has changed."""
    return drill.figures.opened_ms is None


def describe_way_back(drill: Drill) -> str:
    """Return whether and how the operator can still go back."""
    if drill.is_over:
        return f"The drill is {drill.status}."
    if can_go_back(drill):
        return f"You can still go back: {drill_command(drill, 'abort')}"
    return "You cannot go back: the target was opened, and records may exist only there."


def needs_confirmation(phase: DrillPhase, fence: Fence) -> bool:
    """Return whether the operator must confirm a phase; only access rules fence producers."""
    only_proves = phase is DrillPhase.FENCE_PRODUCERS and fence.is_by_people
    return phase in CONFIRMED and not only_proves


def list_remarks(drill: Drill) -> list[str]:
    """Return everything that was found so far, for the question before the point of no return.

    A check that several phases have asked is named once, with its last evidence.
    """
    groups = [
        f"{safe_text(group.group)}: {group.skipped or 0:,} skipped, "
        f"{group.reread or 0:,} read again"
        for group in drill.groups
        if group.skipped or group.reread
    ]
    checks = {
        blocker: check
        for record in drill.phases
        for blocker, (_, check) in zip(_blockers(record), record.list_findings(), strict=True)
    }
    last = {checks.get(blocker) or blocker: blocker for blocker in drill.blockers}
    return [*groups, *last.values()]


def begin_phase(drill: Drill, phase: DrillPhase, at_ms: int) -> Drill:
    """Return the drill with a phase running; an earlier beginning stays, its findings do not."""
    record = drill.record(phase)
    began = record.began_ms if record.began_ms is not None else at_ms
    running = replace(
        record,
        status=PhaseStatus.RUNNING,
        began_ms=began,
        ended_ms=None,
        findings=(),
        failed_checks=(),
        live="",
    )
    return _without_blockers(drill, [record]).with_phase(running)


def end_phase(
    drill: Drill,
    phase: DrillPhase,
    status: PhaseStatus,
    at_ms: int,
    live: str,
    findings: tuple[str, ...] = (),
    failed_checks: tuple[str, ...] = (),
) -> Drill:
    """Return the drill with a phase that has ended."""
    record = replace(
        drill.record(phase),
        status=status,
        ended_ms=at_ms,
        live=live,
        findings=findings,
        failed_checks=failed_checks,
    )
    return drill.with_phase(record)


def add_blockers(drill: Drill, phase: DrillPhase) -> Drill:
    """Return the drill with what a phase has found among its blockers."""
    return replace(drill, blockers=(*drill.blockers, *_blockers(drill.record(phase))))


def _without_blockers(drill: Drill, records: Iterable[PhaseRecord]) -> Drill:
    gone = {text for record in records for text in _blockers(record)}
    return replace(
        drill, blockers=tuple(blocker for blocker in drill.blockers if blocker not in gone)
    )


def _blockers(record: PhaseRecord) -> list[str]:
    return [f"{record.phase}: {text}" for text in record.findings]


def accept_checks(drill: Drill, ids: Iterable[str]) -> Drill:
    """Return the drill with more checks whose failure does not stop it."""
    accepted = tuple(dict.fromkeys((*drill.options.accepted, *ids)))
    return replace(drill, options=replace(drill.options, accepted=accepted))


def repeat_from(drill: Drill, phase: DrillPhase) -> Drill:
    """Return the drill with a phase and all later ones waiting, because it no longer holds."""
    first = [record.phase for record in drill.phases].index(phase)
    phases = (
        record if at < first else PhaseRecord(record.phase)
        for at, record in enumerate(drill.phases)
    )
    return replace(_without_blockers(drill, drill.phases[first:]), phases=tuple(phases))


def has_fenced(drill: Drill) -> bool:
    """Return whether a drill has fenced its producers, which can then be repeated."""
    fence = DrillPhase.FENCE_PRODUCERS
    return any(
        record.phase is fence and record.status is PhaseStatus.DONE for record in drill.phases
    )


def explain_no_repeat(drill: Drill, phase: DrillPhase) -> str:
    """Return why a drill cannot be repeated from a phase on; "" if it can."""
    if phase not in [record.phase for record in drill.phases]:
        return f"drill {drill.id} ({drill.kind}) has no phase {phase}"
    if not can_go_back(drill):
        return f"drill {drill.id} has opened the target"
    return ""


def changes_to_restore(drill: Drill) -> tuple[Change, ...]:
    """Return what an abort restores, the last change first."""
    open_ = (ChangeStatus.INTENDED, ChangeStatus.MADE)
    return tuple(change for change in reversed(drill.changes) if change.status in open_)


def put_change(drill: Drill, change: Change) -> Drill:
    """Return the drill with a change added, or in place of the one of its phase and kind."""
    same = [(c.phase, c.kind) == (change.phase, change.kind) for c in drill.changes]
    if not any(same):
        return replace(drill, changes=(*drill.changes, change))
    changes = (change if s else c for s, c in zip(same, drill.changes, strict=True))
    return replace(drill, changes=tuple(changes))


def find_change(drill: Drill, kind: ChangeKind) -> Change | None:
    """Return the change of a kind that was intended or made; None without one."""
    open_ = (ChangeStatus.INTENDED, ChangeStatus.MADE)
    changes = (c for c in drill.changes if c.kind is kind and c.status in open_)
    return next(changes, None)


def has_begun_tail(drill: Drill) -> bool:
    """Return whether a replay, export or discard of a tail was begun.

    A resume goes on with it without asking, and an abort does not take it back.
    """
    return find_change(drill, ChangeKind.TAIL) is not None


def find_change_of(
    drill: Drill, phase: DrillPhase | None, kind: ChangeKind, *, any_status: bool = False
) -> Change | None:
    """Return the change of a kind that a phase, or any (None), intended or made; None without one.

    With ``any_status`` also one that was undone.
    """
    open_ = (ChangeStatus.INTENDED, ChangeStatus.MADE)
    changes = (
        change
        for change in drill.changes
        if change.kind is kind
        and phase in (None, change.phase)
        and (any_status or change.status in open_)
    )
    return next(changes, None)


def is_acting(drill: Drill, now_ms: int) -> bool:
    """Return whether a process is assumed to act on the drill, by the time of its last record."""
    return bool(drill.session) and abs(now_ms - drill.beat_ms) <= SILENT_AFTER_MS


def turn_into_disaster(drill: Drill) -> Drill:
    """Turn a planned drill into a disaster drill; completed phases that still hold stay done.

    Phases that need the source are dropped. Offsets that were applied before the loss are planned
    again from the kept commits; rows that are already right do not change.
    """
    kept: dict[DrillPhase, PhaseRecord] = {
        record.phase: record
        for record in drill.phases
        if record.phase
        in (
            DrillPhase.FENCE_REPLICATOR,
            DrillPhase.MOVE_TOPICS,
            DrillPhase.OPEN_TARGET,
            DrillPhase.REDIRECT,
            DrillPhase.WATCH_CLIENTS,
        )
        and record.status in _OVER
    }
    order = phases_of(DrillKind.DISASTER, drill.topics, redirects=drill.redirects)
    phases = tuple(kept.get(phase, PhaseRecord(phase)) for phase in order)
    return replace(drill, kind=DrillKind.DISASTER, phases=phases)
