"""Messages of magic 0 and 1, as in topics written before Kafka 0.11.

A compressed message (the wrapper) has a set of plain messages as its value and the offset of the
last one. Inner offsets are absolute in magic 0 and relative in magic 1 (KIP-31). Layout: Apache
Kafka's ``LegacyRecord.java`` and ``AbstractLegacyRecordBatch.java``.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from k2ktui.log.batch import APPEND_TIME, COMPRESSION_MASK, CorruptBatch
from k2ktui.log.decompress import decompress, with_lz4_checksum

_LZ4 = 3
_SIZED = struct.Struct(">qi")
# CRC-32 of the bytes after it, magic, attributes
_HEAD = struct.Struct(">IBB")
_TIME = struct.Struct(">q")
_LENGTH = struct.Struct(">i")
_CRC_BYTES = 4
_NO_TIMESTAMP = -1

Message = tuple[int, int, bytes | None, bytes | None]
"""Offset, timestamp in epoch milliseconds (-1 for none), key and value."""


@dataclass(frozen=True, slots=True)
class _Entry:
    offset: int
    magic: int
    attributes: int
    timestamp: int
    key: bytes | None
    value: bytes | None


def messages(data: bytes) -> list[Message]:
    """Return the records of one message, compressed or not, preceded by its offset and size.

    Raises:
        CorruptBatch: a checksum is wrong, or the bytes do not follow the format.
    """
    try:
        (outer,) = _entries(data)
        codec = outer.attributes & COMPRESSION_MASK
        return _unwrap(outer, codec) if codec else [_message(outer, 0)]
    except (struct.error, ValueError) as error:
        if isinstance(error, CorruptBatch):
            raise
        raise CorruptBatch("a message of an old format is truncated") from error


def _unwrap(outer: _Entry, codec: int) -> list[Message]:
    body = outer.value or b""
    if codec == _LZ4 and outer.magic == 0:
        body = with_lz4_checksum(body)
    inner = list(_entries(decompress(codec, body)))
    if not inner:
        raise CorruptBatch("a compressed message contains no message")
    if any(entry.attributes & COMPRESSION_MASK or entry.magic != outer.magic for entry in inner):
        raise CorruptBatch(
            "a compressed message contains a message that is compressed or of another format"
        )
    first = max(0, outer.offset - inner[-1].offset) if outer.magic else 0
    unwrapped = [_message(entry, first) for entry in inner]
    if outer.magic and outer.attributes & APPEND_TIME:
        unwrapped = [(offset, outer.timestamp, key, value) for offset, _, key, value in unwrapped]
    offsets = [offset for offset, *_ in unwrapped]
    if sorted(set(offsets)) != offsets or offsets[0] < 0 or offsets[-1] > outer.offset:
        raise CorruptBatch(
            "the offsets in a compressed message do not increase up to the message's own offset"
        )
    return unwrapped


def _message(entry: _Entry, first: int) -> Message:
    return entry.offset + first, entry.timestamp, entry.key, entry.value


def _entries(data: bytes) -> Iterator[_Entry]:
    at = 0
    while at < len(data):
        offset, size = _SIZED.unpack_from(data, at)
        at += _SIZED.size
        message = data[at : at + size] if size >= 0 else b""
        if len(message) != size:
            raise CorruptBatch("a message of an old format is truncated")
        yield _entry(offset, message)
        at += size


def _entry(offset: int, message: bytes) -> _Entry:
    crc, magic, attributes = _HEAD.unpack_from(message)
    if zlib.crc32(message[_CRC_BYTES:]) != crc:
        raise CorruptBatch(f"the message at offset {offset} has a wrong checksum")
    if magic > 1:
        raise CorruptBatch(f"a message of format {magic} inside one of an older format")
    at, timestamp = _HEAD.size, _NO_TIMESTAMP
    if magic == 1:
        (timestamp,) = _TIME.unpack_from(message, at)
        at += _TIME.size
    key, at = _bytes(message, at)
    value, at = _bytes(message, at)
    if at != len(message):
        raise CorruptBatch(f"{len(message) - at} bytes after the value of a message")
    return _Entry(offset, magic, attributes, timestamp, key, value)


def _bytes(message: bytes, at: int) -> tuple[bytes | None, int]:
    (size,) = _LENGTH.unpack_from(message, at)
    at += _LENGTH.size
    if size == -1:
        return None, at
    if size < 0 or at + size > len(message):
        raise CorruptBatch(f"a key or value of length {size} in a message of {len(message)} bytes")
    return message[at : at + size], at + size
