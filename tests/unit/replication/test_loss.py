"""A loss that cannot be recorded yet holds its partition back, and ends nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from k2ktui.engine.records.state import Gap, Position, Run, SourcePartition
from k2ktui.errors import K2kError, TimedOut
from k2ktui.replication.copying.slot_task import Fault, FaultKind
from k2ktui.replication.driver import loss
from k2ktui.replication.driver.loss import LossRecorder
from k2ktui.replication.fencing_errors import superseded
from k2ktui.replication.reports.events import Note
from k2ktui.replication.reports.notes import ThrottledNotifier

LOST, GONE = SourcePartition("t", 0), SourcePartition("gone", 0)
FAULT = Fault(LOST, FaultKind.DIVERGED, "t-0: records 10 to 14 are others now", "", 10)
READ = Position(15, 0, 7, "", 1, 0, "t", 0)


class OwnershipStub:
    """Fails as often as the test says."""

    def __init__(self, *failures: K2kError) -> None:
        self.run = Run(1, 1)
        self.written: list[Any] = []
        self._failures = list(failures)

    def begin_term(self, slots: int) -> None:
        if self._failures:
            raise self._failures.pop(0)
        self.run = Run(self.run.term + 1, slots)

    def write_positions(self, changed: Any) -> None:
        self.written.append(dict(changed))


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loss, "_RETRY_S", 0.0)


def test_a_time_out_is_tried_again() -> None:
    reported: list[Any] = []
    stub: Any = OwnershipStub(TimedOut("no answer"), TimedOut("no answer"))
    recorder = LossRecorder(stub, reported.append, ThrottledNotifier(reported.append))
    positions = {LOST: READ}
    recorder.add(FAULT)
    for _ in range(2):
        recorder.record(2, positions)
        assert LOST in recorder and recorder.pending and positions[LOST] == READ
    recorder.record(2, positions)
    assert not recorder.pending
    assert positions == {LOST: replace(READ, offset=10, term=2, leader_epoch=-1)}
    assert stub.written == [positions]
    assert [event.text for event in reported if isinstance(event, Note)] == [
        "continuing after lost records: no answer",
        "t-0: records 10 to 14 are others now; continued at 10 (onSourceDataLoss: continue)",
    ]


@pytest.mark.parametrize("committed", [5, 10])
def test_what_a_failed_lap_read_and_did_not_commit_is_copied_and_no_gap(committed: int) -> None:
    """The lap had read to 15, and failed: from its position to 10, records are still to be copied.

    A position at 10 would pass over records that the source has.
    """
    reported: list[Any] = []
    stub: Any = OwnershipStub()
    recorder = LossRecorder(stub, reported.append, ThrottledNotifier(reported.append))
    positions = {LOST: replace(READ, offset=committed)}
    before = dict(positions)
    recorder.add(FAULT)
    recorder.record(1, positions)
    assert positions == before and not recorder.pending and LOST not in recorder
    assert not stub.written and stub.run == Run(1, 1) and not reported


def test_a_gap_ends_where_copying_continues() -> None:
    """What is copied again there has a mapping: a gap would say that it is lost."""
    stub: Any = OwnershipStub()
    recorder = LossRecorder(stub, print, ThrottledNotifier(print))
    gaps = (Gap(2, 4, "truncated"), Gap(8, 12, "truncated"), Gap(13, 14, "truncated"))
    positions = {LOST: replace(READ, gaps=gaps)}
    recorder.add(FAULT)
    recorder.record(1, positions)
    assert positions[LOST].gaps == (Gap(2, 4, "truncated"), Gap(8, 10, "truncated"))


def test_the_mapping_starts_over_where_nothing_is_left_of_it() -> None:
    stub: Any = OwnershipStub()
    recorder = LossRecorder(stub, print, ThrottledNotifier(print))
    positions = {LOST: replace(READ, start=12)}
    recorder.add(FAULT)
    recorder.record(1, positions)
    assert (positions[LOST].start, positions[LOST].since) == (10, 2)


def test_a_partition_that_is_gone_meanwhile_needs_nothing() -> None:
    reported: list[Any] = []
    stub: Any = OwnershipStub()
    recorder = LossRecorder(stub, reported.append, ThrottledNotifier(reported.append))
    recorder.add(Fault(GONE, FaultKind.TRUNCATED, "gone-0: gone", "", 3))
    recorder.record(1, {})
    assert not recorder.pending and not reported


def test_another_driver_ends_it() -> None:
    stub: Any = OwnershipStub(superseded("p"))
    recorder = LossRecorder(stub, print, ThrottledNotifier(print))
    recorder.add(FAULT)
    with pytest.raises(K2kError, match="another k2ktui has started"):
        recorder.record(1, {LOST: READ})
