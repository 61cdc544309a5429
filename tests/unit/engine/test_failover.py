"""What a failover now would do: each group is counted once, by the worst that applies."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2ktui.engine.mapping.translate import Basis
from k2ktui.engine.moves.failover import (
    GroupEstimate,
    GroupMove,
    MoveOutcome,
    count_gone,
    estimate_groups,
)
from k2ktui.engine.moves.groups import GroupRow

WORST_FIRST = [
    (GroupMove(True, 5, 2, 1, 1, error="unreadable"), MoveOutcome.LOSES),
    (GroupMove(True, 0, 2, 1, 1, error="unreadable"), MoveOutcome.UNMOVABLE),
    (GroupMove(True, 0, 0, 0, 1), MoveOutcome.UNKNOWN),
    (GroupMove(True, error="unreadable"), MoveOutcome.UNKNOWN),
    (GroupMove(True, waiting=1), MoveOutcome.NOT_COPIED),
    (GroupMove(True, gone=9), MoveOutcome.LOST_ALREADY),
    (GroupMove(False, gone=9), MoveOutcome.LOST_ALREADY),
    (GroupMove(True), MoveOutcome.STOP_FIRST),
    (GroupMove(False, reread=3), MoveOutcome.SAFE),
]


@pytest.mark.parametrize(("move", "expected"), WORST_FIRST)
def test_the_worst_that_applies(move: GroupMove, expected: MoveOutcome) -> None:
    assert move.outcome is expected


def test_each_group_is_counted_once() -> None:
    estimate = estimate_groups(move for move, _ in WORST_FIRST)
    assert estimate == GroupEstimate(
        safe=1,
        stop_first=1,
        not_copied=1,
        unknown=2,
        unmovable=1,
        losing=1,
        lost_records=5,
        reread_records=7,
        lost_already=2,
        gone_records=18,
        named=estimate.named,
    )
    assert estimate.total == len(WORST_FIRST)
    assert estimate_groups(()) == GroupEstimate()


def test_whatever_is_not_safe_has_a_name() -> None:
    estimate = estimate_groups(
        [
            GroupMove(name="small", lost=1),
            GroupMove(name="large", lost=9, gone=3, active=True),
            GroupMove(name="old", gone=9_104),
            GroupMove(name="busy", active=True),
            GroupMove(name="calm"),
            GroupMove(name="there", moved=True),
        ]
    )
    assert [(move.group, move.outcome, move.active) for move in estimate.named] == [
        ("large", MoveOutcome.LOSES, True),
        ("small", MoveOutcome.LOSES, False),
        ("old", MoveOutcome.LOST_ALREADY, False),
        ("busy", MoveOutcome.STOP_FIRST, True),
    ]
    assert (estimate.safe, estimate.losing, estimate.lost_already) == (1, 2, 1)
    assert (estimate.lost_records, estimate.gone_records) == (10, 9_107)


Rows = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(0, 2), st.integers(0, 50), st.integers(0, 40)),
    max_size=6,
)


@given(Rows, st.dictionaries(st.integers(0, 2), st.one_of(st.none(), st.integers(0, 60))))
def test_no_more_records_are_gone_than_a_move_skips(
    made: list[tuple[str, int, int, int]], starts: dict[int, int | None]
) -> None:
    # Every source partition has a target partition of its own, or all share one.
    for shared in (False, True):
        at = {(group, partition): (offset, skips) for group, partition, offset, skips in made}
        rows = [
            _row(group, partition, offset, skips, 0 if shared else partition)
            for (group, partition), (offset, skips) in at.items()
        ]
        counted = count_gone(rows, {("t", number): start for number, start in starts.items()})
        sums: dict[str, dict[int | None, int]] = {}
        for row in rows:
            if row.skipped:
                sums.setdefault(row.group, {})[row.target_partition] = row.skipped
        assert counted.keys() == sums.keys()
        for group, gone in counted.items():
            parts = [row.partition for row in rows if row.group == group and row.skipped]
            assert (gone is None) == any(starts.get(number) is None for number in parts)
            assert gone is None or 0 <= gone <= sum(sums[group].values())


def _row(group: str, partition: int, offset: int, skips: int, target: int) -> GroupRow:
    return GroupRow(
        group=group,
        topic="t",
        partition=partition,
        state_source="Empty",
        state_target="Empty",
        source_offset=offset,
        target_topic="t",
        target_partition=target,
        target_offset=None,
        translated_offset=offset + skips,
        basis=Basis.EXACT,
        reread=0,
        skipped=skips,
        divergence=None,
    )
