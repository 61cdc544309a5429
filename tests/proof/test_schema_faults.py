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


@pytest.fixture(params=[False, True], ids=["copied", "transformed"])
def mapping(
    source: KafkaNode,
    target: KafkaNode,
    registries: Registries,
    tmp_path: Path,
    topics: dict[str, int],
    request: pytest.FixtureRequest,
) -> Iterator[Pipeline]:
    """A pipeline that replaces schema ids; unknown ones are dead letters, or pass a transform.

    With dead letters, a transaction has one more topic than with records that pass through.
    """
    filtered: bool = request.param
    if filtered:
        pytest.importorskip("pyarrow")  # of the extra ``transform``
    unknown = "passthrough" if filtered else "deadLetter"
    pipeline = MappingPipeline(
        tmp_path, source, target, registries, list(topics), on_unknown=unknown, filtered=filtered
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
