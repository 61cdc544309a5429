"""Preview of the changes that resuming or aborting a drill takes from its record.

It is shown to the person who continues a drill whose author is not proven. So it names every object
with its current state on the clusters, and of the record shows only what is acted on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from k2ktui.drill.changes import UnusableChange, read_change
from k2ktui.drill.phases.moves import find_undone_rows
from k2ktui.drill.session import Session
from k2ktui.engine.drill import changes as drill_changes
from k2ktui.engine.drill.changes import Entity
from k2ktui.engine.drill.checks import DrillKind, DrillPhase
from k2ktui.engine.drill.hook_steps import hooks_to_undo
from k2ktui.engine.drill.hooks import HookStatus, describe_hook_undo
from k2ktui.engine.drill.model import Change, ChangeKind, PhaseStatus
from k2ktui.engine.drill.steps import changes_to_restore, find_change_of, next_phase
from k2ktui.engine.drill.tail import TailChoice
from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.errors import K2kError
from k2ktui.jobs.local_jobs import this_host
from k2ktui.kafka.admin.acls import denied_topics
from k2ktui.kafka.admin.quotas import Quota, producer_quotas, restored
from k2ktui.replication.ownership.topic_moves import read_moved
from k2ktui.text import counted, list_names, safe_message, safe_text

_LISTED = 20
_OVER = (PhaseStatus.DONE, PhaseStatus.SKIPPED)
_SOURCE_FENCES = frozenset({ChangeKind.ACLS, ChangeKind.QUOTAS})


def preview_abort(session: Session) -> list[str]:
    """Return what an abort would restore, the last change first; empty for a rehearsal.

    That one deletes groups whose names begin with its own, and restores nothing else.
    """
    if session.drill.kind is DrillKind.REHEARSE:
        return []
    changes = changes_to_restore(session.drill)
    lines = [line for change in changes for line in _preview(session, change, _RESTORED)]
    lines += [safe_message(describe_hook_undo(hook)) for hook in hooks_to_undo(session.drill)]
    return lines or ["nothing that is on the clusters now" for _ in changes[:1]]


def preview_resume(session: Session) -> list[str]:
    """Return what resuming would take from the record; each phase still asks to be confirmed."""
    drill = session.drill
    over = ", ".join(str(record.phase) for record in drill.phases if record.status in _OVER)
    following = next_phase(drill)
    lines = [f"phases that are not repeated, because the record says that they are over: {over}"]
    lines = lines if over else []
    if following is not None:
        lines.append(f"it continues with {following}")
    options = drill.options
    if drill.topics:
        lines.append(f"it is over {counted(len(drill.topics), 'topic')}: {_list(drill.topics)}")
    if options.groups:
        lines.append(f"groups that match {safe_text(options.groups)}")
    if options.accepted:
        ids = ", ".join(safe_text(check) for check in options.accepted)
        lines.append(f"failures of these checks are accepted: {ids}")
    lines += [
        f"not run again, because the record says that it is done: {safe_message(hook.name)}"
        for hook in drill.hooks
        if hook.status is HookStatus.DONE
    ]
    if drill.record(DrillPhase.FENCE_PRODUCERS).status not in _OVER:
        for change in drill.changes:
            if change.kind in _SOURCE_FENCES and change in changes_to_restore(drill):
                lines += _preview(session, change, _REPEATED)
    if drill.kind is DrillKind.FAILBACK:
        lines += _preview_failback(session)
    return lines


def _list(topics: Sequence[str]) -> str:
    return list_names(topics, _LISTED)


def _preview_failback(session: Session) -> list[str]:
    lines: list[str] = []
    for change in changes_to_restore(session.drill):
        if change.kind in (ChangeKind.RELEASE, ChangeKind.RELEASED_TOPICS):
            lines += _preview(session, change, _REPEATED)
    if session.drill.record(DrillPhase.TAIL).status in _OVER:
        return lines
    begun = find_change_of(session.drill, DrillPhase.TAIL, ChangeKind.TAIL)
    if begun is not None:
        lines += _preview(session, begun, _REPEATED)
    elif session.drill.options.tail is not TailChoice.STOP:
        lines.append(f"what happens to the tail: {session.drill.options.tail}")
    return lines


Preview = Callable[[Session, Change], Iterable[str]]


def _preview(session: Session, change: Change, previews: Mapping[ChangeKind, Preview]) -> list[str]:
    try:
        return list(previews[change.kind](session, change))
    except UnusableChange as error:
        return [f"{change.kind}: nothing, as its record cannot be used: {error.message}"]
    except K2kError as error:
        return [f"{change.kind}: cannot be shown: {safe_message(error.message)}"]


def _denials(session: Session, change: Change) -> tuple[list[str], frozenset[str]]:
    topics = read_change(session.drill, change, drill_changes.read_denied_topics)
    return sorted(set(topics)), denied_topics(session.source, topics)


def _restored_acls(session: Session, change: Change) -> Iterable[str]:
    topics, denied = _denials(session, change)
    for topic in topics:
        if topic in denied:
            yield f"Write on topic {safe_text(topic)} of the source to User:*: denied → not denied"


def _repeated_acls(session: Session, change: Change) -> Iterable[str]:
    topics, denied = _denials(session, change)
    for topic in topics:
        if topic not in denied:
            yield f"Write on topic {safe_text(topic)} of the source to User:*: not denied → denied"


def _show_quotas(session: Session, quotas: Iterable[Quota]) -> Iterable[str]:
    now = {quota.entity: quota.rate for quota in producer_quotas(session.source)}
    for quota in quotas:
        before = now.get(quota.entity)
        if before != quota.rate:
            yield f"{_name(quota.entity)}: {_rate(before)} → {_rate(quota.rate)}"


def _restored_quotas(session: Session, change: Change) -> Iterable[str]:
    rates = read_change(session.drill, change, drill_changes.read_quota_rates)
    before, after = (
        [Quota(*rate) for rate in rates_by_client.items()]
        for rates_by_client in (rates.before, rates.after)
    )
    return _show_quotas(session, restored(before, after))


def _repeated_quotas(session: Session, change: Change) -> Iterable[str]:
    rates = read_change(session.drill, change, drill_changes.read_quota_rates)
    return _show_quotas(session, [Quota(*rate) for rate in rates.after.items()])


def _name(entity: Entity) -> str:
    parts = (
        f"{kind} {safe_text(name) if name is not None else 'default'}" for kind, name in entity
    )
    return f"producer quota of {', '.join(parts)} on the source"


def _rate(rate: float | None) -> str:
    return "none" if rate is None else f"{rate:g} bytes/s"


def _restored_offsets(session: Session, change: Change) -> Iterable[str]:
    for write in find_undone_rows(session, change):
        at = f"{safe_text(write.topic)}-{write.partition}"
        before = "no offset" if write.before is None else f"{write.before}"
        yield f"group {safe_text(write.group)}, {at} on the target: {write.after} → {before}"


def _restored_job(session: Session, change: Change) -> Iterable[str]:
    if read_change(session.drill, change, drill_changes.read_host) == this_host():
        yield "this host's job of the pipeline, from this host's record of it: stopped → started"


def _stopped_job(session: Session, change: Change) -> Iterable[str]:
    if read_change(session.drill, change, drill_changes.read_host) == this_host():
        yield f"this host's job of {session.forward.name}: running → stopped"


def _restored_epochs(session: Session, _: Change) -> Iterable[str]:
    yield f"starts of {safe_text(session.config.name)}: refused → allowed"


def _restored_moves(session: Session, _: Change) -> Iterable[str]:
    moved = read_moved(session.config, session.target)
    for topic in session.drill.topics:
        move = moved.get(topic)
        if move is not None and move.drill == session.drill.id:
            yield f"{safe_text(topic)} by {safe_text(session.config.name)}: moved → copied"


def _restored_released(session: Session, change: Change) -> Iterable[str]:
    moves = read_change(session.drill, change, drill_changes.read_moves)
    moved = read_moved(session.forward.config, session.forward.target)
    for move in moves:
        if move.topic not in moved:
            yield f"{safe_text(move.topic)} by {session.forward.name}: copied → moved"


def _repeated_released(session: Session, change: Change) -> Iterable[str]:
    moves = read_change(session.drill, change, drill_changes.read_moves)
    moved = read_moved(session.forward.config, session.forward.target)
    for move in moves:
        if move.topic in moved:
            yield f"{safe_text(move.topic)} by {session.forward.name}: moved → copied"


def _restored_positions(session: Session, change: Change) -> Iterable[str]:
    moves = read_change(session.drill, change, drill_changes.read_moved_positions)
    positions = session.forward.read_positions()
    for at, offset in moves.before.items():
        now = _offset(positions.get(at))
        if now == moves.after[at] and now != offset:
            yield _position(session, at, now, offset)


def _position(session: Session, at: SourcePartition, now: int | None, then: int | None) -> str:
    before, after = ("none" if offset is None else f"{offset}" for offset in (now, then))
    return f"position of {session.forward.name} on {safe_text(at)}: {before} → {after}"


def _offset(position: Position | None) -> int | None:
    return None if position is None else position.offset


def _restored_release(session: Session, change: Change) -> Iterable[str]:
    ids = read_change(session.drill, change, drill_changes.read_released)
    names = ", ".join(safe_text(id_) for id_ in ids)
    yield f"starts of {session.forward.name}: allowed → refused, by drills {names}; what runs ends"


def _repeated_release(session: Session, change: Change) -> Iterable[str]:
    ids = read_change(session.drill, change, drill_changes.read_released)
    names = ", ".join(safe_text(id_) for id_ in ids)
    yield f"starts of {session.forward.name}: refused by drills {names} → allowed"


def _repeated_tail(session: Session, change: Change) -> Iterable[str]:
    choice = read_change(session.drill, change, drill_changes.read_tail_choice)
    yield f"what happens to the tail: {choice}"
    if choice is TailChoice.REPLAY:
        return
    positions = session.forward.read_positions()
    for part in session.drill.tail:
        at = SourcePartition(part.topic, part.partition)
        now = _offset(positions.get(at))
        if now is None or now < part.end:
            yield _position(session, at, now, part.end)


def _nothing(_: Session, change: Change) -> Iterable[str]:
    """Shadow groups are the drill's own; records that were copied stay."""
    del change
    return ()


_RESTORED: Mapping[ChangeKind, Preview] = {
    ChangeKind.SHADOW_GROUPS: _nothing,
    ChangeKind.ACLS: _restored_acls,
    ChangeKind.QUOTAS: _restored_quotas,
    ChangeKind.OFFSETS: _restored_offsets,
    ChangeKind.JOB: _restored_job,
    ChangeKind.EPOCHS: _restored_epochs,
    ChangeKind.TAIL: _nothing,
    ChangeKind.POSITIONS: _restored_positions,
    ChangeKind.RELEASE: _restored_release,
    ChangeKind.STARTED_JOB: _stopped_job,
    ChangeKind.RIGHTS: _nothing,
    ChangeKind.MOVED_TOPICS: _restored_moves,
    ChangeKind.RELEASED_TOPICS: _restored_released,
}
_REPEATED: Mapping[ChangeKind, Preview] = {
    ChangeKind.ACLS: _repeated_acls,
    ChangeKind.QUOTAS: _repeated_quotas,
    ChangeKind.RELEASE: _repeated_release,
    ChangeKind.TAIL: _repeated_tail,
    ChangeKind.RELEASED_TOPICS: _repeated_released,
}
