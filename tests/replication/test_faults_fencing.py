"""Nothing writes for a pipeline but its latest driver's latest tasks."""

from __future__ import annotations

import contextlib
import signal
import time

import psutil
import pytest

from tests.support.kafka import eventually
from tests.support.pipeline import Pipeline, Run
from tests.support.traffic import Traffic

pytestmark = pytest.mark.proof
SUPERSEDED = 5
_TIMEOUT_S = 3
STEPS = ("joined", "sent", "before-commit", "after-commit")


@pytest.mark.parametrize("step", STEPS)
def test_task_suspended_past_the_transaction_timeout(
    pipeline: Pipeline, topics: dict[str, int], step: str
) -> None:
    """Awake again, with its transaction aborted, it writes nothing; the driver continues."""
    timeout = {"transaction.timeout.ms": _TIMEOUT_S * 1000}
    pipeline.settings = {"target.kafka.producer": timeout}
    number, prefixes = STEPS.index(step), pipeline.prefixes
    with Traffic(pipeline.source, topics, number, prefixes=prefixes):
        run = pipeline.start()
        run.expect("firstrecord")
        task = pipeline.suspend_at(step, run)
        time.sleep(2 * _TIMEOUT_S)  # the coordinator looks now and then
        task.resume()
        if step != "after-commit":  # then it had none open
            run.expect("note")
        pipeline.await_copying()
    assert run.stop() == 0
    pipeline.catch_up()
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
    assert second.stop() == 0
    pipeline.catch_up()
    pipeline.prove()


@pytest.mark.parametrize("step", STEPS)
def test_all_suspended_while_another_copies(
    pipeline: Pipeline, topics: dict[str, int], step: str
) -> None:
    """A whole machine that was suspended and wakes up finds every token taken."""
    number, prefixes = STEPS.index(step), pipeline.prefixes
    with Traffic(pipeline.source, topics, number, prefixes=prefixes):
        first = pipeline.start()
        first.expect("firstrecord")
        pipeline.arm(step, signal.SIGSTOP)
        pipeline.await_hit(step)
        tell_all(first, signal.SIGSTOP)
        second = pipeline.start()
        second.expect("firstrecord")
        pipeline.await_copying()
        tell_all(first, signal.SIGCONT)
        assert first.wait() == SUPERSEDED
        first.await_gone()
        pipeline.await_copying()
    assert second.stop() == 0
    pipeline.catch_up()
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
