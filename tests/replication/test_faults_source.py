"""What may happen to a source topic or its target: the partition stops, or the copy continues."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from k2ktui.runtime.node import KafkaNode
from tests.replication.conftest import MakePipeline
from tests.support.drill_checks import alter_topic
from tests.support.kafka import (
    TIMEOUT,
    Out,
    admin,
    create_topic,
    end_offsets,
    eventually,
    produce,
    read_all,
    start_offsets,
)
from tests.support.kinds import delete_before
from tests.support.oracle import Expected, prove
from tests.support.pipeline import Run
from tests.support.traffic import mixture
from tests.support.verbs import k2ktui

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


@pytest.mark.parametrize("running", [True, False], ids=["running", "stopped"])
def test_a_source_topic_is_created_again(
    make_pipeline: MakePipeline, source: KafkaNode, target: KafkaNode, running: bool
) -> None:
    """Its partitions stop, whatever their offsets now mean; the others continue."""
    recreated, other = filled(source, 1, 2), filled(source, 2)
    before = read_all(source, recreated)
    pipeline = make_pipeline([recreated, other])
    if running:
        run = pipeline.start()
        run.expect("firstrecord")
    else:
        pipeline.catch_up()
    delete_topic(source, recreated)
    create_topic(source, recreated, partitions=2)
    produce(source, recreated, mixture(3, 500, 2))
    produce(source, other, mixture(4, 100, 1))
    if not running:
        run = pipeline.start("--until-caught-up")
        assert run.wait() == FINDINGS
    for partition in range(2):
        expect_stop(run, recreated, partition, "re-created", "gone")
    if running:
        expect_stop(run, recreated, 0, "re-created")
        eventually(lambda: len(read_all(target, other)) == 300, "the other continues")
        assert run.stop() == 0
    assert [got.value for got in read_all(target, recreated)] == [got.value for got in before]
    assert pipeline.catch_up(FINDINGS).events("finished")[0]["caught_up"] is False
    prove(source, target, pipeline.name, other)


def expect_stop(run: Run, topic: str, partition: int, *kinds: str) -> None:
    run.expect("stopped", lambda event: reported(event, topic, partition, *kinds))


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
    found = set()
    for line in run.err.read_text().splitlines():
        if '"k2k.consumer.source.position"' in line:
            found = {point["topic"] for point in json.loads(line)["points"]}
    return found


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
    """A finding, also for later runs, until somebody acknowledges it; the run goes on."""
    gone, other = filled(source, 1), filled(source, 2)
    create_topic(target, gone, 1, {"max.message.bytes": "20000"})
    produce(source, gone, [Out(random.Random(1).randbytes(100_000))])
    pipeline = make_pipeline(f"{gone}|{other}")
    file = pipeline.write()
    run = pipeline.start()
    run.expect("stopped", lambda e: reported(e, gone, 0, "too-large"))
    eventually(lambda: len(read_all(target, gone)) == 200, "what is before it was copied", 60)
    delete_topic(source, gone)
    run.expect("stopped", lambda e: reported(e, gone, 0, "gone"))
    said = k2ktui("watch", "-f", file, "--once")
    assert said.code == FINDINGS and f"offsets acknowledge -f FILE {gone}" in said.out
    assert run.stop() == 0
    run = pipeline.start()
    run.expect("stopped", lambda e: reported(e, gone, 0, "gone"))

    said = k2ktui("offsets", "acknowledge", "-f", file, gone, "--yes", "--json")
    assert said.code == 0, said.err
    assert [each["topic"] for each in said.json["partitions"]] == [gone]
    run.expect("note", lambda e: "not copied, acknowledged by" in e["text"])
    assert k2ktui("watch", "-f", file, "--once").code == 0
    [entry] = k2ktui("journal", "-f", file, "--json").json["journal"]
    assert entry["operation"] == "offsets acknowledge"
    produce(source, other, mixture(4, 100, 1))
    eventually(lambda: len(read_all(target, other)) == 300, "the other continues")
    assert run.stop() == 0
    assert not pipeline.catch_up().events("stopped")
    prove(source, target, pipeline.name, other)


@pytest.mark.parametrize("running", [True, False], ids=["running", "stopped"])
@pytest.mark.parametrize("policy", ["fail", "continue"])
def test_the_source_lost_records_before_they_were_copied(
    make_pipeline: MakePipeline, source: KafkaNode, target: KafkaNode, policy: str, running: bool
) -> None:
    lost, other = filled(source, 1), filled(source, 2)
    pipeline = make_pipeline([lost, other], {"onSourceDataLoss": policy})
    pipeline.catch_up()
    archived = read_all(source, lost)
    produce(source, lost, mixture(3, 100, 1), linger_ms=50)
    archived_too = read_all(source, lost)
    delete_before(source, lost, 251)
    produce(source, lost, mixture(4, 30, 1))
    run = pipeline.start() if running else pipeline.start("--until-caught-up")
    if policy == "fail":
        run.expect("stopped", lambda e: reported(e, lost, 0, "truncated"))
        produce(source, other, mixture(5, 10, 1))
        code = run.stop() if running else run.wait()
        assert code == (0 if running else FINDINGS)
        pipeline.catch_up(FINDINGS)
        prove(
            source,
            target,
            pipeline.name,
            other,
            *[],
        )
        assert len(read_all(target, lost)) == 200
        pipeline.settings = {"onSourceDataLoss": "continue"}
    elif running:
        eventually(lambda: len(read_all(target, lost)) == 279, "continues")
        assert run.stop() == 0
    else:
        assert run.wait() == 0
    pipeline.catch_up()
    expected = Expected(lost, archived=archived + archived_too)
    proof = prove(source, target, pipeline.name, expected, other)
    assert proof.position(lost)["gaps"] == [[200, 251, "truncated"]]
    assert len(read_all(target, lost)) == 279


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


@pytest.mark.parametrize("again", [True, False], ids=["created again", "gone"])
def test_the_target_topic_is_deleted(
    make_pipeline: MakePipeline, source: KafkaNode, target: KafkaNode, again: bool
) -> None:
    """It is not made again: the records that were in it would be missing."""
    gone, other = filled(source, 1), filled(source, 2)
    pipeline = make_pipeline([gone, other])
    run = pipeline.start()
    run.expect("firstrecord")
    delete_topic(target, gone)
    if again:
        create_topic(target, gone)
    produce(source, gone, mixture(3, 100, 1))
    produce(source, other, mixture(4, 100, 1))
    run.expect("stopped", lambda e: reported(e, gone, 0, "target-gone", "refused"))
    eventually(lambda: len(read_all(target, other)) == 300, "the other continues")
    assert run.stop() == 0
    prove(source, target, pipeline.name, other)
    again_run = pipeline.catch_up(FINDINGS)
    print(again_run.tail())
    prove(source, target, pipeline.name, other)
    if again:
        assert read_all(target, gone) == []
