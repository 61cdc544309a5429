"""The driver of one slot that runs share: its partitions, its laps, and its end."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.run_record import SharedLayout
from k2ktui.engine.slot_owners import shared_slot_of
from k2ktui.engine.state import Position, Run, SourcePartition
from k2ktui.errors import Refused
from k2ktui.kafka.clients import source_cluster, target_cluster
from k2ktui.kafka.producer_id import Producer
from k2ktui.replication.commit_state import CommitState, CommittedPositions, CommitTopic
from k2ktui.replication.discovery import TopicDiscovery, TopicSnapshot
from k2ktui.replication.events import Event, Started
from k2ktui.replication.fencing_errors import superseded
from k2ktui.replication.lap_runner import OwnLaps
from k2ktui.replication.pair_topics import PairTopicsReader
from k2ktui.replication.pipeline_fencing import commit_topic
from k2ktui.replication.slot_driver import SharedSlotDriver
from k2ktui.replication.slot_task import CopyPath, Route, SlotTask
from k2ktui.runtime.node import KafkaNode
from tests.replication.test_client_settings import pipeline
from tests.support.copied import Copied
from tests.support.kafka import Out, create_topic, eventually, produce, unique_name

SLOTS, SLOT = 4, 3
PARTITIONS = [SourcePartition("t", number) for number in range(2 * SLOTS)]
OWN = [each for each in PARTITIONS if shared_slot_of(each, SLOTS) == SLOT]


class Laps:
    """Laps that run until they are given up."""

    def __init__(self) -> None:
        self.tasks: list[SlotTask] = []
        self.running: list[Future[Any]] = []

    def submit(self, tasks: Any) -> Future[Any]:
        self.tasks += tasks
        self.running.append(Future())
        return self.running[-1]

    def is_waiting(self, lap: Future[Any]) -> bool:
        return False

    def give_up(self, lap: Future[Any]) -> None:
        self.running.remove(lap)

    def cancel(self) -> None:
        raise AssertionError("this would end the laps of all slots")


class Fencer:
    """Has taken the slot over; ``error`` is what a later write of it finds."""

    topic = CommitTopic("c", 1, "g", shared_slot=SLOT)
    run, pipeline_run = Run(7, 1), Run(5, 0, layout=SharedLayout("l", SLOTS, ready=True))
    unfinished: Mapping[int, Any] = {}
    retired: frozenset[int] = frozenset()
    longest_commit_s, must_take_over = 60.0, False
    pair: Any = None

    def __init__(self) -> None:
        self.is_closed = False
        self.error: Exception | None = None

    def take_over(self, slots: int) -> CommitState:
        assert slots == 1
        known = {each: Position(5, 0, -1, "", 3, 0, "t", each.partition) for each in PARTITIONS}
        return CommitState(self.run, known)

    def renew(self, slot: int) -> Producer:
        assert slot == 0, "the first transactional id of the slot"
        return Producer("g.slot-3.0", 1, 1)

    def close(self) -> None:
        self.is_closed = True


class Discovery:
    """Finds the partitions that are wanted; fails at the second look, if it is to."""

    def __init__(self, fencer: Fencer, is_wanted: Any) -> None:
        self._fencer, self._is_wanted = fencer, is_wanted

    def discover(self, positions: Any) -> TopicSnapshot:
        if self._fencer.error is not None:
            raise self._fencer.error
        wanted = [each for each in PARTITIONS if self._is_wanted(each)]
        return TopicSnapshot({each: Route(CopyPath.VERBATIM, "t", 0, 1) for each in wanted})


def make_driver(
    fencer: Any, laps: Laps, events: list[Event], ends: list[bool] | None = None
) -> SharedSlotDriver:
    return SharedSlotDriver(
        pipeline(),
        fencer,
        laps,
        lambda is_wanted: Discovery(fencer, is_wanted),  # type: ignore[arg-type, return-value]
        events.append,
        mapping_partitions=0,
        began_at=1.0,
        at_end=([] if ends is None else ends).append,
    )


def test_it_copies_the_slots_partitions_with_its_number_and_term() -> None:
    fencer, laps, events = Fencer(), Laps(), list[Event]()
    others = laps.submit([])
    driver = make_driver(fencer, laps, events)
    assert not driver.has_started
    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(driver.run)
        eventually(lambda: laps.tasks, "its lap has begun", 10)
        assert driver.has_started
        driver.stop()
        ended.result(10)
    (task,) = laps.tasks
    assert (task.slot, task.state_topics.term) == (SLOT, 7)
    assert sorted(each.source for each in task.assignments) == OWN
    (started,) = [each for each in events if isinstance(each, Started)]
    assert (started.slots, started.partitions) == (1, len(OWN))
    assert fencer.is_closed and laps.running == [others]


def test_a_driver_that_is_abandoned_has_ended_as_far_as_others_can_see() -> None:
    """When it ends, another driver copies the slot, which that is not the end of."""
    fencer, laps, events, ends = Fencer(), Laps(), list[Event](), list[bool]()
    driver = make_driver(fencer, laps, events, ends)
    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(driver.run)
        eventually(lambda: laps.tasks, "its lap has begun", 10)
        driver.abandon()
        reported = len(events)
        assert ends == [False]
        driver.stop()
        ended.result(10)
    assert ends == [False] and len(events) == reported and fencer.is_closed


@pytest.mark.parametrize("error", [superseded("p"), Refused("the group may not be read")])
def test_a_driver_that_fails_ends_its_own_laps_only(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("k2ktui.replication.driver._DISCOVERY_INTERVAL_S", 0.0)
    fencer, laps = Fencer(), Laps()
    others = laps.submit([])
    with ThreadPoolExecutor(1) as pool:
        driver = make_driver(fencer, laps, [])
        ended = pool.submit(driver.run)
        eventually(lambda: laps.tasks, "its lap has begun", 10)
        fencer.renew = fail(error)  # type: ignore[method-assign]
        laps.running[-1].set_exception(RuntimeError("lost"))
        fencer.recover = fail(error)  # type: ignore[attr-defined]
        with pytest.raises(type(error)):
            ended.result(10)
    assert fencer.is_closed
    assert [lap for lap in laps.running if not lap.done()] == [others]


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
        fencer: Any = Fencer()
        fencer.topic, fencer.pipeline_run = CommitTopic("c", 1, "g", shared_slot=slot), layout
        found: list[Any] = []
        SharedSlotDriver(
            pipeline(),
            fencer,
            Laps(),
            lambda is_wanted, found=found: found.append(is_wanted),  # type: ignore[misc]
            print,
            mapping_partitions=0,
            began_at=1.0,
        )
        wanted.append(found[0](source))
    assert wanted.count(True) == 1


def test_laps_that_have_ended_are_not_canceled() -> None:
    laps = Laps()
    own = OwnLaps(laps)
    others, first = laps.submit([]), own.submit([])
    first.set_result([])
    second = own.submit([])
    own.give_up(second)
    third = own.submit([])
    assert not own.is_waiting(third)
    own.cancel()
    assert laps.running == [others, first]


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
        found = discovery(config, is_wanted).discover({})
        assert set(found.begin) == set(found.routes) == set(found.ends)
        return {s.partition: p.offset for s, p in found.begin.items()}

    assert discover(None) == dict.fromkeys(range(4), 1)
    assert discover(lambda source: source.partition % 2) == {1: 0, 3: 0}


def discovery(config: PipelineConfig, is_wanted: Any) -> TopicDiscovery:
    source, target = source_cluster(config), target_cluster(config)
    committed = CommittedPositions(target, commit_topic(config, 1))
    topics = PairTopicsReader(config, source, target)
    return TopicDiscovery(config, source, target, topics, committed, is_wanted)
