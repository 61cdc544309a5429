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
from k2ktui.replication.reports.status import RunStatus
from k2ktui.replication.telemetry.metric import Metric, full_name
from k2ktui.replication.telemetry.metrics import CATALOG, PipelineFigures
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
    status: RunStatus,
    note: Callable[[str], None],
    *,
    wanted: bool = False,
    env: Mapping[str, str] = os.environ,
    http: HttpServer | None = None,
) -> Iterator[Callable[[], None]]:
    """Export the metrics of a run, if they are on: yield the function that begins to.

    Call it when the run has taken over: earlier, the metrics topic may not exist and there is
    nothing to export. Later calls have no effect. Leaving the context exports once more and takes
    at most three seconds.

    Args:
        config: the pipeline.
        status: the run.
        note: called, possibly from another thread, when an exporter first fails.
        wanted: ``--telemetry`` was given.
        env: the environment.
        http: the run's server, for ``/metrics``.

    Raises:
        ConfigError: the exporters cannot be set up from the environment.
    """
    names = read_exporter_names(env, wanted=wanted, has_http=http is not None)
    status.keeps_rows = bool(names)
    if not names:
        yield lambda: None
        return
    exporters = exporters_for(config, CATALOG, names, env, note, http)
    figures = PipelineFigures(status, config.spark.lap_s, config.drill.objectives.values)
    has_begun = False

    def begin() -> None:
        nonlocal has_begun
        if has_begun:
            return
        has_begun = True
        try:
            exporters.start(CATALOG, figures)
        except Exception as error:  # a defect in the metrics must not stop replication
            note(f"metrics: not exported, {type(error).__name__}: {safe_text(error)}")

    try:
        yield begin
    finally:
        exporters.close()


def exporters_for(
    config: PipelineConfig,
    catalog: tuple[Metric, ...],
    names: tuple[str, ...],
    env: Mapping[str, str],
    note: Callable[[str], None],
    http: HttpServer | None = None,
) -> Exporters:
    """Set up exporters for these metrics; none does anything before ``start``.

    Raises:
        ConfigError: the exporters cannot be set up from the environment, or a metric's name is not
            valid.
    """
    _check_names(config.metrics.prefix, catalog)
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
