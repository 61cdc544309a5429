"""The driver of one slot that runs share: its partitions, its laps, and its end."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.ownership.slot_owners import shared_slot_of
from k2ktui.engine.records.run_record import SharedLayout
from k2ktui.engine.records.state import Position, Run, SourcePartition
from k2ktui.errors import Refused
from k2ktui.kafka.clients import source_cluster, target_cluster
from k2ktui.kafka.producer_id import Producer
from k2ktui.replication.copying.slot_task import CopyPath, Route, SlotTask
from k2ktui.replication.driver.driver import Driver
from k2ktui.replication.driver.slot_driver import SlotDriver
from k2ktui.replication.fencing_errors import Superseded, superseded
from k2ktui.replication.ownership.commit_state import CommitState, CommittedPositions, CommitTopic
from k2ktui.replication.ownership.pipeline import commit_topic
from k2ktui.replication.reports.events import Event, Started
from k2ktui.replication.reports.status import RunStatus
from k2ktui.replication.topics.discovery import TopicDiscovery, TopicSnapshot
from k2ktui.replication.topics.pair_topics import PairTopicsReader
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import (
    TIMEOUT,
    Out,
    create_topic,
    eventually,
    produce,
    unique_name,
)
from tests.support.model.run_parts import run_parts
from tests.support.pipelines.copied import Copied
from tests.unit.replication.test_client_settings import pipeline

SLOTS, SLOT = 4, 3
PARTITIONS = [SourcePartition("t", number) for number in range(2 * SLOTS)]
OWN = [partition for partition in PARTITIONS if shared_slot_of(partition, SLOTS) == SLOT]


class Laps:
    """Laps that run until they are given up."""

    def __init__(self) -> None:
        self.tasks: list[SlotTask] = []
        self.running: list[Future[Any]] = []

    def submit(self, tasks: Any) -> Future[Any]:
        lap: Future[Any] = Future()
        self.running.append(lap)
        self.tasks += tasks  # what tests wait for
        return lap

    def is_waiting(self, lap: Future[Any]) -> bool:
        return False

    def give_up(self, lap: Future[Any]) -> None:
        self.running.remove(lap)


class Owned:
    """Has taken the slot over; ``error`` is what a later write of it finds."""

    topic = CommitTopic("c", 1, "g", shared_slot=SLOT)
    run, pipeline_run = Run(7, 1), Run(5, 0, layout=SharedLayout("l", SLOTS, ready=True))
    unfinished: Mapping[int, Any] = {}
    retired: frozenset[int] = frozenset()
    longest_commit_s, must_take_over, lost_term = 60.0, False, 0
    pair: Any = None

    def __init__(self) -> None:
        self.is_closed = False
        self.error: Exception | None = None

    def take_over(self, slots: int) -> CommitState:
        assert slots == 1
        known = {
            partition: Position(5, 0, -1, "", 3, 0, "t", partition.partition)
            for partition in PARTITIONS
        }
        return CommitState(self.run, known)

    def renew(self, slot: int) -> Producer:
        assert slot == 0, "the first transactional id of the slot"
        return Producer("g.slot-3.0", 1, 1)

    def close(self) -> None:
        self.is_closed = True


class Discovery:
    """Finds the partitions that are wanted; fails at the second look, if it is to."""

    def __init__(self, ownership: Owned, is_wanted: Any) -> None:
        self._ownership, self._is_wanted = ownership, is_wanted

    def discover(
        self, positions: Any, is_well: bool = True, moved: Any = None, lost_term: int = 0
    ) -> TopicSnapshot:
        if self._ownership.error is not None:
            raise self._ownership.error
        wanted = [partition for partition in PARTITIONS if self._is_wanted(partition)]
        return TopicSnapshot({source: Route(CopyPath.VERBATIM, "t", 0, 1) for source in wanted})


def make_driver(ownership: Any, laps: Laps, status: RunStatus) -> SlotDriver:
    return SlotDriver(
        run_parts(pipeline(), laps),
        ownership,
        lambda is_wanted: Discovery(ownership, is_wanted),  # type: ignore[arg-type, return-value]
        status.add_driver(SLOT),
    )


def test_it_copies_the_slots_partitions_with_its_number_and_term() -> None:
    ownership, laps, events = Owned(), Laps(), list[Event]()
    others = laps.submit([])
    driver = make_driver(ownership, laps, RunStatus("p", events.append))
    assert not driver.has_started
    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(driver.run)
        eventually(lambda: laps.tasks, "its lap has begun")
        assert driver.has_started
        driver.stop()
        ended.result(TIMEOUT)
    (task,) = laps.tasks
    assert (task.slot, task.state_topics.term) == (SLOT, 7)
    assert sorted(assignment.source for assignment in task.assignments) == OWN
    (started,) = [event for event in events if isinstance(event, Started)]
    assert (started.slots, started.partitions) == (1, len(OWN))
    assert ownership.is_closed and laps.running == [others]


def test_a_driver_that_is_abandoned_has_ended_as_far_as_others_can_see() -> None:
    """When it ends, another driver copies the slot, which that is not the end of."""
    ownership, laps, events = Owned(), Laps(), list[Event]()
    status = RunStatus("p", events.append)
    driver = make_driver(ownership, laps, status)
    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(driver.run)
        eventually(lambda: laps.tasks, "its lap has begun")
        driver.abandon()
        reported, other = len(events), status.add_driver(SLOT)
        driver.stop()
        ended.result(TIMEOUT)
    assert status.drivers == {SLOT: other} and not other.is_over
    assert len(events) == reported and ownership.is_closed


@pytest.mark.parametrize("error", [superseded("p"), Refused("the group may not be read")])
def test_a_driver_that_fails_ends_its_own_laps_only(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("k2ktui.replication.driver.driver._DISCOVERY_INTERVAL_S", 0.0)
    ownership, laps = Owned(), Laps()
    others = laps.submit([])
    with ThreadPoolExecutor(1) as pool:
        driver = make_driver(ownership, laps, RunStatus("p", lambda report: None))
        ended = pool.submit(driver.run)
        eventually(lambda: laps.tasks, "its lap has begun")
        ownership.renew = fail(error)  # type: ignore[method-assign]
        laps.running[-1].set_exception(RuntimeError("lost"))
        ownership.recover = fail(error)  # type: ignore[attr-defined]
        with pytest.raises(type(error)):
            ended.result(TIMEOUT)
    assert ownership.is_closed
    assert [lap for lap in laps.running if not lap.done()] == [others]


def test_a_driver_without_any_lap_notices_that_it_was_fenced() -> None:
    """All partitions are stopped or held: nothing is written that would be refused."""
    ownership: Any = Owned()
    ownership.topic = CommitTopic("c", 1, "g")
    ownership.confirm = fail(superseded("p"))
    laps, events = Laps(), list[Event]()
    driver = Driver(
        run_parts(pipeline(), laps),
        ownership,
        cast("Any", Discovery(ownership, lambda source: False)),
        RunStatus("p", events.append).add_driver(),
    )
    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(driver.run, 1)
        try:
            with pytest.raises(Superseded):
                ended.result(TIMEOUT)
        finally:
            driver.stop()
    assert laps.tasks == [] and any(isinstance(event, Started) for event in events)


def fail(error: Exception) -> Any:
    def raise_it(*_: Any) -> None:
        raise error

    return raise_it


@given(st.text(max_size=8), st.integers(0, 99), st.integers(1, 9))
def test_each_partition_is_in_one_slot(topic: str, partition: int, slots: int) -> None:
    """Whatever the numbers: the drivers of all slots together copy it once."""
    source = SourcePartition(topic, partition)
    layout = Run(5, 0, layout=SharedLayout("l", slots, ready=True))
    wanted = []
    for slot in range(slots):
        ownership: Any = Owned()
        ownership.topic, ownership.pipeline_run = CommitTopic("c", 1, "g", shared_slot=slot), layout
        filters: list[Any] = []
        SlotDriver(
            run_parts(pipeline(), Laps()),
            ownership,
            lambda is_wanted, filters=filters: filters.append(is_wanted),  # type: ignore[misc]
            RunStatus("p", print).add_driver(slot),
        )
        wanted.append(filters[0](source))
    assert wanted.count(True) == 1


def test_what_the_driver_of_a_slot_finds_has_appeared_after_the_first_start(
    source: KafkaNode, target: KafkaNode, tmp_path: Path
) -> None:
    """``start.from: latest`` applies to what the leader finds when it divides the pipeline."""
    topic = create_topic(source, unique_name("found"), 4)
    produce(source, topic, [Out(b"x", partition=number) for number in range(4)])
    chosen = [{"source": {"topic": [topic]}}, {"sink": {"topic": "source", "partition": "source"}}]
    settings = {"start": {"from": "latest"}, "replication": chosen}
    config = Copied(tmp_path, source, target, settings).config

    def discover(is_wanted: Any) -> dict[int, int]:
        snapshot = discovery(config, is_wanted).discover({})
        assert set(snapshot.begin) == set(snapshot.routes) == set(snapshot.ends)
        return {s.partition: p.offset for s, p in snapshot.begin.items()}

    assert discover(None) == dict.fromkeys(range(4), 1)
    assert discover(lambda source: source.partition % 2) == {1: 0, 3: 0}


def discovery(config: PipelineConfig, is_wanted: Any) -> TopicDiscovery:
    source, target = source_cluster(config), target_cluster(config)
    committed = CommittedPositions(target, commit_topic(config, 1))
    topics = PairTopicsReader(config, source, target)
    return TopicDiscovery(config, source, target, topics, committed, is_wanted)
