"""Restore what a drill has changed: one function for each kind of change."""

from __future__ import annotations

from collections.abc import Callable

from k2ktui.drill.changes import UnusableChange
from k2ktui.drill.phases.move_topics import restore_moves
from k2ktui.drill.phases.moves import restore_offsets
from k2ktui.drill.phases.rights import list_rights_left
from k2ktui.drill.phases.shadow import delete_shadow_groups
from k2ktui.drill.phases.source import restore_acls, restore_quotas
from k2ktui.drill.phases.tail import restore_positions, restore_tail
from k2ktui.drill.phases.target import restore_job
from k2ktui.drill.release import restore_fences, restore_released, restore_started_job
from k2ktui.drill.session import Session
from k2ktui.engine.drill.checks import DrillKind
from k2ktui.engine.drill.model import Change, ChangeKind
from k2ktui.engine.drill.steps import describe_undo


def restore(session: Session, change: Change) -> list[str]:
    """Restore the state before a change; return what could not be restored.

    Of a rehearsal, only shadow groups: it changes nothing else, whatever its record says.

    Raises:
        K2kError: it could not be restored now; try it again.
    """
    if session.drill.kind is DrillKind.REHEARSE and change.kind is not ChangeKind.SHADOW_GROUPS:
        return [f"{change.what}: no rehearsal does this, so it was not undone"]
    try:
        return _RESTORES[change.kind](session, change)
    except UnusableChange as error:
        # Another attempt would fail, too.
        return [
            f"{error.message}. It was not restored: undo it by hand. "
            + describe_undo(session.drill, change.kind)
        ]


def _restore_acls(session: Session, change: Change) -> list[str]:
    restore_acls(session, change)
    return []


def _restore_shadow(session: Session, _: Change) -> list[str]:
    delete_shadow_groups(session)
    return []


def _restore_epochs(session: Session, _: Change) -> list[str]:
    """Do nothing: a start takes over, and is allowed again as soon as the drill is aborting."""
    del session
    return []


def _restore_rights(session: Session, change: Change) -> list[str]:
    return list_rights_left(session, change)


_RESTORES: dict[ChangeKind, Callable[[Session, Change], list[str]]] = {
    ChangeKind.ACLS: _restore_acls,
    ChangeKind.QUOTAS: restore_quotas,
    ChangeKind.SHADOW_GROUPS: _restore_shadow,
    ChangeKind.OFFSETS: restore_offsets,
    ChangeKind.JOB: restore_job,
    ChangeKind.EPOCHS: _restore_epochs,
    ChangeKind.TAIL: restore_tail,
    ChangeKind.POSITIONS: restore_positions,
    ChangeKind.RELEASE: restore_fences,
    ChangeKind.STARTED_JOB: restore_started_job,
    ChangeKind.RIGHTS: _restore_rights,
    ChangeKind.MOVED_TOPICS: restore_moves,
    ChangeKind.RELEASED_TOPICS: restore_released,
}
