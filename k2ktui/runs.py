"""Composes a run of a pipeline from its configuration, and runs it.

::

    configuration ─► clusters ─► preflight ─► control topics ─┐
                                     Spark (starts meanwhile) ─┴─► what copies
        exclusive, standby    the whole pipeline, by one driver            (k2ktui/whole_runs.py)
        shared                the slots that it owns, by a driver each     (k2ktui/shared_runs.py)
    beside it, each on its own thread: heartbeats, holds, commit snapshots, mappings that
    groups need, summaries, MirrorMaker 2's checkpoints
    drivers ─► status of the run ─► heartbeat, metrics, the caller's report

``k2ktui start`` and jobs (and so the demo) run pipelines through ``k2ktui.starting`` only.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import time
from typing import TYPE_CHECKING

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.moves.journal import RunnerState
from k2ktui.errors import K2kError
from k2ktui.kafka.clients import Cluster, source_cluster, target_cluster
from k2ktui.kafka.control.topics import ControlTopics, ensure_control_topics
from k2ktui.kafka.properties.renewal import listening
from k2ktui.kafka.properties.translation import wire
from k2ktui.mm2.publish import PublisherThread
from k2ktui.replication.driver.heartbeat import Heartbeat
from k2ktui.replication.driver.run_parts import RunParts
from k2ktui.replication.fencing_errors import OwnershipLost, Superseded
from k2ktui.replication.ownership.control_watch import ControlTopicsWatch
from k2ktui.replication.preflight.checks import Check
from k2ktui.replication.preflight.gate import require_startable, wait_for_clusters
from k2ktui.replication.reports.events import Event, Finished, Note, Report, Started, Waiting
from k2ktui.replication.reports.status import PROGRESS_S, RunStatus
from k2ktui.replication.spark.java import SparkJava, application_name
from k2ktui.replication.spark.session import SparkRuntime
from k2ktui.replication.spark.settings import local_cores
from k2ktui.replication.telemetry.session import measure_run, read_exporter_names
from k2ktui.replication.transforms.schemas import TransformSchemas
from k2ktui.runtime.probes import Readiness
from k2ktui.runtime.stop_flag import StopFlag
from k2ktui.shared_runs import SharedRun
from k2ktui.sync.commit_snapshots import CommitSnapshotRunner
from k2ktui.sync.drill.rehearsals import RehearsalWatcher
from k2ktui.sync.holds import HoldWatcher
from k2ktui.sync.mapping.keeper import MappingKeeper
from k2ktui.sync.other_files import read_last_run, refuse_other_name
from k2ktui.sync.standby import StandbyWait, beat_interval_s
from k2ktui.sync.summaries import SummaryRunner
from k2ktui.text import counted, duration
from k2ktui.whole_runs import WholeRun

if TYPE_CHECKING:
    from k2ktui.runtime.http_server import HttpServer

# As for the alert K2ktuiHeartbeatLate.
_SILENT_S = 60.0
# Time for publishing the last checkpoints of a run that ends by itself.
_LAST_CHECKPOINTS_S = 20.0


class RunSeries:
    """The runs of one process: after a run was fenced by another one, a standby follows.

    Args:
        config: the pipeline; only with ``coordination.mode: standby`` is there a second run.
        report: called with notes.
        make_run: returns a run. Its argument is None for the first run, and later the minimum wait
            of a standby in seconds.
    """

    def __init__(
        self,
        config: PipelineConfig,
        report: Callable[[Report], None],
        make_run: Callable[[float | None], PipelineRun],
    ) -> None:
        self._config, self._report, self._make_run = config, report, make_run
        self._stopping = StopFlag()
        self._run = make_run(None)

    def run(self) -> Finished:
        """Run until stopped, or until caught up; raises as ``PipelineRun.run``."""
        while True:
            try:
                return self._run.run()
            except (Superseded, OwnershipLost) as error:
                if self._config.coordination.mode == "exclusive" or self._stopping.is_set():
                    raise
                self._report(Note(f"{error.message}; this one waits as a standby"))
            self._run = self._make_run(self._config.coordination.assignment.grace_window_s)
            if self._stopping.is_set():
                self._run.stop()

    def stop(self) -> None:
        """Request a stop and return at once; called from signal handlers."""
        self._stopping.set()
        self._run.stop()

    def abandon(self) -> None:
        """Remove temporary files; see ``PipelineRun.abandon``."""
        self._run.abandon()

    def idle_s(self) -> float:
        """Return the seconds since the loop of its run began its last turn."""
        return self._run.idle_s()

    def readiness(self) -> Readiness:
        """Return whether its run takes part."""
        return self._run.readiness()


class PipelineRun:
    """One run of a pipeline, with everything that runs beside it; it can run once.

    Args:
        config: the pipeline's configuration.
        report: called with every report, from several threads.
        show_check: called with every preflight check that did not pass.
        until_caught_up: end when every partition has reached the end it had at the start.
        telemetry: export metrics.
        take_over: do not wait, although ``coordination.mode`` is ``standby`` or ``shared``.
        quiet_s: seconds that a standby waits at least.
        java: the Java process of its Spark session, if it was started before.
        http: the server of this process, which serves the run's metrics.
    """

    def __init__(
        self,
        config: PipelineConfig,
        report: Callable[[Report], None],
        show_check: Callable[[Check], None],
        *,
        until_caught_up: bool = False,
        telemetry: bool = False,
        take_over: bool = False,
        quiet_s: float = 0.0,
        java: SparkJava | None = None,
        http: HttpServer | None = None,
    ) -> None:
        self._config, mode = config, config.coordination.mode
        self._waits = mode == "standby" and not take_over
        self._take_over = take_over
        self._quiet_s = quiet_s
        self._report = report
        self._show_check = show_check
        self._until_caught_up = until_caught_up
        self._telemetry, self._http = telemetry, http
        self._copying: WholeRun | SharedRun | None = None
        self._stopping = StopFlag()
        self._transforms = config.replication.transforms()
        self._begin_metrics: Callable[[], None] = lambda: None
        self._status = status = RunStatus(
            config.name,
            self._take_report,
            progress_s=PROGRESS_S if self._transforms or mode == "shared" else 0.0,
            is_ending=self._stopping.is_set,
        )
        self._heartbeat = Heartbeat(
            config, status.began_at, self._note, status, beat_s=beat_interval_s(config)
        )
        self._snapshots = CommitSnapshotRunner(config, self._note, self._works_beside)
        self._summaries = SummaryRunner(config, self._note, self._works_beside)
        self._mappings = MappingKeeper(config, self._note, self._works_beside, self._take_expiry)
        self._rehearsals = RehearsalWatcher(config, self._note, status)
        self._holds = HoldWatcher(config, self._note)
        self._control = ControlTopicsWatch(config, self._note, self.stop)
        self._publisher = PublisherThread(config, self._note, self._works_beside)
        source, self._target_options = (
            wire(config.source, "consumer"),
            wire(config.target, "producer"),
        )
        self._spark = SparkRuntime(
            config.spark,
            application_name(config),
            source,
            self._target_options,
            transforms=bool(self._transforms),
            schemas=TransformSchemas(config),
            java=java,
        )

    def run(self) -> Finished:
        """Run until stopped, or until caught up.

        Raises:
            ConfigError: the exporters of metrics cannot be set up from the environment.
            K2kError: the pipeline could not start, or another driver took over.
        """
        if not self._config.features.check_kafka_connection_on_startup:
            wait_for_clusters(self._config, self._stopping, self._report_note)
        with (
            listening(self._note),
            measure_run(
                self._config, self._status, self._note, wanted=self._telemetry, http=self._http
            ) as self._begin_metrics,
        ):
            try:
                if self._waits and not self._wait_for_turn():
                    return Finished(False, 0, time() - self._status.began_at, ())
                return self._replicate()
            finally:
                self._heartbeat.stop()
                self._snapshots.stop()
                self._summaries.stop()
                self._mappings.stop()
                self._rehearsals.stop()
                self._holds.stop()
                self._control.stop()
                self._publisher.stop(0.0 if self._stopping.is_set() else _LAST_CHECKPOINTS_S)

    def _wait_for_turn(self) -> bool:
        """Wait as a standby; return False if a stop was requested first."""
        require_startable(self._config, self._show_check)
        self._refuse_other_name()
        waiting = StandbyWait(self._config, self._heartbeat, self._report_note, self._quiet_s)
        return waiting.run(self._stopping)

    def _refuse_other_name(self) -> None:
        """Refuse to wait for a run of another pipeline, or to take over from it."""
        target = target_cluster(self._config)
        note = refuse_other_name(self._config, target, read_last_run(self._config, target))
        if note:
            self._note(note)

    def stop(self) -> None:
        """Request a stop and return at once; called from signal handlers."""
        self._heartbeat.ending()
        self._stopping.set()

    def abandon(self) -> None:
        """Remove temporary files when there is no time to stop; the processes end on their own."""
        self._spark.forget_files()

    def idle_s(self) -> float:
        """Return the seconds since its loop began its last turn."""
        return self._stopping.idle_s()

    def readiness(self) -> Readiness:
        """Return whether it takes part: it copies, or waits for a turn or for slots."""
        now, copying = self._heartbeat.shown, self._copying
        # While it joins the others, heartbeats show it as a standby, too.
        has_joined = self._waits or (copying is not None and copying.has_joined)
        if now.state is RunnerState.RUNNING:
            is_ready, text = True, f"running: {counted(now.slots, 'slot')}, term {now.term}"
        elif now.state is RunnerState.STANDBY and has_joined:
            is_ready, text = True, "standby" if self._waits else "standby: no slots"
        else:
            is_ready = False
            text = str(RunnerState.STARTING if now.state is RunnerState.STANDBY else now.state)
        # A run that works alone copies without heartbeats where it has no right to write them.
        if is_ready and not self._heartbeat.has_ended and self._status.silent_s > _SILENT_S:
            is_ready = False
            text += f"; the target has taken no heartbeat for {duration(self._status.silent_s)}"
        if now.last_error:
            text += f"\nproblem: {now.last_error}"
        return Readiness(is_ready, text)

    def _start_beside(self, target: Cluster) -> ControlTopics:
        """Start what runs beside the copying, and return the pipeline's own topics."""
        self._snapshots.start()
        if self._config.mm2.publish:
            self._publisher.start()
        control = ensure_control_topics(self._config, target)
        for note in control.notes:
            self._note(note)
        self._control.start()
        if self._config.coordination.mode == "shared":
            # Runs that share the pipeline already do not wait for this one to start.
            self._heartbeat.stand_by(waiting=True)
        if not self._heartbeat.was_started:
            self._heartbeat.start()
        if self._config.features.offset_mapping:
            self._summaries.start()
            self._mappings.start()
        has_http = self._http is not None
        if read_exporter_names(os.environ, wanted=self._telemetry, has_http=has_http):
            self._rehearsals.start()
        return control

    def _replicate(self) -> Finished:
        config, mode = self._config, self._config.coordination.mode
        source, target = source_cluster(config), target_cluster(config)
        target.pause = self._pause
        with ThreadPoolExecutor(1) as pool:
            starting = pool.submit(self._start_spark)
            try:
                require_startable(config, self._show_check)
                if mode == "standby" and not self._waits:
                    self._refuse_other_name()
                control = self._start_beside(target)
                self._holds.begin(target)
                parts = RunParts(
                    config,
                    source,
                    target,
                    self._target_options,
                    control,
                    self._spark,
                    self._heartbeat,
                    self._status,
                    take_over=self._take_over,
                    until_caught_up=self._until_caught_up,
                    holds=lambda: self._holds.holds,
                )
                kind = SharedRun if mode == "shared" else WholeRun
                self._copying = kind(parts)
                self._copying.prepare()
                starting.result()
                finished = self._copying.run(self._slots(), self._stopping)
                if self._control.loss is not None:
                    raise self._control.loss
                return finished
            except K2kError as error:
                loss = self._control.loss
                self._heartbeat.add_error((loss or error).message)
                if loss is not None:
                    raise loss from error
                raise
            finally:
                starting.exception()
                self._heartbeat.stop()
                if self._copying is not None:
                    self._copying.close()
                self._spark.stop()

    def _pause(self, text: str, seconds: float) -> bool:
        """Wait for a quota; return whether a stop was requested."""
        self._note(text)
        return self._stopping.wait(seconds)

    def _start_spark(self) -> None:
        self._spark.start()
        slots = self._slots()
        if self._config.coordination.mode == "shared":
            slots = min(slots, self._spark.parallelism)
        self._spark.warm_up(slots)
        self._spark.check_transforms(self._transforms)
        self._spark.warm_up_transforms(slots, (transform for _, transform in self._transforms))

    def _works_beside(self) -> bool:
        """Return whether this run does what one run does for the whole pipeline."""
        if self._copying is None:  # of runs that share, the one that leads does
            return self._config.coordination.mode != "shared"
        return self._copying.leads

    def _slots(self) -> int:
        """Return the number of slots; where neither the file nor the master says it, ask Spark."""
        config = self._config
        slots = config.slots or local_cores(config.spark.master) or self._spark.parallelism
        return min(slots, config.coordination.most_slots)

    def _report_note(self, event: Event) -> None:
        if isinstance(event, Note | Waiting):
            self._report(event)

    def _take_report(self, report: Report) -> None:
        if isinstance(report, Started):
            self._begin_metrics()
        self._report(report)

    def _take_expiry(self, at: float | None) -> None:
        self._status.mappings_expire_at = at

    def _note(self, text: str) -> None:
        self._report(Note(text))
