"""Epochs of transactional ids on a real broker that stand as after days of a driver's work."""

from __future__ import annotations

from dataclasses import replace

from k2ktui.kafka.producer_id import Producer
from k2ktui.kafka.wire.cluster import Loop, Wire
from k2ktui.kafka.wire.transactions import init_producer
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import START_S, TIMEOUT, Out, produce, read_all

_STATE = "__transaction_state"
# Brokers take records of their own topics from this client id only.
_CLIENT = "__admin_client"
# Key: version, length of the id, the id. Value: version, producer id, then the epoch.
_KEY_HEAD, _EPOCH = 4, slice(10, 12)


def bump(node: KafkaNode, *names: str, epoch: int) -> list[Producer]:
    """Let the coordinator of a node read an epoch of these transactional ids; restart the node.

    A bump for each epoch takes half a minute. The coordinator reads its topic when it starts: the
    last record of an id, written again with another epoch, is what so many bumps would have left.

    Returns:
        The producer id of each, with that epoch.
    """
    producers = _init(node, names)
    last = {got.key[_KEY_HEAD:].decode(): got for got in read_all(node, _STATE) if got.key}
    for name in names:
        value = bytearray(last[name].value or b"")
        value[_EPOCH] = epoch.to_bytes(2, "big")
        again = Out(bytes(value), last[name].key, last[name].partition)
        produce(node, _STATE, [again], client_id=_CLIENT)
    node.restart(START_S)
    return [replace(producer, epoch=epoch) for producer in producers]


def _init(node: KafkaNode, names: tuple[str, ...]) -> list[Producer]:
    loop = Loop()
    target = Wire(loop, {"bootstrap_servers": [node.bootstrap]}, "target")

    async def run() -> list[Producer]:
        await target.open(TIMEOUT)
        return [await init_producer(target, Producer(name), 60_000) for name in names]

    try:
        made: list[Producer] = loop.run(run)
        return made
    finally:
        target.close()
        loop.close()
