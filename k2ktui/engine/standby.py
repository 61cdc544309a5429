"""When a standby may take over: from the heartbeats of all runners, without comparing clocks.

A runner is silent for as long as its heartbeat has not changed while this runner's own heartbeat
did. What a reader cannot see changes no record of its own either: while the target does not answer,
the topic accepts no writes, or this process is suspended, no silence adds up. Timestamps in
heartbeats are never used.

A wrong decision costs a takeover, never a record: fencing keeps two runs apart
(docs/exactly-once.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from k2ktui.engine.journal import RunKind, Runner, RunnerState

# A heartbeat may be late by this share of its interval.
_LATE = 1.2
_WORKING = frozenset({RunnerState.STARTING, RunnerState.RUNNING, RunnerState.STOPPING})


@dataclass(frozen=True, slots=True)
class _Seen:
    """The last heartbeat of a runner, and for how many seconds it has not changed."""

    record: Runner
    silent_s: float = 0.0


class StandbyTurn:
    """Decides when it is a standby's turn; not thread-safe.

    Args:
        own: the standby's id; of several standbys, the one with the lowest id is next.
        grace_s: seconds of silence after which a runner counts as gone.
        beat_s: seconds between two heartbeats.
        quiet_s: seconds to wait at least; for a run that another one has just fenced.

    Attributes:
        ahead: the newest heartbeats of the runners that it waits for.
    """

    def __init__(self, own: str, grace_s: float, beat_s: float, quiet_s: float = 0.0) -> None:
        self._own, self._grace_s, self._beat_s = own, grace_s, beat_s
        self._quiet_s = quiet_s
        self.ahead: tuple[Runner, ...] = ()
        self._seen: dict[str, _Seen] = {}
        self._own_changed_at: float | None = None
        self._was_free = False

    def observe(self, runners: Iterable[Runner], now: float) -> bool:
        """Take the newest heartbeats; return whether it is this standby's turn.

        Two observations in a row must agree, both with its own heartbeat: of standbys that start at
        the same time, at least one sees the other.

        Args:
            runners: the newest heartbeat of each run of the pipeline.
            now: monotonic seconds.
        """
        found = {each.runner: each for each in runners if each.kind is RunKind.COPY}
        passed_s = self._measure(found, now)
        self._seen = {
            name: self._update(self._seen.get(name), each, passed_s) for name, each in found.items()
        }
        self._quiet_s = max(0.0, self._quiet_s - passed_s)
        self.ahead = self._find_ahead()
        was_free, self._was_free = self._was_free, self._own in found and not self.ahead
        return was_free and self._was_free and not self._quiet_s

    def _measure(self, found: Mapping[str, Runner], now: float) -> float:
        """Return the seconds that count as silence of every runner without a new heartbeat."""
        own, before = found.get(self._own), self._seen.get(self._own)
        if own is None or (before is not None and before.record == own):
            return 0.0
        changed_at, self._own_changed_at = self._own_changed_at, now
        return 0.0 if changed_at is None else min(now - changed_at, _LATE * self._beat_s)

    @staticmethod
    def _update(before: _Seen | None, runner: Runner, passed_s: float) -> _Seen:
        if before is None or before.record != runner:
            return _Seen(runner)
        return replace(before, silent_s=before.silent_s + passed_s)

    def _find_ahead(self) -> tuple[Runner, ...]:
        """Return the runners that work, or are standbys with a lower id, and are not silent."""
        last = max((seen.record.term for seen in self._seen.values()), default=0)
        return tuple(
            seen.record
            for name, seen in sorted(self._seen.items())
            if name != self._own
            and seen.silent_s < self._grace_s
            and not 0 < seen.record.term < last  # a later run has fenced it
            and (
                seen.record.state in _WORKING
                or (seen.record.state is RunnerState.STANDBY and name < self._own)
            )
        )
