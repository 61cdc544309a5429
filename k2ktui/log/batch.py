"""Kafka v2 record batches as bytes: read the header, find defects, and stamp a new producer.

Layout and rules: KIP-98 and ``DefaultRecordBatch.java``. This module does not decode records;
batches that cannot be copied verbatim are rebuilt by ``k2ktui.log.rebuild``.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from crc32c import crc32c

# base offset, length, leader epoch, magic, CRC, attributes, last offset delta, base timestamp,
# max timestamp, producer id, producer epoch, base sequence, record count
HEADER = struct.Struct(">qiibIhiqqqhii")
HEADER_BYTES = HEADER.size
_PREFIX = struct.Struct(">qi")
PREFIX_BYTES = _PREFIX.size
_LEGACY_CRC_AT = 12
_MAGIC_AT = 16
# Minimum: a magic 0 message without key and value (CRC, magic, attributes and two lengths).
_LEAST_LENGTH = 14
_CRC_AT = 17
_ATTRIBUTES_AT = 21
_PRODUCER_AT = 43

COMPRESSION_MASK = 0x07
APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40

MAX_SEQUENCE = 0x7FFFFFFF


class CorruptBatch(ValueError):
    """The bytes of a batch do not follow the format."""


class Defect(StrEnum):
    """Why a batch cannot be produced verbatim."""

    HOLE = "compaction removed records inside the batch"
    APPEND_TIME = "the source topic stamps append time"
    LEGACY = "an old message format (magic 0 or 1)"
    TRIMMED = "it starts before the position"


class Batch(NamedTuple):
    """A fetched batch; ``view`` is writable and holds exactly its bytes."""

    view: memoryview
    base_offset: int
    last_offset: int
    leader_epoch: int
    magic: int
    attributes: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    count: int  # type: ignore[assignment]  # hides tuple.count

    @property
    def is_control(self) -> bool:
        """Whether it is a control batch (a transaction marker)."""
        return bool(self.attributes & CONTROL)

    @property
    def is_transactional(self) -> bool:
        """Whether it is part of a transaction."""
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def producer_epoch(self) -> int:
        """Epoch of its producer; -1 if it has none."""
        return -1 if self.magic < 2 else int(HEADER.unpack_from(self.view)[10])

    @property
    def checksum(self) -> int:
        """Its checksum as written: CRC-32C, or CRC-32 for magic 0 and 1."""
        at = _LEGACY_CRC_AT if self.magic < 2 else _CRC_AT
        (written,) = struct.unpack_from(">I", self.view, at)
        return int(written)

    def crc_ok(self) -> bool:
        """Whether its checksum is correct."""
        if self.magic < 2:
            return bool(zlib.crc32(self.view[_MAGIC_AT:]) == self.checksum)
        return bool(crc32c(self.view[_ATTRIBUTES_AT:]) == self.checksum)


def writable(records: bytes | bytearray | memoryview) -> memoryview:
    """Return a view of batches that can be stamped in place: of a copy if they are read-only."""
    view = memoryview(records)
    return memoryview(bytearray(records)) if view.readonly else view


def split_batches(records: bytes | bytearray | memoryview) -> Iterator[Batch]:
    """Yield the complete batches of a fetch response; a truncated last one is left out.

    Batches are stamped in place, so read-only input is copied once.

    Raises:
        CorruptBatch: the bytes after the batches yielded so far are not a batch.
    """
    view = writable(records)
    at, end = 0, len(view)
    while at + _MAGIC_AT < end:
        base, length = _PREFIX.unpack_from(view, at)
        after = at + PREFIX_BYTES + length
        if base < 0 or length < _LEAST_LENGTH:
            raise CorruptBatch(f"a batch at offset {base} with a length of {length} bytes")
        if after > end:
            return
        yield _batch(view[at:after], base)
        at = after


def _batch(view: memoryview, base: int) -> Batch:
    magic = view[_MAGIC_AT]
    if magic < 2:
        # A legacy wrapper message carries the offset of its LAST inner record; a plain one its own.
        return Batch(view, base, base, -1, magic, 0, -1, -1, -1, -1)
    if magic > 2:
        raise CorruptBatch(f"the batch at offset {base} has the unknown format {magic}")
    if len(view) < HEADER_BYTES:
        raise CorruptBatch(f"the batch at offset {base} has only {len(view)} bytes")
    (_, _, epoch, _, _, attributes, delta, first, last, producer, _, _, count) = HEADER.unpack_from(
        view
    )
    if delta < 0 or count < 0:
        raise CorruptBatch(f"the batch at offset {base} has {count} records up to {base + delta}")
    return Batch(view, base, base + delta, epoch, magic, attributes, first, last, producer, count)


def find_defect(batch: Batch, position: int) -> Defect | None:
    """Return why copying a data batch from ``position`` on requires a rebuild, or None."""
    if batch.magic < 2:
        return Defect.LEGACY
    if batch.last_offset - batch.base_offset + 1 != batch.count:
        return Defect.HOLE
    if batch.base_offset < position:
        return Defect.TRIMMED
    if batch.attributes & APPEND_TIME:
        return Defect.APPEND_TIME
    return None


def stamp_producer(
    view: memoryview,
    producer_id: int,
    epoch: int,
    sequence: int,
    *,
    transactional: bool,
    checksum_known: bool = False,
) -> None:
    """Rewrite a batch in place for this producer, and compute its CRC-32C over all of it.

    That needs no checksum from before: ``checksum_known`` is ignored, it is for the core in C.
    Compression and records stay. The delete horizon flag of a compacted source (KIP-534) is
    cleared; record timestamps are deltas to the base timestamp with or without it.
    """
    (attributes,) = struct.unpack_from(">h", view, _ATTRIBUTES_AT)
    attributes &= COMPRESSION_MASK
    if transactional:
        attributes |= TRANSACTIONAL
    struct.pack_into(">h", view, _ATTRIBUTES_AT, attributes)
    struct.pack_into(">qhi", view, _PRODUCER_AT, producer_id, epoch, sequence)
    struct.pack_into(">q", view, 0, 0)
    struct.pack_into(">i", view, 12, -1)
    struct.pack_into(">I", view, _CRC_AT, crc32c(view[_ATTRIBUTES_AT:]))


def next_sequence(sequence: int, count: int) -> int:
    """Return the sequence number after ``count`` records; it wraps to 0 after 2**31 - 1."""
    return (sequence + count) & MAX_SEQUENCE


class AbortedTransactions:
    """Filters the batches of aborted transactions from one fetch response.

    I2: no aborted record is copied. The broker sends aborted batches too, also to
    ``read_committed`` clients: whoever reads source batches has to ask this class about each one.

    Works like the Java consumer: the broker lists the aborted transactions that overlap the
    response by producer id and first offset; an abort marker ends the producer's current one.
    """

    def __init__(self, aborted: list[tuple[int, int]]) -> None:
        """``aborted`` holds ``(producer id, first offset)`` pairs in any order."""
        self._pending = sorted(aborted, key=lambda item: item[1], reverse=True)
        self._open: set[int] = set()

    @property
    def is_needed(self) -> bool:
        """Whether a transactional batch may be dropped; control batches are, always."""
        return bool(self._pending or self._open)

    def drops(self, batch: Batch) -> bool:
        """Whether to drop this batch; call it for every batch, in order."""
        if batch.magic < 2:
            return False
        while self._pending and self._pending[-1][1] <= batch.last_offset:
            self._open.add(self._pending.pop()[0])
        if batch.is_control:
            if is_abort_marker(batch):
                self._open.discard(batch.producer_id)
            return True
        return batch.is_transactional and batch.producer_id in self._open


def is_abort_marker(batch: Batch) -> bool:
    """Whether a control batch is an abort marker (control type 0; commit is 1).

    Raises:
        CorruptBatch: it has no control record.
    """
    # A control record: length, attributes, timestamp delta, offset delta (a byte each, the deltas
    # of a single-record batch being 0), key length, then key: version int16, type int16.
    at = HEADER_BYTES + 5
    if len(batch.view) < at + 4:
        raise CorruptBatch(f"the control batch at offset {batch.base_offset} is truncated")
    return batch.count == 1 and struct.unpack_from(">hh", batch.view, at)[1] == 0
