"""A target whose brokers close the connection on large requests (socket.request.max.bytes)."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from k2ktui.runtime.node import KafkaNode
from tests.proof.test_faults_source import reported
from tests.support.clusters.brokers import make_node
from tests.support.clusters.kafka import (
    START_S,
    create_topic,
    end_offsets,
    produce,
    read_all,
    unique_name,
)
from tests.support.oracle.judge import prove
from tests.support.pipelines.fixtures import MakePipeline
from tests.support.pipelines.pipeline import Pipeline
from tests.support.records.sent_batches import make_batch, send_batches

pytestmark = pytest.mark.proof
FINDINGS = 1
PARTITIONS = 6
TOPIC = {"max.message.bytes": "8000000"}
LIMITS = (1_048_576, 1_500_000)

PATHS: dict[str, dict[str, Any]] = {
    "verbatim": {},
    "shared": {"coordination.mode": "shared"},
    "headers": {"features.headerReplication": "disabled"},
    "transform": {"replication.transform": [{"filter": "true"}]},
}


@pytest.fixture(scope="module", params=LIMITS, ids=str)
def narrow(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KafkaNode]:
    limit = {"socket.request.max.bytes": str(request.param)}
    node = make_node("4-tv2", "narrow", tmp_path_factory.mktemp("narrow"), limit)
    try:
        node.start(START_S)
        yield node
    finally:
        node.close()


def filled(source: KafkaNode, target: KafkaNode, seed: int) -> str:
    """A topic with batches of 300 kB to 2.5 MB, each of records of at most 200 kB."""
    topic, noise = unique_name("wide"), random.Random(seed)
    for node in (source, target):
        create_topic(node, topic, PARTITIONS, TOPIC)
    for partition in range(PARTITIONS):
        send(source, topic, partition, noise)
    return topic


def send(node: KafkaNode, topic: str, partition: int, noise: random.Random) -> None:
    batches = [
        make_batch([noise.randbytes(noise.randrange(1_000, 200_000)) for _ in range(count)], codec)
        for count, codec in ((3, "none"), (25, "lz4"), (8, "none"))
    ]
    send_batches(node, topic, batches, partition)


def pipeline_to(
    make_pipeline: MakePipeline, narrow: KafkaNode, topics: list[str], more: dict[str, Any]
) -> Pipeline:
    return make_pipeline(
        topics, {"target.kafka.common": {"bootstrap.servers": narrow.bootstrap}, **more}, narrow
    )


@pytest.mark.parametrize("path", PATHS)
def test_all_records_are_copied_once_and_counted_once(
    make_pipeline: MakePipeline, source: KafkaNode, narrow: KafkaNode, path: str
) -> None:
    topic = filled(source, narrow, 1)
    pipeline = pipeline_to(make_pipeline, narrow, [topic], PATHS[path])
    run = pipeline.catch_up()
    prove(source, narrow, pipeline.name, topic)
    assert not run.events("stopped")
    copied = sum(end_offsets(source, topic).values())
    assert sum(event["records"] for event in run.events("progress")) == copied
    assert any("socket.request.max.bytes" in event["text"] for event in run.events("note"))


def test_killed_while_the_size_of_requests_is_learned(
    make_pipeline: MakePipeline, source: KafkaNode, narrow: KafkaNode
) -> None:
    topic, noise = unique_name("wide"), random.Random(3)
    for node in (source, narrow):
        create_topic(node, topic, PARTITIONS, TOPIC)
    produce(source, topic, [b"small"])
    pipeline = pipeline_to(make_pipeline, narrow, [topic], {})
    run = pipeline.start()
    run.expect("firstrecord")
    for step in ("sent", "joined", "sent", "before-commit", "before-state"):
        pipeline.arm(step)
        for partition in range(PARTITIONS):
            send(source, topic, partition, noise)
        pipeline.await_hit(step)
    pipeline.end(run)
    prove(source, narrow, pipeline.name, topic)


def test_a_record_above_the_limit_stops_its_partition_alone(
    make_pipeline: MakePipeline, source: KafkaNode, narrow: KafkaNode
) -> None:
    topic, large, noise = filled(source, narrow, 4), unique_name("large"), random.Random(5)
    for node in (source, narrow):
        create_topic(node, large, config=TOPIC)
    values = [b"before", noise.randbytes(1_600_000), b"behind"]
    send_batches(source, large, [make_batch(values)])
    pipeline = pipeline_to(make_pipeline, narrow, [topic, large], {})
    run = pipeline.catch_up(FINDINGS)
    run.expect("stopped", lambda event: reported(event, large, 0, "too-large"))
    assert all(reported(event, large, 0, "too-large") for event in run.events("stopped"))
    said = run.events("stopped")[-1]["fault"]["message"]
    assert f"{large}-0 on the target rejected {large}-0 at offset 1: a record of 1,600," in said
    for setting in ("socket.request.max.bytes", "max.message.bytes 8,000,000"):
        assert setting in said
    assert [got.value for got in read_all(narrow, large)] == [b"before"]
    prove(source, narrow, pipeline.name, topic)
