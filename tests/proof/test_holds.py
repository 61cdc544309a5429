"""Topics that are held or moved: not copied, across kills, and once afterwards."""

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
from tests.support.clusters.kafka import (
    Got,
    Out,
    create_topic,
    end_offsets,
    eventually,
    produce,
    read_all,
)
from tests.support.clusters.other_hosts import other_host
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.oracle.judge import Expected, prove
from tests.support.pipelines.fixtures import MakePipeline
from tests.support.pipelines.kills import NO_TIMEOUT
from tests.support.pipelines.pipeline import START_TIMEOUT, Pipeline, Run
from tests.support.pipelines.shared_pipelines import GRACE_S, SHARED, expect_owning
from tests.support.records.traffic import Traffic, mixture

pytestmark = pytest.mark.proof
MODE = "coordination.mode"
STANDBY = {
    MODE: "standby",
    "coordination.assignment.graceWindow": f"{GRACE_S} seconds",
    "spark.lap": "30 minutes",
}
HEADER: dict[str, Any] = {"set": {"headers.copied": "'yes'"}}


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


@pytest.mark.rotate("settings", [STANDBY, SHARED], ids=lambda settings: settings[MODE])
def test_what_is_held_or_moved_is_not_copied_and_arrives_once_after_the_release(
    make_pipeline: MakePipeline,
    source: KafkaNode,
    target: KafkaNode,
    settings: Mapping[str, Any],
) -> None:
    """A topic and a partition are held. Then a topic is moved under load while the run is killed.

    A hold and a release end the laps that run, however long these are. With a standby, the records
    of what is held are transformed, too.
    """
    if settings is STANDBY:
        pytest.importorskip("pyarrow")  # of the extra ``transform``
    whole, part, leaves, other = (create_topic(source, partitions=n) for n in (2, 3, 3, 2))
    partitions = {whole: 2, part: 3, leaves: 3, other: 2}
    changed = [whole, part] if settings is STANDBY else []
    rules = {"replication.transform": [{**HEADER, "topics": topic} for topic in changed]}
    more = {**NO_TIMEOUT, **(rules if changed else {})}
    pipeline = make_pipeline(list(partitions), {**settings, **more})
    file = pipeline.write()

    def write(seed: int) -> None:
        for topic, count in partitions.items():
            produce(source, topic, mixture(seed, 120, count))

    write(1)
    active = pipeline.start(env=other_host("first"))
    for topic in partitions:
        await_copy(pipeline, topic, active)
    beside = pipeline.start(env=other_host("second"))
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

    with Traffic(source, {leaves: 3, other: 2}, seed=1, pause=0.05):
        await_growth(target, leaves, other, run=active)
        active.signal(signal.SIGKILL)
        moved = Moved(pipeline, leaves)
        active.close()
        await_growth(target, other, run=beside)
    write(3)
    await_copy(pipeline, other, beside)
    assert beside.running
    beside.expect("note", lambda event: "moved by drill" in event["text"])
    moved.expect_nothing_follows()
    assert stands_at == held_ends(target, whole, part)

    runs = [beside]
    if settings is SHARED:  # a run that starts now knows it, too
        runs.append(pipeline.start())
        expect_owning(runs)
        moved.expect_nothing_follows()
    moved.release()
    release(pipeline, whole, f"{part}:1")
    for topic in partitions:
        await_copy(pipeline, topic, beside)
    for run in runs:
        assert run.stop() == 0
    prove_all(pipeline, partitions, changed)


class Moved:
    """A topic that is moved when this is made, whatever runs do then."""

    def __init__(self, pipeline: Pipeline, topic: str) -> None:
        self._source, self._target, self._topic = pipeline.source, pipeline.target, topic
        self._config = load_checked((str(pipeline.write()),)).config
        self._cluster = target_cluster(self._config)
        positions = move_topics(self._config, self._cluster, [moved_topic(topic)])
        # Of the state at that moment, whatever the others are doing.
        self._ends = end_offsets(self._target, topic)
        self._final = {at.partition: position.offset for at, position in positions.items()}
        assert self._final.keys() == self._ends.keys()
        copied = copied_values(self._target, topic, self._ends)
        assert copied_values(self._source, topic, self._final) == copied

    def expect_nothing_follows(self) -> None:
        """Not even an aborted record."""
        assert end_offsets(self._target, self._topic) == self._ends

    def release(self) -> None:
        """Let the topic be copied again, from where it ended."""
        released = release_topics(self._config, self._cluster, [self._topic])
        assert {at.partition: p.offset for at, p in released.items()} == self._final


def moved_topic(topic: str) -> MovedTopic:
    return MovedTopic(topic, topic, "20261121-101500-3f2a", 1_795_252_312_786, "ann@bastion")


def copied_values(node: KafkaNode, topic: str, before: Mapping[int, int]) -> dict[int, list[Any]]:
    """Return the records of each partition before some offsets, in order."""
    values: dict[int, list[Any]] = {number: [] for number in before}
    for got in read_all(node, topic):
        if got.offset < before[got.partition]:
            values[got.partition].append((got.key, got.value, got.headers))
    return values


def await_growth(target: KafkaNode, *topics: str, run: Run) -> None:
    """Wait until each partition of the topics has more."""
    before = {topic: size(target, topic) for topic in topics}

    def has_grown() -> bool:
        return all(
            end > before[topic][number]
            for topic in topics
            for number, end in size(target, topic).items()
        )

    eventually(has_grown, lambda: f"{topics} grow\n{run.tail()}")


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


def prove_all(pipeline: Pipeline, topics: Mapping[str, int], changed: Sequence[str]) -> None:
    def headers(sent: Got) -> Any:
        return (*sent.headers, ("copied", b"yes"))

    expected = [Expected(topic, headers=headers if topic in changed else None) for topic in topics]
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
    move_topics(config, cluster, [moved_topic(moved)])
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
