"""Topics and partitions that an operator holds: not copied, across kills, and once afterwards."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from k2ktui.engine.records.moved_topic import MovedTopic
from k2ktui.kafka.clients import target_cluster
from k2ktui.kafka.properties.translation import load_checked
from k2ktui.replication.ownership.topic_moves import move_topics, release_topics
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import Got, Out, create_topic, end_offsets, eventually, produce
from tests.support.clusters.other_hosts import other_host
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.oracle.judge import Expected, prove
from tests.support.pipelines.fixtures import MakePipeline
from tests.support.pipelines.pipeline import START_TIMEOUT, Pipeline, Run
from tests.support.pipelines.shared_pipelines import SHARED, expect_owning
from tests.support.records.traffic import mixture

pytestmark = pytest.mark.proof
STANDBY = {
    "coordination.mode": "standby",
    "coordination.assignment.graceWindow": "6 seconds",
    "spark.lap": "30 minutes",
}
HEADER: dict[str, Any] = {"replication.transform": [{"set": {"headers.copied": "'yes'"}}]}


def size(node: KafkaNode, topic: str) -> dict[int, int]:
    return end_offsets(node, topic, "read_committed")


def await_copy(pipeline: Pipeline, topic: str, run: Run) -> None:
    eventually(
        lambda: pipeline.is_caught_up(topic),
        lambda: f"{topic} copied\n{run.tail()}",
        2 * START_TIMEOUT,
    )


def release(pipeline: Pipeline, *names: str) -> None:
    assert k2ktui("release", "-f", pipeline.write(), "--yes", *names).returncode == 0


@pytest.mark.parametrize("settings", [STANDBY, SHARED], ids=["standby", "shared"])
def test_what_is_held_is_not_copied_and_arrives_once_after_the_release(
    make_pipeline: MakePipeline,
    source: KafkaNode,
    target: KafkaNode,
    settings: Mapping[str, Any],
) -> None:
    """A topic and a partition are held; the run is killed, and the next one honours the holds.

    A hold and a release end the laps that run, however long these are. With a standby, the records
    are transformed, too.
    """
    pytest.importorskip("pyarrow")
    whole, part, other = (create_topic(source, partitions=n) for n in (2, 3, 2))
    partitions = {whole: 2, part: 3, other: 2}
    changed = HEADER if settings is STANDBY else {}
    pipeline = make_pipeline(list(partitions), {**settings, **changed})
    file = pipeline.write()

    def write(seed: int) -> None:
        for topic, count in partitions.items():
            produce(source, topic, mixture(seed, 120, count))

    write(1)
    active = pipeline.start()
    for topic in partitions:
        await_copy(pipeline, topic, active)
    beside = pipeline.start(env=other_host("other"))
    if settings is SHARED:
        expect_owning([active, beside])
    else:
        beside.expect("waiting")

    held = k2ktui_json("hold", "-f", file, whole, f"{part}:1", "--why", "it moves", "--yes")
    assert held["applied"] and held["id"]
    for name in (whole, f"{part}:1"):
        await_note([active, beside], f"{name}: held by ")
    stands_at = await_still(pipeline, active, whole, part, other)
    beside_it = size(target, part)
    write(2)
    await_copy(pipeline, other, active)
    for number in (0, 2):
        eventually(lambda: size(target, part)[number] > beside_it[number], "the others go on")  # noqa: B023
    assert stands_at == held_ends(target, whole, part)

    active.signal(signal.SIGKILL)
    active.close()
    write(3)
    active = beside
    await_copy(pipeline, other, active)
    assert stands_at == held_ends(target, whole, part)

    release(pipeline, whole, f"{part}:1")
    for topic in partitions:
        await_copy(pipeline, topic, active)
    assert active.stop() == 0
    prove_all(pipeline, partitions, changed)


def await_note(runs: Sequence[Run], beginning: str) -> None:
    """Wait until one of the runs has noted something."""
    eventually(
        lambda: any(
            event["text"].startswith(beginning) and "(it moves)" in event["text"]
            for run in runs
            for event in run.events("note")
        ),
        lambda: "\n".join(run.tail() for run in runs),
    )


def held_ends(target: KafkaNode, whole: str, part: str) -> tuple[dict[int, int], int]:
    return size(target, whole), size(target, part)[1]


def await_still(
    pipeline: Pipeline, run: Run, whole: str, part: str, other: str
) -> tuple[dict[int, int], int]:
    """Wait until the held partitions do not grow while another topic does; return their ends.

    What a lap has read when the hold begins may still be committed.
    """

    def is_still() -> tuple[dict[int, int], int] | None:
        before = held_ends(pipeline.target, whole, part)
        for topic, partition in ((whole, 0), (whole, 1), (part, 1), (other, 0), (other, 1)):
            produce(pipeline.source, topic, [Out(b"more", None, partition)])
        await_copy(pipeline, other, run)
        return before if before == held_ends(pipeline.target, whole, part) else None

    ends: tuple[dict[int, int], int] = eventually(is_still, "the held partitions stand still")
    return ends


def prove_all(pipeline: Pipeline, topics: Mapping[str, int], rules: Mapping[str, Any]) -> None:
    def headers(sent: Got) -> Any:
        return (*sent.headers, ("copied", b"yes"))

    expected = [Expected(topic, headers=headers if rules else None) for topic in topics]
    proof = prove(pipeline.source, pipeline.target, pipeline.name, *expected)
    assert proof.records >= 3 * 120 * len(topics)


def test_until_caught_up_names_what_is_held_and_does_not_wait_for_what_is_moved(
    make_pipeline: MakePipeline, source: KafkaNode
) -> None:
    """It ends with 1 for what is held, whether one run copies or several share; else with 0."""
    held, moved, other = create_topic(source, partitions=2), *(create_topic(source) for _ in "12")
    pipeline = make_pipeline([held, moved, other])

    def write(seed: int) -> None:
        for topic in (held, moved, other):
            produce(source, topic, mixture(seed, 50, 1))

    def expect_left(code: int, *left: str) -> Run:
        run = pipeline.catch_up(code)
        assert [topic for topic in pipeline.topics if not pipeline.is_caught_up(topic)] == [*left]
        return run

    write(1)
    expect_left(0)
    config = load_checked((str(pipeline.write()),)).config
    cluster = target_cluster(config)
    move = MovedTopic(moved, moved, "20261121-101500-3f2a", 1_795_252_312_786, "ann@bastion")
    move_topics(config, cluster, [move])
    assert k2ktui("hold", "-f", pipeline.write(), held, "--yes").returncode == 0
    for seed, settings in enumerate((SHARED, {}), 2):
        pipeline.settings = settings
        write(seed)
        run = expect_left(1, held, moved)
        (finished,) = run.events("finished")
        (fault,) = finished["faults"]
        assert (fault["kind"], fault["source"]) == ("held", {"topic": held, "partition": 0})
        assert "held by " in fault["message"]
    release(pipeline, held)
    pipeline.settings = SHARED
    expect_left(0, moved)
    release_topics(config, cluster, [moved])
    pipeline.settings = {}
    expect_left(0)
    pipeline.prove()
