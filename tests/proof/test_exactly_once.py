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

from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import create_topic, eventually
from tests.support.pipelines.fixtures import MakePipeline
from tests.support.pipelines.kills import copy_despite_kills
from tests.support.pipelines.pipeline import START_TIMEOUT, Event, Pipeline, Run
from tests.support.records.batches import StoredBatch, stored_batches
from tests.support.records.traffic import CODECS, Traffic
from tests.support.records.verifiable import VerifiableProducer, consume

DRIVER_STEPS = ("fenced", "recorded", "begun", "token", "recovering")

pytestmark = pytest.mark.proof


@pytest.fixture(params=["shared", "exclusive"])
def mode(request: pytest.FixtureRequest) -> str:
    """A driver for each slot, as is the default, or one for all of them.

    A test says which one with ``in_mode`` where only the driver, or only a task, is tried.
    """
    return str(request.param)


def in_mode(mode: str) -> pytest.MarkDecorator:
    """Run a test with one mode only."""
    return pytest.mark.parametrize("mode", [mode])


@pytest.fixture
def pipeline(make_pipeline: MakePipeline, topics: dict[str, int], mode: str) -> Pipeline:
    return make_pipeline(list(topics), {"coordination.mode": mode})


@pytest.mark.seeds(2)
def test_workers_killed_at_every_step(
    pipeline: Pipeline, topics: dict[str, int], seed: int
) -> None:
    sent = copy_despite_kills(pipeline, topics, seed)
    pipeline.prove(sent // 3)


DEFAULT_SIZE = {"batch_size": 16 << 10, "linger_ms": 20}
TINY = {"batch_num_messages": 3, "linger_ms": 20}


@pytest.mark.parametrize(
    ("codec", "batches", "mode"),
    [
        pytest.param("none", TINY, "exclusive", id="none-tiny"),
        pytest.param("lz4", DEFAULT_SIZE, "shared", id="lz4-16k"),
        pytest.param("zstd", DEFAULT_SIZE, "exclusive", id="zstd-16k"),
        pytest.param("gzip", TINY, "shared", id="gzip-tiny"),
        pytest.param("snappy", TINY, "exclusive", id="snappy-tiny"),
    ],
)
def test_workers_killed_at_every_step_with_small_batches(
    pipeline: Pipeline, topics: dict[str, int], codec: str, batches: dict[str, Any]
) -> None:
    """Runs of them are decoded in one pass, and written as one batch.

    That is a task's work, the same in both modes: each codec is tried with one of them.
    """
    settings = {**batches, "compression_type": codec}
    sent = copy_despite_kills(pipeline, topics, CODECS.index(codec), settings)
    pipeline.prove(sent // 3)
    copied, written = (_data(node, topics) for node in (pipeline.source, pipeline.target))
    # The client leaves a batch as it is if compression makes it larger.
    assert CODECS.index(codec) in {b.codec for b in copied} & {b.codec for b in written}
    assert len(written) < len(copied) / 2, "they are merged"


def _data(node: KafkaNode, topics: dict[str, int]) -> list[StoredBatch]:
    places = [(topic, at) for topic, count in topics.items() for at in range(count)]
    return [b for place in places for b in stored_batches(node, *place) if not b.control]


# Each step takes two starts, but the last two: the first one copies something first.
@pytest.mark.timeout(8 * START_TIMEOUT + 180)
def test_driver_killed_at_every_step(
    pipeline: Pipeline, topics: dict[str, int], steps: Sequence[str] = DRIVER_STEPS
) -> None:
    """One after the other in one pipeline: each run meets what the one before it left."""
    with Traffic(pipeline.source, topics, 0, prefixes=pipeline.prefixes):
        for step in steps:
            kill_driver_at(pipeline, step)
    pipeline.catch_up()
    pipeline.prove()


def kill_driver_at(pipeline: Pipeline, step: str) -> None:
    """Start a pipeline, and let its driver be killed at a step."""
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


def test_all_killed_with_a_transaction_open(pipeline: Pipeline, topics: dict[str, int]) -> None:
    """The positions are behind an open transaction that only the next driver can end."""
    timeout = {"transaction.timeout.ms": 600_000}  # longer than anyone waits here
    settings = {"spark.lap": "30 seconds", "target.kafka.producer": timeout}
    pipeline.settings = {**pipeline.settings, **settings}
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
    pipeline.catch_up()
    pipeline.prove()


def test_two_workers_killed_with_their_transactions_open(
    pipeline: Pipeline, topics: dict[str, int]
) -> None:
    """The recovery of a slot does not wait for the transaction of the other lost task."""
    timeout = {"transaction.timeout.ms": 600_000}  # longer than anyone waits here
    pipeline.settings = {
        **pipeline.settings,
        "target.kafka.producer": timeout,
        "coordination.commit.syncTimeout": "10 minutes",
    }
    with Traffic(pipeline.source, topics, 5):
        run = pipeline.start()
        run.expect("firstrecord")
        pipeline.arm("before-commit", signal.SIGSTOP)
        (suspended,) = eventually(run.suspended, "a worker is suspended", START_TIMEOUT)
        pipeline.arm("before-commit")
        pipeline.await_hit("before-commit")
        suspended.kill()
        pipeline.await_copying()
    pipeline.end(run)
    pipeline.prove()


# Four starts of Spark, each within the time that `expect` and `wait` allow for one.
@pytest.mark.timeout(4 * START_TIMEOUT + 180)
@pytest.mark.seeds(2)
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


def laps_with_records(run: Run, since: int) -> int:
    return sum(1 for event in run.events()[since:] if event.get("records"))


def await_laps(run: Run, since: int) -> None:
    eventually(lambda: laps_with_records(run, since) > 1, "it continues")


def spark_has_ended(event: Event) -> bool:
    return "Spark (local[2]) stopped and is being restarted" in event["text"]


@in_mode("shared")
def test_spark_killed(pipeline: Pipeline, topics: dict[str, int]) -> None:
    """The driver starts Spark's Java process again, and reports it without a traceback."""
    with Traffic(pipeline.source, topics, 2):
        run = pipeline.start()
        run.expect("firstrecord")
        for _ in range(2):
            reported = run.reported
            kill(run.java())
            run.expect("note", spark_has_ended, since=reported)
            reported = run.reported
            # The first of these may tell of laps before.
            await_laps(run, reported)
    pipeline.end(run)
    assert run.err.read_text() == ""
    pipeline.prove()


def test_spark_killed_between_two_laps(make_pipeline: MakePipeline, source: KafkaNode) -> None:
    """No lap fails because of it; the driver reports it nevertheless."""
    topic = create_topic(source)
    pipeline = make_pipeline([topic])
    pipeline.settings = {"spark.slots": 1}
    with Traffic(source, {topic: 1}, 4):
        run = pipeline.start()
        run.expect("firstrecord")
        pipeline.arm("token", signal.SIGSTOP)  # the driver is about to submit the only slot's lap
        (driver,) = eventually(run.suspended, "the driver is suspended")
        kill(run.java())
        reported = run.reported
        driver.resume()
        run.expect("note", spark_has_ended, since=reported)
        pipeline.await_copying()
    pipeline.end(run)
    assert run.err.read_text() == ""
    pipeline.prove()


@in_mode("shared")
def test_spark_killed_where_it_cannot_start_again(
    pipeline: Pipeline, topics: dict[str, int], tmp_path: Path
) -> None:
    """The run ends and says why; an operator can start it again, and nothing is lost."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with Traffic(pipeline.source, topics, 3):
        run = pipeline.start(env={"TMPDIR": str(scratch)})
        run.expect("firstrecord")
        scratch.rename(tmp_path / "elsewhere")
        kill(run.java())
        assert run.wait() == 1
    said = run.err.read_text()
    assert "Spark stopped and could not be restarted: Spark did not start" in said
    assert "Start the pipeline again" in said and "Traceback" not in said
    run.await_gone()
    pipeline.catch_up()
    pipeline.prove()


@in_mode("shared")
def test_a_lost_worker_is_reported_in_one_line(pipeline: Pipeline, topics: dict[str, int]) -> None:
    with Traffic(pipeline.source, topics, 3):
        run = pipeline.start()
        run.expect("firstrecord")
        before = run.reported
        pipeline.arm("before-commit")
        reported = run.expect("note", since=before)["text"]
    assert "Python worker exited unexpectedly (crashed)" in reported
    assert run.stop() == 0
    assert run.err.read_text() == ""


@in_mode("exclusive")
def test_a_task_that_spark_repeats_refuses(pipeline: Pipeline, topics: dict[str, int]) -> None:
    """Its token is spent, whatever the first attempt came to."""
    attempts = {"spark.master": "local[2,3]"}  # three attempts a task
    pipeline.settings = {**pipeline.settings, **attempts}
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
