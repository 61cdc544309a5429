"""Batches that the target compresses in its own way, and so finds too large: halved by records."""

from __future__ import annotations

from typing import Any

import pytest

from k2ktui.runtime.node import KafkaNode
from tests.proof.test_faults_source import reported
from tests.support.clusters.kafka import (
    Got,
    create_topic,
    eventually,
    produce,
    read_all,
    unique_name,
)
from tests.support.drill.checks import alter_topic
from tests.support.oracle.judge import prove
from tests.support.pipelines.fixtures import MakePipeline
from tests.support.pipelines.pipeline import START_TIMEOUT
from tests.support.records.sent_batches import CODECS, grown_values, make_batch, send_batches

pytestmark = pytest.mark.proof
FINDINGS = 1
TYPES = ("uncompressed", "lz4", "producer", "gzip")
LIMIT = "100000"


def pairs(source: KafkaNode, target: KafkaNode) -> dict[str, int]:
    """Topics of every codec for every kind of target, with batches of 200 kB uncompressed."""
    topics: dict[str, int] = {}
    for codec in CODECS:
        for kind in TYPES:
            topic = unique_name(f"{codec}-to-{kind}")
            create_topic(source, topic)
            create_topic(
                target, topic, config={"compression.type": kind, "max.message.bytes": LIMIT}
            )
            send(source, topic, codec, range(8))
            topics[topic] = 800
    return topics


def send(node: KafkaNode, topic: str, codec: str, seeds: range) -> None:
    # Each codec gets what it can make small, and what it cannot, in turn.
    made = [grown_values(seed, ratio=20 if seed % 4 else 2) for seed in seeds]
    send_batches(node, topic, [make_batch(values, codec) for values in made])


PATHS: dict[str, dict[str, Any]] = {
    "verbatim": {},
    "headers": {"features.headerReplication": "disabled"},
    "by-key": {"replication.sink.partition": "producer"},
    "transform": {"replication.transform": [{"filter": "true"}]},
    "at-least-once": {"features.exactlyOnce": "disabled"},
}


@pytest.mark.parametrize("path", PATHS)
def test_every_codec_onto_every_kind_of_target(
    make_pipeline: MakePipeline, source: KafkaNode, target: KafkaNode, path: str
) -> None:
    topics = pairs(source, target)
    pipeline = make_pipeline(list(topics), PATHS[path])
    run = pipeline.catch_up()
    assert not run.events("stopped")
    assert "rejected" not in run.tail(1000), "no lap had to be repeated"
    prove(source, target, pipeline.name, *topics)


def test_two_megabytes_in_a_hundred_kilobytes(
    make_pipeline: MakePipeline, source: KafkaNode, target: KafkaNode
) -> None:
    """With Kafka's default limits on both sides."""
    topics = []
    for kind in TYPES:
        topic = unique_name(kind)
        create_topic(source, topic)
        create_topic(target, topic, config={"compression.type": kind})
        batches = [make_batch(grown_values(seed, 1_000), "zstd") for seed in range(3)]
        assert all(90_000 < len(batch) < 130_000 for batch in batches)
        send_batches(source, topic, batches)
        topics.append(topic)
    pipeline = make_pipeline(topics)
    pipeline.catch_up()
    prove(source, target, pipeline.name, *topics)


def test_killed_while_batches_are_halved(
    make_pipeline: MakePipeline, source: KafkaNode, target: KafkaNode
) -> None:
    topics = pairs(source, target)
    pipeline = make_pipeline(list(topics))
    run = pipeline.start()
    run.expect("firstrecord")
    steps = ("halved", "sent", "before-state", "halved", "before-commit")
    for number, step in enumerate(steps):
        # Each topic gets batches that are halved further in the lap that is killed.
        pipeline.arm(step)
        for topic in topics:
            alter_topic(target, topic, max_message_bytes=str(40_000 >> number))
            send(source, topic, topic.partition("-")[0], range(10 * number, 10 * number + 2))
        pipeline.await_hit(step)
    # Not that more is copied: on a busy machine, the rest may be there already.
    eventually(lambda: all(map(pipeline.is_caught_up, topics)), "all is copied", START_TIMEOUT)
    pipeline.end(run)
    prove(source, target, pipeline.name, *topics)


@pytest.mark.parametrize("path", ["verbatim", "by-key", "transform"])
def test_a_record_that_is_too_large_alone_stops_its_partition_until_the_limit_is_raised(
    make_pipeline: MakePipeline, source: KafkaNode, target: KafkaNode, path: str
) -> None:
    large, other = create_topic(source), create_topic(source)
    for topic in (large, other):
        config = {"compression.type": "uncompressed", "max.message.bytes": "50000"}
        create_topic(target, topic, config=config)
    before, after = grown_values(1, 60), grown_values(2, 60)
    (huge,) = grown_values(3, 1, 150_000)
    send_batches(source, large, [make_batch([*before, huge, *after], "zstd")])
    send_batches(source, other, [make_batch(grown_values(4, 200), "zstd")])
    pipeline = make_pipeline([large, other], PATHS[path])
    run = pipeline.start()
    run.expect("stopped", lambda event: reported(event, large, 0, "too-large"))
    (event,) = run.events("stopped")
    said = event["fault"]["message"]
    assert f"{large}-0 on the target rejected {large}-0 at offset 60: a record of " in said
    assert "as sent and 150," in said and "uncompressed exceeds its max.message.bytes" in said
    assert "(compression.type uncompressed, max.message.bytes 50,000)" in said
    assert "compression.type to producer" in event["fault"]["hint"]
    eventually(lambda: len(read_all(target, other)) == 200, "the other is copied")
    eventually(lambda: values(read_all(target, large)) == before, "so is what is before it")
    alter_topic(target, large, max_message_bytes="160000")
    run.expect("resumed", lambda event: event["topic"] == large, timeout=60)
    eventually(lambda: len(read_all(target, large)) == 121, "it is copied as well")
    produce(source, large, [b"one more"])
    eventually(lambda: values(read_all(target, large))[-1] == b"one more", "and goes on")
    assert run.stop() == 0
    prove(source, target, pipeline.name, large, other)


def values(records: list[Got]) -> list[bytes | None]:
    return [record.value for record in records]
