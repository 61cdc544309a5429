"""Runs that share a pipeline in the test's own process, and what they copy."""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial

from k2ktui.config.model import PipelineConfig
from k2ktui.kafka.clients import source_cluster, target_cluster
from k2ktui.kafka.control.topics import ensure_control_topics
from k2ktui.kafka.properties.translation import wire
from k2ktui.replication.driver.heartbeat import Heartbeat
from k2ktui.replication.driver.run_parts import RunParts
from k2ktui.replication.reports.events import Finished, Note, Report, Waiting, report_text
from k2ktui.replication.reports.status import PROGRESS_S, RunStatus
from k2ktui.runtime.node import KafkaNode
from k2ktui.runtime.stop_flag import StopFlag
from k2ktui.shared_runs import SharedRun
from k2ktui.sync.standby import beat_interval_s
from tests.support.clusters.kafka import TIMEOUT, eventually, produce
from tests.support.model.thread_laps import ThreadLaps
from tests.support.oracle.judge import Expected, prove
from tests.support.records.traffic import mixture

SLOTS, PARTITIONS = 4, 6


class ThreadRun:
    """One run, on a thread of its own."""

    def __init__(
        self,
        config: PipelineConfig,
        closing: ExitStack,
        pool: ThreadPoolExecutor,
        *,
        until_caught_up: bool = False,
        take_over: bool = False,
    ) -> None:
        self.events: list[Report] = []
        self.stopping = StopFlag()
        self.status = RunStatus(
            config.name,
            self.events.append,
            progress_s=PROGRESS_S,
            is_ending=self.stopping.is_set,
        )
        self.heartbeat = heartbeat(config, self.status)
        self.heartbeat.stand_by(waiting=True)
        closing.enter_context(self.heartbeat)
        options = wire(config.source, "consumer"), wire(config.target, "producer")
        self.laps = ThreadLaps(*options)
        closing.callback(self.laps.close)
        source, target = source_cluster(config), target_cluster(config)
        control = ensure_control_topics(config, target, {})
        parts = RunParts(
            config,
            source,
            target,
            options[1],
            control,
            self.laps,
            self.heartbeat,
            self.status,
            take_over=take_over,
            until_caught_up=until_caught_up,
        )
        self.ended: Future[Finished] = pool.submit(SharedRun(parts).run, SLOTS, self.stopping)

    @property
    def owns(self) -> int:
        """How many slots it said last that it owns."""
        assert not self.ended.done(), self.ended.exception()
        said = [text for text in self.texts if text.startswith(("note: shared by", "standby"))]
        owned = said[-1].partition(" owns ")[2] if said else ""
        return int(owned.split()[0]) if owned else 0

    @property
    def texts(self) -> list[str]:
        return [report_text(event) for event in self.events if isinstance(event, Note | Waiting)]

    def stop(self) -> Finished:
        self.stopping.set()
        return self.ended.result(TIMEOUT)


def heartbeat(config: PipelineConfig, status: RunStatus | None = None) -> Heartbeat:
    notes: list[str] = []
    return Heartbeat(config, time.time(), notes.append, status, beat_s=beat_interval_s(config))


class Runs:
    """All runs of a test."""

    def __init__(self, config: PipelineConfig, closing: ExitStack) -> None:
        self.config, self._closing = config, closing
        self._pool = ThreadPoolExecutor(16)
        closing.callback(self._pool.shutdown)
        self.all: list[ThreadRun] = []

    def start(self, **options: bool) -> ThreadRun:
        run = ThreadRun(self.config, self._closing, self._pool, **options)
        self.all.append(run)
        self._closing.callback(run.ended.exception, TIMEOUT)
        self._closing.callback(run.stopping.set)
        self._closing.callback(run.laps.answers.set)
        return run

    def expect_owning(self, *runs: ThreadRun) -> None:
        def is_even() -> bool:
            owned = sorted(run.owns for run in runs)
            return sum(owned) == SLOTS and owned[-1] - owned[0] <= 1

        eventually(is_even, lambda: "\n".join(t for r in runs for t in r.texts[-9:]))


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
        eventually(is_copied, lambda: wrong[-1])
