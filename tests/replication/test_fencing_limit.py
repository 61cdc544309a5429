"""``fencingMaxParallelism``: how many slots one run fences at the same time."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from k2ktui.replication.fencing import TransactionFencer
from k2ktui.replication.pipeline_fencing import make_fencer
from k2ktui.replication.slot_fencing import SlotFencer
from tests.replication.test_client_settings import pipeline
from tests.support.kafka import eventually

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

    def bump(_: Any, slots: int) -> None:
        nonlocal fencing, most
        with lock:
            fencing += 1
            most = max(most, fencing)
        assert may_continue.acquire(timeout=30)
        with lock:
            fencing -= 1

    monkeypatch.setattr(TransactionFencer, "_connect", lambda _: None)
    monkeypatch.setattr(TransactionFencer, "_try_to_fence_others", bump)
    target: Any = None
    whole = make_fencer(config, target, {"bootstrap_servers": "localhost:1"}, 1)
    fencers = [whole.make_slot_fencer(slot, "l") for slot in range(SLOTS)]

    def fence(fencer: SlotFencer) -> None:
        fencer.fence()
        reading.wait(30)

    try:
        with ThreadPoolExecutor(SLOTS) as pool:
            taking = [pool.submit(fence, fencer) for fencer in fencers]
            eventually(lambda: fencing == limit, "as many as allowed", 30)
            may_continue.release(SLOTS)
            reading.wait(30)
            for each in taking:
                each.result(30)
        assert most == limit
    finally:
        for fencer in [whole, *fencers]:
            fencer.close(fence=False)
