"""Starts a run of a pipeline: Spark's Java first, since it takes longest; then the imports.

Importing ``k2ktui.runs``, which composes a run, takes most of a second, mostly for Kafka's clients.
Spark's Java process starts in parallel.
"""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from k2ktui.config.model import PipelineConfig
from k2ktui.errors import ExitCode, K2kError
from k2ktui.kafka.unreachable import await_open
from k2ktui.replication.spark.environment import use_own_spark
from k2ktui.replication.spark.java import SparkJava, application_name
from k2ktui.replication.spark.master import require_master
from k2ktui.replication.spark.settings import require_safe
from k2ktui.replication.spark.submitted import join_submitted
from k2ktui.runtime.host import allow_many_descriptors
from k2ktui.runtime.probes import Readiness, serve_probes
from k2ktui.runtime.spark_extra import require_pyspark, require_transform_packages
from k2ktui.runtime.stop_signals import stop_on_signals

if TYPE_CHECKING:
    from k2ktui.replication.preflight.checks import Check
    from k2ktui.replication.reports.events import Finished, Report
    from k2ktui.runs import RunSeries
    from k2ktui.runtime.http_server import Address, HttpServer

log = logging.getLogger(__name__)


def run_pipeline(
    config: PipelineConfig,
    report: Callable[[Report], None],
    show_check: Callable[[Check], None],
    *,
    until_caught_up: bool = False,
    telemetry: bool = False,
    take_over: bool = False,
    ending: Collection[signal.Signals] = (),
    before_exit: Callable[[int], None] = lambda code: None,
    http: Address | None = None,
) -> ExitCode:
    """Run a pipeline in this process until it ends or a signal ends it; return the exit code.

    Args:
        config: the pipeline.
        report: called with every report, from several threads.
        show_check: called with every preflight check that did not pass.
        until_caught_up: end when every partition has reached the end offset seen at the start.
        telemetry: export metrics.
        take_over: with ``coordination.mode: standby`` or ``shared``, fence a run that works alone
            instead of waiting.
        ending: signals that end the run; must be called on the main thread if there are any. The
            second signal, or one that is not done after 4.5 seconds, ends the process.
        before_exit: called with the exit code before an immediate exit.
        http: where to serve probes and metrics.

    Raises:
        NotInstalled: PySpark is missing.
        K2kError: the pipeline could not start, or had to stop.
    """
    require_pyspark("running a pipeline")
    config = config.model_copy(update={"spark": join_submitted(config.spark)})
    require_safe(config.spark.config.items())
    allow_many_descriptors()
    unused = use_own_spark(config.spark)
    if unused:
        _note(report, unused)
    if transforms := config.replication.transforms():
        require_transform_packages(transforms[0][0].partition("[")[0])
    if config.features.check_kafka_connection_on_startup:
        # Fail early: starting Spark takes seconds.
        for label, side in (("source", config.source), ("target", config.target)):
            await_open(label, side.bootstrap_servers)
    require_master(config.spark)

    start = _Start(config, report, take_over=take_over, http=http)
    stopped = stop_on_signals(start.stop, start.abandon, ending, before_exit)
    try:
        start.begin()
        finished = start.run(show_check, until_caught_up, telemetry)
    except K2kError as error:
        if not stopped():
            raise
        _note(report, error.message)  # it was being stopped anyway
        finished = None
    finally:
        start.close()
    if stopped():
        return ExitCode.INTERRUPTED if stopped() == signal.SIGINT else ExitCode.OK
    return ExitCode.FINDINGS if finished and finished.faults else ExitCode.OK


def _note(report: Callable[[Report], None], text: str) -> None:
    from k2ktui.replication.reports.events import Note

    report(Note(text))


class _Start:
    """A run from the first moment on, at which signals can stop it."""

    def __init__(
        self,
        config: PipelineConfig,
        report: Callable[[Report], None],
        *,
        take_over: bool,
        http: Address | None,
    ) -> None:
        self._config, self._report, self._take_over = config, report, take_over
        self._java: SparkJava | None = None
        self._series: RunSeries | None = None
        self._is_stopped = False
        self._last_note = ""
        self._http: HttpServer | None = None
        if http is not None:
            from k2ktui.runtime.http_server import PAGES, HttpServer

            self._http = HttpServer(http, lambda text: _note(report, text))
            serve_probes(self._http, self._idle_s, self._readiness)
            self._http.start(announce=PAGES)

    def _idle_s(self) -> float:
        return 0.0 if self._series is None else self._series.idle_s()

    def _readiness(self) -> Readiness:
        if self._is_stopped:
            return Readiness(False, "stopping")
        readiness = (
            Readiness(False, "starting") if self._series is None else self._series.readiness()
        )
        if readiness.is_ready or not self._last_note:
            return readiness
        return Readiness(False, f"{readiness.text}\nlast note: {self._last_note}")

    def begin(self) -> None:
        """Start Java if the run needs it at once; one that waits starts it when its turn comes."""
        config = self._config
        waits = config.coordination.mode == "standby" and not self._take_over
        if config.features.check_kafka_connection_on_startup and not waits:
            transforms = bool(config.replication.transforms())
            name = application_name(config)
            self._java = SparkJava(config.spark, name, transforms=transforms)

    def run(
        self,
        show_check: Callable[[Check], None],
        until_caught_up: bool,
        telemetry: bool,
    ) -> Finished | None:
        """Run until the end; None if it was stopped before it began. Raises as the run does."""
        # Deferred import: Java starts meanwhile.
        from k2ktui.replication.reports.events import Note, Progress, report_text
        from k2ktui.runs import PipelineRun, RunSeries

        def report(event: Report) -> None:
            if isinstance(event, Note):
                self._last_note = event.text
            level = logging.DEBUG if isinstance(event, Progress) else logging.INFO
            if log.isEnabledFor(level):
                log.log(level, "%s", report_text(event))
            self._report(event)

        def show(check: Check) -> None:
            log.warning("check %s: %s: %s", check.outcome, check.name, check.detail)
            show_check(check)

        def make_run(quiet_s: float | None) -> PipelineRun:
            return PipelineRun(
                self._config,
                report,
                show,
                until_caught_up=until_caught_up,
                telemetry=telemetry,
                take_over=self._take_over and quiet_s is None,
                quiet_s=quiet_s or 0.0,
                java=self._java if quiet_s is None else None,
                http=self._http,
            )

        if self._is_stopped:
            return None
        self._series = series = RunSeries(self._config, report, make_run)
        if self._is_stopped:
            series.stop()
        return series.run()

    def stop(self) -> None:
        """Request a stop and return at once; called from signal handlers."""
        self._is_stopped = True
        if self._series is not None:
            self._series.stop()

    def abandon(self) -> None:
        """Remove temporary files; see ``PipelineRun.abandon``."""
        if self._java is not None:
            self._java.forget_files()
        if self._series is not None:
            self._series.abandon()

    def close(self) -> None:
        """End Java if no run has, and stop serving."""
        if self._http is not None:
            self._http.close()
        if self._java is not None:
            self._java.close()
