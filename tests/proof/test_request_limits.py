"""A target whose brokers close the connection on large requests (socket.request.max.bytes)."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from k2ktui.runtime.node import KafkaNode
from tests.proof.test_faults_source import reported
from tests.support.clusters.brokers import KINDS, KRaftNode
from tests.support.clusters.kafka import (
    START_S,
    create_topic,
    end_offsets,
    produce,
    read_all,
    unique_name,
)
from tests.support.oracle.judge import Expected, prove
from tests.support.pipelines.fixtures import MakePipeline
from tests.support.pipelines.pipeline import Pipeline, Run
from tests.support.records.sent_batches import make_batch, send_batches

pytestmark = pytest.mark.proof
FINDINGS = 1
PARTITIONS = 6
TOPIC = {"max.message.bytes": "8000000"}
# The limit of requests, and how the pipeline is run beside it.
LIMITS = {1_048_576: "exclusive", 1_500_000: "shared"}
LIMITED = pytest.mark.rotate("narrow", list(LIMITS), indirect=True, ids=str)


class NarrowNode(KRaftNode):
    """A target with a limit of requests."""

    def __init__(self, limit: int, data_dir: Path) -> None:
        properties = {"socket.request.max.bytes": str(limit)}
        super().__init__("narrow", data_dir, properties, kind=KINDS["4-tv2"])
        self.limit = limit


@pytest.fixture(scope="module")
def narrow(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[NarrowNode]:
    node = NarrowNode(request.param, tmp_path_factory.mktemp("narrow"))
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
    make_pipeline: MakePipeline, narrow: NarrowNode, topics: list[str], more: dict[str, Any]
) -> Pipeline:
    return make_pipeline(
        topics, {"target.kafka.common": {"bootstrap.servers": narrow.bootstrap}, **more}, narrow
    )


@LIMITED
def test_all_records_are_copied_once_and_counted_once(
    make_pipeline: MakePipeline, source: KafkaNode, narrow: NarrowNode
) -> None:
    """As they are, rebuilt, and transformed; a record above the limit stops its partition alone."""
    paths = ("verbatim", "headers", "transform")
    topics = {path: filled(source, narrow, seed) for seed, path in enumerate(paths)}
    large, values = above_the_limit(source, narrow)
    rules = {
        "coordination.mode": LIMITS[narrow.limit],
        "replication.headers": [{"topics": topics["headers"], "add": {"site": "east"}}],
        "replication.transform": [{"topics": topics["transform"], "filter": "true"}],
    }
    pipeline = pipeline_to(make_pipeline, narrow, [*topics.values(), large], rules)
    run = pipeline.catch_up(FINDINGS)
    added = Expected(topics["headers"], headers=lambda sent: (*sent.headers, ("site", b"east")))
    others = [topic for topic in topics.values() if topic != added.topic]
    prove(source, narrow, pipeline.name, added, *others)
    copied = sum(sum(end_offsets(source, topic).values()) for topic in topics.values())
    assert sum(event["records"] for event in run.events("progress")) == copied + 1
    expect_learned(run)

    run.expect("stopped", lambda event: reported(event, large, 0, "too-large"))
    assert all(reported(event, large, 0, "too-large") for event in run.events("stopped"))
    said = run.events("stopped")[-1]["fault"]["message"]
    assert f"{large}-0 on the target rejected {large}-0 at offset 1: a record of 1,600," in said
    for setting in ("socket.request.max.bytes", "max.message.bytes 8,000,000"):
        assert setting in said
    assert [got.value for got in read_all(narrow, large)] == values[:1]


def expect_learned(run: Run) -> None:
    """A broker has closed the connection on a larger request."""
    assert any("socket.request.max.bytes" in event["text"] for event in run.events("note"))


def above_the_limit(source: KafkaNode, narrow: NarrowNode) -> tuple[str, list[bytes]]:
    """A topic with a record that fits its topic, and no request; return it and its values."""
    large = unique_name("large")
    for node in (source, narrow):
        create_topic(node, large, config=TOPIC)
    values = [b"before", random.Random(5).randbytes(1_600_000), b"behind"]
    send_batches(source, large, [make_batch(values)])
    return large, values


@LIMITED
def test_killed_while_the_size_of_requests_is_learned(
    make_pipeline: MakePipeline, source: KafkaNode, narrow: NarrowNode
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
    expect_learned(run)
    prove(source, narrow, pipeline.name, topic)
