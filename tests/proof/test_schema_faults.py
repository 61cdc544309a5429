"""Proofs of exactly once with schema mapping, alone and with a transform on the same topics."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.registries import Registries
from tests.support.pipelines.kills import copy_despite_kills
from tests.support.pipelines.pipeline import Pipeline
from tests.support.pipelines.schema_pipeline import MappingPipeline

pytestmark = pytest.mark.proof
pytest.importorskip("pyarrow")  # of the extra ``transform``


@pytest.fixture
def mapping(
    source: KafkaNode,
    target: KafkaNode,
    registries: Registries,
    tmp_path: Path,
    topics: dict[str, int],
) -> Iterator[Pipeline]:
    """A pipeline that replaces schema ids; unknown ones pass. Two topics have a transform, too.

    Dead letters are in the proofs of transforms: all that is written is in one transaction.
    """
    names = list(topics)
    pipeline = MappingPipeline(
        tmp_path,
        source,
        target,
        registries,
        names,
        on_unknown="passthrough",
        filtered=(names[0], names[-1]),
    )
    yield pipeline
    pipeline.close()


# What is left of a driver or a run, or of a task that was suspended, has no schema: those are in
# the proofs of copies and of transforms.
@pytest.mark.seeds(2)
def test_workers_killed_at_every_step_with_schema_mapping(
    mapping: Pipeline, topics: dict[str, int], seed: int
) -> None:
    sent = copy_despite_kills(mapping, topics, seed)
    mapping.prove(sent // 3)
