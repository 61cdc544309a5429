"""Faults of a lap that end when the source topic has changed meanwhile: they end no run."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from k2ktui.engine.state import Position, SourcePartition
from k2ktui.replication.commit_state import CommitState
from k2ktui.replication.discovery import TopicSnapshot
from k2ktui.replication.driver import Driver
from k2ktui.replication.events import Event, Finished, Stopped
from k2ktui.replication.slot_task import (
    CopyPath,
    Fault,
    FaultKind,
    LapOutcome,
    Route,
    SlotResult,
    SlotTask,
)
from tests.replication.test_client_settings import pipeline
from tests.replication.test_slot_driver import Fencer, Laps
from tests.support.kafka import eventually

GONE, OTHER = SourcePartition("gone", 0), SourcePartition("other", 0)
POSITIONS = {each: Position(5, 0, -1, "", 3, 0, each.topic, 0) for each in (GONE, OTHER)}
LIMIT = 4711


class Recovering(Fencer):
    """Has taken a pipeline of two topics over; after a failed lap, no position has changed."""

    def take_over(self, slots: int) -> CommitState:
        return CommitState(self.run, POSITIONS)

    def recover(self, slot: int) -> None:
        """Nothing is left of the lap."""

    def read(self, interrupted: object) -> CommitState:
        return CommitState(self.run, POSITIONS)


class Discovery:
    """Finds what ``sources`` says at that moment."""

    def __init__(self) -> None:
        self.sources = [GONE, OTHER]
        self.found = 0

    def discover(self, positions: object, is_well: bool = True) -> TopicSnapshot:
        self.found += 1
        return TopicSnapshot(
            {each: Route(CopyPath.VERBATIM, each.topic, 0, 1) for each in self.sources}
        )

    def batch_limit(self, snapshot: TopicSnapshot, source: SourcePartition) -> int:
        assert source in snapshot.routes
        return LIMIT


def too_large() -> SlotResult:
    fault = Fault(GONE, FaultKind.TOO_LARGE, "9 bytes exceed its max.message.bytes", "Raise it.", 5)
    return SlotResult(0, LapOutcome.FAILED, {}, (fault,), error="gone-0 rejected a batch")


def test_a_batch_was_too_large_for_a_topic_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the topic is there again later, its batches are split as if nothing had happened."""
    monkeypatch.setattr("k2ktui.replication.driver._DISCOVERY_INTERVAL_S", 0.0)
    fencer: Any = Recovering()
    spark: Any = Laps()
    spark.cancel = lambda: None
    discovery: Any = Discovery()
    events: list[Event] = []
    driver = Driver(pipeline(), fencer, spark, discovery, events.append, mapping_partitions=0)

    def next_lap(number: int) -> SlotTask:
        eventually(lambda: len(spark.tasks) > number or ended.done(), f"lap {number}", 10)
        assert not ended.done(), ended.exception()
        task: SlotTask = spark.tasks[number]
        return task

    def discover(*sources: SourcePartition) -> None:
        discovery.sources, before = list(sources), discovery.found
        eventually(lambda: discovery.found > before + 2, "found and applied", 10)

    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(driver.run, 1)
        try:
            assert [each.source for each in next_lap(0).assignments] == [GONE, OTHER]
            discover(OTHER)
            spark.running[0].set_result([too_large()])
            assert [each.source for each in next_lap(1).assignments] == [OTHER]

            discover(GONE, OTHER)
            spark.running[1].set_result([SlotResult(0, LapOutcome.DONE, {})])
            limits = {a.source: a.route.batch_limit for a in next_lap(2).assignments}
            assert limits == {GONE: 0, OTHER: 0}
            spark.running[2].set_result([too_large()])
            limits = {a.source: a.route.batch_limit for a in next_lap(3).assignments}
            assert limits == {GONE: LIMIT, OTHER: 0}
        finally:
            driver.stop()
        finished = ended.result(10)
    assert isinstance(finished, Finished) and not finished.faults
    assert not [each for each in events if isinstance(each, Stopped)]
