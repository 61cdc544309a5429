"""Metrics of all pipelines of a directory (docs/metrics.md).

They say what the rows say. A figure whose cluster does not answer is absent, not old: an alert
would take it for a good one.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

from k2ktui.engine.severity import Severity
from k2ktui.fleet.feed import FleetFeed
from k2ktui.fleet.model import FleetRow
from k2ktui.replication.telemetry.metric import Labels, Metric, Points
from k2ktui.replication.telemetry.session import read_exporter_names
from k2ktui.runtime.http_server import METRICS, HttpServer
from k2ktui.watch.model import PartName

_PREFIX = "assignment"
# What each cluster is read for; of the target, the drills and heartbeats, too.
_PARTS = {
    "source": frozenset({PartName.SOURCE}),
    "target": frozenset({PartName.TARGET, PartName.STATE}),
}
_COPY = frozenset({PartName.SOURCE, PartName.TARGET})
Labeled = Iterable[tuple[float, Labels]]


class FleetMetrics:
    """The rows of a fleet as points.

    Args:
        rows: returns the rows as they are now; any thread may call it.
        clock: epoch seconds.
    """

    def __init__(
        self, rows: Callable[[], Iterable[FleetRow]], clock: Callable[[], float] = time.time
    ) -> None:
        self._rows, self._clock = rows, clock

    def of_each(self, read: Callable[[FleetRow, float], Labeled]) -> Points:
        """Return what ``read`` yields of each row, with the labels of its pipeline.

        Two files may have one pipeline's name: the file's name is a label, too.
        """
        now = self._clock()
        return [
            (value, {"pipeline": row.pair.pipeline, "file": row.file.name, **labels})
            for row in self._rows()
            for value, labels in read(row, now)
        ]


def _of_each(read: Callable[[FleetRow, float], Labeled]) -> Callable[[FleetMetrics], Points]:
    return lambda figures: figures.of_each(read)


def _figure(
    read: Callable[[FleetRow, float], float | None], needs: frozenset[PartName] = frozenset()
) -> Callable[[FleetMetrics], Points]:
    """Read one value of each pipeline, absent if it is unknown or old.

    Args:
        read: returns the value.
        needs: the parts without which the value is old.
    """

    def points(row: FleetRow, now: float) -> Labeled:
        value = None if row.stale & needs else read(row, now)
        return [] if value is None else [(value, {})]

    return _of_each(points)


def _of_pipeline(row: FleetRow) -> bool:
    """Return whether the row was read from clusters: its file is valid, and it had its turn."""
    return row.is_valid and row.taken_at is not None


def _severity(row: FleetRow, now: float) -> Labeled:
    yield 1, {"severity": row.severity.name.lower()}


def _problems(row: FleetRow, now: float) -> Labeled:
    counts = Counter(problem.severity for problem in row.problems)
    for severity in (Severity.WARN, Severity.UNKNOWN, Severity.BAD):
        yield counts[severity], {"severity": severity.name.lower()}


def _answers(row: FleetRow, now: float) -> Labeled:
    for cluster, parts in _PARTS.items() if _of_pipeline(row) else ():
        yield not row.stale & parts, {"cluster": cluster}


def _read_age(row: FleetRow, now: float) -> float | None:
    return max(0.0, now - (row.taken_at or now)) if _of_pipeline(row) else None


def _runs(row: FleetRow, now: float) -> Labeled:
    if _of_pipeline(row) and PartName.STATE not in row.stale:
        yield row.copying, {"state": "copying"}
        yield row.standbys, {"state": "standby"}


def _groups(row: FleetRow, now: float) -> Labeled:
    for group in row.summary.groups if row.summary is not None else ():
        yield group.count, {"status": group.word, "severity": group.severity.name.lower()}


def _pair_state(row: FleetRow, now: float) -> Labeled:
    if _of_pipeline(row) and PartName.STATE not in row.stale:
        yield 1, {"state": str(row.pair_state.phase)}


CATALOG: tuple[Metric, ...] = (
    Metric(_PREFIX, "fleet.severity", "1",
           "The worst of the pipeline's problems, as label; always 1", _of_each(_severity),
           labels=("severity",)),
    Metric(_PREFIX, "fleet.problems", "{problem}", "Problems of the pipeline by severity",
           _of_each(_problems), labels=("severity",)),
    Metric(_PREFIX, "fleet.file.invalid", "1", "1 if the file is not valid, else 0",
           _figure(lambda row, now: not row.is_valid)),
    Metric(_PREFIX, "fleet.read.age", "s", "Time since the pipeline was read; absent before",
           _figure(_read_age)),
    Metric(_PREFIX, "fleet.answers", "1", "1 if the cluster answers, else 0", _of_each(_answers),
           labels=("cluster",)),
    Metric(_PREFIX, "fleet.runs", "{run}", "Runs that copy, and that stand by", _of_each(_runs),
           labels=("state",)),
    Metric(_PREFIX, "fleet.lag", "{record}", "Source offsets not copied yet",
           _figure(lambda row, now: row.lag, _COPY)),
    Metric(_PREFIX, "fleet.lag.time", "s", "Age of the oldest record not copied yet",
           _figure(lambda row, now: row.behind_s, _COPY)),
    Metric(_PREFIX, "fleet.coverage", "1",
           "Share of the retained source offsets that translate exactly, 0 to 1",
           _figure(lambda row, now: row.coverage, _COPY)),
    Metric(_PREFIX, "fleet.groups", "{group}", "Groups by status, as a run wrote them last",
           _of_each(_groups), labels=("status", "severity")),
    Metric(_PREFIX, "fleet.summary.age", "s",
           "Age of coverage and groups; absent if no run wrote them",
           _figure(lambda row, now: row.summary_age(now))),
    Metric(_PREFIX, "fleet.rpo.records", "{record}", "Records that a failover now would lose",
           _figure(lambda row, now: row.rpo_records, _COPY)),
    Metric(_PREFIX, "fleet.rpo.time", "s",
           "Age of the oldest record that a failover now would lose",
           _figure(lambda row, now: 0.0 if row.rpo_records == 0 else row.rpo_s, _COPY)),
    Metric(_PREFIX, "fleet.strange.records", "{record}",
           "Records in the copies that no registered pipeline wrote; absent if that cannot be told",
           _figure(lambda row, now: row.strange, frozenset({PartName.TARGET}))),
    Metric(_PREFIX, "fleet.rehearsal.age", "s",
           "Time since the last rehearsal of a failover; absent if there was none",
           _figure(lambda row, now: max(0.0, now - row.rehearsal.at) if row.rehearsal else None)),
    Metric(_PREFIX, "fleet.rehearsal.findings", "{finding}",
           "What would have stopped a failover at that rehearsal",
           _figure(lambda row, now: row.rehearsal.findings if row.rehearsal else None)),
    Metric(_PREFIX, "fleet.pair.state", "1",
           "Where the workload is, or goes, by the drills on the target; always 1",
           _of_each(_pair_state), labels=("state",)),
)  # fmt: skip


@contextmanager
def serve_metrics(
    feed: FleetFeed, note: Callable[[str], None], env: Mapping[str, str]
) -> Iterator[None]:
    """Export the rows of a feed while the context is open: to Prometheus, and as variables say.

    Args:
        feed: reads the pipelines.
        note: called, from another thread, with where Prometheus is served, and once for each
            exporter that fails.
        env: the standard variables (docs/metrics.md).

    Raises:
        ConfigError: a variable cannot be used.
    """
    # It loads OpenTelemetry.
    from k2ktui.replication.telemetry.exporters import make_exporters, prometheus_address

    names = read_exporter_names(env, wanted=False, has_http=True)
    http = HttpServer(prometheus_address(env), note)
    figures = FleetMetrics(lambda: feed.rows)
    exporters = make_exporters(None, names, env, note, http)
    exporters.start(CATALOG, figures)
    if "prometheus" in names:
        http.start(announce=METRICS)
    try:
        yield
    finally:
        exporters.close()
        http.close()
