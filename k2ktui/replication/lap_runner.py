"""Runs laps: the whole Spark session, or one driver's view of it.

Where one process copies several slots with a driver each, they share a Spark session, and each
ends only its own laps.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Protocol

from k2ktui.replication.slot_task import SlotResult, SlotTask

Lap = Future[list[SlotResult]]


class LapRunner(Protocol):
    """What a driver needs of Spark; ``SparkRuntime`` describes the methods."""

    def submit(self, tasks: Sequence[SlotTask]) -> Lap:
        """Begin a lap."""

    def is_waiting(self, lap: Lap) -> bool:
        """Return whether the lap waits for a free core."""

    def give_up(self, lap: Lap) -> None:
        """Cancel one lap; the caller discards its future."""

    def cancel(self) -> None:
        """Cancel all laps."""


class OwnLaps:
    """One driver's view of the laps that several drivers run; not thread-safe.

    Args:
        laps: where all of them run.
    """

    def __init__(self, laps: LapRunner) -> None:
        self._laps = laps
        self._running: set[Lap] = set()

    def submit(self, tasks: Sequence[SlotTask]) -> Lap:
        """Begin a lap; it fails as that of ``SparkRuntime``."""
        self._running = {lap for lap in self._running if not lap.done()}
        lap = self._laps.submit(tasks)
        self._running.add(lap)
        return lap

    def is_waiting(self, lap: Lap) -> bool:
        """Return whether the lap waits for a free core."""
        return self._laps.is_waiting(lap)

    def give_up(self, lap: Lap) -> None:
        """Cancel one lap; the caller discards its future."""
        self._running.discard(lap)
        self._laps.give_up(lap)

    def cancel(self) -> None:
        """Cancel the laps that were submitted here, and no others."""
        for lap in [lap for lap in self._running if not lap.done()]:
            self.give_up(lap)
