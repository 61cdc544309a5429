"""Whether the reverse pipeline wrote everything that retention has deleted, against a model."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from k2ktui.drill.deleted import is_returned
from k2ktui.drill.tail import TailBounds
from k2ktui.engine.moves.positions import (
    LOST,
    MoveEffect,
    SourceLog,
    TargetTopicState,
    mark_returned,
    plan_move,
)
from k2ktui.engine.records.gaps import RETURNED, find_returned_end, lost_gaps
from k2ktui.engine.records.state import Gap, Position, SourcePartition

AT = SourcePartition("orders", 0)
LANDING = TargetTopicState("orders", 0, "t")
# What a log of a partition has, offset by offset: a record of the reverse pipeline or of another
# program, or the marker that ends a transaction of the reverse pipeline: each has one.
OURS, OTHERS, MARKER = "r", "x", "m"


def bounds(position: int, start: int, high: int) -> TailBounds:
    at = Position(position, 0, -1, "s", 1, 0, "orders", 0, "t")
    return TailBounds(AT, at, start, high, high)


def spans_of(log: str) -> list[tuple[int, int]]:
    """The spans that a pipeline knows it wrote alone: records, one marker between two of them."""
    spans: list[tuple[int, int]] = []
    first = end = -1
    for offset, what in enumerate(log):
        if what == OURS:
            alone = first >= 0 and (end == offset or (end + 1 == offset and log[end] == MARKER))
            first, end = (first if alone else offset), offset + 1
            if spans and alone:
                spans.pop()
            spans.append((first, end))
    return spans


@given(
    st.lists(st.sampled_from(["rm", "rrrm", "rxm", "rxrm", "xrm", "x", "xx"]), max_size=12).map(
        "".join
    ),
    st.data(),
)
def test_nothing_that_others_wrote_is_taken_for_returned(log: str, data: st.DataObject) -> None:
    position = data.draw(st.integers(0, len(log)))
    start = data.draw(st.integers(position, len(log)))
    returned = is_returned(bounds(position, start, len(log)), spans_of(log))
    if OTHERS in log[position:start]:
        assert not returned
    elif start > position and log[position] == OURS and OURS in log[start - 1 : start + 1]:
        assert returned


def test_the_marker_at_the_end_of_the_log() -> None:
    assert is_returned(bounds(10, 16, 16), [(10, 15)])
    assert not is_returned(bounds(10, 16, 17), [(10, 15)]), "offset 15 may be a record"
    assert not is_returned(bounds(10, 11, 11), []), "nothing is known"
    assert not is_returned(bounds(10, 14, 16), [(11, 15)])
    assert is_returned(bounds(10, 14, 16), [(12, 15), (5, 12)])
    assert not is_returned(bounds(10, 11, 11), [(3, 10)]), (
        "what follows was written by nobody known"
    )


def test_a_move_past_them_leaves_nothing_out() -> None:
    log = SourceLog(20, 30, "s")
    before = bounds(10, 20, 30).position
    move = mark_returned(plan_move(AT, before, 20, log, LANDING))
    assert (move.effect, move.left_out) == (MoveEffect.FORWARD, 0)
    assert move.after is not None and move.after.gaps == (Gap(10, 20, RETURNED),)
    assert lost_gaps(move.after.gaps) == () and find_returned_end(move.after.gaps) == 20
    assert find_returned_end((Gap(1, 2, LOST),)) == 0
    again = plan_move(AT, before, 10, SourceLog(0, 30, "s"), LANDING)
    assert mark_returned(again) is again
