"""A target partition takes no writes while the open transaction of its slot contains it.

It stops alone: the other partitions of the slot continue, in this run and in the next one, and it
resumes by itself when it is back.
"""

from __future__ import annotations

import random
import signal
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.brokers import Brokers, TwoBrokers
from tests.support.clusters.kafka import (
    create_topic,
    end_offsets,
    eventually,
    produce,
    read_all,
    unique_name,
)
from tests.support.pipelines.fixtures import MakePipeline
from tests.support.pipelines.kills import NO_TIMEOUT
from tests.support.pipelines.pipeline import Event, Pipeline, Run
from tests.support.records.traffic import Traffic

pytestmark = pytest.mark.proof

_HEALTHY = 3
STATE_TOPIC = "__k2k_state"


@dataclass(frozen=True)
class Outage:
    """How a partition stops taking writes once broker 2 is gone.

    Attributes:
        kind: of the brokers.
        replicas: of the partition.
        in_sync: its topic's ``min.insync.replicas``.
    """

    kind: str
    replicas: tuple[int, ...]
    in_sync: int

    def __str__(self) -> str:
        what = "no leader" if len(self.replicas) == 1 else "too few replicas"
        return f"{self.kind} with {what}"


# A coordinator of 4.3.1 or 4.4.0 ends a transaction without the marker of a partition that has no
# leader (KAFKA-20734), so there is nothing to wait for.
OUTAGES = (
    Outage("3.9", (2,), 1),
    Outage("4-tv2", (1, 2), 2),
    Outage("3.9", (1, 2), 2),
)
ABORTED, COMMITTED = "joined", "before-commit"


@dataclass
class Scene:
    """A pipeline to two brokers, one of its partitions needing the second."""

    pipeline: Pipeline
    two: TwoBrokers
    blocked: str
    healthy: str

    @property
    def traffic(self) -> Traffic:
        return Traffic(self.pipeline.source, {self.blocked: 1, self.healthy: _HEALTHY}, 1)

    def break_at(self, run: Run, step: str) -> None:
        """Stop broker 2 while a transaction that contains the partition is at a step."""
        produce(self.pipeline.source, self.blocked, [b"before"])
        eventually(lambda: self._ends(self.blocked)[0], "copied")
        self.pipeline.arm(step, signal.SIGSTOP)
        produce(self.pipeline.source, self.blocked, [b"during"])
        self.pipeline.await_hit(step)
        (worker,) = eventually(run.suspended, "suspended")
        self.two.stop_second()
        worker.resume()

    def await_stopped(self, run: Run, since: int = 0) -> Event:
        """Wait until the partition is reported as unavailable, and no other one is."""
        run.expect("stopped", since=since)
        reported = [e for e in run.events()[since:] if e["event"] == "stopped"]
        assert len(reported) == 1, run.tail(100)
        (stopped,) = reported
        assert stopped["fault"]["source"] == {"topic": self.blocked, "partition": 0}
        assert stopped["fault"]["kind"] == "unavailable"
        return stopped

    def await_resumed(self, run: Run, since: int = 0) -> None:
        """Wait until the partition is reported as taking writes again."""
        run.expect("resumed", lambda event: event["topic"] == self.blocked, since=since)

    def await_copied(self) -> None:
        """Wait until the target has all that the source holds now."""
        topics = (self.blocked, self.healthy)
        eventually(lambda: all(map(self.pipeline.is_caught_up, topics)), "all is copied")

    def _ends(self, topic: str) -> dict[int, int]:
        return end_offsets(self.two.first, topic, "read_committed")

    def await_heartbeat(self) -> None:
        """Wait until the run's heartbeat, which ``watch`` and the console show, has the reason."""

        def reported() -> bool:
            values = (record.value or b"" for record in read_all(self.two.first, STATE_TOPIC))
            return any(
                f"{self.blocked}-0 on the target accepts no writes" in str(v) for v in values
            )

        eventually(reported, "the heartbeat has the reason")


def await_growth(two: TwoBrokers, topic: str) -> None:
    """Wait until each partition of a topic has grown."""

    def ends() -> dict[int, int]:
        return end_offsets(two.first, topic, "read_committed")

    for _ in range(2):  # what is visible next may have been written before
        before = ends()

        def grown(before: dict[int, int] = before) -> bool:
            return all(end > before[number] for number, end in ends().items())

        eventually(grown, f"{topic} grows")


@pytest.fixture
def scene(
    make_pipeline: MakePipeline, source: KafkaNode, brokers: Brokers, outage: Outage
) -> Iterator[Scene]:
    two = brokers.two_of(outage.kind)
    blocked, healthy = create_topic(source), create_topic(source, partitions=_HEALTHY)
    config = {"min.insync.replicas": str(outage.in_sync)}
    create_topic(two, blocked, replicas=[list(outage.replicas)], config=config)
    create_topic(two, healthy, replicas=[[1, 2]] * _HEALTHY)
    settings = {"topicCreation.control.common": {"replication": 2}, "spark.slots": 1}
    # A task is suspended until the broker has gone, which may take a minute.
    pipeline = make_pipeline([blocked, healthy], settings | NO_TIMEOUT, two)
    # With a coordinator that dies, a commit that was asked for may become an abort.
    while not two.coordinates_first(f"{pipeline.name}.0"):
        pipeline.name = unique_name("pipe")
    yield Scene(pipeline, two, blocked, healthy)
    two.start()


def outlast(scene: Scene, run: Run, step: str) -> None:
    """Let a run go on through an outage, until all is copied."""
    reported = run.reported
    scene.break_at(run, step)
    with scene.traffic:
        scene.await_stopped(run, reported)
        await_growth(scene.two, scene.healthy)
        scene.await_heartbeat()
        scene.two.start()
        scene.await_resumed(run, reported)
        await_growth(scene.two, scene.healthy)
    scene.await_copied()


@pytest.mark.rotate("outage", OUTAGES, ids=str)
def test_the_others_continue(scene: Scene) -> None:
    """After an abort and after a commit: in this run, and in a new one.

    After a commit, all partitions of the new one wait until the transaction has ended: a task of
    the old run may begin another one after it. After an abort none of its tasks can write.
    """
    run = scene.pipeline.start()
    run.expect("started")
    for step in (ABORTED, COMMITTED):
        outlast(scene, run, step)
    run = replaced(scene, run, ABORTED)
    with scene.traffic:
        scene.await_stopped(run)
        await_growth(scene.two, scene.healthy)
        scene.two.start()
        scene.await_resumed(run)
    scene.await_copied()
    run = replaced(scene, run, COMMITTED)
    with scene.traffic:
        note = run.expect("note", lambda event: "cannot end" in event["text"])
        assert scene.blocked in note["text"]
        assert run.running
        scene.two.start()
        run.expect("started")
        await_growth(scene.two, scene.healthy)
    scene.pipeline.end(run)
    scene.pipeline.prove()


def replaced(scene: Scene, run: Run, step: str) -> Run:
    """Kill the driver of a run that meets an outage at a step, and start another run."""
    reported = run.reported
    scene.break_at(run, step)
    with scene.traffic:
        scene.await_stopped(run, reported)
    run.signal(signal.SIGKILL)
    run.wait()
    return scene.pipeline.start()


@pytest.mark.rotate("kills_driver,seed", [(True, 0), (False, 1)])
def test_at_any_time(
    make_pipeline: MakePipeline, source: KafkaNode, brokers: Brokers, kills_driver: bool, seed: int
) -> None:
    """Broker 2 is killed under traffic through two slots; the driver is, too, while it is away."""
    dice, two = random.Random(seed), brokers.two_of("3.9")
    away, topic = create_topic(source), create_topic(source, partitions=3)
    create_topic(two, away, replicas=[[2]])
    create_topic(two, topic, replicas=[[1, 2], [1, 2], [2, 1]])
    settings = {"topicCreation.control.common": {"replication": 2}, "spark.slots": 2}
    pipeline = make_pipeline([away, topic], settings, two)

    try:
        with Traffic(source, {away: 1, topic: 3}, seed, pause=0.01):
            run = pipeline.start()
            run.expect("firstrecord")
            eventually(lambda: dice.random() < 0.02, "some time has passed")
            two.stop_second()
            stopped = run.expect("stopped")
            assert stopped["fault"]["source"]["topic"] == away
            await_growth(two, topic)
            if kills_driver:
                run.signal(signal.SIGKILL)
                run.wait()
                run = pipeline.start()
            reported = run.reported
            two.start()
            run.expect(
                "progress", lambda event: not event["stopped"] and event["records"], since=reported
            )
        pipeline.end(run)
        pipeline.prove()
    finally:
        two.start()
