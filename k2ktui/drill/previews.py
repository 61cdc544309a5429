"""What resuming or aborting a drill takes from its record, for whom its author is not proven."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from k2ktui.drill.changes.handler import UnusableChange
from k2ktui.drill.changes.handlers import HANDLERS
from k2ktui.drill.session import Session
from k2ktui.engine.drill.checks import DrillKind, DrillPhase
from k2ktui.engine.drill.hook_steps import hooks_to_undo
from k2ktui.engine.drill.hooks import HookStatus, describe_hook_undo
from k2ktui.engine.drill.model import Change, ChangeKind, PhaseStatus
from k2ktui.engine.drill.steps import changes_to_restore, find_change_of, next_phase
from k2ktui.engine.drill.tail import TailChoice
from k2ktui.errors import K2kError
from k2ktui.text import counted, list_names, safe_message, safe_text

_LISTED = 20
_OVER = (PhaseStatus.DONE, PhaseStatus.SKIPPED)


def preview_abort(session: Session) -> list[str]:
    """Return what an abort would restore, the last change first; empty for a rehearsal.

    That one deletes groups whose names begin with its own, and restores nothing else.
    """
    if session.drill.kind is DrillKind.REHEARSE:
        return []
    changes = changes_to_restore(session.drill)
    lines = [line for change in changes for line in _restored(session, change)]
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
            if change.kind is ChangeKind.ACLS and change in changes_to_restore(drill):
                lines += _repeated(session, change)
    if drill.kind is DrillKind.FAILBACK:
        lines += _preview_failback(session)
    return lines


def _list(topics: Sequence[str]) -> str:
    return list_names(topics, _LISTED)


def _preview_failback(session: Session) -> list[str]:
    lines: list[str] = []
    for change in changes_to_restore(session.drill):
        if change.kind in (ChangeKind.RELEASE, ChangeKind.RELEASED_TOPICS):
            lines += _repeated(session, change)
    if session.drill.record(DrillPhase.TAIL).status in _OVER:
        return lines
    begun = find_change_of(session.drill, DrillPhase.TAIL, ChangeKind.TAIL)
    if begun is not None:
        lines += _repeated(session, begun)
    elif session.drill.options.tail is not TailChoice.STOP:
        lines.append(f"what happens to the tail: {session.drill.options.tail}")
    return lines


def _restored(session: Session, change: Change) -> list[str]:
    return _preview(session, change, HANDLERS[change.kind].preview_restore)


def _repeated(session: Session, change: Change) -> list[str]:
    return _preview(session, change, HANDLERS[change.kind].preview_repeat)


def _preview(
    session: Session, change: Change, preview: Callable[[Session, Change], Iterable[str]]
) -> list[str]:
    try:
        return list(preview(session, change))
    except UnusableChange as error:
        return [f"{change.kind}: nothing, as its record cannot be used: {error.message}"]
    except K2kError as error:
        return [f"{change.kind}: cannot be shown: {safe_message(error.message)}"]
