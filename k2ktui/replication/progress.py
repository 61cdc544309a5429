"""Aggregates the slots' results and reports progress once per lap."""

from __future__ import annotations

from collections.abc import Callable, Collection
from time import monotonic

from k2ktui.replication.events import Event, FirstRecord, Progress, SlotLap
from k2ktui.replication.slot_task import SlotResult, SlotStats


class ProgressReporter:
    """Reports the progress of all slots.

    Args:
        report: called with every event.
        began_at: epoch seconds at which the run was requested.
    """

    def __init__(self, report: Callable[[Event], None], began_at: float) -> None:
        self._report = report
        self._began_at = began_at
        self._lap = 0
        self._lap_began = monotonic()
        self._ended: set[int] = set()
        self._tally = SlotStats()
        self._pause = 0.0
        self._first_seen = False
        self._ended_at: dict[int, float] = {}
        self.records = 0

    def begin(self) -> None:
        """Start the clock of the first lap."""
        self._lap_began = monotonic()

    def lap_ended(self, slot: int, result: SlotResult | None) -> None:
        """Record and report a slot's result; None if its task was lost."""
        before = self._ended_at.get(slot, 0.0)
        self._report(SlotLap.of(slot, before, result))
        self._ended.add(slot)
        if result is None:
            return
        self._tally = self._tally.plus(result.tally)
        self.records += result.tally.records
        if before:
            self._pause = max(self._pause, result.began_at - before)
        self._ended_at[slot] = result.ended_at
        if result.first_commit_at and result.tally.records and not self._first_seen:
            self._first_seen = True
            self._report(FirstRecord(result.first_commit_at - self._began_at))

    def all_ended(self, running: Collection[int]) -> bool:
        """Return whether every running slot has ended a lap since the last progress report."""
        return bool(self._ended) and self._ended.issuperset(running)

    @property
    def untold(self) -> bool:
        """Whether records were copied since the last progress report."""
        return bool(self._tally.records)

    def progress(self, *, partitions: int, stopped: int, lag_records: int | None) -> None:
        """Report what was copied since the last progress report."""
        now, tally = monotonic(), self._tally
        self._lap += 1
        self._report(
            Progress(
                lap=self._lap,
                seconds=now - self._lap_began,
                records=tally.records,
                written_bytes=tally.written_bytes,
                rebuilt=tally.rebuilt,
                transactions=tally.transactions,
                commit_s=tally.commit_s,
                cpu_s=tally.cpu_s,
                pause_s=self._pause,
                partitions=partitions,
                stopped=stopped,
                lag_records=lag_records,
            )
        )
        self._tally, self._pause, self._lap_began = SlotStats(), 0.0, now
        self._ended.clear()
