"""The small record of each rehearsal: its form, how many are kept, and drills without one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2ktui.engine.drill.checks import DrillKind
from k2ktui.engine.drill.objectives import Objectives
from k2ktui.engine.drill.rehearsals import (
    KEPT_REHEARSALS,
    Rehearsal,
    find_displaced_rehearsals,
    list_rehearsals,
    sum_up_rehearsal,
)
from k2ktui.engine.moves.journal_format import (
    read_state_key,
    read_state_value,
    state_key,
    state_value,
)
from k2ktui.engine.records.state import MalformedRecord
from tests.support.drill.made_drills import new_drill, rehearsed, switched_over

counts = st.integers(0, 2**31 - 1)
rehearsals = st.builds(
    Rehearsal,
    st.text(max_size=20),
    counts,
    counts,
    counts,
    st.none() | st.integers(0, 2**53),
    st.none() | counts,
    counts,
)


@given(rehearsals)
def test_a_record_is_read_as_it_was_written(rehearsal: Rehearsal) -> None:
    group, key = read_state_key(state_key("orders", rehearsal.key))
    assert (group, key) == ("orders", rehearsal.key)
    assert read_state_value(rehearsal.key, state_value(rehearsal)) == rehearsal


@pytest.mark.parametrize("damage", [b'"at":-1', b'"at":true', b'"at":"soon"', b'"other":1'])
def test_a_damaged_record_is_refused(damage: bytes) -> None:
    rehearsal = Rehearsal("a", 7, 0, 0, None, None, 5)
    value = state_value(rehearsal)
    assert b'"at":7' in value
    with pytest.raises(MalformedRecord):
        read_state_value(rehearsal.key, value.replace(b'"at":7', damage))


def test_only_rehearsals_that_have_ended_are_summed_up() -> None:
    assert sum_up_rehearsal(new_drill(DrillKind.REHEARSE)) is None
    assert sum_up_rehearsal(switched_over()) is None
    drill = replace(rehearsed(), objectives=Objectives(None, None, 7.0), blockers=("report: D46",))
    assert sum_up_rehearsal(drill) == Rehearsal(drill.id, drill.ended_ms or 0, 1, 1, 0, None, 7_500)


def test_a_drill_without_a_record_counts_too() -> None:
    drill = rehearsed()
    summed = sum_up_rehearsal(drill)
    assert summed is not None
    kept = replace(summed, rto_ms=1)
    later = replace(kept, id="z", at_ms=kept.at_ms + 1)
    assert list_rehearsals([later], [drill, switched_over()]) == (summed, later)
    assert list_rehearsals([kept], [drill]) == (kept,)


@given(st.integers(0, KEPT_REHEARSALS + 5))
def test_the_newest_are_kept(number: int) -> None:
    kept = [Rehearsal(str(n), n, 0, 0, 0, 0, 1) for n in reversed(range(number))]
    new = Rehearsal("new", number, 0, 0, 0, 0, 1)
    gone = find_displaced_rehearsals(kept, new)
    assert [int(key.id) for key in gone] == list(range(max(0, number + 1 - KEPT_REHEARSALS)))
    assert find_displaced_rehearsals([*kept, new], new) == gone, "written a second time"
