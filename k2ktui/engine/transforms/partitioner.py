"""The Java producer's partition for a key: murmur2 as in Kafka's ``Utils.murmur2``."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_SEED = 0x9747B28C
_M = np.uint32(0x5BD1E995)
_R13, _R15, _R24 = np.uint32(13), np.uint32(15), np.uint32(24)
_POSITIVE = np.uint32(0x7FFFFFFF)

U32 = NDArray[np.uint32]
I64 = NDArray[np.int64]
Bytes = NDArray[np.uint8]


def murmur2(keys: Bytes) -> U32:
    """Return the murmur2 hash of each row of ``keys``, a matrix of keys of equal length."""
    count, length = keys.shape
    h = np.full(count, np.uint32((_SEED ^ length) & 0xFFFFFFFF), dtype=np.uint32)
    whole = length & ~3
    if whole:
        words = np.ascontiguousarray(keys[:, :whole]).view("<u4")
        for column in range(whole // 4):
            k = words[:, column] * _M
            k = (k ^ (k >> _R24)) * _M
            h = (h * _M) ^ k
    if length > whole:
        rest = np.zeros((count, 4), dtype=np.uint8)
        rest[:, : length - whole] = keys[:, whole:]
        h = (h ^ rest.view("<u4")[:, 0]) * _M
    h = (h ^ (h >> _R13)) * _M
    return h ^ (h >> _R15)


def partitions_for_keys(
    data: Bytes, starts: I64, lengths: I64, partitions: int, keyless: int
) -> I64:
    """Return the partition of each record as the Java producer chooses it.

    Args:
        data: bytes that hold all keys.
        starts: index in ``data`` at which each key begins.
        lengths: length of each key in bytes, negative for a record without a key.
        partitions: number of partitions to choose from.
        keyless: partition of records without a key.
    """
    chosen = np.full(len(starts), keyless, dtype=np.int64)
    for length in np.unique(lengths):
        if length < 0:
            continue
        (rows,) = np.nonzero(lengths == length)
        keys = data[starts[rows][:, None] + np.arange(length)]
        chosen[rows] = (murmur2(keys) & _POSITIVE).astype(np.int64) % partitions
    return chosen
