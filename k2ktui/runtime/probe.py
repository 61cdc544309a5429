"""Check over a plain socket whether a broker serves clients, without a Kafka client library."""

from __future__ import annotations

import socket
import struct

_METADATA = 3
_VERSION = 1
_CORRELATION = 0x6B32
_LONGEST_ANSWER = 1 << 20


def is_serving(address: str, timeout: float = 2.0) -> bool:
    """Whether the broker at ``host:port`` answers a metadata request with at least one broker.

    A node that is still starting refuses the connection or returns no brokers. Works on PLAINTEXT
    listeners only.
    """
    host, port = address.rsplit(":", 1)
    # Header (key, version, correlation id, null client id) and an empty topic array.
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
