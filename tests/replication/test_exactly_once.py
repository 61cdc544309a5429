"""Killed at any step and at any time, a pipeline loses nothing and doubles nothing."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from k2ktui.runtime.node import KafkaNode
from tests.support.kafka import create_topic
from tests.support.oracle import prove
from tests.support.pipeline import Pipeline
from tests.support.traffic import Traffic

WORKER_STEPS = (
    "joined",
    "sent",
    "before-state",
    "before-commit",
    "after-commit",
    "lap-over",
)
DRIVER_STEPS = ("fenced", "recorded", "begun", "token", "recovering")

slow = pytest.mark.slow


def seeds(count: int, fast: int = 1) -> list[object]:
    """Return seeds to run a test with; all but the first are for the long run."""
    return [pytest.param(n, marks=() if n < fast else slow) for n in range(count)]


@pytest.fixture
def topics(source: KafkaNode) -> dict[str, int]:
    return {create_topic(source, partitions=n): n for n in (1, 2, 3)}


@pytest.fixture
def pipeline(
    source: KafkaNode, target: KafkaNode, topics: dict[str, int], tmp_path: Path
) -> Iterator[Pipeline]:
    made = Pipeline(tmp_path, source, target, list(topics))
    yield made
    made.close()


def prove_all(pipeline: Pipeline, least: int = 1) -> None:
    proof = prove(pipeline.source, pipeline.target, pipeline.name, *pipeline.topics)
    assert proof.records >= least


@pytest.mark.parametrize("seed", seeds(6))
def test_workers_killed_at_every_step(
    pipeline: Pipeline, topics: dict[str, int], seed: int
) -> None:
    steps = [*WORKER_STEPS]
    random.Random(seed).shuffle(steps)
    with Traffic(pipeline.source, topics, seed) as traffic:
        run = pipeline.start()
        run.expect("firstrecord")
        for step in steps:
            pipeline.arm(step)
            pipeline.await_crash(step)
        run.expect("progress")
    assert run.stop() == 0
    run.await_gone()
    pipeline.catch_up()
    prove_all(pipeline, traffic.sent // 3)
