"""Pipelines that end with the test that made them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import create_topic
from tests.support.pipelines.pipeline import Pipeline

MakePipeline = Callable[..., Pipeline]


@pytest.fixture
def make_pipeline(source: KafkaNode, target: KafkaNode, tmp_path: Path) -> Iterator[MakePipeline]:
    """Return a function of topics (names, or a pattern) and settings that makes a pipeline."""
    made: list[Pipeline] = []

    def make(
        topics: list[str] | str, settings: Mapping[str, Any] | None = None, to: KafkaNode = target
    ) -> Pipeline:
        made.append(Pipeline(tmp_path, source, to, topics, dict(settings or {})))
        return made[-1]

    yield make
    for pipeline in made:
        pipeline.close()


@pytest.fixture
def topics(source: KafkaNode) -> dict[str, int]:
    """Three empty topics on the source, with their numbers of partitions."""
    return {create_topic(source, partitions=n): n for n in (1, 2, 3)}


@pytest.fixture
def pipeline(make_pipeline: MakePipeline, topics: dict[str, int]) -> Pipeline:
    """A pipeline of these topics."""
    return make_pipeline(list(topics))
