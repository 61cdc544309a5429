"""Views of real clusters, and what is left of them when one is gone."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from k2ktui.runtime.node import KafkaNode
from k2ktui.sync.flow import Flow
from k2ktui.watch.codec import loads
from k2ktui.watch.model import PartName, View
from k2ktui.watch.poller import open_poller
from tests.support.clusters.kafka import TIMEOUT, Out, admin, create_topic, produce
from tests.support.commands.verbs import k2ktui
from tests.support.oracle.group_offsets import commit_offsets
from tests.support.pipelines.copied import Copied

pytestmark = pytest.mark.slow


class Views:
    """The views of a live feed."""

    def __init__(self) -> None:
        self._seen: queue.SimpleQueue[View] = queue.SimpleQueue()
        self.take = self._seen.put

    def first(self, wanted: Callable[[View], object], what: str) -> View:
        """The first view that is as it is wanted."""
        until = time.monotonic() + TIMEOUT
        while not wanted(view := self._seen.get(timeout=TIMEOUT)):
            assert time.monotonic() < until, f"{what}: {view.parts}"
        return view


@pytest.fixture
def copied(source: KafkaNode, target: KafkaNode, tmp_path: Path) -> Copied:
    return Copied(tmp_path, source, target)


def test_what_is_shown_is_what_is_there(copied: Copied, source: KafkaNode) -> None:
    topic = create_topic(source, partitions=2)
    produce(source, topic, [Out(b"%d" % n, partition=n % 2) for n in range(40)])
    landed = copied.copy(topic)
    group = copied.group("g")
    commit_offsets(source, group, {(topic, 0): 5})
    commit_offsets(copied.target, group, {(topic, 0): landed[topic, 0][5] + 2})
    produce(source, topic, [Out(b"late")] * 3)
    views = Views()
    feed = open_poller(Flow(copied.config))
    feed.start(views.take)
    try:
        view = views.first(
            lambda v: all(part.taken_at for part in v.parts.values()) and v.summaries and v.settled,
            "whole, and what is bad was read twice",
        )
        rows = {row.key: row.status for row in view.partitions if row.key[0] == topic}
        assert rows[topic, 0].lag_records == 3
        assert rows[topic, 1].state == "caught-up"
        assert rows[topic, 1].coverage == 1.0
        assert rows[topic, 0].target_end == copied.prior + 20
        [summary] = [summary for summary in view.summaries if summary.group == group]
        assert (summary.skips, summary.lag) == (2, 18)
        assert view.source.version.startswith("4.")

        copied.target.kill()
        view = views.first(lambda v: v.part(PartName.TARGET).error, "the target is gone")
        assert any(row.key == (topic, 0) for row in view.partitions)
        produce(source, topic, [Out(b"later")] * 2)
        view = views.first(
            lambda v: any(
                row.key == (topic, 0) and row.status.source_end == 25 for row in v.partitions
            ),
            "the source is read on",
        )
        assert view.part(PartName.TARGET).error
        copied.target.start()
        views.first(lambda v: not v.part(PartName.TARGET).error, "the target is back")
    finally:
        feed.close()
        copied.target.start()


def test_watch_prints_what_there_is(copied: Copied, source: KafkaNode) -> None:
    topic = create_topic(source)
    produce(source, topic, [Out(b"x")] * 4)
    copied.copy(topic)
    said = k2ktui("watch", "-f", copied.file, "--once")
    assert said.code == 0, said.err
    assert "lag 0 records" in said.out
    printed = k2ktui("watch", "-f", copied.file, "--once", "--json").out
    assert loads(printed).totals.lag_records == 0


def test_watching_makes_nothing_on_the_source(copied: Copied, source: KafkaNode) -> None:
    topic = create_topic(source)
    produce(source, topic, [Out(b"x")])
    copied.copy(topic)
    client = admin(source)
    before = set(client.list_topics(timeout=TIMEOUT).topics)
    views = Views()
    feed = open_poller(Flow(copied.config))
    feed.start(views.take)
    try:
        views.first(lambda v: all(part.taken_at for part in v.parts.values()), "all was read")
    finally:
        feed.close()
    assert set(client.list_topics(timeout=TIMEOUT).topics) == before
