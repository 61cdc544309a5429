"""Copying to a target without transaction version 2, whose coordinator forgets epochs.

It raises the epoch of a transaction that it aborts, and forgets the last one: the driver's next
conditional raise is refused, as if there were another driver.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from k2ktui.kafka.wire.cluster import CoordinatorError, Loop, Wire
from k2ktui.kafka.wire.codes import Code
from k2ktui.kafka.wire.transactions import add_partitions, end_transaction, init_producer
from k2ktui.replication.ownership.epochs import (
    LAST_EPOCH,
    Contested,
    NotOwner,
    ProducerEpochs,
    transactional_id,
)
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.brokers import Brokers
from tests.support.clusters.epochs import bump
from tests.support.clusters.kafka import await_stable, create_topic, produce, unique_name
from tests.support.pipelines.fixtures import MakePipeline
from tests.support.pipelines.kills import TIMEOUT_S, await_timed_out
from tests.support.pipelines.pipeline import Pipeline
from tests.support.records.traffic import Traffic

_S = 60.0
SUPERSEDED = 5
# Version 4.0.0 has transaction version 2, and forgets epochs too (KAFKA-19367).
TV0, TV1, FIRST_TV2 = (
    pytest.param(kind, marks=pytest.mark.xdist_group(f"old-{kind}"))
    for kind in ("4-tv0", "4-tv1", "4.0.0")
)
everywhere = pytest.mark.parametrize("old", [TV0, TV1, FIRST_TV2], indirect=True)
copies = pytest.mark.rotate("old", [TV0, FIRST_TV2], indirect=True)


@pytest.fixture
def old(request: pytest.FixtureRequest, brokers: Brokers) -> KafkaNode:
    (node,) = brokers(request.param)
    return node


@contextmanager
def connected(old: KafkaNode) -> Iterator[Wire]:
    loop = Loop()
    wire = Wire(loop, {"bootstrap_servers": [old.bootstrap]}, "target")
    try:
        loop.run(lambda: wire.open(_S))
        yield wire
    finally:
        wire.close()
        loop.close()


@pytest.fixture
def copying(make_pipeline: MakePipeline, topics: dict[str, int], old: KafkaNode) -> Pipeline:
    """A pipeline to the old target."""
    return make_pipeline(list(topics), to=old)


@pytest.mark.slow
@everywhere
def test_epochs(old: KafkaNode) -> None:
    """What the model of the coordinator says, this one does."""
    topic, group = create_topic(old), unique_name("group")

    async def run(wire: Wire) -> None:
        epochs, other = (ProducerEpochs(wire, group, 60_000) for _ in range(2))
        await epochs.take_ownership(_S)
        await epochs.fence(0, _S)
        token = await epochs.renew(0, _S)
        assert await add_partitions(wire, token, [(topic, 0)]) == {}
        with pytest.raises(Contested):
            await epochs.renew(0, _S)
        token = await epochs.reclaim(0, _S)
        assert (await epochs.renew(0, _S)).epoch == token.epoch + 1
        await other.take_ownership(_S)
        with pytest.raises(NotOwner) as lost:
            await epochs.fence(0, _S)
        assert lost.value.is_certain
        await other.fence(0, _S)
        with pytest.raises(NotOwner) as lost:
            await epochs.renew(0, _S)
        assert lost.value.is_certain

    with connected(old) as wire:
        wire.loop.run(lambda: run(wire))


@pytest.mark.slow
@everywhere
def test_no_transaction_is_begun_with_the_last_epoch(old: KafkaNode) -> None:
    """Version 4.0.0 cannot abort one: it stays open, and its id is refused forever."""
    topic, group = create_topic(old), unique_name("group")
    (last,) = bump(old, transactional_id(group, 0), epoch=LAST_EPOCH - 3)

    async def run(wire: Wire) -> None:
        epochs = ProducerEpochs(wire, group, 60_000)
        await epochs.take_ownership(_S)
        token = await epochs.reclaim(0, _S)
        assert token == replace(last, epoch=LAST_EPOCH - 1)
        with pytest.raises(Contested):
            await epochs.renew(0, _S)
        for number in range(2):  # the last one is aborted
            token = await epochs.reclaim(0, _S)
            assert token.producer_id != last.producer_id and token.epoch < 10
            assert await add_partitions(wire, token, [(topic, 0)]) == {}
            if number == 0:
                await end_transaction(wire, token, commit=True)
        await epochs.fence(0, _S)

    with connected(old) as wire:
        wire.loop.run(lambda: run(wire))
    await_stable(old, topic)


@pytest.mark.slow
@pytest.mark.parametrize("old", [TV0, TV1], indirect=True)
def test_an_earlier_k2ktui_left_a_transaction_with_the_last_epoch(old: KafkaNode) -> None:
    """Only an unconditional raise gets past it, to a new producer id."""
    topic, group = create_topic(old), unique_name("group")
    (token,) = bump(old, transactional_id(group, 0), epoch=LAST_EPOCH)

    async def run(wire: Wire) -> None:
        epochs = ProducerEpochs(wire, group, 60_000)
        await epochs.take_ownership(_S)
        assert await add_partitions(wire, token, [(topic, 0)]) == {}
        with pytest.raises(CoordinatorError) as caught:
            await init_producer(wire, token, 60_000)
        assert caught.value.code == Code.UNKNOWN_SERVER_ERROR
        fresh = await epochs.reclaim(0, _S)
        assert fresh.producer_id != token.producer_id and fresh.epoch < 10
        assert await add_partitions(wire, fresh, [(topic, 0)]) == {}
        await end_transaction(wire, fresh, commit=True)

    with connected(old) as wire:
        wire.loop.run(lambda: run(wire))


@pytest.mark.proof
@copies
def test_workers_killed_and_suspended_and_two_drivers(
    copying: Pipeline, topics: dict[str, int]
) -> None:
    """Tasks killed with their transactions open, one that outlives its time-out, another driver.

    A batch that the target refuses is no competitor: larger ones than it takes fail a lap with its
    transaction open.
    """
    refused = create_topic(copying.source)
    create_topic(copying.target, refused, config={"max.message.bytes": "3000"})
    produce(copying.source, refused, [b"%0200d" % n for n in range(2000)], linger_ms=100)
    copying.topics = [*topics, refused]
    copying.settings = {"target.kafka.producer": {"transaction.timeout.ms": TIMEOUT_S * 1000}}
    with Traffic(copying.source, topics, 1):
        first = copying.start()
        first.expect("firstrecord")
        for step in ("joined", "sent", "before-commit"):
            copying.arm(step)
            copying.await_hit(step)
        copying.await_copying()
        task = copying.suspend_at("sent", first)
        await_timed_out(copying)
        task.resume()
        copying.await_copying()
        second = copying.start()
        assert first.wait() == SUPERSEDED
        first.await_gone()
        second.expect("firstrecord")
        copying.await_copying()
    copying.end(second)
    copying.prove(2000)
