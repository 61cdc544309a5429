"""How a group is rated: by partition, and as the worst of them; and what is summed up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2ktui.engine.mapping.translate import Basis
from k2ktui.engine.members import make_member
from k2ktui.engine.moves.agreement import Agreement
from k2ktui.engine.moves.groups import Finding, GroupRow, GroupView, make_group_rows
from k2ktui.engine.moves.ratings import (
    GroupSide,
    GroupSummary,
    Rating,
    RereadEstimate,
    estimate_rereads,
    rate,
    rate_group,
    summarize_groups,
)
from tests.unit.engine.test_groups import at, snapshot

ROW = GroupRow("g", "t", 0, "Empty", "Empty", 40, "t", 0, 540, 540, Basis.EXACT, 0, 0, 0)
IDLE, ACTIVE = GroupSide("Empty", 0), GroupSide("Stable", None)
ON_BOTH = {"state_source": "Stable", "state_target": "Stable"}
CHECKING = {"finding": Finding.CHECKING}
MOVING = {"finding": Finding.MOVING}
MOVED = {"finding": Finding.MOVED, "divergence": None, "reread": None, "skipped": None}
CHOSEN = {"finding": Finding.CHOSEN, "basis": Basis.CHOSEN, "divergence": None}
UNMAPPED = {"basis": Basis.UNMAPPED, "reread": None, "skipped": None, "divergence": None}

RATED: list[tuple[Rating, Mapping[str, Any]]] = [
    (Rating.IN_STEP, {}),
    (Rating.MOVED, MOVED),
    (Rating.MOVED, {**MOVED, **ON_BOTH, "moved_by": "d"}),
    (Rating.MOVING, {**MOVING, "divergence": 7}),
    (Rating.MOVING, {**MOVING, "divergence": -7}),
    (Rating.NOT_MOVED, {"target_offset": None, "divergence": None}),
    (Rating.CHOSEN, CHOSEN),
    (Rating.CHECKING, {**CHECKING, "divergence": 7}),
    (Rating.CHECKING, {**UNMAPPED, **CHECKING, "target_offset": None}),
    (Rating.BOUNDED, {"basis": Basis.BOUNDED}),
    (Rating.BOUNDED, {"basis": Basis.BOUNDED, "divergence": None}),
    (Rating.BOTH_ACTIVE, ON_BOTH),
    (Rating.RE_READS, {"divergence": -7}),
    (Rating.DELETED, {"skipped": 9, "divergence": -7}),
    (Rating.UNKNOWN, {"divergence": None}),
    (Rating.UNREAD, {"finding": Finding.UNREAD, "target_offset": None, "divergence": None}),
    (Rating.SKIPS, {"divergence": 7, "skipped": 9}),
    (Rating.UNMAPPED, UNMAPPED),
]
# Of these, the table of partitions once said less than that of groups.
WORST: list[tuple[Rating, Mapping[str, Any]]] = [
    (Rating.UNKNOWN, {"divergence": None, "skipped": 9}),
    (Rating.UNKNOWN, {"divergence": None, **ON_BOTH}),
    (Rating.DELETED, {**CHECKING, "divergence": 7, "skipped": 9}),
    (Rating.DELETED, {**MOVING, "divergence": 7, "skipped": 9}),
    (Rating.BOTH_ACTIVE, {**CHECKING, "divergence": 7, **ON_BOTH}),
    (Rating.BOTH_ACTIVE, {**MOVING, "divergence": 7, **ON_BOTH}),
    (Rating.BOTH_ACTIVE, {**MOVED, **ON_BOTH}),
    (Rating.BOTH_ACTIVE, {**CHOSEN, **ON_BOTH}),
    (Rating.BOUNDED, {**CHECKING, "divergence": 7, "basis": Basis.BOUNDED}),
    (Rating.BOUNDED, {**MOVING, "divergence": 7, "basis": Basis.BOUNDED}),
]
ROWS = [replace(ROW, **changes) for _, changes in (*RATED, *WORST)]


def test_a_rating_is_never_less_severe_than_a_lower_one() -> None:
    assert sorted(Rating, key=lambda rating: rating.severity) == sorted(Rating) == list(Rating)


@pytest.mark.parametrize(("expected", "changes"), [*RATED, *WORST])
def test_a_group_and_its_row_have_the_worst_rating_that_applies(
    expected: Rating, changes: Mapping[str, Any]
) -> None:
    row = replace(ROW, **changes)
    assert rate(row) is expected
    sides = GroupSide(row.state_source), GroupSide(row.state_target)
    assert rate_group([row], *sides) is expected


@given(st.lists(st.sampled_from(ROWS), min_size=1, max_size=4))
def test_a_group_has_the_worst_rating_of_its_rows(rows: list[GroupRow]) -> None:
    is_split = any(row.moved_by for row in rows)
    ratings = {rate(row, is_split=is_split) for row in rows}
    worst = rate_group(rows, IDLE, IDLE)
    if worst is Rating.PARTLY_MOVED:
        assert Rating.NOT_MOVED in ratings and len(ratings) > 1
        assert max(ratings) is Rating.NOT_MOVED
    else:
        assert worst is max(ratings)
        assert worst is not Rating.NOT_MOVED or ratings == {Rating.NOT_MOVED}
    assert rate_group(rows, IDLE, GroupSide(error="not authorized")) is Rating.UNREAD


@pytest.mark.parametrize(
    ("missing", "rating"),
    [(3, Rating.NOT_MOVED), (1, Rating.PARTLY_MOVED), (0, Rating.IN_STEP)],
)
def test_a_group_that_is_committed_on_some_partitions_is_partly_moved(
    missing: int, rating: Rating
) -> None:
    rows = [replace(ROW, partition=number, target_partition=number) for number in range(3)]
    rows[:missing] = [replace(row, target_offset=None) for row in rows[:missing]]
    assert rate_group(rows, IDLE, IDLE) is rating


def test_a_group_is_active_on_both_clusters_by_its_members_too() -> None:
    with_members = GroupSide("Empty", 2)
    assert rate_group([ROW], with_members, ACTIVE) is Rating.BOTH_ACTIVE
    assert rate_group([], ACTIVE, with_members) is Rating.BOTH_ACTIVE
    assert rate_group([replace(ROW, divergence=7)], ACTIVE, ACTIVE) is Rating.SKIPS
    for source, target in ((IDLE, ACTIVE), (ACTIVE, GroupSide())):
        assert rate_group([ROW], source, target) is rate_group([], source, target)
        assert rate_group([], source, target) is Rating.IN_STEP


def test_of_many_members_a_view_keeps_the_first_in_the_order_of_screens() -> None:
    named = tuple(make_member(f"c{number:02}", "h") for number in reversed(range(60)))
    (group,) = summarize_groups((), {"g": GroupView("Stable", 60, named=named)}, {})
    assert [m.client_id for m in group.source.named] == [f"c{number:02}" for number in range(50)]


def test_rows_of_a_group_that_cannot_be_read_on_the_target_do_not_say_not_moved() -> None:
    made_of = snapshot(target={})
    unread = replace(made_of, target={"g": GroupView("", None, error="not authorized")})
    (row,) = make_group_rows(unread)
    assert rate(row) is Rating.UNREAD and row.reason == "on the target: not authorized"
    (group,) = summarize_groups([row], unread.source, unread.target)
    assert group.rating is Rating.UNREAD
    (not_moved,) = make_group_rows(made_of)
    assert rate(not_moved) is Rating.NOT_MOVED
    assert {**row.as_json(), "state_target": "Empty", "reason": ""} == not_moved.as_json()
    assert Agreement().settle([row], 0, 0) == [row]


def test_commits_of_a_group_that_cannot_be_described_count() -> None:
    """The state and the commits of a group are read by two requests."""
    described = snapshot(40, at(560))
    undescribed = replace(
        described, target={"g": GroupView("", None, at(560), error="not authorized")}
    )
    (row,) = make_group_rows(undescribed)
    assert (rate(row), row.finding, row.divergence) == (Rating.SKIPS, Finding.SETTLED, 20)
    (group,) = summarize_groups([row], undescribed.source, undescribed.target)
    assert (group.skips, group.ahead, group.rating) == (20, 1, Rating.UNREAD)
    # The source's commits are older: this explains the difference, whatever cannot be described.
    (row,) = make_group_rows(replace(undescribed, source_down="it is gone"))
    assert (rate(row), row.finding) == (Rating.MOVING, Finding.MOVING)


def test_two_readings_find_no_mapping_for_a_group_that_cannot_be_read_on_the_target() -> None:
    made_of = snapshot(target={})
    source = {"g": replace(made_of.source["g"], unsettled={("s", 0): "not final"})}
    target = {"g": GroupView("", None, error="not authorized")}
    rows, agreement = make_group_rows(replace(made_of, source=source, target=target)), Agreement()
    ratings = [rate(row) for _ in range(2) for row in agreement.settle(rows, 0, 0)]
    assert ratings == [Rating.CHECKING, Rating.UNMAPPED]


def test_a_group_that_is_not_rated_is_not_in_step() -> None:
    group = GroupSummary("g", IDLE, IDLE, 1, {}, 0, 0, 0)
    assert group.rating is Rating.UNREAD


def test_partitions_that_share_a_position_on_the_target_count_once() -> None:
    """By both columns: that of a move, and that beside MirrorMaker 2."""
    rows = [
        replace(ROW, partition=number, reread=7, skipped=2, skipped_now=0) for number in range(3)
    ]
    # A move does not set what has no mapping, whatever is known of it.
    rows.append(
        replace(ROW, topic="u", target_topic="u", basis=Basis.UNMAPPED, reread=50, skipped_now=0)
    )
    now, after = estimate_rereads(rows)
    assert (now, after) == (RereadEstimate(), RereadEstimate(7, 2))
    (group,) = summarize_groups(rows, {}, {})
    assert (group.moved_rereads, group.moved_skips, group.unknown_moved) == (7, 2, 1)
    assert group.ours == RereadEstimate(7, unknown=1)
