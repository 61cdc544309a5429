"""Records as columns: where the key, the value and the headers of each are in one buffer.

Where records are changed column by column, no Python object is made for each of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from k2ktui.log.batch import Batch, CorruptBatch
from k2ktui.log.records import I64, U8, Records, decode_records, locate_records
from k2ktui.log.varints import read_varints

#: Where the parts begin, and their lengths; a negative length is null.
Places = tuple[I64, I64]


@dataclass(frozen=True, slots=True)
class RecordColumns:
    """Records in offset order; ``timestamps`` are epoch milliseconds.

    Attributes:
        body: the bytes with all keys, values and headers.
        keys: where they are in ``body``.
        values: the same.
        headers: the same of the encoded headers.
    """

    offsets: I64
    timestamps: I64
    body: bytes
    keys: Places
    values: Places
    headers: Places

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def ends(self) -> I64:
        """Where each record ends in ``body``."""
        starts, lengths = self.headers
        return starts + lengths

    def slice(self, first: int, end: int) -> RecordColumns:
        """Return the records from row ``first`` to before row ``end``, with the bytes of theirs."""
        begin = int(self.keys[0][first])
        body = self.body[begin : int(self.ends[end - 1])]
        rows = slice(first, end)
        keys, values, headers = (
            (starts[rows] - begin, lengths[rows])
            for starts, lengths in (self.keys, self.values, self.headers)
        )
        return RecordColumns(self.offsets[rows], self.timestamps[rows], body, keys, values, headers)


def decode_columns(batches: Sequence[Batch], position: int = 0) -> RecordColumns:
    """Decode the records of data batches, in offset order, with offset ``position`` or higher.

    Raises:
        CorruptBatch: the bytes of one of them do not follow the format.
    """
    if any(batch.magic < 2 for batch in batches):
        return concatenate_columns(
            [split_records(decode_records(batch, position)) for batch in batches]
        )
    try:
        located = locate_records(batches, position)
    except CorruptBatch as error:
        raise CorruptBatch(f"the batch at offset {batches[0].base_offset}: {error}") from error
    keys = (located.key_starts, located.key_lengths)
    return _with_parts(located.offsets, located.timestamps, located.body, keys, located.tail_ends)


def split_records(records: Records) -> RecordColumns:
    """Return records as columns.

    Raises:
        CorruptBatch: a record is damaged.
    """
    body = b"".join(records.tails)
    ends = np.cumsum(np.fromiter(map(len, records.tails), dtype=np.int64, count=len(records)))
    starts = np.concatenate((np.zeros(1, dtype=np.int64), ends))[:-1]
    try:
        lengths, at = read_varints(np.frombuffer(body, dtype=np.uint8), starts)
    except IndexError as error:
        raise _truncated(records.offsets) from error
    return _with_parts(records.offsets, records.timestamps, body, (at, lengths), ends)


def concatenate_columns(parts: Sequence[RecordColumns]) -> RecordColumns:
    """Concatenate the records of several batches."""
    if len(parts) == 1:
        return parts[0]
    begins = np.cumsum([0, *(len(part.body) for part in parts[:-1])]).tolist()

    def join(places: Sequence[Places]) -> Places:
        starts = [place[0] + begin for place, begin in zip(places, begins, strict=True)]
        return np.concatenate(starts), np.concatenate([place[1] for place in places])

    return RecordColumns(
        np.concatenate([part.offsets for part in parts]),
        np.concatenate([part.timestamps for part in parts]),
        b"".join([part.body for part in parts]),
        join([part.keys for part in parts]),
        join([part.values for part in parts]),
        join([part.headers for part in parts]),
    )


def _with_parts(
    offsets: I64, timestamps: I64, body: bytes, keys: Places, ends: I64
) -> RecordColumns:
    """Find values and headers after the keys."""
    data: U8 = np.frombuffer(body, dtype=np.uint8)
    keys_at, key_lengths = keys
    try:
        lengths, values_at = read_varints(data, keys_at + np.clip(key_lengths, 0, len(data)))
    except IndexError as error:
        raise _truncated(offsets) from error
    headers_at = values_at + np.clip(lengths, 0, len(data))
    damaged = np.flatnonzero(headers_at >= ends)
    if len(damaged):
        raise CorruptBatch(f"the record at {offsets[damaged[0]]} is truncated")
    headers = (headers_at, ends - headers_at)
    return RecordColumns(offsets, timestamps, body, keys, (values_at, lengths), headers)


def _truncated(offsets: I64) -> CorruptBatch:
    return CorruptBatch(f"one of the {len(offsets)} records from {offsets[0]} on is truncated")
