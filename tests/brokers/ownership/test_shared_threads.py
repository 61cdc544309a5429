"""Runs that share a pipeline on real clusters, all in this process, with laps on threads."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from zlib import crc32

import pytest

from k2ktui.config.model import PipelineConfig, StartSection
from k2ktui.engine.moves.journal import Runner, RunnerState
from k2ktui.engine.ownership.assignment_records import AssignmentFold
from k2ktui.engine.ownership.slot_owners import shared_slot_of
from k2ktui.engine.records.state import SourcePartition, position_key
from k2ktui.errors import ConnectionFailed, TimedOut
from k2ktui.kafka.clients import target_cluster
from k2ktui.replication.driver.held_slots import HeldSlots
from k2ktui.replication.fencing_errors import UnreadableRecords
from k2ktui.replication.ownership.assignment_topic import AssignmentTopic
from k2ktui.replication.reports.events import Started, Stopped
from k2ktui.runtime.host import birth_of, pid_space
from k2ktui.runtime.node import KafkaNode
from k2ktui.sync.store import StateStore
from tests.support.clusters.kafka import (
    TIMEOUT,
    Out,
    create_topic,
    delete_topic,
    end_offsets,
    eventually,
    grow_topic,
    produce,
    unique_name,
)
from tests.support.model.shared_threads import PARTITIONS, SLOTS, Copied, Runs, ThreadRun
from tests.support.oracle.judge import Expected
from tests.support.pipelines.preflight import pipeline

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


@pytest.fixture
def runs(config: PipelineConfig) -> Iterator[Runs]:
    with ExitStack() as closing:
        yield Runs(config, closing)


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


def test_the_commit_topic_gets_more_partitions_while_a_run_copies(
    runs: Runs, copied: Copied, config: PipelineConfig, target: KafkaNode
) -> None:
    """The next run writes to another partition: what it copies is not copied again."""
    group = config.coordination.commit.group.encode()
    copied.write()
    first = runs.start()
    runs.expect_owning(first)
    copied.prove()
    more = next(count for count in range(2, 9) if crc32(group) % count)
    grow_topic(target, config.coordination.commit.topic, more)
    second = runs.start()
    runs.expect_owning(first, second)
    for _ in range(2):
        copied.write()
        copied.prove()
    second.stop()
    runs.expect_owning(first)
    copied.write()
    copied.prove()
    first.stop()
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
    monkeypatch.setattr("k2ktui.replication.driver.laps._START_S", 10.0)
    if not notices:
        monkeypatch.setattr(HeldSlots, "_abandon_stuck", lambda slots: None)
    hangs = runs.start()
    runs.expect_owning(hangs)
    while True:
        copied.write()
        copied.prove()  # all slots have been taken over
        hangs.laps.answers.clear()
        began = time.monotonic()
        other = runs.start()
        runs.expect_owning(hangs, other)
        if hangs.laps.hanging:
            break
        other.stop()  # both drivers were between two laps, and ended at once
        runs.expect_owning(hangs)
        hangs.laps.answers.set()
    assert time.monotonic() - began > RELEASE_S
    noted = [text for text in hangs.texts if "driver did not stop within" in text]
    assert len(noted) == (len(hangs.laps.hanging) if notices else 0), noted
    eventually(lambda: sum(isinstance(event, Started) for event in other.events) == 2, "it copies")
    copied.write()
    copied.prove()
    hangs.laps.answers.set()
    copied.write()
    copied.prove()
    assert other.stop().records > 0
    runs.expect_owning(hangs)
    copied.write()
    copied.prove()


def test_a_run_that_takes_over_fences_those_that_share(runs: Runs, copied: Copied) -> None:
    """All slots move to a new layout: what copied them, and may be stuck, can write nothing."""
    copied.write()
    first = runs.start()
    runs.expect_owning(first)
    copied.prove()
    before = max(event.term for event in first.events if isinstance(event, Started))
    other = runs.start(take_over=True)
    runs.expect_owning(first, other)
    copied.write()
    copied.prove()
    for run in (first, other):
        terms = [event.term for event in run.events if isinstance(event, Started)]
        assert terms[-1] > before, "all slots were taken over in a new layout"
    assert any("divides the pipeline" in text for text in other.texts)


def test_a_run_alone_ends_when_it_has_caught_up(
    runs: Runs, copied: Copied, source: KafkaNode, topic: str
) -> None:
    """As with ``coordination.mode: exclusive``; the next one copies what has come since."""
    copied.write()
    written = sum(end_offsets(source, topic).values())
    for _ in range(2):
        run = runs.start(until_caught_up=True)
        finished = run.ended.result(TIMEOUT)
        assert finished.caught_up and not finished.faults
        assert finished.records <= written
        copied.prove()
        copied.write()
    assert runs.start(until_caught_up=True).ended.result(TIMEOUT).caught_up
    copied.prove()


def stopped_in(run: ThreadRun, number: int) -> bool:
    stopped = {event.fault.source for event in run.events if isinstance(event, Stopped)}
    return len(stopped) >= number


@pytest.mark.slow
def test_topics_that_are_deleted_are_not_awaited(
    config: PipelineConfig, runs: Runs, source: KafkaNode, target: KafkaNode
) -> None:
    """In slots of another run that cannot copy them; this one ends, and names all of them."""
    stem, gone = unique_name("deleted"), dict[int, str]()
    for number in range(100):
        name = f"{stem}-{number}"
        gone.setdefault(shared_slot_of(SourcePartition(name, 0), SLOTS), name)
    for name in gone.values():
        create_topic(source, name)
        create_topic(target, name, config={"max.message.bytes": "2000"})
        produce(source, name, [random.Random(1).randbytes(10_000)])
    tree = config.model_dump(mode="json", by_alias=True, exclude_unset=True)
    tree["replication"]["source"]["topic"] = f"{stem}-.*"
    runs.config = PipelineConfig.model_validate(tree)
    other = runs.start()
    runs.expect_owning(other)
    ending = runs.start(until_caught_up=True)
    runs.expect_owning(other, ending)
    for run in (other, ending):
        is_stopped = partial(stopped_in, run, len(gone) // 2)
        eventually(is_stopped, "its partitions are stopped")
    for name in gone.values():
        delete_topic(source, name)
    finished = ending.ended.result(TIMEOUT)
    assert not finished.caught_up
    assert {fault.source.topic for fault in finished.faults} == set(gone.values())


@pytest.mark.parametrize("policy", ["continue", "fail"])
def test_a_topic_that_was_created_again_is_not_caught_up_before_it_is_copied(
    runs: Runs, copied: Copied, source: KafkaNode, topic: str, policy: str
) -> None:
    """The positions and owners of the run before are still there when the next one starts."""
    copied.write()
    assert runs.start(until_caught_up=True).ended.result(TIMEOUT).caught_up
    delete_topic(source, topic)
    create_topic(source, topic, PARTITIONS)
    again = [Out(b"again %d" % number, None, number % PARTITIONS) for number in range(50)]
    produce(source, topic, again)
    runs.config = runs.config.model_copy(update={"on_source_data_loss": policy})
    finished = runs.start(until_caught_up=True).ended.result(TIMEOUT)
    if policy == "continue":
        assert finished.caught_up and finished.records == len(again)
    else:
        assert not finished.caught_up and not finished.records
        assert {fault.source.topic for fault in finished.faults} == {topic}


def test_a_run_takes_no_part_if_its_records_cannot_be_read(
    runs: Runs, config: PipelineConfig, target: KafkaNode, topic: str
) -> None:
    """One that shares the pipeline already continues."""
    first = runs.start()
    runs.expect_owning(first)
    group = config.coordination.commit.group
    damaged = Out(b"{}", position_key(group, SourcePartition(topic, 0)))
    produce(target, config.coordination.commit.topic, [damaged])
    with pytest.raises(UnreadableRecords, match="1 record of this pipeline"):
        runs.start().ended.result(TIMEOUT)
    assert not first.ended.done()


def test_a_run_ends_when_others_have_caught_up_too_and_hands_its_slots_over(
    runs: Runs, copied: Copied
) -> None:
    """Also several that do so at once, while more is written: none waits for another forever."""
    copied.write()
    stays = runs.start()
    runs.expect_owning(stays)
    ending = [runs.start(until_caught_up=True) for _ in range(2)]
    while not all(run.ended.done() for run in ending):
        assert not stays.ended.done()
        copied.write()
        for run in ending:
            run.stopping.wait(0.2)
    assert [run.ended.result().caught_up for run in ending] == [True, True]
    runs.expect_owning(stays)
    copied.prove()
    assert not stays.stop().caught_up


def test_heartbeats_show_what_each_run_copies(runs: Runs, copied: Copied) -> None:
    first = runs.start()
    runs.expect_owning(first)

    def starts() -> list[int]:
        return [event.slots for event in first.events if isinstance(event, Started)]

    # A run reports a slot when it has taken it over, after it owns it.
    eventually(lambda: SLOTS in starts(), "a start of all slots")
    assert starts()[0] == 1
    second = runs.start()
    runs.expect_owning(first, second)
    names = {run.heartbeat.runner for run in runs.all}

    def shown() -> bool:
        store = StateStore(runs.config, target_cluster(runs.config))
        try:
            shown_runners = [runner for runner in store.read().runners if runner.runner in names]
        except (ConnectionFailed, TimedOut):
            return False
        finally:
            store.close()
        return (
            [runner.state for runner in shown_runners] == [RunnerState.RUNNING] * 2
            and [runner.slots for runner in shown_runners] == [2, 2]
            and len({runner.term for runner in shown_runners}) == 1
        )

    eventually(shown, "two slots each, of one layout")


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

        def read() -> list[Runner]:
            return [heartbeat for heartbeat in store.read().runners if heartbeat.runner == runner]

        (beat,) = eventually(read, "its heartbeat is visible")
    finally:
        store.close()
        log.close()
    for record in (beat, fold.members[runner]):
        process = record.pid, record.pid_space, record.birth
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
        grow_topic(source, topic, PARTITIONS + 2)
        new = [Out(b"%d" % n, partition=PARTITIONS + n % 2) for n in range(50)]
        produce(source, topic, new)
        second = runs.start()
        runs.expect_owning(first, second)
        copied.prove(Expected(topic, start=start))
