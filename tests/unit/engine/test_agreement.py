"""Groups that continue on both clusters give no false alarm; those that would skip are reported."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2ktui.engine.mapping.translate import Basis
from k2ktui.engine.moves.agreement import Agreement
from k2ktui.engine.moves.groups import Finding, GroupRow, GroupView, make_group_rows
from tests.unit.engine.test_groups import at, snapshot

SETTLED, CHECKING, MOVING = Finding.SETTLED, Finding.CHECKING, Finding.MOVING


def read_at(offsets: tuple[int, int, int]) -> int | None:
    """The divergence of a group read on the source, on the target, and on the source again."""
    before, there, after = offsets
    made = snapshot(before, at(there))
    group = replace(made.source["g"], offsets=snapshot(after).source["g"].offsets)
    (row,) = make_group_rows(replace(made, source_later={"g": group}))
    return row.divergence


@given(st.lists(st.integers(0, 100), min_size=3, max_size=3).map(sorted), st.integers(500, 600))
def test_what_is_reported_of_a_group_that_continues_was_so_when_the_target_was_read(
    source: list[int], there: int
) -> None:
    """Whatever the group had committed on the source at that moment: between both readings."""
    before, then, after = source
    divergence = read_at((before, there, after))
    true = there - (500 + then)
    assert divergence is not None
    assert divergence == 0 or (divergence > 0) == (true > 0)
    assert abs(divergence) <= abs(true)
    if before == after:
        assert divergence == true


def test_a_source_that_does_not_answer_again_proves_no_skip() -> None:
    (row,) = make_group_rows(snapshot(40, at(560), source_down="it is gone"))
    assert (row.divergence, row.finding) == (20, MOVING)
    assert "this is not a skip" in row.reason
    (row,) = make_group_rows(snapshot(40, at(520), source_down="it is gone"))
    assert (row.divergence, row.finding) == (-20, SETTLED)


def a_row(translated: int, committed: int, state: str = "Stable", there: str = "Empty") -> GroupRow:
    made = snapshot(translated - 500, at(committed))
    view = GroupView(state, 1 if state == "Stable" else 0, made.source["g"].offsets)
    (row,) = make_group_rows(replace(made, source={"g": view}))
    return replace(row, state_target=there)


def findings(
    polls: list[tuple[float, int, int]], state: str = "Stable", there: str = "Empty"
) -> list[Finding]:
    """The findings of polls: when, the translation, and the commit on the target."""
    agreement, findings_ = Agreement(), []
    for when, translated, committed in polls:
        found_now = [a_row(translated, committed, state, there)]
        (row,) = agreement.settle(found_now, when, when + 0.5)
        findings_.append(row.finding)
    return findings_


@pytest.mark.parametrize(
    ("polls", "expected"),
    [
        # Both commit every five seconds, the target just before each poll.
        ([(0, 500, 510), (5, 510, 520), (10, 520, 530)], [CHECKING, MOVING, MOVING]),
        ([(0, 500, 510), (2, 500, 510), (4, 505, 510), (6, 510, 520)], [CHECKING] * 3 + [MOVING]),
        # Behind what is known of the target for longer than that.
        ([(0, 500, 510), (5, 500, 515), (10, 500, 520)], [CHECKING, CHECKING, SETTLED]),
        ([(0, 500, 590), (5, 510, 591), (10, 520, 592)], [CHECKING, CHECKING, SETTLED]),
        # It was in step in between.
        ([(0, 500, 510), (5, 510, 510), (10, 510, 520)], [CHECKING, SETTLED, CHECKING]),
        # A group that is at rest on the target does not catch up.
        ([(0, 510, 500), (5, 520, 500)], [SETTLED, SETTLED]),
    ],
)
def test_a_group_in_use_is_ahead_only_if_the_source_does_not_follow(
    polls: list[tuple[float, int, int]], expected: list[Finding]
) -> None:
    assert findings(polls) == expected


@pytest.mark.parametrize(
    ("polls", "expected"),
    [
        # The first reading is all that some have.
        ([(0, 510, 500)], [SETTLED]),
        # The target follows, a commit interval later.
        ([(0, 500, 500), (5, 510, 500), (10, 520, 510)], [SETTLED, MOVING, MOVING]),
        ([(0, 500, 500), (2, 510, 500), (4, 510, 500), (6, 512, 510)], [SETTLED] + [MOVING] * 3),
        # It does not, or falls behind further.
        ([(0, 500, 500), (5, 510, 500), (12, 520, 505)], [SETTLED, MOVING, SETTLED]),
        ([(0, 500, 500), (5, 590, 500), (12, 595, 589)], [SETTLED, MOVING, SETTLED]),
        # It was ahead in between.
        ([(0, 510, 500), (5, 510, 515), (12, 520, 515)], [SETTLED, CHECKING, MOVING]),
    ],
)
def test_a_group_in_use_on_the_target_is_behind_only_if_it_does_not_follow(
    polls: list[tuple[float, int, int]], expected: list[Finding]
) -> None:
    assert findings(polls, there="Stable") == expected


def test_of_a_group_at_rest_a_second_look_is_enough() -> None:
    assert findings([(0, 500, 510), (2, 500, 510)], "Empty") == [CHECKING, SETTLED]


def test_two_polls_must_find_no_mapping() -> None:
    agreement, row = Agreement(), replace(a_row(500, 500), basis=Basis.UNMAPPED)
    reported = [
        agreement.settle([polled], 0, 0)[0].finding for polled in (row, row, a_row(500, 500), row)
    ]
    assert reported == [CHECKING, SETTLED, SETTLED, CHECKING]


@given(
    st.lists(st.integers(0, 5), min_size=10, max_size=120),
    st.integers(0, 49),
    st.integers(0, 49),
    st.integers(20, 60),
)
def test_no_false_alarm_whatever_the_phases(
    paces: list[int], here: int, there: int, every: int
) -> None:
    """A model in tenths of seconds: an application that reads the same on both clusters.

    Both commit every five seconds, at phases of their own; polls come every two to six seconds.
    """
    consumed, total = [], 0
    for pace in paces * 5:
        total += pace
        consumed.append(min(100, total // 20))

    def committed(tenth: int, phase: int) -> int:
        last = tenth - (tenth - phase) % 50
        return consumed[last] if last >= 0 else 0

    agreement = Agreement()
    for tenth in range(50, len(consumed) - 3, every):
        made = snapshot(committed(tenth, here), at(500 + committed(tenth + 1, there)))
        view = GroupView("Stable", 1, made.source["g"].offsets)
        made = replace(made, target={"g": replace(made.target["g"], state="Stable", members=1)})
        later = snapshot(committed(tenth + 2, here)).source["g"].offsets
        group_rows = make_group_rows(
            replace(made, source={"g": view}, source_later={"g": replace(view, offsets=later)})
        )
        (row,) = agreement.settle(group_rows, tenth / 10, tenth / 10 + 0.3)
        assert not (row.finding is SETTLED and (row.divergence or 0) > 0)
        assert not (row.finding is SETTLED and (row.divergence or 0) < 0 and tenth > 50)
