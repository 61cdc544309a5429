"""Nothing writes for a pipeline but its latest driver's latest tasks."""

from __future__ import annotations

import pytest

from tests.support.clusters.kafka import eventually
from tests.support.pipelines.kills import SUPERSEDED, TIMEOUT_S, suspend_host, suspend_tasks
from tests.support.pipelines.pipeline import START_TIMEOUT, Pipeline
from tests.support.records.traffic import Traffic

pytestmark = pytest.mark.proof
STEPS = ("joined", "sent", "before-commit", "after-commit")


@pytest.mark.seeds(2)
def test_tasks_suspended_past_the_transaction_timeout(
    pipeline: Pipeline, topics: dict[str, int], seed: int
) -> None:
    """Awake again, with its transaction aborted, one writes nothing; the driver continues."""
    timeout = {"transaction.timeout.ms": TIMEOUT_S * 1000}
    pipeline.settings = {"target.kafka.producer": timeout}
    with Traffic(pipeline.source, topics, seed):
        run = pipeline.start()
        run.expect("firstrecord")
        suspend_tasks(pipeline, run, [step for step in STEPS if step != "sent"])
    pipeline.end(run)
    pipeline.prove()


@pytest.mark.timeout((5 + len(STEPS)) * START_TIMEOUT)
@pytest.mark.seeds(2)
def test_others_take_over(pipeline: Pipeline, topics: dict[str, int], seed: int) -> None:
    """A whole machine that was suspended and wakes up finds every token taken.

    So does the one that took over from it, at the next step, one that runs, and three at once.
    """
    with Traffic(pipeline.source, topics, seed):
        run = pipeline.start()
        run.expect("firstrecord")
        for step in STEPS:
            run = suspend_host(pipeline, run, step)

        second = pipeline.start()
        assert run.wait() == SUPERSEDED
        said = run.err.read_text()
        assert "another k2ktui has started" in said and "one place only" in said
        run.await_gone()
        second.expect("firstrecord")
        pipeline.await_copying()

        # However they interleave, at most one is left.
        runs = [second, *(pipeline.start() for _ in range(3))]
        eventually(lambda: sum(run.running for run in runs) <= 1, "one is left", START_TIMEOUT)
        left = [run for run in runs if run.running]
        assert {run.wait() for run in runs if run not in left} == {SUPERSEDED}
        for run in left:
            pipeline.await_copying()
            assert run.stop() == 0
    pipeline.catch_up()
    pipeline.prove()
