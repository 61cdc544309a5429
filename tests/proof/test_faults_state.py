"""Control topics of the target that reject what a slot writes: who stops, who continues."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AclOperation

from k2ktui.engine.records.state import MappingRecord, SourcePartition, mapping_key
from k2ktui.replication.copying.slot_task import StateTopics
from k2ktui.runtime.node import KafkaNode
from tests.spark.replication.test_least_rights import target_grants
from tests.support.clusters.kafka import (
    Out,
    alter_topic,
    create_topic,
    eventually,
    produce,
    unique_name,
)
from tests.support.clusters.secure import SecureNode
from tests.support.oracle.judge import Expected, by_key, prove
from tests.support.pipelines.fixtures import MakePipeline
from tests.support.pipelines.pipeline import Event, Pipeline, Run

pytestmark = pytest.mark.proof
FINDINGS = 1
MAPPING_PARTITIONS, TARGET_PARTITIONS = 2, 3
# Mappings of a few records fit, and so do the markers of transactions.
SMALL, LARGE = "2000", "1000000"
# Keys scatter them: their mapping is longer than that.
SCATTERED = [Out(b"%d" % number, b"k%d" % number) for number in range(4000)]
KEYS = by_key(TARGET_PARTITIONS)
NO_START = "looking for new topics: writing to"


def mapping_partition(pipeline: Pipeline, topic: str) -> int:
    at = StateTopics(pipeline.name, pipeline.name, 1, "c", 0, "m", MAPPING_PARTITIONS)
    record = MappingRecord(pipeline.name, SourcePartition(topic, 0), "", 0)
    return at.mapping_target(mapping_key(record))[1]


def is_of(topic: str) -> Callable[[Event], bool]:
    """Return whether an event is of a topic."""

    def holds(event: Event) -> bool:
        name: str = event.get("topic") or event["fault"]["source"]["topic"]
        return name == topic

    return holds


def expect_stopped(run: Run, *topics: str, kind: str = "refused", since: int = 0) -> list[Event]:
    """Wait until these topics, and no others, have stopped with a fault that is retried."""
    for topic in topics:
        run.expect("stopped", is_of(topic), since=since)
    stopped = stopped_faults(run, since)
    assert {fault["source"]["topic"] for fault in stopped} == {*topics}
    assert {fault["kind"] for fault in stopped} == {kind}
    assert all("retried automatically" in fault["hint"] for fault in stopped)
    return stopped


def stopped_faults(run: Run, since: int = 0) -> list[Event]:
    return [event["fault"] for event in run.events()[since:] if event["event"] == "stopped"]


def test_control_topics_that_take_some_records_or_none(
    make_pipeline: MakePipeline, source: KafkaNode, target: KafkaNode
) -> None:
    """A mapping that is too large stops its partition alone: another topic's is copied.

    Where a control topic takes nothing, all partitions stop, and continue by themselves later. A
    topic that appears meanwhile waits for its start positions; the run does not end.
    """
    prefix = unique_name("refused")
    mappings, commits = unique_name("mappings"), unique_name("commits")
    one, other, later = f"{prefix}.one", f"{prefix}.other", f"{prefix}.later"
    pipeline = make_pipeline(
        f"{prefix}.*",
        {
            "offsetMapping.topic": mappings,
            "coordination.commit.topic": commits,
            "replication.sink.partition": "producer",
            "spark.slots": 1,
        },
    )
    pipeline.waits_briefly = True
    other = next(
        name
        for number in count()
        if mapping_partition(pipeline, name := f"{other}-{number}")
        != mapping_partition(pipeline, one)
    )
    for topic in (one, other):
        create_topic(source, topic)
        create_topic(target, topic, TARGET_PARTITIONS)
    create_topic(target, mappings, MAPPING_PARTITIONS, {"max.message.bytes": SMALL})
    produce(source, one, SCATTERED)
    produce(source, other, [Out(b"x", b"k")])

    def await_copied(*topics: str) -> None:
        eventually(lambda: pipeline.is_caught_up(*topics), f"{topics} are copied")

    expect_stopped(pipeline.catch_up(FINDINGS), one)
    with pipeline.start() as run:
        (fault,) = expect_stopped(run, one)
        assert "max.message.bytes of " + mappings in fault["hint"]
        where = f"{mappings}-{mapping_partition(pipeline, one)}"
        assert fault["message"].startswith(f"{where} on the target rejected the mapping of {one}-0")
        for number in range(3):  # whatever is tried again, the other is copied
            produce(source, other, [Out(b"%d" % number, b"k")])
            await_copied(other)
        expect_stopped(run, one)
        prove_copies(pipeline, other)
        since = run.reported
        alter_topic(target, mappings, max_message_bytes=LARGE)
        run.expect("resumed", is_of(one), since=since)

        for control in (mappings, commits):
            await_copied(one, other)
            alter_topic(target, control, max_message_bytes="100")  # markers fit
            since = run.reported
            for topic in (one, other):
                produce(source, topic, [b"2"] * 20)
            expect_stopped(run, one, other, since=since)
            if control == commits:
                create_topic(target, later, TARGET_PARTITIONS)
                create_topic(source, later)
                produce(source, later, [b"1"] * 20)
                said = f"{NO_START} {commits} on the target: MESSAGE_TOO_LARGE (10)"
                run.expect("note", lambda event: said in event["text"], since=since)  # noqa: B023
            alter_topic(target, control, max_message_bytes=LARGE)
            for topic in (one, other):
                run.expect("resumed", is_of(topic), since=since)
        await_copied(one, other, later)
        assert run.stop() == 0
    prove_copies(pipeline, one, other, later)


def prove_copies(pipeline: Pipeline, *topics: str) -> None:
    prove(
        pipeline.source,
        pipeline.target,
        pipeline.name,
        *(Expected(topic, partition=KEYS) for topic in topics),
        commit_topic=pipeline.commit_topic,
        mapping_topic=str(pipeline.settings["offsetMapping.topic"]),
    )


@pytest.fixture
def copier(secure: SecureNode) -> str:
    """A principal of the secure cluster."""
    return "copier"


def secure_pipeline(
    source: KafkaNode,
    secure: SecureNode,
    directory: Path,
    user: str,
    topics: list[str],
    **settings: Any,
) -> Pipeline:
    """A pipeline to a cluster with an authorizer, with the rights that it needs."""
    sides = {"target.kafka.common": secure.java(user), "spark.slots": 1}
    pipeline = Pipeline(directory, source, secure.node, topics, {**sides, **settings})
    pipeline.waits_briefly = True
    for grant in target_grants(pipeline.name, *topics):
        grant.give(secure, user)
    return pipeline


def test_topics_that_may_not_be_written(
    source: KafkaNode, secure: SecureNode, copier: str, tmp_path: Path
) -> None:
    """All partitions stop for a control topic, and say which right is missing.

    For a target topic its own does; the others are copied. One of two is transformed.
    """
    pytest.importorskip("pyarrow")  # of the extra ``transform``
    plain, transformed, other = topics = [create_topic(source) for _ in range(3)]
    mappings = unique_name("__k2k_mappings")
    rules = {"replication.transform": [{"topics": transformed, "filter": "true"}]}
    pipeline = secure_pipeline(
        source, secure, tmp_path, copier, topics, **{"offsetMapping.topic": mappings, **rules}
    )
    for topic in topics:
        create_topic(secure.node, topic)
        produce(source, topic, [b"1"] * 20)
    denied = ExitStack()
    for topic in (plain, transformed):
        denied.enter_context(secure.denied(copier, AclOperation.WRITE, topic))
    with denied, pipeline.start() as run:
        expect_stopped(run, plain, transformed, kind="unauthorized")
        eventually(lambda: pipeline.is_caught_up(other), "the other is copied")
        prove(source, secure.node, pipeline.name, other, mapping_topic=mappings)
        since = run.reported
        denied.close()
        # The copy is visible before its lap ends and says so: below, it would be taken for later.
        for topic in (plain, transformed):
            run.expect("resumed", is_of(topic), since=since)
        eventually(lambda: pipeline.is_caught_up(*topics), "all are copied")
        since = run.reported
        with secure.denied(copier, AclOperation.WRITE, mappings):
            for topic in topics:
                produce(source, topic, [b"2"] * 20)
            for fault in expect_stopped(run, *topics, kind="unauthorized", since=since):
                assert f"Grant it Describe and Write on topic {mappings}" in fault["hint"]
            since = run.reported
        for topic in topics:
            run.expect("resumed", is_of(topic), since=since)
        assert run.stop() == 0
    prove(source, secure.node, pipeline.name, *topics, mapping_topic=mappings)
