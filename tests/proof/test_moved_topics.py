"""A topic is moved while a pipeline copies: nothing of it follows, and all the rest goes on."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from typing import Any

import pytest

from k2ktui.engine.records.moved_topic import MovedTopic
from k2ktui.kafka.clients import target_cluster
from k2ktui.kafka.properties.translation import load_checked
from k2ktui.replication.ownership.topic_moves import move_topics, release_topics
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import create_topic, end_offsets, eventually, produce, read_all
from tests.support.clusters.other_hosts import other_host
from tests.support.pipelines.fixtures import MakePipeline
from tests.support.pipelines.pipeline import Pipeline, Run
from tests.support.pipelines.shared_pipelines import SHARED, expect_owning
from tests.support.records.traffic import Traffic, mixture

pytestmark = pytest.mark.proof
STANDBY = {
    "coordination.mode": "standby",
    "coordination.assignment.graceWindow": "6 seconds",
}
PARTITIONS = 3
# An open transaction of a run that was killed is aborted by the bumps, never by its time-out.
GOES_ON_S = 60


def await_copy(pipeline: Pipeline, topic: str, runs: list[Run], limit: float = 120) -> None:
    eventually(
        lambda: pipeline.is_caught_up(topic),
        lambda: f"{topic} copied\n" + "\n".join(run.tail() for run in runs),
        limit,
    )


def copied_values(node: KafkaNode, topic: str, before: Mapping[int, int]) -> dict[int, list[Any]]:
    """Return the records of each partition before some offsets, in order."""
    values: dict[int, list[Any]] = {number: [] for number in before}
    for got in read_all(node, topic):
        if got.offset < before[got.partition]:
            values[got.partition].append((got.key, got.value, got.headers))
    return values


@pytest.mark.parametrize("settings", [SHARED, STANDBY], ids=["shared", "standby"])
def test_a_topic_is_moved_under_load_and_the_others_go_on(
    make_pipeline: MakePipeline,
    source: KafkaNode,
    target: KafkaNode,
    settings: Mapping[str, Any],
) -> None:
    """One of two runs is killed at that moment; the rest of the topic arrives once released."""
    leaves, stays = (create_topic(source, partitions=PARTITIONS) for _ in range(2))
    pipeline = make_pipeline([leaves, stays], settings)
    config = load_checked((str(pipeline.write()),)).config
    cluster = target_cluster(config)
    first = pipeline.start(env=other_host("first"))
    first.expect("started")
    working = pipeline.start(env=other_host("second"))
    if settings is SHARED:
        expect_owning([first, working])
    else:
        working.expect("waiting")

    with Traffic(source, dict.fromkeys((leaves, stays), PARTITIONS), seed=1, pause=0.05):
        eventually(lambda: min(end_offsets(target, leaves).values()) > 20, "both are copied")
        first.signal(signal.SIGKILL)
        move = MovedTopic(leaves, leaves, "20261121-101500-3f2a", 1_795_252_312_786, "ann@bastion")
        final = {at.partition: p.offset for at, p in move_topics(config, cluster, [move]).items()}
        # Of the state at that moment, whatever the others are doing.
        ends = end_offsets(target, leaves)
        stood_at = end_offsets(target, stays, "read_committed")
        assert set(final) == set(range(PARTITIONS))
        assert copied_values(source, leaves, final) == copied_values(target, leaves, ends)
        eventually(
            lambda: all(
                end > stood_at[n] for n, end in end_offsets(target, stays, "read_committed").items()
            ),
            lambda: f"the other topic goes on\n{first.tail()}\n{working.tail()}",
            GOES_ON_S,
        )
    produce(source, leaves, mixture(2, 60, PARTITIONS))
    await_copy(pipeline, stays, [working])
    assert working.running
    assert end_offsets(target, leaves) == ends, "nothing follows, not even an aborted record"
    working.expect("note", lambda event: "moved by drill" in event["text"])

    # A run that starts now knows it, too.
    late = pipeline.start()
    if settings is SHARED:
        expect_owning([working, late])
        assert end_offsets(target, leaves) == ends
    released = release_topics(config, cluster, [leaves])
    assert {at.partition: p.offset for at, p in released.items()} == final
    runs = [working, late]
    for topic in (leaves, stays):
        await_copy(pipeline, topic, runs)
    for run in runs:
        assert run.stop() == 0
    pipeline.prove()
