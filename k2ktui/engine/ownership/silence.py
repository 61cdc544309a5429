"""Measure how long other runs have been silent, without comparing clocks.

Time counts as silence of another run only while this run's own record changes and the other one
does not. So no silence adds up while the target does not answer, the topic accepts no writes, or
this process is suspended. Timestamps in records are never used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

# A heartbeat may be late by this share of its interval.
_LATE = 1.2


@dataclass(frozen=True, slots=True)
class _Seen:
    """The last record of a run, its silence so far, and whether it was ever seen to change."""

    record: object
    silent_s: float = 0.0
    has_changed: bool = False


class SilenceMeter:
    """Measures the silence of runs from their records; not thread-safe.

    Args:
        own: this run's id.
        beat_s: seconds between two records of a run.
    """

    def __init__(self, own: str, beat_s: float) -> None:
        self._own, self._beat_s = own, beat_s
        self._seen: dict[str, _Seen] = {}
        self._own_changed_at: float | None = None

    def observe(self, records: Mapping[str, object], now: float) -> float:
        """Take the newest record of each run.

        Args:
            records: the records by run; those of runs that have ended are left out.
            now: monotonic seconds.

        Returns:
            The seconds that count as silence of every run without a new record.
        """
        passed_s = self._measure(records, now)
        self._seen = {
            name: self._update(self._seen.get(name), record, passed_s)
            for name, record in records.items()
        }
        return passed_s

    def silent_s(self, name: str) -> float:
        """Return the seconds of silence of a run whose record was in the last observation."""
        return self._seen[name].silent_s

    def has_changed(self, name: str) -> bool:
        """Return whether a run has written a record since it was first observed: it lives."""
        return self._seen[name].has_changed

    def _measure(self, records: Mapping[str, object], now: float) -> float:
        own, before = records.get(self._own), self._seen.get(self._own)
        if own is None or (before is not None and before.record == own):
            return 0.0
        changed_at, self._own_changed_at = self._own_changed_at, now
        return 0.0 if changed_at is None else min(now - changed_at, _LATE * self._beat_s)

    @staticmethod
    def _update(before: _Seen | None, record: object, passed_s: float) -> _Seen:
        if before is None or before.record != record:
            return _Seen(record, has_changed=before is not None)
        return replace(before, silent_s=before.silent_s + passed_s)
