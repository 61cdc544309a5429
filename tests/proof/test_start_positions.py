"""Where a copy begins: from the end, from a time, and with what appears later."""

from __future__ import annotations

import time

import pytest

from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import (
    Out,
    create_topic,
    end_offsets,
    eventually,
    grow_topic,
    produce,
    unique_name,
)
from tests.support.oracle.judge import Expected, prove
from tests.support.pipelines.fixtures import MakePipeline
from tests.support.records.traffic import mixture

pytestmark = pytest.mark.proof


def test_from_the_latest(make_pipeline: MakePipeline, source: KafkaNode, target: KafkaNode) -> None:
    """``start.from``: what is there is not copied; what appears later is, from its start."""
    prefix = unique_name("latest")
    topic, later = f"{prefix}.a", f"{prefix}.b"
    create_topic(source, topic, partitions=2)
    produce(source, topic, mixture(1, 100, 2))
    start = end_offsets(source, topic)
    pipeline = make_pipeline(f"{prefix}.*", {"start.from": "latest"})
    run = pipeline.start()
    run.expect("started")
    produce(source, topic, mixture(2, 100, 2))
    create_topic(source, later, partitions=1)
    produce(source, later, mixture(3, 100, 1))
    grow_topic(source, topic, 3)
    produce(source, topic, [Out(b"%d" % i, partition=2) for i in range(50)])
    eventually(lambda: pipeline.is_caught_up(later) and pipeline.is_caught_up(topic), "copied")
    assert run.stop() == 0
    prove(source, target, pipeline.name, Expected(topic, start=start), later)


def test_reset_to_the_latest_is_also_for_what_appears_later(
    make_pipeline: MakePipeline, source: KafkaNode, target: KafkaNode
) -> None:
    """``auto.offset.reset``: partitions that are found later start at their end."""
    prefix = unique_name("reset")
    topic, later = f"{prefix}.a", f"{prefix}.b"
    create_topic(source, topic)
    produce(source, topic, mixture(1, 100, 1))
    pipeline = make_pipeline(
        f"{prefix}.*", {"source.kafka.consumer": {"auto.offset.reset": "latest"}}
    )
    ends = end_offsets(source, topic)
    pipeline.catch_up()
    # A run finds it after it was written to.
    create_topic(source, later)
    produce(source, later, mixture(2, 100, 1))
    grow_topic(source, topic, 2)
    produce(source, topic, [Out(b"%d" % i, partition=1) for i in range(50)])
    skipped = end_offsets(source, later), {**end_offsets(source, topic), **ends}
    with pipeline.start() as run:
        run.expect("started")
        # Where they start is written at once.
        eventually(lambda: all(map(pipeline.is_caught_up, (topic, later))), "both are known")
        produce(source, later, mixture(3, 100, 1))
        produce(source, topic, mixture(4, 100, 2))
        pipeline.topics = [topic, later]
        pipeline.end(run)
    prove(
        source,
        target,
        pipeline.name,
        Expected(later, start=skipped[0]),
        Expected(topic, start=skipped[1]),
    )


def test_from_the_latest_with_nothing_there_yet(
    make_pipeline: MakePipeline, source: KafkaNode, target: KafkaNode
) -> None:
    """Records written between a topic's creation and its discovery are not skipped."""
    prefix = unique_name("nothing")
    pipeline = make_pipeline(f"{prefix}.*", {"start.from": "latest"})
    run = pipeline.start()
    run.expect("started")
    topic = create_topic(source, f"{prefix}.a")
    produce(source, topic, mixture(1, 100, 1))
    eventually(lambda: pipeline.is_caught_up(topic), "copied")
    assert run.stop() == 0
    prove(source, target, pipeline.name, topic)


def test_from_a_time_in_the_middle_of_a_batch(
    make_pipeline: MakePipeline, source: KafkaNode, target: KafkaNode
) -> None:
    """The rest of the batch is copied, whether batches are decoded or not."""
    base = int(time.time() * 1000) - 100_000
    records = [Out(b"%d" % i, b"k", i % 2, timestamp=base + i * 100) for i in range(400)]
    verbatim, decoded = topics = [create_topic(source, partitions=2) for _ in range(2)]
    for topic in topics:
        produce(source, topic, records, linger_ms=100, compression_type="lz4")
    pipeline = make_pipeline(
        topics,
        {
            "start": {"from": "timestamp", "timestamp": base + 15_050},
            "replication.headers": [{"topics": decoded, "add": {"site": "east"}}],
        },
    )
    pipeline.catch_up()
    start = {0: 76, 1: 75}
    changed = Expected(
        decoded, start=start, headers=lambda sent: (*sent.headers, ("site", b"east"))
    )
    proof = prove(source, target, pipeline.name, Expected(verbatim, start=start), changed)
    assert proof.records == 2 * 249
