"""Batch headers as they are in a broker's log, read without a client."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from k2ktui.runtime.node import KafkaNode

# base offset, length, leader epoch, magic, CRC, attributes, last offset delta, two timestamps,
# producer id, producer epoch, base sequence, record count
_HEADER = struct.Struct(">qiibIhiqqqhii")
_CODEC, _TRANSACTIONAL, _CONTROL = 0x07, 0x10, 0x20


@dataclass(frozen=True)
class StoredBatch:
    """A batch of a partition's log."""

    base: int
    last: int
    producer_id: int
    transactional: bool
    control: bool
    count: int
    codec: int = 0
    size: int = 0


def stored_batches(node: KafkaNode, topic: str, partition: int = 0) -> Iterator[StoredBatch]:
    """Yield the batches of a partition, those of aborted transactions among them."""
    for segment in sorted(Path(node.data_dir, "logs", f"{topic}-{partition}").glob("*.log")):
        data = segment.read_bytes()
        at = 0
        while at + _HEADER.size <= len(data):
            fields = _HEADER.unpack_from(data, at)
            base, length, _, _, _, attributes, delta, _, _, producer, _, _, count = fields
            if length <= 0:
                break
            yield StoredBatch(
                base,
                base + delta,
                producer,
                bool(attributes & _TRANSACTIONAL),
                bool(attributes & _CONTROL),
                count,
                attributes & _CODEC,
                12 + length,
            )
            at += 12 + length


def writers(node: KafkaNode, topic: str, partition: int = 0) -> set[int]:
    """Return the producer ids that wrote to a partition in transactions."""
    return {b.producer_id for b in stored_batches(node, topic, partition) if b.transactional}
