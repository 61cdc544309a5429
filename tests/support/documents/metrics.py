"""docs/reference/metrics.md: every metric, from the tables that the exporters read."""

from __future__ import annotations

from collections.abc import Sequence

from k2ktui.config.model import MetricPrefixes
from k2ktui.fleet.metrics import CATALOG as FLEET
from k2ktui.replication.copying.slot_task import FaultKind
from k2ktui.replication.telemetry.metric import Metric, full_name
from k2ktui.replication.telemetry.metrics import CATALOG as PIPELINE
from k2ktui.sync.loop.metrics import CATALOG as SYNC
from tests.support.documents.markdown import code, table

INTRODUCTION = """\
Every metric, by its name with the default prefixes. [Metrics](../metrics.md) says how they are
exported, what an alert may rely on, and which labels all of them have.
"""
_PARTS = (("A pipeline", PIPELINE), ("`k2ktui sync`", SYNC), ("A directory", FLEET))
_HEAD = ("metric", "kind", "unit", "labels", "meaning")
# UCUM codes; things that are counted are in braces.
_UNITS = {"s": "seconds", "By": "bytes", "1": ""}


def body() -> str:
    """Return the page without its heading."""
    tables = [f"## {title}\n\n{_table(catalog)}" for title, catalog in _PARTS]
    kinds = f"{', '.join(map(code, FaultKind))}"
    return "\n".join([INTRODUCTION, *tables, "## Kinds of faults\n", kinds])


def _table(catalog: Sequence[Metric]) -> str:
    return table(_HEAD, map(_row, catalog))


def _row(metric: Metric) -> tuple[str, ...]:
    name = full_name(MetricPrefixes(), metric.prefix, metric.name)
    kind = "counter" if metric.counter else "gauge"
    return code(name), kind, _unit(metric.unit), ", ".join(map(code, metric.labels)), metric.text


def _unit(unit: str) -> str:
    thing = unit.strip("{}")
    return _UNITS[unit] if unit in _UNITS else f"{thing}es" if thing.endswith("ch") else f"{thing}s"
