"""Killed at any step and at any time, a pipeline loses nothing and doubles nothing."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from k2ktui.config.model import Spark
from k2ktui.replication.spark import LapLost, SparkRuntime
from k2ktui.runtime.node import KafkaNode
from tests.replication.conftest import MakePipeline
from tests.support.kafka import create_topic
from tests.support.pipeline import Pipeline
from tests.support.traffic import Traffic
from tests.support.verifiable import VerifiableProducer, consume

WORKER_STEPS = ("joined", "sent", "before-state", "before-commit", "after-commit", "lap-over")
DRIVER_STEPS = ("fenced", "recorded", "begun", "token", "recovering")

proof = pytest.mark.proof
pytestmark = proof


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=proof) for n in range(1, 8))])
def test_workers_killed_at_every_step(
    pipeline: Pipeline, topics: dict[str, int], seed: int
) -> None:
    steps = random.Random(seed).sample(WORKER_STEPS, len(WORKER_STEPS))
    with Traffic(pipeline.source, topics, seed) as traffic:
        run = pipeline.start()
        run.expect("firstrecord")
        for step in steps:
            pipeline.arm(step)
            pipeline.await_hit(step)
        pipeline.await_copying()
    assert run.stop() == 0
    run.await_gone()
    pipeline.catch_up()
    pipeline.prove(traffic.sent // 3)


@pytest.mark.parametrize("step", DRIVER_STEPS)
def test_driver_killed_at_every_step(pipeline: Pipeline, topics: dict[str, int], step: str) -> None:
    with Traffic(pipeline.source, topics, DRIVER_STEPS.index(step)):
        run = pipeline.start()
        run.expect("firstrecord")
        if step == "recovering":
            pipeline.arm(step)
            pipeline.arm("before-commit")
        elif step == "token":
            pipeline.arm(step)
        else:
            run.signal(signal.SIGKILL)
            run.await_gone()
            pipeline.arm(step)
            run = pipeline.start()
        assert run.wait() == -signal.SIGKILL
        run.await_gone()
    pipeline.catch_up()
    pipeline.prove()


def test_all_killed_with_a_transaction_open(pipeline: Pipeline, topics: dict[str, int]) -> None:
    """The positions are behind an open transaction that only the next driver can end."""
    pipeline.settings = {"spark.lap": "30 seconds"}
    with Traffic(pipeline.source, topics, 1):
        run = pipeline.start()
        run.expect("started")
        pipeline.await_copying()
        run.signal(signal.SIGSTOP)  # or it would fence the slot at once
        pipeline.arm("before-commit")
        pipeline.await_hit("before-commit")
        run.signal(signal.SIGKILL)
    run.wait()
    run.await_gone()
    began = time.monotonic()
    pipeline.catch_up()
    assert time.monotonic() - began < 40, "it waited until the transaction timed out"
    pipeline.prove()


@pytest.mark.parametrize("seed", range(10))
def test_any_process_killed_at_any_time(
    pipeline: Pipeline, topics: dict[str, int], seed: int
) -> None:
    dice = random.Random(seed)
    with Traffic(pipeline.source, topics, seed):
        for _ in range(3):
            run = pipeline.start()
            if dice.random() < 0.8:
                run.expect("firstrecord")
            for _ in range(dice.randrange(3)):
                time.sleep(dice.uniform(0, 2))
                # The driver too, as long as it is alone.
                alive = run.processes()
                others = [process for process in alive if process.pid != run.pid]
                for victim in dice.sample(others or alive, min(1, len(alive))):
                    kill(victim)
            time.sleep(dice.uniform(0, 2))
            run.signal(signal.SIGKILL)
            run.wait()
            run.await_gone()
    pipeline.catch_up()
    pipeline.prove()


def kill(process: Any) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGKILL)


def test_spark_killed(pipeline: Pipeline, topics: dict[str, int]) -> None:
    """The driver starts Spark's Java process again, and says so without a traceback."""
    with Traffic(pipeline.source, topics, 2):
        run = pipeline.start()
        run.expect("firstrecord")
        for _ in range(2):
            kill(run.java())
            run.expect("note", lambda event: "Java" in event["text"])
            pipeline.await_copying()
    assert run.stop() == 0
    assert run.err.read_text() == ""
    run.await_gone()
    pipeline.catch_up()
    pipeline.prove()


def test_a_lost_worker_is_told_in_one_line(pipeline: Pipeline, topics: dict[str, int]) -> None:
    with Traffic(pipeline.source, topics, 3):
        run = pipeline.start()
        run.expect("firstrecord")
        pipeline.arm("before-commit")
        told = run.expect("note")["text"]
    assert "Python worker exited unexpectedly (crashed)" in told
    assert run.stop() == 0
    assert run.err.read_text() == ""


class _FakeContext:
    """Runs a job's only task here."""

    def setJobGroup(self, *_: Any, **__: Any) -> None:
        pass

    def parallelize(self, indexes: Sequence[int], _: int) -> _FakeContext:
        self._indexes = indexes
        return self

    def mapPartitions(self, task: Any) -> _FakeContext:
        self._task = task
        return self

    def collect(self) -> list[Any]:
        return list(self._task(iter(self._indexes)))


class _SecondAttempt:
    def attemptNumber(self) -> int:
        return 1


def test_a_task_that_spark_repeats_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its token is spent, whatever the first attempt came to."""
    from pyspark import TaskContext

    ran: list[Any] = []
    monkeypatch.setattr("k2ktui.replication.spark.run_slot", lambda *args: ran.append(args))
    monkeypatch.setattr(TaskContext, "get", lambda: _SecondAttempt())
    spark = SparkRuntime(Spark(), "test", {}, {})
    spark._context = _FakeContext()
    with pytest.raises(LapLost, match="one attempt only"):
        spark.submit([None]).result()  # type: ignore[list-item]
    assert ran == []


def test_kafkas_own_tools_agree(
    make_pipeline: MakePipeline, source: KafkaNode, target: KafkaNode, tmp_path: Path
) -> None:
    """What their producer had acknowledged is what their consumer reads, with kills in between."""
    topic = create_topic(source, partitions=3)
    pipeline = make_pipeline([topic])
    producer = VerifiableProducer(source, topic, tmp_path, throughput=500)
    for _ in range(2):
        run = pipeline.start()
        run.expect("firstrecord")
        for step in ("before-commit", "sent"):
            pipeline.arm(step)
            pipeline.await_hit(step)
        run.signal(signal.SIGKILL)
        run.wait()
        run.await_gone()
    acknowledged = producer.stop()
    pipeline.catch_up()
    pipeline.prove(5000)
    assert consume(target, topic, tmp_path) == acknowledged
