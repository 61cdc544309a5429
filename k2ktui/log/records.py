"""The records of a batch as columns, without decoding their contents.

A record is its offset, its timestamp and its *tail*: the encoded key, value and headers, copied as
bytes, which preserves headers with duplicate keys, null values or keys that are not UTF-8. The core
in C finds them; plain Python does where it cannot.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import overload

import numpy as np
from numpy.typing import NDArray

from k2ktui.log.batch import COMPRESSION_MASK, HEADER_BYTES, Batch, CorruptBatch
from k2ktui.log.core import core
from k2ktui.log.decompress import limit_of
from k2ktui.log.legacy import messages
from k2ktui.log.plain import PlainRecord, read_payload, read_records
from k2ktui.log.varints import encode_varint
from k2ktui.native.binding import CoreError, Piece

I64 = NDArray[np.int64]
U8 = NDArray[np.uint8]

_NO_HEADERS = b"\x00"
_IN_C_FROM = 3  # records; fewer are read faster in Python


class Tails(Sequence[bytes]):
    """Tails of records by where they are in ``body``; they become objects when asked for."""

    __slots__ = ("_made", "body", "ends", "starts")

    def __init__(self, body: bytes, starts: I64, ends: I64) -> None:
        self.body, self.starts, self.ends = body, starts, ends
        self._made: list[bytes] | None = None

    def __len__(self) -> int:
        return len(self.starts)

    @overload
    def __getitem__(self, at: int) -> bytes: ...

    @overload
    def __getitem__(self, at: slice) -> Tails: ...

    def __getitem__(self, at: int | slice) -> bytes | Tails:
        return self.take(at) if isinstance(at, slice) else self._all()[at]

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._all())

    def __eq__(self, other: object) -> bool:
        return self._all() == (other._all() if isinstance(other, Tails) else other)

    __hash__ = None  # type: ignore[assignment]

    def take(self, rows: I64 | slice) -> Tails:
        """Return those at these rows, in that order."""
        return Tails(self.body, self.starts[rows], self.ends[rows])

    def _all(self) -> list[bytes]:
        if self._made is None:
            body, bounds = self.body, zip(self.starts.tolist(), self.ends.tolist(), strict=True)
            self._made = [body[start:end] for start, end in bounds]
        return self._made


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
        some = tails.take(rows) if isinstance(tails, Tails) else [tails[i] for i in rows.tolist()]
        return Records(self.offsets[rows], self.timestamps[rows], some)

    @property
    def located(self) -> Tails:
        """Their tails in one buffer."""
        if isinstance(self.tails, Tails):
            return self.tails
        ends = np.cumsum(self.sizes)
        return Tails(b"".join(self.tails), ends - self.sizes, ends)

    @property
    def sizes(self) -> I64:
        """Bytes of each tail."""
        if isinstance(self.tails, Tails):
            return self.tails.ends - self.tails.starts
        return np.fromiter(map(len, self.tails), dtype=np.int64, count=len(self.tails))


def concatenate(parts: Sequence[Records]) -> Records:
    """Concatenate the records of several batches."""
    if len(parts) == 1:
        return parts[0]
    return Records(
        np.concatenate([part.offsets for part in parts]),
        np.concatenate([part.timestamps for part in parts]),
        _concatenate_tails([part.tails for part in parts]),
    )


def _concatenate_tails(parts: Sequence[Sequence[bytes]]) -> Sequence[bytes]:
    located = [part for part in parts if isinstance(part, Tails)]
    if len(located) < len(parts):
        return [tail for part in parts for tail in part]
    begins = np.cumsum([0, *(len(part.body) for part in located)])[:-1].tolist()
    starts = [part.starts + begin for part, begin in zip(located, begins, strict=True)]
    ends = [part.ends + begin for part, begin in zip(located, begins, strict=True)]
    body = b"".join([part.body for part in located])
    return Tails(body, np.concatenate(starts), np.concatenate(ends))


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
        return (
            _legacy(batch, position)
            if batch.magic < 2
            else with_tails(locate_records((batch,), position))
        )
    except CorruptBatch as error:
        raise CorruptBatch(f"the batch at offset {batch.base_offset}: {error}") from error
    except (IndexError, OverflowError) as error:
        raise CorruptBatch(f"the batch at offset {batch.base_offset} is truncated") from error


@dataclass(frozen=True, slots=True)
class LocatedRecords:
    """Records of v2 batches in offset order, each with its tail in ``body``.

    ``body`` has the decompressed records, and may have the headers of batches between them.
    ``key_starts`` and ``key_lengths`` are those of :class:`Decoded`; ``batches`` is the number of
    batches that were decoded.
    """

    body: bytes
    batches: int
    offsets: I64
    timestamps: I64
    tail_starts: I64
    tail_ends: I64
    key_starts: I64
    key_lengths: I64

    def after(self, position: int) -> LocatedRecords:
        """Return those with this offset or a higher one."""
        first = int(np.searchsorted(self.offsets, position))
        return self._rows(self.body, self.batches, slice(first, None)) if first else self

    def first(self, batches: int, count: int, size: int) -> LocatedRecords:
        """Return the records of the first batches: so many, in so many bytes."""
        return self._rows(self.body[:size], batches, slice(count))

    def _rows(self, body: bytes, batches: int, rows: slice) -> LocatedRecords:
        places = (self.tail_starts, self.tail_ends, self.key_starts, self.key_lengths)
        columns = (self.offsets, self.timestamps, *places)
        return LocatedRecords(body, batches, *(column[rows] for column in columns))


def locate_records(batches: Sequence[Batch], position: int = 0) -> LocatedRecords:
    """Find the records of v2 batches with offset ``position`` or higher.

    Batches of a few records cost little more than one batch with all of these records.

    Raises:
        CorruptBatch: the bytes do not follow the format.
    """
    limits = [limit_of(len(batch.view) - HEADER_BYTES) for batch in batches]
    located = _locate_in_c(batches, min(limits))
    if located is None or located.batches < len(batches):
        located = _locate_in_python(batches, limits)
    return located.after(position)


def locate_run(batches: Sequence[Batch], most: int, position: int = 0) -> LocatedRecords:
    """Find the records of the first of these v2 batches, up to ``most`` bytes decompressed.

    It ends after the batch with which they reach that, which may be twice as much in all, and
    before one that is damaged, holds more, or begins before the end of the one before.

    Raises:
        CorruptBatch: the first one is damaged, or holds more.
    """
    for at, (before, after) in enumerate(pairwise(batches), 1):
        if after.base_offset <= before.last_offset:
            batches = batches[:at]
            break
    located = _locate_in_c(batches, 2 * most)
    if located is None:
        located = _locate_run_in_python(batches, most)
    else:
        located = _up_to(located, batches, most)
    return located.after(position)


def _locate_in_c(batches: Sequence[Batch], most: int) -> LocatedRecords | None:
    """Find the records of the first of them that are in all no larger, and not damaged.

    Returns:
        None where the core does not do it: plain Python decides.
    """
    in_c = core()
    if in_c is None or sum(batch.count for batch in batches) < _IN_C_FROM:
        return None
    data = b"".join([batch.view for batch in batches])
    rows = in_c.scan(data).rows
    if rows["base_offset"].tolist() != [batch.base_offset for batch in batches]:
        return None
    try:
        columns = in_c.columns(Piece(data, rows), most)
    except CoreError:
        return None
    body = data if columns.body.obj is data else bytes(columns.body)
    places = (columns.tails, columns.ends, columns.keys, columns.key_lengths)
    return LocatedRecords(body, columns.batches, columns.offsets, columns.timestamps, *places)


def _up_to(located: LocatedRecords, batches: Sequence[Batch], most: int) -> LocatedRecords:
    """Return those up to the batch that reaches ``most`` bytes; they hold at most twice that.

    Raises:
        CorruptBatch: the first one holds more.
    """
    counts = np.cumsum([batch.count for batch in batches[: located.batches]])
    ends = np.concatenate(([0], located.tail_ends))[counts]
    held = ends
    if not any(batch.attributes & COMPRESSION_MASK for batch in batches):
        # Then the headers are between the records.
        held = ends - HEADER_BYTES * np.arange(1, len(ends) + 1)
    number = min(located.batches, int(np.searchsorted(held, most)) + 1)
    if held[number - 1] > 2 * most:
        number -= 1
    if not number:
        raise CorruptBatch(f"it has more than {2 * most} bytes")
    return located.first(number, int(counts[number - 1]), int(ends[number - 1]))


def _locate_in_python(batches: Sequence[Batch], limits: Sequence[int]) -> LocatedRecords:
    payloads = [read_payload(*some) for some in zip(batches, limits, strict=True)]
    records = [list(read_records(*some)) for some in zip(batches, payloads, strict=True)]
    return _joined(payloads, records)


def _locate_run_in_python(batches: Sequence[Batch], most: int) -> LocatedRecords:
    payloads: list[bytes] = []
    records: list[list[PlainRecord]] = []
    for batch in batches:
        room = 2 * most - sum(map(len, payloads))
        if room <= most:
            break
        try:
            payload = read_payload(batch, room)
            if len(payload) > room:
                raise CorruptBatch(f"it has more than {room} bytes")
            some = list(read_records(batch, payload))
        except CorruptBatch:
            if not payloads:
                raise
            break
        payloads.append(payload)
        records.append(some)
    return _joined(payloads, records)


def _joined(payloads: Sequence[bytes], records: Sequence[Sequence[PlainRecord]]) -> LocatedRecords:
    rows: list[tuple[int, ...]] = []
    at = 0
    for payload, some in zip(payloads, records, strict=True):
        rows += [
            (
                *(record.offset, record.timestamp, at + record.tail, at + record.end),
                *(at + record.key, record.key_length),
            )
            for record in some
        ]
        at += len(payload)
    columns = np.array(rows, dtype=np.int64).reshape(-1, 6).T
    return LocatedRecords(b"".join(payloads), len(payloads), *columns)


def with_tails(located: LocatedRecords) -> Decoded:
    """Return located records, each with its tail."""
    tails = Tails(located.body, located.tail_starts, located.tail_ends)
    kept = Records(located.offsets, located.timestamps, tails)
    data = np.frombuffer(located.body, dtype=np.uint8)
    return Decoded(kept, data, located.key_starts, located.key_lengths, len(located.body))


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
