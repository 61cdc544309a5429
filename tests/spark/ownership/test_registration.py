"""Each producer id is registered on the target before its first use, for one pair of clusters."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from k2ktui.engine.records.cluster_pair import ClusterPair
from k2ktui.kafka.properties.translation import wire
from k2ktui.replication.ownership.epochs import LAST_EPOCH
from k2ktui.replication.ownership.ownership import Ownership
from k2ktui.replication.ownership.pipeline import commit_topic, make_ownership
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.epochs import bump
from tests.support.clusters.kafka import await_stable, create_topic, produce, read_all
from tests.support.oracle.judge import COMMIT_TOPIC
from tests.support.pipelines.copied import Copied
from tests.support.pipelines.fixtures import MakePipeline
from tests.support.records.batches import writers

OURS, THEIRS = "cluster-a", "cluster-c"  # ids of sources


@pytest.fixture
def copied(source: KafkaNode, target: KafkaNode, tmp_path: Path) -> Copied:
    return Copied(tmp_path, source, target)


def registered(node: KafkaNode, topic: str, group: str) -> dict[int, tuple[str, str]]:
    """Return producer id to source and target cluster, of everything written so far."""
    clusters = {}
    await_stable(node, topic)
    for got in read_all(node, topic):
        key = json.loads(got.key or b"")
        if key["group"] == group and "producer" in key:  # those of others may be deleted, too
            value = json.loads(got.value or b"")
            assert value["v"] == 1 and value["at"] > 0
            clusters[key["producer"]] = (value["sourceCluster"], value["targetCluster"])
    return clusters


@contextmanager
def driver(copied: Copied, source: str | None = OURS) -> Iterator[Ownership]:
    # The target's id is its own: the driver's connections compare it.
    pair = ClusterPair(source, copied.target.cluster_id, "m") if source else None
    options = wire(copied.config.target, "producer")
    ownership = make_ownership(copied.config, copied.cluster, options, 1, pair)
    try:
        yield ownership
    finally:
        ownership.close(fence=False)


def test_a_driver_registers_the_ids_of_its_slots_with_its_run(copied: Copied) -> None:
    with driver(copied) as ownership:
        ownership.take_over(2)
        ids = [ownership.renew(slot).producer_id for slot in (0, 1)]
        assert registered(copied.target, copied.commits, copied.name) == dict.fromkeys(
            ids, (OURS, copied.target.cluster_id)
        )
        state = ownership.read()
        assert state.run.registers and set(state.registrations) == set(ids)
        assert not state.malformed


def test_a_new_transactional_id_is_registered_before_its_first_use(copied: Copied) -> None:
    with driver(copied) as ownership:
        ownership.take_over(1)
        added = ownership.recover(ownership.add_id()).producer_id
        assert added in registered(copied.target, copied.commits, copied.name)


def test_a_driver_that_copies_nothing_registers_nothing(copied: Copied) -> None:
    """It keeps what the run before says about itself."""
    with driver(copied) as ownership:
        ownership.take_over(1)
    before = registered(copied.target, copied.commits, copied.name)
    with driver(copied, None) as ownership:
        assert ownership.take_over(0).run.registers
        assert ownership.read().run.registers
    assert registered(copied.target, copied.commits, copied.name) == before


def test_another_source_gets_other_producer_ids(copied: Copied) -> None:
    """Under the same ids, records of the two sources could not be distinguished."""
    with driver(copied) as ownership:
        ownership.take_over(2)
        first = {ownership.renew(slot).producer_id for slot in (0, 1)}
    with driver(copied, THEIRS) as ownership:
        ownership.take_over(2)
        assert ownership.retired == {0, 1} and ownership.run.slots == 4
        second = {ownership.recover(number).producer_id for number in (2, 3)}
    assert not first & second
    assert registered(copied.target, copied.commits, copied.name) == (
        dict.fromkeys(first, (OURS, copied.target.cluster_id))
        | dict.fromkeys(second, (THEIRS, copied.target.cluster_id))
    )
    with driver(copied) as ownership:
        ownership.take_over(2)
        assert ownership.retired == {2, 3} and ownership.run.slots == 4, (
            "the first ids are used again"
        )


def test_without_transactions_nothing_is_registered(copied: Copied) -> None:
    copied.settings = {"features": {"exactlyOnce": "disabled"}}
    with driver(copied) as ownership:
        ownership.take_over(2)
        assert not ownership.read().run.registers
    assert not registered(copied.target, copied.commits, copied.name)


@pytest.mark.slow
def test_a_producer_id_after_the_last_epoch_is_registered(copied: Copied) -> None:
    group = commit_topic(copied.config, 1).group
    with driver(copied) as ownership:
        ownership.take_over(1)
        (bumped,) = bump(copied.target, f"{group}.0", epoch=LAST_EPOCH - 1)
        before = bumped.producer_id
        ids = {ownership.recover(0).producer_id for _ in range(4)}
        after = ids - {before}
        assert after, "the epochs were exhausted"
        assert set(registered(copied.target, copied.commits, copied.name)) == ids | {before}


def test_all_that_a_pipeline_writes_is_registered(
    make_pipeline: MakePipeline, source: KafkaNode, target: KafkaNode
) -> None:
    """The feature is off: a pipeline in the other direction may be added later."""
    topic = create_topic(source, partitions=2)
    produce(source, topic, [b"%d" % n for n in range(20)])
    pipeline = make_pipeline([topic])
    pipeline.catch_up()
    pipeline.prove(20)
    wrote = writers(target, topic, 0) | writers(target, topic, 1)
    clusters = registered(target, COMMIT_TOPIC, pipeline.name)
    assert wrote and wrote <= clusters.keys()
    assert set(clusters.values()) == {(source.cluster_id, target.cluster_id)}
