"""The commit topic loses records: positions are recovered, and all is copied exactly once."""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from k2ktui.kafka.clients import target_cluster
from k2ktui.kafka.properties.translation import load_checked
from k2ktui.runtime.node import KafkaNode
from k2ktui.sync.store import StateStore
from tests.support.clusters.kafka import (
    await_stable,
    create_topic,
    delete_before,
    delete_topic,
    end_offsets,
    eventually,
    produce,
    unique_name,
)
from tests.support.commands.cli import k2ktui_json
from tests.support.drill.runs import kill_at
from tests.support.oracle.judge import read_ledger
from tests.support.pipelines.fixtures import MakePipeline
from tests.support.pipelines.kills import tell_all
from tests.support.pipelines.pipeline import RUN_TIMEOUT, START_TIMEOUT, Pipeline, Run
from tests.support.pipelines.shared_pipelines import SHARED
from tests.support.records.traffic import mixture

pytestmark = pytest.mark.proof
PARTITIONS = 3
REFUSED = 5


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
    """Wait until a run that is suspended counts as gone; until then a recovery is refused.

    Each look is as new as that of a command: who has looked for longer knows it sooner.
    """
    config = load_checked((str(pipeline.write()),)).config

    def is_silent() -> bool:
        store = StateStore(config, target_cluster(config))
        try:
            return not store.read_settled().alive(int(time.time() * 1000))
        finally:
            store.close()

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


# Each loss, and two steps at which its recovery is killed.
ROUNDS = {
    "deleted": ("fencing", "recorded"),
    "emptied": ("begun", "recover-written"),
    "cut": ("fenced", "recover-fenced"),
}


# Each round takes a start of Spark.
@pytest.mark.timeout((4 + len(ROUNDS)) * START_TIMEOUT)
@pytest.mark.seeds(2)
def test_each_loss_is_recovered_however_often_its_recovery_is_killed(
    make_pipeline: MakePipeline, source: KafkaNode, tmp_path: Path, seed: int
) -> None:
    """One after the other in one pipeline; its runs share it, or copy alone, in turn.

    Each run is suspended with a transaction open, and goes on after the recovery: it commits
    nothing of before. A start that meets a loss copies nothing.
    """
    topic = create_topic(source, partitions=PARTITIONS)
    pipeline = make(make_pipeline, topic, {})
    for number, (loss, steps) in enumerate(ROUNDS.items(), seed):
        use_mode(pipeline, shared=number % 2 == 0)
        cut = 0 if loss != "cut" else end_offsets(pipeline.target, pipeline.commit_topic)[0]
        # Of what is cut, the position of the first partition is written again.
        produce(source, topic, mixture(number, 60, PARTITIONS if loss != "cut" else 1))
        zombie = pipeline.start()
        await_copy(pipeline, topic, zombie)
        before = positions(pipeline)
        pipeline.arm("before-commit", signal.SIGSTOP)
        produce(source, topic, mixture(10 + number, 40, 1))
        pipeline.await_hit("before-commit")
        tell_all(zombie, signal.SIGSTOP)
        lose(pipeline, loss, cut)
        await_silence(pipeline)
        for step in steps:
            kill_at(step, tmp_path / "steps", "offsets", "recover", "-f", pipeline.write(), "--yes")
        if steps[-1] == "recover-written":
            assert positions(pipeline) == before
            lose(pipeline, loss, cut)
        done = recover(pipeline)
        effects = {move["partition"]: move["effect"] for move in done["moves"]}
        kept = "keep" if loss == "cut" else "recover"
        assert effects == {0: kept, 1: "recover", 2: "recover"}, done
        assert positions(pipeline) == before
        tell_all(zombie, signal.SIGCONT)
        if number % 2 == 0:  # it may share the pipeline again
            zombie.stop()
        else:
            assert zombie.wait() == REFUSED, zombie.tail()
        zombie.close()
    pipeline.catch_up()
    pipeline.prove()

    ends = end_offsets(pipeline.target, topic)
    for loss in ("emptied", "deleted"):
        lose(pipeline, loss, 0)
        run = pipeline.catch_up(REFUSED)
        assert "k2ktui offsets recover" in run.err.read_text(), run.tail()
        assert end_offsets(pipeline.target, topic) == ends


def positions(pipeline: Pipeline) -> dict[int, int]:
    """Return the position of each partition, once what a run left open hides none."""
    await_stable(pipeline.target, pipeline.commit_topic)
    ledger = read_ledger(pipeline.target, pipeline.name, pipeline.commit_topic, mapping_topic="")
    return {partition: state["offset"] for (_, partition), state in ledger.positions.items()}
