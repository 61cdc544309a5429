"""Killed at any step and at any time, a pipeline loses nothing and doubles nothing."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.brokers import make_node
from tests.support.clusters.kafka import START_S, create_topic, eventually
from tests.support.pipelines.fixtures import MakePipeline
from tests.support.pipelines.kills import (
    NO_TIMEOUT,
    kill_driver_at,
    kill_workers,
    spark_has_ended,
)
from tests.support.pipelines.pipeline import START_TIMEOUT
from tests.support.records.batches import StoredBatch, stored_batches
from tests.support.records.traffic import CODECS, Traffic
from tests.support.records.verifiable import VerifiableProducer, consume

# Where a driver is killed when it starts; the other mode has the others, and the next time it has
# these. In each mode, one is killed that copies.
DRIVER_STEPS = {True: ("fenced", "begun"), False: ("recorded",)}
# A driver for each slot, as is the default, or one for all of them.
MODES = ("shared", "exclusive")

pytestmark = pytest.mark.proof


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> str:
    """How the runs of a pipeline divide it."""
    return str(request.param)


@pytest.fixture
def coordinator(
    target: KafkaNode, tmp_path: Path, mode: str, old: str
) -> Iterator[Callable[[], KafkaNode]]:
    """Return a function that returns a target: with transaction version 2, or of before Kafka 4.0.

    Each mode has one of them; ``old`` is the mode that has the older one.
    """
    node = make_node("3.9", "old", tmp_path / "old")
    yield lambda: node.start(START_S) if mode == old else target
    node.close()


@pytest.mark.timeout(8 * START_TIMEOUT)
@pytest.mark.rotate("old,seed", [("shared", 0), ("exclusive", 1)])
def test_workers_and_drivers_killed_at_every_step(
    make_pipeline: MakePipeline,
    source: KafkaNode,
    coordinator: Callable[[], KafkaNode],
    topics: dict[str, int],
    mode: str,
    old: str,
    seed: int,
) -> None:
    """One after the other in one pipeline: each run meets what the one before it left.

    Batches of every size and codec; runs of small ones are decoded in one pass, and merged.
    """
    node, small = coordinator(), {create_topic(source): codec for codec in CODECS}
    settings = {"coordination.mode": mode, **NO_TIMEOUT}
    waits = {"coordination.commit.syncTimeout": "10 minutes"}
    pipeline = make_pipeline([*topics, *small], settings | waits, node)
    with Traffic(source, topics, seed):
        with contextlib.ExitStack() as writing:
            for topic, codec in small.items():
                writing.enter_context(small_batches(source, topic, codec, seed))
            run = pipeline.start()
            run.expect("firstrecord")
            kill_workers(pipeline, seed)
            # The recovery of a slot does not wait for the transaction of another lost task.
            pipeline.arm("before-commit", signal.SIGSTOP)
            (suspended,) = eventually(run.suspended, "a worker is suspended", START_TIMEOUT)
            pipeline.arm("before-commit")
            pipeline.await_hit("before-commit")
            kill(suspended)
            pipeline.await_copying()
        # The positions are behind a transaction that only the next run can end.
        pipeline.suspend_at("before-commit", run)
        pipeline.arm("token")  # of a lap of the other slot
        assert run.wait() == -signal.SIGKILL, run.tail()
        run.close()
        pipeline.settings = settings
        for step in (*DRIVER_STEPS[mode == old], "recovering"):
            kill_driver_at(pipeline, step)
    pipeline.catch_up()
    pipeline.prove(5000)
    for topic, codec in small.items():
        expect_merged(source, node, topic, CODECS.index(codec))


def small_batches(source: KafkaNode, topic: str, codec: str, seed: int) -> Traffic:
    tiny = codec in ("none", "gzip", "snappy")
    size = {"batch_num_messages": 3} if tiny else {"batch_size": 16 << 10}
    settings = {**size, "linger_ms": 20, "compression_type": codec}
    compressible = [b"compressible " * 25]
    return Traffic(source, {topic: 1}, seed, pause=1.0, prefixes=compressible, batches=settings)


def expect_merged(source: KafkaNode, target: KafkaNode, topic: str, codec: int) -> None:
    copied, written = (_data(node, topic) for node in (source, target))
    # The client leaves a batch as it is if compression makes it larger.
    assert codec in {batch.codec for batch in copied} & {batch.codec for batch in written}
    assert len(written) < len(copied) / 2, "they are merged"


def _data(node: KafkaNode, topic: str) -> list[StoredBatch]:
    return [batch for batch in stored_batches(node, topic, 0) if not batch.control]


# Three starts of Spark, each within the time that `expect` and `wait` allow for one.
@pytest.mark.timeout(6 * START_TIMEOUT)
@pytest.mark.rotate("only_mode", MODES)
@pytest.mark.seeds(2)
def test_any_process_killed_at_any_time(
    make_pipeline: MakePipeline,
    source: KafkaNode,
    target: KafkaNode,
    topics: dict[str, int],
    tmp_path: Path,
    only_mode: str,
    seed: int,
) -> None:
    """Kafka's own tools agree: their consumer reads what their producer had acknowledged."""
    dice, numbers = random.Random(seed), create_topic(source, partitions=3)
    pipeline = make_pipeline([*topics, numbers], {"coordination.mode": only_mode})
    producer = VerifiableProducer(source, numbers, tmp_path, throughput=200)
    with Traffic(source, topics, seed):
        for _ in range(2):
            run = pipeline.start()
            if dice.random() < 0.8:
                run.expect("firstrecord")
            for _ in range(dice.randrange(1, 3)):
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
        acknowledged = producer.stop()
    pipeline.catch_up()
    pipeline.prove()
    assert consume(target, numbers, tmp_path) == acknowledged


def kill(process: Any) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGKILL)


# Spark starts four times.
@pytest.mark.timeout(6 * START_TIMEOUT)
def test_spark_killed(make_pipeline: MakePipeline, source: KafkaNode, tmp_path: Path) -> None:
    """The driver starts Spark's Java process again, and reports it without a traceback.

    A run that cannot start it again ends and says why; the next start goes on.
    """
    scratch, topic = tmp_path / "scratch", create_topic(source)
    scratch.mkdir()
    pipeline = make_pipeline([topic], {"coordination.mode": "shared", "spark.slots": 1})
    with Traffic(source, {topic: 1}, 2):
        run = pipeline.start(env={"TMPDIR": str(scratch)})
        run.expect("firstrecord")
        reported = run.reported
        pipeline.arm("before-commit")
        crashed = "Python worker exited unexpectedly (crashed)"
        run.expect("note", lambda event: crashed in event["text"], since=reported)
        pipeline.await_copying()

        # No lap fails because of it. In the matrix, laps run, with a transaction open.
        pipeline.arm("token", signal.SIGSTOP)  # the driver is about to submit the only slot's lap
        (driver,) = eventually(run.suspended, "the driver is suspended")
        kill(run.java())
        reported = run.reported
        driver.resume()
        run.expect("note", spark_has_ended, since=reported)
        pipeline.await_copying()
        assert run.err.read_text() == ""

        scratch.rename(tmp_path / "elsewhere")
        kill(run.java())
        assert run.wait() == 1
    said = run.err.read_text()
    assert "Spark stopped and could not be restarted: Spark did not start" in said
    assert "Start the pipeline again" in said and "Traceback" not in said
    run.await_gone()
    pipeline.catch_up()
    pipeline.prove()


def test_a_task_that_spark_repeats_refuses(
    make_pipeline: MakePipeline, topics: dict[str, int]
) -> None:
    """Its token is spent, whatever the first attempt came to."""
    attempts = {"spark.master": "local[2,3]"}  # three attempts a task
    pipeline = make_pipeline(list(topics), attempts)
    with Traffic(pipeline.source, topics, 4):
        run = pipeline.start()
        run.expect("firstrecord")
        for step in ("before-commit", "after-commit"):
            reported = run.reported
            pipeline.arm(step)
            run.expect("note", lambda event: "one attempt only" in event["text"], since=reported)
            pipeline.await_copying()
    pipeline.end(run)
    pipeline.prove()
