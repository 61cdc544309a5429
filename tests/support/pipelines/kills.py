"""Processes that are killed or suspended at chosen steps while a pipeline copies."""

from __future__ import annotations

import contextlib
import random
import signal
from collections.abc import Sequence

import psutil
from kafka.admin import KafkaAdminClient

from tests.support.clusters.kafka import eventually
from tests.support.pipelines.pipeline import START_TIMEOUT, Event, Pipeline, Run
from tests.support.records.traffic import Traffic

WORKER_STEPS = ("joined", "sent", "before-state", "before-commit", "after-commit", "lap-over")
SUPERSEDED = 5
# Longer than a task of a busy machine takes, from its first record to its commit.
TIMEOUT_S = 10
# Longer than anyone waits in a test: what is open is aborted by bumps only.
NO_TIMEOUT = {"target.kafka.producer": {"transaction.timeout.ms": 600_000}}


def copy_despite_kills(pipeline: Pipeline, topics: dict[str, int], seed: int) -> int:
    """Write and copy while a worker is killed at every step, in random order, then catch up.

    Args:
        pipeline: the pipeline.
        topics: number of partitions of each topic.
        seed: of the traffic and the order.

    Returns:
        How many records were sent.
    """
    with Traffic(pipeline.source, topics, seed, prefixes=pipeline.prefixes) as traffic:
        run = pipeline.start()
        run.expect("firstrecord")
        kill_workers(pipeline, seed)
    pipeline.end(run)
    return traffic.sent


def kill_workers(pipeline: Pipeline, seed: int) -> None:
    """Kill a worker of what runs at every step, in random order."""
    for step in random.Random(seed).sample(WORKER_STEPS, len(WORKER_STEPS)):
        pipeline.arm(step)
        pipeline.await_hit(step)
    pipeline.await_copying()


def kill_driver_at(pipeline: Pipeline, step: str) -> None:
    """Start a pipeline, and let its driver be killed at a step: of its start, or when it copies."""
    if step != "recovering":
        pipeline.arm(step)
        expect_killed(pipeline, pipeline.start())
        return
    run = pipeline.start()
    run.expect("firstrecord")
    expect_killed(pipeline, run, step, "before-commit")


def expect_killed(pipeline: Pipeline, run: Run, *steps: str) -> None:
    """Wait until a driver is killed at one of these steps, and nothing of its run is left."""
    for step in steps:
        pipeline.arm(step)
    assert run.wait() == -signal.SIGKILL, run.tail()
    run.await_gone()


def suspend_tasks(pipeline: Pipeline, run: Run, steps: Sequence[str]) -> None:
    """Suspend a task at each step for longer than ``TIMEOUT_S``; awake again, it writes nothing.

    The pipeline's transactions have that time-out.
    """
    for step in steps:
        reported = run.reported
        task = pipeline.suspend_at(step, run)
        await_timed_out(pipeline)
        task.resume()
        if step != "after-commit":  # then it had none open
            run.expect("note", since=reported)
        pipeline.await_copying()


def await_timed_out(pipeline: Pipeline) -> None:
    """Wait until what a pipeline has open now has ended: a task that stands still has timed out."""
    client = KafkaAdminClient(bootstrap_servers=pipeline.target.bootstrap)

    def opened() -> set[tuple[str, int]]:
        """Return the transactional ids with open transactions, and when these began."""
        listed = client.list_transactions(state_filters=["Ongoing"]).values()
        names = [one.transactional_id for broker in listed for one in broker]
        own = [name for name in names if name.startswith(f"{pipeline.name}.")]
        return {
            (name, transaction.transaction_start_time_ms)
            for name, transaction in client.describe_transactions(own).items()
            if transaction.state == "Ongoing"
        }

    try:
        before = opened()
        eventually(lambda: not before & opened(), "open transactions have timed out")
    finally:
        client.close()


def suspend_host(pipeline: Pipeline, run: Run, step: str) -> Run:
    """Suspend all of a run at a step, let another one take over, and return that."""
    pipeline.arm(step, signal.SIGSTOP)
    pipeline.await_hit(step)
    return take_over(pipeline, run)


def take_over(pipeline: Pipeline, run: Run) -> Run:
    """Suspend all of a run, let another one take over, and return that.

    The first one wakes up, and finds every token taken.
    """
    tell_all(run, signal.SIGSTOP)
    other = pipeline.start()
    other.expect("firstrecord")
    pipeline.await_copying()
    tell_all(run, signal.SIGCONT)
    assert run.wait() == SUPERSEDED
    run.await_gone()
    pipeline.await_copying()
    return other


def tell_all(run: Run, number: int) -> None:
    """Send a signal to every process of a run."""
    for process in run.processes():
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(number)


def kill_java(pipeline: Pipeline, run: Run) -> None:
    """Kill Spark's Java process, and wait until the run has said so and copies again."""
    reported = run.reported
    run.java().kill()
    run.expect("note", spark_has_ended, since=reported)
    reported = run.reported
    # The first of these may tell of laps before.
    eventually(lambda: laps_with_records(run, reported) > 1, "it continues", 360)


def laps_with_records(run: Run, since: int) -> int:
    """Return how many laps have copied records."""
    return sum(1 for event in run.events()[since:] if event.get("records"))


def spark_has_ended(event: Event) -> bool:
    """Whether a note says that Spark has ended and is started again."""
    return "Spark (local[2]) stopped and is being restarted" in event["text"]


# Spark starts four times, and plans what a pipeline transforms each time.
SURVIVE_ALL_TIMEOUT_S = 6 * START_TIMEOUT


def survive_all(pipeline: Pipeline, topics: dict[str, int], seed: int) -> int:
    """Write and copy while workers, a driver and Spark die, a task and a host are suspended.

    Args:
        pipeline: the pipeline, which several runs may share.
        topics: number of partitions of each topic.
        seed: of the traffic and the order of steps.

    Returns:
        How many records were sent.
    """
    settings, times_out = pipeline.settings, {"transaction.timeout.ms": TIMEOUT_S * 1000}
    with Traffic(pipeline.source, topics, seed, prefixes=pipeline.prefixes) as traffic:
        run = pipeline.start()
        run.expect("firstrecord")
        kill_workers(pipeline, seed)
        kill_java(pipeline, run)
        expect_killed(pipeline, run, "token")

        pipeline.settings = {**settings, "target.kafka.producer": times_out}
        pipeline.mode = "exclusive"  # the next takes over at once
        run = pipeline.start()
        run.expect("firstrecord")
        suspend_tasks(pipeline, run, ["before-commit"])
        run = suspend_host(pipeline, run, "before-commit")
    pipeline.end(run)
    return traffic.sent
