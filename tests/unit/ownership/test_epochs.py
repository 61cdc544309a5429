"""Several drivers of one pipeline against a model of the coordinator, in any order of steps.

Whatever is lost, late, timed out, suspended or killed: every record is committed once and in
order, and of drivers that were not killed one is left that continues.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.model.coordinator import Fault, Version
from tests.support.model.drivers import Cluster, ModelDriver, actions, steps
from tests.support.schedule.examples import examples

ANY = actions(
    ["step"] * 12
    + ["start", "time out", "time out", "expire", "move", "arrive", "kill"]
    + ["block", "block", "unblock", "complete", "lose", "lost", "lost"]
)


@settings(max_examples=examples(300))
@given(
    version=st.sampled_from(Version),
    first_epoch=st.sampled_from([-1, 32758, 32764]),
    happening=st.lists(ANY, max_size=80),
)
def test_any_order_of_steps(version: Version, first_epoch: int, happening: list[Any]) -> None:
    cluster = Cluster(version, first_epoch)
    cluster.act(("start", 1, 0, Fault.NONE))
    for action in happening:
        cluster.act(action)
        cluster.check()
    cluster.settle()
    cluster.check()


def second_copies(cluster: Cluster, slots: int) -> ModelDriver:
    """Let another driver take over, and copy."""
    cluster.act(("start", slots - 1, 0, Fault.NONE))
    second, before = cluster.drivers[-1], cluster.counts()
    while not all(now > was + 2 for now, was in zip(cluster.counts(), before, strict=True)):
        assert second.running
        steps(second, 1)
        cluster.target.complete()
    return second


@pytest.mark.parametrize("version", Version)
def test_suspended_at_any_request_of_a_recovery(version: Version) -> None:
    """It is superseded meanwhile, by a driver with other slots: awake again, it copies nothing."""
    for suspended_after in range(40):
        cluster = Cluster(version, -1)
        cluster.act(("start", 0, 0, Fault.NONE))
        first = cluster.drivers[0]
        while cluster.target.ids.get("g.0") is None or "g.0" not in cluster.target.open():
            steps(first, 1)
        cluster.target.time_out("g.0")
        steps(first, suspended_after)
        second = second_copies(cluster, 2)
        for _ in range(100):
            steps(first, 1)
            steps(second, 1)
            cluster.check()
        assert second.running and not first.running, suspended_after
        cluster.settle()
        cluster.check()


@pytest.mark.parametrize("version", Version)
def test_a_suspended_starter_raises_one_slot_at_most(version: Version) -> None:
    """The check before each slot: it may be late for the one that it was about to raise."""
    for suspended_after in range(2, 30):  # after two it has been the owner
        cluster = Cluster(version, -1)
        cluster.act(("start", 2, 0, Fault.NONE))
        first = cluster.drivers[0]
        steps(first, suspended_after)
        second = second_copies(cluster, 3)
        before = {name: known_id.epoch for name, known_id in cluster.target.ids.items()}
        for _ in range(60):
            steps(first, 1)
            cluster.target.complete()
        raised = [n for n, was in before.items() if cluster.target.ids[n].epoch != was]
        assert len(raised) <= 1, suspended_after
        assert second.running
        cluster.settle()
        assert second.running


@pytest.mark.parametrize("version", Version)
def test_an_aborted_transaction_is_no_competitor(version: Version) -> None:
    """Not even at the last epoch of a producer id."""
    for first_epoch in (-1, *range(32750, 32766)):
        cluster = Cluster(version, first_epoch)
        cluster.act(("start", 1, 0, Fault.NONE))
        (driver,) = cluster.drivers
        for _ in range(20):
            while not cluster.target.open():
                steps(driver, 1)
            for name in cluster.target.open():
                cluster.target.time_out(name)
            cluster.target.complete()
        cluster.settle()
        cluster.check()
        assert len(cluster.drivers) == 1
