"""The wait of a standby for its turn, from the heartbeats on the target."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.moves.journal import Runner
from k2ktui.engine.ownership.standby import StandbyTurn
from k2ktui.errors import ClusterRefused, ConnectionFailed, TimedOut
from k2ktui.kafka.clients import target_cluster
from k2ktui.replication.driver.heartbeat import BEAT_S, Heartbeat, heartbeats_refused
from k2ktui.replication.reports.events import Event, Note, Waiting
from k2ktui.replication.reports.notes import ThrottledNotifier
from k2ktui.replication.reports.stopped import RETRY_S
from k2ktui.runtime.stop_flag import StopFlag
from k2ktui.sync.drill.guard import refuse_if_fenced
from k2ktui.sync.liveness import find_ended
from k2ktui.sync.store import StateStore
from k2ktui.text import safe_text

_BEATS_IN_GRACE = 3
_READ_S = 10.0
_LONGEST_LOOK_S = 1.0
# More often at first, as it may be the only run.
_FIRST_LOOKS_S, _FIRST_LOOK_S = 5.0, 0.2
_WAITING = "waiting for its turn"


def beat_interval_s(config: PipelineConfig) -> float:
    """Return the seconds between two heartbeats of a run: at least three in a grace window."""
    if config.coordination.mode == "exclusive":
        return BEAT_S
    return min(BEAT_S, config.coordination.assignment.grace_window_s / _BEATS_IN_GRACE)


class StandbyWait:
    """Waits until no other run of the pipeline works and no other standby is before this one.

    Args:
        config: the pipeline.
        heartbeat: this run's heartbeat, which is started here.
        report: called with notes for the operator.
        quiet_s: seconds to wait at least, after another run has fenced this one.
    """

    def __init__(
        self,
        config: PipelineConfig,
        heartbeat: Heartbeat,
        report: Callable[[Event], None],
        quiet_s: float = 0.0,
    ) -> None:
        self._config, self._heartbeat, self._report = config, heartbeat, report
        self._beat_s = beat_interval_s(config)
        grace_s = config.coordination.assignment.grace_window_s
        self._turn = StandbyTurn(heartbeat.runner, grace_s, self._beat_s, quiet_s)
        self._notifier = ThrottledNotifier(report)
        self._ahead = ""
        self._has_read, self._not_before = False, 0.0

    def run(self, stopping: StopFlag) -> bool:
        """Wait; return False if a stop was requested first.

        Raises:
            Refused: a drill has fenced the pipeline, or the state topic cannot be used.
        """
        store = StateStore(self._config, target_cluster(self._config), _READ_S)
        self._heartbeat.stand_by(waiting=True)
        starts_until = monotonic() + _FIRST_LOOKS_S
        try:
            store.ensure()
            self._heartbeat.start()
            while not stopping.is_set():
                if self._is_next(store):
                    self._heartbeat.stand_by(waiting=False)
                    self._report(Note("standby: promoting this run"))
                    return True
                is_starting = monotonic() < starts_until
                longest_s = _FIRST_LOOK_S if is_starting else _LONGEST_LOOK_S
                stopping.wait(min(longest_s, self._beat_s / 2))
        finally:
            store.close()
        return False

    def _is_next(self, store: StateStore) -> bool:
        if self._heartbeat.has_ended:
            raise heartbeats_refused(
                self._config, self._heartbeat, "a standby needs heartbeats", "Nothing was copied."
            )
        if monotonic() < self._not_before:
            return False
        try:
            state = store.read()
        except ClusterRefused as error:
            if not self._has_read:
                raise
            self._notifier.report(_WAITING, error.message)
            self._not_before = monotonic() + RETRY_S
            return False
        except (ConnectionFailed, TimedOut) as error:
            self._notifier.report(_WAITING, error.message)
            return False
        self._has_read = True
        self._notifier.over(_WAITING)
        refuse_if_fenced(self._config, state.drills.values())
        ended = find_ended(state.runners)
        is_next = self._turn.observe(state.runners, monotonic(), ended=ended)
        self._report_change(self._turn.ahead)
        return is_next

    def _report_change(self, ahead: Sequence[Runner]) -> None:
        names = describe_runners(ahead)
        if names and names != self._ahead:
            self._report(Waiting(names))
        self._ahead = names or self._ahead


def describe_runners(runners: Sequence[Runner]) -> str:
    """Return the first few runs as text, safe to print; "" for none."""
    return ", ".join(
        f"{safe_text(runner.host)} pid {runner.pid} ({runner.state})" for runner in runners[:5]
    )
