"""How runs share slots (docs/internals/ownership.md), against a model of the coordinator.

Runs take slots over from each other, and drivers change the layout, move topics or take the whole
pipeline over, in any order of steps with any losses: every record is committed once and in order,
and none of a topic that was moved, until it is released.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.model.coordinator import Version
from tests.support.model.drivers import BEFORE_BUMPS, UNSTABLE, actions, steps
from tests.support.model.sharing import SharedCluster
from tests.support.schedule.examples import examples

ANY = actions(
    ["step"] * 14
    + ["slot"] * 4
    + ["whole", "time out", "time out", "expire", "move", "arrive", "kill", "complete"]
    + ["lose", "lost", "lost"]
)
WITH_MOVES = actions(
    ["step"] * 16
    + ["topic"] * 4
    + ["slot"] * 3
    + ["whole", "whole", "time out", "move", "arrive", "kill", "complete", "lose", "lost", "lost"]
)


@settings(max_examples=examples(300))
@given(
    version=st.sampled_from(Version),
    first_epoch=st.sampled_from([-1, 32758, 32764]),
    slots=st.integers(1, 2),
    happening=st.lists(ANY, max_size=80),
)
def test_any_order_of_steps(
    version: Version, first_epoch: int, slots: int, happening: list[Any]
) -> None:
    cluster = SharedCluster(version, first_epoch)
    cluster.share(slots)
    for slot in range(slots):
        cluster.start_slot(slot)
    for action in happening:
        cluster.act(action)
        cluster.check()
    cluster.settle()
    cluster.check()


@settings(max_examples=examples(300))
@given(
    version=st.sampled_from(Version),
    slots=st.integers(0, 2),
    happening=st.lists(WITH_MOVES, max_size=80),
)
def test_topics_are_moved_and_released_in_any_order_of_steps(
    version: Version, slots: int, happening: list[Any]
) -> None:
    cluster = SharedCluster(version, -1)
    if slots:
        cluster.share(slots)
        for slot in range(slots):
            cluster.start_slot(slot)
    else:
        cluster.start_whole(1, shared=0)
    for action in happening:
        cluster.act(action)
        cluster.check()
    cluster.settle()
    cluster.check()


@pytest.mark.parametrize("version", Version)
def test_two_runs_copy_a_slot_each(version: Version) -> None:
    cluster = SharedCluster(version, -1)
    cluster.share(2)
    runs = [cluster.start_slot(slot) for slot in range(2)]
    cluster.run_slots(400)
    assert all(run is not None and run.running for run in runs)
    assert min(cluster.counts()) > 5
    cluster.check()


@pytest.mark.parametrize("version", Version)
def test_a_slot_moves_while_the_other_one_is_copied(version: Version) -> None:
    """The run that had it is suspended at any request, and writes nothing when it wakes up."""
    for suspended_after in range(40):
        cluster = SharedCluster(version, -1)
        cluster.share(2)
        old, other = cluster.start_slot(0), cluster.start_slot(1)
        assert old is not None and other is not None
        for _ in range(suspended_after):
            steps(old, 1)
            cluster.target.complete()
        new = cluster.start_slot(0)
        assert new is not None
        for _ in range(200):
            for run in (new, other):
                steps(run, 1)
            cluster.target.complete()
        before = cluster.counts()
        assert min(before) > 2
        for _ in range(200):
            for run in (old, new, other):
                steps(run, 1)
            cluster.target.complete()
            cluster.check()
        assert all(now > was for now, was in zip(cluster.counts(), before, strict=True))
        assert new.running != old.running and other.running


def change_layout_meanwhile(cluster: SharedCluster, until: int, after: int) -> None:
    """A run takes slot 1 of 2 over while the layout changes to 1 slot, which another run takes."""
    cluster.share(2)
    late = cluster.start_slot(1)
    assert late is not None
    changing = cluster.start_whole(1, shared=1)
    for number in range(400):
        if number == until:
            steps(late, after)
        steps(changing, 1)
        cluster.target.complete()
    assert not changing.running
    cluster.start_slot(0)
    cluster.run_slots(300)
    cluster.check()


@pytest.mark.parametrize("version", Version)
def test_a_run_never_copies_for_an_earlier_layout(version: Version) -> None:
    for until in range(0, 60, 3):
        for after in range(0, 40, 3):
            change_layout_meanwhile(SharedCluster(version, -1), until, after)


def test_the_layout_must_be_written_before_the_locks_are_bumped() -> None:
    """Written after them, as a takeover writes its run record today, a record is doubled."""
    doubled = 0
    for until in range(0, 60, 3):
        for after in range(0, 40, 3):
            cluster = SharedCluster(Version.TV2, -1, announces=False)
            try:
                change_layout_meanwhile(cluster, until, after)
            except AssertionError as error:
                doubled += "partition 1" in str(error)
    assert doubled


def move_meanwhile(cluster: SharedCluster, until: int, after: int) -> None:
    """A run takes slot 0 of 2 over while its topic is moved; one of slot 1 was killed in a lap."""
    cluster.share(2)
    killed = cluster.start_slot(1)
    assert killed is not None
    while not cluster.copied(1) or cluster.target.ids["g.1.0"].first is None:
        steps(killed, 1)
        cluster.target.complete()
    killed.killed = True
    late = cluster.start_slot(0)
    assert late is not None
    mover = cluster.start_mover(0, moves=True)
    for number in range(200):
        if number == until:
            steps(late, after)
        steps(mover, 1)
        if number > 100:  # its open transaction holds the mover's reading back
            steps(late, 1)
        if number % 7 == 0:
            cluster.target.complete()
        cluster.check()
    assert not mover.running and 0 in cluster.final
    for slot in range(2):
        cluster.start_slot(slot)
    cluster.run_slots(80)
    cluster.check()


INTERLEAVED = [(until, after) for until in range(0, 60, 3) for after in range(0, 40, 4)]


@pytest.mark.parametrize("version", Version)
def test_nothing_of_a_moved_topic_is_copied_by_a_run_that_takes_over_meanwhile(
    version: Version,
) -> None:
    for until, after in INTERLEAVED:
        cluster = SharedCluster(version, -1)
        move_meanwhile(cluster, until, after)
        assert cluster.counts()[1] > 2, "the other topic is copied"


@pytest.mark.parametrize(
    "fault",
    [{"announces_moves": False}, {"reads_moves": BEFORE_BUMPS}, {"reads_moves": UNSTABLE}],
    ids=["recorded after the bumps", "read before the bumps", "read without waiting"],
)
def test_without_either_rule_a_moved_topic_is_copied(fault: dict[str, Any]) -> None:
    """A move is committed before locks are bumped, and read with the positions after the bumps."""
    with pytest.raises(AssertionError, match="copied once moved"):
        for until, after in INTERLEAVED:
            move_meanwhile(SharedCluster(Version.TV2, -1, **fault), until, after)
