"""Metrics of a run, if enabled: selects the exporters and isolates the run from their failures.

OpenTelemetry is loaded only if an exporter is selected.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from k2ktui.config.model import MetricPrefixes, PipelineConfig
from k2ktui.errors import ConfigError
from k2ktui.replication.reports.events import Detail, Event, Note, Report, Started
from k2ktui.replication.telemetry.metric import Metric, MetricSource, full_name
from k2ktui.replication.telemetry.metrics import PipelineMetrics
from k2ktui.text import safe_text

if TYPE_CHECKING:
    from k2ktui.replication.telemetry.exporters import Exporters
    from k2ktui.runtime.http_server import HttpServer

EXPORTERS = ("console", "kafka", "none", "otlp", "prometheus")
_VARIABLE = "OTEL_METRICS_EXPORTER"
_ADDRESS = ("OTEL_EXPORTER_PROMETHEUS_HOST", "OTEL_EXPORTER_PROMETHEUS_PORT")
# OpenTelemetry's syntax of instrument names.
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_./-]{0,254}")


def read_exporter_names(
    env: Mapping[str, str], *, wanted: bool, has_http: bool = False
) -> tuple[str, ...]:
    """Return the exporters selected by the standard variables; none if metrics are off.

    Args:
        env: the environment; ``OTEL_METRICS_EXPORTER`` alone enables metrics.
        wanted: ``--telemetry`` was given, so OpenTelemetry's default, ``otlp``, applies.
        has_http: ``--http`` was given, so that Prometheus is served.

    Raises:
        ConfigError: an exporter does not exist, or ``none`` is combined with another.
    """
    if env.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return ()
    text = env.get(_VARIABLE, "")
    names = tuple(dict.fromkeys(name for part in text.split(",") if (name := part.strip())))
    unknown = [safe_text(name) for name in names if name not in EXPORTERS]
    if unknown:
        raise ConfigError(
            f"{_VARIABLE} names an unknown exporter: {', '.join(unknown)}",
            unchanged="Nothing was started.",
            hint=f"Use {', '.join(EXPORTERS)}; separate several by commas.",
        )
    if "none" in names:
        if len(names) > 1:
            raise ConfigError(
                f"{_VARIABLE} has none beside another exporter",
                unchanged="Nothing was started.",
                hint="Remove one of them.",
            )
        return ()
    names = names or (("otlp",) if wanted else ())
    return tuple(dict.fromkeys((*names, "prometheus"))) if has_http else names


@contextmanager
def measure_run(
    config: PipelineConfig,
    report_to: Callable[[Report], None],
    *,
    wanted: bool = False,
    env: Mapping[str, str] = os.environ,
    http: HttpServer | None = None,
) -> Iterator[Callable[[Event], None]]:
    """Measure a run: yield the function that the pipeline reports events to.

    Reports are passed on to ``report_to``, details are not; both feed the metrics. ``report_to``
    also gets a note, from another thread, when an exporter fails for the first time. Leaving the
    context exports once more and takes at most three seconds.

    Raises:
        ConfigError: the exporters cannot be set up from the environment.
    """
    telemetry = open_telemetry(
        config, lambda text: report_to(Note(text)), wanted=wanted, env=env, http=http
    )

    def report(event: Event) -> None:
        if telemetry is not None:
            telemetry.feed(event)
        if not isinstance(event, Detail):
            report_to(event)

    try:
        yield report
    finally:
        if telemetry is not None:
            telemetry.close()


def open_telemetry(
    config: PipelineConfig,
    note: Callable[[str], None],
    *,
    wanted: bool,
    env: Mapping[str, str] = os.environ,
    http: HttpServer | None = None,
) -> Telemetry | None:
    """Return the metrics of a run, or None if metrics are off.

    Args:
        config: the pipeline.
        note: called, possibly from another thread, when an exporter or the metrics first fail.
        wanted: ``--telemetry`` was given.
        env: the environment.
        http: the run's server, for ``/metrics``.

    Raises:
        ConfigError: the exporters cannot be set up from the environment.
    """
    names = read_exporter_names(env, wanted=wanted, has_http=http is not None)
    if not names:
        return None
    objectives = config.drill.objectives.values
    figures = PipelineMetrics(config.name, config.spark.lap_s, objectives=objectives)
    return Telemetry(figures, exporters_for(config, figures, names, env, note, http), note)


def exporters_for(
    config: PipelineConfig,
    figures: MetricSource,
    names: tuple[str, ...],
    env: Mapping[str, str],
    note: Callable[[str], None],
    http: HttpServer | None = None,
) -> Exporters:
    """Set up exporters for these figures; none does anything before ``start``.

    Raises:
        ConfigError: the exporters cannot be set up from the environment, or a metric's name is not
            valid.
    """
    _check_names(config.metrics.prefix, figures.catalog)
    from k2ktui.replication.telemetry.exporters import make_exporters, prometheus_address

    if http is not None and any(env.get(name, "").strip() for name in _ADDRESS):
        from k2ktui.runtime.http_server import address_text

        where = address_text(prometheus_address(env))
        if where != http.address:
            raise ConfigError(
                f"--http is {safe_text(http.address)}, and {' and '.join(_ADDRESS)} say "
                f"{safe_text(where)}",
                unchanged="Nothing was started.",
                hint="Remove the variables: metrics are served with --http, too.",
            )
    return make_exporters(config, names, env, note, http)


class Telemetry:
    """The metrics of one run and their exporters."""

    def __init__(
        self, figures: PipelineMetrics, exporters: Exporters, note: Callable[[str], None]
    ) -> None:
        self._figures = figures
        self._note = note
        self._broken = False
        self.exporters = exporters

    def feed(self, event: Event) -> None:
        """Update the metrics from an event of the run; the first ``Started`` starts the exporters.

        Earlier, the metrics topic may not exist and there is nothing to export.
        """
        if self._broken:
            return
        try:
            self._figures.feed(event)
            if isinstance(event, Started):
                self.exporters.start(self._figures)
        except Exception as error:  # a defect in the metrics must not stop replication
            self._broken = True
            self._note(f"metrics: no longer updated, {type(error).__name__}: {safe_text(error)}")

    def close(self) -> None:
        """Export once more and close, within three seconds."""
        self.exporters.close()


def _check_names(prefixes: MetricPrefixes, catalog: tuple[Metric, ...]) -> None:
    for metric in catalog:
        name = full_name(prefixes, metric.prefix, metric.name)
        if not _NAME.fullmatch(name):
            key = MetricPrefixes.model_fields[metric.prefix].alias or metric.prefix
            raise ConfigError(
                f"metrics.prefix.{key} makes {safe_text(name)}, which is not a valid metric name",
                unchanged="Nothing was started.",
                hint="Use a letter followed by letters, digits and _ . - / (maximum 200 "
                "characters).",
            )
