"""A driver copies no topic that its takeover found to be moved, and goes on once it is released."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from k2ktui.engine.records.moved_topic import NO_MOVED_TOPICS, MovedTopic, MovedTopics
from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.replication.copying.slot_task import CopyPath, LapOutcome, Route, SlotResult
from k2ktui.replication.driver import driver as driver_module
from k2ktui.replication.driver.driver import Driver
from k2ktui.replication.fencing_errors import ownership_lost
from k2ktui.replication.ownership.commit_state import CommitState
from k2ktui.replication.reports.events import (
    Event,
    Note,
    Started,
)
from k2ktui.replication.reports.status import RunStatus
from k2ktui.replication.topics.discovery import TopicSnapshot
from tests.brokers.ownership.test_slot_driver import Laps, Owned
from tests.support.clusters.kafka import TIMEOUT, eventually
from tests.support.model.run_parts import run_parts
from tests.unit.replication.test_client_settings import pipeline

MOVES, OTHER = SourcePartition("moves", 0), SourcePartition("other", 0)
POSITIONS = {source: Position(5, 0, -1, "", 3, 0, source.topic, 0) for source in (MOVES, OTHER)}
MOVED = MovedTopics([MovedTopic("moves", "moves", "d-1", 0, "ann@bastion")])
ELSEWHERE = MovedTopics([*MOVED.all, MovedTopic("elsewhere", "x", "d-1", 0, "ann@bastion")])


class Interrupted(Owned):
    """Takes over; ``interrupt`` is another process that moves topics meanwhile."""

    must_take_over = is_fenced = False

    def __init__(self, moved: MovedTopics = NO_MOVED_TOPICS) -> None:
        super().__init__()
        self.moved = moved

    def confirm(self) -> None:
        if self.is_fenced:
            self.must_take_over, self.is_fenced = True, False
            raise ownership_lost()

    def take_over(self, slots: int) -> CommitState:
        self.must_take_over = False
        return CommitState(self.run, POSITIONS, moved=self.moved)

    def interrupt(self, moved: MovedTopics) -> None:
        self.moved, self.must_take_over = moved, True


class Discovery:
    """Finds two topics, without those that are moved."""

    def discover(
        self,
        positions: object,
        is_well: bool = True,
        moved: MovedTopics = NO_MOVED_TOPICS,
        lost_term: int = 0,
    ) -> TopicSnapshot:
        found = [source for source in POSITIONS if source.topic not in moved]
        return TopicSnapshot(
            {source: Route(CopyPath.VERBATIM, source.topic, 0, 1) for source in found},
            ends=dict.fromkeys(found, 7),
            lags=dict.fromkeys(found, 2),
        )

    def is_wanted(self, source: SourcePartition) -> bool:
        return source.topic in ("moves", "other")


def test_a_driver_that_is_interrupted_goes_on_with_the_others() -> None:
    ownership: Any = Interrupted()
    spark: Any = Laps()
    discovery: Any = Discovery()
    events: list[Event] = []
    status = RunStatus("p", events.append)
    own = status.add_driver()
    driver = Driver(run_parts(pipeline(), spark), ownership, discovery, own)

    def next_lap(number: int) -> list[SourcePartition]:
        eventually(lambda: len(spark.tasks) > number or ended.done(), f"lap {number}")
        assert not ended.done(), ended.exception()
        return [assignment.source for assignment in spark.tasks[number].assignments]

    def lag() -> int | None:
        return status.lag_records

    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(driver.run, 1)
        try:
            assert next_lap(0) == [MOVES, OTHER] and lag() == 4
            ownership.interrupt(ELSEWHERE)
            assert next_lap(1) == [OTHER], "the lap before was given up"
            eventually(lambda: lag() == 2, "its lag does not count")
            assert own.partitions.keys() == {OTHER}, "nor anything else of it"
            spark.running[-1].set_result([SlotResult(0, LapOutcome.DONE, {})])
            assert next_lap(2) == [OTHER]
            ownership.interrupt(NO_MOVED_TOPICS)
            assert sorted(next_lap(3)) == [MOVES, OTHER], "it waits for no lap, which may be long"
            assert lag() == 4
        finally:
            driver.stop()
        assert ended.result(TIMEOUT).faults == ()
    assert [event.text for event in events if isinstance(event, Note)] == [
        "moves: moved by drill d-1 (ann@bastion) at 1970-01-01 00:00:00 UTC; not copied until its "
        "release",
        "moves: released, and copied again",
    ]


def test_a_run_that_ends_when_caught_up_waits_for_no_moved_topic() -> None:
    for before, during in ((MOVED, None), (NO_MOVED_TOPICS, MOVED)):
        ownership: Any = Interrupted(before)
        spark: Any = Laps()
        discovery: Any = Discovery()
        parts = run_parts(pipeline(), spark, until_caught_up=True)
        status = RunStatus("p", lambda report: None).add_driver()
        driver = Driver(parts, ownership, discovery, status)
        with ThreadPoolExecutor(1) as pool:
            ended = pool.submit(driver.run, 1)
            eventually(lambda: spark.tasks, "a lap")  # noqa: B023
            if during is not None:
                ownership.interrupt(during)
                eventually(lambda: len(spark.tasks) > 1, "another lap")  # noqa: B023
            assert [a.source for a in spark.tasks[-1].assignments] == [OTHER]
            reached = {OTHER: Position(7, 0, -1, "", 3, 0, "other", 0)}
            spark.running[-1].set_result([SlotResult(0, LapOutcome.DONE, reached)])
            finished = ended.result(TIMEOUT)
        assert finished.caught_up and finished.faults == ()


def test_a_driver_without_a_lap_finds_the_release(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that it copies was moved: no lap finds that the release has fenced it."""
    monkeypatch.setattr(driver_module, "_LOOK_S", 0.05)
    ownership: Any = Interrupted(MovedTopics([*MOVED.all, replace(MOVED.all[0], topic="other")]))
    spark: Any = Laps()
    discovery: Any = Discovery()
    events: list[Event] = []
    status = RunStatus("p", events.append)
    own = status.add_driver()
    driver = Driver(run_parts(pipeline(), spark), ownership, discovery, own)
    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(driver.run, 1)
        try:
            eventually(lambda: any(isinstance(event, Started) for event in events), "started")
            assert not spark.tasks
            ownership.moved, ownership.is_fenced = MOVED, True
            eventually(lambda: spark.tasks, "a lap")
            assert [a.source for a in spark.tasks[0].assignments] == [OTHER]
        finally:
            driver.stop()
        ended.result(TIMEOUT)
