"""Bumping the epochs of transactional ids on a real broker, as a driver that runs for days does."""

from __future__ import annotations

from k2ktui.kafka.producer_id import Producer
from k2ktui.kafka.wire.cluster import Loop, Wire
from k2ktui.kafka.wire.transactions import init_producer
from k2ktui.runtime.node import KafkaNode


async def bump_until(wire: Wire, name: str, epoch: int) -> Producer:
    """Bump a transactional id up to an epoch; return its producer id with that epoch."""
    token = await init_producer(wire, Producer(name), 60_000)
    while token.epoch < epoch:
        token = await init_producer(wire, token, 60_000)
    return token


def bump(node: KafkaNode, name: str, epoch: int) -> int:
    """The same on a connection of its own; return the producer id."""
    loop = Loop()
    target = Wire(loop, {"bootstrap_servers": [node.bootstrap]}, "target")

    async def run() -> int:
        await target.open(20)
        return (await bump_until(target, name, epoch)).producer_id

    try:
        raised: int = loop.run(run)
        return raised
    finally:
        target.close()
        loop.close()
