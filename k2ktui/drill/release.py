"""Let the forward pipeline of a failback start again."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

from k2ktui.drill.changes.failback import rewrite_drill, set_fences, settle_moves
from k2ktui.drill.changes.handler import read_change
from k2ktui.drill.changes.jobs import find_forward_job
from k2ktui.drill.deleted import find_deleted, pass_returned, settle_passed
from k2ktui.drill.forward import find_failover, find_moving_drills
from k2ktui.drill.session import Session
from k2ktui.drill.tail import read_bounds
from k2ktui.engine.drill.changes import (
    dump_host,
    dump_moves,
    dump_names,
    read_moves,
    read_released,
)
from k2ktui.engine.drill.checks import DrillPhase
from k2ktui.engine.drill.model import ChangeKind, ChangeStatus, Drill
from k2ktui.engine.drill.steps import find_change, find_change_of
from k2ktui.engine.drill.tail import PartitionEnd
from k2ktui.errors import K2kError, Refused
from k2ktui.jobs.local_jobs import this_host
from k2ktui.jobs.manager import start_job
from k2ktui.replication.copying.partition_reader import now_ms
from k2ktui.replication.ownership.topic_moves import release_topics
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
        change = session.intend_new(phase, ChangeKind.RELEASE, what, dump_names(ids))
    ids = read_change(session.drill, change, read_released)
    set_fences(session, ids, ChangeStatus.UNDONE)
    if change.status is not ChangeStatus.MADE:
        session.settle(change, ChangeStatus.MADE)


def _release_moves(session: Session, phase: DrillPhase) -> None:
    """Let the forward pipeline copy the topics again; an earlier phase may have done it."""
    forward = session.forward
    change = find_change(session.drill, ChangeKind.RELEASED_TOPICS)
    if change is None:
        moves = [move for move in forward.read_moves().all if move.topic in forward.topics]
        if not moves:
            return
        what = f"let {forward.name} copy {counted(len(moves), 'topic')} again"
        change = session.intend_new(phase, ChangeKind.RELEASED_TOPICS, what, dump_moves(moves))
    wanted = read_change(session.drill, change, read_moves)
    moved = forward.read_moves()
    if left := [move.topic for move in wanted if move.topic in moved]:
        release_topics(forward.config, forward.target, left)
    settle_moves(session, {move.drill for move in wanted}, forward.read_moves())
    if change.status is not ChangeStatus.MADE:
        session.settle(change, ChangeStatus.MADE)


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
        rewrite_drill(session, failover, "led back", lambda drill: replace(drill, returned=ends))


def start_forward(session: Session, phase: DrillPhase) -> str:
    """Start the forward pipeline's job if it ran on this host; return what was done, or what to do.

    A pipeline that ran elsewhere, or that is no job, is started by the operator.
    """
    forward = session.forward
    by_hand = f"start {forward.name} where it runs: k2ktui start -f {forward.file}"
    job = find_forward_job(session)
    if job is None:
        return f"{forward.name} runs" if session.drill.topics and _is_alive(session) else by_hand
    change = find_change_of(session.drill, phase, ChangeKind.STARTED_JOB)
    if job.alive:
        if change is not None and change.status is ChangeStatus.INTENDED:
            session.settle(change, ChangeStatus.MADE)  # by an earlier process, which was ended then
        return f"{forward.name} runs on this host"
    if change is None:
        what = f"start the job {safe_text(job.place.id)} on {safe_text(this_host())}"
        change = session.intend_new(phase, ChangeKind.STARTED_JOB, what, dump_host(this_host()))
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
    with closing(StateStore(session.forward.config, session.forward.target)) as store:
        return bool(store.read().alive(now_ms()))


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
