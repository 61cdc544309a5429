"""The commit topic loses records: positions are recovered, and all is copied exactly once."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import (
    create_topic,
    delete_before,
    delete_topic,
    end_offsets,
    eventually,
    produce,
    unique_name,
)
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.drill.runs import kill_at
from tests.support.pipelines.fixtures import MakePipeline
from tests.support.pipelines.pipeline import RUN_TIMEOUT, START_TIMEOUT, Pipeline, Run
from tests.support.pipelines.shared_pipelines import SHARED
from tests.support.records.traffic import mixture

pytestmark = pytest.mark.proof
PARTITIONS = 3
FINDINGS, REFUSED = 1, 5
# What recovering does, in its order: fencing, the new term, positions with their run record.
STEPS = ("fencing", "fenced", "begun", "recover-fenced", "recorded", "recover-written")


def make(make_pipeline: MakePipeline, topic: str, settings: Mapping[str, Any]) -> Pipeline:
    """A pipeline with a commit topic of its own: that of all tests must stay.

    A recovery first waits until what a run has left open is aborted after its time-out.
    """
    own = {
        "coordination.commit.topic": unique_name("__commits"),
        "target.kafka.producer": {"transaction.timeout.ms": 10_000},
    }
    return make_pipeline([topic], {**settings, **own})


def await_copy(pipeline: Pipeline, topic: str, run: Run) -> None:
    eventually(
        lambda: pipeline.is_caught_up(topic), lambda: f"{topic} copied\n{run.tail()}", RUN_TIMEOUT
    )


def await_silence(pipeline: Pipeline) -> None:
    """Wait until a run that was killed counts as gone; until then a recovery is refused.

    Without ``--yes`` it is not asked for where there is no terminal.
    """

    def is_silent() -> bool:
        said = k2ktui("offsets", "recover", "-f", pipeline.write(), code=None)
        return "is running on" not in said.stderr

    eventually(is_silent, "the run is silent")


def recover(pipeline: Pipeline, code: int = 0) -> Any:
    return k2ktui_json("offsets", "recover", "-f", pipeline.write(), "--yes", code=code)


def lose(pipeline: Pipeline, loss: str, cut: int) -> None:
    """Delete the commit topic, all of its records, or those before an offset."""
    target, topic = pipeline.target, pipeline.commit_topic
    match loss:
        case "deleted":
            delete_topic(target, topic)
        case "emptied":
            delete_before(target, topic, end_offsets(target, topic)[0])
        case "cut":
            delete_before(target, topic, cut)


def use_mode(pipeline: Pipeline, *, shared: bool) -> None:
    """Let later runs share the pipeline, or copy it alone."""
    own = {key: value for key, value in pipeline.settings.items() if key not in SHARED}
    pipeline.settings = {**own, **(SHARED if shared else {})}


def expect_refused(pipeline: Pipeline, loss: str) -> None:
    """A start copies nothing of what has no position: neither again, nor from where it ends."""
    before = end_offsets(pipeline.target, pipeline.topics[0])
    if loss == "cut":
        run = pipeline.catch_up(FINDINGS)
        faults = {event["fault"]["source"]["partition"]: event for event in run.events("stopped")}
        assert set(faults) == {1, 2}, run.tail()
        assert {event["fault"]["kind"] for event in faults.values()} == {"position-lost"}
    else:
        run = pipeline.catch_up(REFUSED)
        assert "k2ktui offsets recover" in run.err.read_text(), run.tail()
    assert end_offsets(pipeline.target, pipeline.topics[0]) == before


@pytest.mark.seeds(2)
def test_each_loss_is_recovered(make_pipeline: MakePipeline, source: KafkaNode, seed: int) -> None:
    """One after the other in one pipeline; its runs share it, or copy alone, in turn."""
    topic = create_topic(source, partitions=PARTITIONS)
    pipeline = make(make_pipeline, topic, {})
    produce(source, topic, mixture(0, 60, PARTITIONS))
    for number, loss in enumerate(("deleted", "emptied", "cut"), seed):
        use_mode(pipeline, shared=number % 2 == 0)
        pipeline.catch_up()
        cut = end_offsets(pipeline.target, pipeline.commit_topic)[0]
        if loss == "cut":
            produce(source, topic, mixture(10 + number, 20, 1))
            pipeline.catch_up()
        lose(pipeline, loss, cut)
        expect_refused(pipeline, loss)
        done = recover(pipeline)
        effects = {move["partition"]: move["effect"] for move in done["moves"]}
        kept = "keep" if loss == "cut" else "recover"
        assert effects == {0: kept, 1: "recover", 2: "recover"}, done
        produce(source, topic, mixture(20 + number, 40, PARTITIONS))
    pipeline.catch_up()
    pipeline.prove()


# Each step takes a start; each run is killed with a transaction open.
@pytest.mark.timeout((1 + len(STEPS)) * START_TIMEOUT)
@pytest.mark.seeds(2)
def test_a_recovery_is_killed_at_every_step(
    make_pipeline: MakePipeline, source: KafkaNode, tmp_path: Path, seed: int
) -> None:
    """It is repeated, and the next run copies on; its positions are lost in turn."""
    topic = create_topic(source, partitions=PARTITIONS)
    pipeline = make(make_pipeline, topic, {})
    for number, step in enumerate(STEPS, seed):
        use_mode(pipeline, shared=number % 2 == 0)
        produce(source, topic, mixture(number, 60, PARTITIONS))
        with pipeline.start() as run:
            await_copy(pipeline, topic, run)
            pipeline.arm("before-commit", signal.SIGSTOP)
            produce(source, topic, mixture(10 + number, 40, PARTITIONS))
            pipeline.await_hit("before-commit")
        delete_topic(pipeline.target, pipeline.commit_topic)
        await_silence(pipeline)
        kill_at(step, tmp_path / "steps", "offsets", "recover", "-f", pipeline.write(), "--yes")
        if step != STEPS[-1]:
            recover(pipeline)
    pipeline.catch_up()
    pipeline.prove()


@pytest.mark.parametrize("settings", [SHARED, {}], ids=["shared", "exclusive"])
def test_a_run_that_goes_on_after_a_recovery_commits_nothing(
    make_pipeline: MakePipeline, source: KafkaNode, settings: Mapping[str, Any]
) -> None:
    topic = create_topic(source, partitions=PARTITIONS)
    pipeline = make(make_pipeline, topic, settings)
    produce(source, topic, mixture(1, 80, PARTITIONS))
    pipeline.catch_up()
    produce(source, topic, mixture(2, 40, PARTITIONS))
    zombie = pipeline.start()
    worker = pipeline.suspend_at("before-commit", zombie)
    others = [process for process in zombie.processes() if process.pid != worker.pid]
    for process in others:
        process.suspend()
    delete_topic(pipeline.target, pipeline.commit_topic)

    def is_recovered() -> bool:
        """Refused until the run is silent, or what it has open was aborted after its time-out."""
        said = k2ktui("offsets", "recover", "-f", pipeline.write(), "--yes", code=None)
        assert said.returncode in (0, REFUSED), f"{said.stdout}{said.stderr}"
        return said.returncode == 0

    eventually(is_recovered, "the positions are recovered")
    for process in (worker, *others):
        process.resume()

    if settings is SHARED:
        zombie.stop()
    else:
        assert zombie.wait() == REFUSED, zombie.tail()
    pipeline.catch_up()
    pipeline.prove()
