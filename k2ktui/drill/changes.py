"""What a drill has recorded of its changes, read for the phase that acts on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from k2ktui.engine.drill.model import Change, Drill
from k2ktui.engine.strict_json import MalformedRecord
from k2ktui.errors import Refused
from k2ktui.text import safe_text

_T = TypeVar("_T")


class UnusableChange(Refused):
    """The state before or after a change is not as drills record it."""


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
