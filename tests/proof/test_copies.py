"""What a copy keeps with settings of all kinds; ``tests/matrix`` has every kind of topic."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from typing import Any

import pytest

from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import (
    TIMEOUT,
    Got,
    Headers,
    Out,
    await_stable,
    create_topic,
    eventually,
    open_transaction,
    produce,
    produce_transaction,
    read_all,
    unique_name,
)
from tests.support.oracle.judge import Expected, by_key, prove
from tests.support.pipelines.fixtures import MakePipeline
from tests.support.pipelines.pipeline import catch_up_together
from tests.support.records.kinds import make_all
from tests.support.records.traffic import mixture

pytestmark = pytest.mark.proof


@pytest.fixture(scope="module")
def kinds(clusters: tuple[KafkaNode, KafkaNode]) -> dict[str, str]:
    """One topic of every kind on the source; nothing writes to them any more."""
    return make_all(clusters[0].start(), unique_name("kinds"))


def test_headers_dropped_and_added_and_new_times(
    make_pipeline: MakePipeline, kinds: dict[str, str]
) -> None:
    """Partitions by key; the test of rules has those of the source."""
    prefix = unique_name("headers") + "."
    topics = [kinds[kind] for kind in ("mixed", "transactions", "lz4", "compacted", "append-time")]
    pipeline = make_pipeline(
        topics,
        {
            "features.headerReplication": "disabled",
            "features.tracingHeaders": "enabled",
            "features.keepRecordCreationTimestamp": "disabled",
            "replication.sink.topic": {"prefix": prefix},
            "replication.sink.partition": "producer",
            "topicCreation.replication.common": {"partitions": 3},
            "target.kafka.topicPropsExclusionList": ["cleanup.policy"],
        },
    )
    before = time.time() * 1000
    pipeline.catch_up()

    def traced(topic: str) -> Any:
        def headers(sent: Got) -> Headers:
            return (
                ("__k2k_topic", topic.encode()),
                ("__k2k_partition", b"%d" % sent.partition),
                ("__k2k_offset", b"%d" % sent.offset),
                ("__k2k_pipeline", pipeline.name.encode()),
            )

        return headers

    expected = [
        Expected(t, prefix + t, partition=by_key(3), headers=traced(t), timestamps=False)
        for t in topics
    ]
    prove(pipeline.source, pipeline.target, pipeline.name, *expected)
    stamps = [got.timestamp for got in read_all(pipeline.target, prefix + kinds["lz4"])]
    assert before <= min(stamps) <= max(stamps) <= time.time() * 1000


def test_exactly_once_disabled(make_pipeline: MakePipeline, kinds: dict[str, str]) -> None:
    prefix = unique_name("plain") + "."
    pipeline = make_pipeline(
        list(kinds.values()),
        {
            "features.exactlyOnce": "disabled",
            "replication.sink.topic": {"prefix": prefix},
            "target.kafka.topicPropsExclusionList": ["cleanup.policy"],
        },
    )
    pipeline.catch_up()
    pipeline.catch_up()  # nothing is copied twice
    expected = [Expected(t, prefix + t) for t in kinds.values()]
    prove(pipeline.source, pipeline.target, pipeline.name, *expected)


def test_without_a_mapping(make_pipeline: MakePipeline, kinds: dict[str, str]) -> None:
    prefix = unique_name("unmapped") + "."
    topics = [kinds["mixed"], kinds["transactions"], kinds["compacted"]]
    pipeline = make_pipeline(
        topics,
        {
            "features.offsetMapping": "disabled",
            "replication.sink.topic": {"prefix": prefix},
            "target.kafka.topicPropsExclusionList": ["cleanup.policy"],
        },
    )
    pipeline.catch_up()
    expected = [Expected(t, prefix + t, mapped=False) for t in topics]
    proof = prove(pipeline.source, pipeline.target, pipeline.name, *expected)
    assert proof.records > 1500


def test_two_pipelines_share_the_control_topics(
    make_pipeline: MakePipeline, kinds: dict[str, str]
) -> None:
    """Side by side, with a commit partition a slot; each finds its own positions only.

    Both have a rule for the headers of one topic.
    """
    topics = [kinds["mixed"], kinds["transactions"]]
    rule = {
        "topics": re.escape(kinds["mixed"]),
        "drop": ["dropped"],
        "rename": {"(.*)ed": "$1ing"},
        "add": {"site": "east"},
        "tracing": {"offset": "from"},
    }
    own = (("dropped", b"1"), ("changed", None), ("kept", b"3"), ("changed", b"4"))
    controls = {
        "coordination.commit.topic": unique_name("commits"),
        "offsetMapping.topic": unique_name("mappings"),
    }
    shared = {
        **controls,
        "features.optimizeOffsetCommitPartition": "disabled",
        "replication.headers": [rule],
    }
    prefixes = [unique_name("one") + ".", unique_name("two") + "."]
    pair = [
        make_pipeline(topics, shared | {"replication.sink.topic": {"prefix": p}}) for p in prefixes
    ]
    produce(pair[0].source, kinds["mixed"], [Out(b"v", b"k", 0, own), Out(None, b"k", 0)])
    catch_up_together(*pair)
    pair[0].settings = {**pair[0].settings, "spark.slots": 3}
    pair[0].catch_up()

    def headers(sent: Got) -> Headers:
        kept = [(name, value) for name, value in sent.headers if name != "dropped"]
        renamed = [("changing" if name == "changed" else name, value) for name, value in kept]
        return (*renamed, ("site", b"east"), ("from", b"%d" % sent.offset))

    for pipeline, prefix in zip(pair, prefixes, strict=True):
        mixed, transactions = (Expected(topic, prefix + topic) for topic in topics)
        prove(
            pipeline.source,
            pipeline.target,
            pipeline.name,
            replace(mixed, headers=headers),
            transactions,
            commit_topic=controls["coordination.commit.topic"],
            mapping_topic=controls["offsetMapping.topic"],
        )
        copied = [got.headers for got in read_all(pipeline.target, prefix + kinds["mixed"])]
        wanted = (("changing", None), ("kept", b"3"), ("changing", b"4"), ("site", b"east"))
        assert wanted in [headers[:-1] for headers in copied]


def test_several_topics_with_open_transactions_into_one_that_has_records(
    make_pipeline: MakePipeline, source: KafkaNode, target: KafkaNode
) -> None:
    """Nothing behind what is open is copied until it is decided; then what was committed is."""
    topics = [create_topic(source, partitions=n) for n in (1, 2, 3)]
    for seed, topic in enumerate(topics):
        produce(source, topic, mixture(seed, 400, seed + 1))
        produce_transaction(source, topic, mixture(seed + 9, 40, seed + 1), commit=False)
    opened = []
    for topic in topics[:2]:
        opened.append(open_transaction(source, topic, mixture(2, 50, 1)))
        produce(source, topic, mixture(3, 50, 1))
    name = create_topic(target, partitions=3)
    produce(target, name, mixture(40, 100, 3))
    produce_transaction(target, name, mixture(41, 20, 3))
    prior = read_all(target, name)
    pipeline = make_pipeline(topics, {"replication.sink.topic": {"static": name}})
    expected = [Expected(topic, name) for topic in topics]

    def copied() -> int:
        return prove(source, target, pipeline.name, *expected, native={name: prior}).records

    with pipeline.start() as run:
        run.expect("started")
        eventually(lambda: pipeline.is_caught_up(*topics), "copied what it can")
        assert copied() == 3 * 400
        opened[0].commit_transaction(TIMEOUT)
        opened[1].abort_transaction(TIMEOUT)
        for topic in topics[:2]:
            await_stable(source, topic)
        pipeline.end(run)
    assert copied() == 3 * 400 + 50 + 2 * 50


def test_scattered_beyond_one_mapping_record(
    make_pipeline: MakePipeline, source: KafkaNode, target: KafkaNode
) -> None:
    """One transaction whose mapping is larger than a record may be."""
    topic = create_topic(source)
    produce(source, topic, [Out(b"", b"%d" % (i % 97)) for i in range(150_000)], linger_ms=20)
    pipeline = make_pipeline(
        [topic],
        {
            "replication.sink.partition": "producer",
            "topicCreation.replication.common": {"partitions": 5},
            "coordination.commit.batchTimeout": "20 seconds",
        },
    )
    pipeline.catch_up()
    expected = Expected(topic, partition=by_key(5))
    assert prove(source, target, pipeline.name, expected).records == 150_000
