"""The state of the pair, as each of its two pipelines sees it, by the drills of both."""

from __future__ import annotations

from dataclasses import replace

import pytest

from k2ktui.engine.drill.checks import DrillKind
from k2ktui.engine.drill.model import ChangeStatus, Drill, DrillFigures, DrillStatus
from k2ktui.engine.drill.pair_state import (
    PairPhase,
    PairState,
    describe_pair,
    find_arrival,
    find_displaced,
    find_fence,
    find_pair_state,
)
from k2ktui.engine.drill.tail import PartitionEnd
from tests.support.drill.made_drills import (
    NOON_MS,
    denied,
    fencing,
    new_drill,
    rehearsed,
    switched_over,
)

_MINUTE = 60_000


def opened(drill: Drill, minutes_ago: float) -> Drill:
    at = NOON_MS - int(minutes_ago * _MINUTE)
    ends = (PartitionEnd("orders", 0, 700),)
    return replace(drill, figures=replace(drill.figures, opened_ms=at), opened_ends=ends)


AWAY = opened(switched_over(), 30)
BACK = opened(replace(new_drill(DrillKind.FAILBACK, 20), status=DrillStatus.DONE), 10)


def test_without_a_drill_that_moves_anything_the_pair_replicates() -> None:
    for own in ((), (rehearsed(),), (replace(fencing(), status=DrillStatus.ABORTED),)):
        assert find_pair_state(own) == PairState(PairPhase.REPLICATING)


def test_a_drill_that_has_opened_nothing_yet_is_under_way() -> None:
    state = find_pair_state((fencing(), rehearsed()))
    assert (state.phase, state.moved, state.fenced_by) == ("failing over", False, "")
    assert state.drill == fencing().id and state.at_ms == fencing().started_ms
    assert describe_pair(state, "a", "b").startswith(f"failing over: drill {state.drill}, begun ")


def test_after_a_switchover_the_workload_is_on_the_target() -> None:
    state = find_pair_state((rehearsed(), AWAY))
    assert (state.phase, state.moved, state.rpo_records) == ("failed over", True, 0)
    assert state.fenced_by == state.drill == AWAY.id
    text = describe_pair(state, "a", "b")
    assert text.startswith(f"failed over to b by drill {AWAY.id} at 20")
    assert text.endswith("; this pipeline is fenced")


def test_the_opposite_pipeline_sees_the_same_pair_from_the_other_side() -> None:
    state = find_pair_state((), (AWAY,))
    assert (state.phase, state.moved, state.drill) == ("replicating", False, AWAY.id)
    assert "moved the groups to b" in describe_pair(state, "b", "a")
    assert find_arrival((), (AWAY,)) == {("orders", 0): 700}
    assert find_arrival((AWAY,), ()) == {}


def test_a_failback_is_seen_by_both() -> None:
    begun = replace(new_drill(DrillKind.FAILBACK, 20))
    for own, opposite, moved in (((AWAY,), (begun,), True), ((begun,), (AWAY,), False)):
        state = find_pair_state(own, opposite)
        assert (state.phase, state.drill, state.moved) == ("failing back", begun.id, moved)
    forward, reverse = find_pair_state((AWAY,), (BACK,)), find_pair_state((BACK,), (AWAY,))
    assert (forward.phase, forward.moved) == ("replicating", False)
    assert (reverse.phase, reverse.moved) == ("failed over", True)
    assert find_arrival((AWAY,), (BACK,)) == {("orders", 0): 700}


def test_a_failback_that_cannot_be_read_is_known_by_what_it_wrote() -> None:
    led_back = replace(AWAY, returned=(PartitionEnd("orders", 0, 900),))
    assert not find_pair_state((led_back,)).moved


def test_a_drill_that_has_opened_its_target_says_so_before_it_ends() -> None:
    watching = replace(AWAY, status=DrillStatus.OPEN, ended_ms=None)
    assert find_pair_state((watching,)).phase is PairPhase.FAILED_OVER


@pytest.mark.parametrize("figures", [DrillFigures(rpo_at_least=10, silent_s=12.0)])
def test_after_a_disaster_what_is_known_to_be_missing_stays(figures: DrillFigures) -> None:
    lost = replace(AWAY, kind=DrillKind.DISASTER, figures=replace(figures, opened_ms=NOON_MS))
    state = find_pair_state((lost,))
    assert (state.rpo_records, state.rpo_at_least, state.silent_s) == (None, 10, 12.0)


def test_fifty_rehearsals_displace_no_switchover() -> None:
    rehearsals = [replace(rehearsed(), id=f"20270101-{n:06}-aa") for n in range(60)]
    displaced = find_displaced([AWAY, *rehearsals], 49)
    assert [drill.id for drill in displaced] == [f"20270101-{n:06}-aa" for n in range(10, -1, -1)]


def test_nothing_in_force_is_displaced() -> None:
    released = replace(
        AWAY, changes=tuple(replace(c, status=ChangeStatus.UNDONE) for c in AWAY.changes)
    )
    blocks = replace(new_drill(DrillKind.PLANNED), status=DrillStatus.DONE, changes=(denied(),))
    earlier = opened(replace(released, id="20200101-000000-aa"), 900)
    kept = [fencing(), AWAY, replace(blocks, id="blocks"), opened(replace(released, id="last"), 1)]
    assert find_displaced([earlier, *kept], 0) == [earlier]


def test_a_fence_whose_drill_is_lost_holds_by_the_run_record() -> None:
    fence = find_fence((rehearsed(),), "20260101-000000-lost")
    assert fence is not None and fence.drill is None
    assert "as its run record says" in fence.why
    assert "k2ktui drill release 20260101-000000-lost -f FILE" in fence.way_back()
    state = find_pair_state((), (), fence.id)
    assert (state.phase, state.fenced_by) == (PairPhase.UNKNOWN, fence.id)
    # The drill's own record decides, if it is there.
    aborted = replace(AWAY, status=DrillStatus.ABORTED)
    assert find_fence((aborted,), aborted.id) is None


def test_the_way_back_depends_on_how_far_the_drill_is() -> None:
    fence = find_fence((AWAY,))
    assert fence is not None and "the target is open for producers" in fence.why
    assert fence.way_back("a.yaml", "a-reverse.yaml").startswith(
        "The way back is k2ktui drill failback -f a-reverse.yaml; "
    )
    closed = replace(AWAY, status=DrillStatus.OPEN, figures=DrillFigures())
    fence = find_fence((closed,))
    assert fence is not None and fence.way_back() == f"Run k2ktui drill abort {closed.id} -f FILE"
