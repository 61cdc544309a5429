"""The wait of a standby on a real target: for heartbeats, for a stop, and not against a drill."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

import pytest

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.drill.checks import DrillPhase
from k2ktui.engine.drill.model import Change, ChangeKind
from k2ktui.engine.moves.journal import RunnerState
from k2ktui.errors import Refused
from k2ktui.kafka.clients import target_cluster
from k2ktui.replication.driver.heartbeat import Heartbeat
from k2ktui.replication.reports import events
from k2ktui.replication.reports.events import Event, Note, report_text
from k2ktui.runtime.node import KafkaNode
from k2ktui.runtime.stop_flag import StopFlag
from k2ktui.sync.standby import StandbyWait, beat_interval_s
from k2ktui.sync.store import StateStore
from tests.support.clusters.kafka import TIMEOUT, eventually, unique_name
from tests.support.drill.made_drills import fencing
from tests.support.pipelines.preflight import pipeline, plain

GRACE_S = 6


@pytest.fixture
def config(source: KafkaNode, target: KafkaNode) -> PipelineConfig:
    return pipeline(
        plain(source.bootstrap),
        plain(target.bootstrap),
        "t",
        name=unique_name("standby"),
        coordination={
            "mode": "standby",
            "assignment": {"graceWindow": f"{GRACE_S} seconds"},
            "state": {"topic": unique_name("state")},
        },
        features={"autoCreateControlTopics": "enabled"},
        topicCreation={"control": {"common": {"replication": 1}}},
    )


class Waiting:
    """A standby on a thread of its own."""

    def __init__(
        self,
        config: PipelineConfig,
        pool: ThreadPoolExecutor,
        begin: Callable[[Heartbeat], None] = Heartbeat.start,
    ) -> None:
        self.notes: list[str] = []
        self.stopping = StopFlag()
        self.heart = heartbeat(config)
        self.heart.start = partial(begin, self.heart)  # type: ignore[method-assign]
        self._wait = StandbyWait(config, self.heart, self._report)
        self.result = pool.submit(self._wait.run, self.stopping)

    def _report(self, event: Event) -> None:
        assert isinstance(event, Note | events.Waiting)
        self.notes.append(report_text(event))


def heartbeat(config: PipelineConfig) -> Heartbeat:
    notes: list[str] = []
    return Heartbeat(config, time.time(), notes.append, beat_s=beat_interval_s(config))


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as pool:
        yield pool


def states(config: PipelineConfig) -> dict[str, RunnerState]:
    store = StateStore(config, target_cluster(config))
    try:
        return {runner.runner: runner.state for runner in store.read().runners}
    finally:
        store.close()


def test_heartbeats_fit_into_the_grace_window(config: PipelineConfig) -> None:
    assert beat_interval_s(config) == GRACE_S / 3
    exclusive = config.coordination.model_copy(update={"mode": "exclusive"})
    assert beat_interval_s(config.model_copy(update={"coordination": exclusive})) == 5


def test_it_waits_until_the_run_has_stopped(
    config: PipelineConfig, pool: ThreadPoolExecutor
) -> None:
    with ExitStack() as stack:
        works = stack.enter_context(heartbeat(config))
        works.status.add_driver().start(1, 2)
        eventually(lambda: states(config) == {works.runner: RunnerState.RUNNING}, "it works")
        standby = Waiting(config, pool)
        stack.callback(standby.heart.stop)
        stack.callback(standby.stopping.set)
        shown = {works.runner: RunnerState.RUNNING, standby.heart.runner: RunnerState.STANDBY}
        eventually(lambda: states(config) == shown, "both are seen")
        eventually(lambda: any("standby: waits for" in text for text in standby.notes), "noted")
        assert not standby.result.done()
        works.stop(TIMEOUT)
        assert standby.result.result(TIMEOUT) is True
        eventually(lambda: states(config)[standby.heart.runner] is RunnerState.STARTING, "its turn")


def test_it_waits_for_a_silent_run_as_long_as_the_grace_window(
    config: PipelineConfig, pool: ThreadPoolExecutor
) -> None:
    """A run that was killed: its last heartbeat says that it works, and never changes."""
    dead = heartbeat(config)
    dead.status.add_driver().start(1, 2)
    dead.work()
    dead.close()
    began = time.monotonic()
    standby = Waiting(config, pool)
    try:
        assert standby.result.result(TIMEOUT) is True
        assert time.monotonic() - began >= GRACE_S * 2 / 3
    finally:
        standby.heart.stop()


def test_of_several_one_is_next(config: PipelineConfig, pool: ThreadPoolExecutor) -> None:
    """Its turn shows in its heartbeats, so that the others wait for it.

    None looks before all have sent a heartbeat: of one that comes a moment later, and has a lower
    id, it could not know.
    """

    def begin(heart: Heartbeat) -> None:
        Heartbeat.start(heart)
        eventually(lambda: len(states(config)) == 3, "all have sent heartbeats")

    several = [Waiting(config, pool, begin) for _ in range(3)]
    try:
        eventually(lambda: any(standby.result.done() for standby in several), "one is next")
        before = [standby for standby in several if standby.result.done()]
        for standby in before:
            standby.heart.status.add_driver().start(1, 2)
        left = [standby for standby in several if standby not in before]
        assert left
        eventually(lambda: all(standby.notes for standby in left), "the others wait")
        assert not any(standby.result.done() for standby in left)
        for standby in before:
            standby.heart.stop(TIMEOUT)
        eventually(lambda: any(standby.result.done() for standby in left), "the next one")
    finally:
        for standby in several:
            standby.stopping.set()
            standby.heart.stop()


def test_a_stop_ends_the_wait(config: PipelineConfig, pool: ThreadPoolExecutor) -> None:
    with heartbeat(config) as works:
        works.status.add_driver().start(1, 2)
        eventually(lambda: works.runner in states(config), "it works")
        standby = Waiting(config, pool)
        eventually(lambda: standby.notes, "it waits")
        standby.stopping.set()
        assert standby.result.result(TIMEOUT) is False
        standby.heart.stop(TIMEOUT)
        assert states(config)[standby.heart.runner] is RunnerState.STOPPED


def test_a_drill_that_fences_the_pipeline_ends_the_standby(
    config: PipelineConfig, pool: ThreadPoolExecutor
) -> None:
    store = StateStore(config, target_cluster(config))
    with heartbeat(config) as works:
        works.status.add_driver().start(1, 2)
        eventually(lambda: works.runner in states(config), "it works")
        standby = Waiting(config, pool)
        eventually(lambda: standby.notes, "it waits")
        change = Change(DrillPhase.FENCE_REPLICATOR, ChangeKind.EPOCHS, "fence", "", "", "")
        store.put([replace(fencing(), changes=(change,))])
        with pytest.raises(Refused, match="was fenced by drill"):
            standby.result.result(TIMEOUT)
        standby.heart.stop()
    store.close()


def test_a_standby_that_may_not_send_heartbeats_ends(
    config: PipelineConfig, pool: ThreadPoolExecutor
) -> None:
    features = config.features.model_copy(update={"auto_create_control_topics": False})
    standby = Waiting(config.model_copy(update={"features": features}), pool)
    with pytest.raises(Refused, match="heartbeats, snapshots and the journal does not exist"):
        standby.result.result(TIMEOUT)
