"""Read and write primitive types of Kafka's flexible protocol versions (KIP-482)."""

from __future__ import annotations

import struct


class ProtocolReader:
    """Reads a frame sequentially, without copying its bytes.

    The methods raise ValueError, IndexError or ``struct.error`` if the frame is truncated.
    """

    __slots__ = ("_at", "_frame")

    def __init__(self, frame: memoryview, at: int = 0) -> None:
        self._frame = frame
        self._at = at

    def unpack(self, layout: struct.Struct) -> tuple[int, ...]:
        """Read fixed-size fields."""
        values = layout.unpack_from(self._frame, self._at)
        self._at += layout.size
        return values

    def take(self, size: int) -> memoryview:
        """Read ``size`` bytes as a view of the frame."""
        end = self._at + size
        if size < 0 or end > len(self._frame):
            raise ValueError(f"{size} bytes at {self._at} of {len(self._frame)}")
        view = self._frame[self._at : end]
        self._at = end
        return view

    def varint(self) -> int:
        """Read an unsigned varint."""
        value = shift = 0
        while True:
            byte = self._frame[self._at]
            self._at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def count(self) -> int:
        """Read the length of a compact array, string or byte field; 0 for null."""
        number = self.varint()
        return number - 1 if number else 0

    def text(self) -> str:
        """Read a compact string; empty for null."""
        size = self.count()
        return str(self.take(size), "utf-8") if size else ""

    def skip_tags(self) -> None:
        """Skip the tagged fields."""
        for _ in range(self.varint()):
            self.varint()
            self.take(self.varint())


def varint(value: int) -> bytes:
    """Encode an unsigned varint."""
    if value < 0x80:
        return bytes((value,))
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def compact(text: str | None) -> bytes:
    """Encode a compact nullable string."""
    if text is None:
        return b"\0"
    data = text.encode()
    return varint(len(data) + 1) + data
