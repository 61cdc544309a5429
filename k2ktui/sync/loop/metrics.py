"""Metrics of the sync application, under ``metrics.prefix.offsetMappingApp`` (docs/metrics.md)."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.moves.lags import GroupLag
from k2ktui.replication.telemetry.metric import Metric, Points
from k2ktui.replication.telemetry.session import exporters_for, read_exporter_names
from k2ktui.sync.loop.poll import SyncPoll

if TYPE_CHECKING:
    from k2ktui.runtime.http_server import HttpServer

_PREFIX = "offset_mapping_app"


class SyncMetrics:
    """The latest metric values of a sync application; one thread writes, others read.

    Attributes:
        polls, committed, failed: numbers of polls, of committed offsets and of rejected ones.
    """

    def __init__(self, pipeline: str) -> None:
        self._labels: Mapping[str, str | int] = {"pipeline": pipeline}
        self._lock = threading.Lock()
        self._turn: SyncPoll | None = None
        self.polls = self.committed = self.failed = 0

    def feed(self, turn: SyncPoll) -> None:
        """Record the result of a poll."""
        with self._lock:
            self._turn = turn
            self.polls += 1
            self.committed += turn.applied
            self.failed += len(turn.failed)

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

    def lags(self, read: Callable[[GroupLag], float | None]) -> Points:
        """Return a data point of each group whose lag is exported; none of what is unknown."""
        with self._lock:
            lags = self._turn.lags if self._turn else {}
            known = ((read(lag), group) for group, lag in lags.items())
            return [
                (value, {**self._labels, "group": group})
                for value, group in known
                if value is not None
            ]

    def actions(self) -> Points:
        """Return the number of rows per planned action in the last poll."""
        with self._lock:
            actions = self._turn.actions if self._turn else {}
            return [(count, {**self._labels, "action": a}) for a, count in sorted(actions.items())]


def _of_last(read: Callable[[SyncPoll], float]) -> Callable[[SyncMetrics], Points]:
    return lambda figures: figures.gauge(read)


def _of_groups(read: Callable[[GroupLag], float | None]) -> Callable[[SyncMetrics], Points]:
    return lambda figures: figures.lags(read)


def _total(read: Callable[[SyncMetrics], int]) -> Callable[[SyncMetrics], Points]:
    return lambda figures: figures.total(read)


CATALOG: tuple[Metric, ...] = (
    Metric(_PREFIX, "groups", "{group}", "Consumer groups read",
           _of_last(lambda turn: turn.groups)),
    Metric(_PREFIX, "groups.stopped", "{group}", "Groups that were not written",
           _of_last(lambda turn: len(turn.stopped))),
    Metric(_PREFIX, "commits.age", "s", "Age of the source's commits",
           _of_last(lambda turn: max(0.0, time.time() - turn.commits_at))),
    Metric(_PREFIX, "mappings.life", "s",
           "Time until the first mapping that a consumer group needs expires; absent if unknown",
           SyncMetrics.mappings_life),
    Metric(_PREFIX, "poll.time", "s", "Length of the last poll",
           _of_last(lambda turn: turn.duration_s)),
    Metric(_PREFIX, "rows", "{row}", "Group-partitions by action", SyncMetrics.actions,
           labels=("action",)),
    Metric(_PREFIX, "group.lag", "{record}",
           "Source records that a group of `metrics.groups` has not read; absent if unknown",
           _of_groups(lambda lag: lag.records), labels=("group",)),
    Metric(_PREFIX, "group.lag.time", "s",
           "Age of the first record that such a group has not read; 0 with no lag",
           _of_groups(lambda lag: None if lag.untimed else lag.seconds), labels=("group",)),
    Metric(_PREFIX, "polls", "{poll}", "Polls", _total(lambda figures: figures.polls),
           counter=True),
    Metric(_PREFIX, "committed", "{offset}", "Offsets committed",
           _total(lambda figures: figures.committed), counter=True),
    Metric(_PREFIX, "refused", "{offset}", "Offsets not committed",
           _total(lambda figures: figures.failed), counter=True),
)  # fmt: skip


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
    exporters = exporters_for(config, CATALOG, names, env, note, http) if names else None

    def report(turn: SyncPoll) -> None:
        figures.feed(turn)
        if exporters is not None:
            exporters.start(CATALOG, figures)

    try:
        yield report
    finally:
        if exporters is not None:
            exporters.close()
