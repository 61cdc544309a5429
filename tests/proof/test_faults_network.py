"""Brokers that restart or are silent, and requests and answers that never arrive."""

from __future__ import annotations

import random
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import eventually
from tests.support.clusters.proxy import Api, Blow, ProxiedNode, proxied_node
from tests.support.pipelines.fixtures import MakePipeline
from tests.support.pipelines.pipeline import Pipeline
from tests.support.records.traffic import Traffic

pytestmark = pytest.mark.proof
FENCED = (47, 90)
BLOWS = [
    (api, blow)
    for api in (Api.PRODUCE, Api.ADD_PARTITIONS_TO_TXN, Api.END_TXN, Api.INIT_PRODUCER_ID)
    for blow in (Blow.LOST, Blow.UNANSWERED)
]


@pytest.fixture(scope="module")
def shaky(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProxiedNode]:
    """A target behind a proxy."""
    with proxied_node("shaky", tmp_path_factory.mktemp("shaky")) as node:
        yield node


@pytest.fixture
def proxied(make_pipeline: MakePipeline, shaky: ProxiedNode, topics: dict[str, int]) -> Pipeline:
    where = {"bootstrap.servers": shaky.proxy.address}
    return make_pipeline(list(topics), {"target.kafka.common": where}, shaky)


@pytest.mark.seeds(1)
def test_requests_and_answers_lost(
    proxied: Pipeline, shaky: ProxiedNode, topics: dict[str, int], seed: int
) -> None:
    _lose_requests_and_answers(proxied, shaky, topics, seed)


@pytest.mark.seeds(1)
def test_requests_and_answers_lost_without_transaction_version_2(
    make_pipeline: MakePipeline, topics: dict[str, int], tmp_path: Path, seed: int
) -> None:
    """The coordinator raises the epoch of a transaction that it aborts, and forgets the last."""
    with proxied_node("old", tmp_path / "old", "4-tv0") as old:
        where = {"bootstrap.servers": old.proxy.address}
        pipeline = make_pipeline(list(topics), {"target.kafka.common": where}, old)
        _lose_requests_and_answers(pipeline, old, topics, seed)


def _lose_requests_and_answers(
    proxied: Pipeline, shaky: ProxiedNode, topics: dict[str, int], seed: int
) -> None:
    dice = random.Random(seed)
    with Traffic(proxied.source, topics, seed):
        run = proxied.start()
        run.expect("firstrecord")
        for api, blow in dice.sample(BLOWS, len(BLOWS)):
            shaky.proxy.strike(api, blow, skip=dice.randrange(8)).wait()
        proxied.await_copying()
    proxied.end(run)
    proxied.prove()


@pytest.mark.seeds(1)
def test_a_commit_that_arrives_late(
    proxied: Pipeline, shaky: ProxiedNode, topics: dict[str, int], seed: int
) -> None:
    _delay_commits(proxied, shaky, topics, seed)


@pytest.mark.parametrize("kind", ["3.9", "4-tv0", "4.0.0"])
def test_a_commit_that_arrives_late_at_an_old_coordinator(
    make_pipeline: MakePipeline, topics: dict[str, int], tmp_path: Path, kind: str
) -> None:
    with proxied_node("old", tmp_path / "old", kind) as old:
        where = {"bootstrap.servers": old.proxy.address}
        pipeline = make_pipeline(list(topics), {"target.kafka.common": where}, old)
        _delay_commits(pipeline, old, topics, 0)


def _delay_commits(
    proxied: Pipeline, shaky: ProxiedNode, topics: dict[str, int], seed: int
) -> None:
    """A late commit must not commit a later transaction half-written."""
    with Traffic(proxied.source, topics, seed, pause=0.05, prefixes=proxied.prefixes):
        run = proxied.start()
        run.expect("firstrecord")
        for number in range(2):
            reported = run.reported
            late = shaky.proxy.strike(Api.END_TXN, Blow.DELAYED, skip=seed + number)
            late.wait()
            run.expect("note", lambda event: "disconnected" in event["text"], since=reported)
            proxied.await_copying()
            assert late.version == 3  # whose answer is one tag byte, the throttle time, the code
            _, code = struct.unpack_from(">xih", shaky.proxy.deliver(late))
            assert code in FENCED
            for _ in range(2):  # every slot is well again, so that its next trouble is news
                run.expect("progress", since=run.reported)
        proxied.await_copying()
    proxied.end(run)
    proxied.prove()


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_broker_restarts_is_killed_and_stands_still(
    pipeline: Pipeline, topics: dict[str, int], side: str
) -> None:
    """When it stands still, connections stay open and nothing is answered."""
    node: KafkaNode = getattr(pipeline, side)
    with Traffic(pipeline.source, topics, 1, transactions=side == "target"):
        run = pipeline.start()
        run.expect("firstrecord")
        pipeline.await_copying()
        node.restart()
        pipeline.await_copying()
        node.kill()
        node.start()
        pipeline.await_copying()
        node.suspend()
        try:
            time.sleep(15)  # beyond the broker's session with its controller
        finally:
            node.resume()
        eventually(lambda: run.running, "it runs")
        pipeline.await_copying()
    pipeline.end(run)
    pipeline.prove()


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_cluster_is_away_for_longer_than_anyone_waits(
    pipeline: Pipeline, topics: dict[str, int], side: str
) -> None:
    """The pipeline reports it, and continues by itself when the cluster is back.

    While it is away, a run stops in time.
    """
    pipeline.settings = {"coordination.commit.syncTimeout": "2 seconds"}
    node: KafkaNode = getattr(pipeline, side)
    with Traffic(pipeline.source, topics, 2, transactions=False):
        run = pipeline.start()
        run.expect("firstrecord")
    node.stop()
    try:
        first = run.expect("note", lambda event: side in event["text"])
        # The same text comes again after 10 seconds; a shorter outage is not reported as over.
        begun = run.events().index(first) + 1
        run.expect("note", lambda event: event["text"] == first["text"], since=begun)
        reported = run.reported
        assert run.running
    finally:
        node.start()
    with Traffic(pipeline.source, topics, 3):
        pipeline.await_copying()
        run.expect("note", lambda event: "recovered after" in event["text"], since=reported)
    reported = run.reported
    node.stop()
    try:
        run.expect("note", lambda event: side in event["text"], since=reported)
        assert run.stop(20.0) == 0
        run.await_gone(15.0)
    finally:
        node.start()
    pipeline.catch_up()
    pipeline.prove()
