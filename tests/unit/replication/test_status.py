"""The status of a run: of one that copies several slots, it is one run's, whatever they report."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, NoReturn, cast

import pytest

from k2ktui.engine.moves.journal import RunnerState
from k2ktui.engine.records.state import SourcePartition
from k2ktui.replication.copying.slot_task import (
    Fault,
    FaultKind,
    LapOutcome,
    SlotResult,
    SlotStats,
)
from k2ktui.replication.driver.heartbeat import Heartbeat
from k2ktui.replication.reports import status as module
from k2ktui.replication.reports.events import (
    Event,
    Finished,
    FirstRecord,
    Note,
    Progress,
    SlotsAssigned,
    Started,
    Trouble,
)
from k2ktui.replication.reports.status import PROGRESS_S, DriverStatus, RunStatus
from k2ktui.replication.telemetry.metrics import CATALOG, PipelineFigures
from tests.support.clusters.kafka import TIMEOUT
from tests.support.pipelines.telemetry import pipeline, position

TERM, BEGAN_AT = 5, 1.0
LAP = SlotResult(
    0,
    LapOutcome.DONE,
    {},
    stats=SlotStats(10, 1, 1, 100, 2, 0.5, 0.25),
    began_at=100.0,
    ended_at=101.0,
)


class Run:
    """A run, its events, and time."""

    def __init__(self, progress_s: float = PROGRESS_S) -> None:
        self.now, self.is_ending = 0.0, False
        self.events: list[Event] = []
        self.status = RunStatus(
            "orders",
            self.events.append,
            BEGAN_AT,
            progress_s=progress_s,
            is_ending=lambda: self.is_ending,
            clock=lambda: 2_000.0 + self.now,
        )

    def driver(self, slot: int, *partitions: int, lag: int = 0) -> DriverStatus:
        """Take a slot with these partitions over, which lag so much."""
        driver = self.status.add_driver(slot)
        self.now += 0.5
        discover(driver, *partitions, lag=lag)
        driver.start(TERM, 1)
        return driver

    def lap(self, driver: DriverStatus, slot: int, *, pause_s: float = 0.0) -> list[Event]:
        """Return what is reported when a slot ends a lap."""
        before = len(self.events)
        self.status.slots[slot].ended_at = LAP.began_at - pause_s
        driver.end_lap(slot, LAP)
        driver.report_progress([])
        return self.events[before:]

    def progress(self) -> list[Progress]:
        return [event for event in self.events if isinstance(event, Progress)]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    run = Run()
    monkeypatch.setattr(module, "monotonic", lambda: run.now)
    return run


def discover(driver: DriverStatus, *numbers: int, lag: int | None = 0) -> None:
    own = [SourcePartition("t", number) for number in numbers]
    driver.discover(own, {}, dict.fromkeys(own, 20), lag_records=lag)


def partitions(run: Run) -> list[int]:
    """Return the partitions that it has figures of."""
    drivers = run.status.drivers.values()
    return sorted(at.partition for driver in drivers for at in driver.partitions)


def test_what_the_run_copies_is_the_sum_of_its_slots(run: Run) -> None:
    one = run.driver(1, 0, 1, 2)
    run.driver(4, 3, 4)
    first, second = run.events
    assert isinstance(first, Started) and isinstance(second, Started)
    assert (first.pipeline, first.term, first.slots, first.partitions) == ("orders", TERM, 1, 3)
    assert (second.term, second.slots, second.partitions) == (TERM, 2, 5)
    assert first.seconds > 1000, "since the run was requested"
    assert second.seconds == 0.5, "since the slot was"
    assert not first.is_more and second.is_more
    one.end()
    assert (run.status.slots_taken, run.status.partitions) == (1, 2)


def test_what_was_discovered_is_of_all_slots_that_it_holds(run: Run) -> None:
    one, other = run.driver(0, 0, 2, lag=4), run.driver(1, 1, 3, lag=2)
    assert partitions(run) == [0, 1, 2, 3] and run.status.lag_records == 6
    one.end()
    assert partitions(run) == [1, 3] and run.status.lag_records == 2
    discover(other, lag=None)
    assert partitions(run) == [] and run.status.lag_records is None


def test_a_run_that_ends_releases_nothing_that_another_one_copies(run: Run) -> None:
    one = run.driver(0, 0, 2, lag=4)
    run.is_ending = True
    one.end()
    assert partitions(run) == [0, 2] and run.status.lag_records == 4


def test_progress_is_reported_every_five_seconds(run: Run) -> None:
    one, other = run.driver(0, 0, 5, 6, lag=4), run.driver(1, 1, lag=2)
    began, run.now = run.now - 0.5, 4.0
    one.stopped.stop(Fault(SourcePartition("t", 6), FaultKind.REFUSED, "too large", ""))
    assert run.lap(one, 0, pause_s=0.125) == []
    run.now = 6.0
    (progress,) = run.lap(other, 1, pause_s=0.25)
    assert isinstance(progress, Progress)
    assert progress == Progress(
        lap=1,
        seconds=6.0 - began,
        records=20,
        written_bytes=200,
        rebuilt=2,
        transactions=4,
        commit_s=1.0,
        cpu_s=0.5,
        pause_s=0.25,
        partitions=4,
        stopped=1,
        lag_records=6,
    )
    run.now = 12.0
    (progress,) = run.lap(one, 0)
    assert isinstance(progress, Progress)
    assert (progress.lap, progress.records, progress.partitions) == (2, 10, 4)


def test_one_driver_of_several_slots_reports_when_each_of_them_has_ended_a_lap() -> None:
    """A slot that does not run at the moment is not waited for."""
    run = Run(progress_s=0.0)
    driver = run.status.add_driver()
    driver.start(TERM, 3)
    driver.report_progress([])
    driver.end_lap(0, LAP)
    driver.report_progress([1])
    assert not run.progress()
    driver.end_lap(1, None)
    driver.report_progress([0, 1])
    assert [progress.records for progress in run.progress()] == [10]
    driver.end_lap(2, LAP)
    driver.finish(Finished(True, driver.records, 1.0, ()))
    assert [progress.records for progress in run.progress()] == [10, 10]
    assert run.events[-1] == Finished(True, 20, 1.0, ())


def test_the_last_progress_is_reported_when_its_last_slot_ends(run: Run) -> None:
    one, other = run.driver(0, 0), run.driver(1, 1)
    run.lap(one, 0), run.lap(other, 1)
    one.end()
    assert not run.progress()
    other.end()
    (last,) = run.progress()
    assert last.records == run.status.records == 20
    other.end()
    assert run.status.slots_taken == 0 and len(run.progress()) == 1


def test_the_first_record_is_reported_once_with_the_time_since_the_start_of_the_run(
    run: Run,
) -> None:
    one, other = run.driver(0, 0), run.driver(1, 1)
    for driver, at in (one, 102.0), (one, 103.0), (other, 101.0):
        driver.end_lap(0, replace(LAP, first_commit_at=at))
    assert [event for event in run.events if isinstance(event, FirstRecord)] == [FirstRecord(101.0)]


def test_what_is_only_for_the_status_does_not_reach_the_caller(run: Run) -> None:
    driver = run.status.add_driver(0)
    for report in run.status.report, driver.report:
        report(Trouble("slot 0", "slot 0: no login"))
        report(SlotsAssigned(7, (0, 2)))
    assert run.events == []
    assert run.status.problem()[0] == "slot 0: no login (and 1 other problem)"
    assert (run.status.generation, run.status.owned) == (7, (0, 2))


def test_a_defect_in_the_figures_stops_no_lap_and_is_noted_once(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records are counted all the same; a terminal that is gone still ends the run."""

    def fail(*_: object) -> NoReturn:
        raise KeyError("what")

    source = SourcePartition("t", 0)
    one = run.driver(0, 0)
    before = len(run.events)
    monkeypatch.setattr(SlotStats, "plus", fail)
    monkeypatch.setattr(DriverStatus, "_row", fail)
    lap = replace(LAP, positions={source: position(5)}, first_commit_at=102.0)
    for _ in range(2):
        discover(one, 0)
        one.end_lap(0, lap)
    one.partitions = cast("Any", None)
    one.stopped.stop(Fault(source, FaultKind.REFUSED, "too large", ""))
    one.forget([source])
    assert run.status.records == 20 and not one.stopped.faults
    noted, first, _ = run.events[before:]
    assert noted == Note("status: incomplete, KeyError: 'what' (the run continues)")
    assert first == FirstRecord(101.0)

    def gone(event: Event) -> NoReturn:
        raise BrokenPipeError

    other = RunStatus("orders", gone, BEGAN_AT).add_driver(0)
    with pytest.raises(BrokenPipeError):
        other.end_lap(0, lap)


def test_without_metrics_there_are_no_figures_of_partitions(run: Run) -> None:
    run.status.keeps_rows = False
    driver = run.driver(0, 0, 1, lag=4)
    driver.end_lap(0, replace(LAP, positions={SourcePartition("t", 0): position(5)}))
    assert partitions(run) == [] and run.status.partitions == 2
    assert run.status.lag_records == 4 and run.status.slots[0].stats == LAP.stats


def test_a_note_that_several_slots_report_is_reported_once(run: Run) -> None:
    """But a driver that repeats one has reasons to."""
    one, other = run.status.add_driver(0), run.status.add_driver(1)
    note = Note("looking for new topics: no answer")
    for driver in one, other, one:
        driver.report(note)
    assert run.events == [note, note]
    run.now = 60.0
    other.report(note)
    assert len(run.events) == 3


def test_the_end_of_a_slot_is_not_the_end_of_the_run(run: Run) -> None:
    """The faults of a slot that it has released are another run's."""
    released, held = (
        Fault(SourcePartition("t", number), FaultKind.REFUSED, "too large", "")
        for number in range(2)
    )
    one, other = run.status.add_driver(0), run.status.add_driver(1)
    one.finish(Finished(False, 3, 1.0, (released,)))
    one.end()
    run.is_ending = True
    other.finish(Finished(False, 3, 1.0, (held,)))
    other.end()
    assert run.events == [] and run.status.faults == (held,)


def test_slots_that_have_caught_up_stay_in_the_figures_until_the_run_ends(run: Run) -> None:
    """Their faults are the run's."""
    fault = Fault(SourcePartition("t", 0), FaultKind.REFUSED, "too large", "")
    one, other = run.driver(0, 0, lag=4), run.driver(1, 1, lag=2)
    run.lap(one, 0), run.lap(other, 1)
    one.finish(Finished(False, 1, 1.0, (fault,)))
    one.end(reached=True)
    assert run.status.faults == (fault,) and run.status.slots_taken == 2
    other.end(reached=True)
    last = run.events[-1]
    assert isinstance(last, Progress) and (last.records, last.lag_records) == (20, 6)
    assert partitions(run) == [0, 1]
    run.driver(0, 0).end()
    assert run.status.slots_taken == 1, "it was started again, and released"
    one.report(Note("what an abandoned driver finds"))
    one.end_lap(0, LAP)
    assert run.status.records == 20 and not isinstance(run.events[-1], Note)


def test_other_threads_read_while_a_driver_writes() -> None:
    """Heartbeats, probes and exporters do; none of them waits for whoever takes a report."""
    is_taken, goes_on, noted = threading.Event(), threading.Event(), list[str]()

    def take(event: Event) -> None:
        is_taken.set()
        assert goes_on.wait(TIMEOUT)

    def write() -> None:
        driver.start(TERM, 1)
        for number in range(2_000):
            source = SourcePartition("t", number)
            discover(driver, *range(number, number + 5))
            driver.end_lap(0, replace(LAP, positions={source: position(5)}))
            driver.stopped.stop(Fault(source, FaultKind.REFUSED, "too large", ""))
            driver.forget([source])
            other = status.add_driver(1)
            discover(other, number)
            other.end()

    def read() -> None:
        for metric in CATALOG:
            metric.read(figures)
        assert heart.shown.state in (RunnerState.STARTING, RunnerState.RUNNING)

    status = RunStatus("orders", take)
    driver, figures = status.add_driver(), PipelineFigures(status, lap_s=1.0)
    heart = Heartbeat(pipeline(), 1.0, noted.append, status)
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        assert is_taken.wait(TIMEOUT)
        read()
        goes_on.set()
        while not writing.done():
            read()
        writing.result()
    assert noted == []
