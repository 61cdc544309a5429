"""What is exported of the pipelines of a directory."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from k2ktui.errors import ConfigError
from k2ktui.fleet.metrics import CATALOG, FleetMetrics, serve_metrics
from k2ktui.fleet.model import FleetRow
from k2ktui.watch.model import PartName
from tests.support.clusters.kafka import TIMEOUT, eventually
from tests.support.console.fleets import BACK, BAD, GOOD, NEW, TYPO, MadeFleet
from tests.support.console.views import NOON

ROWS = (GOOD, BAD, BACK, TYPO, NEW)


def read(name: str, rows: Iterable[FleetRow] = ROWS) -> dict[Any, float]:
    """Return the values of a metric by pipeline, or by pipeline and its further labels."""
    (metric,) = (metric for metric in CATALOG if metric.name == f"fleet.{name}")
    found: dict[Any, float] = {}
    for value, labels in metric.read(FleetMetrics(lambda: rows, lambda: NOON)):
        assert labels.keys() == {"pipeline", "file", *metric.labels}
        rest = tuple(text for key, text in labels.items() if key not in ("pipeline", "file"))
        key = (labels["pipeline"], *rest) if rest else labels["pipeline"]
        assert key not in found
        found[key] = value
    return found


def test_every_file_has_a_severity_and_says_whether_it_is_valid() -> None:
    assert read("severity") == {
        ("orders", "ok"): 1,
        ("clicks", "bad"): 1,
        ("back", "ok"): 1,
        ("typo", "bad"): 1,
        ("new", "unknown"): 1,
    }
    assert read("file.invalid") == {"orders": 0, "clicks": 0, "back": 0, "typo": 1, "new": 0}
    assert read("problems")["clicks", "bad"] == 2
    assert read("read.age") == {"orders": 4, "clicks": 5, "back": 3}


def test_a_figure_whose_cluster_does_not_answer_is_absent_and_not_old() -> None:
    assert BAD.lag and BAD.rpo_records
    for name in ("lag", "lag.time", "coverage", "rpo.records", "rpo.time"):
        assert set(read(name)) <= {"orders", "back"}, name
    assert read("lag")["orders"] == 179
    assert read("answers") == {
        ("orders", "source"): 1,
        ("orders", "target"): 1,
        ("clicks", "source"): 0,
        ("clicks", "target"): 1,
        ("back", "source"): 1,
        ("back", "target"): 1,
    }
    dead = replace(GOOD, stale=frozenset({PartName.TARGET, PartName.STATE}))
    assert not read("runs", [dead]) and not read("pair.state", [dead])
    assert read("answers", [dead]) == {("orders", "source"): 1, ("orders", "target"): 0}


def test_what_a_run_wrote_last_has_its_age() -> None:
    assert read("groups") == {
        ("orders", "in step", "ok"): 41,
        ("clicks", "skips", "bad"): 1,
        ("clicks", "in step", "ok"): 6,
    }
    assert read("summary.age") == {"orders": 30, "clicks": 7_440}
    assert read("rehearsal.age")["orders"] == 3 * 86_400
    assert read("rehearsal.findings") == {"orders": 0, "back": 2}


def test_strange_records_are_absent_where_they_cannot_be_told() -> None:
    assert read("strange.records") == {"orders": 0}
    found = replace(GOOD, strange=7)
    assert read("strange.records", [found, BAD]) == {"orders": 7}
    assert not read("strange.records", [replace(found, stale=frozenset({PartName.TARGET}))])


def test_two_files_of_one_name_are_two_series() -> None:
    twin = replace(GOOD, file=Path("/p/other.yaml"))
    points = CATALOG[0].read(FleetMetrics(lambda: [GOOD, twin], lambda: NOON))
    assert [labels["file"] for _, labels in points] == ["orders.yaml", "other.yaml"]


def test_prometheus_gets_every_metric() -> None:
    notes: list[str] = []
    env = {"OTEL_EXPORTER_PROMETHEUS_HOST": "127.0.0.1", "OTEL_EXPORTER_PROMETHEUS_PORT": "0"}
    with serve_metrics(MadeFleet(*ROWS), notes.append, env):
        eventually(lambda: notes, "where it listens")
        [url] = re.findall(r"serving /metrics at (\S+)", notes[0])
        text = urllib.request.urlopen(f"{url}/metrics", timeout=TIMEOUT).read().decode()
    assert 'k2k_fleet_file_invalid{file="typo.yaml",pipeline="typo"} 1.0' in text
    names = {name for name in re.findall(r"^# TYPE (\S+)", text, re.M) if name != "target_info"}
    assert len(names) == len(CATALOG)


def test_an_exporter_that_needs_a_target_is_refused() -> None:
    with (
        pytest.raises(ConfigError, match="OTEL_METRICS_EXPORTER is kafka") as refused,
        serve_metrics(MadeFleet(GOOD), lambda note: None, {"OTEL_METRICS_EXPORTER": "kafka"}),
    ):
        pass
    assert "metrics of a directory have no target" in str(refused.value.hint)
