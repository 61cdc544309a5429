"""Parity pauses while a drill is open, and goes on only in the direction that copies."""

from __future__ import annotations

from dataclasses import replace

from k2ktui.engine.drill.checks import DrillKind
from k2ktui.engine.drill.model import DrillStatus
from k2ktui.engine.parity.pause import find_pause
from tests.support.drill.made_drills import fencing, new_drill, rehearsed
from tests.unit.engine.test_pair_state import AWAY, BACK


def test_it_compares_where_no_drill_is_open() -> None:
    for own in ((), (rehearsed(),), (replace(fencing(), status=DrillStatus.ABORTED),)):
        assert find_pause(own, ()) == ""


def test_it_pauses_while_a_drill_of_either_direction_is_open() -> None:
    for kind in DrillKind:
        for status in (DrillStatus.OPEN, DrillStatus.ABORTING):
            drill = replace(new_drill(kind), status=status)
            assert find_pause((drill,), ()) == find_pause((), (drill,)) != ""
            assert drill.id in find_pause((drill,), ())


def test_a_drill_over_some_topics_pauses_nothing() -> None:
    """Neither while it is open nor afterwards: parity leaves its topics alone."""
    for kind in DrillKind:
        for status in (DrillStatus.OPEN, DrillStatus.ABORTING):
            drill = replace(new_drill(kind), status=status, topics=("orders",))
            assert find_pause((drill,), ()) == find_pause((), (drill,)) == ""


def test_once_the_target_was_opened_only_the_opposite_direction_goes_on() -> None:
    assert AWAY.id in find_pause((AWAY,), ())
    assert find_pause((), (AWAY,)) == ""


def test_after_a_failback_it_goes_on_as_soon_as_the_pipeline_may_copy() -> None:
    assert "fenced" in find_pause((AWAY,), (BACK,))
    released = replace(AWAY, changes=())
    assert find_pause((released,), (BACK,)) == ""
    assert find_pause((BACK,), (AWAY,)) != ""


def test_what_is_unknown_pauses_it() -> None:
    assert "unknown" in find_pause((), (), unread="the topic cannot be read")
    assert "20260101-000000-aaaa" in find_pause((), (), named="20260101-000000-aaaa")
