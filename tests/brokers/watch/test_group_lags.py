"""Groups in time on real clusters: ages of records, trends and forecasts."""

from __future__ import annotations

import json
import statistics
import threading
import time
from pathlib import Path

import pytest

from k2ktui.engine.trend import Direction
from k2ktui.runtime.node import KafkaNode
from k2ktui.sync.flow import Flow
from k2ktui.watch.model import View
from k2ktui.watch.poller import open_poller
from tests.brokers.watch.test_live import Views
from tests.support.clusters.kafka import Out, create_topic, produce
from tests.support.commands.verbs import k2ktui
from tests.support.oracle.group_offsets import commit_offsets
from tests.support.pipelines.copied import Copied

pytestmark = pytest.mark.slow

# The records of the backlog are two hours old; each second 10 come and 60 are read.
OLD_S, BACKLOG, COMES, READS = 7_200.0, 36_000, 10, 60


class Applications:
    """A producer, and a group that reads a backlog at a steady rate, however slow the machine."""

    def __init__(
        self, source: KafkaNode, topic: str, group: str, *, backlog: int = BACKLOG
    ) -> None:
        self._source, self._at, self._group = source, (topic, 0), group
        self._backlog = backlog
        # When the group had read all that there was, in epoch seconds.
        self.caught_up_at: float | None = None
        self._began, self._over = time.time(), threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Applications:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def is_forecast(self, view: View) -> bool:
        """Whether the forecast is right to a fifth."""
        row = next((row for row in view.groups if row.group == self._group), None)
        if row is None or row.eta_s is None or row.direction is not Direction.FALLING:
            return False
        left = self._backlog / (READS - COMES) - (view.taken_at - self._began)
        return abs(row.eta_s - left) <= 0.2 * left

    def _run(self) -> None:
        sent = 0
        while not self._over.wait(0.5):
            since = time.time() - self._began
            due, sent = round(COMES * since) - sent, round(COMES * since)
            produce(self._source, self._at[0], [Out(b"new")] * due)
            read = min(round(READS * since), self._backlog + sent)
            commit_offsets(self._source, self._group, {self._at: read})
            if read == self._backlog + sent and self.caught_up_at is None:
                self.caught_up_at = time.time()


def test_ages_are_those_of_the_records_and_a_forecast_comes_true(
    source: KafkaNode, target: KafkaNode, tmp_path: Path
) -> None:
    copied = Copied(tmp_path, source, target)
    topic = create_topic(source, partitions=2)
    written = round((time.time() - OLD_S) * 1000)
    old = [Out(b"old", timestamp=written + number) for number in range(BACKLOG)]
    produce(source, topic, [*old, *(Out(b"%d" % n, partition=1) for n in range(20))])
    copied.copy(topic)
    stays, reads = copied.group("stays"), copied.group("reads")
    commit_offsets(source, stays, {(topic, 0): 5, (topic, 1): 20})

    [moved] = [
        row
        for row in json.loads(k2ktui("groups", "-f", copied.file, "--json").out)["groups"]
        if row["group"] == stays and row["partition"] == 0
    ]
    assert moved["lag_records"] == BACKLOG - 5
    assert moved["lag_s"] == pytest.approx(time.time() - written / 1000, rel=0.1)

    views, feed = Views(), open_poller(Flow(copied.config), 2.0)
    with Applications(source, topic, reads) as applications:
        feed.start(views.take)
        try:
            view = views.first(lambda view: view.summaries, "groups were read")
            [summary] = [summary for summary in view.summaries if summary.group == stays]
            assert summary.untimed == 0 and summary.direction is Direction.UNKNOWN
            assert summary.lag_s == pytest.approx(view.taken_at - written / 1000, rel=0.1)
            views.first(applications.is_forecast, "a forecast that comes true")
        finally:
            feed.close()


def test_a_group_has_caught_up_when_it_was_forecast(
    source: KafkaNode, target: KafkaNode, tmp_path: Path
) -> None:
    copied = Copied(tmp_path, source, target)
    topic, backlog = create_topic(source), 7_000
    produce(source, topic, [Out(b"%d" % number) for number in range(backlog)])
    copied.copy(topic)
    group, forecasts = copied.group("reads"), dict[float, float]()
    views, feed = Views(), open_poller(Flow(copied.config), 2.0)
    with Applications(source, topic, group, backlog=backlog) as applications:

        def has_caught_up(view: View) -> bool:
            for row in view.groups:
                if row.group == group and row.eta_s and row.direction is Direction.FALLING:
                    forecasts[view.taken_at] = row.eta_s
            return applications.caught_up_at is not None

        feed.start(views.take)
        try:
            views.first(has_caught_up, "the group has caught up")
        finally:
            feed.close()
    done = applications.caught_up_at
    assert done is not None
    # Shortly before the end, the seconds between two polls are a large part of what is left.
    off = [
        abs(at + eta_s - done) / (done - at) for at, eta_s in forecasts.items() if done - at > 30
    ]
    assert off and statistics.median(off) <= 0.2, forecasts
