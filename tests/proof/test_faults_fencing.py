"""Nothing writes for a pipeline but its latest driver's latest tasks."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Sequence

import psutil
import pytest

from tests.support.clusters.kafka import eventually
from tests.support.pipelines.pipeline import START_TIMEOUT, Pipeline, Run
from tests.support.records.traffic import Traffic

pytestmark = pytest.mark.proof
SUPERSEDED = 5
_TIMEOUT_S = 3
STEPS = ("joined", "sent", "before-commit", "after-commit")


def test_tasks_suspended_past_the_transaction_timeout(
    pipeline: Pipeline, topics: dict[str, int], steps: Sequence[str] = STEPS
) -> None:
    """Awake again, with its transaction aborted, one writes nothing; the driver continues."""
    timeout = {"transaction.timeout.ms": _TIMEOUT_S * 1000}
    pipeline.settings = {"target.kafka.producer": timeout}
    with Traffic(pipeline.source, topics, 0, prefixes=pipeline.prefixes):
        run = pipeline.start()
        run.expect("firstrecord")
        for step in steps:
            reported = run.reported
            task = pipeline.suspend_at(step, run)
            time.sleep(2 * _TIMEOUT_S)  # the coordinator looks now and then
            task.resume()
            if step != "after-commit":  # then it had none open
                run.expect("note", since=reported)
            pipeline.await_copying()
    pipeline.end(run)
    pipeline.prove()


@pytest.mark.seeds(1)
def test_two_drivers(pipeline: Pipeline, topics: dict[str, int], seed: int) -> None:
    """The second takes over; the first ends, says why, and writes nothing any more."""
    with Traffic(pipeline.source, topics, seed):
        first = pipeline.start()
        first.expect("firstrecord")
        second = pipeline.start()
        assert first.wait() == SUPERSEDED
        reported = first.err.read_text()
        assert "another k2ktui has started" in reported and "one place only" in reported
        first.await_gone()
        second.expect("firstrecord")
        pipeline.await_copying()
    pipeline.end(second)
    pipeline.prove()


@pytest.mark.timeout((1 + len(STEPS)) * START_TIMEOUT + 180)
def test_all_suspended_while_another_copies(
    pipeline: Pipeline, topics: dict[str, int], steps: Sequence[str] = STEPS
) -> None:
    """A whole machine that was suspended and wakes up finds every token taken.

    So does the one that took over from it, at the next step.
    """
    with Traffic(pipeline.source, topics, 0, prefixes=pipeline.prefixes):
        run = pipeline.start()
        run.expect("firstrecord")
        for step in steps:
            former = run
            pipeline.arm(step, signal.SIGSTOP)
            pipeline.await_hit(step)
            tell_all(former, signal.SIGSTOP)
            run = pipeline.start()
            run.expect("firstrecord")
            pipeline.await_copying()
            tell_all(former, signal.SIGCONT)
            assert former.wait() == SUPERSEDED
            former.await_gone()
            pipeline.await_copying()
    pipeline.end(run)
    pipeline.prove()


def tell_all(run: Run, number: int) -> None:
    for process in run.processes():
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(number)


@pytest.mark.seeds(1)
def test_many_drivers_at_once(pipeline: Pipeline, topics: dict[str, int], seed: int) -> None:
    """However they interleave, at most one is left, and nothing is doubled."""
    with Traffic(pipeline.source, topics, seed):
        runs = [pipeline.start() for _ in range(3)]
        eventually(lambda: sum(run.running for run in runs) <= 1, "one is left")
        left = [run for run in runs if run.running]
        ended = {run.wait() for run in runs if run not in left}
        assert ended == {SUPERSEDED}
        for run in left:
            pipeline.await_copying()
            assert run.stop() == 0
    pipeline.catch_up()
    pipeline.prove()
