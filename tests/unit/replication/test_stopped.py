"""Stopped partitions: what is reported, and when."""

from __future__ import annotations

import math
from threading import RLock

import pytest

from k2ktui.engine.records.state import SourcePartition
from k2ktui.replication.copying.slot_task import Fault, FaultKind
from k2ktui.replication.reports import stopped as module
from k2ktui.replication.reports.events import Event, Resumed, Stopped
from k2ktui.replication.reports.stopped import StoppedPartitions

SOURCE = SourcePartition("orders", 0)


def fault(kind: FaultKind, message: str = "it failed", hint: str = "Fix: look.") -> Fault:
    return Fault(SOURCE, kind, message, hint)


def test_a_retried_partition_that_stops_with_another_fault_is_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 100.0
    monkeypatch.setattr(module, "monotonic", lambda: now)
    reported: list[Event] = []
    stopped = StoppedPartitions(reported.append, RLock())
    refused = fault(FaultKind.REFUSED)
    stopped.stop(refused)
    assert reported == [Stopped(refused)]

    now += 29
    stopped.retry([SOURCE])
    assert SOURCE in stopped
    now += 2
    stopped.retry([SOURCE])
    assert SOURCE not in stopped
    stopped.stop(fault(FaultKind.REFUSED, "it failed after 3.1 s"))
    assert reported == [Stopped(refused)], "the same fault, reported once"

    now += 31
    stopped.retry([SOURCE])
    unauthorized = fault(FaultKind.UNAUTHORIZED, hint="Fix: grant Read.")
    stopped.stop(unauthorized)
    assert reported[1:] == [Stopped(unauthorized)]
    assert stopped.faults == (unauthorized,)

    # The next discovery finds another reason without a retry.
    gone = fault(FaultKind.GONE)
    stopped.stop(gone)
    stopped.stop(gone)
    assert reported[2:] == [Stopped(gone)]

    now += 31
    stopped.retry([SOURCE])
    stopped.report_resumed([SOURCE], ())
    stopped.report_resumed([SOURCE], ())
    assert reported[3:] == [Resumed("orders", 0)]


def test_a_lap_ends_in_time_for_the_next_retry(monkeypatch: pytest.MonkeyPatch) -> None:
    """A partition whose record was too large goes on within 30 s once the limit is raised."""
    now, other = 100.0, SourcePartition("other", 0)
    monkeypatch.setattr(module, "monotonic", lambda: now)
    stopped = StoppedPartitions(lambda event: None, RLock())
    assert stopped.longest_lap_s([SOURCE, other]) == math.inf
    stopped.stop(fault(FaultKind.TOO_LARGE))
    assert stopped.longest_lap_s([other]) == math.inf
    assert stopped.longest_lap_s([SOURCE, other]) == 20
    now += 17
    assert stopped.longest_lap_s([SOURCE, other]) == 5, "not one lap after the other"
    now += 5
    stopped.retry([SOURCE])
    assert SOURCE not in stopped
    stopped.stop(fault(FaultKind.CORRUPT))
    assert stopped.longest_lap_s([SOURCE]) == math.inf, "nothing is retried"
