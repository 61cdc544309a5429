"""Nothing writes for a pipeline but its latest driver's latest tasks."""

from __future__ import annotations

import signal

import psutil
import pytest

from tests.support.clusters.kafka import eventually
from tests.support.pipelines.kills import (
    NO_TIMEOUT,
    SUPERSEDED,
    TIMEOUT_S,
    suspend_tasks,
    take_over,
)
from tests.support.pipelines.pipeline import START_TIMEOUT, Pipeline
from tests.support.records.traffic import Traffic

pytestmark = pytest.mark.proof
STEPS = ("joined", "sent", "before-commit", "after-commit")


@pytest.mark.timeout(6 * START_TIMEOUT)
def test_tasks_and_spark_are_suspended(pipeline: Pipeline, topics: dict[str, int]) -> None:
    """Awake again, with its transaction aborted, a task writes nothing; the driver continues.

    What nobody resumes is done without: its lap's deadline passes, another task continues.
    """
    timeout = {"transaction.timeout.ms": TIMEOUT_S * 1000}
    pipeline.settings = {"target.kafka.producer": timeout}
    with Traffic(pipeline.source, topics, 1):
        run = pipeline.start()
        run.expect("firstrecord")
        suspend_tasks(pipeline, run, [step for step in STEPS if step != "sent"])
        for what in ("worker", "java"):
            reported = run.reported
            stopped = pipeline.suspend_at("sent", run) if what == "worker" else run.java()
            stopped.suspend()
            run.expect("note", lambda e: "did not end within" in e["text"], since=reported)
            eventually(lambda: is_gone(stopped), "Spark has killed it")  # noqa: B023
            pipeline.await_copying()
    pipeline.end(run)
    pipeline.prove()


def is_gone(process: psutil.Process) -> bool:
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


@pytest.mark.timeout(8 * START_TIMEOUT)
@pytest.mark.seeds(2)
def test_others_take_over(pipeline: Pipeline, topics: dict[str, int], seed: int) -> None:
    """A whole machine that was suspended and wakes up finds every token taken.

    So does the one that took over from it, from two that start at once. Each slot of the machine
    stands still at another step.
    """
    slots = {"spark.master": f"local[{len(STEPS)}]", "spark.slots": len(STEPS)}
    pipeline.settings = slots | NO_TIMEOUT
    with Traffic(pipeline.source, topics, seed):
        run = pipeline.start()
        run.expect("firstrecord")
        for step in STEPS:
            pipeline.arm(step, signal.SIGSTOP)
        for step in STEPS:
            pipeline.await_hit(step)
        eventually(lambda: len(run.suspended()) == len(STEPS), "each slot stands still")
        run = take_over(pipeline, run)

        # However they interleave, at most one is left.
        runs = [run, *(pipeline.start() for _ in range(2))]
        eventually(lambda: sum(run.running for run in runs) <= 1, "one is left", 2 * START_TIMEOUT)
        left = [run for run in runs if run.running]
        assert {run.wait() for run in runs if run not in left} == {SUPERSEDED}
        said = run.err.read_text()
        assert "another k2ktui has started" in said and "one place only" in said
        for last in left:
            pipeline.await_copying()
            assert last.stop() == 0
    pipeline.catch_up()
    pipeline.prove()
