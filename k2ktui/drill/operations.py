"""Operations on drills, one call each: start, resume, abort, list, read, release.

Commands and screens call these. Each call opens its own connections and closes them before it
returns.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from time import time

from k2ktui.config.model import PipelineConfig
from k2ktui.drill.changes.handlers import restore
from k2ktui.drill.hooks import (
    list_hooks,
    list_kept_hooks,
    require_safe_files,
    take_hooks,
    take_hooks_to_undo,
    undo_hook,
)
from k2ktui.drill.kept_fences import list_kept_fences
from k2ktui.drill.operator import agree_question, step_question
from k2ktui.drill.ownership import (
    Actor,
    Paths,
    is_owned,
    new_token,
    own_drill,
    was_begun_here,
)
from k2ktui.drill.previews import preview_abort, preview_resume
from k2ktui.drill.release import find_failovers
from k2ktui.drill.report import verify_report
from k2ktui.drill.runner import run_drill
from k2ktui.drill.session import Session, finish_drill
from k2ktui.drill.signing import end_drill, prepare_signing, require_signing
from k2ktui.drill.store import DrillStore
from k2ktui.drill.topics import DrillTopics, read_topics, require_drillable
from k2ktui.engine.access import require
from k2ktui.engine.drill.changes import describe_undo
from k2ktui.engine.drill.checks import DrillKind, DrillPhase
from k2ktui.engine.drill.hook_steps import hooks_to_undo, repeat_hooks, steps_back
from k2ktui.engine.drill.hooks import HookRecord, HookRole
from k2ktui.engine.drill.model import (
    AS_BEFORE,
    ChangeKind,
    ChangeStatus,
    Drill,
    DrillOptions,
    DrillStatus,
    Fence,
    PhaseStatus,
    ResumeOptions,
    new_phases,
)
from k2ktui.engine.drill.redirects import explain_refusal
from k2ktui.engine.drill.rehearsals import Rehearsal
from k2ktui.engine.drill.site_mark import SiteMark, merge_marks
from k2ktui.engine.drill.steps import (
    accept_checks,
    can_go_back,
    changes_to_restore,
    drill_command,
    explain_no_repeat,
    find_change,
    put_change,
    repeat_from,
    turn_into_disaster,
)
from k2ktui.engine.drill.topics import TOPICS_STEP, UNCHANGED
from k2ktui.engine.java_patterns import compile_pattern
from k2ktui.engine.moves.journal import new_id
from k2ktui.engine.name_pattern import NamePattern, require_match
from k2ktui.engine.records.moved_topic import MovedTopic
from k2ktui.errors import (
    ConfigError,
    ConnectionFailed,
    Declined,
    K2kError,
    PartlyApplied,
    Refused,
    TimedOut,
)
from k2ktui.kafka.clients import Cluster, source_cluster, target_cluster
from k2ktui.kafka.properties.translation import wire
from k2ktui.replication.copying.failpoints import failpoint
from k2ktui.replication.ownership.pipeline import make_ownership, read_recorded_pair
from k2ktui.replication.ownership.topic_moves import read_moved, release_topics
from k2ktui.sync.drill.guard import read_fence
from k2ktui.sync.flow import Flow
from k2ktui.sync.moves.plans import whoami
from k2ktui.text import list_names, safe_message, safe_text
from k2ktui.version import __version__

log = logging.getLogger(__name__)

_UNCHANGED = "Nothing was changed."
_READ_S = 30.0
_NAMED, _LISTED = 3, 20


def start_drill(actor: Actor, kind: DrillKind, options: DrillOptions) -> Drill:
    """Begin a drill and run it as far as it gets; return it as it then is.

    Args:
        actor: who acts.
        kind: kind of the drill.
        options: what the operator chose.

    Raises:
        Refused: not allowed, another drill is open, or the operator did not confirm a phase.
        TimedOut: a condition did not hold in time; the drill is open.
        K2kError: a phase could not do its work; the drill is open.
    """
    with begun_drill(actor, kind, options) as session:
        run_drill(session)
    return session.drill


@contextmanager
def begun_drill(
    actor: Actor,
    kind: DrillKind,
    options: DrillOptions,
    *,
    drill_id: str = "",
    site: SiteMark | None = None,
) -> Iterator[Session]:
    """Begin a drill, and own it in the context; other arguments and errors as there.

    Args:
        actor, kind, options: as for :func:`start_drill`.
        drill_id: its id; by default a new one.
        site: the site drill that it belongs to.
    """
    require(actor.may, "a drill")
    require_drillable(actor.flow)
    flow, files, config = actor.flow, actor.files, actor.flow.config
    options = require_redirect(config, kind, options)
    signing = require_signing(actor, kind)
    if kind is not DrillKind.REHEARSE:
        hooks = config.drill.list_hooks(kind, options.topics)
        require_safe_files(hooks, files, "No drill was begun.")
    topics = read_topics(flow, kind, options)
    target = target_cluster(config)
    redirects = config.drill.redirect is not None and not (options.topics or options.groups)
    now = int(time() * 1000)
    drill = Drill(
        id=drill_id or new_id(now, secrets.token_hex(2)),
        kind=kind,
        pipeline=config.name,
        source_cluster=_source_id(flow, target),
        target_cluster=target.cluster_id(),
        version=__version__,
        started_ms=now,
        started_by=whoami(),
        options=options,
        files=tuple(files),
        phases=new_phases(kind, topics.names, redirects=redirects),
        site=site,
        objectives=config.drill.objectives.values or None,
        topics=topics.names,
    )
    store = DrillStore(config, target)
    paths = Paths(options.export_to, options.forward)
    session = actor.connect(drill, store, paths, signing)
    try:
        _refuse_second(session)
        if kind is DrillKind.FAILBACK:
            if drill.topics:
                session.forward.require_moved(drill.topics)
            find_failovers(session)
        _confirm_topics(session, topics)
        text = f"begun: {kind}"
        if topics.choice is not None:
            text += f" of {topics.choice.describe()}"
        session.open(new_token(), text, lambda drill: _begin(session, drill))
        session.notes = topics.lines[1:]
        for line in topics.lines:
            session.write(line, phase=TOPICS_STEP)
        list_hooks(session)
        yield session
    finally:
        session.close()


def require_redirect(
    config: PipelineConfig, kind: DrillKind, options: DrillOptions
) -> DrillOptions:
    """Return the options with which a drill cuts off and redirects as the file says.

    Raises:
        Refused: the file and the options do not fit.
    """
    hooks = config.drill.list_hooks(kind)
    roles = [str(hook.role) for hook in hooks if hook.role is not HookRole.HOOK]
    some = options.topics or options.groups
    why, hint = explain_refusal(kind, options.fence, some, roles)
    if why:
        raise Refused(why, unchanged="No drill was begun.", hint=hint)
    if kind is DrillKind.DISASTER and HookRole.CUT_OFF in roles and not some:
        return replace(options, fence=Fence.CUT_OFF)
    return options


def _confirm_topics(session: Session, topics: DrillTopics) -> None:
    """Show which topics a drill moves, and let the operator confirm them before it begins.

    Raises:
        Refused: they were not confirmed.
    """
    if topics.choice is None or session.drill.kind is DrillKind.REHEARSE:
        return
    question = step_question(session.drill, TOPICS_STEP, "\n".join(topics.lines))
    if not session.operator.ask(question):
        raise Declined("the topics were not confirmed", unchanged=UNCHANGED)


def _source_id(flow: Flow, target: Cluster) -> str:
    """Return the id of the cluster that was copied, "" if it is not known.

    In a disaster, another cluster may answer under its address.
    """
    if flow.pipeline is not None:
        recorded = read_recorded_pair(flow.config, target, _READ_S).source
        if recorded:
            return recorded
    try:
        return source_cluster(flow.config).cluster_id()
    except (ConnectionFailed, TimedOut):
        return ""


def _begin(session: Session, drill: Drill) -> Drill:
    """Let at most one drill that moves groups begin at a time; two rehearsals do no harm."""
    if drill.kind is not DrillKind.REHEARSE:
        session.store.begin(drill, lambda: _refuse_open(session, session.store.read_all()))
    return drill


def _refuse_second(session: Session) -> None:
    """Refuse to begin beside an open drill; clean up after rehearsals that were killed."""
    drills = session.store.read_all()
    for other in drills:
        if not other.is_over and other.kind is DrillKind.REHEARSE:
            _end_rehearsal(session, other)
    _refuse_open(session, drills)


def _end_rehearsal(session: Session, other: Drill) -> None:
    """Delete the shadow groups that a killed rehearsal left; ask first if it is another host's."""
    if is_owned(session.store, other):
        return
    name, owner = safe_text(other.id), safe_text(other.owner)
    lines = (
        f"{owner} has begun the rehearsal {name}, and it has not ended; nothing was heard of it.",
        "Aborting it deletes the shadow groups that it has left on the target.",
    )
    if was_begun_here(other) or session.operator.ask(agree_question(other, lines)):
        with suppress(Refused):  # another process acts on it
            actor = Actor(session.flow, session.files, session.may, session.operator)
            abort_drill(actor, other.id, take_over=None)


def _refuse_open(session: Session, drills: Sequence[Drill]) -> None:
    """Refuse to begin a drill that moves groups beside another one."""
    if session.drill.kind is DrillKind.REHEARSE:
        return
    for other in drills:
        if not other.is_over and other.kind is not DrillKind.REHEARSE:
            raise Refused(
                f"drill {safe_text(other.id)} ({other.kind}) of this pipeline is open, begun by "
                f"{safe_text(other.started_by)}",
                unchanged="No drill was begun.",
                hint=f"Resume it with {drill_command(other, 'resume')}, or abort it.",
            )


def resume_drill(actor: Actor, drill_id: str, how: ResumeOptions = AS_BEFORE) -> Drill:
    """Continue a drill on this host; return it as it then is.

    Args:
        actor: who acts.
        drill_id: the drill.
        how: what has changed since it was begun.

    Raises:
        ConfigError: there is no such drill, or an option is not for its kind.
        Refused: it is over, another operator acts, it cannot be repeated from the fence on, or as
            for :func:`start_drill`.
        TimedOut, K2kError: as for :func:`start_drill`.
    """
    with resumed_drill(actor, drill_id, how) as session:
        run_drill(session)
    return session.drill


@contextmanager
def resumed_drill(actor: Actor, drill_id: str, how: ResumeOptions) -> Iterator[Session]:
    """Take a drill up again, and own it in the context; arguments and errors as there."""
    require(actor.may, "resuming a drill")
    paths = Paths(how.chosen.get("export_to", ""), how.chosen.get("forward", ""), exports=True)
    with own_drill(
        actor,
        drill_id,
        "resumed",
        take_over=how.take_over,
        preview=preview_resume,
        paths=paths,
        signing=prepare_signing,
    ) as session:
        _refuse_resume(session.drill, how)
        take_hooks(session)
        if how.chosen:
            options = replace(session.drill.options, **how.chosen)
            session.change_drill(lambda drill: replace(drill, options=options))
        if how.as_disaster and session.drill.kind.is_switchover:
            session.change_drill(lambda drill: repeat_hooks(turn_into_disaster(drill)))
            session.write("the source is lost: continued as a disaster drill", phase="owner")
        if how.from_fence:
            fence = DrillPhase.FENCE_PRODUCERS
            session.change_drill(lambda drill: repeat_hooks(repeat_from(drill, fence)))
            session.write("begun again with fencing the producers", phase="owner")
        if how.accept:
            session.change_drill(lambda drill: accept_checks(drill, how.accept))
            session.write(f"accepted findings of {', '.join(how.accept)}", phase="owner")
        yield session


def _refuse_resume(drill: Drill, how: ResumeOptions) -> None:
    """Refuse to resume a drill that is being aborted, or with options that do not fit it."""
    name = safe_text(drill.id)
    if drill.status is DrillStatus.ABORTING:
        raise Refused(
            f"drill {name} is being aborted",
            unchanged=_UNCHANGED,
            hint=f"Complete it: {drill_command(drill, 'abort')}",
        )
    if how.chosen and drill.kind is not DrillKind.FAILBACK:
        raise ConfigError(
            f"drill {name} is no failback: there is nothing to replay or export",
            unchanged=_UNCHANGED,
            hint="Leave out --tail, --export-to and --forward.",
        )
    if how.as_disaster and drill.kind is DrillKind.REHEARSE:
        raise ConfigError(
            f"drill {name} is a rehearsal: it moves no group",
            unchanged=_UNCHANGED,
            hint="Begin a drill without the source: k2ktui drill disaster -f FILE",
        )
    if how.from_fence and (why := explain_no_repeat(drill, DrillPhase.FENCE_PRODUCERS)):
        raise Refused(
            f"the producers cannot be fenced again: {safe_message(why)}",
            unchanged=_UNCHANGED,
            hint="Leave out --from-fence.",
        )


def abort_drill(
    actor: Actor, drill_id: str, *, take_over: bool | None = False, forward: str = ""
) -> Drill:
    """Restore what a drill has changed, the last change first, and end it.

    It can be repeated until everything is restored. Other arguments as for :func:`resume_drill`.

    Args:
        actor, drill_id: as there.
        take_over: as there; None: it is not taken over, and nobody is asked.
        forward: the forward pipeline's file of a failback; empty for the one that the reverse file
            names.

    Raises:
        ConfigError: there is no such drill.
        Refused: it is over or past the point of no return, or another operator acts.
        PartlyApplied: something could not be restored; the drill stays ``aborting``.
    """
    require(actor.may, "aborting a drill")
    with own_drill(
        actor,
        drill_id,
        "abort begun",
        take_over=take_over,
        preview=preview_abort,
        paths=Paths(forward=forward),
        signing=prepare_signing,
    ) as session:
        if not can_go_back(session.drill):
            raise _past_return(session.drill)
        take_hooks_to_undo(session)
        session.change_drill(lambda drill: replace(drill, status=DrillStatus.ABORTING))
        session.write("abort begun", phase="abort")
        problems = _restore_all(session)
        if changes_to_restore(session.drill) or hooks_to_undo(session.drill):
            raise PartlyApplied(
                "not everything was restored:\n    " + "\n    ".join(problems),
                unchanged="The rest was restored.",
                hint=f"Repeat it: {drill_command(session.drill, 'abort')}",
            )
        problems += list_kept_hooks(session)
        if _was_stopped_by_hand(session):
            problems.append("MirrorMaker 2 was stopped by hand: start it again")
        if problems:
            session.change_drill(
                lambda drill: replace(drill, blockers=(*drill.blockers, *problems))
            )
        end_drill(session, DrillStatus.ABORTED)
    return session.drill


def _restore_all(session: Session) -> list[str]:
    """Restore changes and undo hooks, the last one first; return what was not restored."""
    problems: list[str] = []
    for step in steps_back(session.drill):
        if isinstance(step, HookRecord):
            problems += undo_hook(session, step)
            continue
        failpoint(f"drill-restore-{step.kind}")
        try:
            left_as_is = restore(session, step)
        except K2kError as error:
            log.warning("not restored: %s: %s", step.what, error.message)
            log.debug("the cause", exc_info=error)
            problems.append(f"{step.what}: {error.message}")
            continue
        problems += left_as_is
        session.settle(step, ChangeStatus.KEPT if left_as_is else ChangeStatus.UNDONE)
    return problems


def mark_aborting(actor: Actor, drill_id: str, site: SiteMark, *, take_over: bool) -> Drill:
    """Record that a member of a site drill is to be aborted; restore nothing yet.

    The fence of the source is taken away when no member needs it: all are marked first. Arguments
    and errors as for :func:`abort_drill`; ``site`` says who was left out.
    """
    require(actor.may, "aborting a drill")
    with own_drill(
        actor, drill_id, "abort begun", take_over=take_over, preview=preview_abort
    ) as session:
        if not can_go_back(session.drill):
            raise _past_return(session.drill)
        session.change_drill(
            lambda drill: replace(
                drill, status=DrillStatus.ABORTING, site=merge_marks([drill.site or site, site])
            )
        )
        session.write("abort of the site drill begun", phase="abort")
    return session.drill


def _past_return(drill: Drill) -> Refused:
    left = "; ".join(
        f"{change.what} (to undo it: {describe_undo(drill, change.kind)})"
        for change in changes_to_restore(drill)
    )
    return Refused(
        f"drill {safe_text(drill.id)} cannot be aborted: the target was opened, and "
        "records may exist only there",
        unchanged=_UNCHANGED,
        hint=f"Resume it, or undo by hand what is left of it: {left or 'nothing'}",
    )


def _was_stopped_by_hand(session: Session) -> bool:
    fenced = session.drill.record(DrillPhase.FENCE_REPLICATOR)
    return session.flow.is_mirror and fenced.status is PhaseStatus.DONE


def release_replicator(actor: Actor, drill_id: str) -> Drill | None:
    """Allow starts of a pipeline that a drill has fenced, after the target was opened.

    Returns:
        The drill; None if its record is lost, and only the pipeline's run record named it.

    Raises:
        ConfigError: there is no such drill.
        Refused: not allowed, another operator acts, or the drill fences nothing.
    """
    require(actor.may, "releasing a pipeline")
    if _release_run_record(actor.flow, drill_id):
        return None
    preview = [f"starts of {safe_text(actor.flow.config.name)}: refused → allowed"]
    with _releasing(actor, drill_id, preview) as session:
        change = find_change(session.drill, ChangeKind.EPOCHS)
        if change is None:
            raise Refused(
                f"drill {safe_text(drill_id)} does not keep the pipeline from starting",
                unchanged=_UNCHANGED,
            )
        session.change_drill(
            lambda drill: put_change(drill, replace(change, status=ChangeStatus.UNDONE))
        )
        for line in list_kept_fences(actor.flow, [session.drill]):
            session.write(line.strip(), phase="release")
        if session.drill.is_over:
            # The report changes, so its hash is written again.
            finish_drill(session, session.drill.status)
        else:
            session.write("starts of the pipeline are allowed again", phase="release")
    return session.drill


def find_released(flow: Flow, pattern: str) -> list[MovedTopic]:
    """Return the moved topics of a pipeline that a pattern matches.

    Raises:
        ConfigError: no moved topic matches, or no pipeline of k2ktui copies.
        Refused: a topic that is copied into the same one would stay moved.
        ConnectionFailed, TimedOut: the target does not answer.
    """
    if flow.pipeline is None:
        raise ConfigError(
            "only topics of a pipeline of k2ktui can be moved, and released",
            unchanged=_UNCHANGED,
        )
    moved = read_moved(flow.config, target_cluster(flow.config))
    if not moved:
        raise ConfigError(
            f"no topic of pipeline {safe_text(flow.config.name)} is moved", unchanged=_UNCHANGED
        )
    chosen = NamePattern("--topics", pattern, compile_pattern(pattern))
    require_match(chosen, [move.topic for move in moved.all], "moved topic")
    released = [move for move in moved.all if chosen(move.topic)]
    into = {move.target for move in released}
    left = [m.topic for m in moved.all if m.target in into and m not in released]
    if left:
        raise Refused(
            f"{list_names(left, _NAMED)} would stay moved, and is copied into the same topic",
            unchanged=_UNCHANGED,
            hint="Choose all topics that are copied into one topic, or none of them.",
        )
    return released


def preview_release(flow: Flow, moves: Collection[MovedTopic]) -> list[str]:
    """Return what the release of topics leaves as it is, safe to print; errors as list_drills."""
    ids = {move.drill for move in moves}
    drills = {drill.id: drill for drill in list_drills(flow) if drill.id in ids}
    unrecorded = {move.topic for move in moves if move.drill not in drills}
    return list_kept_fences(flow, drills.values(), {move.topic for move in moves}, unrecorded)


def release_moved(actor: Actor, moves: Collection[MovedTopic]) -> list[str]:
    """Let a pipeline copy topics again that drills have moved; return the drills' ids.

    The journals of these drills have it, as far as their records are kept.

    Args:
        actor: who acts.
        moves: what :func:`find_released` has returned, as it was shown and confirmed.

    Raises:
        Refused: not allowed, a drill that has moved them is open, or another operator acts on it.
        K2kError: as for ``release_topics``.
    """
    require(actor.may, "releasing topics")
    flow = actor.flow
    names = sorted(move.topic for move in moves)
    ids = sorted({move.drill for move in moves})
    known = {drill.id: drill for drill in list_drills(flow) if drill.id in ids}
    for drill in known.values():
        if not drill.is_over:
            raise Refused(
                f"drill {safe_text(drill.id)}, which moves some of these topics, has not ended",
                unchanged=_UNCHANGED,
                hint=f"Complete it: {drill_command(drill, 'resume')}; or take it back: "
                f"{drill_command(drill, 'abort')}",
            )
    with ExitStack() as stack:
        sessions = [
            stack.enter_context(_releasing(actor, drill_id, [])) for drill_id in sorted(known)
        ]
        config, target = flow.config, target_cluster(flow.config)
        for session in sessions:
            session.write(
                f"about to let {list_names(names, _LISTED)} be copied again", phase="release"
            )
        failpoint("drill-release-topics")
        release_topics(config, target, names)
        in_force = {move.drill for move in read_moved(config, target).all}
        kept = list_kept_fences(flow, known.values(), names)
        for session in sessions:
            change = find_change(session.drill, ChangeKind.MOVED_TOPICS)
            if change is not None and session.drill.id not in in_force:
                undone = replace(change, status=ChangeStatus.UNDONE)
                session.change_drill(partial(put_change, change=undone))
            session.write(f"{list_names(names, _LISTED)}: copied again", phase="release")
            for line in kept:
                session.write(line.strip(), phase="release")
            finish_drill(session, session.drill.status)
    return ids


def _releasing(
    actor: Actor, drill_id: str, preview: Sequence[str]
) -> AbstractContextManager[Session]:
    """Own a drill, also one that is over, while what it keeps from being copied is released.

    It is never taken over from a process that acts on it. Arguments and errors as for
    ``own_drill``.
    """
    return own_drill(
        actor, drill_id, "release begun", take_over=None, preview=lambda _: preview, also_over=True
    )


def _release_run_record(flow: Flow, drill_id: str) -> bool:
    """Let a pipeline start again whose drill's record is lost; return whether it is so."""
    config = flow.pipeline
    if config is None:
        return False
    target = target_cluster(config)
    fence = read_fence(config, target)
    topic = target.find(config.coordination.commit.topic)
    if topic is None or fence is None or fence.drill is not None or fence.id != drill_id:
        return False
    options = wire(config.target, "producer")
    ownership = make_ownership(config, target, options, topic.partitions, fenced_by="")
    try:
        ownership.take_over(0)
    finally:
        ownership.close()
    return True


def list_drills(flow: Flow) -> list[Drill]:
    """Return the drills of a pipeline, the newest first; errors as for ``StateStore.read``."""
    with _reading(flow) as store:
        return store.read_all()


def read_drill(flow: Flow, drill_id: str) -> Drill:
    """Return one drill; raises ConfigError if there is none, and as :func:`list_drills`."""
    with _reading(flow) as store:
        return store.read(drill_id)


def read_report(flow: Flow, drill_id: str) -> tuple[Drill, tuple[Rehearsal, ...]]:
    """Return a drill and the rehearsals, the oldest first; errors as for :func:`read_drill`."""
    with _reading(flow) as store:
        return store.read(drill_id), store.read_rehearsals()


def list_all(flow: Flow) -> tuple[list[Drill], tuple[Rehearsal, ...]]:
    """Return the drills, the newest first, and the rehearsals, the oldest first.

    Raises:
        K2kError: as for ``StateStore.read``.
    """
    with _reading(flow) as store:
        return store.read_all(), store.read_rehearsals()


def verify_drill(flow: Flow, drill_id: str) -> tuple[Drill, list[str]]:
    """Return a drill and what does not fit to its journal; errors as for :func:`read_drill`."""
    with _reading(flow) as store:
        drill = store.read(drill_id)
        return drill, verify_report(drill, store.read_digests(drill))


@contextmanager
def _reading(flow: Flow) -> Iterator[DrillStore]:
    store = DrillStore(flow.config, target_cluster(flow.config))
    try:
        yield store
    finally:
        store.close()
