"""``coordination.mode: shared``: several runs copy one pipeline, and nothing is lost or doubled."""

from __future__ import annotations

import signal

import pytest

from tests.support.clusters.kafka import unique_name
from tests.support.clusters.other_hosts import other_host
from tests.support.pipelines.fixtures import MakePipeline
from tests.support.pipelines.pipeline import Pipeline
from tests.support.pipelines.shared_pipelines import (
    SHARED,
    await_all_copying,
    expect_owning,
    prove_caught_up,
)
from tests.support.records.traffic import Traffic

pytestmark = pytest.mark.timeout(900)
# Runs that start at the same time, more than there are slots: in the first seed, and in later ones,
# for which two cores take long. Each has a Spark of its own.
_FEW, _MANY = 5, 10
# No test lasts as long.
PATIENT = {"coordination.assignment.graceWindow": "1 hour"}


@pytest.fixture
def shared(make_pipeline: MakePipeline, topics: dict[str, int]) -> Pipeline:
    return make_pipeline(list(topics), SHARED)


@pytest.mark.slow
def test_two_runs_share_a_pipeline_and_one_is_killed(
    shared: Pipeline, topics: dict[str, int]
) -> None:
    """The other one, on another host, copies all of it after the grace window."""
    with Traffic(shared.source, topics, 1):
        first = shared.start()
        first.expect("firstrecord")
        expect_owning([first])
        second = shared.start(env=other_host("other"))
        expect_owning([first, second])
        second.expect("firstrecord")
        await_all_copying(shared, topics)
        first.signal(signal.SIGKILL)
        expect_owning([second])
        await_all_copying(shared, topics)
    prove_caught_up(shared, topics)
    assert second.stop() == 0
    first.close()
    shared.prove()


@pytest.mark.slow
def test_a_run_on_the_host_of_one_that_was_killed_does_not_wait(
    make_pipeline: MakePipeline, topics: dict[str, int]
) -> None:
    """Neither the one that shared the pipeline with it, nor one that is started after both.

    As Lenses' documentation allows, the assignment topic is the commit topic.
    """
    one = unique_name("__k2k_control")
    names = {f"coordination.{role}.topic": one for role in ("commit", "assignment")}
    shared = make_pipeline(list(topics), SHARED | PATIENT | names)
    with Traffic(shared.source, topics, 1):
        first = shared.start()
        expect_owning([first])
        second = shared.start()
        expect_owning([first, second])
        first.signal(signal.SIGKILL)
        expect_owning([second])
        await_all_copying(shared, topics)
        second.signal(signal.SIGKILL)
        third = shared.start()
        expect_owning([third])
        await_all_copying(shared, topics)
    prove_caught_up(shared, topics)
    assert third.stop() == 0
    shared.prove()


@pytest.mark.slow
def test_a_run_that_is_stopped_hands_its_slots_over(
    shared: Pipeline, topics: dict[str, int]
) -> None:
    """Also the one that leads; a run that copies alone takes the pipeline from all of them."""
    with Traffic(shared.source, topics, 1):
        runs = [shared.start() for _ in range(2)]
        expect_owning(runs)
        await_all_copying(shared, topics)
        stopped, left = runs
        assert stopped.stop() == 0
        expect_owning([left])
        await_all_copying(shared, topics)
        directory = shared.directory / "exclusive"
        directory.mkdir()
        alone = Pipeline(directory, shared.source, shared.target, list(topics), {}, shared.name)
        with alone.start() as run:
            run.expect("firstrecord")
            await_all_copying(shared, topics)
            assert left.running
            assert run.stop() == 0
        await_all_copying(shared, topics)
    prove_caught_up(shared, topics)
    assert left.stop() == 0


@pytest.mark.proof
@pytest.mark.seeds(1)
def test_many_that_start_at_once_share_the_pipeline(
    shared: Pipeline, topics: dict[str, int], seed: int
) -> None:
    with Traffic(shared.source, topics, seed):
        runs = [shared.start() for _ in range(_MANY if seed else _FEW)]
        expect_owning(runs)
        await_all_copying(shared, topics)
    prove_caught_up(shared, topics)
    for run in runs:
        assert run.stop() == 0, run.tail()
    shared.prove()
