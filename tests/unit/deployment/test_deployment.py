"""The files of docs/deployment: what they name exists, and the tools that read them accept them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from k2ktui.cli import views
from k2ktui.cli.main import cli
from k2ktui.config.load import load
from k2ktui.engine.moves.lags import GroupLag
from k2ktui.engine.records.moved_topic import MovedTopic, MovedTopics
from k2ktui.engine.records.state import Gap, SourcePartition
from k2ktui.errors import ExitCode
from k2ktui.replication.copying.batch_sender import IN_FLIGHT
from k2ktui.replication.copying.slot_settings import FetchSettings
from k2ktui.replication.reports.events import Rehearsed
from k2ktui.replication.telemetry import metrics as pipeline_metrics
from k2ktui.replication.telemetry.session import exporters_for
from k2ktui.runtime import stop_signals
from k2ktui.sync.loop import metrics as sync_metrics
from k2ktui.sync.loop.poll import SyncPoll
from tests.support.clusters.kafka import TIMEOUT, eventually
from tests.support.pipelines.telemetry import ORDERS_0, measured, pipeline, position
from tests.unit.test_documentation import anchors

ROOT = Path(__file__).parents[3]
FILES = ROOT / "docs" / "deployment"
PAGE = (ROOT / "docs" / "deployment.md").read_text()
UNIT = FILES / "k2ktui@.service"
WATCH_UNIT = FILES / "k2ktui-watch@.service"
ALERTS = yaml.safe_load((FILES / "alerts.yaml").read_text())
RULES: list[dict[str, Any]] = [rule for group in ALERTS["groups"] for rule in group["rules"]]
DASHBOARD = json.loads((FILES / "dashboard.json").read_text())
PANELS: list[dict[str, Any]] = DASHBOARD["panels"]
_METRIC = re.compile(r"\bk2k_\w+")

Exported = dict[str, set[str]]


def _scrape(port: int) -> Exported:
    with urllib.request.urlopen(f"http://localhost:{port}/metrics", timeout=TIMEOUT) as answer:
        text = answer.read().decode()
    labels: Exported = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels.setdefault(sample.name, set()).update(sample.labels)
    labels.pop("target_info", None)
    return labels


@pytest.fixture(scope="module")
def exported() -> Exported:
    """The label names of every metric that a pipeline and ``k2ktui sync`` export."""
    with measured() as begin:
        run = begin("prometheus", EXPORTER_PROMETHEUS_PORT=0)
        run.begin()
        status = run.status
        status.rehearsed = Rehearsed(1.0, 0, 3, 2.0, 5.0)
        status.pair_state, status.mappings_expire_at = "replicating", 2.0
        status.first_s = 2.0
        run.lap(0, 2000, 2100, Gap(1000, 1500, "truncated"), next_ms=1)
        other = SourcePartition("orders", 9)
        moved = MovedTopics([MovedTopic("stock", "stock", "drill-1", 5, "ann@bastion")])
        run.survey({ORDERS_0: 2100, other: 50}, {other: position(40)}, held={other}, moved=moved)
        scraped = _scrape(run.port)
    assert len(scraped) == len(pipeline_metrics.CATALOG), "every metric has a value"

    lags = {"billing": GroupLag(5, 3.0)}
    figures, env = sync_metrics.SyncMetrics("p"), {"OTEL_EXPORTER_PROMETHEUS_PORT": "0"}
    figures.feed(SyncPoll(10.0, 9.0, 3, {"advance": 2}, 2, (), mappings_expire_at=20.0, lags=lags))
    catalog = sync_metrics.CATALOG
    exporters = exporters_for(pipeline(), catalog, ("prometheus",), env, lambda note: None)
    exporters.start(catalog, figures)
    endpoint = exporters.endpoint
    assert endpoint is not None
    of_sync = _scrape(eventually(lambda: endpoint.port, "the endpoint listens"))
    exporters.close()
    assert len(of_sync) == len(catalog), "every metric has a value"
    return scraped | of_sync


def _queries() -> Iterator[tuple[str, str]]:
    """Yield each query with the texts that use its labels."""
    for rule in RULES:
        yield rule["expr"], " ".join(rule["annotations"].values())
    for panel in PANELS:
        for target in panel.get("targets", ()):
            yield target["expr"], target["legendFormat"]
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["query"]["query"], ""


def _labels(query: str, texts: str) -> set[str]:
    """Return the labels of matchers, of groupings and of texts."""
    matchers = {
        name
        for inner in re.findall(r"\{([^{}]*)\}", query)
        for name in re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", inner)
    }
    grouped = {
        name
        for inner in re.findall(r"\b(?:by|on|without|ignoring) \(([^()]*)\)", query)
        for name in re.split(r",\s*", inner)
    }
    asked = set(re.findall(r"label_values\(.*, (\w+)\)$", query))
    shown = set(re.findall(r"\{\{ *(?:\$labels\.)?(\w+) *\}\}", texts))
    return (matchers | grouped | asked | shown) - {"__name__"}


def test_metrics_and_labels_are_exported(exported: Exported) -> None:
    for query, texts in _queries():
        names = set(_METRIC.findall(query))
        assert names, query
        assert names <= exported.keys(), query
        known = set.union(*(exported[name] for name in names))
        assert _labels(query, texts) <= known, query
        assert set(_METRIC.findall(texts)) <= exported.keys(), texts


def test_a_metric_or_label_that_is_not_exported_is_found(exported: Exported) -> None:
    assert "k2k_heartbeat_age_seconds" in exported
    assert "k2k_heartbeat_age" not in exported
    query = 'sum by (pipeline, kind) (k2k_faults_total{slot="1"})'
    assert _labels(query, "{{ $labels.host }} {{outcome}}") == {
        *("pipeline", "kind", "slot", "host", "outcome")
    }


def test_page_names_metrics_that_are_exported(exported: Exported) -> None:
    assert {name for name in _METRIC.findall(PAGE) if name != "k2k_"} <= exported.keys()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_alert_is_complete(rule: dict[str, Any]) -> None:
    assert rule.keys() - {"for"} == {"alert", "expr", "labels", "annotations"}
    assert re.fullmatch(r"\d+m", rule.get("for", "0m"))
    assert rule["labels"].keys() == {"severity"}
    assert rule["annotations"].keys() == {"summary", "description", "runbook"}
    path, _, anchor = rule["annotations"]["runbook"].partition("#")
    assert anchor in anchors(ROOT / path)
    assert rule["expr"].count("(") == rule["expr"].count(")")


def test_page_lists_the_alerts() -> None:
    listed = re.findall(r"^\| `(K2ktui\w+)` \| (\w+) \|", PAGE, re.MULTILINE)
    assert listed == [(rule["alert"], rule["labels"]["severity"]) for rule in RULES]
    assert set(re.findall(r"`(K2ktui\w+)`", PAGE)) == {rule["alert"] for rule in RULES}


def test_every_alert_has_a_case() -> None:
    cases = (ROOT / "tests" / "unit" / "deployment" / "alerts_test.yaml").read_text()
    assert [rule["alert"] for rule in RULES if f'"{rule["alert"]}"' not in cases] == []


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
@pytest.mark.parametrize(
    "command",
    [
        ("check", "rules", "docs/deployment/alerts.yaml"),
        ("test", "rules", "tests/unit/deployment/alerts_test.yaml"),
    ],
    ids=" ".join,
)
def test_promtool_accepts_the_rules(command: tuple[str, ...]) -> None:
    done = subprocess.run(
        ["promtool", *command], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_dashboard_can_be_imported() -> None:
    ids = [panel["id"] for panel in PANELS]
    assert len(set(ids)) == len(ids)
    assert DASHBOARD["uid"] and DASHBOARD["title"] and "id" not in DASHBOARD
    variables = {variable["name"] for variable in DASHBOARD["templating"]["list"]}
    assert variables == {"datasource", "pipeline"}
    for panel in PANELS:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        if panel["type"] in ("row", "text"):
            continue
        assert panel["datasource"]["uid"] == "${datasource}"
        assert panel["description"]
        for target in panel["targets"]:
            assert target["datasource"] == panel["datasource"]
            names = len(_METRIC.findall(target["expr"]))
            assert target["expr"].count('pipeline=~"$pipeline"') == names, target["expr"]


def test_dashboard_panels_do_not_overlap() -> None:
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in PANELS)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(set(cells)) == len(cells)


def test_page_names_panels_that_exist() -> None:
    capacity = PAGE.partition("## Capacity")[2].partition("## Monitoring")[0]
    titles = [panel["title"] for panel in PANELS]
    named = re.findall(r"(?<!\*)\*([A-Z][^*]+)\*(?!\*)", capacity)
    assert len(named) >= 5
    for name in named:
        assert any(title.startswith(name) for title in titles), name


def _unit() -> dict[str, list[str]]:
    """Return the settings of the unit; a setting may be given several times."""
    settings: dict[str, list[str]] = {}
    for line in UNIT.read_text().splitlines():
        if line and line[0] not in "#[":
            key, _, value = line.partition("=")
            settings.setdefault(key, []).append(value)
    return settings


def test_the_unit_of_recordings_is_as_hardened_and_its_command_is_one() -> None:
    text = WATCH_UNIT.read_text()
    assert text.partition("\nNoNew")[2] == UNIT.read_text().partition("\nNoNew")[2] != ""
    (line,) = re.findall(r"^ExecStart=/opt/k2ktui/bin/k2ktui (watch .*)$", text, re.MULTILINE)
    (keep,) = re.findall(r"^Environment=K2KTUI_KEEP=(\S+)$", text, re.MULTILINE)
    options = line.replace("${K2KTUI_KEEP}", keep).split()[1:]
    given = views.watch.make_context("watch", options).params
    assert given["keep"] == 7 * 86_400 and given["record"] == "/var/lib/k2ktui/recordings/%i"


def test_unit_restarts_as_the_exit_codes_say() -> None:
    unit = _unit()
    assert unit["Restart"] == ["on-failure"]
    assert unit["RestartPreventExitStatus"] == [f"{ExitCode.USAGE:d} {ExitCode.REFUSED:d}"]
    assert unit["SuccessExitStatus"] == [f"{ExitCode.INTERRUPTED:d}"]
    rows = re.findall(r"^\| (\d+) \| .* \| (stays|restarts)", PAGE, re.MULTILINE)
    ended = {ExitCode.OK, ExitCode.USAGE, ExitCode.REFUSED, ExitCode.INTERRUPTED}
    # start returns all others: a run goes on without a reader of its log.
    codes = set(ExitCode) - {ExitCode.PARTIAL, ExitCode.READER_GONE}
    assert dict(rows) == {str(int(c)): "stays" if c in ended else "restarts" for c in codes}


def test_unit_stops_as_the_driver_does() -> None:
    unit = _unit()
    assert unit["KillSignal"] == ["SIGTERM"]
    assert unit["KillMode"] == ["mixed"]
    assert int(unit["TimeoutStopSec"][0]) > 2 * stop_signals.GRACE_S
    assert f"after {unit['TimeoutStopSec'][0]} s (`TimeoutStopSec`)" in PAGE
    assert f"restarts after {unit['RestartSec'][0]} s" in PAGE


def test_unit_calls_the_command_as_it_is() -> None:
    (line,) = _unit()["ExecStart"]
    binary, command, *options = line.split()
    assert binary.endswith("/bin/k2ktui")
    start = cli.get_command(click.Context(cli), command)
    assert start is not None
    flags = {flag for option in start.params for flag in option.opts}
    assert [option for option in options if option.startswith("-") and option not in flags] == []
    assert "--unlock" in flags


def test_credentials_are_read_from_where_systemd_puts_them(tmp_path: Path) -> None:
    """The page's path, below another root."""
    (reference,) = re.findall(r"\$\{file:(/run/credentials/\S+)\}", PAGE)
    unit, name = Path(reference).parts[-2:]
    assert unit == UNIT.name.replace("@", "@orders")
    assert name in {text.partition(":")[0] for text in _unit()["LoadCredential"]}
    secret = tmp_path / reference.lstrip("/")
    secret.parent.mkdir(parents=True)
    secret.write_text("a login line\n")
    file = tmp_path / "pipeline.yaml"
    servers = "bootstrap.servers: b:9092"
    file.write_text(
        f"name: p\nsource: {{kafka: {{common: {{{servers}, "
        f"sasl.jaas.config: '${{file:{secret}}}'}}}}}}\n"
        f"target: {{kafka: {{common: {{{servers}}}}}}}\n"
    )
    assert (
        load([file], need_replication=False).config.source.kafka.common["sasl.jaas.config"]
        == "a login line"
    )


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed"
)
@pytest.mark.parametrize("file", [UNIT, WATCH_UNIT], ids=lambda file: file.stem)
def test_systemd_accepts_the_unit(tmp_path: Path, file: Path) -> None:
    unit = tmp_path / file.name.replace("@", "@orders")
    text = file.read_text()
    unit.write_text(text.replace("/opt/k2ktui/bin/k2ktui ", f"{sys.executable} "))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", str(unit)],
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_page_gives_the_fetch_sizes_of_the_code() -> None:
    partition = FetchSettings().partition_bytes >> 20
    response = FetchSettings().max_bytes >> 20
    words = " ".join(PAGE.split())
    assert f"up to {partition} MiB per partition and {response} MiB per response" in words
    assert f"at most {IN_FLIGHT} produce requests in flight per target broker" in words
    trips = 20  # per second, at 50 ms
    assert f"at most {partition * trips} MiB/s (compressed) of one partition" in words
    assert f"and {response * trips} MiB/s from one broker" in words


def test_sizes_are_those_of_the_benchmark() -> None:
    results = (ROOT / "bench" / "RESULTS.md").read_text()
    (commit,) = re.findall(r"^Measured 2\d{3}-\d\d-\d\d with k2ktui at (\w+)", PAGE, re.MULTILINE)
    assert f" at {commit} |" in results
    rows = re.findall(r"^\| (verbatim|record path), (.+?) \| (.+) \|$", PAGE, re.MULTILINE)
    assert rows
    for path, what, figures in rows:
        section = results.partition(f"## Copy: {what}, ")[2].partition("\n## ")[0]
        (line,) = re.findall(rf"^\| k2ktui {path}, exactly-once \| (.+) \|$", section, re.MULTILINE)
        records, size, _, _, cpu, _, source, target, memory, complete, _ = line.split(" | ")
        rate, rate_mb, cpu_page, brokers, memory_page = figures.split(" | ")
        assert [rate, rate_mb, cpu_page, memory_page] == [records, size, cpu, memory]
        assert float(brokers) == pytest.approx(float(source) + float(target), abs=0.11)
        assert complete == "all, once"
