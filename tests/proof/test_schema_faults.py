"""Proofs of exactly once with schema mapping and dead letters, and with a transform of topics."""

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


@pytest.fixture
def mapping(
    source: KafkaNode,
    target: KafkaNode,
    registries: Registries,
    tmp_path: Path,
    topics: dict[str, int],
    unknown: str,
) -> Iterator[Pipeline]:
    """A pipeline that replaces schema ids; unknown ones are dead letters, or pass.

    With dead letters, a transaction has more topics. Where they pass, two topics have a transform,
    too, and the one between has none.
    """
    names = list(topics)
    filtered: tuple[str, ...] = ()
    if unknown == "passthrough":
        pytest.importorskip("pyarrow")  # of the extra ``transform``
        filtered = (names[0], names[-1])
    pipeline = MappingPipeline(
        tmp_path, source, target, registries, names, on_unknown=unknown, filtered=filtered
    )
    yield pipeline
    pipeline.close()


# What is left of a driver or a run, or of a task that was suspended, has no schema: those are in
# the proofs of copies and of transforms.
@pytest.mark.rotate("unknown", ["passthrough", "deadLetter"])
@pytest.mark.seeds(2)
def test_workers_killed_at_every_step_with_schema_mapping(
    mapping: Pipeline, topics: dict[str, int], seed: int
) -> None:
    sent = copy_despite_kills(mapping, topics, seed)
    mapping.prove(sent // 3)
