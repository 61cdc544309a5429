"""Let the forward pipeline of a failback start again, or keep it from starting as before."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial

from k2ktui.drill.changes import read_change
from k2ktui.drill.deleted import find_deleted, pass_returned, settle_passed
from k2ktui.drill.forward import find_failover, find_moving_drills
from k2ktui.drill.operator import UnaskedOperator
from k2ktui.drill.session import Session, finish_drill
from k2ktui.drill.store import DrillStore
from k2ktui.drill.tail import read_bounds
from k2ktui.engine.drill import changes as drill_changes
from k2ktui.engine.drill.checks import DrillPhase
from k2ktui.engine.drill.model import Change, ChangeKind, ChangeStatus, Drill
from k2ktui.engine.drill.steps import describe_undo, find_change, find_change_of, put_change
from k2ktui.engine.drill.tail import PartitionEnd
from k2ktui.engine.records.moved_topic import MovedTopics
from k2ktui.errors import K2kError, Refused
from k2ktui.jobs.local_jobs import Job, find_job, this_host
from k2ktui.jobs.manager import StopMode, start_job, stop_job
from k2ktui.kafka.properties.translation import wire
from k2ktui.replication.copying.partition_reader import now_ms
from k2ktui.replication.ownership.pipeline import make_ownership
from k2ktui.replication.ownership.topic_moves import move_topics, release_topics
from k2ktui.sync.store import StateStore
from k2ktui.text import counted, list_names, safe_message, safe_text

_NAMED = 3


def find_failovers(session: Session) -> list[Drill]:
    """Return the drill that moved the groups away; of some topics, all that moved them, if known.

    Raises:
        K2kError: as for ``find_failover`` and ``find_moving_drills``.
    """
    if session.flow.pipeline is None:
        raise Refused(
            "a failback needs pipelines of k2ktui in both directions: MirrorMaker 2 does not copy "
            "the records of a copy back, so its groups have no position there",
            unchanged="No drill was begun.",
            hint="Before the next failover, import the flow as a pipeline: k2ktui mm2 import.",
        )
    ids = session.source.cluster_id(), session.target.cluster_id()
    if session.drill.topics:
        return find_moving_drills(session.forward, ids)
    own = [drill for drill in session.store.read_all() if drill.id != session.drill.id]
    return [find_failover(session.forward, own, ids)]


def release_forward(session: Session, phase: DrillPhase) -> None:
    """Let the forward pipeline start again, if drills keep it from starting; record it.

    Over some topics, it runs, and may copy these again.
    """
    if session.drill.topics:
        _release_moves(session, phase)
        return
    change = find_change_of(session.drill, phase, ChangeKind.RELEASE)
    if change is None:
        ids = [drill.id for drill in session.forward.read_fencing()]
        if not ids:
            return
        what = f"let {session.forward.name} start again"
        before = drill_changes.dump_names(ids)
        change = _intend(session, phase, ChangeKind.RELEASE, what, before)
    ids = read_change(session.drill, change, drill_changes.read_released)
    _set_fences(session, ids, ChangeStatus.UNDONE)
    if change.status is not ChangeStatus.MADE:
        session.settle(change, ChangeStatus.MADE)


def _intend(
    session: Session, phase: DrillPhase, kind: ChangeKind, what: str, before: str
) -> Change:
    """Record a change of the forward pipeline that is about to be made, and return it."""
    change = Change(phase, kind, what, before, "", describe_undo(session.drill, kind))
    session.intend(change)
    return change


def _release_moves(session: Session, phase: DrillPhase) -> None:
    """Let the forward pipeline copy the topics again; an earlier phase may have done it."""
    forward = session.forward
    change = find_change(session.drill, ChangeKind.RELEASED_TOPICS)
    if change is None:
        moves = [move for move in forward.read_moves().all if move.topic in forward.topics]
        if not moves:
            return
        what = f"let {forward.name} copy {counted(len(moves), 'topic')} again"
        before = drill_changes.dump_moves(moves)
        change = _intend(session, phase, ChangeKind.RELEASED_TOPICS, what, before)
    wanted = read_change(session.drill, change, drill_changes.read_moves)
    moved = forward.read_moves()
    if left := [move.topic for move in wanted if move.topic in moved]:
        release_topics(forward.config, forward.target, left)
    _settle_moves(session, {move.drill for move in wanted}, forward.read_moves())
    if change.status is not ChangeStatus.MADE:
        session.settle(change, ChangeStatus.MADE)


def restore_released(session: Session, change: Change) -> list[str]:
    """Keep the forward pipeline from copying the topics again, as before the failback."""
    wanted = read_change(session.drill, change, drill_changes.read_moves)
    forward = session.forward
    copied = set(forward.topics)
    move_topics(forward.config, forward.target, [m for m in wanted if m.topic in copied])
    _settle_moves(session, {move.drill for move in wanted}, forward.read_moves())
    return []


def _settle_moves(session: Session, drills: Collection[str], moved: MovedTopics) -> None:
    """Write in drills whether any topic that they have moved still is."""
    in_force = {move.drill for move in moved.all}
    for drill in session.forward.read_drills():
        change = find_change_of(drill, None, ChangeKind.MOVED_TOPICS, any_status=True)
        if drill.id not in drills or change is None or not drill.is_over:
            continue
        status = ChangeStatus.MADE if drill.id in in_force else ChangeStatus.UNDONE
        if change.status is not status:
            text = "moved again" if status is ChangeStatus.MADE else "led back"
            _rewrite(
                session, drill, text, partial(put_change, change=replace(change, status=status))
            )


def restore_fences(session: Session, change: Change) -> list[str]:
    """Keep the forward pipeline from starting again, and fence what runs."""
    ids = read_change(session.drill, change, drill_changes.read_released)
    _set_fences(session, ids, ChangeStatus.MADE)
    config, target = session.forward.config, session.forward.target
    topic = target.find(config.coordination.commit.topic)
    if topic is not None:
        options = wire(config.target, "producer")
        ownership = make_ownership(config, target, options, topic.partitions, fenced_by=max(ids))
        try:
            ownership.take_over(0)
        finally:
            ownership.close()
    return []


def _set_fences(session: Session, ids: Collection[str], status: ChangeStatus) -> None:
    """Write in the forward pipeline's drills whether they keep it from starting."""
    other = ChangeStatus.MADE if status is ChangeStatus.UNDONE else ChangeStatus.UNDONE
    text = "let start" if status is ChangeStatus.UNDONE else "keep from starting"
    for drill in session.forward.read_drills():
        change = find_change_of(drill, None, ChangeKind.EPOCHS, any_status=True)
        if drill.id not in ids or change is None or change.status is status:
            continue
        if not drill.is_over:
            # Its record would be written as by its owner, whoever has written it.
            raise Refused(
                f"drill {safe_text(drill.id)} of {session.forward.name} is open",
                unchanged="The drill stays where it is.",
                hint=f"Resume or abort it first: k2ktui drill show {safe_text(drill.id)} -f "
                f"{session.forward.file}",
            )
        if change.status not in (other, ChangeStatus.INTENDED):
            continue
        fenced = partial(put_change, change=replace(change, status=status))
        _rewrite(session, drill, text, fenced)


def _rewrite(session: Session, drill: Drill, text: str, change: Callable[[Drill], Drill]) -> None:
    """Change a drill of the forward pipeline that is over, and the hash of its report."""
    forward = session.forward
    store = DrillStore(forward.config, forward.target)
    owner = Session(forward.flow, drill, store, UnaskedOperator(), session.may, forward.files)
    try:
        owner.open(session.drill.session, f"{text} by failback {session.drill.id}")
        owner.change_drill(change)
        finish_drill(owner, owner.drill.status)
    finally:
        owner.close()


def record_return(session: Session) -> None:
    """Write in the failover's drill that its source has everything again, and up to where.

    It is read if the source is lost another time: which records of the target it had is then
    known, although the reverse pipeline's mappings are lost with it.
    """
    (failover,) = find_failovers(session)
    ends = tuple(
        PartitionEnd(bounds.at.topic, bounds.at.partition, bounds.high)
        for bounds in read_bounds(session.forward)
    )
    if not failover.returned:
        _rewrite(session, failover, "led back", lambda drill: replace(drill, returned=ends))


def start_forward(session: Session, phase: DrillPhase) -> str:
    """Start the forward pipeline's job if it ran on this host; return what was done, or what to do.

    A pipeline that ran elsewhere, or that is no job, is started by the operator.
    """
    forward = session.forward
    by_hand = f"start {forward.name} where it runs: k2ktui start -f {forward.file}"
    job = _find_job(session)
    if job is None:
        return f"{forward.name} runs" if session.drill.topics and _is_alive(session) else by_hand
    change = find_change_of(session.drill, phase, ChangeKind.STARTED_JOB)
    if job.alive:
        if change is not None and change.status is ChangeStatus.INTENDED:
            session.settle(change, ChangeStatus.MADE)  # by an earlier process, which was ended then
        return f"{forward.name} runs on this host"
    if change is None:
        what = f"start the job {safe_text(job.place.id)} on {safe_text(this_host())}"
        before = drill_changes.dump_host(this_host())
        change = _intend(session, phase, ChangeKind.STARTED_JOB, what, before)
    record = job.record
    try:
        start_job(
            forward.config,
            record.files,
            session.may,
            telemetry=record.telemetry,
            cwd=record.cwd,
        )
    except (K2kError, OSError) as error:
        why = error.message if isinstance(error, K2kError) else error
        return f"its job could not be started ({safe_message(why)}): {by_hand}"
    session.settle(change, ChangeStatus.MADE)
    return f"the job of {forward.name} is started on this host"


def _is_alive(session: Session) -> bool:
    """Return whether the forward pipeline runs, on any host, as far as the state topic says it."""
    store = StateStore(session.forward.config, session.forward.target)
    try:
        return bool(store.read().alive(now_ms()))
    finally:
        store.close()


def restore_started_job(session: Session, change: Change) -> list[str]:
    """Stop the job that the drill started; return why not."""
    if read_change(session.drill, change, drill_changes.read_host) != this_host():
        return [f"{change.what}: stop it there with k2ktui jobs stop"]
    job = _find_job(session)
    if job is not None and job.alive and stop_job(job, session.may).alive:
        stop_job(job, session.may, StopMode.KILL)
    return []


def _find_job(session: Session) -> Job | None:
    forward = session.forward
    return find_job(forward.files, lambda: forward.config)


def run_release(session: Session) -> str:
    """Let the forward pipeline copy on after the failback; return what the operator should know."""
    if not session.drill.topics:
        record_return(session)
    told = _pass_deleted(session)
    release_forward(session, DrillPhase.REVERSE)
    try:
        return told + start_forward(session, DrillPhase.REVERSE)
    except Refused as error:
        return f"{told}{error.message}. {error.hint}"


def _pass_deleted(session: Session) -> str:
    """Let the forward pipeline begin after what retention has deleted since source-back."""
    phase = DrillPhase.REVERSE
    settle_passed(session, phase)
    deleted = find_deleted(session)
    told = ""
    if deleted.returned:
        try:
            told = pass_returned(session, phase, deleted.returned, asks=False) + "; "
        except Refused as error:
            told = f"{error.message}: it stops at records that are deleted; "
    if deleted.unknown:
        names = list_names([bounds.at for bounds in deleted.unknown], _NAMED)
        told += f"{names}: retention has deleted records that may never have been copied; "
    return told
