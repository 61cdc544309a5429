"""Batches in plain Python, record by record: what the core in C does, as one reads it.

Tests hold both equal: what this accepts and makes is right. Where the core is not loaded, or
refuses a batch, :mod:`k2ktui.log.records` reads and :mod:`k2ktui.log.rebuild` writes with it.
Types of results are those of :mod:`k2ktui.native.binding`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from crc32c import crc32c

from k2ktui.log.batch import (
    APPEND_TIME,
    COMPRESSION_MASK,
    HEADER,
    HEADER_BYTES,
    PREFIX_BYTES,
    Batch,
    CorruptBatch,
)
from k2ktui.log.compress import compress
from k2ktui.log.decompress import decompress
from k2ktui.log.varints import encode_varint
from k2ktui.native.binding import BuiltRecords, Coalesced

#: Maximum bytes of a record before its tail: length, attributes, timestamp and offset deltas.
_RECORD_HEAD_BYTES = 21
_BITS = 64


@dataclass(frozen=True, slots=True)
class PlainRecord:
    """A record, and where its parts are in its batch's decompressed records.

    A tail is the encoded key, value and headers. ``timestamp`` is in epoch milliseconds.
    """

    offset: int
    timestamp: int
    tail: int
    key: int
    key_length: int
    end: int


def read_payload(batch: Batch, most: int | None = None) -> bytes:
    """Return the records of a batch, decompressed to at most ``most`` bytes.

    Raises:
        CorruptBatch: they are damaged, or larger.
    """
    payload = bytes(batch.view[HEADER_BYTES:])
    codec = batch.attributes & COMPRESSION_MASK
    return decompress(codec, payload, most) if codec else payload


def read_records(batch: Batch, payload: bytes) -> Iterator[PlainRecord]:
    """Yield the records of a v2 batch; ``payload`` has them, decompressed.

    Raises:
        CorruptBatch: the bytes do not follow the format.
    """
    at, last = 0, -1
    for _ in range(batch.count):
        length, at = _read_varint(payload, at, len(payload))
        end = at + length
        if length < 1 or end > len(payload):
            raise CorruptBatch(f"a record of length {length}")
        time_delta, at = _read_varint(payload, at + 1, end)  # after a byte of attributes
        offset_delta, tail = _read_varint(payload, at, end)
        if not last < offset_delta <= batch.last_offset - batch.base_offset:
            raise CorruptBatch("the offsets of its records do not increase up to its last")
        key_length, key = _read_varint(payload, tail, end)
        if key + max(0, key_length) >= end:
            raise CorruptBatch("a record is shorter than what is in it")
        appended = batch.attributes & APPEND_TIME
        time = batch.max_timestamp if appended else _wrap(batch.base_timestamp + time_delta)
        yield PlainRecord(batch.base_offset + offset_delta, time, tail, key, key_length, end)
        at, last = end, offset_delta
    if at != len(payload):
        raise CorruptBatch(f"{len(payload) - at} bytes after the last record")


def read_value(payload: bytes, record: PlainRecord) -> tuple[int, int, int]:
    """Return where the value of a record begins, its length, and where the headers begin.

    Raises:
        CorruptBatch: they are not within the record.
    """
    length, value = _read_varint(payload, record.key + max(0, record.key_length), record.end)
    headers = value + max(0, length)
    if headers >= record.end:
        raise CorruptBatch("a record is shorter than what is in it")
    return value, length, headers


def write_batch(records: Iterable[tuple[int, bytes]], codec: int) -> bytearray:
    """Encode records, each a timestamp and a tail, into a batch without a producer."""
    body = bytearray()
    timestamps: list[int] = []
    for timestamp, tail in records:
        deltas = encode_varint(_wrap(timestamp - (timestamps or [timestamp])[0]))
        deltas += encode_varint(len(timestamps))
        timestamps.append(timestamp)
        body += encode_varint(1 + len(deltas) + len(tail)) + b"\0" + deltas + tail
    payload = compress(codec, bytes(body)) if codec else bytes(body)
    data = bytearray(
        HEADER.pack(
            *(0, HEADER_BYTES - PREFIX_BYTES + len(payload), -1, 2, 0, codec, len(timestamps) - 1),
            *(timestamps[0], max(timestamps), -1, -1, -1, len(timestamps)),
        )
    )
    data += payload
    data[17:21] = crc32c(memoryview(data)[21:]).to_bytes(4, "big")
    return data


def coalesce(batches: Sequence[Batch], most: int) -> Coalesced:
    """Merge v2 batches that are alike, from the first on, as ``Core.coalesce`` does.

    Alike are those of one codec and leader epoch, in the order of their offsets. The caller has
    seen that all may be merged.

    Raises:
        CorruptBatch: the first one is damaged, or decompresses to more than ``most`` bytes.
    """
    merged: list[tuple[int, bytes]] = []
    offsets: list[int] = []
    first, taken, size, last = batches[0], 0, 0, -1
    for batch in batches:
        codec = batch.attributes & COMPRESSION_MASK
        alike = codec == first.attributes & COMPRESSION_MASK
        alike = alike and batch.leader_epoch == first.leader_epoch
        if size >= most or not alike or batch.base_offset <= last:
            break
        try:
            payload = read_payload(batch, most)
            records = list(read_records(batch, payload))
        except CorruptBatch:
            if not taken:
                raise
            break
        merged += [(record.timestamp, payload[record.tail : record.end]) for record in records]
        offsets += [record.offset for record in records]
        size += max(len(batch.view), len(payload))
        taken, last = taken + 1, batch.last_offset
    if not merged:
        raise CorruptBatch("there are no records")
    data = write_batch(merged, first.attributes & COMPRESSION_MASK)
    return Coalesced(memoryview(data), taken, len(merged), _ranges(offsets), last)


def build(records: Sequence[tuple[int, bytes]], codec: int, most: int) -> BuiltRecords:
    """Encode records into one batch of at most ``most`` bytes, as ``Core.build`` does.

    A larger record is alone in its batch. Each record is a timestamp and a tail.
    """
    size = HEADER_BYTES
    taken = 0
    for _, tail in records:
        size += len(tail) + _RECORD_HEAD_BYTES
        if taken and size > most:
            break
        taken += 1
    return BuiltRecords(memoryview(write_batch(records[:taken], codec)), taken)


def _ranges(offsets: Sequence[int]) -> np.typing.NDArray[np.int64]:
    """Return first and count of offsets that follow each other."""
    ranges: list[list[int]] = []
    for offset in offsets:
        if ranges and sum(ranges[-1]) == offset:
            ranges[-1][1] += 1
        else:
            ranges.append([offset, 1])
    return np.array(ranges, dtype=np.int64).reshape(-1, 2)


def _read_varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Decode the zigzag varint at an index; return it, and the index after it.

    Raises:
        CorruptBatch: it does not end before ``end``, or has more than 64 bits.
    """
    bits = shift = 0
    while at < end:
        byte = data[at]
        at += 1
        bits |= (byte & 0x7F) << shift
        shift += 7
        if bits >> _BITS or (shift >= 70 and byte >= 0x80):
            break
        if byte < 0x80:
            return (bits >> 1) ^ -(bits & 1), at
    raise CorruptBatch("a number does not end where it should")


def _wrap(value: int) -> int:
    """Return a sum of two timestamps in 64 bits, as Java has it."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)
