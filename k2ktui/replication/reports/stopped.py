"""Stopped partitions: why each stopped and when it is retried."""

from __future__ import annotations

from collections.abc import Callable, Collection
from math import inf
from time import monotonic

from k2ktui.engine.records.state import SourcePartition
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


class StoppedPartitions:
    """The partitions that stopped, each with its fault.

    Args:
        report: called with Stopped and Resumed.
    """

    def __init__(self, report: Callable[[Event], None]) -> None:
        self._report = report
        self._faults: dict[SourcePartition, tuple[Fault, float]] = {}
        self._on_trial: dict[SourcePartition, Fault] = {}

    def __contains__(self, source: SourcePartition) -> bool:
        # Most of the time there are none, and thousands of partitions are asked for.
        return bool(self._faults) and source in self._faults

    def __len__(self) -> int:
        return len(self._faults)

    @property
    def faults(self) -> tuple[Fault, ...]:
        """The faults of all stopped partitions."""
        return tuple(fault for fault, _ in self._faults.values())

    def why(self, source: SourcePartition) -> Fault | None:
        """Return the fault of a stopped partition."""
        stop = self._faults.get(source)
        return stop[0] if stop else None

    def stop(self, fault: Fault) -> None:
        """Stop a partition; a fault that was reported before is not reported again."""
        stopped = self._faults.get(fault.source)
        before = stopped[0] if stopped else self._on_trial.get(fault.source)
        if before is None or not _is_same(before, fault):
            self._report(Stopped(fault))
        pause_s = _RETRY_TOO_LARGE_S if fault.kind is FaultKind.TOO_LARGE else RETRY_S
        self._faults[fault.source] = (fault, monotonic() + pause_s)

    def clear(self, source: SourcePartition) -> None:
        """Forget the fault of a partition that starts again."""
        self._faults.pop(source, None)

    def retry(self, sources: Collection[SourcePartition]) -> None:
        """Retry partitions whose fault may have been fixed, every 30 s, or 20 s if too large."""
        now = monotonic()
        for source in sources if self._faults else ():
            stop = self._faults.get(source)
            if stop and stop[0].kind in _CURABLE and now >= stop[1]:
                del self._faults[source]
                self._on_trial[source] = stop[0]

    def longest_lap_s(self, sources: Collection[SourcePartition]) -> float:
        """Return the seconds after which a lap must end, so that the next retry is in time."""
        times = [
            stop[1]
            for source in (sources if self._faults else ())
            if (stop := self._faults.get(source)) and stop[0].kind in _CURABLE
        ]
        return max(_SHORTEST_LAP_S, min(times) - monotonic()) if times else inf

    def release(self, sources: Collection[SourcePartition]) -> None:
        """Retry partitions whose reason to stop is over."""
        for source in sources:
            if source in self._faults:
                self._on_trial[source], _ = self._faults.pop(source)

    def report_resumed(
        self, sources: Collection[SourcePartition], faulty: Collection[SourcePartition]
    ) -> None:
        """Report retried partitions that were copied, and not with a fault, as resumed."""
        for source in [s for s in self._on_trial if s in sources and s not in faulty]:
            self._report(Resumed(source.topic, source.partition))
            del self._on_trial[source]


def _is_same(one: Fault, other: Fault) -> bool:
    # Not by the text: it may contain offsets and durations, which change with every attempt.
    return (one.kind, one.hint) == (other.kind, other.hint)
