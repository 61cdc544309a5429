"""Runs that share slots: whatever happens, the live ones soon own all slots, and keep them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from k2ktui.engine.ownership.assignment_records import owners_key, owners_value
from k2ktui.engine.ownership.slot_owners import SlotOwners
from k2ktui.engine.records.run_record import SharedLayout
from tests.support.model.sharing_runs import (
    BEAT_S,
    GRACE_S,
    GROUP,
    RELEASE_S,
    EpochRegister,
    SharingRuns,
)
from tests.support.schedule.examples import examples

KINDS = ["seconds"] * 6 + ["step"] * 6 + ["join", "join", "kill", "leave", "suspend", "compact"]
ACTIONS = st.tuples(st.sampled_from([*KINDS, "layout"]), st.integers(0, 40), st.integers(1, 12))


def make_runs(slots: int) -> tuple[SharingRuns, EpochRegister]:
    register = EpochRegister(SharedLayout("layout 0", slots, ready=True))
    return SharingRuns(register), register


def check_settled(runs: SharingRuns, register: EpochRegister) -> None:
    """Each slot has one owner among the live runs, evenly, and no slot moves any longer."""
    slots = register.layout.slots
    assert set(register.owners) == set(range(slots)), "each slot is copied"
    names = {run.name for run in runs.live}
    loads = Counter(register.owners.values())
    assert loads.keys() <= names
    assert max(loads[name] for name in names) - min(loads[name] for name in names) <= 1
    for run in runs.live:
        assert run.holds == {s for s, name in register.owners.items() if name == run.name}
        assert run.owners == runs.live[0].owners
        assert not run.owners.releasing
    before = register.takeovers
    for _ in range(40):
        runs.pass_second()
    assert register.takeovers == before, "none takes a slot from another one"


@settings(max_examples=examples(300))
@given(slots=st.integers(1, 12), happening=st.lists(ACTIONS, max_size=60))
def test_whatever_happens_the_live_runs_own_all_slots(slots: int, happening: list[Any]) -> None:
    """Runs join, end, die and are suspended at any step; records are compacted; layouts change."""
    runs, register = make_runs(slots)
    runs.join(5)
    for number, action in enumerate(happening):
        kind, _, other = action
        if kind == "layout":
            register.change_layout(SharedLayout(f"layout {number}", other))
        else:
            runs.act(action)
    runs.settle()
    check_settled(runs, register)


@given(number=st.integers(1, 10), slots=st.integers(1, 24))
def test_runs_that_start_at_once_share_all_slots(number: int, slots: int) -> None:
    """Their clocks are hours apart."""
    runs, register = make_runs(slots)
    for name in range(number):
        runs.join(name)
    runs.settle()
    check_settled(runs, register)


@given(st.integers(2, 5), st.integers(1, 12), st.integers(0, 4))
def test_slots_of_a_run_that_is_gone_move_after_the_grace_window(
    number: int, slots: int, gone: int
) -> None:
    runs, register = make_runs(slots)
    for name in range(number):
        runs.join(name)
    runs.settle()
    dead = runs.runs[gone % number]
    dead.is_dead = True
    had, before = set(dead.holds), register.takeovers
    for second in range(int(2 * GRACE_S)):
        runs.pass_second()
        if second < GRACE_S - 2 * BEAT_S - 1:
            assert register.takeovers == before, "it may be slow"
    assert register.takeovers == before + len(had), "no other slot has moved"
    check_settled(runs, register)


def test_the_record_of_a_run_that_is_gone_is_removed() -> None:
    """A run that starts later does not wait for it; one that was suspended takes part again."""
    runs, register = make_runs(4)
    dead, suspended, leader = runs.join(1), runs.join(2), runs.join(0)
    runs.settle()
    dead.is_dead = True
    suspended.awake_in = int(3 * GRACE_S)
    for _ in range(int(2 * GRACE_S)):
        runs.pass_second()
    assert leader.members == {leader.name} and len(leader.holds) == 4
    assert leader.known_members == {leader.name, dead.name, suspended.name}, (
        "their heartbeats are known"
    )
    late = runs.join(9)
    for _ in range(6):
        runs.pass_second()
    assert len(late.holds) == len(leader.holds) == 2
    runs.settle()
    assert leader.members == {leader.name, late.name, suspended.name}
    check_settled(runs, register)


@given(st.permutations(range(4)), st.booleans())
def test_slots_of_a_process_that_ended_move_at_once_if_a_run_is_on_its_host(
    numbers: list[int], has_started_again: bool
) -> None:
    """The runs on other hosts see it too, whichever of them leads."""
    runs, register = make_runs(8)
    here, other, elsewhere = (
        runs.join_on(host, n) for host, n in zip(("h", "h", "i"), numbers, strict=False)
    )
    runs.settle()
    runs.kill(here)
    if has_started_again:
        runs.kill(other)
        other = runs.join_on("h", numbers[3])
    for _ in range(6):
        runs.pass_second()
    assert other.members == elsewhere.members == {other.name, elsewhere.name}
    assert len(other.holds) == len(elsewhere.holds) == 4
    check_settled(runs, register)


def test_a_container_that_starts_again_with_the_same_pid_does_not_wait_for_its_predecessor() -> (
    None
):
    runs, register = make_runs(2)
    before = runs.join_on("h", 1, pid=1)
    runs.settle()
    runs.kill(before)
    again = runs.join_on("h", 2, pid=1)
    for _ in range(3):
        runs.pass_second()
    assert again.members == {again.name} and len(again.holds) == 2
    check_settled(runs, register)


def test_a_process_that_ended_on_another_host_is_not_seen() -> None:
    runs, _ = make_runs(2)
    gone, left = runs.join_on("h", 1), runs.join_on("i", 2)
    runs.settle()
    runs.kill(gone)
    for _ in range(int(GRACE_S - 2 * BEAT_S)):
        runs.pass_second()
    assert left.members == {left.name, gone.name} and len(left.holds) == 1


def test_a_run_that_ends_hands_its_slots_over_at_once() -> None:
    runs, _ = make_runs(6)
    first, second = runs.join(1), runs.join(2)
    runs.settle()
    assert len(first.holds) == len(second.holds) == 3
    first.is_leaving = True
    for _ in range(4):
        runs.pass_second()
    assert first.is_dead and len(second.holds) == 6


def pass_seconds(runs: SharingRuns, seconds: float) -> None:
    for _ in range(int(seconds)):
        runs.pass_second()


@given(st.permutations(range(3)), st.integers(2, 9), st.integers(0, int(RELEASE_S)))
def test_a_slot_that_a_live_run_never_releases_moves_after_the_grace_window_and_a_lap(
    numbers: list[int], slots: int, leads_s: int
) -> None:
    """Any of them may lead; another run begins to lead meanwhile. It keeps what it still owns."""
    runs, register = make_runs(slots)
    stuck = runs.join(1 + numbers[0])
    runs.settle()
    stuck.is_stuck = True
    other = runs.join(1 + numbers[1])
    pass_seconds(runs, leads_s)
    third = runs.join(0)  # it leads, and has seen less of the wait
    pass_seconds(runs, 3)
    third.is_leaving = True
    pass_seconds(runs, max(RELEASE_S - leads_s - 3 - 2 * BEAT_S, 0))
    if leads_s < RELEASE_S - 3 * BEAT_S:
        assert not register.stolen, "it may be slow"
    pass_seconds(runs, RELEASE_S + 2 * BEAT_S)
    loads = Counter(register.owners.values())
    assert loads.keys() == {stuck.name, other.name} and sum(loads.values()) == slots
    assert abs(loads[stuck.name] - loads[other.name]) <= 1
    assert not other.owners.releasing and other.holds == other.owners.of(other.name)
    takeovers = register.takeovers
    pass_seconds(runs, 2 * RELEASE_S)
    assert register.takeovers == takeovers, "it loses no more"
    stuck.is_stuck = False
    runs.settle()
    check_settled(runs, register)


def test_a_slot_is_not_taken_from_a_run_while_others_cannot_see_whether_it_releases_it() -> None:
    """They are suspended: no time counts that they do not see."""
    runs, register = make_runs(4)
    slow = runs.join(2)
    runs.settle()
    slow.is_stuck = True
    other = runs.join(1)
    pass_seconds(runs, 5)
    assert other.owners.releasing
    other.awake_in = int(3 * RELEASE_S)
    pass_seconds(runs, 3 * RELEASE_S)
    slow.is_stuck = False
    pass_seconds(runs, 5)
    assert not register.stolen
    runs.settle()
    check_settled(runs, register)


STEADY = st.tuples(
    st.sampled_from(["join", *["seconds"] * 2, *["step"] * 4]), st.integers(0, 8), st.integers(1, 9)
)


@settings(max_examples=examples(200))
@given(slots=st.integers(1, 12), happening=st.lists(STEADY, max_size=60))
def test_a_slot_is_released_before_it_moves(slots: int, happening: list[Any]) -> None:
    """Runs join and act in any order: none fences another one that works, if the leader stays."""
    runs, register = make_runs(slots)
    runs.join(0).look()
    for kind, one, other in happening:
        runs.act((kind, 1 + one, other))
        assert not register.stolen
    runs.settle()
    check_settled(runs, register)
    assert not register.stolen


def test_a_run_that_has_not_applied_a_generation_has_released_nothing() -> None:
    """It takes slots over of an earlier one, and has not reported them yet."""
    runs, register = make_runs(4)
    leader = runs.join(0)
    runs.settle()
    slow = runs.join(1)
    while len(slow.holds) < 2:
        slow.step()
        if not slow.owners.of(slow.name):
            leader.look()
    late = runs.join(2)
    for _ in range(6):
        leader.look()
        late.look()
        assert not register.stolen
    assert leader.owners.releasing
    runs.settle()
    check_settled(runs, register)


def test_a_run_follows_the_last_owners_even_of_a_leader_that_was_suspended() -> None:
    """Two write the same generation; compaction removes the first one before a run has read it."""
    runs, register = make_runs(4)
    first, second = runs.join(1), runs.join(2)
    runs.settle()
    owners, names = first.owners, [first.name, second.name]
    second.awake_in = 4
    for order in (names, names[::-1]):
        stale = {slot: order[slot % 2] for slot in range(4)}
        late = SlotOwners(owners.generation + 1, "0", owners.layout, stale)
        runs.topic.put(owners_key(GROUP), owners_value(late))
        first.look()
        runs.topic.compact()
    runs.settle()
    check_settled(runs, register)


@pytest.mark.parametrize("slots", [1, 3])
def test_more_runs_than_slots(slots: int) -> None:
    runs, register = make_runs(slots)
    for number in range(5):
        runs.join(number)
    runs.settle()
    check_settled(runs, register)
    assert sum(bool(run.holds) for run in runs.live) == slots
