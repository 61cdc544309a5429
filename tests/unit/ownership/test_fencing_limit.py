"""``fencingMaxParallelism``: how many slots one run fences at the same time."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from k2ktui.errors import TimedOut
from k2ktui.replication.ownership import ownership as ownership_module
from k2ktui.replication.ownership.commit_state import CommitTopic
from k2ktui.replication.ownership.fence import Fence
from k2ktui.replication.ownership.ownership import Claim, Ownership, _SlotFencing
from k2ktui.replication.ownership.pipeline import make_ownership
from tests.support.clusters.kafka import TIMEOUT, eventually
from tests.unit.replication.test_client_settings import pipeline

SLOTS = 5


@pytest.mark.parametrize("limit", [1, 3])
def test_so_many_slots_are_fenced_at_the_same_time(
    limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What follows the bumps has no limit: it waits for the transactions of other slots."""
    config = pipeline(coordination={"assignment": {"fencingMaxParallelism": limit}})
    lock, fencing, most = threading.Lock(), 0, 0
    may_continue = threading.Semaphore(0)
    reading = threading.Barrier(SLOTS + 1)

    def bump(steps: Any, do: Any) -> None:
        nonlocal fencing, most
        with lock:
            fencing += 1
            most = max(most, fencing)
        assert may_continue.acquire(timeout=TIMEOUT)
        with lock:
            fencing -= 1

    monkeypatch.setattr(Fence, "open", lambda _: None)
    monkeypatch.setattr(ownership_module, "carry_out", bump)
    target: Any = None
    whole = make_ownership(config, target, {"bootstrap_servers": "localhost:1"}, 1)
    owned = [whole.of_slot(slot, "l") for slot in range(SLOTS)]

    def fence(ownership: Ownership) -> None:
        ownership.fence()
        reading.wait(TIMEOUT)

    try:
        with ThreadPoolExecutor(SLOTS) as pool:
            taking = [pool.submit(fence, ownership) for ownership in owned]
            eventually(lambda: fencing == limit, "as many as allowed")
            may_continue.release(SLOTS)
            reading.wait(TIMEOUT)
            for slot in taking:
                slot.result(TIMEOUT)
        assert most == limit
    finally:
        for ownership in [whole, *owned]:
            ownership.close(fence=False)


def test_a_slot_that_other_runs_take_each_time_is_named() -> None:
    """It is to be fenced again, after the pipeline's lock was confirmed, until the time is over."""
    claim = Claim("p", CommitTopic("c", 1, "g"), True, 60_000, 0.0, parallelism=2)
    with ThreadPoolExecutor(2) as pool:
        fencing = _SlotFencing(pool, claim, lambda slot: None if slot == 1 else {f"{slot}": (7, 0)})
        for slot in range(3):
            fencing.begin(slot)
        assert fencing.finish() == [1] and set(fencing.states) == {"0", "2"}
        fencing.begin(1)
        with pytest.raises(TimedOut, match="slot 1 of pipeline p could not be fenced"):
            fencing.finish()
