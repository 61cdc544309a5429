"""When a standby may take over: from the heartbeats of all runners, without comparing clocks.

A wrong decision costs a takeover, never a record: fencing keeps two runs apart
(docs/internals/exactly-once.md).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from k2ktui.engine.moves.journal import RunKind, Runner, RunnerState
from k2ktui.engine.ownership.silence import SilenceMeter

_WORKING = frozenset({RunnerState.STARTING, RunnerState.RUNNING, RunnerState.STOPPING})


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
        self._own, self._grace_s = own, grace_s
        self._quiet_s = quiet_s
        self.ahead: tuple[Runner, ...] = ()
        self._silence = SilenceMeter(own, beat_s)
        self._was_free = False

    def observe(
        self,
        runners: Iterable[Runner],
        now: float,
        members: Collection[str] | None = None,
        ended: Collection[str] = (),
    ) -> bool:
        """Take the newest heartbeats; return whether it is this standby's turn.

        Two observations in a row must agree, both with its own heartbeat: of standbys that start at
        the same time, at least one sees the other.

        Args:
            runners: the newest heartbeat of each run of the pipeline.
            now: monotonic seconds.
            members: the runs that share the pipeline with this one. It waits neither for them nor
                for standbys, which wait for it. None for a standby.
            ended: runs whose processes have ended: their silence is not waited for.
        """
        copying = {runner.runner: runner for runner in runners if runner.kind is RunKind.COPY}
        passed_s = self._silence.observe(copying, now)
        self._quiet_s = max(0.0, self._quiet_s - passed_s)
        self.ahead = self._find_ahead(copying, members, ended)
        was_free, self._was_free = self._was_free, self._own in copying and not self.ahead
        return was_free and self._was_free and not self._quiet_s

    def _find_ahead(
        self,
        copying: Mapping[str, Runner],
        members: Collection[str] | None,
        ended: Collection[str],
    ) -> tuple[Runner, ...]:
        """Return the runners that work, or are standbys with a lower id, and are not silent."""
        is_standby, others = members is None, members or ()
        last = max((runner.term for runner in copying.values()), default=0)
        return tuple(
            runner
            for name, runner in sorted(copying.items())
            if name != self._own
            and name not in others
            and name not in ended
            and self._silence.silent_s(name) < self._grace_s
            and not 0 < runner.term < last  # a later run has fenced it
            and (
                runner.state in _WORKING
                or (is_standby and runner.state is RunnerState.STANDBY and name < self._own)
            )
        )
