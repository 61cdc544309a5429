"""The same topics on both sides, traffic on both: each record is on the other side once."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from k2ktui.replication.ownership.epochs import LAST_EPOCH
from k2ktui.runtime.node import KafkaNode
from tests.proof.test_exactly_once import kill
from tests.spark.ownership.test_registration import registered
from tests.support.clusters.epochs import bump
from tests.support.clusters.kafka import (
    TIMEOUT,
    Out,
    admin,
    create_topic,
    end_offsets,
    eventually,
    produce,
    read_all,
    unique_name,
)
from tests.support.commands.cli import k2ktui_json
from tests.support.oracle.judge import COMMIT_TOPIC
from tests.support.pipelines.both_ways import BothWays, header, identity
from tests.support.pipelines.pipeline import Pipeline, Run
from tests.support.records.batches import writers
from tests.support.records.traffic import NUMBER, ORIGIN, Traffic

MakeBothWays = Callable[..., BothWays]


@pytest.fixture
def make_both_ways(source: KafkaNode, target: KafkaNode, tmp_path: Path) -> Iterator[MakeBothWays]:
    made: list[BothWays] = []

    def make(topics: list[str] | str, settings: Any = None, name: str = "") -> BothWays:
        made.append(BothWays(tmp_path, source, target, topics, settings or {}, name))
        return made[-1]

    yield make
    for both in made:
        both.close()


@pytest.fixture
def topics(source: KafkaNode, target: KafkaNode) -> dict[str, int]:
    """Topics of one name on both sides."""
    topics = {unique_name("both"): n for n in (1, 3)}
    for name, partitions in topics.items():
        create_topic(source, name, partitions)
        create_topic(target, name, partitions)
    return topics


def marked(origin: str, numbers: range, key: str = "") -> list[Out]:
    """Records with the headers that tell where they were written first."""
    return [
        Out(
            b"%d" % n,
            (key or origin).encode() + b"-%d" % (n % 50),
            headers=((ORIGIN, origin.encode()), (NUMBER, b"%d" % n)),
        )
        for n in numbers
    ]


def write_both(source: KafkaNode, target: KafkaNode, topics: Iterable[str]) -> None:
    """Write a hundred records to the first topic of each cluster, and fifty to the second."""
    first, second = topics
    for node, origin in ((source, "a"), (target, "b")):
        produce(node, first, marked(origin, range(100)))
        produce(node, second, marked(origin, range(100, 150)))


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["pipeline", "cluster"])
def test_a_header_marks_where_records_came_from(
    make_both_ways: MakeBothWays,
    topics: dict[str, int],
    source: KafkaNode,
    target: KafkaNode,
    mode: str,
) -> None:
    """Also with an opposite pipeline that registers no producer ids."""
    settings = {
        "bidirectional.mode": mode,
        "bidirectional.headers.bidirectional": "came-from",
        "features.exactlyOnce": "enabled" if mode == "pipeline" else "disabled",
    }
    name = unique_name("both") if mode == "pipeline" else ""
    both = make_both_ways(list(topics), settings, name)
    write_both(source, target, topics)
    both.catch_up()
    for topic in topics:
        there, back = (read_all(node, topic) for node in (source, target))
        assert sorted(map(identity, there)) == sorted(map(identity, back))
        for node, own, other in ((target, b"a", source), (source, b"b", target)):
            value = name.encode() or other.cluster_id.encode()
            copied = [got for got in read_all(node, topic) if header(got, ORIGIN) == own]
            assert copied and {header(got, "came-from") for got in copied} == {value}
    if mode == "cluster":
        both.prove(topics, 150, "came-from")


def name_control_topics(both: BothWays, stem: str) -> dict[str, set[str]]:
    """Give all control topics names of the test, and return them, by direction."""
    keys = {
        "commitTopic": "coordination.commit.topic",
        "mappingTopic": "offsetMapping.topic",
        "stateTopic": "coordination.state.topic",
        "metricsTopic": "metrics.kafka.topic",
    }
    for pipeline, own, other in ((both.there, "there", "back"), (both.back, "back", "there")):
        pipeline.settings = {
            **pipeline.settings,
            **{path: f"{stem}-{own}-{key}" for key, path in keys.items()},
            **{f"bidirectional.opposite.{key}": f"{stem}-{other}-{key}" for key in keys},
        }
    return {own: {f"{stem}-{own}-{key}" for key in keys} for own in ("there", "back")}


@pytest.mark.slow
def test_compaction_keeps_who_wrote_a_batch_and_control_topics_have_other_names(
    make_both_ways: MakeBothWays, source: KafkaNode, target: KafkaNode
) -> None:
    """The way back is begun after the copies were compacted, and copies none of them.

    The pattern matches the control topics of both pipelines: neither copies any of them.
    """
    stem = unique_name("named")
    topic = f"{stem}-data"
    compacted = {
        "cleanup.policy": "compact",
        "segment.ms": "100",
        "min.cleanable.dirty.ratio": "0.01",
        "max.compaction.lag.ms": "100",
    }
    for node in (source, target):
        create_topic(node, topic, config=compacted)
    both = make_both_ways(f"{stem}-.*")
    names = name_control_topics(both, stem)
    produce(source, topic, marked("a", range(8000)))
    both.there.catch_up()

    def cleaned(node: KafkaNode, origin: str, last: int) -> bool:
        # A new record rolls the segment, so that the one before can be cleaned.
        produce(node, topic, [Out(b"x", b"roll", headers=((ORIGIN, b"c"), (NUMBER, b"0")))])
        own = [got for got in read_all(node, topic) if header(got, ORIGIN) == origin.encode()]
        return len(own) < last

    eventually(lambda: cleaned(target, "a", 1000), "compacted on the target")
    produce(target, topic, marked("b", range(8000)))
    both.back.catch_up()
    eventually(lambda: cleaned(source, "b", 1000), "compacted on the source")
    both.catch_up(topic)
    for node, own in ((target, "there"), (source, "back")):
        found = {name for name in admin(node).list_topics(timeout=TIMEOUT).topics if stem in name}
        assert f"{stem}-{own}-commitTopic" in found
        assert found <= {topic, *names[own]}
    for node in (source, target):
        newest = {got.key: got for got in read_all(node, topic) if got.key != b"roll"}
        assert len(newest) == 100
        assert all(int(header(got, NUMBER)) >= 7950 for got in newest.values())
    copied = {got.key: got.offset for got in read_all(target, topic) if got.key != b"roll"}
    assert max(copied[b"a-%d" % n] for n in range(50)) < min(copied[b"b-%d" % n] for n in range(50))


def disturb(both: BothWays, seed: int, rounds: int) -> Collection[Run]:
    """Kill workers and drivers of both pipelines at random, and start drivers again.

    Returns:
        The runs of both that copy in the end.
    """
    dice = random.Random(seed)
    runs = dict(zip((pipeline.name for pipeline in both.both), both.start(), strict=True))
    for pipeline in both.both:
        runs[pipeline.name].expect("firstrecord")
    for _ in range(rounds):
        time.sleep(dice.uniform(0, 2))
        pipeline = dice.choice(both.both)
        run = runs[pipeline.name]
        if dice.random() < 0.5:
            for worker in run.workers()[:1]:
                kill(worker)
            continue
        run.signal(signal.SIGKILL)
        run.wait()
        run.await_gone()
        runs[pipeline.name] = pipeline.start()
        runs[pipeline.name].expect("started")
    for pipeline in both.both:
        pipeline.await_copying()
    return runs.values()


@pytest.mark.proof
@pytest.mark.seeds(1)
def test_any_kills_bring_nothing_back(
    make_both_ways: MakeBothWays,
    topics: dict[str, int],
    source: KafkaNode,
    target: KafkaNode,
    seed: int,
) -> None:
    both = make_both_ways(list(topics))
    traffic = {seed: source, seed + 1000: target}
    with ExitStack() as stack:
        for number, node in traffic.items():
            origin = "a" if node is source else "b"
            stack.enter_context(Traffic(node, topics, number, origin=origin))
        runs = disturb(both, seed, 5)
    both.end(runs, topics)
    both.prove(topics)
    for pipeline in both.both:
        rows = k2ktui_json("status", "-f", pipeline.write())["partitions"]
        assert [(row["lag_records"], row["coverage"]) for row in rows] == [(0, 1.0)] * 4


@pytest.mark.proof
def test_new_producer_ids_bring_nothing_back(
    make_both_ways: MakeBothWays, topics: dict[str, int], source: KafkaNode, target: KafkaNode
) -> None:
    """Epochs run out during the run: the batches of the next producer id are recognized, too."""
    both = make_both_ways(list(topics), {"spark.lap": "500 milliseconds", "spark.slots": 1})
    write_both(source, target, topics)
    both.catch_up()  # a transactional id of a pipeline without positions says that they were lost
    for pipeline in both.both:
        bump(pipeline.target, f"{pipeline.name}.0", epoch=LAST_EPOCH - 8)
    with Traffic(source, topics, 1, origin="a2"), Traffic(target, topics, 2, origin="b2"):
        runs = both.start()
        for run, pipeline in zip(runs, both.both, strict=True):
            run.expect("firstrecord")
            eventually(partial(new_ids, pipeline), "a new producer id")
            pipeline.await_copying()
    both.end(runs, topics)
    both.prove(topics)


def new_ids(pipeline: Pipeline) -> bool:
    """Whether the slot has a second producer id, and wrote with both."""
    ids = registered(pipeline.target, COMMIT_TOPIC, pipeline.name).keys()
    if len(ids) < 2:
        return False
    wrote: set[int] = set()
    for topic in pipeline.topics:
        for partition in end_offsets(pipeline.target, topic):
            wrote |= writers(pipeline.target, topic, partition)
    return len(ids & wrote) >= 2
