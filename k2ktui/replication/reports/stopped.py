"""Stopped partitions: why each stopped and when it is retried."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass
from math import inf
from time import monotonic

from k2ktui.engine.records.state import SourcePartition
from k2ktui.replication.copying.partition_reader import now_ms
from k2ktui.replication.copying.slot_task import Fault, FaultKind
from k2ktui.replication.reports.events import Event, Resumed, Stopped

RETRY_S = 30.0
"""Seconds after which what a cluster refused is tried again."""
# A lap begins at most this long after a retry is due: no lap is shorter because of one.
_SHORTEST_LAP_S = 5.0
# With that, a record that is too large is copied within 30 s once the limit is raised.
_RETRY_TOO_LARGE_S = 20.0
_CURABLE = frozenset(
    {
        FaultKind.UNAUTHORIZED,
        FaultKind.REFUSED,
        FaultKind.GONE,
        FaultKind.UNAVAILABLE,
        FaultKind.SCHEMA,
        FaultKind.TOO_LARGE,
    }
)


@dataclass(slots=True)
class _Stop:
    """Why a partition stopped, and since when.

    ``text`` is what was reported: the same fault again may have other offsets and durations.
    ``retry_at`` is in monotonic seconds.
    """

    fault: Fault
    text: str
    since_ms: int
    retry_at: float


class StoppedPartitions:
    """The partitions that a driver has stopped, each with its fault.

    Its methods are the driver's; other threads only call ``kinds`` and ``problems``.

    Args:
        report: called with Stopped and Resumed, without the lock.
        lock: guards them.
    """

    def __init__(self, report: Callable[[Event], None], lock: threading.RLock) -> None:
        self._report, self._lock = report, lock
        self._stops: dict[SourcePartition, _Stop] = {}
        self._on_trial: dict[SourcePartition, _Stop] = {}

    def __contains__(self, source: SourcePartition) -> bool:
        # Most of the time there are none, and thousands of partitions are asked for.
        return bool(self._stops) and source in self._stops

    def __len__(self) -> int:
        return len(self._stops)

    @property
    def faults(self) -> tuple[Fault, ...]:
        """The faults of all stopped partitions."""
        return tuple(stop.fault for stop in self._stops.values())

    def why(self, source: SourcePartition) -> Fault | None:
        """Return the fault of a stopped partition."""
        stop = self._stops.get(source)
        return stop.fault if stop else None

    def kinds(self) -> dict[SourcePartition, FaultKind]:
        """Return what partitions stopped for, with those that are retried and not yet copied."""
        with self._lock:
            both = self._on_trial | self._stops
            return {source: stop.fault.kind for source, stop in both.items()}

    def problems(self) -> list[tuple[str, int]]:
        """Return what was reported of them, and since when (epoch milliseconds)."""
        with self._lock:
            both = self._on_trial | self._stops
            return [(stop.text, stop.since_ms) for stop in both.values()]

    def stop(self, fault: Fault) -> None:
        """Stop a partition; a fault that was reported before is not reported again."""
        source = fault.source
        before = self._stops.get(source) or self._on_trial.get(source)
        is_new = before is None or not _is_same(before.fault, fault)
        text = before.text if before and not is_new else fault.message
        since_ms = before.since_ms if before else now_ms()
        pause_s = _RETRY_TOO_LARGE_S if fault.kind is FaultKind.TOO_LARGE else RETRY_S
        with self._lock:
            self._stops[source] = _Stop(fault, text, since_ms, monotonic() + pause_s)
        if is_new:
            self._report(Stopped(fault))

    def clear(self, source: SourcePartition) -> None:
        """Forget the faults of a partition that starts again, or is copied no longer."""
        with self._lock:
            self._stops.pop(source, None)
            self._on_trial.pop(source, None)

    def retry(self, sources: Collection[SourcePartition]) -> None:
        """Retry partitions whose fault may have been fixed, every 30 s, or 20 s if too large."""
        now = monotonic()
        for source in sources if self._stops else ():
            stop = self._stops.get(source)
            if stop and stop.fault.kind in _CURABLE and now >= stop.retry_at:
                self.release([source])

    def longest_lap_s(self, sources: Collection[SourcePartition]) -> float:
        """Return the seconds after which a lap must end, so that the next retry is in time."""
        times = [
            stop.retry_at
            for source in (sources if self._stops else ())
            if (stop := self._stops.get(source)) and stop.fault.kind in _CURABLE
        ]
        return max(_SHORTEST_LAP_S, min(times) - monotonic()) if times else inf

    def release(self, sources: Collection[SourcePartition]) -> None:
        """Retry partitions whose reason to stop is over."""
        with self._lock:
            for source in sources:
                if source in self._stops:
                    self._on_trial[source] = self._stops.pop(source)

    def report_resumed(
        self, sources: Collection[SourcePartition], faulty: Collection[SourcePartition]
    ) -> None:
        """Report retried partitions that were copied, and not with a fault, as resumed."""
        for source in [s for s in self._on_trial if s in sources and s not in faulty]:
            with self._lock:
                del self._on_trial[source]
            self._report(Resumed(source.topic, source.partition))


def _is_same(one: Fault, other: Fault) -> bool:
    # Not by the text: it may contain offsets and durations, which change with every attempt.
    return (one.kind, one.hint) == (other.kind, other.hint)
