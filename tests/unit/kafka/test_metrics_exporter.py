"""The metrics topic's producer after a failed write; nothing listens at the target."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from opentelemetry.sdk.metrics.export import (
    Gauge,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from k2ktui.kafka.control.metrics_exporter import ExportFailed, KafkaMetrics
from tests.unit.config.files import Files

# The buffer takes one metric of a collection, and not two.
_TARGET = """
target: {kafka: {common: {bootstrap.servers: "127.0.0.1:1"}, producer: {buffer.memory: 1024}}}
"""


def collection(*names: str) -> MetricsData:
    point = NumberDataPoint({"topic": "t" * 600}, 0, 1_000_000, 1)
    metrics = [Metric(name, "", "1", Gauge([point])) for name in names]
    scope = ScopeMetrics(InstrumentationScope("k2ktui"), metrics, "")
    return MetricsData([ResourceMetrics(Resource({}), [scope], "")])


def test_a_full_buffer_fails_one_write_only(tmp_path: Path) -> None:
    target = Files(tmp_path).over_minimal(_TARGET).config.target
    with closing(KafkaMetrics(target, "metrics", "p")) as exporter:
        with pytest.raises(ExportFailed, match=r"topic metrics on the target: .*buffer is full"):
            exporter.write(collection("a", "b"), 0.1)
        with pytest.raises(ExportFailed) as second:
            exporter.write(collection("a"), 0.1)
    assert "buffer" not in str(second.value)
