"""Encode records into new v2 batches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from k2ktui.log.batch import HEADER_BYTES
from k2ktui.log.core import core
from k2ktui.log.plain import write_batch
from k2ktui.log.records import I64, Records, Tails
from k2ktui.native.binding import CoreError, Located

# Maximum bytes of a record besides its tail: length, attributes, timestamp and offset deltas.
_RECORD_BYTES = 21
_MOST_BYTES = 1 << 30  # the core writes no larger batch


@dataclass(frozen=True, slots=True)
class BuiltBatch:
    """A batch ready for stamping; ``sources`` are the source offsets of its records."""

    data: memoryview
    count: int
    sources: I64


def build_batches(records: Records, codec: int, limit: int) -> Iterator[BuiltBatch]:
    """Encode records into batches of at most ``limit`` bytes before compression.

    A single record larger than the limit gets its own batch. The batches carry no producer and no
    transactional flag: ``k2ktui.log.batch.stamp_producer`` sets both.
    """
    if not len(records):
        return
    tails = records.located
    ends = np.cumsum(records.sizes + _RECORD_BYTES)
    first, room = 0, limit - HEADER_BYTES
    while first < len(records):
        before = int(ends[first - 1]) if first else 0
        after = max(first + 1, int(np.searchsorted(ends, before + room, side="right")))
        rows = slice(first, after)
        data = _encode(records.timestamps[rows], tails[rows], codec)
        yield BuiltBatch(data, after - first, records.offsets[rows])
        first = after


def built_bytes(records: Records) -> int:
    """Return the size of one batch of these records as :func:`build_batches` counts it."""
    return HEADER_BYTES + int(records.sizes.sum()) + _RECORD_BYTES * len(records)


def _encode(timestamps: I64, tails: Tails, codec: int) -> memoryview:
    in_c = core()
    if in_c is not None:
        with suppress(CoreError):
            records = Located(tails.body, timestamps, tails.starts, tails.ends)
            built = in_c.build(records, codec, _MOST_BYTES)
            if built.count == len(tails):
                return built.data
    return memoryview(write_batch(zip(timestamps.tolist(), tails, strict=True), codec))
