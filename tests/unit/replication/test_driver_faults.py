"""Faults of a lap that end when the source topic has changed meanwhile: they end no run."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.replication.copying.slot_task import (
    CopyPath,
    Fault,
    FaultKind,
    LapOutcome,
    Route,
    SizeLimit,
    SlotResult,
    SlotTask,
)
from k2ktui.replication.driver.driver import Driver
from k2ktui.replication.ownership.commit_state import CommitState
from k2ktui.replication.reports.events import Event, Finished, Stopped
from k2ktui.replication.reports.status import RunStatus
from k2ktui.replication.topics.discovery import TopicSnapshot
from tests.brokers.ownership.test_slot_driver import Laps, Owned
from tests.support.clusters.kafka import TIMEOUT, eventually
from tests.support.model.run_parts import run_parts
from tests.unit.replication.test_client_settings import pipeline

GONE, OTHER = SourcePartition("gone", 0), SourcePartition("other", 0)
POSITIONS = {source: Position(5, 0, -1, "", 3, 0, source.topic, 0) for source in (GONE, OTHER)}
LIMIT = SizeLimit(4711, 9000)


class Recovering(Owned):
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
        self.sizes = {"gone": (1_000, "gzip")}
        self.discovered = 0

    def discover(
        self, positions: object, is_well: bool = True, moved: object = None, lost_term: int = 0
    ) -> TopicSnapshot:
        self.discovered += 1
        return TopicSnapshot(
            {source: Route(CopyPath.VERBATIM, source.topic, 0, 1) for source in self.sources},
            sizes=self.sizes,
        )

    def read_sizes(self, topics: object) -> dict[str, tuple[int, str]]:
        return {"gone": (1_000, "gzip")}


def too_large(offset: int = 5) -> SlotResult:
    text = "gone-0 exceeds its max.message.bytes"
    fault = Fault(GONE, FaultKind.TOO_LARGE, text, "Raise it.", offset, "gone")
    return SlotResult(0, LapOutcome.FAILED, {}, (fault,), error="gone-0 rejected a batch")


def split() -> SlotResult:
    return SlotResult(0, LapOutcome.DONE, {}, size_limits={GONE: LIMIT})


def test_what_a_lap_learns_of_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Later laps know it; a record that is too large alone stops its partition only."""
    monkeypatch.setattr("k2ktui.replication.driver.driver._DISCOVERY_INTERVAL_S", 0.0)
    ownership: Any = Recovering()
    spark: Any = Laps()
    discovery: Any = Discovery()
    events: list[Event] = []
    status = RunStatus("p", events.append).add_driver()
    driver = Driver(run_parts(pipeline(), spark), ownership, discovery, status)

    def next_lap(number: int) -> SlotTask:
        eventually(lambda: len(spark.tasks) > number or ended.done(), f"lap {number}")
        assert not ended.done(), ended.exception()
        task: SlotTask = spark.tasks[number]
        return task

    def discover(*sources: SourcePartition) -> None:
        discovery.sources, before = list(sources), discovery.discovered
        eventually(lambda: discovery.discovered > before + 2, "found and applied")

    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(driver.run, 1)
        try:
            assert [assignment.source for assignment in next_lap(0).assignments] == [GONE, OTHER]
            discover(OTHER)
            spark.running[0].set_result([too_large()])
            assert [assignment.source for assignment in next_lap(1).assignments] == [OTHER]

            discover(GONE, OTHER)
            spark.running[1].set_result([SlotResult(0, LapOutcome.DONE, {})])
            limits = {a.source: a.size_limit for a in next_lap(2).assignments}
            assert limits == {OTHER: None}, "stopped"
            spark.running[2].set_result([SlotResult(0, LapOutcome.DONE, {})])
            next_lap(3)
            status.stopped.clear(GONE)  # as after 30 s
            spark.running[3].set_result([SlotResult(0, LapOutcome.DONE, {})])
            limits = {a.source: a.size_limit for a in next_lap(4).assignments}
            assert limits == {GONE: None, OTHER: None}
            spark.running[4].set_result([split()])
            limits = {a.source: a.size_limit for a in next_lap(5).assignments}
            assert limits == {GONE: LIMIT, OTHER: None}
            discovery.sizes = {"gone": (2_000, "gzip")}
            discover(OTHER, GONE)
            spark.running[5].set_result([SlotResult(0, LapOutcome.DONE, {})])
            limits = {a.source: a.size_limit for a in next_lap(6).assignments}
            assert limits == {GONE: None, OTHER: None}, "the target accepts other sizes now"
            most = {a.source: a.max_message_bytes for a in next_lap(6).assignments}
            assert most == {GONE: 2_000, OTHER: None}
            spark.running[6].set_result([too_large(9)])
            # What is before it is copied by another lap, which ends with the same fault.
            before, other = next_lap(7).assignments
            assert (before.source, before.position.offset, other.refused) == (GONE, 5, None)
            assert before.refused is not None and before.refused.offset == 9
            # Where keys choose the partition, an earlier record may be refused afterwards.
            (earlier,) = too_large(7).faults
            failed = SlotResult(0, LapOutcome.FAILED, {}, (earlier, before.refused))
            spark.running[7].set_result([failed])
            before, _ = next_lap(8).assignments
            assert before.refused is not None and before.refused.offset == 7
            moved = {GONE: replace(POSITIONS[GONE], offset=7)}
            spark.running[8].set_result([SlotResult(0, LapOutcome.DONE, moved, (before.refused,))])
            assert [assignment.source for assignment in next_lap(9).assignments] == [OTHER]
        finally:
            driver.stop()
        finished = ended.result(TIMEOUT)
    assert isinstance(finished, Finished)
    assert any(isinstance(event, Stopped) for event in events)
    (fault,) = finished.faults
    assert fault.message == (
        "gone-0 exceeds its max.message.bytes (compression.type gzip, max.message.bytes 1,000)"
    )
