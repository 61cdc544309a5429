"""Decode record batches into records and encode them again, without touching what is inside.

A record is kept as its offset, its timestamp and its *tail*: the encoded key, value and headers,
copied as bytes. So headers with duplicate keys, null values or keys that are not UTF-8 survive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from crc32c import crc32c
from kafka.codec import (
    gzip_decode,
    gzip_encode,
    lz4_decode,
    lz4_encode,
    snappy_decode,
    snappy_encode,
    zstd_decode,
    zstd_encode,
)
from kafka.record.memory_records import MemoryRecords

from k2ktui.engine.state import MappingRange
from k2ktui.replication.batch import (
    APPEND_TIME,
    COMPRESSION_MASK,
    HEADER,
    HEADER_BYTES,
    PREFIX_BYTES,
    Batch,
)

_DECODERS: dict[int, Callable[[bytes], bytes]] = {
    1: gzip_decode,
    2: snappy_decode,
    3: lz4_decode,
    4: zstd_decode,
}
_ENCODERS: dict[int, Callable[[bytes], bytes]] = {
    1: gzip_encode,
    2: snappy_encode,
    3: lz4_encode,
    4: zstd_encode,
}
_NO_HEADERS = b"\x00"


class CorruptBatch(ValueError):
    """The bytes of a batch do not follow the format."""


class RawRecord(NamedTuple):
    """One record: offset, timestamp (epoch ms) and the encoded key, value and headers."""

    offset: int
    timestamp: int
    tail: bytes


@dataclass(frozen=True, slots=True)
class Built:
    """A batch ready to be stamped, and where its records come from.

    ``ranges`` map source offsets to offsets within the batch (0 is its first record).
    """

    data: bytearray
    count: int
    ranges: tuple[MappingRange, ...]


def read_varint(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """Decode a zig-zag varint at ``at``; return the value and the offset after it."""
    byte = data[at]
    at += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), at
    value, shift = byte & 0x7F, 7
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
        if shift > 63:
            raise CorruptBatch("a varint of more than 10 bytes")


def varint(value: int) -> bytes:
    """Encode a signed integer as a zig-zag varint."""
    value = (value << 1) ^ (value >> 63)
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def payload(batch: Batch) -> bytes | memoryview:
    """Return the encoded records of a v2 batch, decompressed.

    Raises:
        CorruptBatch: they cannot be decompressed.
    """
    body = batch.view[HEADER_BYTES:]
    codec = batch.attributes & COMPRESSION_MASK
    if not codec:
        return body
    try:
        return _DECODERS[codec](bytes(body))
    except Exception as error:  # the codecs raise many kinds of errors for damaged data
        raise CorruptBatch(f"cannot decompress codec {codec}: {type(error).__name__}") from error


def records(batch: Batch, position: int = 0) -> list[RawRecord]:
    """Decode the records of a data batch with offset ``position`` or higher.

    A batch stamped with append time yields that time for each record.

    Raises:
        CorruptBatch: the bytes do not follow the format.
    """
    if batch.magic < 2:
        return [record for record in _legacy(batch) if record.offset >= position]
    try:
        found = list(_walk(batch, payload(batch)))
    except (IndexError, OverflowError) as error:
        raise CorruptBatch(f"the records at {batch.base_offset} are cut short") from error
    return found if batch.base_offset >= position else [r for r in found if r.offset >= position]


def _walk(batch: Batch, data: bytes | memoryview) -> Iterator[RawRecord]:
    base, first = batch.base_offset, batch.base_timestamp
    append_time = batch.max_timestamp if batch.attributes & APPEND_TIME else None
    at = 0
    for _ in range(batch.count):
        length, at = read_varint(data, at)
        end = at + length
        if length < 0 or end > len(data):
            raise CorruptBatch(f"a record of length {length} at {batch.base_offset}")
        delta, at = read_varint(data, at + 1)  # one byte of attributes, unused
        offset, at = read_varint(data, at)
        timestamp = first + delta if append_time is None else append_time
        yield RawRecord(base + offset, timestamp, bytes(data[at:end]))
        at = end
    if at != len(data):
        raise CorruptBatch(f"{len(data) - at} bytes after the last record of {batch.base_offset}")


def _legacy(batch: Batch) -> Iterator[RawRecord]:
    found = MemoryRecords(bytes(batch.view))
    while found.has_next():
        for record in found.next_batch():
            timestamp = -1 if record.timestamp is None else record.timestamp
            tail = _nullable(record.key) + _nullable(record.value) + _NO_HEADERS
            yield RawRecord(record.offset, timestamp, tail)


def _nullable(data: bytes | None) -> bytes:
    return b"\x01" if data is None else varint(len(data)) + data


def build(found: Iterable[RawRecord], codec: int, limit: int) -> Iterator[Built]:
    """Encode records into batches of at most ``limit`` bytes before compression.

    A single record larger than the limit gets a batch of its own. The result is neither
    transactional nor stamped: ``k2ktui.replication.batch.stamp`` does that.
    """
    pending: list[RawRecord] = []
    size = 0
    for record in found:
        cost = len(record.tail) + 16
        if pending and size + cost > limit:
            yield _encode(pending, codec)
            pending, size = [], 0
        pending.append(record)
        size += cost
    if pending:
        yield _encode(pending, codec)


def _encode(found: list[RawRecord], codec: int) -> Built:
    first = found[0].timestamp
    body = bytearray()
    for index, (_, timestamp, tail) in enumerate(found):
        head = b"\x00" + varint(timestamp - first) + varint(index)
        body += varint(len(head) + len(tail))
        body += head
        body += tail
    if codec:
        body = bytearray(_ENCODERS[codec](bytes(body)))
    header = HEADER.pack(
        0,
        HEADER_BYTES - PREFIX_BYTES + len(body),
        -1,
        2,
        0,
        codec,
        len(found) - 1,
        first,
        max(record.timestamp for record in found),
        -1,
        -1,
        -1,
        len(found),
    )
    data = bytearray(header) + body
    data[17:21] = crc32c(memoryview(data)[21:]).to_bytes(4, "big")
    return Built(data, len(found), tuple(runs(record.offset for record in found)))


def runs(offsets: Iterable[int], target: int = 0) -> Iterator[MappingRange]:
    """Group increasing source offsets that land from ``target`` on into mapping ranges."""
    start = first = count = 0
    for at, offset in enumerate(offsets, target):
        if count and offset == start + count:
            count += 1
            continue
        if count:
            yield MappingRange(start, first, count)
        start, first, count = offset, at, 1
    if count:
        yield MappingRange(start, first, count)


def record(offset: int, timestamp: int, key: bytes | None, value: bytes | None) -> RawRecord:
    """Make a record without headers, as the pipeline's own state records are."""
    return RawRecord(offset, timestamp, _nullable(key) + _nullable(value) + _NO_HEADERS)
