"""The events of a run that copies several slots: one run's, whatever its slots report."""

from __future__ import annotations

from dataclasses import replace
from time import time

import pytest

from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.replication.copying.slot_task import Fault, FaultKind
from k2ktui.replication.reports.events import (
    Event,
    Finished,
    FirstRecord,
    Note,
    PartitionsReleased,
    Progress,
    Started,
    TopicsDiscovered,
)
from k2ktui.replication.reports.shared_events import SharedEvents

TERM, BEGAN_AT = 5, 1.0
PROGRESS = Progress(
    lap=3,
    seconds=2.0,
    records=10,
    written_bytes=100,
    rebuilt=1,
    transactions=2,
    commit_s=0.5,
    cpu_s=0.25,
    pause_s=0.1,
    partitions=4,
    stopped=1,
    lag_records=7,
)


class Merged:
    """The events of a run, and time."""

    def __init__(self) -> None:
        self.now, self.is_ending = 0.0, False
        self.events: list[Event] = []
        self.shown: list[Started] = []
        self.merged = SharedEvents(
            self.events.append,
            self.shown.append,
            BEGAN_AT,
            lambda: self.is_ending,
            lambda: self.now,
        )

    def take(self, slot: int, *events: Event) -> list[Event]:
        """Return what the run reports of events of a slot."""
        before = len(self.events)
        for event in events:
            self.merged.take(slot, TERM, event)
        return self.events[before:]


@pytest.fixture
def merged() -> Merged:
    return Merged()


def started(partitions: int, term: int = 9) -> Started:
    return Started("orders", term, 1, partitions, 0.5)


def discovered(*numbers: int, lag: int | None = 0) -> TopicsDiscovered:
    """A driver of these partitions, which also knows an old position of partition 0."""
    own = [SourcePartition("t", number) for number in numbers]
    position = Position(1, 0, -1, "", 1, 0, "t", 0)
    positions = {at: replace(position, offset=10 + at.partition) for at in own}
    positions.setdefault(SourcePartition("t", 0), position)
    return TopicsDiscovered(own, positions, dict.fromkeys(own, 20), {}, lag)


def test_what_the_run_copies_is_the_sum_of_its_slots(merged: Merged) -> None:
    """Its term is that of the layout, which all runs that share it have."""
    (first,) = merged.take(1, started(3))
    (second,) = merged.take(4, started(2, term=12))
    assert isinstance(first, Started) and isinstance(second, Started)
    assert (first.term, first.slots, first.partitions) == (TERM, 1, 3)
    assert (second.term, second.slots, second.partitions) == (TERM, 2, 5)
    assert first.seconds > 1000, "since the run was requested"
    assert second.seconds == 0.5, "since the slot was"
    assert not first.is_more and second.is_more
    merged.merged.end(1)
    assert [(holding.slots, holding.partitions) for holding in merged.shown] == [(1, 2)]


def test_what_was_discovered_is_of_all_slots_that_it_holds(merged: Merged) -> None:
    merged.take(0, discovered(0, 2, lag=4))
    (discovered_,) = merged.take(1, discovered(1, 3, lag=2))
    assert isinstance(discovered_, TopicsDiscovered)
    assert sorted(at.partition for at in discovered_.partitions) == [0, 1, 2, 3]
    assert {at.partition: p.offset for at, p in discovered_.positions.items()} == {
        0: 10,
        1: 11,
        2: 12,
        3: 13,
    }
    assert len(discovered_.ends) == 4 and discovered_.lag_records == 6
    before = len(merged.events)
    merged.merged.end(0)
    released, discovered_ = merged.events[before:]
    assert isinstance(released, PartitionsReleased) and isinstance(discovered_, TopicsDiscovered)
    assert sorted(at.partition for at in released.partitions) == [0, 2]
    assert (
        sorted(at.partition for at in discovered_.partitions) == [1, 3]
        and discovered_.lag_records == 2
    )
    (discovered_,) = merged.take(1, discovered(1, 3, lag=None))
    assert isinstance(discovered_, TopicsDiscovered)
    assert len(discovered_.partitions) == 2 and discovered_.lag_records is None


def test_a_run_that_ends_releases_nothing_that_another_one_copies(merged: Merged) -> None:
    merged.take(0, discovered(0, 2, lag=4))
    before, merged.is_ending = len(merged.events), True
    merged.merged.end(0)
    assert len(merged.events) == before


def test_progress_is_reported_every_five_seconds(merged: Merged) -> None:
    merged.take(0, discovered(0, lag=4)), merged.take(1, discovered(1, lag=2))
    merged.now = 4.0
    assert merged.take(0, PROGRESS) == []
    merged.now = 6.0
    (progress,) = merged.take(1, replace(PROGRESS, pause_s=0.3))
    assert progress == replace(
        PROGRESS,
        lap=1,
        seconds=6.0,
        records=20,
        written_bytes=200,
        rebuilt=2,
        transactions=4,
        commit_s=1.0,
        cpu_s=0.5,
        pause_s=0.3,
        partitions=8,
        stopped=2,
        lag_records=6,
    )
    merged.now = 12.0
    (progress,) = merged.take(0, PROGRESS)
    assert isinstance(progress, Progress)
    assert (progress.lap, progress.records, progress.partitions) == (2, 10, 8)


def test_the_last_progress_is_reported_when_its_last_slot_ends(merged: Merged) -> None:
    merged.take(0, started(1), PROGRESS), merged.take(1, started(1), PROGRESS)
    merged.merged.end(0)
    assert not [event for event in merged.events if isinstance(event, Progress)]
    merged.merged.end(1)
    (last,) = [event for event in merged.events if isinstance(event, Progress)]
    assert last.records == merged.merged.records == 20
    merged.merged.end(1)
    assert merged.shown[-1].slots == 0


def test_the_first_record_is_reported_once_with_the_time_since_the_start_of_the_run(
    merged: Merged,
) -> None:
    merged.take(0, replace(started(1), seconds=100.0))
    slot_began_at = time() - 100.0
    (first,) = merged.take(0, FirstRecord(102.0), FirstRecord(103.0))
    assert isinstance(first, FirstRecord)
    assert first.seconds == pytest.approx(slot_began_at + 102.0 - BEGAN_AT, abs=60.0)
    assert merged.take(1, FirstRecord(1.0)) == []


def test_a_note_that_several_slots_report_is_reported_once(merged: Merged) -> None:
    """But a driver that repeats one has reasons to."""
    note = Note("looking for new topics: no answer")
    assert merged.take(0, note) == [note]
    assert merged.take(1, note) == []
    assert merged.take(0, note) == [note]
    merged.now = 60.0
    assert merged.take(1, note) == [note]


def test_the_end_of_a_slot_is_not_the_end_of_the_run(merged: Merged) -> None:
    """The faults of a slot that it has released are another run's."""
    released, held = (
        Fault(SourcePartition("t", number), FaultKind.REFUSED, "too large", "")
        for number in range(2)
    )
    assert merged.take(0, Finished(False, 3, 1.0, (released,))) == []
    merged.merged.end(0)
    merged.is_ending = True
    assert merged.take(1, Finished(False, 3, 1.0, (held,))) == []
    merged.merged.end(1)
    assert merged.merged.faults == (held,)


def test_slots_that_have_caught_up_stay_in_the_figures_until_the_run_ends(merged: Merged) -> None:
    """Their faults are the run's."""
    fault = Fault(SourcePartition("t", 0), FaultKind.REFUSED, "too large", "")
    merged.take(0, started(1), discovered(0, lag=4), PROGRESS, Finished(False, 1, 1.0, (fault,)))
    merged.take(1, started(1), discovered(1, lag=2), PROGRESS)
    merged.merged.end(0, reached=True)
    assert merged.merged.faults == (fault,) and not merged.shown
    merged.take(1, Finished(True, 1, 1.0, ()))
    merged.merged.end(1, reached=True)
    last = merged.events[-1]
    assert isinstance(last, Progress) and (last.records, last.lag_records) == (20, 6)
    assert not [event for event in merged.events if isinstance(event, PartitionsReleased)]
    merged.take(0, started(1))
    merged.merged.end(0)
    assert merged.shown[-1].slots == 1, "it was started again, and released"
