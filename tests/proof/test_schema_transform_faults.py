"""Proofs of exactly once with a transform and schema mapping on the same topics."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from k2ktui.runtime.node import KafkaNode
from tests.proof.test_exactly_once import (
    test_driver_killed_at_every_step as driver_killed,
)
from tests.proof.test_exactly_once import (
    test_workers_killed_at_every_step as workers_killed,
)
from tests.proof.test_faults_fencing import (
    test_all_suspended_while_another_copies as all_suspended,
)
from tests.proof.test_faults_fencing import (
    test_tasks_suspended_past_the_transaction_timeout as tasks_suspended,
)
from tests.proof.test_faults_network import shaky
from tests.proof.test_faults_network import (
    test_a_commit_that_arrives_late as commit_arrives_late,
)
from tests.support.clusters.kafka import create_topic
from tests.support.clusters.proxy import ProxiedNode
from tests.support.clusters.registries import Registries
from tests.support.pipelines.pipeline import Pipeline
from tests.support.pipelines.schema_pipeline import MappingPipeline

pytestmark = pytest.mark.proof
pytest.importorskip("pyarrow")  # of the extra ``transform``

__all__ = ["shaky"]

Make = Callable[..., Pipeline]


@pytest.fixture
def topics(source: KafkaNode) -> dict[str, int]:
    """Two empty topics on the source: each start of Spark plans their rule once per slot."""
    return {create_topic(source, partitions=n): n for n in (1, 2)}


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

    def make(to: KafkaNode = target, settings: dict[str, Any] | None = None) -> Pipeline:
        names = list(topics)
        made.append(
            MappingPipeline(
                tmp_path,
                source,
                to,
                registries,
                names,
                settings,
                on_unknown="passthrough",
                filtered=True,
            )
        )
        return made[-1]

    yield make
    for pipeline in made:
        pipeline.close()


def test_workers_killed(make: Make, topics: dict[str, int]) -> None:
    workers_killed(make(), topics, 1)


def test_driver_killed(make: Make, topics: dict[str, int]) -> None:
    driver_killed(make(), topics, ["token", "recovering"])


def test_a_task_that_was_suspended_writes_nothing(make: Make, topics: dict[str, int]) -> None:
    tasks_suspended(make(), topics, ["before-commit"])


def test_a_host_that_was_suspended_writes_nothing(make: Make, topics: dict[str, int]) -> None:
    pipeline = make()
    pipeline.mode = "exclusive"  # the other one takes over at once
    all_suspended(pipeline, topics, ["before-commit"])


def test_a_commit_arrives_late(make: Make, shaky: ProxiedNode, topics: dict[str, int]) -> None:
    where = {"target.kafka.common": {"bootstrap.servers": shaky.proxy.address}}
    commit_arrives_late(make(shaky, where), shaky, topics, 1)
