"""How the changes of one kind that drills record are shown and restored, and how they are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import ClassVar, TypeVar

from k2ktui.drill.session import Session
from k2ktui.engine.drill.model import Change, ChangeKind, Drill
from k2ktui.engine.strict_json import MalformedRecord
from k2ktui.errors import Refused
from k2ktui.text import safe_text

_T = TypeVar("_T")


class UnusableChange(Refused):
    """The state before or after a change is not as drills record it."""


class ChangeHandler:
    """Shows and restores the changes of one kind that drills have recorded.

    What a subclass does not override shows, and restores, nothing.

    Previews are shown to the person who continues a drill whose author is not proven. So they name
    every object with its current state on the clusters, and of the record only what is acted on.
    """

    kind: ClassVar[ChangeKind]

    def preview_restore(self, session: Session, change: Change) -> Iterable[str]:
        """Return what an abort would restore."""
        return ()

    def preview_repeat(self, session: Session, change: Change) -> Iterable[str]:
        """Return what a resume would make again from the record."""
        return ()

    def restore(self, session: Session, change: Change) -> list[str]:
        """Restore the state before; return what could not be restored.

        Raises:
            UnusableChange: the record cannot be used.
            K2kError: it could not be restored now; try it again.
        """
        return []

    def blocks_return(self, session: Session) -> bool:
        """Return whether a failover's change is still there and keeps a failback from writing.

        Raises:
            Refused: it may not be seen.
        """
        return False


def read_change(drill: Drill, change: Change, read: Callable[[Change], _T]) -> _T:
    """Return what a reader of ``engine/drill/changes.py`` finds in a change.

    Raises:
        UnusableChange: the record of the drill on the state topic was not written by k2ktui.
    """
    try:
        return read(change)
    except MalformedRecord as error:
        name = safe_text(drill.id)
        raise UnusableChange(
            f"drill {name}, phase {change.phase}: the state topic has a record of {change.kind} "
            f"that cannot be used: {error}",
            unchanged="Nothing was changed because of this record. The drill stays where it is.",
            hint="Find out what else writes to the state topic. Then abort the drill (k2ktui drill "
            f"abort {name} -f FILE) and begin another one. After the target was opened, undo by "
            f"hand what k2ktui drill report {name} -f FILE lists under Changes.",
        ) from error
