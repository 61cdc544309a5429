"""Heartbeats of a running pipeline, written to the state topic on the target every few seconds.

A separate thread with its own connections writes them; a failure is reported and does not affect
the run. Heartbeats show where a pipeline runs; fencing, not heartbeats, keeps two drivers
apart.
"""

from __future__ import annotations

import getpass
import os
import socket
import threading
import uuid
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial

from k2ktui.config.copying import copy_digest
from k2ktui.config.model import PipelineConfig
from k2ktui.engine.moves.journal import BEAT_MS, RunKind, Runner, RunnerKey, RunnerState
from k2ktui.engine.moves.journal_format import (
    read_state_key,
    read_state_value,
    state_key,
    state_value,
)
from k2ktui.engine.records.cluster_pair import ClusterPair
from k2ktui.engine.records.state import MalformedRecord
from k2ktui.errors import K2kError, Refused
from k2ktui.kafka.clients import Cluster, target_cluster
from k2ktui.kafka.control.keyed_writer import KeyedWriter
from k2ktui.kafka.control.reader import read_committed
from k2ktui.kafka.control.topics import ensure_state_topic
from k2ktui.replication.copying.partition_reader import now_ms
from k2ktui.replication.reports.status import RunStatus
from k2ktui.runtime.background import BackgroundRunner
from k2ktui.runtime.host import birth_of, pid_space
from k2ktui.text import safe_message, safe_text
from k2ktui.version import __version__

BEAT_S = BEAT_MS / 1000
_WRITE_S = 8.0
_READ_S = 10.0
_FAREWELL_S = 1.5
_FORGET_MS = 24 * 3_600_000
_ERROR_CHARS = 500
_RUNNER = b'"kind":"runner"'


class Heartbeat(BackgroundRunner):
    """The heartbeat of one run; the last one says that the run has stopped.

    Args:
        config: the pipeline.
        began_at: epoch seconds at which the run was requested.
        report: called when heartbeats fail, at growing intervals, and when they work again.
        status: what heartbeats say of it; None for a run that copies nothing.
        kind: what the run does.
        beat_s: seconds between two heartbeats.
    """

    failing = (
        "heartbeats cannot be written (the run continues, but other hosts do not see it running)"
    )
    recovered = "heartbeats are written again"
    refusals = (Refused,)  # the topic is missing, or may not be written to

    def __init__(
        self,
        config: PipelineConfig,
        began_at: float,
        report: Callable[[str], None],
        status: RunStatus | None = None,
        kind: RunKind = RunKind.COPY,
        beat_s: float = BEAT_S,
    ) -> None:
        super().__init__(
            "heartbeat",
            beat_s,
            report,
            immediately=True,
            last_turn=True,
            is_urgent=lambda: self._state() is not self._written,
            longest_pause_s=beat_s,
            stop_s=_FAREWELL_S,
        )
        self._config = config
        self.status = status or RunStatus(config.name, lambda report: None, began_at)
        self._group = config.coordination.commit.group
        self._now = Runner(
            runner=f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}",
            host=socket.gethostname(),
            user=_user(),
            pid=os.getpid(),
            started_ms=int(began_at * 1000),
            at_ms=0,
            state=RunnerState.STARTING,
            version=__version__,
            pid_space=pid_space(),
            birth=birth_of(os.getpid()),
            kind=kind,
            name=config.name,
            digest=copy_digest(config) if kind is RunKind.COPY else "",
        )
        self._error = ""
        self._waits = self._has_polled = False
        self._partitions = 0
        self._cleaned_term = -1
        self._written: RunnerState | None = None
        self._open: tuple[Cluster, KeyedWriter] | None = None
        # A plain flag, because signal handlers set it: the interrupted code may hold the lock of
        # an Event.
        self._ending = False

    @property
    def runner(self) -> str:
        """The unique id of this process."""
        return self._now.runner

    @property
    def shown(self) -> Runner:
        """What heartbeats say of this run."""
        return self.record(self._state())

    def observe_poll(self, error: str = "") -> None:
        """Update the heartbeat of ``k2ktui sync`` after a poll; "" if it did not fail."""
        self._has_polled = True
        self.add_error(error)

    def add_error(self, error: str) -> None:
        """Include an error in the following heartbeats."""
        self._error = safe_message(error, _ERROR_CHARS)

    def stand_by(self, *, waiting: bool) -> None:
        """Report the run, while it has no slot, as a standby or as starting."""
        self._waits = waiting

    def copies_between(self, pair: ClusterPair) -> None:
        """Include the ids of the clusters in the following heartbeats."""
        self._now = replace(self._now, source=pair.source, target=pair.target)

    def ending(self) -> None:
        """Report the run as stopping; safe in a signal handler."""
        self._ending = True

    def work(self) -> None:
        """Write one heartbeat; create the topic before the first.

        Raises:
            Refused: the topic is missing or may not be written to.
            K2kError: the target does not answer.
        """
        last = self.stop_requested
        self._written = RunnerState.STOPPED if last else self._state()
        self._beat(self._written)
        if not last and self._cleaned_term != self.status.term:
            self._cleaned_term = self.status.term
            # Reading the topic takes longer than a standby's grace window may be: heartbeats go on.
            clean = partial(self._forget_the_dead, self._partitions)
            threading.Thread(target=clean, name="heartbeat-clean", daemon=True).start()

    def close(self) -> None:
        """Disconnect."""
        if self._open is not None:
            self._open[1].close()

    def _state(self) -> RunnerState:
        if self._ending:
            return RunnerState.STOPPING
        if self._has_polled or self.status.slots_taken:
            return RunnerState.RUNNING
        return RunnerState.STANDBY if self._waits else RunnerState.STARTING

    def _connect(self) -> tuple[Cluster, KeyedWriter]:
        if self._open is None:
            target, topic = target_cluster(self._config), self._config.coordination.state.topic
            self._open = target, KeyedWriter(target, topic, _WRITE_S)
        return self._open

    def record(self, state: RunnerState) -> Runner:
        """Return the heartbeat that is written now; a standby owns no slot.

        It may own the same slots again in the same generation, so they are not forgotten.
        """
        status, text = self.status, ""
        with status.lock:
            runner = replace(
                self._now,
                at_ms=now_ms(),
                state=state,
                slots=status.slots_taken,
                term=status.term,
                generation=status.generation,
                owned=() if state is RunnerState.STANDBY else status.owned or (),
                last_error=self._error,
            )
            try:
                runner = self._add_figures(runner)
            except Exception as error:  # without heartbeats, a standby would take over
                text = status.take_defect(error)
        if text:
            self.say(text)
        return runner

    def _add_figures(self, runner: Runner) -> Runner:
        status, progress = self.status, self.status.progress
        error, error_ms = (self._error, 0) if self._error else status.problem()
        runner = replace(
            runner, lag_records=status.lag_records, last_error=error, error_ms=error_ms
        )
        if progress is None:
            return runner
        done = progress.transactions
        commit_ms = round(1000 * progress.commit_s / done, 1) if done else None
        return replace(runner, lap=progress.lap, commit_ms=commit_ms)

    def _beat(self, state: RunnerState) -> None:
        target, writer = self._connect()
        if not self._partitions:
            self._partitions = ensure_state_topic(self._config, target, self.say)
        runner = self.record(state)
        writer.put([(state_key(self._group, runner.key), state_value(runner))])
        self.status.beat()

    def _forget_the_dead(self, partitions: int) -> None:
        """Delete the last heartbeats of runs that ended long ago: each run has its own key.

        It has a thread and connections of its own.
        """
        target, topic = target_cluster(self._config), self._config.coordination.state.topic
        writer = KeyedWriter(target, topic, _WRITE_S)
        values: dict[bytes, bytes | None] = {}
        with closing(writer), suppress(K2kError):  # the next run tries again
            for record in read_committed(target, topic, partitions, _READ_S):
                if record.key and _RUNNER in record.key:
                    values[record.key] = record.value
            runners = {raw: run for raw, v in values.items() if (run := self._read(raw, v))}
            # If positions are lost, the highest term says that there were some.
            last = max((run.term for run in runners.values()), default=0)
            writer.put(
                [
                    (raw, None)
                    for raw, run in runners.items()
                    # This run's own says the same, once its term is as high.
                    if self._is_dead(run) and not run.term == last > self.status.term
                ]
            )
        target.disconnect()

    def _read(self, raw: bytes, value: bytes | None) -> Runner | None:
        """Return the heartbeat of a run of this pipeline; None for any other record."""
        try:
            _, key = read_state_key(raw, self._group)
            record = read_state_value(key, value) if isinstance(key, RunnerKey) and value else None
        except MalformedRecord:
            return None
        return record if isinstance(record, Runner) else None

    def _is_dead(self, runner: Runner) -> bool:
        # Age alone does not prove that a run is over: it must have stopped or been fenced.
        fenced = 0 < runner.term < self.status.term
        # Runs that share a pipeline have one term. This one has seen a later generation of owners:
        # the run sends no more heartbeats, or it writes its own again.
        left = 0 < runner.generation < self.status.generation
        over = fenced or left or runner.state is RunnerState.STOPPED
        return over and now_ms() - runner.at_ms > _FORGET_MS


def heartbeats_refused(
    config: PipelineConfig, heartbeat: Heartbeat, who: str, unchanged: str
) -> Refused:
    """Return the error of a run that cannot go on without heartbeats, with their own cause.

    Args:
        config: the pipeline.
        heartbeat: the heartbeats, which have ended.
        who: who needs them, as the beginning of a sentence.
        unchanged: what was therefore not changed.
    """
    topic, error = safe_text(config.coordination.state.topic), heartbeat.refusal
    cause = error.message if error else f"topic {topic} on the target could not be written to"
    hint = error.hint if error else "Grant the target principal Write on the topic."
    return Refused(
        f"{who}: {cause}",
        unchanged=unchanged,
        hint=f"{hint}\nOr set coordination.mode: exclusive.",
    )


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
