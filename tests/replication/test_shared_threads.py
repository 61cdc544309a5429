"""Runs that share a pipeline on real clusters, all in this process, with laps on threads."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial

import pytest

from k2ktui.config.model import PipelineConfig
from k2ktui.config.start import StartSection
from k2ktui.engine.assignment_records import AssignmentFold
from k2ktui.engine.journal import RunnerState
from k2ktui.errors import ConnectionFailed
from k2ktui.kafka.clients import source_cluster, target_cluster
from k2ktui.kafka.control import ensure_control_topics
from k2ktui.kafka.properties import wire
from k2ktui.replication.assignment_topic import AssignmentTopic
from k2ktui.replication.event_text import report_text
from k2ktui.replication.events import Event, Finished, Note, Started, Waiting
from k2ktui.replication.heartbeat import Heartbeat
from k2ktui.replication.shared_slots import SharedSlots
from k2ktui.runtime.host import birth_of, pid_space
from k2ktui.runtime.node import KafkaNode
from k2ktui.runtime.stop_flag import StopFlag
from k2ktui.shared_runs import SharedRun, SharedRunParts
from k2ktui.sync.standby import beat_interval_s
from k2ktui.sync.store import StateStore
from tests.replication.test_start_positions import grow
from tests.support.kafka import Out, create_topic, end_offsets, eventually, produce, unique_name
from tests.support.oracle import Expected, prove
from tests.support.preflight import pipeline
from tests.support.thread_laps import ThreadLaps
from tests.support.traffic import mixture

SLOTS, PARTITIONS = 4, 6
RELEASE_S = 3.0 + 10.0 + 1.0 + 5.0  # of the test in which a lap begins within 10 s


@pytest.fixture
def topic(source: KafkaNode) -> str:
    return create_topic(source, unique_name("shared"), PARTITIONS)


@pytest.fixture
def config(source: KafkaNode, target: KafkaNode, topic: str) -> PipelineConfig:
    settings = {"common": {"bootstrap.servers": target.bootstrap}}
    return pipeline(
        source,
        {"kafka": {**settings, "producer": {"transaction.timeout.ms": 5000}}},
        topic,
        name=unique_name("shared"),
        coordination={
            "mode": "shared",
            "commit": {"topic": unique_name("commit")},
            "assignment": {"graceWindow": "3 seconds", "topic": unique_name("assignment")},
            "state": {"topic": unique_name("state")},
        },
        spark={"slots": SLOTS, "lap": "1 second"},
        topicCreation={"control": {"common": {"replication": 1}}},
    )


class ThreadRun:
    """One run, on a thread of its own."""

    def __init__(
        self,
        config: PipelineConfig,
        closing: ExitStack,
        pool: ThreadPoolExecutor,
        *,
        until_caught_up: bool = False,
    ) -> None:
        self.events: list[Event] = []
        self.stopping = StopFlag()
        self.heartbeat = heartbeat(config)
        self.heartbeat.stand_by(waiting=True)
        closing.enter_context(self.heartbeat)
        options = wire(config.source, "consumer"), wire(config.target, "producer")
        self.laps = ThreadLaps(*options)
        closing.callback(self.laps.close)
        source, target = source_cluster(config), target_cluster(config)
        control = ensure_control_topics(config, target, {})
        parts = SharedRunParts(
            source,
            target,
            options[1],
            control,
            self.laps,
            self.heartbeat,
            SLOTS,
            time.time(),
            take_over=False,
            until_caught_up=until_caught_up,
        )
        self.ended: Future[Finished] = pool.submit(
            SharedRun(config, parts, self._take).run, self.stopping
        )

    def _take(self, event: Event) -> None:
        self.heartbeat.observe(event)
        self.events.append(event)

    @property
    def owns(self) -> int:
        """How many slots it said last that it owns."""
        assert not self.ended.done(), self.ended.exception()
        said = [text for text in self.texts if text.startswith(("note: shared by", "standby"))]
        owned = said[-1].partition(" owns ")[2] if said else ""
        return int(owned.split()[0]) if owned else 0

    @property
    def texts(self) -> list[str]:
        return [report_text(each) for each in self.events if isinstance(each, Note | Waiting)]

    def stop(self) -> Finished:
        self.stopping.set()
        return self.ended.result(60)


def heartbeat(config: PipelineConfig) -> Heartbeat:
    notes: list[str] = []
    return Heartbeat(config, time.time(), notes.append, beat_s=beat_interval_s(config))


class Runs:
    """All runs of a test."""

    def __init__(self, config: PipelineConfig, closing: ExitStack) -> None:
        self.config, self._closing = config, closing
        self._pool = ThreadPoolExecutor(16)
        closing.callback(self._pool.shutdown)
        self.all: list[ThreadRun] = []

    def start(self, *, until_caught_up: bool = False) -> ThreadRun:
        run = ThreadRun(self.config, self._closing, self._pool, until_caught_up=until_caught_up)
        self.all.append(run)
        self._closing.callback(run.ended.exception, 60)
        self._closing.callback(run.stopping.set)
        self._closing.callback(run.laps.answers.set)
        return run

    def expect_owning(self, *runs: ThreadRun) -> None:
        def is_even() -> bool:
            owned = sorted(run.owns for run in runs)
            return sum(owned) == SLOTS and owned[-1] - owned[0] <= 1

        eventually(is_even, lambda: "\n".join(t for r in runs for t in r.texts[-9:]), 90)


@pytest.fixture
def runs(config: PipelineConfig) -> Iterator[Runs]:
    with ExitStack() as closing:
        yield Runs(config, closing)


class Copied:
    """What is written to the source, and what arrives."""

    def __init__(
        self, config: PipelineConfig, topic: str, source: KafkaNode, target: KafkaNode
    ) -> None:
        self._config, self._topic = config, topic
        self._nodes, self._seed = (source, target), 0

    def write(self) -> None:
        self._seed += 1
        produce(self._nodes[0], self._topic, mixture(self._seed, 200, PARTITIONS))

    def prove(self, what: Expected | None = None) -> None:
        """Wait until all is copied, and compare everything."""
        coordination = self._config.coordination
        check = partial(
            prove,
            *self._nodes,
            self._config.name,
            what or Expected(self._topic),
            commit_topic=coordination.commit.topic,
            mapping_topic=self._config.offset_mapping.topic,
        )

        def is_copied() -> bool:
            try:
                check()
            except AssertionError as error:
                wrong.append(str(error))
                return False
            return True

        wrong: list[str] = []
        eventually(is_copied, lambda: wrong[-1], 60)


@pytest.fixture
def copied(config: PipelineConfig, topic: str, source: KafkaNode, target: KafkaNode) -> Copied:
    return Copied(config, topic, source, target)


def test_runs_share_a_pipeline_and_hand_their_slots_over(runs: Runs, copied: Copied) -> None:
    copied.write()
    first = runs.start()
    runs.expect_owning(first)
    copied.prove()
    second = runs.start()
    runs.expect_owning(first, second)
    copied.write()
    copied.prove()
    finished = first.stop()
    assert not finished.caught_up and not finished.faults and finished.records > 0
    runs.expect_owning(second)
    copied.write()
    copied.prove()
    assert second.stop().records > 0
    copied.prove()


@pytest.mark.slow
def test_ten_runs_that_start_at_once_share_four_slots(runs: Runs, copied: Copied) -> None:
    """Six wait, and take over at once from those that are stopped."""
    copied.write()
    started = [runs.start() for _ in range(10)]
    runs.expect_owning(*started)
    copied.prove()
    left = [run for run in started if not run.owns]
    assert len(left) == len(started) - SLOTS
    for run in started:
        if run not in left:
            run.stop()
    copied.write()
    runs.expect_owning(*left)
    copied.prove()


@pytest.mark.slow
@pytest.mark.parametrize("notices", [True, False])
def test_slots_that_a_live_run_does_not_release_are_taken_from_it(
    runs: Runs, copied: Copied, monkeypatch: pytest.MonkeyPatch, notices: bool
) -> None:
    """Their drivers hang. The run says that it has released them after a while, or the leader does
    not wait for it any longer; in either case, it continues with what it owns when they answer."""
    monkeypatch.setattr("k2ktui.replication.laps._START_S", 10.0)
    if not notices:
        monkeypatch.setattr(SharedSlots, "_abandon_stuck", lambda slots: None)
    copied.write()
    hangs = runs.start()
    runs.expect_owning(hangs)
    hangs.laps.answers.clear()
    began = time.monotonic()
    other = runs.start()
    runs.expect_owning(hangs, other)
    assert time.monotonic() - began > RELEASE_S
    noted = [text for text in hangs.texts if "has not ended" in text]
    assert len(noted) == (2 if notices else 0), noted
    eventually(
        lambda: sum(isinstance(each, Started) for each in other.events) == 2, "it copies", 60
    )
    copied.write()
    copied.prove()
    hangs.laps.answers.set()
    copied.write()
    copied.prove()
    assert other.stop().records > 0
    runs.expect_owning(hangs)
    copied.write()
    copied.prove()


def test_a_run_alone_ends_when_it_has_caught_up(
    runs: Runs, copied: Copied, source: KafkaNode, topic: str
) -> None:
    """As with ``coordination.mode: exclusive``; the next one copies what has come since."""
    copied.write()
    written = sum(end_offsets(source, topic).values())
    for _ in range(2):
        run = runs.start(until_caught_up=True)
        finished = run.ended.result(60)
        assert finished.caught_up and not finished.faults
        assert finished.records <= written
        copied.prove()
        copied.write()
    assert runs.start(until_caught_up=True).ended.result(60).caught_up
    copied.prove()


def test_a_run_ends_when_others_have_caught_up_too_and_hands_its_slots_over(
    runs: Runs, copied: Copied
) -> None:
    """Also several that do so at once, while more is written: none waits for another forever."""
    copied.write()
    stays = runs.start()
    runs.expect_owning(stays)
    ending = [runs.start(until_caught_up=True) for _ in range(2)]
    while not all(each.ended.done() for each in ending):
        assert not stays.ended.done()
        copied.write()
        for each in ending:
            each.stopping.wait(0.2)
    assert [each.ended.result().caught_up for each in ending] == [True, True]
    runs.expect_owning(stays)
    copied.prove()
    assert not stays.stop().caught_up


def test_heartbeats_show_what_each_run_copies(runs: Runs, copied: Copied) -> None:
    first = runs.start()
    runs.expect_owning(first)
    second = runs.start()
    runs.expect_owning(first, second)
    names = {run.heartbeat.runner for run in runs.all}

    def shown() -> bool:
        store = StateStore(runs.config, target_cluster(runs.config))
        try:
            found = [each for each in store.read().runners if each.runner in names]
        except ConnectionFailed:
            return False
        finally:
            store.close()
        return (
            [each.state for each in found] == [RunnerState.RUNNING] * 2
            and [each.slots for each in found] == [2, 2]
            and len({each.term for each in found}) == 1
        )

    eventually(shown, "two slots each, of one layout", 60)
    started = [each for each in first.events if isinstance(each, Started)]
    assert started[0].slots == 1 and max(each.slots for each in started) == SLOTS


def test_records_of_a_run_tell_its_process_from_others(runs: Runs) -> None:
    first = runs.start()
    runs.expect_owning(first)
    config, runner = runs.config, first.heartbeat.runner
    target = target_cluster(config)
    store = StateStore(config, target)
    log = AssignmentTopic(target, config.coordination.assignment.topic)
    try:
        fold = AssignmentFold(config.coordination.commit.group)
        log.read(fold)
        (beat,) = (each for each in store.read().runners if each.runner == runner)
    finally:
        store.close()
        log.close()
    for found in (beat, fold.members[runner]):
        process = found.pid, found.pid_space, found.birth
        assert process == (os.getpid(), pid_space(), birth_of(os.getpid()))


@pytest.mark.slow
def test_partitions_that_appear_later_are_copied_from_their_beginning(
    config: PipelineConfig, topic: str, source: KafkaNode, target: KafkaNode
) -> None:
    """``start.from: latest`` applies to what the leader found, and to no slot that starts later."""
    latest = config.model_copy(
        update={"start_section": StartSection.model_validate({"from": "latest"})}
    )
    copied = Copied(latest, topic, source, target)
    copied.write()
    start = end_offsets(source, topic)
    with ExitStack() as closing:
        runs = Runs(latest, closing)
        first = runs.start()
        runs.expect_owning(first)
        copied.write()
        grow(source, topic, PARTITIONS + 2)
        new = [Out(b"%d" % n, partition=PARTITIONS + n % 2) for n in range(50)]
        produce(source, topic, new)
        second = runs.start()
        runs.expect_owning(first, second)
        copied.prove(Expected(topic, start=start))
