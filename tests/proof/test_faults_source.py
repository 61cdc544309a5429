"""What may happen to a source topic or its target: the partition stops, or the copy continues."""

from __future__ import annotations

import json
import random
import signal
from typing import Any

import pytest

from k2ktui.errors import ExitCode
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import (
    TIMEOUT,
    Out,
    admin,
    alter_topic,
    create_topic,
    delete_before,
    delete_topic,
    end_offsets,
    eventually,
    produce,
    read_all,
    start_offsets,
    unique_name,
)
from tests.support.commands.verbs import k2ktui
from tests.support.oracle.judge import Expected, prove
from tests.support.pipelines.fixtures import MakePipeline
from tests.support.pipelines.pipeline import START_TIMEOUT, Run
from tests.support.records.traffic import mixture

pytestmark = pytest.mark.proof
FINDINGS = 1


def filled(node: KafkaNode, seed: int = 1, partitions: int = 1) -> str:
    topic = create_topic(node, partitions=partitions)
    produce(node, topic, mixture(seed, 200, partitions))
    return topic


def expect_stop(run: Run, topic: str, partition: int, *kinds: str) -> None:
    run.expect("stopped", lambda event: reported(event, topic, partition, *kinds))


def await_copied(target: KafkaNode, topic: str, count: int) -> None:
    what = f"{topic} has {count} records"
    eventually(lambda: len(read_all(target, topic)) == count, what, START_TIMEOUT)


def reported(event: dict[str, Any], topic: str, partition: int, *kinds: str) -> bool:
    fault = event["fault"]
    where = fault["source"]
    assert fault["message"] and fault["hint"]
    return (where["topic"], where["partition"]) == (topic, partition) and fault["kind"] in kinds


def test_topics_are_deleted_created_again_cut_or_refuse_a_record(
    make_pipeline: MakePipeline, source: KafkaNode, target: KafkaNode
) -> None:
    """On the source or on the target; their partitions stop, whatever their offsets now mean.

    The others continue. On the source, one topic each while it is copied, and while no run is
    there. A topic that is selected by name is missed. A target topic is not made again, as the
    records that were in it would be missing; nor is it continued when somebody else does. Before a
    record that is too large for the target its partition stops, and says what to raise; batches
    that can be split are. Where the source lost records before they were copied, the partition
    stops, or goes on by the other policy, however often its log start runs after its position.
    """
    running, stopped = filled(source, 1, 2), filled(source, 1, 2)
    gone, missing, replaced, other = (filled(source, seed) for seed in (1, 1, 1, 2))
    large, split = unique_name("large"), unique_name("split")
    for topic in (large, split):
        create_topic(source, topic, config={"max.message.bytes": "1000000"})
        create_topic(target, topic, config={"max.message.bytes": "20000"})
    before = {topic: read_all(source, topic) for topic in (running, stopped)}
    first, second, expiring = cut = [filled(source, 1) for _ in range(3)]
    names = [running, stopped, gone, missing, replaced, large, split, other, *cut]
    pipeline = make_pipeline(names, {"onSourceDataLoss": "fail"})
    pipeline.catch_up()
    archived = {topic: read_all(source, topic) for topic in cut}

    def lose(topic: str) -> None:
        produce(source, topic, mixture(3, 100, 1), linger_ms=50)
        archived[topic] += read_all(source, topic)
        delete_before(source, topic, 251)
        produce(source, topic, mixture(4, 30, 1))

    noise = random.Random(1)
    produce(source, large, mixture(1, 50, 1))
    produce(source, large, [noise.randbytes(50_000)])
    produce(source, large, mixture(2, 50, 1))
    produce(source, split, [noise.randbytes(9_000) for _ in range(100)], linger_ms=100)
    lose(first)
    run = pipeline.start()
    run.expect("started")
    create_again(source, running)
    delete_topic(source, gone)
    for topic in (missing, replaced):
        delete_topic(target, topic)
    create_topic(target, replaced)
    for topic in (missing, replaced, other):
        produce(source, topic, mixture(4, 100, 1))

    def expect_all(run: Run, *meanwhile: str) -> None:
        for partition in range(2):
            expect_stop(run, running, partition, "re-created", *meanwhile)
        expect_stop(run, running, 0, "re-created")
        expect_stop(run, gone, 0, "gone")
        for topic in (missing, replaced):
            expect_stop(run, topic, 0, "target-gone", "refused")
        run.expect(
            "stopped", lambda e: reported(e, large, 0, "too-large") and "max.message" in str(e)
        )
        run.expect("stopped", lambda e: reported(e, first, 0, "truncated"))

    expect_all(run, "gone")
    await_copied(target, other, 300)
    await_copied(target, split, 100)
    run.signal(signal.SIGINT)  # which decides, whatever has stopped
    assert run.wait() == ExitCode.INTERRUPTED, run.tail()

    create_again(source, stopped)
    produce(source, other, mixture(5, 100, 1))
    run = pipeline.catch_up(FINDINGS)
    expect_all(run)
    for partition in range(2):
        expect_stop(run, stopped, partition, "re-created")
    assert run.events("finished")[0]["caught_up"] is False
    for topic in (running, stopped):
        copied = [got.value for got in read_all(target, topic)]
        assert copied == [got.value for got in before[topic]]
    assert read_all(target, replaced) == []
    assert missing not in admin(target).list_topics(timeout=TIMEOUT).topics
    assert len(read_all(target, first)) == 200
    prove(source, target, pipeline.name, split, other)

    pipeline.settings = {"onSourceDataLoss": "continue"}
    alter_topic(target, large, max_message_bytes="1000000")
    lose(second)
    run = pipeline.start()
    run.expect("started")
    for topic in (first, second):
        await_copied(target, topic, 279)
    dice = random.Random(3)
    for seed in range(25):
        produce(source, expiring, mixture(seed, 200, 1), linger_ms=20)
        archived[expiring] += read_all(source, expiring)
        delete_before(source, expiring, end_offsets(source, expiring)[0] - dice.randrange(150))
    assert run.stop() == 0
    assert stopped_topics(run).isdisjoint(cut), "they go on"
    end = end_offsets(source, expiring)[0]
    produce(source, expiring, mixture(30, 20, 1))
    archived[expiring] += read_all(source, expiring)
    delete_before(source, expiring, end + 5)
    run = pipeline.catch_up(FINDINGS)
    assert stopped_topics(run).isdisjoint(cut), "they go on"
    expected = [Expected(topic, archived=records) for topic, records in archived.items()]
    proof = prove(source, target, pipeline.name, *expected, large, split, other)
    for topic in (first, second):
        assert proof.position(topic)["gaps"] == [[200, 251, "truncated"]]
        assert len(read_all(target, topic)) == 279
    assert start_offsets(source, expiring)[0] > 4000


def stopped_topics(run: Run) -> set[str]:
    return {event["fault"]["source"]["topic"] for event in run.events("stopped")}


def create_again(node: KafkaNode, topic: str) -> None:
    delete_topic(node, topic)
    create_topic(node, topic, partitions=2)
    produce(node, topic, mixture(3, 500, 2))


def measured_topics(run: Run) -> set[str]:
    """Return the topics that have a position in the last collection of metrics."""
    measured_topics = set()
    text = run.err.read_text()  # of which the last line may not be whole
    for line in text[: text.rfind("\n") + 1].splitlines():
        if '"k2k.consumer.source.position"' in line:
            measured_topics = {point["topic"] for point in json.loads(line)["points"]}
    return measured_topics


def test_topics_that_a_pattern_selects_are_deleted(
    make_pipeline: MakePipeline, source: KafkaNode, target: KafkaNode
) -> None:
    """All of one was copied: a note, no fault, no metrics, nothing to see for watch.

    Else it is a finding, also for later runs, until somebody acknowledges it; the run goes on.
    Where no run was there, the last position says where the topic ended.
    """
    copied, running, stopped = (filled(source, 1) for _ in range(3))
    other = filled(source, 2)
    for topic in (running, stopped):
        create_topic(target, topic, 1, {"max.message.bytes": "20000"})
        produce(source, topic, [Out(random.Random(1).randbytes(100_000))])
    pipeline = make_pipeline(f"{copied}|{running}|{stopped}|{other}")
    file = pipeline.write()

    def await_watch(code: int, text: str = "") -> None:
        """Wait until the run's heartbeats say so, which come after its events."""

        def says() -> bool:
            said = k2ktui("watch", "-f", file, "--once")
            return said.code == code and text in said.out

        eventually(says, f"watch ends with {code}, and says: {text}")

    def expect_gone(run: Run, topic: str) -> None:
        run.expect("stopped", lambda e: reported(e, topic, 0, "gone"))
        await_watch(FINDINGS, f"offsets acknowledge -f FILE {topic}")

    often = {"OTEL_METRICS_EXPORTER": "console", "OTEL_METRIC_EXPORT_INTERVAL": "500"}
    run = pipeline.start(env=often)
    for topic in (running, stopped):
        expect_stop(run, topic, 0, "too-large")
    for topic in (copied, running, stopped):
        await_copied(target, topic, 200)
    eventually(lambda: {copied, other} <= measured_topics(run), "measured")
    delete_topic(source, copied)
    note = "1 topic deleted on the source"
    run.expect("note", lambda e: note in e["text"] and copied in e["text"])
    eventually(lambda: copied not in measured_topics(run), "it has no series")
    await_watch(FINDINGS, f"{note}, no longer copied: {copied}")
    assert not [e for e in run.events("stopped") if reported(e, copied, 0, "gone")]
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
    await_watch(0)
    produce(source, other, mixture(4, 100, 1))
    await_copied(target, other, 300)
    assert run.stop() == 0
    assert not pipeline.catch_up().events("stopped")
    prove(source, target, pipeline.name, other)
