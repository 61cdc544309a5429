"""Batches that the target compresses in its own way, and so finds too large: halved by records."""

from __future__ import annotations

from typing import Any

import pytest

from k2ktui.runtime.node import KafkaNode
from tests.proof.test_faults_source import reported
from tests.support.clusters.kafka import (
    alter_topic,
    create_topic,
    eventually,
    produce,
    read_all,
    unique_name,
)
from tests.support.oracle.judge import Expected, prove
from tests.support.pipelines.fixtures import MakePipeline
from tests.support.pipelines.pipeline import RUN_TIMEOUT, START_TIMEOUT, Pipeline, Run
from tests.support.records.sent_batches import CODECS, grown_values, make_batch, send_batches

pytestmark = pytest.mark.proof
FINDINGS = 1
TYPES = ("uncompressed", "lz4", "producer", "gzip")
LIMIT = "100000"


def pairs(source: KafkaNode, target: KafkaNode, name: str = "plain") -> list[str]:
    """Topics of every codec for every kind of target, with batches of 200 kB uncompressed."""
    topics: list[str] = []
    for codec in CODECS:
        for kind in TYPES:
            topic = unique_name(f"{codec}-to-{kind}-{name}")
            create_topic(source, topic)
            create_topic(
                target, topic, config={"compression.type": kind, "max.message.bytes": LIMIT}
            )
            send(source, topic, codec, range(8))
            topics.append(topic)
    return topics


def send(node: KafkaNode, topic: str, codec: str, seeds: range) -> None:
    # Each codec gets what it can make small, and what it cannot, in turn.
    made = [grown_values(seed, ratio=20 if seed % 4 else 2) for seed in seeds]
    send_batches(node, topic, [make_batch(values, codec) for values in made])


def two_megabytes(source: KafkaNode, target: KafkaNode) -> list[str]:
    """Topics with batches of 100 kB that are 2 MB uncompressed, and Kafka's default limits."""
    topics = []
    for kind in TYPES:
        topic = unique_name(f"two-megabytes-to-{kind}")
        create_topic(source, topic)
        create_topic(target, topic, config={"compression.type": kind})
        batches = [make_batch(grown_values(seed, 1_000), "zstd") for seed in range(3)]
        assert all(90_000 < len(batch) < 130_000 for batch in batches)
        send_batches(source, topic, batches)
        topics.append(topic)
    return topics


def expect_no_repeats(run: Run) -> None:
    """No partition has stopped, and no lap was repeated."""
    assert not run.events("stopped")
    assert "rejected" not in run.tail(1000), "no lap had to be repeated"


HEADERS: list[Any] = [{"topics": ".*-headers-.*", "add": {"site": "east"}}]
TRANSFORM: list[Any] = [{"topics": ".*-transform-.*", "filter": "true"}]


# Spark plans transforms at each start, and each topic is written to six times.
@pytest.mark.timeout(6 * START_TIMEOUT)
def test_every_codec_onto_every_kind_of_target(
    make_pipeline: MakePipeline, source: KafkaNode, target: KafkaNode
) -> None:
    """As it is, rebuilt, and transformed, each with topics of its own in one pipeline.

    Then workers are killed while batches are halved. A record that is too large alone stops its
    partition, until the limit is raised.
    """
    names = ("plain", "headers", "transform")
    plain, headers, transform = (pairs(source, target, name) for name in names)
    *larges, other = small_targets(source, target, *(f"large-{name}-of" for name in names), "other")
    topics = [*plain, *headers, *transform, *two_megabytes(source, target), *larges, other]
    rules = {"replication.headers": HEADERS, "replication.transform": TRANSFORM}
    pipeline = make_pipeline(topics, rules)
    run = pipeline.start()
    eventually(lambda: pipeline.is_caught_up(*topics), lambda: f"copied\n{run.tail()}", RUN_TIMEOUT)
    expect_no_repeats(run)
    kill_while_halving(pipeline, plain)
    copy_too_large(pipeline, run, larges, other)
    pipeline.end(run)
    prove(source, target, pipeline.name, *map(with_headers, topics))


def small_targets(source: KafkaNode, target: KafkaNode, *names: str) -> list[str]:
    """Topics whose targets take 50 kB, as they are uncompressed."""
    topics = [unique_name(name) for name in names]
    for topic in topics:
        create_topic(source, topic)
        config = {"compression.type": "uncompressed", "max.message.bytes": "50000"}
        create_topic(target, topic, config=config)
    return topics


def kill_while_halving(pipeline: Pipeline, topics: list[str]) -> None:
    steps = ("halved", "sent", "before-state", "halved", "before-commit")
    for number, step in enumerate(steps):
        # Each topic gets batches that are halved further in the lap that is killed.
        pipeline.arm(step)
        for topic in topics:
            alter_topic(pipeline.target, topic, max_message_bytes=str(40_000 >> number))
            codec, seeds = topic.partition("-")[0], range(10 * number, 10 * number + 2)
            send(pipeline.source, topic, codec, seeds)
        pipeline.await_hit(step)
    # Not that more is copied: on a busy machine, the rest may be there already.
    eventually(lambda: pipeline.is_caught_up(*topics), "all is copied", START_TIMEOUT)


def copy_too_large(pipeline: Pipeline, run: Run, larges: list[str], other: str) -> None:
    source, target = pipeline.source, pipeline.target
    before, after = grown_values(1, 60), grown_values(2, 60)
    (huge,) = grown_values(3, 1, 150_000)
    since = run.reported
    for large in larges:
        send_batches(source, large, [make_batch([*before, huge, *after], "zstd")])
    send_batches(source, other, [make_batch(grown_values(4, 200), "zstd")])
    for large in larges:
        expect_too_large(run, large)
    eventually(lambda: len(read_all(target, other)) == 200, "the other is copied")
    for large in larges:
        await_values(target, large, before)
        alter_topic(target, large, max_message_bytes="160000")
    for large in larges:
        run.expect("resumed", lambda e: e["topic"] == large, since=since)  # noqa: B023
        await_values(target, large, [*before, huge, *after])
        produce(source, large, [b"one more"])
        await_values(target, large, [*before, huge, *after, b"one more"])


def with_headers(topic: str) -> Expected | str:
    """What is expected of a topic, some of which get a header."""
    if "-headers-" not in topic:
        return topic
    return Expected(topic, headers=lambda sent: (*sent.headers, ("site", b"east")))


def test_every_codec_by_key_at_least_once(
    make_pipeline: MakePipeline, source: KafkaNode, target: KafkaNode
) -> None:
    """In transactions, the test above has batches that are rebuilt."""
    topics = pairs(source, target)
    settings = {"replication.sink.partition": "producer", "features.exactlyOnce": "disabled"}
    pipeline = make_pipeline(topics, settings)
    expect_no_repeats(pipeline.catch_up())
    prove(source, target, pipeline.name, *topics)


def test_by_key_a_record_that_is_too_large_alone_stops_its_partition(
    make_pipeline: MakePipeline, source: KafkaNode, target: KafkaNode
) -> None:
    """Until the limit is raised, as above; another topic is copied."""
    large, other = topics = small_targets(source, target, "large-by-key", "other")
    pipeline = make_pipeline(topics, {"replication.sink.partition": "producer"})
    pipeline.waits_briefly = True
    run = pipeline.start()
    copy_too_large(pipeline, run, [large], other)
    pipeline.end(run)
    prove(source, target, pipeline.name, *topics)


def expect_too_large(run: Run, large: str) -> None:
    event = run.expect("stopped", lambda event: reported(event, large, 0, "too-large"))
    said = event["fault"]["message"]
    assert f"{large}-0 on the target rejected {large}-0 at offset 60: a record of " in said
    assert "as sent and 150," in said and "uncompressed exceeds its max.message.bytes" in said
    assert "(compression.type uncompressed, max.message.bytes 50,000)" in said
    assert "compression.type to producer" in event["fault"]["hint"]


def await_values(node: KafkaNode, topic: str, values: list[bytes]) -> None:
    eventually(
        lambda: [record.value for record in read_all(node, topic)] == values,
        lambda: f"{topic} has {len(values)} records: {len(read_all(node, topic))}",
    )
