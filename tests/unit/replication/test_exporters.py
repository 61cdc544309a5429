"""Exporters: what arrives at the other end, and that none of them can disturb a run."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import closing, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import pairwise
from socket import create_server
from typing import Any, NoReturn
from urllib.error import HTTPError

import pytest
from prometheus_client.parser import text_string_to_metric_families

from k2ktui.engine.records.state import SourcePartition
from k2ktui.errors import ConfigError
from k2ktui.replication.telemetry import exporters
from k2ktui.replication.telemetry.exporters import Exporters
from k2ktui.replication.telemetry.session import measure_run, read_exporter_names
from k2ktui.runtime import http_server
from k2ktui.runtime.http_server import HttpServer
from tests.support.clusters.kafka import TIMEOUT, eventually
from tests.support.pipelines.telemetry import Start, Written, measured, pipeline, position


@pytest.fixture
def start() -> Iterator[Start]:
    """Begin measured runs; they end with the test."""
    with measured() as begin:
        yield begin


def scrape(port: int) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Read the endpoint as Prometheus does; the pipeline's label is checked and left out."""
    with urllib.request.urlopen(f"http://localhost:{port}/metrics", timeout=TIMEOUT) as answer:
        text = answer.read().decode()
    values = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = dict(sample.labels)
            if sample.name != "target_info":
                assert labels.pop("pipeline") == "p"
            values[sample.name, frozenset(labels.items())] = sample.value
    return values


def key(name: str, **labels: str) -> tuple[str, frozenset[tuple[str, str]]]:
    return name, frozenset(labels.items())


def test_prometheus(start: Start) -> None:
    run = start("prometheus", EXPORTER_PROMETHEUS_PORT=0)
    run.begin()
    scraped = scrape(run.port)

    orders = {"topic": "orders", "partition": "0"}
    assert scraped[key("k2k_consumer_source_position", **orders)] == 1000
    assert scraped[key("k2k_consumer_source_end", **orders)] == 1010
    assert scraped[key("k2k_consumer_source_lag", **orders)] == 10
    assert scraped[key("k2k_producer_records_total", slot="0")] == 100
    assert scraped[key("k2k_producer_bytes_total", slot="0")] == 9000
    assert scraped[key("k2k_producer_commit_time_seconds_total", slot="0")] == 0.5
    assert scraped[key("k2k_laps_total", slot="0", outcome="done")] == 1
    assert scraped[key("k2k_lap_pause_seconds", slot="0")] == 0.25
    assert scraped[key("k2k_partitions_stopped", kind="truncated")] == 1
    stopped_one = key(
        "k2k_consumer_source_stopped", topic="orders", partition="9", kind="truncated"
    )
    assert scraped[stopped_one] == 1
    info = next(dict(labels) for name, labels in scraped if name == "target_info")
    assert (info["service_name"], info["k2k_pipeline"]) == ("k2ktui", "p")
    assert info["service_version"]

    run.lap(0, offset=2000, end=2000)
    scraped = scrape(run.port)
    assert scraped[key("k2k_consumer_source_lag", **orders)] == 0
    assert scraped[key("k2k_producer_records_total", slot="0")] == 200


def test_the_prefixes_of_the_file(start: Start) -> None:
    prefix = {"sourceConsumer": "a_", "targetProducer": "b.", "assignment": "c."}
    run = start("prometheus", pipeline(metrics={"prefix": prefix}), EXPORTER_PROMETHEUS_PORT=0)
    run.begin()
    names = {name for name, _ in scrape(run.port)}
    assert {"a_lag", "b_records_total", "c_laps_total"} < names
    assert not [name for name in names if name.startswith("k2k")]


def test_more_partitions_than_the_sdk_takes_by_itself(start: Start) -> None:
    run = start("prometheus", EXPORTER_PROMETHEUS_PORT=0)
    many = [SourcePartition("t", number) for number in range(5000)]
    run.survey(dict.fromkeys(many, 9), dict.fromkeys(many, position(4)))
    run.export()
    lags = [value for (name, _), value in scrape(run.port).items() if name.endswith("_lag")]
    assert lags == [5.0] * 5000


def test_partitions_that_went_away_are_not_scraped(start: Start) -> None:
    run = start("prometheus", EXPORTER_PROMETHEUS_PORT=0)
    lag = key("k2k_consumer_source_lag", topic="orders", partition="0")
    run.begin()
    assert lag in scrape(run.port)
    run.survey({})
    assert lag not in scrape(run.port)


def test_a_taken_port_is_noted_once_and_tried_again(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "_PAUSES_S", (0.01,))
    with closing(create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        run = start(
            "prometheus", EXPORTER_PROMETHEUS_HOST="127.0.0.1", EXPORTER_PROMETHEUS_PORT=port
        )
        run.begin()
        eventually(lambda: run.notes, "the failure is noted")
        assert "prometheus" in run.notes[0]
        assert str(port) in run.notes[0]
    assert run.port == port
    assert scrape(port)
    assert len(run.notes) == 1


class Collector(BaseHTTPRequestHandler):
    """Takes OTLP over HTTP, and answers with the server's status."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.got.append((self.path, body))  # type: ignore[attr-defined]
        self.send_response(self.server.status)  # type: ignore[attr-defined]
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def requests_to(collector: Any) -> int:
    """Return how many requests were sent so far, also those that the exporter has given up.

    The collector takes one after the other, and this one last.
    """
    url = f"http://127.0.0.1:{collector.server_port}/last"
    with suppress(HTTPError):
        urllib.request.urlopen(url, b"", timeout=TIMEOUT).close()
    return [path for path, _ in collector.got].count("/v1/metrics")


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    server = HTTPServer(("127.0.0.1", 0), Collector)
    server.got, server.status = [], 200  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "berlin")
    yield server
    server.shutdown()
    server.server_close()


def test_otlp(start: Start, collector: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
        ExportMetricsServiceRequest,
    )

    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "60")  # it does not fail on a busy machine
    run = start("otlp")
    run.begin()
    run.exporters.close()

    (path, body), *more = collector.got
    assert (path, more) == ("/v1/metrics", [])
    (exported,) = ExportMetricsServiceRequest.FromString(body).resource_metrics
    resource = {a.key: a.value.string_value for a in exported.resource.attributes}
    assert (resource["service.name"], resource["k2k.pipeline"]) == ("berlin", "p")
    metrics = {metric.name: metric for metric in exported.scope_metrics[0].metrics}
    (lag,) = metrics["k2k.consumer.source.lag"].gauge.data_points
    assert lag.as_int == 10
    assert {a.key for a in lag.attributes} == {"pipeline", "topic", "partition"}
    assert metrics["k2k.producer.records"].sum.is_monotonic


@pytest.mark.parametrize("status", [401, 503])
def test_an_endpoint_that_refuses_is_noted_once(
    start: Start,
    collector: Any,
    status: int,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(exporters, "_PAUSES_S", (3600.0,))  # however long this test takes
    collector.status = status
    run = start("otlp", METRIC_EXPORT_INTERVAL=20)
    run.begin()
    eventually(lambda: run.notes, "the failure is noted")
    asked = requests_to(collector)
    run.exporters.close()

    assert requests_to(collector) == asked, "nothing is sent to an endpoint that fails"
    assert len(run.notes) == 1
    assert capfd.readouterr().err == ""


def test_an_exporter_that_fails_is_tried_less_and_less_often() -> None:
    now, notes, tried = [0.0], list[str](), list[float]()
    guard = exporters.ExporterGuard("otlp", notes.append, lambda: now[0])

    def export() -> None:
        tried.append(now[0])
        if now[0] < 2000:
            raise OSError("away")

    for second in range(0, 3000, 5):
        now[0] = second
        guard(export)
    failed = [at for at in tried if at < 2000]
    assert failed[:4] == [0, 5, 20, 80]
    assert {b - a for a, b in pairwise(failed[3:])} == {300}
    assert len([at for at in tried if at >= 2500]) == 100  # it works again: at every interval
    assert len(notes) == 1
    assert "away" in notes[0]

    now[0] = 100
    guard(export)
    now[0], guard.closing = 1000, True
    guard(export)
    assert tried[-1] == 100  # at the end no one waits for an exporter that fails


def test_console_goes_to_stderr(start: Start, capfd: pytest.CaptureFixture[str]) -> None:
    run = start("console")
    run.begin()
    run.exporters.close()
    out, err = capfd.readouterr()
    assert out == ""
    values = {value["name"]: value for value in map(json.loads, err.splitlines())}
    assert values["k2k.slots"]["unit"] == "{slot}"


@pytest.mark.parametrize(
    ("text", "wanted", "names"),
    [
        ("", False, ()),
        ("", True, ("otlp",)),
        ("none", True, ()),
        ("prometheus", False, ("prometheus",)),
        (" kafka , prometheus,kafka,", False, ("kafka", "prometheus")),
    ],
)
def test_choice(text: str, wanted: bool, names: tuple[str, ...]) -> None:
    env = {"OTEL_METRICS_EXPORTER": text}
    assert read_exporter_names(env, wanted=wanted) == names
    assert read_exporter_names(env | {"OTEL_SDK_DISABLED": "true"}, wanted=wanted) == ()


def test_one_server_for_prometheus_and_probes() -> None:
    notes: list[str] = []
    http = HttpServer(("127.0.0.1", 0), notes.append)
    http.start()
    run = Written()
    with measure_run(pipeline(), run.status, notes.append, env={}, http=http) as begin:
        run.begin()
        begin()
        port = eventually(lambda: http.port, "it listens")
        assert key("k2k_slots") in scrape(port)
    assert http.pages == {}, "it serves no metrics of a run that has ended"
    http.close()


def test_exporters_that_do_not_start_are_noted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that shares its pipeline begins again with each slot."""

    def fail(*_: object) -> NoReturn:
        raise KeyError("what")

    notes: list[str] = []
    run, env = Written(), {"OTEL_METRICS_EXPORTER": "console"}
    with measure_run(pipeline(), run.status, notes.append, env=env) as begin:
        assert run.status.keeps_rows
        monkeypatch.setattr(Exporters, "start", fail)
        begin(), begin()
    assert notes == ["metrics: not exported, KeyError: 'what'"]
    with measure_run(pipeline(), run.status, notes.append, env={}):
        assert not run.status.keeps_rows


def test_one_server_has_one_address() -> None:
    http = HttpServer(("0.0.0.0", 8080), print)
    env = {"OTEL_EXPORTER_PROMETHEUS_HOST": "0.0.0.0", "OTEL_EXPORTER_PROMETHEUS_PORT": "8080"}
    measure(env, http=http)
    env["OTEL_EXPORTER_PROMETHEUS_PORT"] = "9464"
    with pytest.raises(ConfigError, match=r"--http is 0\.0\.0\.0:8080, and .* say 0\.0\.0\.0:9464"):
        measure(env, http=http)
    for off in ({"OTEL_METRICS_EXPORTER": "none"}, {"OTEL_SDK_DISABLED": "true"}):
        measure(env | off, http=http)


def measure(env: dict[str, str], **options: Any) -> None:
    config = options.pop("config", pipeline())
    with measure_run(config, Written().status, print, env=env, **options):
        """Set the exporters up, and close them."""


@pytest.mark.parametrize(
    ("env", "says"),
    [
        ({"OTEL_METRICS_EXPORTER": "kafka,promtheus"}, "promtheus"),
        ({"OTEL_METRICS_EXPORTER": "none,kafka"}, "none beside"),
        (
            {"OTEL_METRICS_EXPORTER": "prometheus", "OTEL_EXPORTER_PROMETHEUS_PORT": "90900"},
            "OTEL_EXPORTER_PROMETHEUS_PORT is 90900",
        ),
        (
            {"OTEL_METRICS_EXPORTER": "console", "OTEL_METRIC_EXPORT_INTERVAL": "10s"},
            "OTEL_METRIC_EXPORT_INTERVAL is 10s",
        ),
        (
            {"OTEL_METRICS_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            "OTEL_EXPORTER_OTLP_PROTOCOL is grpc",
        ),
    ],
)
def test_variables_that_make_no_sense(env: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        measure(env)
    if "promtheus" in says:
        assert "console, kafka, none, otlp, prometheus" in caught.value.hint


def test_a_prefix_that_begins_no_name() -> None:
    config = pipeline(metrics={"prefix": {"targetProducer": "my producer."}})
    with pytest.raises(ConfigError, match=r"metrics\.prefix\.targetProducer"):
        measure({"OTEL_METRICS_EXPORTER": "console"}, config=config)


def test_nothing_is_loaded_when_it_is_off() -> None:
    code = """
import sys, k2ktui.cli.start, k2ktui.starting
from k2ktui.replication.telemetry.session import measure_run
from tests.support.pipelines.telemetry import Written, pipeline
with measure_run(pipeline(), Written().status, print, env={}) as begin:
    begin()
loaded = [name for name in sys.modules if name.startswith(("opentelemetry", "prometheus_client"))]
assert not loaded, loaded
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
