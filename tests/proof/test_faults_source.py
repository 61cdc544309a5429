"""What may happen to a source topic or its target: the partition stops, or the copy continues."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import (
    TIMEOUT,
    Out,
    admin,
    create_topic,
    delete_before,
    end_offsets,
    eventually,
    produce,
    read_all,
    start_offsets,
)
from tests.support.commands.verbs import k2ktui
from tests.support.drill.checks import alter_topic
from tests.support.oracle.judge import Expected, prove
from tests.support.pipelines.fixtures import MakePipeline
from tests.support.pipelines.pipeline import Run
from tests.support.records.traffic import mixture

pytestmark = pytest.mark.proof
FINDINGS = 1


def delete_topic(node: KafkaNode, topic: str) -> None:
    with_admin = admin(node)
    with_admin.delete_topics([topic])[topic].result(TIMEOUT)
    eventually(lambda: topic not in with_admin.list_topics(timeout=TIMEOUT).topics, "deleted")


def filled(node: KafkaNode, seed: int = 1, partitions: int = 1) -> str:
    topic = create_topic(node, partitions=partitions)
    produce(node, topic, mixture(seed, 200, partitions))
    return topic


def test_a_source_topic_is_created_again(
    make_pipeline: MakePipeline, source: KafkaNode, target: KafkaNode
) -> None:
    """Its partitions stop, whatever their offsets now mean; the others continue.

    One topic while it is copied, another one while no run is there.
    """
    running, stopped, other = filled(source, 1, 2), filled(source, 1, 2), filled(source, 2)
    before = {topic: read_all(source, topic) for topic in (running, stopped)}

    def create_again(topic: str, more: int) -> None:
        delete_topic(source, topic)
        create_topic(source, topic, partitions=2)
        produce(source, topic, mixture(3, 500, 2))
        produce(source, other, mixture(more, 100, 1))

    pipeline = make_pipeline([running, stopped, other])
    pipeline.catch_up()
    run = pipeline.start()
    run.expect("started")
    create_again(running, 4)
    for partition in range(2):
        expect_stop(run, running, partition, "re-created", "gone")
    expect_stop(run, running, 0, "re-created")
    eventually(lambda: len(read_all(target, other)) == 300, "the other continues")
    assert run.stop() == 0
    create_again(stopped, 5)
    run = pipeline.catch_up(FINDINGS)
    for topic in (running, stopped):
        for partition in range(2):
            expect_stop(run, topic, partition, "re-created")
        copied = [got.value for got in read_all(target, topic)]
        assert copied == [got.value for got in before[topic]]
    assert run.events("finished")[0]["caught_up"] is False
    prove(source, target, pipeline.name, other)


def expect_stop(run: Run, topic: str, partition: int, *kinds: str) -> None:
    run.expect("stopped", lambda event: reported(event, topic, partition, *kinds))


def await_copied(target: KafkaNode, topic: str, count: int) -> None:
    eventually(lambda: len(read_all(target, topic)) == count, f"{topic} has {count} records", 120)


def reported(event: dict[str, Any], topic: str, partition: int, *kinds: str) -> bool:
    fault = event["fault"]
    where = fault["source"]
    assert fault["message"] and fault["hint"]
    return (where["topic"], where["partition"]) == (topic, partition) and fault["kind"] in kinds


def test_a_source_topic_is_deleted(
    make_pipeline: MakePipeline, source: KafkaNode, target: KafkaNode
) -> None:
    """It is selected by name, so it is missed."""
    gone, other = filled(source, 1), filled(source, 2)
    pipeline = make_pipeline([gone, other])
    run = pipeline.start()
    run.expect("firstrecord")
    delete_topic(source, gone)
    run.expect("stopped", lambda e: reported(e, gone, 0, "gone"))
    produce(source, other, mixture(4, 100, 1))
    eventually(lambda: len(read_all(target, other)) == 300, "the other continues")
    assert run.stop() == 0
    prove(source, target, pipeline.name, other)


def measured_topics(run: Run) -> set[str]:
    """Return the topics that have a position in the last collection of metrics."""
    measured_topics = set()
    for line in run.err.read_text().splitlines():
        if '"k2k.consumer.source.position"' in line:
            measured_topics = {point["topic"] for point in json.loads(line)["points"]}
    return measured_topics


def test_a_topic_that_a_pattern_selects_is_deleted(
    make_pipeline: MakePipeline, source: KafkaNode, target: KafkaNode
) -> None:
    """All of it was copied: a note, no fault, no metrics, nothing to see for watch."""
    gone, other = filled(source, 1), filled(source, 2)
    pipeline = make_pipeline(f"{gone}|{other}")
    often = {"OTEL_METRICS_EXPORTER": "console", "OTEL_METRIC_EXPORT_INTERVAL": "500"}
    run = pipeline.start(env=often)
    eventually(lambda: len(read_all(target, gone)) == 200, "copied", 120)
    eventually(lambda: measured_topics(run) == {gone, other}, "measured", 60)
    delete_topic(source, gone)
    run.expect("note", lambda e: "1 topic deleted on the source" in e["text"] and gone in e["text"])
    eventually(lambda: measured_topics(run) == {other}, "it has no series", 60)
    said = k2ktui("watch", "-f", pipeline.write(), "--once")
    assert said.code == 0, said.out
    assert f"1 topic deleted on the source, no longer copied: {gone}" in said.out
    produce(source, other, mixture(4, 100, 1))
    eventually(lambda: len(read_all(target, other)) == 300, "the other continues")
    assert run.stop() == 0
    assert not run.events("stopped")
    assert not pipeline.catch_up().events("stopped")
    prove(source, target, pipeline.name, other)


def test_a_topic_is_deleted_before_all_of_it_was_copied(
    make_pipeline: MakePipeline, source: KafkaNode, target: KafkaNode
) -> None:
    """A finding, also for later runs, until somebody acknowledges it; the run goes on.

    Where no run was there, the last position says where the topic ended.
    """
    running, stopped, other = filled(source, 1), filled(source, 1), filled(source, 2)
    for topic in (running, stopped):
        create_topic(target, topic, 1, {"max.message.bytes": "20000"})
        produce(source, topic, [Out(random.Random(1).randbytes(100_000))])
    pipeline = make_pipeline(f"{running}|{stopped}|{other}")
    file = pipeline.write()

    def expect_gone(run: Run, topic: str) -> None:
        run.expect("stopped", lambda e: reported(e, topic, 0, "gone"))
        said = k2ktui("watch", "-f", file, "--once")
        assert said.code == FINDINGS and f"offsets acknowledge -f FILE {topic}" in said.out

    run = pipeline.start()
    for topic in (running, stopped):
        expect_stop(run, topic, 0, "too-large")
        await_copied(target, topic, 200)
    delete_topic(source, running)
    expect_gone(run, running)
    assert run.stop() == 0
    delete_topic(source, stopped)
    run = pipeline.start()
    for number, topic in enumerate((running, stopped), 1):
        expect_gone(run, topic)
        since = run.reported
        said = k2ktui("offsets", "acknowledge", "-f", file, topic, "--yes", "--json")
        assert said.code == 0, said.err
        assert [partition["topic"] for partition in said.json["partitions"]] == [topic]
        run.expect("note", lambda e: "not copied, acknowledged by" in e["text"], since=since)
        journal = k2ktui("journal", "-f", file, "--json").json["journal"]
        assert [entry["operation"] for entry in journal] == ["offsets acknowledge"] * number
    assert k2ktui("watch", "-f", file, "--once").code == 0
    produce(source, other, mixture(4, 100, 1))
    eventually(lambda: len(read_all(target, other)) == 300, "the other continues")
    assert run.stop() == 0
    assert not pipeline.catch_up().events("stopped")
    prove(source, target, pipeline.name, other)


def test_the_source_lost_records_before_they_were_copied(
    make_pipeline: MakePipeline, source: KafkaNode, target: KafkaNode
) -> None:
    """Both policies, each with a run that goes on and one that ends when it has caught up."""
    first, second, other = filled(source, 1), filled(source, 1), filled(source, 2)
    pipeline = make_pipeline([first, second, other], {"onSourceDataLoss": "fail"})
    pipeline.catch_up()
    archived = {topic: read_all(source, topic) for topic in (first, second)}

    def lose(topic: str) -> None:
        produce(source, topic, mixture(3, 100, 1), linger_ms=50)
        archived[topic] += read_all(source, topic)
        delete_before(source, topic, 251)
        produce(source, topic, mixture(4, 30, 1))

    lose(first)
    run = pipeline.start()
    run.expect("stopped", lambda e: reported(e, first, 0, "truncated"))
    produce(source, other, mixture(5, 10, 1))
    eventually(lambda: len(read_all(target, other)) == 210, "the other continues")
    assert run.stop() == 0
    run = pipeline.catch_up(FINDINGS)
    assert any(reported(event, first, 0, "truncated") for event in run.events("stopped"))
    prove(source, target, pipeline.name, other)
    assert len(read_all(target, first)) == 200

    pipeline.settings = {"onSourceDataLoss": "continue"}
    pipeline.catch_up()
    assert len(read_all(target, first)) == 279
    lose(second)
    run = pipeline.start()
    eventually(lambda: len(read_all(target, second)) == 279, "continues")
    assert run.stop() == 0
    pipeline.catch_up()
    expected = [Expected(topic, archived=records) for topic, records in archived.items()]
    proof = prove(source, target, pipeline.name, *expected, other)
    for topic in archived:
        assert proof.position(topic)["gaps"] == [[200, 251, "truncated"]]
        assert len(read_all(target, topic)) == 279


def test_retention_deletes_while_copying(
    make_pipeline: MakePipeline, source: KafkaNode, target: KafkaNode
) -> None:
    """The log start runs after the position repeatedly."""
    topic = filled(source)
    pipeline = make_pipeline([topic], {"onSourceDataLoss": "continue"})
    run = pipeline.start()
    run.expect("firstrecord")
    dice = random.Random(3)
    archive: list[Any] = []
    for seed in range(25):
        produce(source, topic, mixture(seed, 200, 1), linger_ms=20)
        archive += read_all(source, topic)
        end = end_offsets(source, topic)[0]
        delete_before(source, topic, end - dice.randrange(150))
    assert run.stop() == 0
    pipeline.catch_up()
    proof = prove(source, target, pipeline.name, Expected(topic, archived=archive))
    assert start_offsets(source, topic)[0] > 4000
    print(proof.position(topic), proof.records)


@pytest.mark.parametrize("partition", ["source", "producer"])
def test_a_record_too_large_for_the_target(
    make_pipeline: MakePipeline, source: KafkaNode, target: KafkaNode, partition: str
) -> None:
    """Its partition stops before it and says what to raise; batches that can be split are."""
    config = {"max.message.bytes": "1000000"}
    large, split, other = (create_topic(source, config=config) for _ in range(3))
    for topic in (large, split, other):
        create_topic(target, topic, config={"max.message.bytes": "20000"})
    noise = random.Random(1)
    produce(source, large, mixture(1, 50, 1))
    produce(source, large, [noise.randbytes(50_000)])
    produce(source, large, mixture(2, 50, 1))
    produce(source, split, [noise.randbytes(9_000) for _ in range(100)], linger_ms=100)
    produce(source, other, mixture(3, 50, 1))
    pipeline = make_pipeline([large, split, other], {"replication.sink.partition": partition})
    run = pipeline.catch_up(FINDINGS)
    run.expect("stopped", lambda e: reported(e, large, 0, "too-large") and "max.message" in str(e))
    prove(source, target, pipeline.name, split, other)
    alter_topic(target, large, max_message_bytes="1000000")
    pipeline.catch_up()
    prove(source, target, pipeline.name, large, split, other)


def test_the_target_topic_is_deleted(
    make_pipeline: MakePipeline, source: KafkaNode, target: KafkaNode
) -> None:
    """It is not made again, as the records that were in it would be missing; nor is it continued
    when somebody else does.
    """
    gone, again, other = filled(source, 1), filled(source, 1), filled(source, 2)
    pipeline = make_pipeline([gone, again, other])
    pipeline.catch_up()
    run = pipeline.start()
    run.expect("started")
    for topic in (gone, again):
        delete_topic(target, topic)
    create_topic(target, again)
    for topic in (gone, again):
        produce(source, topic, mixture(3, 100, 1))
    produce(source, other, mixture(4, 100, 1))
    for topic in (gone, again):
        expect_stop(run, topic, 0, "target-gone", "refused")
    eventually(lambda: len(read_all(target, other)) == 300, "the other continues")
    assert run.stop() == 0
    prove(source, target, pipeline.name, other)
    run = pipeline.catch_up(FINDINGS)
    for topic in (gone, again):
        expect_stop(run, topic, 0, "target-gone", "refused")
    prove(source, target, pipeline.name, other)
    assert read_all(target, again) == []
    assert gone not in admin(target).list_topics(timeout=TIMEOUT).topics
