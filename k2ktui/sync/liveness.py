"""Determine which runs are alive by changes of their heartbeats, not by other hosts' clocks.

A heartbeat carries its writer's wall clock, which may be hours off. A run is alive if its record
changes while this process watches, measured on this process's monotonic clock. Until that is known
(``unsure``), a record seen for the first time is judged by its own timestamp.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from k2ktui.engine.moves.journal import BEAT_MS, SILENT_AFTER_MS, Runner, RunnerState
from k2ktui.runtime.host import pid_space, process_has_ended

# Two heartbeats, plus time for writing and reading: a run unchanged for that long is silent.
SETTLE_S = 2 * BEAT_MS / 1000 + 1.0
_FRESH_MS = SILENT_AFTER_MS


@dataclass(slots=True)
class _LastHeartbeat:
    """The last heartbeat of one run, when it was first seen (monotonic), and whether it changed."""

    record: Runner
    since: float
    changed: bool


class HeartbeatObserver:
    """Tracks the last heartbeat of each run; not thread-safe.

    Args:
        clock: monotonic seconds.
        wall: epoch seconds.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._clock = clock
        self._wall = wall
        self._heard: dict[str, _LastHeartbeat] = {}

    def observe(self, runners: Iterable[Runner]) -> tuple[Runner, ...]:
        """Return the runners with the time of their last sign of life, the liveliest first."""
        now, observed = self._clock(), list(runners)
        before = self._heard
        self._heard = {}
        for runner in observed:
            known = before.get(runner.runner)
            if known is None:
                known = _LastHeartbeat(runner, now, changed=False)
            elif known.record != runner:
                known = _LastHeartbeat(runner, now, changed=True)
            self._heard[runner.runner] = known
        now_ms = int(self._wall() * 1000)
        judged = [replace(r, heard_ms=self._heard_ms(r.runner, now, now_ms)) for r in observed]
        return tuple(
            sorted(
                judged,
                key=lambda r: (
                    r.alive(now_ms),
                    r.state is not RunnerState.STANDBY,
                    r.term,
                    r.started_ms,
                    r.runner,
                ),
                reverse=True,
            )
        )

    def unsure(self, is_over: Callable[[Runner], bool] = lambda _: False) -> list[str]:
        """Return the runs whose liveness cannot be decided yet.

        Their heartbeat has neither changed nor stayed the same for ``SETTLE_S`` seconds. Runs that
        stopped, that a later term has fenced or that ``is_over`` reports as ended are left out.
        """
        now, now_ms = self._clock(), int(self._wall() * 1000)
        last = max((heard.record.term for heard in self._heard.values()), default=0)
        return [
            name
            for name, heard in self._heard.items()
            if heard.record.state is not RunnerState.STOPPED
            and not heard.changed
            and now - heard.since < SETTLE_S
            and not 0 <= now_ms - heard.record.at_ms <= _FRESH_MS
            and not 0 < heard.record.term < last
            and not is_over(heard.record)
        ]

    def _heard_ms(self, name: str, now: float, now_ms: int) -> int:
        """Return a run's last sign of life, epoch milliseconds by this process's clock."""
        heard = self._heard[name]
        seen_ms = now_ms - int(1000 * (now - heard.since))
        if heard.changed:
            return seen_ms
        if now - heard.since >= SETTLE_S:
            # Unchanged for too long: silent, whatever its timestamp says.
            seen_ms = min(seen_ms, now_ms - SILENT_AFTER_MS - 1)
        return min(heard.record.at_ms, seen_ms)


def may_be_local(runner: Runner) -> bool:
    """Whether a heartbeat's pid may be of this host; certain unless its version is older."""
    return runner.host == socket.gethostname() and runner.pid_space in ("", pid_space())


def has_ended(runner: Runner) -> bool:
    """Whether a heartbeat's process was one of this host and no longer exists.

    The host name and the pid do not prove it: the process may be in another PID namespace, such as
    a container with the same host name, and another process may have the pid now.
    """
    return may_be_local(runner) and process_has_ended(runner.pid, runner.pid_space, runner.birth)


def find_ended(runners: Iterable[Runner]) -> frozenset[str]:
    """Return the ids of the runs whose processes were of this host and no longer exist."""
    return frozenset(runner.runner for runner in runners if has_ended(runner))
