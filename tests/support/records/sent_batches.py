"""Batches as a test makes them, sent to a real broker: a client would split or stamp them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from time import time

from kafka.record.default_records import DefaultRecordBatchBuilder

from k2ktui.kafka.wire.cluster import Loop, Wire
from k2ktui.kafka.wire.produce_request import make_produce_request
from tests.support.clusters.kafka import TIMEOUT, Headers, ServingCluster

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


class OddName(str):
    """A header name that other clients write: its bytes are not UTF-8."""

    def encode(self, *_: object) -> bytes:
        """Return what is written in its place."""
        return b"\xff\xfe"


def make_batch(
    values: Sequence[bytes],
    codec: str = "none",
    *,
    timestamp: int | None = None,
    keys: Sequence[bytes | None] | None = None,
    headers: Sequence[Headers] | None = None,
) -> bytes:
    """One batch with a record for each value, all with one timestamp (default: now)."""
    builder = DefaultRecordBatchBuilder(2, CODECS[codec], False, -1, -1, -1, 1 << 30)
    at = int(time() * 1000) if timestamp is None else timestamp
    for number, value in enumerate(values):
        key, own = keys[number] if keys else None, headers[number] if headers else ()
        builder.append(number, at, key, value, list(own))
    return bytes(builder.build())


def grown_values(seed: int, count: int = 100, size: int = 2_000, ratio: int = 20) -> list[bytes]:
    """Values that codecs make about so many times smaller."""
    noise = random.Random(seed)
    return [noise.randbytes(size // ratio) * ratio for _ in range(count)]


def send_batches(
    node: ServingCluster, topic: str, batches: Sequence[bytes], partition: int = 0
) -> list[int]:
    """Send batches one after another, and return the offset of the first record of each."""
    with _connected(node) as (loop, wire):

        async def send(batch: bytes) -> int:
            leader = (await wire.metadata({topic}))[topic].partitions[partition].node
            records = {topic: [(partition, memoryview(batch))]}
            response = await wire.send(make_produce_request(None, records, 8), leader, TIMEOUT)
            part = response.responses[0].partition_responses[0]
            assert part.error_code == 0, f"refused with {part.error_code}"
            return int(part.base_offset)

        return [int(loop.run(partial(send, batch))) for batch in batches]


@contextmanager
def _connected(node: ServingCluster) -> Iterator[tuple[Loop, Wire]]:
    loop = Loop()
    options = {"bootstrap_servers": node.bootstrap.split(","), "receive_message_max_bytes": 1 << 30}
    wire = Wire(loop, options, "source")
    try:
        loop.run(lambda: wire.open(TIMEOUT))
        yield loop, wire
    finally:
        wire.close()
        loop.close()
