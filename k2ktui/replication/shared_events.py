"""Merges the events of a run's slots, each of which has a driver of its own, into those of one run.

What describes the whole run (progress, lag, what was discovered) is added up over the slots that
the run holds; what describes a slot or a partition is passed on.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from time import monotonic, time
from typing import TypeVar

from k2ktui.engine.status import sum_lags
from k2ktui.replication.events import (
    Event,
    Finished,
    FirstRecord,
    Note,
    PartitionsReleased,
    Progress,
    Started,
    TopicsDiscovered,
    Trouble,
)
from k2ktui.replication.slot_task import Fault

_T = TypeVar("_T")
_PROGRESS_S = 5.0
# Drivers of several slots find the same at about the same time.
_SAME_NOTE_S = 10.0


@dataclass(slots=True)
class _SlotFigures:
    """The newest events of the driver of a slot, and when it was asked to start (epoch seconds)."""

    began_at: float = 0.0
    started: Started | None = None
    discovered: TopicsDiscovered | None = None
    progress: Progress | None = None
    faults: tuple[Fault, ...] = ()
    has_reached: bool = False
    troubles: set[str] = field(default_factory=set)


class SharedEvents:
    """The events of one run that copies several slots; thread-safe.

    Args:
        report: called with the events of the run.
        show: called with what the run has taken over now, also when it has released slots.
        began_at: epoch seconds of the request to run.
        is_ending: returns whether the run was requested to stop.
        clock: monotonic seconds.

    Attributes:
        records: number of records that were copied and reported.
    """

    def __init__(
        self,
        report: Callable[[Event], None],
        show: Callable[[Started], None],
        began_at: float,
        is_ending: Callable[[], bool],
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._report, self._show, self._began_at = report, show, began_at
        self._is_ending, self._clock = is_ending, clock
        self._lock = threading.Lock()
        self._slots: dict[int, _SlotFigures] = {}
        self._faults: dict[int, tuple[Fault, ...]] = {}
        self._notes: dict[str, tuple[int, float]] = {}
        self._pending: list[Progress] = []
        self._lap, self._reported_at = 0, clock()
        self._has_started = self._has_first_record = False
        self.records = 0

    @property
    def faults(self) -> tuple[Fault, ...]:
        """The partitions that had stopped when the run, or their slot's driver, ended.

        Those of slots that the run has released are left out.
        """
        with self._lock:
            return tuple(fault for found in self._faults.values() for fault in found)

    def take(self, slot: int, term: int, event: Event) -> None:
        """Take an event of the driver of a slot.

        Args:
            slot: the slot.
            term: term of the pipeline's layout: that of the run, whose slots have later ones.
            event: the event.
        """
        with self._lock:
            found = self._slots.setdefault(slot, _SlotFigures())
            match event:
                case Started():
                    found.started, found.has_reached = replace(event, term=term), False
                    found.began_at = time() - event.seconds
                    self._report_started()
                case TopicsDiscovered():
                    found.discovered = event
                    self._report(self._merge_discovered())
                case Progress():
                    found.progress = event
                    self._pending.append(event)
                    self.records += event.records
                    if self._clock() - self._reported_at >= _PROGRESS_S:
                        self._report_progress()
                case FirstRecord():
                    if not self._has_first_record:
                        self._has_first_record = True
                        # It is reported when the lap ends, many seconds later.
                        visible_at = found.began_at + event.seconds
                        self._report(FirstRecord(visible_at - self._began_at))
                case Finished():
                    found.faults = event.faults
                case Note():
                    if self._is_new(slot, event.text):
                        self._report(event)
                case Trouble():
                    # The drivers of several slots may have one with the same subject.
                    subject = f"{slot}/{event.subject}"
                    found.troubles.add(subject)
                    self._report(replace(event, subject=subject))
                case _:
                    self._report(event)

    def end(self, slot: int, reached: bool = False) -> None:
        """Forget a slot whose driver has ended; one that has ``reached`` its end remains."""
        with self._lock:
            found = self._slots.get(slot)
            if found is None:
                return
            for subject in found.troubles:
                self._report(Trouble(subject, ""))
            if reached or self._is_ending():
                self._faults[slot] = found.faults
            if reached:
                found.has_reached = True
                if all(each.has_reached for each in self._slots.values()):
                    self._report_pending()
                return
            del self._slots[slot]
            if found.discovered is not None and not self._is_ending():
                self._report(PartitionsReleased(found.discovered.partitions))
                self._report(self._merge_discovered())
            if not self._slots:
                self._report_pending()
            self._show(self._merge_started())

    def _report_pending(self) -> None:
        if any(each.records for each in self._pending):
            self._report_progress()

    def _report_started(self) -> None:
        started = self._merge_started()
        if self._has_started:
            self._report(replace(started, is_more=True))
        else:
            self._has_started = True
            self._report(replace(started, seconds=time() - self._began_at))

    def _merge_started(self) -> Started:
        found = list(self._of_all(lambda each: each.started))
        return Started(
            pipeline=found[-1].pipeline if found else "",
            term=max((each.term for each in found), default=0),
            slots=len(found),
            partitions=sum(each.partitions for each in found),
            seconds=found[-1].seconds if found else 0.0,
        )

    def _merge_discovered(self) -> TopicsDiscovered:
        found = list(self._of_all(lambda each: each.discovered))
        wanted = {source for each in found for source in each.partitions}
        # The driver of a slot also knows the positions of others, as they were when it started.
        positions = {
            source: each.positions[source]
            for each in found
            for source in each.partitions
            if source in each.positions
        }
        return TopicsDiscovered(
            partitions=wanted,
            positions=positions,
            ends={source: end for each in found for source, end in each.ends.items()},
            held_back={at: held for each in found for at, held in each.held_back.items()},
            lag_records=sum_lags(each.lag_records for each in found),
        )

    def _report_progress(self) -> None:
        now, done = self._clock(), self._pending
        latest = list(self._of_all(lambda each: each.progress))
        self._lap += 1
        self._report(
            Progress(
                lap=self._lap,
                seconds=now - self._reported_at,
                records=sum(each.records for each in done),
                written_bytes=sum(each.written_bytes for each in done),
                rebuilt=sum(each.rebuilt for each in done),
                transactions=sum(each.transactions for each in done),
                commit_s=sum(each.commit_s for each in done),
                cpu_s=sum(each.cpu_s for each in done),
                pause_s=max((each.pause_s for each in done), default=0.0),
                partitions=sum(each.partitions for each in latest),
                stopped=sum(each.stopped for each in latest),
                lag_records=self._merge_discovered().lag_records,
            )
        )
        self._pending, self._reported_at = [], now

    def _is_new(self, slot: int, text: str) -> bool:
        """Return whether no other slot has just reported the same."""
        now = self._clock()
        self._notes = {t: at for t, at in self._notes.items() if now - at[1] < _SAME_NOTE_S}
        before = self._notes.get(text)
        if before is not None and before[0] != slot:
            return False
        self._notes[text] = slot, now
        return True

    def _of_all(self, read: Callable[[_SlotFigures], _T | None]) -> Iterator[_T]:
        return (found for each in self._slots.values() if (found := read(each)) is not None)
