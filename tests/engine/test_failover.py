"""What a failover now would do: each group is counted once, by the worst that applies."""

from __future__ import annotations

import pytest

from k2ktui.engine.failover import GroupEstimate, GroupMove, MoveOutcome, estimate_groups

WORST_FIRST = [
    (GroupMove(True, 5, 2, 1, 1, error="unreadable"), MoveOutcome.LOSES),
    (GroupMove(True, 0, 2, 1, 1, error="unreadable"), MoveOutcome.UNMOVABLE),
    (GroupMove(True, 0, 0, 0, 1), MoveOutcome.UNKNOWN),
    (GroupMove(True, error="unreadable"), MoveOutcome.UNKNOWN),
    (GroupMove(True, waiting=1), MoveOutcome.NOT_COPIED),
    (GroupMove(True), MoveOutcome.STOP_FIRST),
    (GroupMove(False, reread=3), MoveOutcome.SAFE),
]


@pytest.mark.parametrize(("move", "expected"), WORST_FIRST)
def test_the_worst_that_applies(move: GroupMove, expected: MoveOutcome) -> None:
    assert move.outcome is expected


def test_each_group_is_counted_once() -> None:
    found = estimate_groups(move for move, _ in WORST_FIRST)
    assert found == GroupEstimate(
        safe=1,
        stop_first=1,
        not_copied=1,
        unknown=2,
        unmovable=1,
        losing=1,
        lost_records=5,
        reread_records=7,
    )
    assert estimate_groups(()) == GroupEstimate()
