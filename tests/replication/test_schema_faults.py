"""Proofs of exactly once with schema mapping: ids are replaced, unknown ones are dead letters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from k2ktui.runtime.node import KafkaNode
from tests.replication.test_exactly_once import (
    test_driver_killed_at_every_step as driver_killed,
)
from tests.replication.test_exactly_once import (
    test_workers_killed_at_every_step as workers_killed,
)
from tests.replication.test_faults_fencing import (
    test_all_suspended_while_another_copies as all_suspended,
)
from tests.replication.test_faults_fencing import (
    test_task_suspended_past_the_transaction_timeout as task_suspended,
)
from tests.replication.test_faults_network import shaky
from tests.replication.test_faults_network import (
    test_a_commit_that_arrives_late as commit_arrives_late,
)
from tests.support.pipeline import Pipeline
from tests.support.proxy import ProxiedNode
from tests.support.registries import Registries
from tests.support.schema_pipeline import MappingPipeline

pytestmark = pytest.mark.proof

__all__ = ["shaky"]

Make = Callable[..., Pipeline]


@pytest.fixture
def make(
    source: KafkaNode,
    target: KafkaNode,
    registries: Registries,
    tmp_path: Path,
    topics: dict[str, int],
) -> Iterator[Make]:
    """Return a function of a target and settings that makes a pipeline of these topics."""
    made: list[Pipeline] = []

    def make(to: KafkaNode = target, **more: Any) -> Pipeline:
        made.append(MappingPipeline(tmp_path, source, to, registries, list(topics), **more))
        return made[-1]

    yield make
    for pipeline in made:
        pipeline.close()


@pytest.mark.parametrize("on_unknown", ["passthrough", "deadLetter"])
@pytest.mark.seeds(1)
def test_workers_killed_at_every_step_with_schema_mapping(
    make: Make, topics: dict[str, int], on_unknown: str, seed: int
) -> None:
    workers_killed(make(on_unknown=on_unknown), topics, seed)


# Up to its first lap, a driver looks up no schema.
@pytest.mark.parametrize("step", ["token", "recovering"])
def test_driver_killed_with_schema_mapping(make: Make, topics: dict[str, int], step: str) -> None:
    driver_killed(make(), topics, step)


def test_a_task_that_was_suspended_writes_nothing(make: Make, topics: dict[str, int]) -> None:
    task_suspended(make(), topics, "before-commit")


def test_a_host_that_was_suspended_writes_nothing(make: Make, topics: dict[str, int]) -> None:
    pipeline = make()
    pipeline.mode = "exclusive"  # the other one takes over at once
    all_suspended(pipeline, topics, "before-commit")


def test_a_commit_arrives_late(make: Make, shaky: ProxiedNode, topics: dict[str, int]) -> None:
    where = {"target.kafka.common": {"bootstrap.servers": shaky.proxy.address}}
    commit_arrives_late(make(shaky, settings=where), shaky, topics, 1)
