"""Merges the events of a run's slots, each of which has a driver of its own, into those of one run.

Events about the whole run (progress, lag, discovery) are summed over the slots that the run holds;
events about one slot or partition are passed on.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from time import monotonic, time
from typing import TypeVar

from k2ktui.engine.records.moved_topic import MovedTopics
from k2ktui.engine.status import sum_lags
from k2ktui.replication.copying.slot_task import Fault
from k2ktui.replication.reports.events import (
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
            return tuple(
                fault for faults_of_slot in self._faults.values() for fault in faults_of_slot
            )

    def take(self, slot: int, term: int, event: Event) -> None:
        """Take an event of the driver of a slot.

        Args:
            slot: the slot.
            term: term of the pipeline's layout: that of the run, whose slots have later ones.
            event: the event.
        """
        with self._lock:
            figures = self._slots.setdefault(slot, _SlotFigures())
            match event:
                case Started():
                    figures.started, figures.has_reached = replace(event, term=term), False
                    figures.began_at = time() - event.seconds
                    self._report_started()
                case TopicsDiscovered():
                    figures.discovered = event
                    self._report(self._merge_discovered())
                case Progress():
                    figures.progress = event
                    self._pending.append(event)
                    self.records += event.records
                    if self._clock() - self._reported_at >= _PROGRESS_S:
                        self._report_progress()
                case FirstRecord():
                    if not self._has_first_record:
                        self._has_first_record = True
                        # It is reported when the lap ends, many seconds later.
                        visible_at = figures.began_at + event.seconds
                        self._report(FirstRecord(visible_at - self._began_at))
                case Finished():
                    figures.faults = event.faults
                case Note():
                    if self._is_new(slot, event.text):
                        self._report(event)
                case Trouble():
                    # The drivers of several slots may have one with the same subject.
                    subject = f"{slot}/{event.subject}"
                    figures.troubles.add(subject)
                    self._report(replace(event, subject=subject))
                case _:
                    self._report(event)

    def end(self, slot: int, reached: bool = False) -> None:
        """Forget a slot whose driver has ended; one that has ``reached`` its end remains."""
        with self._lock:
            figures = self._slots.get(slot)
            if figures is None:
                return
            for subject in figures.troubles:
                self._report(Trouble(subject, ""))
            if reached or self._is_ending():
                self._faults[slot] = figures.faults
            if reached:
                figures.has_reached = True
                if all(slot_figures.has_reached for slot_figures in self._slots.values()):
                    self._report_pending()
                return
            del self._slots[slot]
            if figures.discovered is not None and not self._is_ending():
                self._report(PartitionsReleased(figures.discovered.partitions))
                self._report(self._merge_discovered())
            if not self._slots:
                self._report_pending()
            self._show(self._merge_started())

    def _report_pending(self) -> None:
        if any(progress.records for progress in self._pending):
            self._report_progress()

    def _report_started(self) -> None:
        started = self._merge_started()
        if self._has_started:
            self._report(replace(started, is_more=True))
        else:
            self._has_started = True
            self._report(replace(started, seconds=time() - self._began_at))

    def _merge_started(self) -> Started:
        started = list(self._of_all(lambda figures: figures.started))
        return Started(
            pipeline=started[-1].pipeline if started else "",
            term=max((start.term for start in started), default=0),
            slots=len(started),
            partitions=sum(start.partitions for start in started),
            seconds=started[-1].seconds if started else 0.0,
        )

    def _merge_discovered(self) -> TopicsDiscovered:
        discoveries = list(self._of_all(lambda figures: figures.discovered))
        wanted = {source for discovery in discoveries for source in discovery.partitions}
        # The driver of a slot also knows the positions of others, as they were when it started.
        positions = {
            source: discovery.positions[source]
            for discovery in discoveries
            for source in discovery.partitions
            if source in discovery.positions
        }
        return TopicsDiscovered(
            partitions=wanted,
            positions=positions,
            ends={
                source: end for discovery in discoveries for source, end in discovery.ends.items()
            },
            held_back={
                at: held for discovery in discoveries for at, held in discovery.held_back.items()
            },
            lag_records=sum_lags(discovery.lag_records for discovery in discoveries),
            held={source for discovery in discoveries for source in discovery.held},
            starts={at: start for d in discoveries for at, start in d.starts.items()},
            moved=MovedTopics(move for d in discoveries for move in d.moved.all),
        )

    def _report_progress(self) -> None:
        now, done = self._clock(), self._pending
        latest = list(self._of_all(lambda figures: figures.progress))
        self._lap += 1
        self._report(
            Progress(
                lap=self._lap,
                seconds=now - self._reported_at,
                records=sum(progress.records for progress in done),
                written_bytes=sum(progress.written_bytes for progress in done),
                rebuilt=sum(progress.rebuilt for progress in done),
                transactions=sum(progress.transactions for progress in done),
                commit_s=sum(progress.commit_s for progress in done),
                cpu_s=sum(progress.cpu_s for progress in done),
                pause_s=max((progress.pause_s for progress in done), default=0.0),
                partitions=sum(progress.partitions for progress in latest),
                stopped=sum(progress.stopped for progress in latest),
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
        return (part for figures in self._slots.values() if (part := read(figures)) is not None)
