"""Zigzag varints: one, and many at once in columns."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from k2ktui.log.batch import CorruptBatch

I64 = NDArray[np.int64]
U8 = NDArray[np.uint8]

_VARINT_BYTES = 10


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Decode a zigzag varint at index ``at``; return the value and the index after it.

    Raises:
        IndexError: it extends beyond the end of ``data``.
        CorruptBatch: it has more than 10 bytes.
    """
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
        if shift > 63:
            raise CorruptBatch("a varint of more than 10 bytes")


def encode_varint(value: int) -> bytes:
    """Encode a signed integer as a zigzag varint."""
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode_varints(values: I64) -> tuple[U8, NDArray[np.bool_]]:
    """Encode each value as a zigzag varint: a matrix of bytes, and a mask of those in use."""
    zigzag = ((values << 1) ^ (values >> 63)).view(np.uint64)
    width = max(1, -(-int(zigzag.max(initial=0)).bit_length() // 7))
    shifted = zigzag[:, None] >> (np.arange(width, dtype=np.uint64) * np.uint64(7))
    used = shifted > 0
    used[:, 0] = True
    cells = (shifted & np.uint64(0x7F)).astype(np.uint8)
    cells[:, :-1] |= np.where(used[:, 1:], np.uint8(0x80), np.uint8(0))
    return cells, used


def read_varints(data: U8, at: I64) -> tuple[I64, I64]:
    """Decode the zigzag varint at each index; return the values and the indexes after them.

    Raises:
        IndexError: a varint extends beyond the end of ``data``.
        CorruptBatch: a varint has more than 10 bytes.
    """
    byte = data[at]
    at = at + 1
    value = (byte & 0x7F).astype(np.uint64)
    rows = np.flatnonzero(byte >= 0x80)
    for index in range(1, _VARINT_BYTES):
        if not len(rows):
            break
        byte = data[at[rows]]
        value[rows] |= (byte & 0x7F).astype(np.uint64) << np.uint64(7 * index)
        at[rows] += 1
        rows = rows[byte >= 0x80]
    if len(rows):
        raise CorruptBatch("a varint of more than 10 bytes")
    decoded = (value >> np.uint64(1)).astype(np.int64)
    return decoded ^ -(value & np.uint64(1)).astype(np.int64), at
