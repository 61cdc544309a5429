"""Proofs of exactly once with a transform: records left out, several of one, and dead letters."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from k2ktui.runtime.node import KafkaNode
from tests.proof.test_exactly_once import kill, spark_has_ended
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
from tests.support.clusters.kafka import Got, create_topic, read_all
from tests.support.clusters.proxy import ProxiedNode
from tests.support.oracle.judge import Expected, Proof, prove
from tests.support.pipelines.pipeline import START_TIMEOUT, Pipeline
from tests.support.records.traffic import Traffic

pytestmark = pytest.mark.proof
pytest.importorskip("pyarrow")  # of the extra ``transform``

__all__ = ["shaky"]

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


def test_workers_killed(pipeline: Pipeline, topics: dict[str, int]) -> None:
    workers_killed(pipeline, topics, 1)


def test_driver_killed(pipeline: Pipeline, topics: dict[str, int]) -> None:
    driver_killed(pipeline, topics, ["token", "recovering"])


# Spark starts three times, and plans the rule each time.
@pytest.mark.timeout(5 * START_TIMEOUT)
def test_java_killed(pipeline: Pipeline, topics: dict[str, int]) -> None:
    with Traffic(pipeline.source, topics, 2):
        run = pipeline.start()
        run.expect("firstrecord")
        reported = run.reported
        kill(run.java())
        run.expect("note", spark_has_ended, since=reported)
        pipeline.await_copying(2 * START_TIMEOUT)
    pipeline.end(run)
    pipeline.prove()


def test_a_task_that_was_suspended_writes_nothing(
    pipeline: Pipeline, topics: dict[str, int]
) -> None:
    tasks_suspended(pipeline, topics, ["before-commit"])


def test_a_host_that_was_suspended_writes_nothing(
    pipeline: Pipeline, topics: dict[str, int]
) -> None:
    pipeline.mode = "exclusive"  # the other one takes over at once
    all_suspended(pipeline, topics, ["before-commit"])


def test_a_commit_arrives_late(
    source: KafkaNode, shaky: ProxiedNode, tmp_path: Path, topics: dict[str, int]
) -> None:
    where = {"target.kafka.common": {"bootstrap.servers": shaky.proxy.address}}
    proxied = ExplodingPipeline(tmp_path, source, shaky, list(topics), where)
    try:
        commit_arrives_late(proxied, shaky, topics, 1)
    finally:
        proxied.close()
