"""The records of a batch as columns, without decoding their contents.

A record is its offset, its timestamp and its *tail*: the encoded key, value and headers, copied as
bytes, which preserves headers with duplicate keys, null values or keys that are not UTF-8. Decoding
by columns is several times faster than a Python loop over the records.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, pairwise

import numpy as np
from numpy.typing import NDArray

from k2ktui.log.batch import (
    APPEND_TIME,
    COMPRESSION_MASK,
    HEADER_BYTES,
    Batch,
    CorruptBatch,
)
from k2ktui.log.decompress import decompress
from k2ktui.log.legacy import messages

I64 = NDArray[np.int64]
U8 = NDArray[np.uint8]

_NO_HEADERS = b"\x00"
_VARINT_BYTES = 10


@dataclass(frozen=True, slots=True)
class Records:
    """Records in offset order; ``timestamps`` are epoch milliseconds."""

    offsets: I64
    timestamps: I64
    tails: Sequence[bytes]

    def __len__(self) -> int:
        return len(self.tails)

    def take(self, rows: I64) -> Records:
        """Return the records at these row indexes, in that order."""
        tails = self.tails
        return Records(self.offsets[rows], self.timestamps[rows], [tails[i] for i in rows.tolist()])


def concatenate(parts: Sequence[Records]) -> Records:
    """Concatenate the records of several batches."""
    if len(parts) == 1:
        return parts[0]
    return Records(
        np.concatenate([part.offsets for part in parts]),
        np.concatenate([part.timestamps for part in parts]),
        [tail for part in parts for tail in part.tails],
    )


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


def skip_varints(data: U8, at: I64) -> I64:
    """Return the index after the varint at each index.

    Raises:
        IndexError: a varint extends beyond the end of ``data``.
        CorruptBatch: a varint has more than 10 bytes.
    """
    at = at.copy()
    rows = np.arange(len(at))
    for _ in range(_VARINT_BYTES):
        byte = data[at[rows]]
        at[rows] += 1
        rows = rows[byte >= 0x80]
        if not len(rows):
            return at
    raise CorruptBatch("a varint of more than 10 bytes")


def decompress_payload(batch: Batch, most: int | None = None) -> bytes:
    """Return the encoded records of a v2 batch, decompressed to ``most`` bytes.

    Raises:
        CorruptBatch: they cannot be decompressed, or are too large.
    """
    body = bytes(batch.view[HEADER_BYTES:])
    codec = batch.attributes & COMPRESSION_MASK
    return decompress(codec, body, most) if codec else body


@dataclass(frozen=True, slots=True)
class Decoded:
    """A batch's records, and the positions of their keys in ``data`` (length -1: no key).

    ``size`` is the decompressed size in bytes.
    """

    records: Records
    data: U8
    key_starts: I64
    key_lengths: I64
    size: int


def decode_records(batch: Batch, position: int = 0) -> Records:
    """Decode the records of a data batch with offset ``position`` or higher.

    A batch stamped with append time yields that time for each record.

    Raises:
        CorruptBatch: the bytes do not follow the format.
    """
    return decode_with_keys(batch, position).records


def decode_with_keys(batch: Batch, position: int = 0) -> Decoded:
    """Decode a data batch, with its key positions; otherwise like :func:`decode_records`."""
    try:
        return _legacy(batch, position) if batch.magic < 2 else _columns(batch, position)
    except CorruptBatch as error:
        raise CorruptBatch(f"the batch at offset {batch.base_offset}: {error}") from error
    except (IndexError, OverflowError) as error:
        raise CorruptBatch(f"the batch at offset {batch.base_offset} is truncated") from error


@dataclass(frozen=True, slots=True)
class LocatedRecords:
    """Records of v2 batches in offset order, each with its tail in ``body``.

    ``key_starts`` and ``key_lengths`` are those of :class:`Decoded`.
    """

    body: bytes
    offsets: I64
    timestamps: I64
    tail_starts: I64
    tail_ends: I64
    key_starts: I64
    key_lengths: I64


def locate_records(batches: Sequence[Batch], position: int = 0) -> LocatedRecords:
    """Find the records of v2 batches with offset ``position`` or higher.

    Batches of a few records cost little more than one batch with all of these records.

    Raises:
        CorruptBatch: the bytes do not follow the format.
        IndexError, OverflowError: a batch is truncated.
    """
    bodies = [decompress_payload(batch) for batch in batches]
    bounds = [_bounds(body, batch) for body, batch in zip(bodies, batches, strict=True)]
    counts = np.array([len(starts) for starts, _ in bounds])
    before = np.cumsum([0, *map(len, bodies[:-1])])
    shifts = np.repeat(before, counts)
    begin, ends = (
        np.fromiter(chain.from_iterable(bound), dtype=np.int64, count=len(shifts)) + shifts
        for bound in zip(*bounds, strict=True)
    )
    body = bodies[0] if len(bodies) == 1 else b"".join(bodies)
    return _located(batches, body, counts, begin, ends, position)


def _located(
    batches: Sequence[Batch], body: bytes, counts: I64, begin: I64, ends: I64, position: int
) -> LocatedRecords:
    """Read the fields of the records between ``begin`` (after the length) and ``ends``."""
    data = np.frombuffer(body, dtype=np.uint8)
    time_deltas, at = read_varints(data, begin + 1)  # one byte of attributes, unused
    offset_deltas, tails_at = read_varints(data, at)
    key_lengths, keys_at = read_varints(data, tails_at)
    if (key_lengths >= ends - keys_at).any():
        raise CorruptBatch("a record is shorter than what is in it")
    _check_deltas(offset_deltas, batches, counts)
    offsets = offset_deltas + np.repeat([batch.base_offset for batch in batches], counts)
    timestamps = time_deltas + np.repeat([batch.base_timestamp for batch in batches], counts)
    appended = [bool(batch.attributes & APPEND_TIME) for batch in batches]
    if any(appended):
        latest = np.repeat([batch.max_timestamp for batch in batches], counts)
        timestamps = np.where(np.repeat(appended, counts), latest, timestamps)
    keep = slice(int(np.searchsorted(offsets, position)), None)
    columns = (offsets, timestamps, tails_at, ends, keys_at, key_lengths)
    return LocatedRecords(body, *(column[keep] for column in columns))


def decode_run(batches: Sequence[Batch], bodies: Sequence[bytes], position: int = 0) -> Decoded:
    """Decode v2 batches in one pass, which takes little longer than one batch of their records.

    Accepts nothing that :func:`decode_with_keys` would refuse in one of them.

    Args:
        batches: the batches, in offset order.
        bodies: their encoded records, decompressed.
        position: records below this offset are left out.

    Raises:
        CorruptBatch: one of them is damaged; decode them one by one to learn which, and why.
    """
    try:
        return _decoded(_locate_run(batches, bodies, position))
    except (IndexError, OverflowError) as error:
        raise CorruptBatch("a batch is truncated") from error


def _locate_run(batches: Sequence[Batch], bodies: Sequence[bytes], position: int) -> LocatedRecords:
    if any(after.base_offset <= before.last_offset for before, after in pairwise(batches)):
        raise CorruptBatch("a batch begins before the end of the one before")
    body = b"".join(bodies)
    counts = np.array([batch.count for batch in batches])
    ends = np.array(_ends(body, int(counts.sum())), dtype=np.int64)
    lengths, begin = read_varints(np.frombuffer(body, dtype=np.uint8), _before(ends))
    body_ends = np.cumsum(np.fromiter(map(len, bodies), dtype=np.int64, count=len(bodies)))
    # The last record of each batch must end where its body does: what one batch says of its
    # lengths would otherwise be looked for in the next.
    if (begin + lengths != ends).any() or (
        np.concatenate(([0], ends))[np.cumsum(counts)] != body_ends
    ).any():
        raise CorruptBatch("the lengths of its records do not add up")
    located = _located(batches, body, counts, begin, ends, position)
    if (located.key_starts > located.tail_ends).any():
        raise CorruptBatch("a record is shorter than what is in it")
    return located


def _before(ends: I64) -> I64:
    """Return where each record begins if each begins at the end of the one before."""
    return np.concatenate((np.zeros(1, dtype=np.int64), ends))[:-1]


def _columns(batch: Batch, position: int) -> Decoded:
    return _decoded(locate_records((batch,), position))


def _decoded(located: LocatedRecords) -> Decoded:
    body = located.body
    bounds = zip(located.tail_starts.tolist(), located.tail_ends.tolist(), strict=True)
    kept = Records(located.offsets, located.timestamps, [body[s:e] for s, e in bounds])
    data = np.frombuffer(body, dtype=np.uint8)
    return Decoded(kept, data, located.key_starts, located.key_lengths, len(body))


def find_tails(body: bytes, batch: Batch) -> tuple[I64, I64]:
    """Return where the tail of each record of a v2 batch begins in ``body``, and where it ends.

    Raises:
        CorruptBatch: the bytes do not follow the format.
    """
    try:
        ends = np.array(_ends(body, batch.count), dtype=np.int64)
        data = np.frombuffer(body, dtype=np.uint8)
        lengths, starts = read_varints(data, np.concatenate(([0], ends[:-1])))
        if (starts + lengths != ends).any() or (lengths < 0).any() or ends[-1:] != len(body):
            raise CorruptBatch("the lengths of its records do not add up")
        at = starts + 1  # one byte of attributes, unused
        tails = skip_varints(data, skip_varints(data, at))
        if (tails >= ends).any():
            raise CorruptBatch("a record is shorter than what is in it")
    except (IndexError, OverflowError) as error:
        raise CorruptBatch(f"the batch at offset {batch.base_offset} is truncated") from error
    except CorruptBatch as error:
        raise CorruptBatch(f"the batch at offset {batch.base_offset}: {error}") from error
    return tails, ends


def _ends(body: bytes, count: int) -> list[int]:
    """Return where each record ends, as their lengths say; the caller checks the lengths."""
    ends: list[int] = []
    at = 0
    append = ends.append
    for _ in range(count):
        length = body[at]
        if length < 0x80:
            at += 1 + (length >> 1)
        else:
            following = body[at + 1]
            if following < 0x80:
                at += 2 + ((length & 0x7F | following << 7) >> 1)
            else:
                length, at = read_varint(body, at)
                at += max(0, length)
        append(at)
    return ends


def _check_deltas(deltas: I64, batches: Sequence[Batch], counts: I64) -> None:
    """Check the deltas of each batch; ``counts`` has how many of them are its own."""
    full = np.flatnonzero(counts)
    ends = np.cumsum(counts)[full]
    starts = ends - counts[full]
    last = np.array([batches[at].last_offset - batches[at].base_offset for at in full.tolist()])
    grows = np.diff(deltas, prepend=-1) > 0
    grows[starts] = deltas[starts] >= 0
    if not grows.all() or (deltas[ends - 1] > last).any():
        raise CorruptBatch("the offsets of its records do not increase up to its last")


def _bounds(body: bytes, batch: Batch) -> tuple[list[int], list[int]]:
    """Return the index at which each record begins (after its length) and ends."""
    starts, ends, at, size = [], [], 0, len(body)
    for _ in range(batch.count):
        byte = body[at]
        at += 1
        length = byte >> 1
        if byte & 0x81:  # negative, or longer than one byte
            following = body[at]
            if byte & 1 or following >= 0x80:
                length, at = read_varint(body, at - 1)
            else:
                length = (byte & 0x7F | following << 7) >> 1
                at += 1
        starts.append(at)
        at += length
        if length < 0 or at > size:
            raise CorruptBatch(f"a record of length {length}")
        ends.append(at)
    if at != size:
        raise CorruptBatch(f"{size - at} bytes after the last record")
    return starts, ends


def _legacy(batch: Batch, position: int) -> Decoded:
    decoded = [r for r in messages(bytes(batch.view)) if r[0] >= position]
    keys = [r[2] for r in decoded]
    joined = b"".join(key or b"" for key in keys)
    lengths = np.array([-1 if key is None else len(key) for key in keys], dtype=np.int64)
    ends = np.cumsum(np.maximum(lengths, 0))
    return Decoded(
        make_records(decoded),
        np.frombuffer(joined, dtype=np.uint8),
        ends - np.maximum(lengths, 0),
        lengths,
        sum(len(r[3] or b"") for r in decoded) + len(joined),
    )


def make_records(rows: Sequence[tuple[int, int, bytes | None, bytes | None]]) -> Records:
    """Make records without headers from offset, timestamp, key and value."""
    return Records(
        np.array([r[0] for r in rows], dtype=np.int64),
        np.array([r[1] for r in rows], dtype=np.int64),
        [encode_nullable(r[2]) + encode_nullable(r[3]) + _NO_HEADERS for r in rows],
    )


def encode_nullable(data: bytes | None) -> bytes:
    """Encode bytes with their length, None with length -1."""
    return b"\x01" if data is None else _encode_length(len(data)) + data


_encode_length = lru_cache(1 << 14)(encode_varint)  # most records of a topic have similar lengths
