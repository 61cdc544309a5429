"""Damage what a stopped broker has in its log: batches rewritten with correct checksums."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
from crc32c import crc32c

from k2ktui.log.batch import COMPRESSION_MASK, Batch, split_batches
from k2ktui.log.compress import compress
from k2ktui.log.rebuild import build_batches
from k2ktui.log.records import Records, decode_records, encode_nullable
from k2ktui.log.varints import encode_varint, read_varint
from k2ktui.runtime.node import KafkaNode

Damage = Callable[[Records, int], Records]
_KEPT = slice(43, 57)  # producer id and epoch, base sequence


def damage_log(
    node: KafkaNode, topic: str, offset: int, damage: Damage, partition: int = 0
) -> None:
    """Rewrite the batch with an offset; the node is stopped.

    Args:
        node: the stopped node.
        topic: the topic.
        offset: an offset in the batch.
        damage: returns the batch's records, changed; it gets the row of the offset.
        partition: the partition.
    """
    directory = Path(node.data_dir, "logs", f"{topic}-{partition}")
    changed = 0
    for segment in directory.glob("*.log"):
        batches = []
        for batch in split_batches(segment.read_bytes()):
            view = bytes(batch.view)
            if batch.base_offset <= offset <= batch.last_offset and not batch.is_control:
                view = _rebuild(batch, offset, damage)
                changed += 1
            batches.append(view)
        segment.write_bytes(b"".join(batches))
    # Their positions may be wrong now; the broker makes them again.
    for index in (*directory.glob("*.index"), *directory.glob("*.timeindex")):
        index.unlink()
    assert changed == 1


def _rebuild(batch: Batch, offset: int, damage: Damage) -> bytes:
    records = decode_records(batch)
    row = int(np.searchsorted(records.offsets, offset))
    assert int(records.offsets[row]) == offset
    after = damage(records, row)
    # A record that is left out leaves a hole: offsets are made with all rows, and then some go.
    (built,) = build_batches(after, batch.attributes & COMPRESSION_MASK, 1 << 30)
    data = bytearray(built.data)
    if len(after) < len(records):
        data = _with_hole(after, batch)
    struct.pack_into(">q", data, 0, batch.base_offset)
    struct.pack_into(">i", data, 12, batch.leader_epoch)
    struct.pack_into(">h", data, 21, batch.attributes)
    data[_KEPT] = batch.view[_KEPT]
    struct.pack_into(">I", data, 17, crc32c(memoryview(data)[21:]))
    return bytes(data)


def _with_hole(records: Records, batch: Batch) -> bytearray:
    """Encode a batch that keeps the offsets of its records."""
    body = bytearray()
    for at, stamp, tail in zip(
        records.offsets.tolist(), records.timestamps.tolist(), records.tails, strict=True
    ):
        record = b"\0" + encode_varint(stamp - batch.base_timestamp)
        record += encode_varint(at - batch.base_offset) + bytes(tail)
        body += encode_varint(len(record)) + record
    if codec := batch.attributes & COMPRESSION_MASK:
        body = bytearray(compress(codec, bytes(body)))
    data = bytearray(bytes(batch.view[:61])) + body
    struct.pack_into(">i", data, 8, len(data) - 12)
    struct.pack_into(">i", data, 57, len(records))
    return data


def flip_byte(records: Records, row: int) -> Records:
    """Change the last byte of a record's value by one bit."""
    tail = bytearray(records.tails[row])
    length, at = read_varint(records.tails[row], 0)
    length, at = read_varint(records.tails[row], at + max(0, length))
    assert length > 0, "a record with a value"
    tail[at + length - 1] ^= 1
    return _with_tail(records, row, bytes(tail))


def change_header(records: Records, row: int) -> Records:
    """Give a record without headers one."""
    tail = bytes(records.tails[row][:-1])
    header = encode_varint(1) + encode_nullable(b"trace") + encode_nullable(b"x")
    return _with_tail(records, row, tail + header)


def change_time(records: Records, row: int) -> Records:
    """Make a record a millisecond younger."""
    stamps = records.timestamps.copy()
    stamps[row] += 1
    return Records(records.offsets, stamps, records.tails)


def remove(records: Records, row: int) -> Records:
    """Remove a record; its offset stays without one."""
    rows = np.array([at for at in range(len(records)) if at != row], dtype=np.int64)
    return records.take(rows)


def double(records: Records, row: int) -> Records:
    """Put a record in the place of the one before it."""
    return _with_rows(records, {row: row - 1})


def swap(records: Records, row: int) -> Records:
    """Exchange a record and the one before it."""
    return _with_rows(records, {row: row - 1, row - 1: row})


def _with_rows(records: Records, places: dict[int, int]) -> Records:
    rows = np.array([places.get(at, at) for at in range(len(records))], dtype=np.int64)
    taken = records.take(rows)
    return Records(records.offsets, taken.timestamps, taken.tails)


def _with_tail(records: Records, row: int, tail: bytes) -> Records:
    assert read_varint(tail, 0)[0] >= -1
    tails = [*records.tails[:row], tail, *records.tails[row + 1 :]]
    return Records(records.offsets, records.timestamps, tails)
