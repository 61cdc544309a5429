"""A pipeline between clusters with quotas: it starts, waits, and copies everything once."""

from __future__ import annotations

import random

import pytest

from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import create_topic, produce, unique_name
from tests.support.clusters.quotas import limited
from tests.support.oracle.judge import prove
from tests.support.pipelines.fixtures import MakePipeline
from tests.support.pipelines.pipeline import RUN_TIMEOUT
from tests.support.records.traffic import mixture

pytestmark = pytest.mark.slow


def test_all_is_copied_once(
    make_pipeline: MakePipeline, source: KafkaNode, target: KafkaNode
) -> None:
    """Quotas on requests of both clusters, on fetched bytes, and on creating topics."""
    noise = random.Random(1)
    topics = [create_topic(source, partitions=3) for _ in range(16)]
    for number, topic in enumerate(topics):
        produce(source, topic, mixture(number, 20, 3))
        produce(source, topic, [noise.randbytes(20_000) for _ in range(2)])
    reader, writer = unique_name("reader"), unique_name("writer")
    settings = {
        "source.kafka.common": {"bootstrap.servers": source.bootstrap, "client.id": reader},
        "target.kafka.common": {"bootstrap.servers": target.bootstrap, "client.id": writer},
    }
    pipeline = make_pipeline(topics, settings)
    with (
        limited(source, reader, request_percentage=2.0, consumer_byte_rate=100_000),
        limited(target, writer, request_percentage=2.0, controller_mutation_rate=2.0),
    ):
        run = pipeline.catch_up(timeout=3 * RUN_TIMEOUT)
    assert not run.events("stopped")
    prove(source, target, pipeline.name, *topics)
