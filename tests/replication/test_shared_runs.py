"""``coordination.mode: shared``: several runs copy one pipeline, and nothing is lost or doubled."""

from __future__ import annotations

import random
import signal
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pytest

from k2ktui.runtime.node import KafkaNode
from tests.replication.conftest import MakePipeline
from tests.replication.test_faults_fencing import tell_all
from tests.support.kafka import end_offsets, eventually
from tests.support.pipeline import Pipeline, Run
from tests.support.proxy import ProxiedNode, proxied_node
from tests.support.traffic import Traffic

SLOTS, GRACE_S = 4, 6
SHARED = {
    "coordination.mode": "shared",
    "coordination.assignment.graceWindow": f"{GRACE_S} seconds",
    "spark.slots": SLOTS,
    "spark.lap": "1 second",
}


@pytest.fixture
def shared(make_pipeline: MakePipeline, topics: dict[str, int]) -> Pipeline:
    return make_pipeline(list(topics), SHARED)


def expect_owning(runs: Collection[Run], total: int = SLOTS) -> None:
    """Wait until these runs own all slots together, evenly."""

    def is_even() -> bool:
        owned = sorted(owning(run) for run in runs)
        return sum(owned) == total and owned[-1] - owned[0] <= 1

    eventually(is_even, lambda: "\n".join(run.tail() for run in runs), 180)


def owning(run: Run) -> int:
    """Return how many slots a run said last that it owns."""
    said = [event for event in run.events() if _is_of_owners(event)]
    if not said or said[-1]["event"] == "waiting":
        return 0
    return int(said[-1]["text"].partition(" owns ")[2].split()[0])


def _is_of_owners(event: dict[str, Any]) -> bool:
    return event["event"] == "waiting" or str(event.get("text", "")).startswith("shared by ")


def await_all_copying(pipeline: Pipeline, topics: dict[str, int]) -> None:
    """Wait until more of every partition is visible on the target."""
    before = {topic: end_offsets(pipeline.target, topic, "read_committed") for topic in topics}

    def has_grown() -> bool:
        now = {topic: end_offsets(pipeline.target, topic, "read_committed") for topic in topics}
        return all(
            now[topic][partition] > end
            for topic, ends in before.items()
            for partition, end in ends.items()
        )

    eventually(has_grown, "every partition grows on the target", 180)


def catch_up_and_prove(pipeline: Pipeline, topics: dict[str, int]) -> None:
    """One run that copies alone fences what is left of the others, and copies the rest."""
    directory = pipeline.directory / "alone"
    directory.mkdir()
    alone = Pipeline(directory, pipeline.source, pipeline.target, list(topics), {}, pipeline.name)
    try:
        alone.catch_up()
        alone.prove()
    finally:
        alone.close()


@pytest.mark.slow
def test_two_runs_share_a_pipeline_and_one_is_killed(
    shared: Pipeline, topics: dict[str, int]
) -> None:
    """The other one copies all of it within the grace window and a few seconds."""
    with Traffic(shared.source, topics, 1):
        first = shared.start()
        first.expect("firstrecord")
        expect_owning([first])
        second = shared.start()
        expect_owning([first, second])
        second.expect("firstrecord")
        await_all_copying(shared, topics)
        first.signal(signal.SIGKILL)
        expect_owning([second])
        await_all_copying(shared, topics)
    assert second.stop() == 0
    first.close()
    catch_up_and_prove(shared, topics)


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
    assert left.stop() == 0
    catch_up_and_prove(shared, topics)


BLOWS = [(number, whole) for number in (signal.SIGKILL, signal.SIGSTOP) for whole in (True, False)]


@pytest.mark.proof
@pytest.mark.seeds(2)
def test_three_runs_of_which_some_die_or_hang(
    shared: Pipeline, topics: dict[str, int], seed: int
) -> None:
    """Four times, by SIGKILL and SIGSTOP, of the driver alone or of all its processes."""
    dice = random.Random(seed)
    with Traffic(shared.source, topics, seed):
        runs = [shared.start() for _ in range(3)]
        expect_owning(runs)
        for number, whole in dice.sample(BLOWS, len(BLOWS)):
            await_all_copying(shared, topics)
            hit = dice.choice(runs)
            left = [run for run in runs if run is not hit]
            if whole:
                tell_all(hit, number)
            else:
                hit.signal(number)
            expect_owning(left)
            await_all_copying(shared, topics)
            if number == signal.SIGSTOP:
                tell_all(hit, signal.SIGCONT)
            else:
                hit.close()
                runs = [*left, shared.start()]
            expect_owning(runs)
        await_all_copying(shared, topics)
    for run in runs:
        assert run.stop() == 0, run.tail()
    catch_up_and_prove(shared, topics)


@pytest.mark.proof
@pytest.mark.seeds(1)
def test_many_that_start_at_once_share_the_pipeline(
    shared: Pipeline, topics: dict[str, int], seed: int
) -> None:
    with Traffic(shared.source, topics, seed):
        runs = [shared.start() for _ in range(4)]
        expect_owning(runs)
        await_all_copying(shared, topics)
    for run in runs:
        assert run.stop() == 0, run.tail()
    catch_up_and_prove(shared, topics)


@pytest.fixture(scope="module")
def shaky(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProxiedNode]:
    """A target with a proxy before its second listener."""
    with proxied_node("shared-cut", tmp_path_factory.mktemp("cut")) as node:
        yield node


@pytest.mark.proof
@pytest.mark.seeds(1)
def test_a_run_that_is_cut_off_from_the_target_loses_its_slots(
    source: KafkaNode, shaky: ProxiedNode, topics: dict[str, int], tmp_path: Path, seed: int
) -> None:
    """When the network is back, it gets its part again."""
    far = Pipeline(
        tmp_path,
        source,
        shaky,
        list(topics),
        {**SHARED, "target.kafka.common": {"bootstrap.servers": shaky.proxy.address}},
    )
    (tmp_path / "near").mkdir()
    near = Pipeline(tmp_path / "near", source, shaky, list(topics), SHARED, far.name)
    try:
        with Traffic(source, topics, seed):
            runs = [far.start(), near.start()]
            expect_owning(runs)
            await_all_copying(near, topics)
            shaky.proxy.cut()
            expect_owning(runs[1:])
            await_all_copying(near, topics)
            shaky.proxy.restore()
            expect_owning(runs)
            await_all_copying(near, topics)
        for run in runs:
            assert run.stop() == 0, run.tail()
        catch_up_and_prove(near, topics)
    finally:
        far.close()
        near.close()
