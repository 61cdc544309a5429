"""Runs that divide a pipeline by the assignment topic, against a model of the coordinator.

They join, end, die, are suspended and follow old leaders, while requests are lost or late, layouts
change and what a dead run has started continues: no slot ever has two writers, and in the end all
slots are copied (docs/internals/ownership.md).
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.model.coordinator import Fault, Version
from tests.support.model.drivers import actions
from tests.support.model.sharing import ClusterRegister, SharedCluster
from tests.support.model.sharing_runs import SharingRuns
from tests.support.schedule.examples import examples

RUNS = st.tuples(
    st.sampled_from(
        [*["seconds"] * 3, *["step"] * 5, "join", "join", "kill", "leave", "suspend", "compact"]
    ),
    st.integers(0, 9),
    st.integers(1, 12),
)
COPYING = actions(
    ["step"] * 14
    + ["whole", "time out", "time out", "expire", "move", "arrive", "complete"]
    + ["lose", "lost", "lost"]
)


class Sharing:
    """A model cluster, and the runs that share its slots."""

    def __init__(self, version: Version, first_epoch: int, slots: int) -> None:
        self.cluster = SharedCluster(version, first_epoch)
        self.cluster.share(slots)
        self.register = ClusterRegister(self.cluster)
        self.runs = SharingRuns(self.register)
        self._dice = Random(0)

    def act(self, happening: tuple[Any, ...]) -> None:
        """Let a run, or what copies for one, continue; what copies for dead ones continues too."""
        if len(happening) == 3:
            self.runs.act(happening)
        elif len(self.cluster.drivers) < 40:
            self.cluster.act(happening)
        self.cluster.check()

    def pass_seconds(self, seconds: int, *, dead_continue: bool = False) -> None:
        for _ in range(seconds):
            self.runs.pass_second()
            for run in self.runs.runs if dead_continue else self.runs.live:
                for slot in sorted(run.holds):
                    copies = self.register.copies(run.name, slot)
                    for _ in range(self._dice.randrange(40)):
                        if copies.running:
                            copies.step(Fault.NONE)
            self.cluster.target.complete()
            self.cluster.check()

    def settle(self) -> None:
        """No more faults: the runs that live copy everything; first, the leader makes a layout."""
        self.cluster.target.blocked.clear()
        for run in self.runs.runs:
            run.awake_in = 0
        if all(run.is_leaving for run in self.runs.live):
            self.runs.join(0)
        for driver in self.cluster.drivers:  # what changes the layout has died
            driver.killed |= driver.group == "g"
        self.cluster.target.complete()
        for name in self.cluster.target.open():
            self.cluster.target.time_out(name)
        self.cluster.share(2)
        before = self.cluster.counts()
        self.pass_seconds(60)
        assert all(now > was for now, was in zip(self.cluster.counts(), before, strict=True))
        held = [slot for run in self.runs.live for slot in run.holds]
        assert sorted(held) == [0, 1]
        before = self.cluster.counts()
        self.pass_seconds(30, dead_continue=True)
        assert all(now > was for now, was in zip(self.cluster.counts(), before, strict=True))


@settings(max_examples=examples(300))
@given(
    version=st.sampled_from(Version),
    first_epoch=st.sampled_from([-1, 32758, 32764]),
    slots=st.integers(1, 2),
    happening=st.lists(st.one_of(RUNS, COPYING), max_size=80),
)
def test_whatever_happens_no_slot_has_two_writers_and_all_are_copied(
    version: Version, first_epoch: int, slots: int, happening: list[Any]
) -> None:
    sharing = Sharing(version, first_epoch, slots)
    sharing.runs.join(5)
    sharing.runs.join(6)
    for happened in happening:
        sharing.act(happened)
    sharing.settle()


@pytest.mark.parametrize("version", Version)
def test_a_slot_moves_while_its_owner_is_suspended(version: Version) -> None:
    """When it wakes up, after any number of requests, it is fenced, and copies what it is given."""
    for steps in range(0, 60, 3):
        sharing = Sharing(version, -1, 2)
        runs = sharing.runs
        first = runs.join(1)
        sharing.pass_seconds(5)
        assert first.holds == {0, 1}
        copies = sharing.register.copies(first.name, 0)
        for _ in range(steps):
            copies.step(Fault.NONE)
        first.awake_in, taken = 60, sharing.cluster.counts()
        second = runs.join(2)
        sharing.cluster.check()
        for _ in range(50):
            runs.pass_second()
            for slot in sorted(second.holds):
                for _ in range(20):
                    sharing.register.copies(second.name, slot).step(Fault.NONE)
            sharing.cluster.target.complete()
        assert second.holds == {0, 1}
        assert all(now > was for now, was in zip(sharing.cluster.counts(), taken, strict=True))
        sharing.pass_seconds(60)
        assert len(first.holds) == len(second.holds) == 1
