"""Thousands of partitions: work is in proportion to what has changed, not to their number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.kafka.admin import known_settings
from k2ktui.kafka.admin.known_settings import KnownSettings
from k2ktui.kafka.clients import Cluster
from k2ktui.replication.ownership.commit_state import CommittedPositions
from k2ktui.replication.topics import discovery as module
from k2ktui.replication.topics.discovery import TopicDiscovery
from k2ktui.replication.topics.pair_topics import PairTopicsReader
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import (
    TIMEOUT,
    alter_topic,
    create_topic,
    eventually,
    grow_topic,
    open_transaction,
    unique_name,
)

T = TypeVar("T")


class Asked(Cluster):
    """A cluster that notes what it is asked for."""

    def __init__(self, config: Any, label: str) -> None:
        super().__init__(config, label)
        self.questions: list[str] = []

    def ask(self, what: str, question: Callable[[], T]) -> T:
        self.questions.append(what)
        return super().ask(what, question)

    def take(self, what: str) -> int:
        """Return how often it was asked for something since the last call."""
        times, self.questions = self.questions.count(what), []
        return times


def config(source: KafkaNode, target: KafkaNode, stem: str) -> PipelineConfig:
    sides = {
        side: {"kafka": {"common": {"bootstrap.servers": node.bootstrap}}}
        for side, node in (("source", source), ("target", target))
    }
    sink = {"topic": {"prefix": f"{stem}copy-"}, "partition": "source"}
    replication = {"source": {"topic": f"{stem}[a-z0-9-]*"}, "sink": sink}
    return PipelineConfig.model_validate({"name": "p", **sides, "replication": replication})


class NothingCommitted(CommittedPositions):
    """The positions of a run that has committed nothing since it began."""

    def __init__(self) -> None:
        pass

    def read(
        self, known: Any, since: float | None = None, timeout: float = 10.0
    ) -> dict[SourcePartition, Position]:
        return dict(known)


class Discovery:
    """A discovery of the topics that begin with a stem, and the clusters that it asks."""

    def __init__(self, source: KafkaNode, target: KafkaNode, stem: str) -> None:
        pipeline = config(source, target, stem)
        self.source = Asked(pipeline.source, "source")
        self.target = Asked(pipeline.target, "target")
        topics = PairTopicsReader(pipeline, self.source, self.target)
        self.discovery = TopicDiscovery(
            pipeline, self.source, self.target, topics, NothingCommitted()
        )
        self.positions: dict[SourcePartition, Position] = {}

    def discover(self) -> module.TopicSnapshot:
        """Discover once, and adopt the start positions as the driver does."""
        snapshot = self.discovery.discover(self.positions)
        self.positions.update({s: p for s, p in snapshot.begin.items() if s not in self.positions})
        return snapshot


@pytest.fixture
def rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of any number of partitions, everything is read again only after the longest time."""
    monkeypatch.setattr(module, "_MANY", 0)
    monkeypatch.setattr(module, "_SPARSE", 1e9)


@pytest.mark.usefixtures("rarely")
def test_topics_are_read_again_when_one_appears_or_grows(
    source: KafkaNode, target: KafkaNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    stem = unique_name("many")
    create_topic(source, f"{stem}-a", partitions=2)
    discovery = Discovery(source, target, stem)
    first = discovery.discover()
    assert len(first.routes) == 2
    assert discovery.source.take("describing topics") and discovery.target.take("describing topics")
    for _ in range(3):
        assert discovery.discover() is first
    assert not discovery.source.take("describing topics")
    assert not discovery.target.questions
    create_topic(source, f"{stem}-b", partitions=1)
    second = eventually(
        lambda: f if (f := discovery.discover()) is not first else None, "the new one"
    )
    assert len(second.routes) == 3
    assert {at.topic for at in second.begin} == {f"{stem}-b"}
    assert discovery.discover() is second
    grow_topic(source, f"{stem}-a", 4)
    eventually(lambda: len(discovery.discover().routes) == 5, "the grown one")


@pytest.mark.usefixtures("rarely")
def test_topics_are_read_again_while_something_is_wrong_or_unknown(
    source: KafkaNode, target: KafkaNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    stem = unique_name("many")
    create_topic(source, f"{stem}-a", partitions=2)
    create_topic(target, f"{stem}copy-{stem}-a", partitions=1)
    discovery = Discovery(source, target, stem)
    first = discovery.discover()
    assert first.faults and discovery.discover() is not first, "a target has too few partitions"
    grow_topic(target, f"{stem}copy-{stem}-a", 2)
    eventually(lambda: len(discovery.discover().routes) == 2, "the target has enough")
    last = discovery.discover()
    assert discovery.discover() is last
    discovery.positions.popitem()
    assert discovery.discover() is not last, "the driver has not adopted a start position"


@pytest.mark.usefixtures("rarely")
def test_everything_is_read_again_sooner_while_a_partition_is_stopped(
    source: KafkaNode, target: KafkaNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_LONGEST_UNWELL_S", 0.0)
    stem = unique_name("many")
    create_topic(source, f"{stem}-a")
    discovery = Discovery(source, target, stem)
    first = discovery.discover()
    assert discovery.discover() is first
    assert discovery.discovery.discover(discovery.positions, is_well=False) is not first


@pytest.mark.usefixtures("rarely")
def test_an_open_transaction_is_found_between_readings_of_everything(
    source: KafkaNode, target: KafkaNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Offsets are read again at least every minute."""
    monkeypatch.setattr(module, "_LONGEST_OFFSETS_S", 0.0)
    stem = unique_name("many")
    topic = create_topic(source, f"{stem}-a")
    discovery = Discovery(source, target, stem)
    discovery.discover()
    producer = open_transaction(source, topic, [b"1"])
    discovery.source.take("describing topics")
    at = SourcePartition(topic, 0)
    later = discovery.discover()
    assert not discovery.source.take("describing topics"), "its topics are known"
    assert later.ends[at] < later.high[at] and at in later.held_back
    assert later.sum_lags() == later.ends[at]
    producer.abort_transaction(TIMEOUT)


def test_everything_is_read_again_of_few_partitions(
    source: KafkaNode, target: KafkaNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_SPARSE", 1e9)
    stem = unique_name("many")
    create_topic(source, f"{stem}-a")
    discovery = Discovery(source, target, stem)
    assert discovery.discover() is not discovery.discover()


def test_settings_are_read_once_a_minute_and_of_new_topics_at_once(target: KafkaNode) -> None:
    stem, now = unique_name("settings"), [0.0]
    one, other = f"{stem}-a", f"{stem}-b"
    create_topic(target, one, config={"max.message.bytes": "7000"})
    cluster = Asked(config(target, target, stem).target, "target")
    known = KnownSettings(cluster, clock=lambda: now[0])

    def limit(name: str, ids: dict[str, str]) -> str:
        settings = known.read(ids)[name]
        assert isinstance(settings, dict)
        return str(settings["max.message.bytes"].value)

    assert limit(one, {one: "1"}) == "7000"
    assert cluster.take("reading topic settings")
    assert limit(one, {one: "1"}) == "7000"
    assert not cluster.questions
    create_topic(target, other)
    assert limit(other, {one: "1", other: "2"}) == "1048588"
    assert cluster.take("reading topic settings")
    assert limit(other, {one: "1", other: "3"}) == "1048588", "created again"
    assert cluster.take("reading topic settings")
    now[0] += 61
    assert limit(one, {one: "1"}) == "7000"
    assert cluster.take("reading topic settings")


def test_settings_of_many_topics_are_read_every_ten_minutes(
    target: KafkaNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_settings, "_MANY", 1)
    now = [0.0]
    names = [create_topic(target, f"{unique_name('settings')}-{n}") for n in range(2)]
    cluster = Asked(config(target, target, names[0]).target, "target")
    known = KnownSettings(cluster, clock=lambda: now[0])
    for second, is_read in ((0, True), (61, False), (599, False), (600, True), (601, False)):
        now[0] = float(second)
        known.read(dict.fromkeys(names, "1"))
        assert bool(cluster.take("reading topic settings")) is is_read, second


def test_the_sizes_that_a_target_accepts_are_known_and_read_again(
    source: KafkaNode, target: KafkaNode
) -> None:
    stem = unique_name("many")
    name = create_topic(source, f"{stem}-a")
    discovery = Discovery(source, target, stem)
    snapshot = discovery.discover()
    copy = f"{stem}copy-{name}"
    assert snapshot.sizes == {copy: (1048588, "producer")}
    assert snapshot.sizes_of(SourcePartition(name, 0)) == ((1048588, "producer"),)
    alter_topic(target, copy, max_message_bytes="9000")
    eventually(
        lambda: discovery.discovery.read_sizes([copy]) == {copy: (9000, "producer")},
        "the new limit is read",
    )
