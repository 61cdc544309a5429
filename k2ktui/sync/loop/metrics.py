"""Metrics of the sync application, under ``metrics.prefix.offsetMappingApp`` (docs/metrics.md)."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from k2ktui.config.model import PipelineConfig
from k2ktui.replication.telemetry.metric import Metric, Points
from k2ktui.replication.telemetry.session import exporters_for, read_exporter_names
from k2ktui.sync.loop.poll import SyncPoll

if TYPE_CHECKING:
    from k2ktui.runtime.http_server import HttpServer

_PREFIX = "offset_mapping_app"


class SyncMetrics:
    """The latest metric values of a sync application; one thread writes, others read."""

    def __init__(self, pipeline: str) -> None:
        self._labels: Mapping[str, str | int] = {"pipeline": pipeline}
        self._lock = threading.Lock()
        self._turn: SyncPoll | None = None
        self._turns = self._committed = self._failed = 0

    @property
    def catalog(self) -> tuple[Metric, ...]:
        """The metric definitions of the sync application."""
        return CATALOG

    def feed(self, turn: SyncPoll) -> None:
        """Record the result of a poll."""
        with self._lock:
            self._turn = turn
            self._turns += 1
            self._committed += turn.applied
            self._failed += len(turn.failed)

    def gauge(self, read: Callable[[SyncPoll], float]) -> Points:
        """Return one data point of the last poll, none before the first."""
        with self._lock:
            return [] if self._turn is None else [(read(self._turn), self._labels)]

    def total(self, read: Callable[[SyncMetrics], int]) -> Points:
        """Return one data point of a total over all polls."""
        with self._lock:
            return [(read(self), self._labels)]

    def mappings_life(self) -> Points:
        """Return the seconds until a mapping that a group needs expires; nothing if unknown."""
        with self._lock:
            at = self._turn.mappings_expire_at if self._turn else None
            return [] if at is None else [(at - time.time(), self._labels)]

    def actions(self) -> Points:
        """Return the number of rows per planned action in the last poll."""
        with self._lock:
            actions = self._turn.actions if self._turn else {}
            return [(count, {**self._labels, "action": a}) for a, count in sorted(actions.items())]

    @property
    def turns(self) -> int:
        """Number of polls so far."""
        return self._turns

    @property
    def committed(self) -> int:
        """Number of offsets committed so far."""
        return self._committed

    @property
    def failed(self) -> int:
        """Number of rejected offsets so far."""
        return self._failed


def _gauge(name: str, unit: str, text: str, read: Callable[[SyncPoll], float]) -> Metric:
    return Metric(_PREFIX, name, unit, text, lambda figures: figures.gauge(read))


def _counter(name: str, unit: str, text: str, read: Callable[[SyncMetrics], int]) -> Metric:
    return Metric(_PREFIX, name, unit, text, lambda figures: figures.total(read), counter=True)


CATALOG: tuple[Metric, ...] = (
    _gauge("groups", "{group}", "Consumer groups read", lambda turn: turn.groups),
    _gauge(
        "groups.stopped", "{group}", "Groups that were not written", lambda turn: len(turn.stopped)
    ),
    _gauge(
        "commits.age",
        "s",
        "Age of the source's commits",
        lambda turn: max(0.0, time.time() - turn.commits_at),
    ),
    Metric(
        _PREFIX,
        "mappings.life",
        "s",
        "Time until the first mapping that a consumer group needs expires; absent if unknown",
        SyncMetrics.mappings_life,
    ),
    _gauge("poll.time", "s", "Length of the last poll", lambda turn: turn.duration_s),
    Metric(_PREFIX, "rows", "{row}", "Group-partitions by action", SyncMetrics.actions),
    _counter("polls", "{poll}", "Polls", lambda figures: figures.turns),
    _counter("committed", "{offset}", "Offsets committed", lambda figures: figures.committed),
    _counter("refused", "{offset}", "Offsets not committed", lambda figures: figures.failed),
)


@contextmanager
def measure_sync(
    config: PipelineConfig,
    note: Callable[[str], None],
    *,
    wanted: bool,
    env: Mapping[str, str] = os.environ,
    http: HttpServer | None = None,
) -> Iterator[Callable[[SyncPoll], None]]:
    """Yield the function that records a poll; exports once more on exit (3 seconds at most).

    Raises:
        ConfigError: the environment's exporter settings are invalid.
    """
    names = read_exporter_names(env, wanted=wanted, has_http=http is not None)
    figures = SyncMetrics(config.name)
    exporters = exporters_for(config, figures, names, env, note, http) if names else None

    def report(turn: SyncPoll) -> None:
        figures.feed(turn)
        if exporters is not None:
            exporters.start(figures)

    try:
        yield report
    finally:
        if exporters is not None:
            exporters.close()
