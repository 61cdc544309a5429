"""What a member of a consumer group reads: the consumer protocol's bytes, decoded.

A member wrote them, so they are hostile input: what is damaged is unknown, never empty. Later
versions append fields, which kafka-python's own classes would require.
"""

from __future__ import annotations

import struct

from k2ktui.kafka.wire.protocol_reader import ProtocolReader

_SHORT, _INT = struct.Struct(">h"), struct.Struct(">i")


def read_subscription(raw: bytes) -> frozenset[str] | None:
    """Return the topics of a ``ConsumerProtocolSubscription``; None if they cannot be read.

    A consumer that subscribes by a pattern names the topics that match it.
    """
    reader = ProtocolReader(memoryview(raw))
    try:
        reader.unpack(_SHORT)  # its version
        return frozenset(_text(reader) for _ in range(_count(reader)))
    except (ValueError, struct.error):
        return None


def read_assignment(raw: bytes) -> dict[str, tuple[int, ...]] | None:
    """Return what a ``ConsumerProtocolAssignment`` assigns; None if it cannot be read.

    A member without any bytes is assigned nothing.
    """
    if not raw:
        return {}
    reader = ProtocolReader(memoryview(raw))
    assigned: dict[str, tuple[int, ...]] = {}
    try:
        reader.unpack(_SHORT)
        for _ in range(_count(reader)):
            topic, raw_numbers = _text(reader), reader.take(_INT.size * _count(reader))
            assigned[topic] = tuple(number for (number,) in _INT.iter_unpack(raw_numbers))
    except (ValueError, struct.error):
        return None
    return assigned


def _count(reader: ProtocolReader) -> int:
    (number,) = reader.unpack(_INT)
    if number < 0:
        raise ValueError(f"{number} items")
    return number


def _text(reader: ProtocolReader) -> str:
    (size,) = reader.unpack(_SHORT)
    return str(reader.take(size), "utf-8")
