"""Brokers that restart or are silent, and requests and answers that never arrive."""

from __future__ import annotations

import contextlib
import random
import struct
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import eventually
from tests.support.clusters.proxy import Api, Blow, ProxiedNode, proxied_node
from tests.support.pipelines.fixtures import MakePipeline
from tests.support.pipelines.pipeline import START_TIMEOUT, Pipeline, Run
from tests.support.pipelines.shared_pipelines import await_all_copying
from tests.support.records.traffic import Traffic

pytestmark = pytest.mark.proof
FENCED = (47, 90)
BLOWS = [
    (api, blow)
    for api in (Api.PRODUCE, Api.ADD_PARTITIONS_TO_TXN, Api.END_TXN, Api.INIT_PRODUCER_ID)
    for blow in (Blow.LOST, Blow.UNANSWERED)
]


# Coordinators without transaction version 2 raise the epoch of a transaction that they abort, and
# forget the last one; 4.0.0 does so, too. Each run of the suite has one of them.
OLD = ("3.9", "4-tv0", "4.0.0")


@pytest.mark.seeds(2)
def test_requests_and_answers_are_lost_and_commits_late(
    make_pipeline: MakePipeline, topics: dict[str, int], tmp_path: Path, seed: int
) -> None:
    """A late commit must not commit a later transaction half-written."""
    copy_despite_losses(make_pipeline, topics, tmp_path, "", seed)


@pytest.mark.rotate("old", OLD)
def test_the_same_with_an_older_coordinator(
    make_pipeline: MakePipeline, topics: dict[str, int], tmp_path: Path, old: str
) -> None:
    copy_despite_losses(make_pipeline, topics, tmp_path, old, OLD.index(old))


def copy_despite_losses(
    make_pipeline: MakePipeline, topics: dict[str, int], directory: Path, kind: str, seed: int
) -> None:
    dice = random.Random(seed)
    with proxied_node("shaky", directory / "shaky", kind) as node:
        where = {"bootstrap.servers": node.proxy.address}
        pipeline = make_pipeline(list(topics), {"target.kafka.common": where}, node)
        with Traffic(pipeline.source, topics, seed, pause=0.05):
            run = pipeline.start()
            run.expect("firstrecord")
            for api, blow in dice.sample(BLOWS, len(BLOWS)):
                node.proxy.strike(api, blow, skip=dice.randrange(8)).wait(START_TIMEOUT)
            for _ in range(2):
                await_calm(pipeline, run)
                delay_commit(pipeline, run, node, dice.randrange(3))
        pipeline.end(run)
        pipeline.prove()


def await_calm(pipeline: Pipeline, run: Run) -> None:
    """Wait until every slot is well, so that its next trouble is news."""
    await_laps(pipeline)
    run.expect("progress", since=run.reported)


def await_laps(pipeline: Pipeline) -> None:
    """Wait until every slot has begun and committed a transaction, by what it has copied."""
    for _ in range(2):  # what is visible next may have been committed before
        await_all_copying(pipeline, pipeline.topics)


def delay_commit(pipeline: Pipeline, run: Run, target: ProxiedNode, skip: int) -> None:
    """Let a commit arrive when its transaction has ended and others were copied: it is refused."""
    reported = run.reported
    late = target.proxy.strike(Api.END_TXN, Blow.DELAYED, skip=skip)
    late.wait()
    run.expect("note", lambda event: "disconnected" in event["text"], since=reported)
    await_laps(pipeline)
    assert late.version == 3  # whose answer is one tag byte, the throttle time, the code
    _, code = struct.unpack_from(">xih", target.proxy.deliver(late))
    assert code in FENCED


SIDES = ("source", "target")


def test_a_cluster_is_away_for_longer_than_anyone_waits(
    pipeline: Pipeline, topics: dict[str, int]
) -> None:
    """One cluster stands still, and is away; then the other.

    The pipeline reports it, and continues by itself when the cluster is back. While it is away, a
    run stops in time. That both are killed and restarted is in the matrix.
    """
    pipeline.settings = {"coordination.commit.syncTimeout": "2 seconds"}
    run = pipeline.start()
    run.expect("started")
    for side in SIDES:
        node: KafkaNode = getattr(pipeline, side)
        with Traffic(pipeline.source, topics, 1, transactions=side == "target"):
            pipeline.await_copying()
            # Connections stay open, and nothing is answered.
            node.suspend()
            try:
                time.sleep(15)  # beyond the broker's session with its controller
            finally:
                node.resume()
            eventually(lambda: run.running, "it runs")
            pipeline.await_copying()
        reported = run.reported
        with away(node):
            # The same text comes again after 10 seconds; a shorter outage is not reported as over.
            eventually(lambda: is_repeated(run, side, reported), f"{side} is noted", START_TIMEOUT)  # noqa: B023
            reported = run.reported
            assert run.running
        with Traffic(pipeline.source, topics, 3):
            pipeline.await_copying()
            run.expect("note", lambda event: "recovered after" in event["text"], since=reported)
            await_calm(pipeline, run)
    for side in SIDES:
        run = stopped_while_away(pipeline, topics, run, side)
    pipeline.end(run)
    pipeline.prove()


def is_repeated(run: Run, side: str, since: int) -> bool:
    """Whether a run has said something of a cluster twice."""
    notes = (event["text"] for event in run.events()[since:] if event["event"] == "note")
    return any(times > 1 for text, times in Counter(notes).items() if side in text)


def stopped_while_away(pipeline: Pipeline, topics: dict[str, int], run: Run, side: str) -> Run:
    """Stop a run that copies while a cluster is away, and start another one when it is back."""
    with Traffic(pipeline.source, topics, 4):
        run.expect("firstrecord")
        await_calm(pipeline, run)  # so that what it notes is of the outage
    reported = run.reported
    with away(getattr(pipeline, side)):
        run.expect("note", lambda event: side in event["text"], since=reported)
        assert run.stop() == 0
        run.await_gone()
    run = pipeline.start()
    run.expect("started")
    return run


@contextlib.contextmanager
def away(node: KafkaNode) -> Iterator[None]:
    node.stop()
    try:
        yield
    finally:
        node.start()
