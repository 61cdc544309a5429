"""Runs that share a pipeline agree on one layout, whatever they and others do meanwhile."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.model.sharing_layouts import LayoutRuns
from tests.support.model.sharing_runs import BEAT_S, GRACE_S
from tests.support.schedule.examples import examples
from tests.unit.ownership.test_slot_sharing import check_settled

ACTIONS = st.tuples(
    st.sampled_from(
        ["seconds"] * 6
        + ["step"] * 4
        + ["join", "join", "kill", "leave", "suspend", "compact", "alone", "time out", "slots"]
    ),
    st.integers(0, 40),
    st.integers(1, 12),
)


def act(runs: LayoutRuns, action: tuple[str, int, int]) -> None:
    kind, one, other = action
    if kind == "alone":
        runs.start_alone(dies_after=one % 8)
    elif kind == "time out":
        runs.records.time_out()
    elif kind == "compact" and other % 2:
        runs.records.compact()
    elif kind == "slots":
        runs.slots = [None, 2, 3, 4][other % 4]
    else:
        runs.act(action)


def settle(runs: LayoutRuns) -> None:
    """Nothing more happens; runs that copy alone end."""
    for _ in range(60):
        runs.pass_second()
    assert not runs.exclusive
    runs.settle()
    runs.settle()
    before = runs.records.divisions
    check_settled(runs, runs.shared)  # type: ignore[arg-type]
    assert runs.records.divisions == before, "none divides it again"


@settings(max_examples=examples(300), deadline=None)
@given(happening=st.lists(ACTIONS, max_size=40))
def test_whatever_happens_the_runs_agree_on_one_layout(happening: list[Any]) -> None:
    """Runs join, end, die and are suspended while they divide; others copy it alone meanwhile."""
    runs = LayoutRuns()
    runs.join(5)
    for action in happening:
        act(runs, action)
    settle(runs)


@pytest.mark.parametrize("number", [1, 2, 10])
def test_runs_that_start_at_once_divide_it_once_or_twice(number: int) -> None:
    """The first leader's work is not undone by the next one."""
    runs = LayoutRuns()
    for name in range(number, 0, -1):
        runs.join(name)
    for _ in range(60):
        runs.pass_second()
    assert runs.records.divisions <= 2
    settle(runs)


def test_a_leader_that_dies_while_it_divides_is_followed_by_another() -> None:
    for looks in range(12):
        runs = LayoutRuns()
        leader, other = runs.join(1), runs.join(2)
        for _ in range(looks):
            runs.pass_second()
        leader.is_dead = True
        for _ in range(int(4 * GRACE_S)):
            runs.pass_second()
        assert other.holds == set(range(3))


def test_a_run_that_leads_again_takes_the_slots_over_after_the_grace_window() -> None:
    """It began to lead before a run with a lower id came, which divided the pipeline and died."""
    runs = LayoutRuns()
    again = runs.join(5)
    for _ in range(2):
        runs.pass_second()
    lower = runs.join(1)
    runs.settle()
    assert lower.holds and runs.records.divisions == 1
    lower.is_dead = True
    for _ in range(int(GRACE_S + BEAT_S) + 4):
        runs.pass_second()
    assert again.holds == set(range(3)) and runs.records.divisions == 1


def test_runs_that_share_continue_when_a_run_that_copied_alone_has_ended() -> None:
    runs = LayoutRuns()
    runs.join(1), runs.join(2)
    runs.settle()
    assert runs.shared.owners
    runs.start_alone()
    for _ in range(10):
        runs.pass_second()
    assert runs.shared.alone and not runs.shared.owners
    before = runs.records.divisions
    for _ in range(10):
        runs.pass_second()
    assert runs.shared.alone and runs.records.divisions == before, "it is not fenced"
    settle(runs)


def test_runs_that_share_continue_when_one_dies_before_it_fences_them() -> None:
    """It has written that it copies alone, and has not committed that."""
    runs = LayoutRuns()
    run = runs.join(1)
    runs.settle()
    runs.start_alone(dies_after=2)
    for _ in range(4):
        runs.pass_second()
    newest = runs.records.written[-1]
    assert newest.layout is None and newest != runs.records.committed
    settle(runs)
    assert run.holds == set(range(3)) and runs.records.divisions == 1


def test_the_number_of_slots_is_the_leaders() -> None:
    runs = LayoutRuns()
    runs.slots = 4
    runs.join(5)
    runs.settle()
    assert runs.shared.layout.slots == 4
    runs.slots = 2
    runs.join(7)
    runs.settle()
    assert runs.shared.layout.slots == 4, "it does not lead"
    runs.join(1)
    runs.settle()
    assert runs.shared.layout.slots == 2
    runs.slots = None
    runs.join(0)
    runs.settle()
    assert runs.shared.layout.slots == 2, "its file does not say how many"
    assert runs.records.divisions == 2


def test_a_run_record_that_was_aborted_and_compacted_leaves_no_slot_behind() -> None:
    """A run has seen it when it took a slot over, and regards the layout as outdated."""
    runs = LayoutRuns()
    leader = runs.join(1)
    runs.settle()
    runs.records.bump("x")
    assert runs.records.write("x", None)
    runs.shared.owners.clear()  # another run has taken its slots over and died
    for _ in range(3):
        runs.pass_second()
    assert not runs.shared.owners
    runs.records.time_out()
    runs.records.compact()
    settle(runs)
    assert leader.holds == set(range(3))
