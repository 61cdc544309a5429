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

# Runs that start at the same time, more than there are slots: in the first seed, and in later ones,
# for which two cores take long. Each has a Spark of its own.
_FEW, _MANY = 5, 10
# No test lasts as long.
PATIENT = {"coordination.assignment.graceWindow": "1 hour"}


@pytest.mark.slow
def test_two_runs_share_a_pipeline_and_one_is_killed(
    make_pipeline: MakePipeline, topics: dict[str, int]
) -> None:
    """The other one, on another host, copies all of it after the grace window.

    It does so again after a run that copies alone has taken the pipeline, and has stopped.
    """
    shared = make_pipeline(list(topics), SHARED)
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
        take_all(shared, topics)
        assert second.running
        expect_owning([second])
        await_all_copying(shared, topics)
    prove_caught_up(shared, topics)
    assert second.stop() == 0
    first.close()
    shared.prove()


@pytest.mark.proof
@pytest.mark.seeds(1)
def test_runs_of_one_host_take_slots_over_from_each_other(
    make_pipeline: MakePipeline, topics: dict[str, int], seed: int
) -> None:
    """Many that start at once, kills, and stops, also of the one that leads.

    None waits: the grace window is longer than any test. As Lenses' documentation allows, the
    assignment topic is the commit topic.
    """
    one = unique_name("__k2k_control")
    names = {f"coordination.{role}.topic": one for role in ("commit", "assignment")}
    shared = make_pipeline(list(topics), SHARED | PATIENT | names)
    with Traffic(shared.source, topics, seed):
        runs = [shared.start() for _ in range(_MANY if seed else _FEW)]
        expect_owning(runs)
        await_all_copying(shared, topics)
        runs.pop().signal(signal.SIGKILL)
        expect_owning(runs)
        await_all_copying(shared, topics)
        while len(runs) > 1:
            assert runs.pop(0).stop() == 0
            expect_owning(runs)
            await_all_copying(shared, topics)
        # Another one that is started after all were killed.
        runs.pop().signal(signal.SIGKILL)
        left = shared.start()
        expect_owning([left])
        await_all_copying(shared, topics)
    prove_caught_up(shared, topics)
    assert left.stop() == 0
    shared.prove()


def take_all(shared: Pipeline, topics: dict[str, int]) -> None:
    """Copy alone for a while, which takes the pipeline from all runs that share it."""
    directory = shared.directory / "exclusive"
    directory.mkdir()
    alone = Pipeline(directory, shared.source, shared.target, list(topics), {}, shared.name)
    with alone.start() as run:
        run.expect("firstrecord")
        await_all_copying(shared, topics)
        assert run.stop() == 0
