"""Encode records into new v2 batches."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from crc32c import crc32c
from kafka.codec import lz4_encode, snappy_encode, zstd_encode

from k2ktui.log.batch import HEADER, HEADER_BYTES, PREFIX_BYTES
from k2ktui.log.records import I64, Records, encode_varints


def _gzip(data: bytes) -> bytes:
    # Without the time of day, as Java's clients: the same records give the same bytes.
    return gzip.compress(data, mtime=0)


_ENCODERS: dict[int, Callable[[bytes], bytes]] = {
    1: _gzip,
    2: snappy_encode,
    3: lz4_encode,
    4: zstd_encode,
}
# Maximum bytes of a record besides its tail: length, attributes, timestamp and offset deltas.
_RECORD_BYTES = 21


@dataclass(frozen=True, slots=True)
class BuiltBatch:
    """A batch ready for stamping; ``sources`` are the source offsets of its records."""

    data: bytearray
    count: int
    sources: I64


def build_batches(records: Records, codec: int, limit: int) -> Iterator[BuiltBatch]:
    """Encode records into batches of at most ``limit`` bytes before compression.

    A single record larger than the limit gets its own batch. The batches carry no producer and no
    transactional flag: ``k2ktui.log.batch.stamp_producer`` sets both.
    """
    if not len(records):
        return
    sizes = np.fromiter(map(len, records.tails), dtype=np.int64, count=len(records))
    ends = np.cumsum(sizes + _RECORD_BYTES)
    first, room = 0, limit - HEADER_BYTES
    while first < len(records):
        before = int(ends[first - 1]) if first else 0
        after = max(first + 1, int(np.searchsorted(ends, before + room, side="right")))
        yield _encode(records, sizes, slice(first, after), codec)
        first = after


def built_bytes(records: Records) -> int:
    """Return the size of one batch of these records as :func:`build_batches` counts it."""
    return HEADER_BYTES + sum(map(len, records.tails)) + _RECORD_BYTES * len(records)


def compress(codec: int, data: bytes) -> bytes:
    """Return ``data`` compressed; ``codec`` is the number in a batch's attributes."""
    return _ENCODERS[codec](data)


def _encode(records: Records, sizes: I64, rows: slice, codec: int) -> BuiltBatch:
    timestamps, tails = records.timestamps[rows], records.tails[rows]
    count = len(tails)
    heads = _heads(timestamps - timestamps[0], sizes[rows])
    parts = [b""] * (2 * count)
    parts[::2], parts[1::2] = heads, tails
    body = b"".join(parts)
    if codec:
        body = compress(codec, body)
    header = HEADER.pack(
        0,
        HEADER_BYTES - PREFIX_BYTES + len(body),
        -1,
        2,
        0,
        codec,
        count - 1,
        int(timestamps[0]),
        int(timestamps.max()),
        -1,
        -1,
        -1,
        count,
    )
    data = bytearray(header)
    data += body
    data[17:21] = crc32c(memoryview(data)[21:]).to_bytes(4, "big")
    return BuiltBatch(data, count, records.offsets[rows])


def _heads(time_deltas: I64, sizes: I64) -> list[bytes]:
    """Return the bytes before each record's tail: length, attributes, both deltas.

    Each field is a group of columns of one matrix; the bytes that a record actually uses are
    selected row by row.
    """
    count = len(sizes)
    times, time_used = encode_varints(time_deltas)
    offsets, offset_used = encode_varints(np.arange(count, dtype=np.int64))
    body = 1 + time_used.sum(axis=1) + offset_used.sum(axis=1) + sizes
    lengths, length_used = encode_varints(body)
    attributes = np.zeros((count, 1), dtype=np.uint8)
    cells = np.hstack((lengths, attributes, times, offsets))
    used = np.hstack((length_used, np.ones((count, 1), dtype=bool), time_used, offset_used))
    flat = cells[used].tobytes()
    ends = np.cumsum(used.sum(axis=1)).tolist()
    return [flat[s:e] for s, e in zip([0, *ends[:-1]], ends, strict=True)]
