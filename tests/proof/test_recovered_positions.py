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
    end_offsets,
    eventually,
    produce,
    unique_name,
)
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.drill.runs import kill_at
from tests.support.pipelines.copied import delete_topic
from tests.support.pipelines.fixtures import MakePipeline
from tests.support.pipelines.pipeline import Pipeline
from tests.support.pipelines.shared_pipelines import SHARED
from tests.support.records.traffic import mixture

pytestmark = pytest.mark.proof
PARTITIONS = 3
REFUSED = 5
# What recovering does, in its order: fencing, the new term, positions with their run record.
STEPS = ("fencing", "fenced", "begun", "recover-fenced", "recorded", "recover-written")


def make(make_pipeline: MakePipeline, topic: str, settings: Mapping[str, Any]) -> Pipeline:
    """A pipeline with a commit topic of its own: that of all tests must stay."""
    own = {"coordination.commit.topic": unique_name("__commits")}
    return make_pipeline([topic], {**settings, **own})


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


@pytest.mark.parametrize("settings", [SHARED, {}], ids=["shared", "exclusive"])
def test_each_loss_is_recovered(
    make_pipeline: MakePipeline, source: KafkaNode, settings: Mapping[str, Any]
) -> None:
    topic = create_topic(source, partitions=PARTITIONS)
    pipeline = make(make_pipeline, topic, settings)
    for seed, loss in enumerate(("deleted", "emptied", "cut")):
        produce(source, topic, mixture(seed, 60, PARTITIONS))
        pipeline.catch_up()
        cut = end_offsets(pipeline.target, pipeline.commit_topic)[0]
        produce(source, topic, mixture(10 + seed, 20, 1))
        pipeline.catch_up()
        lose(pipeline, loss, cut)
        done = recover(pipeline)
        effects = {move["partition"]: move["effect"] for move in done["moves"]}
        kept = "keep" if loss == "cut" else "recover"
        assert effects == {0: kept, 1: "recover", 2: "recover"}, done
        produce(source, topic, mixture(20 + seed, 40, PARTITIONS))
        pipeline.catch_up()
        pipeline.prove()


@pytest.mark.parametrize("step", STEPS)
def test_a_recovery_is_killed(
    make_pipeline: MakePipeline, source: KafkaNode, tmp_path: Path, step: str
) -> None:
    """A run was killed with a transaction open, too; the start after it is killed once more."""
    topic = create_topic(source, partitions=PARTITIONS)
    pipeline = make(make_pipeline, topic, SHARED if STEPS.index(step) % 2 else {})
    produce(source, topic, mixture(1, 80, PARTITIONS))
    pipeline.catch_up()
    produce(source, topic, mixture(2, 40, PARTITIONS))
    pipeline.arm("before-commit", signal.SIGSTOP)
    with pipeline.start() as run:
        pipeline.await_hit("before-commit")
    delete_topic(pipeline.target, pipeline.commit_topic)

    kill_at(step, tmp_path / "steps", "offsets", "recover", "-f", pipeline.write(), "--yes")
    if step != STEPS[-1]:
        recover(pipeline)
    produce(source, topic, mixture(3, 40, PARTITIONS))
    pipeline.arm("before-commit")
    with pipeline.start("--until-caught-up") as run:
        pipeline.await_hit("before-commit")
        run.signal(signal.SIGKILL)
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
