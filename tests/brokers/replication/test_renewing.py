"""A slot's epoch raised if no other client raised it, whatever happened to its transaction."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from k2ktui.kafka.producer_id import Producer
from k2ktui.kafka.wire.cluster import CoordinatorError, Loop, Wire
from k2ktui.kafka.wire.codes import Code
from k2ktui.kafka.wire.transactions import add_partitions, init_producer
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import TIMEOUT, create_topic, unique_name

_TIMEOUT_MS = 1000


@pytest.fixture
def wire(target: KafkaNode) -> Iterator[Wire]:
    loop = Loop()
    wire = Wire(loop, {"bootstrap_servers": [target.bootstrap]}, "target")
    loop.run(lambda: wire.open(TIMEOUT))
    yield wire
    wire.close()
    loop.close()


async def begun(wire: Wire, topic: str) -> Producer:
    """Return a token with an open transaction."""
    first = await init_producer(wire, Producer(unique_name("slot")), _TIMEOUT_MS)
    token = await init_producer(wire, first, _TIMEOUT_MS)
    assert await add_partitions(wire, token, [(topic, 0)]) == {}
    return token


async def refused(wire: Wire, token: Producer, topic: str) -> bool:
    """Whether the coordinator accepts no request with this token."""
    try:
        await add_partitions(wire, token, [(topic, 0)])
    except CoordinatorError as error:
        return error.code in (Code.INVALID_PRODUCER_EPOCH, Code.PRODUCER_FENCED)
    return False


def test_an_open_transaction_is_no_competitor(wire: Wire, target: KafkaNode) -> None:
    topic = create_topic(target)

    async def run() -> None:
        token = await begun(wire, topic)
        renewed = [await init_producer(wire, token, _TIMEOUT_MS) for _ in range(3)]
        assert len(set(renewed)) == 1, "repeats of a raise are answered with its result"
        assert renewed[0].epoch > token.epoch
        assert await refused(wire, token, topic)
        assert not await refused(wire, renewed[0], topic)

    wire.loop.run(run)


@pytest.mark.slow
def test_a_transaction_that_took_too_long_is_no_competitor(wire: Wire, target: KafkaNode) -> None:
    topic = create_topic(target)

    async def run() -> None:
        token = await begun(wire, topic)
        while not await refused(wire, token, topic):
            await wire.loop.sleep(2 * _TIMEOUT_MS / 1000)  # asking would keep it open
        renewed = [await init_producer(wire, token, _TIMEOUT_MS) for _ in range(3)]
        assert len(set(renewed)) == 1
        assert not await refused(wire, renewed[0], topic)

    wire.loop.run(run)


def test_a_competitor_is_reported(wire: Wire, target: KafkaNode) -> None:
    topic = create_topic(target)

    async def run() -> None:
        token = await begun(wire, topic)
        await init_producer(wire, Producer(token.transactional_id), _TIMEOUT_MS)
        with pytest.raises(CoordinatorError) as caught:
            await init_producer(wire, token, _TIMEOUT_MS)
        assert caught.value.code == Code.PRODUCER_FENCED

    wire.loop.run(run)
