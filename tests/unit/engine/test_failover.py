"""What a failover now would do: each group is counted once, by the worst that applies."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2ktui.engine.mapping.translate import Basis
from k2ktui.engine.moves.failover import (
    GroupEstimate,
    MoveOutcome,
    count_gone,
    estimate_moves,
)
from k2ktui.engine.moves.groups import GroupRow
from k2ktui.engine.moves.ratings import GroupSide, GroupSummary


@dataclass(frozen=True)
class Found:
    """A group as a move would find it: what it would lose, and its positions by kind."""

    active: bool = False
    lost: int = 0
    unmapped: int = 0
    unknown: int = 0
    waiting: int = 0
    gone: int = 0
    reread: int = 0
    error: str = ""
    moved: bool = False
    name: str = "g"


def estimate(*found: Found) -> GroupEstimate:
    groups = [
        GroupSummary(
            group=of.name,
            source=GroupSide("Stable", 1, of.error) if of.active else GroupSide("Empty", 0),
            target=GroupSide(),
            partitions=9,
            bases={"unmapped": of.unmapped + of.waiting, "exact": 3},
            missing=0,
            skips=0,
            rereads=0,
            moved_skips=of.lost + of.gone,
            moved_rereads=of.reread,
            unknown_moved=of.unmapped + of.waiting + of.unknown,
            moved=9 if of.moved else 0,
        )
        for of in found
    ]
    waiting = {of.name: of.waiting for of in found}
    return estimate_moves(groups, waiting, {of.name: of.gone for of in found})


WORST_FIRST = [
    (Found(True, 5, 1, 1, 1, 9, 2, error="unreadable"), MoveOutcome.LOSES),
    (Found(True, 0, 1, 1, 1, 9, 2, error="unreadable"), MoveOutcome.UNMOVABLE),
    (Found(True, unknown=1, waiting=1, gone=9), MoveOutcome.UNKNOWN),
    (Found(True, error="unreadable", gone=9), MoveOutcome.UNKNOWN),
    (Found(True, waiting=1, gone=9), MoveOutcome.NOT_COPIED),
    (Found(True, gone=9), MoveOutcome.LOST_ALREADY),
    (Found(False, gone=9), MoveOutcome.LOST_ALREADY),
    (Found(True), MoveOutcome.STOP_FIRST),
    (Found(False, reread=3), MoveOutcome.SAFE),
]


@pytest.mark.parametrize(("found", "expected"), WORST_FIRST)
def test_the_worst_that_applies(found: Found, expected: MoveOutcome) -> None:
    assert estimate(found).count(expected) == 1


def test_each_group_is_counted_once() -> None:
    moves = estimate(*(replace(found, name=f"g{n}") for n, (found, _) in enumerate(WORST_FIRST)))
    assert moves == GroupEstimate(
        safe=1,
        stop_first=1,
        not_copied=1,
        unknown=2,
        unmovable=1,
        losing=1,
        lost_records=5,
        reread_records=7,
        lost_already=2,
        gone_records=63,
        named=moves.named,
    )
    assert moves.total == len(WORST_FIRST)
    assert estimate() == GroupEstimate()


def test_whatever_is_not_safe_has_a_name() -> None:
    moves = estimate(
        Found(name="small", lost=1),
        Found(name="large", lost=9, gone=3, active=True),
        Found(name="old", gone=9_104),
        Found(name="busy", active=True),
        Found(name="calm"),
        Found(name="there", moved=True),
    )
    assert [(move.group, move.outcome, move.active) for move in moves.named] == [
        ("large", MoveOutcome.LOSES, True),
        ("small", MoveOutcome.LOSES, False),
        ("old", MoveOutcome.LOST_ALREADY, False),
        ("busy", MoveOutcome.STOP_FIRST, True),
    ]
    assert (moves.safe, moves.losing, moves.lost_already) == (1, 2, 1)
    assert (moves.lost_records, moves.gone_records) == (10, 9_107)


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
