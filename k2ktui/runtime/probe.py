"""Ask a broker over a plain socket whether it serves clients, without a Kafka client library."""

from __future__ import annotations

import socket
import struct

_METADATA = 3
_VERSION = 1
_CORRELATION = 0x6B32
_LONGEST_ANSWER = 1 << 20


def is_serving(address: str, timeout: float = 2.0) -> bool:
    """Return True when the broker at ``host:port`` answers a metadata request and names a broker.

    A node that still starts either refuses the connection, or answers with no broker at all.
    Works on PLAINTEXT listeners.
    """
    host, port = address.rsplit(":", 1)
    # Header (key, version, correlation id, no client id), then: no topic.
    request = struct.pack(">hhihi", _METADATA, _VERSION, _CORRELATION, -1, 0)
    try:
        with socket.create_connection((host, int(port)), timeout) as connection:
            connection.settimeout(timeout)
            connection.sendall(struct.pack(">i", len(request)) + request)
            size = struct.unpack(">i", _read(connection, 4))[0]
            if not 8 <= size <= _LONGEST_ANSWER:
                return False
            correlation, brokers = struct.unpack(">ii", _read(connection, 8))
            return bool(correlation == _CORRELATION and brokers > 0)
    except OSError:
        return False


def _read(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        chunk = connection.recv(size - len(data))
        if not chunk:
            raise ConnectionError("closed")
        data += chunk
    return data
