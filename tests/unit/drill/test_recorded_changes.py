"""Records of changes that no drill wrote: an operator's error, never a traceback."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from k2ktui.drill.changes.handler import UnusableChange, read_change
from k2ktui.drill.changes.handlers import restore
from k2ktui.drill.phases.target import read_fenced
from k2ktui.drill.session import Session
from k2ktui.engine.access import Access
from k2ktui.engine.drill.changes import describe_undo, read_denied_topics
from k2ktui.engine.drill.checks import DrillKind, DrillPhase
from k2ktui.engine.drill.model import Change, ChangeKind, ChangeStatus, Drill
from tests.support.drill.made_drills import new_drill

HOSTILE = [
    "[",
    '{"fenced": 1}',
    "[[1]]",
    '{"fenced":{"a":[1e999,1]}}',
    '{"term":1,"fenced":{"a":[1e999,1]}}',
]
# Nothing that a drill recorded of these is read to restore them.
_UNREAD = {ChangeKind.SHADOW_GROUPS, ChangeKind.EPOCHS}


def drill_with(kind: ChangeKind, text: str) -> tuple[Drill, Change]:
    change = Change(
        DrillPhase.FENCE_PRODUCERS, kind, "w", text, text, "undo it so", ChangeStatus.MADE
    )
    return replace(new_drill(DrillKind.PLANNED), changes=(change,)), change


@pytest.mark.parametrize("text", HOSTILE)
def test_epochs_that_no_drill_wrote(text: str) -> None:
    drill, _ = drill_with(ChangeKind.EPOCHS, text)
    with pytest.raises(UnusableChange) as caught:
        read_fenced(drill)
    error = caught.value
    assert f"drill {drill.id}, phase fence-producers" in error.message
    assert "record of epochs" in error.message
    assert error.unchanged.startswith("Nothing was changed")
    assert f"k2ktui drill abort {drill.id} -f FILE" in error.hint


def test_an_unreadable_record_is_shown_without_control_characters() -> None:
    drill, change = drill_with(ChangeKind.ACLS, '["\\u001b[2J"]')
    with pytest.raises(UnusableChange) as caught:
        read_change(replace(drill, id="a\x1b[2J"), change, read_denied_topics)
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("kind", sorted(set(ChangeKind) - _UNREAD))
def test_an_abort_names_what_cannot_be_restored(kind: ChangeKind, text: str) -> None:
    """It ends: repeating it would not help."""
    drill, change = drill_with(kind, text)
    nothing = cast(Any, None)
    session = Session(nothing, drill, nothing, nothing, Access(writable=True))
    (problem,) = restore(session, change)
    assert f"record of {kind}" in problem and problem.endswith(describe_undo(drill, kind))
    assert "undo it so" not in problem
