"""Transactions that cannot end, because a partition takes no marker, on the model of a coordinator.

Every rule of k2ktui.replication.driver.isolation is needed: without it, one of these tests fails.
"""

from __future__ import annotations

import pytest

from tests.support.model.coordinator import Fault, Version
from tests.support.model.drivers import Cluster, steps


@pytest.mark.parametrize("version", Version)
@pytest.mark.parametrize("aborted", [False, True])
def test_suspended_while_its_transaction_cannot_end(version: Version, *, aborted: bool) -> None:
    """Another driver continues without that transactional id; the first awakes when it is free."""
    for suspended_after in range(60):
        cluster = Cluster(version, -1)
        cluster.act(("start", 0, 0, Fault.NONE))
        first = cluster.drivers[0]
        while not cluster.counts()[0]:
            steps(first, 1)
        steps(first, suspended_after)
        cluster.target.block("g.0")
        if aborted:
            cluster.target.time_out("g.0")
        cluster.act(("start", 0, 0, Fault.NONE))
        second = cluster.drivers[-1]
        for _ in range(60):
            steps(second, 1)
            cluster.target.complete()
        cluster.target.blocked.clear()
        cluster.target.complete()
        for _ in range(100):
            steps(first, 1)
            steps(second, 1)
            cluster.check()
        assert second.running and not first.running, suspended_after
        cluster.settle()
        cluster.check()


@pytest.mark.parametrize("version", Version)
def test_a_lost_task_whose_transaction_cannot_end(version: Version) -> None:
    """Its driver continues with another id only if the task cannot write any longer."""
    for lost_after in range(60):
        cluster = Cluster(version, -1)
        cluster.act(("start", 0, 0, Fault.NONE))
        (driver,) = cluster.drivers
        while not cluster.counts()[0]:
            steps(driver, 1)
        steps(driver, lost_after)
        cluster.target.block("g.0")
        driver.loses = True
        for _ in range(60):
            steps(driver, 1)
            cluster.target.complete()
        cluster.target.blocked.clear()
        cluster.target.complete()
        for _ in range(20):
            cluster.act(("lost", 0, 0, Fault.NONE))
            cluster.check()
        cluster.settle()
        cluster.check()


@pytest.mark.parametrize("version", Version)
def test_others_continue_while_a_transaction_cannot_end(version: Version) -> None:
    """Whatever the task was doing: with a spare id, and with the first one when it is free."""
    for blocked_after in range(60):
        cluster = Cluster(version, -1)
        cluster.act(("start", 0, 0, Fault.NONE))
        (driver,) = cluster.drivers
        while not cluster.counts()[0]:
            steps(driver, 1)
        steps(driver, blocked_after)
        for name in ("g.0", "g.1"):
            cluster.target.block(name)
            before = cluster.counts()[0]
            for _ in range(80):
                steps(driver, 1)
                cluster.target.complete()
            assert cluster.counts()[0] > before + 5, blocked_after
            cluster.target.blocked.clear()
        cluster.settle()
        cluster.check()
