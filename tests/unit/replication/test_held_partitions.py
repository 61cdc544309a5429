"""A driver leaves held partitions out of its laps, and copies them again after the release."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from k2ktui.engine.records.hold import NO_HOLDS, Hold, Holds
from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.replication.copying.slot_task import CopyPath, FaultKind, LapOutcome, Route, SlotResult
from k2ktui.replication.driver.driver import Driver
from k2ktui.replication.driver.held_partitions import HeldPartitions
from k2ktui.replication.ownership.commit_state import CommitState
from k2ktui.replication.reports.events import Event, Note
from k2ktui.replication.reports.status import RunStatus
from k2ktui.replication.topics.discovery import TopicSnapshot
from tests.brokers.ownership.test_slot_driver import Laps, Owned
from tests.support.clusters.kafka import TIMEOUT, eventually
from tests.support.model.run_parts import run_parts
from tests.unit.replication.test_client_settings import pipeline

HELD, OTHER = SourcePartition("held", 0), SourcePartition("other", 0)
POSITIONS = {source: Position(5, 0, -1, "", 3, 0, source.topic, 0) for source in (HELD, OTHER)}
DONE = SlotResult(0, LapOutcome.DONE, {})
HOLD = Hold("held", None, "ann@bastion", 0, "why")


class Whole(Owned):
    """Has taken a pipeline of two topics over."""

    fenced = 0

    def take_over(self, slots: int) -> CommitState:
        return CommitState(self.run, POSITIONS)

    def recover(self, slot: int) -> None:
        self.fenced += 1

    def read(self, is_interrupted: object) -> CommitState:
        return CommitState(self.run, POSITIONS)


class Discovery:
    """Finds two topics, one of which lags by 7 and one by 2."""

    def discover(
        self, positions: object, is_well: bool = True, moved: object = None, lost_term: int = 0
    ) -> TopicSnapshot:
        return TopicSnapshot(
            {source: Route(CopyPath.VERBATIM, source.topic, 0, 1) for source in POSITIONS},
            ends={HELD: 12, OTHER: 7},
            lags={HELD: 7, OTHER: 2},
        )


class Operator:
    """Holds and releases."""

    def __init__(self, holds: Holds = NO_HOLDS) -> None:
        self.holds = holds

    def __call__(self) -> Holds:
        return self.holds


def texts(events: list[Event]) -> list[str]:
    return [event.text for event in events if isinstance(event, Note)]


def test_laps_without_what_is_held() -> None:
    operator, events = Operator(Holds([HOLD])), list[Event]()
    ownership: Any = Whole()
    spark: Any = Laps()
    discovery: Any = Discovery()
    status = RunStatus("p", events.append)
    parts = run_parts(pipeline(), spark, holds=operator)
    driver = Driver(parts, ownership, discovery, status.add_driver())

    def next_lap(number: int) -> list[SourcePartition]:
        eventually(lambda: len(spark.tasks) > number or ended.done(), f"lap {number}")
        assert not ended.done(), ended.exception()
        return [assignment.source for assignment in spark.tasks[number].assignments]

    def lag() -> int | None:
        return status.lag_records

    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(driver.run, 1)
        try:
            assert next_lap(0) == [OTHER], "held from the first lap on"
            assert lag() == 2
            operator.holds = NO_HOLDS
            assert next_lap(1) == [HELD, OTHER], "the lap before it was ended"
            assert (lag(), ownership.fenced, len(spark.running)) == (9, 1, 1)
            assert spark.tasks[1].assignments[0].position == POSITIONS[HELD]
            operator.holds = Holds([Hold("held", 0, "bob@bastion", 0)])
            assert next_lap(2) == [OTHER]
            assert (lag(), ownership.fenced, len(spark.running)) == (2, 2, 1)
            operator.holds = Holds([Hold("held", None, "bob@bastion", 0)])
            eventually(lambda: len(texts(events)) == 5, "the topic is held in place of it")
            assert len(spark.tasks) == 3, "which changes nothing for the lap"
        finally:
            driver.stop()
        finished = ended.result(TIMEOUT)
    assert finished.faults == ()
    since = "since 1970-01-01 00:00:00 UTC"
    assert texts(events) == [
        f"held: held by ann@bastion {since} (why); not copied until k2ktui release",
        "held: released, and copied again",
        f"held:0: held by bob@bastion {since}; not copied until k2ktui release",
        "held:0: released, and copied again",
        f"held: held by bob@bastion {since}; not copied until k2ktui release",
    ]


def test_a_run_that_ends_when_caught_up_names_them() -> None:
    ownership: Any = Whole()
    spark: Any = Laps()
    discovery: Any = Discovery()
    held = Operator(Holds([HOLD]))
    parts = run_parts(pipeline(), spark, until_caught_up=True, holds=held)
    status = RunStatus("p", lambda report: None).add_driver()
    driver = Driver(parts, ownership, discovery, status)
    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(driver.run, 1)
        eventually(lambda: spark.tasks, "a lap")
        reached = {OTHER: Position(7, 0, -1, "", 3, 0, "other", 0)}
        spark.running[0].set_result([SlotResult(0, LapOutcome.DONE, reached)])
        finished = ended.result(TIMEOUT)
    assert not finished.caught_up
    (fault,) = finished.faults
    assert (fault.source, fault.kind, fault.offset) == (HELD, FaultKind.HELD, 5)
    assert "held by ann@bastion" in fault.message and "k2ktui release -f FILE held" in fault.hint


@pytest.mark.parametrize(
    ("hold", "is_reported"),
    [
        (Hold("held", None, "a", 0), True),
        (Hold("held", 0, "a", 0), True),
        (Hold("held", 1, "a", 0), False),
        (Hold("elsewhere", None, "a", 0), False),
    ],
)
def test_a_driver_reports_what_is_its_own(hold: Hold, is_reported: bool) -> None:
    events: list[Event] = []
    held = HeldPartitions(Operator(Holds([hold])), events.append)
    assert held.look(POSITIONS) == (frozenset({HELD}) if is_reported else frozenset())
    assert held.look(POSITIONS) is None
    assert bool(events) == is_reported
    held.report([*POSITIONS, SourcePartition("held", 1), SourcePartition("elsewhere", 0)])
    assert len(events) == 1, "a partition that appears later is reported, once"


def test_what_has_reached_its_end_is_no_fault() -> None:
    held = HeldPartitions(Operator(Holds([HOLD])), lambda event: None)
    held.look(POSITIONS)
    assert held.find_faults({HELD: 5, OTHER: 9}, POSITIONS) == ()
    assert [fault.offset for fault in held.find_faults({HELD: 6}, POSITIONS)] == [5]
