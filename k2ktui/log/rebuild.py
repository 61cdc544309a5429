"""Encode records into new v2 batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from crc32c import crc32c
from kafka.codec import gzip_encode, lz4_encode, snappy_encode, zstd_encode
from numpy.typing import NDArray

from k2ktui.log.batch import HEADER, HEADER_BYTES, PREFIX_BYTES
from k2ktui.log.records import I64, Records

_ENCODERS: dict[int, Callable[[bytes], bytes]] = {
    1: gzip_encode,
    2: snappy_encode,
    3: lz4_encode,
    4: zstd_encode,
}
# Maximum bytes of a record besides its tail: length, attributes, timestamp and offset deltas.
_RECORD_BYTES = 21
_LENGTH_BYTES, _TIME_BYTES, _OFFSET_BYTES = 5, 10, 5

U8 = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class BuiltBatch:
    """A batch ready for stamping; ``sources`` are the source offsets of its records."""

    data: bytearray
    count: int
    sources: I64


def build_batches(found: Records, codec: int, limit: int) -> Iterator[BuiltBatch]:
    """Encode records into batches of at most ``limit`` bytes before compression.

    A single record larger than the limit gets its own batch. The batches carry no producer and no
    transactional flag: ``k2ktui.log.batch.stamp_producer`` sets both.
    """
    if not len(found):
        return
    sizes = np.fromiter(map(len, found.tails), dtype=np.int64, count=len(found))
    ends = np.cumsum(sizes + _RECORD_BYTES)
    first, room = 0, limit - HEADER_BYTES
    while first < len(found):
        before = int(ends[first - 1]) if first else 0
        after = max(first + 1, int(np.searchsorted(ends, before + room, side="right")))
        yield _encode(found, sizes, slice(first, after), codec)
        first = after


def compress(codec: int, data: bytes) -> bytes:
    """Return ``data`` compressed; ``codec`` is the number in a batch's attributes."""
    return _ENCODERS[codec](data)


def _encode(found: Records, sizes: I64, rows: slice, codec: int) -> BuiltBatch:
    timestamps, tails = found.timestamps[rows], found.tails[rows]
    count = len(tails)
    heads = _heads(timestamps - timestamps[0], sizes[rows])
    body = b"".join([part for pair in zip(heads, tails, strict=True) for part in pair])
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
    return BuiltBatch(data, count, found.offsets[rows])


def _heads(time_deltas: I64, sizes: I64) -> list[bytes]:
    """Return the bytes before each record's tail: length, attributes, both deltas.

    Each field is a group of columns of one matrix, at its maximum width; the bytes that a record
    actually uses are selected row by row.
    """
    count = len(sizes)
    times, time_used = _varints(time_deltas, _TIME_BYTES)
    offsets, offset_used = _varints(np.arange(count, dtype=np.int64), _OFFSET_BYTES)
    body = 1 + time_used.sum(axis=1) + offset_used.sum(axis=1) + sizes
    lengths, length_used = _varints(body, _LENGTH_BYTES)
    attributes = np.zeros((count, 1), dtype=np.uint8)
    cells = np.hstack((lengths, attributes, times, offsets))
    used = np.hstack((length_used, np.ones((count, 1), dtype=bool), time_used, offset_used))
    flat = cells[used].tobytes()
    ends = np.cumsum(used.sum(axis=1)).tolist()
    return [flat[s:e] for s, e in zip([0, *ends[:-1]], ends, strict=True)]


def _varints(values: I64, width: int) -> tuple[U8, NDArray[np.bool_]]:
    """Encode each value as a zigzag varint: a matrix of bytes, and a mask of those in use."""
    zigzag = ((values << 1) ^ (values >> 63)).astype(np.uint64)
    shifted = zigzag[:, None] >> (np.arange(width, dtype=np.uint64) * np.uint64(7))
    used = shifted > 0
    used[:, 0] = True
    cells = (shifted & np.uint64(0x7F)).astype(np.uint8)
    cells[:, :-1] |= np.where(used[:, 1:], np.uint8(0x80), np.uint8(0))
    return cells, used
