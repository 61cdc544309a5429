"""Proofs of exactly once with a transform: records left out, several of one, and dead letters."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import Got, create_topic, read_all
from tests.support.oracle.judge import Expected, Proof, prove
from tests.support.pipelines.kills import SURVIVE_ALL_TIMEOUT_S, survive_all
from tests.support.pipelines.pipeline import Pipeline

pytestmark = pytest.mark.proof
pytest.importorskip("pyarrow")  # of the extra ``transform``

#: Of any record: none, one or three others, or a dead letter where it divides by zero.
EXPLODED: dict[str, Any] = {
    "explode": {
        "value": "slice(array(value, concat(value, X'21'), X''), 1, "
        "CAST((9 div (length(value) % 5)) % 4 AS INT))"
    },
    "onError": "deadLetter",
}


def is_dead(sent: Got) -> bool:
    return sent.value is not None and len(sent.value) % 5 == 0


def exploded(sent: Got) -> list[bytes]:
    if sent.value is None or is_dead(sent):
        return []
    return [sent.value, sent.value + b"!", b""][: 9 // (len(sent.value) % 5) % 4]


class ExplodingPipeline(Pipeline):
    """A pipeline with the rule for all of its topics, whatever else a test sets."""

    usual_mode = "shared"

    def prove(self, least: int = 1) -> Proof:
        """Compare the copies, and the dead letters: each record that fails is there once."""
        expected = [Expected(topic, values=exploded) for topic in self.topics]
        proof = prove(self.source, self.target, self.name, *expected)
        dead = 0
        for topic in self.topics:
            failed = [got for got in read_all(self.source, topic) if is_dead(got)]
            letters = read_all(self.target, f"{topic}.dead-letter")
            assert sorted(map(origin_of, letters)) == sorted(map(place_of, failed))
            dead += len(letters)
        assert dead and proof.records >= least // 3
        return proof

    def _defaults(self) -> dict[str, Any]:
        return {**super()._defaults(), "replication.transform": [EXPLODED]}


def place_of(got: Got) -> tuple[int, int, bytes]:
    return got.partition, got.offset, got.value or b""


def origin_of(letter: Got) -> tuple[int, int, bytes]:
    """Return the place and the value of the record that became a dead letter."""
    origin = dict(letter.headers)
    partition, offset = (origin[f"__k2k.error.{name}"] for name in ("partition", "offset"))
    return int(partition or b""), int(offset or b""), letter.value or b""


@pytest.fixture
def pipeline(
    source: KafkaNode, target: KafkaNode, tmp_path: Path, topics: dict[str, int]
) -> Iterator[Pipeline]:
    made = ExplodingPipeline(tmp_path, source, target, list(topics))
    yield made
    made.close()


@pytest.fixture
def topics(source: KafkaNode) -> dict[str, int]:
    """Two empty topics on the source: each start of Spark plans their rule once per slot."""
    return {create_topic(source, partitions=n): n for n in (1, 2)}


@pytest.mark.timeout(SURVIVE_ALL_TIMEOUT_S)
@pytest.mark.seeds(2)
def test_workers_drivers_and_spark_die_and_a_host_is_suspended(
    pipeline: Pipeline, topics: dict[str, int], seed: int
) -> None:
    sent = survive_all(pipeline, topics, seed)
    pipeline.prove(sent // 3)
