"""Compress the records of a batch, as its producer would."""

from __future__ import annotations

import gzip
from collections.abc import Callable

from kafka.codec import lz4_encode, snappy_encode, zstd_encode


def compress(codec: int, data: bytes) -> bytes:
    """Return ``data`` compressed; ``codec`` is the number in a batch's attributes."""
    return _ENCODERS[codec](data)


def _gzip(data: bytes) -> bytes:
    # Without the time of day, as Java's clients: the same records give the same bytes.
    return gzip.compress(data, mtime=0)


_ENCODERS: dict[int, Callable[[bytes], bytes]] = {
    1: _gzip,
    2: snappy_encode,
    3: lz4_encode,
    4: zstd_encode,
}
