"""A loss that cannot be recorded yet holds its partition back, and ends nothing."""

from __future__ import annotations

from typing import Any

import pytest

from k2ktui.engine.state import Position, Run, SourcePartition
from k2ktui.errors import K2kError, TimedOut
from k2ktui.replication import loss
from k2ktui.replication.events import Note
from k2ktui.replication.fencing_errors import superseded
from k2ktui.replication.loss import LossRecorder
from k2ktui.replication.progress import ThrottledNotifier
from k2ktui.replication.slot_task import Fault, FaultKind

LOST, GONE = SourcePartition("t", 0), SourcePartition("gone", 0)
FAULT = Fault(LOST, FaultKind.TRUNCATED, "t-0: records 5 to 9 are gone", "", 10)


class FencerStub:
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
    stub: Any = FencerStub(TimedOut("no answer"), TimedOut("no answer"))
    recorder = LossRecorder(stub, reported.append, ThrottledNotifier(reported.append))
    positions = {LOST: Position(5, 0, -1, "", 1, 0, "t", 0)}
    recorder.add(FAULT)
    for _ in range(2):
        recorder.record(2, positions)
        assert LOST in recorder and recorder.pending and positions[LOST].offset == 5
    recorder.record(2, positions)
    assert not recorder.pending and positions[LOST].offset == 10 and positions[LOST].term == 2
    assert stub.written == [positions]
    assert [event.text for event in reported if isinstance(event, Note)] == [
        "continuing after lost records: no answer",
        "t-0: records 5 to 9 are gone; continued at 10 (onSourceDataLoss: continue)",
    ]


def test_a_partition_that_is_gone_meanwhile_needs_nothing() -> None:
    reported: list[Any] = []
    stub: Any = FencerStub()
    recorder = LossRecorder(stub, reported.append, ThrottledNotifier(reported.append))
    recorder.add(Fault(GONE, FaultKind.TRUNCATED, "gone-0: gone", "", 3))
    recorder.record(1, {})
    assert not recorder.pending and not reported


def test_another_driver_ends_it() -> None:
    stub: Any = FencerStub(superseded("p"))
    recorder = LossRecorder(stub, print, ThrottledNotifier(print))
    recorder.add(FAULT)
    with pytest.raises(K2kError, match="another k2ktui has started"):
        recorder.record(1, {LOST: Position(5, 0, -1, "", 1, 0, "t", 0)})
