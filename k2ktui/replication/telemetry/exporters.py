"""OpenTelemetry instruments for the metric catalog, and the selected exporters.

An exporter's first failure is noted; failing exporters are retried with back-off and never affect
the run. This module loads OpenTelemetry; import it only if metrics are enabled.
"""

from __future__ import annotations

import inspect
import logging
import re
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from time import monotonic
from typing import Any

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.metrics import CallbackOptions, Meter, Observation
from opentelemetry.sdk.metrics import (
    AlwaysOffExemplarFilter,
    MeterProvider,
    ObservableCounter,
    ObservableGauge,
)
from opentelemetry.sdk.metrics.export import (
    MetricExporter,
    MetricExportResult,
    MetricReader,
    MetricsData,
    PeriodicExportingMetricReader,
)
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from prometheus_client import CollectorRegistry, make_wsgi_app

from k2ktui.config.model import MetricPrefixes, PipelineConfig
from k2ktui.errors import ConfigError
from k2ktui.kafka.control.metrics_exporter import ExportFailed, KafkaMetrics, values
from k2ktui.replication.telemetry.metric import Metric, full_name
from k2ktui.runtime.http_server import METRICS, Address, HttpServer, Page, Request, Response
from k2ktui.text import safe_message, safe_text
from k2ktui.version import __version__

_CLOSE_S = 3.0
_EXPORT_S = 10.0
_INTERVAL_MS = 60_000.0
_PAUSES_S = (5.0, 15.0, 60.0, 300.0)
# The SDK merges all points beyond its cardinality limit into one; a pipeline may have more
# partitions than the default limit.
_POINTS_A_METRIC = 1_000_000
_LOGGER = logging.getLogger("opentelemetry")

Note = Callable[[str], None]


def make_exporters(
    config: PipelineConfig | None,
    names: Iterable[str],
    env: Mapping[str, str],
    note: Note,
    http: HttpServer | None = None,
) -> Exporters:
    """Set up exporters; none connects, listens or writes before ``start``.

    Args:
        config: the pipeline; None for those of a directory, which have no target to write to.
        names: names from ``session.EXPORTERS`` except ``none``.
        env: the standard variables. The SDK reads further ones from the process's environment.
        note: called once, from another thread, for each exporter that fails.
        http: the run's server, which serves Prometheus then.

    Raises:
        ConfigError: a variable or a client property cannot be used.
    """
    _LOGGER.addHandler(_WORDS)
    prefixes = MetricPrefixes() if config is None else config.metrics.prefix
    made = Exporters(prefixes, _resource(config), _interval_ms(env))
    for name in names:
        guard = ExporterGuard(name, note)
        if name == "prometheus":
            made.endpoint = PrometheusEndpoint(http, HttpServer(prometheus_address(env), note))
        elif name == "otlp":
            made.pushers.append(_otlp(guard, env))
        elif name == "kafka":
            if config is None:
                expected = "prometheus, otlp or console: metrics of a directory have no target"
                raise _wrong("OTEL_METRICS_EXPORTER", name, expected)
            kafka = KafkaMetrics(config.target, config.metrics.kafka.topic, config.name)
            made.pushers.append(_Sink(guard, kafka.write, kafka.close))
        else:
            made.pushers.append(_Sink(guard, _print))
    return made


class ExporterGuard:
    """Isolates the run from an exporter's failures: notes the first, backs off after each.

    Args:
        name: name of the exporter.
        note: called for the first failure.
        clock: monotonic seconds.
    """

    def __init__(self, name: str, note: Note, clock: Callable[[], float] = monotonic) -> None:
        self._name = name
        self._note = note
        self._clock = clock
        self._failures = 0
        self._not_before = 0.0
        self._reported = False
        self.closing = False

    def __call__(self, export: Callable[[], None]) -> None:
        """Export, unless the exporter is backing off, or is failing while the run closes."""
        if self._failures and (self.closing or self._clock() < self._not_before):
            return
        try:
            export()
        except Exception as error:  # no failure of an exporter may stop the run
            self.count_failure(str(error) or type(error).__name__)
        else:
            self._failures = 0

    def count_failure(self, why: str) -> float:
        """Count a failure and note the first; return the seconds until the next attempt."""
        pause = _PAUSES_S[min(self._failures, len(_PAUSES_S) - 1)]
        self._failures += 1
        self._not_before = self._clock() + pause
        if not self._reported:
            self._reported = True
            with suppress(Exception):  # the listener may be closed
                self._note(
                    f"metrics: the {self._name} exporter failed: {safe_message(why, 300)}; the "
                    "run continues, and the exporter is retried without further notes"
                )
        return pause


class Exporters:
    """The exporters of one run: set up first, started once there are figures, closed at the end."""

    def __init__(self, prefixes: MetricPrefixes, resource: Resource, interval_ms: float) -> None:
        self._prefixes = prefixes
        self._resource = resource
        self._interval_ms = interval_ms
        self._readers: list[MetricReader] = []
        self.pushers: list[_Otlp | _Sink] = []
        self.endpoint: PrometheusEndpoint | None = None

    def start(self, catalog: Iterable[Metric], figures: object) -> None:
        """Start exporting what a catalog reads of figures; later calls have no effect."""
        if self._readers:
            return
        limits: dict[type, int] = {
            ObservableGauge: _POINTS_A_METRIC,
            ObservableCounter: _POINTS_A_METRIC,
        }
        self._readers = [
            PeriodicExportingMetricReader(
                pusher,
                self._interval_ms,
                **_known(PeriodicExportingMetricReader, cardinality_limits=limits),
            )
            for pusher in self.pushers
        ]
        if self.endpoint is not None:
            self._readers.append(self.endpoint.start(limits))
        provider = MeterProvider(
            self._readers,
            self._resource,
            exemplar_filter=AlwaysOffExemplarFilter(),
            shutdown_on_exit=False,
        )
        meter = provider.get_meter("k2ktui", __version__)
        for metric in catalog:
            _instrument(meter, metric, self._prefixes, figures)

    def close(self) -> None:
        """Export once more and close within three seconds; abandon exporters that take longer."""
        for pusher in self.pushers:
            pusher.guard.closing = True
        until = monotonic() + _CLOSE_S
        closing = [
            threading.Thread(target=_shut_down, args=(reader,), daemon=True)
            for reader in self._readers
        ]
        for thread in closing:
            thread.start()
        if self.endpoint is not None:
            self.endpoint.close()
        for thread in closing:
            thread.join(max(0.0, until - monotonic()))


def _shut_down(reader: MetricReader) -> None:
    with suppress(Exception):
        reader.shutdown(timeout_millis=_CLOSE_S * 1000)


def _instrument(meter: Meter, metric: Metric, prefixes: MetricPrefixes, figures: object) -> None:
    def observe(_: CallbackOptions) -> Iterable[Observation]:
        return [Observation(value, labels) for value, labels in metric.read(figures)]

    make = meter.create_observable_counter if metric.counter else meter.create_observable_gauge
    make(full_name(prefixes, metric.prefix, metric.name), [observe], metric.unit, metric.text)


class _Sink(MetricExporter):
    """Passes every collection to a function, which raises if it fails."""

    def __init__(
        self,
        guard: ExporterGuard,
        write: Callable[[MetricsData, float], None],
        close: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__()
        self.guard = guard
        self._write = write
        self._close = close

    def export(
        self, metrics_data: MetricsData, timeout_millis: float = 10_000, **kwargs: Any
    ) -> MetricExportResult:
        limit = _CLOSE_S - 0.5 if self.guard.closing else _EXPORT_S
        self.guard(lambda: self._write(metrics_data, limit))
        return MetricExportResult.SUCCESS

    def force_flush(self, timeout_millis: float = 10_000) -> bool:
        return True

    def shutdown(self, timeout_millis: float = 30_000, **kwargs: Any) -> None:
        self._close()


class _Otlp(OTLPMetricExporter):
    """The SDK's OTLP exporter with guarded failures; the SDK reads its variables."""

    def __init__(self, guard: ExporterGuard) -> None:
        super().__init__()
        self.guard = guard

    def export(
        self, metrics_data: MetricsData, timeout_millis: float | None = 10_000, **kwargs: Any
    ) -> MetricExportResult:
        send = super().export

        def attempt() -> None:
            _WORDS.last = ""
            if send(metrics_data, timeout_millis, **kwargs) is not MetricExportResult.SUCCESS:
                raise ExportFailed(_WORDS.last or "the endpoint rejected them")

        self.guard(attempt)
        return MetricExportResult.SUCCESS


class PrometheusEndpoint:
    """Serves ``/metrics``, from the run's server or from one of its own."""

    def __init__(self, http: HttpServer | None, own: HttpServer) -> None:
        self._server, self._is_own = http or own, http is None
        self._registry = CollectorRegistry()

    @property
    def port(self) -> int | None:
        """Where it is served; None until it is."""
        return self._server.port

    def start(self, limits: Mapping[type, int]) -> MetricReader:
        """Start serving; return the reader that collects at every scrape."""
        options = _known(
            PrometheusMetricReader, scope_info_enabled=False, cardinality_limits=limits
        )
        reader = PrometheusMetricReader(registry=self._registry, **options)
        self._server.pages[METRICS] = _as_page(make_wsgi_app(self._registry))
        if self._is_own:
            self._server.start()
        return reader

    def close(self) -> None:
        """Serve no more metrics."""
        self._server.pages.pop(METRICS, None)
        if self._is_own:
            self._server.close()


def _as_page(app: Callable[..., Iterable[bytes]]) -> Page:
    """Return the page of a WSGI application that reads only these variables."""

    def page(request: Request) -> Response:
        status, headers = "200 OK", {}

        def begin(words: str, pairs: list[tuple[str, str]]) -> None:
            nonlocal status, headers
            status, headers = words, dict(pairs)

        environ = {
            "REQUEST_METHOD": "GET",
            "PATH_INFO": METRICS,
            "QUERY_STRING": request.query,
            "HTTP_ACCEPT": request.headers.get("accept"),
            "HTTP_ACCEPT_ENCODING": request.headers.get("accept-encoding"),
        }
        body = b"".join(app(environ, begin))
        return Response(int(status.split()[0]), body, headers)

    return page


class _LastWords(logging.Handler):
    """Keeps the SDK's last log line, its only report of why an export failed."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.last = ""

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage().splitlines() or [""]
        # The query string of a URL may hold an API key.
        self.last = re.sub(r"\?\S+", "?…", text[0])


_WORDS = _LastWords()


def _print(data: MetricsData, _: float) -> None:
    for _, value in values(data):
        sys.stderr.write(value.decode() + "\n")
    sys.stderr.flush()


def _known(kind: type, **options: Any) -> dict[str, Any]:
    """Return the options that the installed SDK accepts; older versions have no such limits."""
    return {k: v for k, v in options.items() if k in inspect.signature(kind).parameters}


def _resource(config: PipelineConfig | None) -> Resource:
    own = {SERVICE_VERSION: __version__}
    if config is not None:
        own["k2k.pipeline"] = config.name
    resource = Resource.create(own)
    if str(resource.attributes.get(SERVICE_NAME, "")).startswith("unknown_service"):
        return resource.merge(Resource({SERVICE_NAME: "k2ktui"}))
    return resource


def _otlp(guard: ExporterGuard, env: Mapping[str, str]) -> _Otlp:
    for variable in ("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"):
        protocol = env.get(variable, "").strip()
        if protocol and protocol != "http/protobuf":
            raise _wrong(variable, protocol, "http/protobuf, the only protocol built in")
        if protocol:
            break
    try:
        return _Otlp(guard)
    except Exception as error:
        raise ConfigError(
            f"the otlp exporter cannot be set up: {safe_text(error)}",
            unchanged="Nothing was started.",
            hint="Check the OTEL_EXPORTER_OTLP_* variables.",
        ) from error


def _interval_ms(env: Mapping[str, str]) -> float:
    text = env.get("OTEL_METRIC_EXPORT_INTERVAL", "").strip()
    if text and not (text.isascii() and text.isdigit() and int(text)):
        raise _wrong("OTEL_METRIC_EXPORT_INTERVAL", text, "whole milliseconds, 1 or more")
    return float(text or _INTERVAL_MS)


def prometheus_address(env: Mapping[str, str]) -> Address:
    """Return where the standard variables serve Prometheus.

    Raises:
        ConfigError: the port is not one.
    """
    host = env.get("OTEL_EXPORTER_PROMETHEUS_HOST", "").strip() or "localhost"
    text = env.get("OTEL_EXPORTER_PROMETHEUS_PORT", "").strip() or "9464"
    if not (text.isascii() and text.isdigit() and int(text) <= 65535):
        raise _wrong("OTEL_EXPORTER_PROMETHEUS_PORT", text, "a port, 0 to 65535")
    return host, int(text)


def _wrong(variable: str, text: str, expected: str) -> ConfigError:
    return ConfigError(
        f"{variable} is {safe_text(text)}",
        unchanged="Nothing was started.",
        hint=f"Set it to {expected}.",
    )
