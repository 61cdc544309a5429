"""Which topics a member of a consumer group reads: the consumer protocol's bytes, decoded.

A member wrote them, so they are hostile input: what is damaged is unknown, never empty.
"""

from __future__ import annotations

import struct

_SHORT, _INT = struct.Struct(">h"), struct.Struct(">i")


class _Damaged(Exception):
    """The bytes end early, or a length is negative."""


class _Bytes:
    def __init__(self, raw: bytes) -> None:
        self._raw, self._at = raw, 0

    def number(self, layout: struct.Struct) -> int:
        try:
            (value,) = layout.unpack_from(self._raw, self._at)
        except struct.error as error:
            raise _Damaged from error
        self._at += layout.size
        return int(value)

    def count(self, least: int) -> int:
        """Return a number of items of at least so many bytes each."""
        value = self.number(_INT)
        if not 0 <= value <= (len(self._raw) - self._at) // least:
            raise _Damaged
        return value

    def skip(self, size: int) -> None:
        self._at += size

    def text(self) -> str:
        size = self.number(_SHORT)
        end = self._at + size
        if size < 0 or end > len(self._raw):
            raise _Damaged
        raw, self._at = self._raw[self._at : end], end
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            raise _Damaged from error


def read_subscription(raw: bytes) -> frozenset[str] | None:
    """Return the topics of a ``ConsumerProtocolSubscription``; None if they cannot be read.

    A consumer that subscribes by a pattern names the topics that match it.
    """
    reader = _Bytes(raw)
    try:
        reader.number(_SHORT)  # its version: later ones append fields
        return frozenset(reader.text() for _ in range(reader.count(_SHORT.size)))
    except _Damaged:
        return None


def read_assignment(raw: bytes) -> frozenset[str] | None:
    """Return the topics of a ``ConsumerProtocolAssignment``; None if they cannot be read.

    A member without any bytes is assigned nothing.
    """
    if not raw:
        return frozenset()
    reader = _Bytes(raw)
    topics = set()
    try:
        reader.number(_SHORT)
        for _ in range(reader.count(_SHORT.size + _INT.size)):
            topics.add(reader.text())
            reader.skip(_INT.size * reader.count(_INT.size))
    except _Damaged:
        return None
    return frozenset(topics)
