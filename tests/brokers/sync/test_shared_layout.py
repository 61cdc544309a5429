"""How the leader finds the layout and divides a pipeline, on real clusters."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.drill.checks import DrillPhase
from k2ktui.engine.drill.model import Change, ChangeKind
from k2ktui.engine.records.run_record import SharedLayout
from k2ktui.engine.records.state import SourcePartition
from k2ktui.errors import Refused
from k2ktui.kafka.clients import source_cluster, target_cluster
from k2ktui.kafka.control.reader import await_stable
from k2ktui.kafka.control.topics import ensure_control_topics
from k2ktui.kafka.properties.translation import wire
from k2ktui.replication.driver.heartbeat import Heartbeat
from k2ktui.replication.fencing_errors import Superseded
from k2ktui.replication.ownership.commit_state import (
    CommitState,
    CommittedPositions,
    read_commit_state,
)
from k2ktui.replication.ownership.ownership import Ownership
from k2ktui.replication.ownership.pipeline import make_ownership
from k2ktui.replication.reports.events import Event, Note, report_text
from k2ktui.replication.topics.discovery import TopicDiscovery
from k2ktui.replication.topics.pair_topics import PairTopicsReader
from k2ktui.runtime.node import KafkaNode
from k2ktui.sync.drill.guard import refuse_fenced
from k2ktui.sync.shared_layout import LayoutFinder
from k2ktui.sync.standby import beat_interval_s
from k2ktui.sync.store import StateStore
from tests.support.clusters.kafka import (
    TIMEOUT,
    Out,
    create_topic,
    eventually,
    produce,
    unique_name,
)
from tests.support.drill.made_drills import fencing
from tests.support.pipelines.modes import in_mode
from tests.support.pipelines.preflight import pipeline

SLOTS = 3


@pytest.fixture
def topic(source: KafkaNode) -> str:
    name = create_topic(source, unique_name("divided"), 2)
    produce(source, name, [Out(b"%d" % n, partition=n % 2) for n in range(10)])
    return name


@pytest.fixture
def config(source: KafkaNode, target: KafkaNode, topic: str) -> PipelineConfig:
    config = pipeline(
        source,
        target,
        topic,
        name=unique_name("shared"),
        coordination={
            "commit": {"topic": unique_name("commit")},
            "assignment": {"graceWindow": "6 seconds"},
            "state": {"topic": unique_name("state")},
        },
        start={"from": "latest"},
        topicCreation={"control": {"common": {"replication": 1}}},
    )
    return in_mode(config, "shared")


class Runs:
    """Runs that share the pipeline, or do not; all end with the test."""

    def __init__(self, config: PipelineConfig, closing: ExitStack) -> None:
        self.config, self._closing = config, closing
        self.notes: list[str] = []
        self._partitions = ensure_control_topics(config, target_cluster(config), {})

    def start(self) -> Heartbeat:
        """Start the heartbeats of a run that copies alone."""
        return self._closing.enter_context(heartbeat(self.config))

    def ownership(self) -> Ownership:
        target = target_cluster(self.config)
        ownership = make_ownership(
            self.config,
            target,
            wire(self.config.target, "producer"),
            self._partitions.commit_partitions,
            guard=lambda named: refuse_fenced(self.config, target, named),
        )
        self._closing.callback(ownership.close, fence=False)
        return ownership

    def finder(self, **changed: Any) -> LayoutFinder:
        config = self.config.model_copy(update=changed)
        ownership, target = self.ownership(), target_cluster(config)
        finder = LayoutFinder(
            config,
            target,
            ownership,
            partial(discovery, config, ownership),
            self.start(),
            config.slots or SLOTS,
            self._report,
        )
        self._closing.callback(finder.close)
        return finder

    def shown(self) -> frozenset[str]:
        """Return the ids of the runs that have sent heartbeats."""
        store = StateStore(self.config, target_cluster(self.config))
        try:
            store.ensure()
            return frozenset(runner.runner for runner in store.read().runners)
        finally:
            store.close()

    def state(self) -> CommitState:
        topic, target = self.ownership().topic, target_cluster(self.config)
        await_stable(target, topic.name, topic.partitions, TIMEOUT)
        return read_commit_state(target, topic, TIMEOUT)

    def _report(self, event: Event) -> None:
        assert isinstance(event, Note)
        self.notes.append(report_text(event))


@pytest.fixture
def runs(config: PipelineConfig) -> Iterator[Runs]:
    with ExitStack() as closing:
        yield Runs(config, closing)


def heartbeat(config: PipelineConfig) -> Heartbeat:
    notes: list[str] = []
    return Heartbeat(config, time.time(), notes.append, beat_s=beat_interval_s(config))


def discovery(config: PipelineConfig, ownership: Ownership) -> TopicDiscovery:
    source, target = source_cluster(config), target_cluster(config)
    topics = PairTopicsReader(config, source, target)
    return TopicDiscovery(
        config, source, target, topics, CommittedPositions(target, ownership.topic)
    )


def find(finder: LayoutFinder) -> SharedLayout:
    layout: SharedLayout = eventually(lambda: finder.find(()), "there is a layout")
    return layout


def test_the_first_leader_divides_the_pipeline_and_the_next_one_finds_it(
    runs: Runs, topic: str
) -> None:
    """All start positions are there before a slot can be taken over: ``start.from: latest``."""
    first = runs.finder()
    assert first.find(()) is None, "another run may be starting"
    layout = find(first)
    assert layout.ready and layout.slots == SLOTS
    assert runs.notes == ["note: shared: divides the pipeline into 3 slots"]
    state = runs.state()
    assert state.run.layout == layout
    offsets = {at: (p.offset, p.start) for at, p in state.positions.items()}
    assert offsets == {SourcePartition(topic, number): (5, 5) for number in range(2)}
    assert all(0 < p.term == p.since < state.run.term for p in state.positions.values())
    assert runs.finder().find(()) == layout, "at once"
    slot = runs.ownership().of_slot(1, layout.id)
    slot.take_over(1)
    assert slot.pipeline_run.layout == layout
    slot.close()


def test_it_waits_for_a_run_that_copies_alone(runs: Runs) -> None:
    alone = runs.start()
    alone.status.add_driver().start(1, 2)
    ownership = runs.ownership()
    ownership.take_over(1)
    eventually(lambda: alone.runner in runs.shown(), "its heartbeat can be read")
    leader = runs.finder()
    eventually(
        lambda: (
            leader.find(()) is None
            and any("runs this pipeline exclusively" in n for n in runs.notes)
        ),
        "it waits",
    )
    ownership.renew(0)
    alone.stop(TIMEOUT)
    layout = find(leader)
    with pytest.raises(Superseded):
        ownership.renew(0)
    assert runs.state().run.layout == layout


def test_take_over_waits_for_none_and_fences_also_runs_that_share(runs: Runs) -> None:
    runs.start().status.add_driver().start(1, 2)
    ownership = runs.ownership()
    ownership.take_over(1)
    layout = runs.finder().find((), waits=False)
    assert layout is not None
    with pytest.raises(Superseded):
        ownership.renew(0)
    again = runs.finder().find((), waits=False)
    assert again is not None and again.ready and again.id != layout.id


def test_a_leader_whose_file_has_another_number_of_slots_divides_it_again(
    runs: Runs,
) -> None:
    layout = find(runs.finder())
    spark = runs.config.spark.model_copy(update={"slots": SLOTS})
    assert runs.finder(spark=spark).find(()) == layout
    spark = runs.config.spark.model_copy(update={"slots": 5})
    again = runs.finder(spark=spark).find(())
    assert again is not None and again.id != layout.id
    assert runs.state().run.layout == again


def test_a_layout_whose_leader_died_is_made_again(runs: Runs) -> None:
    dead = runs.ownership()
    dead.divide(SLOTS)
    began = time.monotonic()
    layout = find(runs.finder())
    assert layout.ready and time.monotonic() - began >= 6.0
    with pytest.raises(Superseded):
        dead.publish_layout()


def test_a_run_that_leads_again_uses_the_layout_of_the_leader_before_at_once(runs: Runs) -> None:
    """That one was killed: it has no record among the members, and its heartbeats say it works."""
    again = runs.finder()
    assert again.find((), "", 1) is None, "it waits, and another run begins to lead"
    killed, lower = runs.start(), runs.finder()
    layout = eventually(lambda: lower.find(runs.shown()), "there is a layout")
    killed.status.add_driver().start(1, 2)
    eventually(lambda: killed.runner in runs.shown(), "its heartbeat can be read")
    assert again.find((), "", 2) == layout


def test_a_drill_that_fences_the_pipeline_ends_the_leader(runs: Runs) -> None:
    leader = runs.finder()
    find(leader)
    store = StateStore(runs.config, target_cluster(runs.config))
    change = Change(DrillPhase.FENCE_REPLICATOR, ChangeKind.EPOCHS, "fence", "", "", "")
    store.put([replace(fencing(), changes=(change,))])
    store.close()
    with pytest.raises(Refused, match="was fenced by drill"):
        leader.find(())
