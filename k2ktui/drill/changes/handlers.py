"""The handlers of all kinds of changes of a drill; any change is restored here."""

from __future__ import annotations

from collections.abc import Mapping

from k2ktui.drill.changes.failback import Positions, Release, ReleasedTopics, Tail
from k2ktui.drill.changes.handler import ChangeHandler, UnusableChange
from k2ktui.drill.changes.jobs import StartedJob, StoppedJob
from k2ktui.drill.changes.source import AccessRules, Quotas
from k2ktui.drill.changes.target import Epochs, MovedTopics, Offsets, Rights, ShadowGroups
from k2ktui.drill.session import Session
from k2ktui.engine.drill.changes import describe_undo
from k2ktui.engine.drill.checks import DrillKind
from k2ktui.engine.drill.model import Change, ChangeKind

HANDLERS: Mapping[ChangeKind, ChangeHandler] = {
    handler.kind: handler
    for handler in (
        ShadowGroups(),
        AccessRules(),
        Quotas(),
        Offsets(),
        StoppedJob(),
        Epochs(),
        Tail(),
        Positions(),
        Release(),
        StartedJob(),
        Rights(),
        MovedTopics(),
        ReleasedTopics(),
    )
}


def restore(session: Session, change: Change) -> list[str]:
    """Restore the state before a change; return what could not be restored.

    Of a rehearsal, only shadow groups: it changes nothing else, whatever its record says.

    Raises:
        K2kError: it could not be restored now; try it again.
    """
    if session.drill.kind is DrillKind.REHEARSE and change.kind is not ChangeKind.SHADOW_GROUPS:
        return [f"{change.what}: no rehearsal does this, so it was not undone"]
    try:
        return HANDLERS[change.kind].restore(session, change)
    except UnusableChange as error:
        # Another attempt would fail, too.
        return [
            f"{error.message}. It was not restored: undo it by hand. "
            + describe_undo(session.drill, change.kind)
        ]
