"""Sockets of kafka-python's connections that receive into place and send in pieces.

The library reads 4 KiB at a time and joins what it read, then copies it into the frame. Here the
connection's ``ZeroCopyConnection`` says where bytes belong, and they are received there at once.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterable
from itertools import islice
from time import monotonic
from typing import Any

from kafka.errors import KafkaConnectionError, KafkaError
from kafka.net.connection import KafkaConnection
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport

from k2ktui.kafka.zero_copy import ZeroCopyConnection

# Linux takes 1,024 pieces at a time (IOV_MAX); with records of 64 KiB this fills any buffer.
_PIECES = 64
_LATER = (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class _Handle:
    """Stands for a socket in a selector, which prints what it waits for; a socket is slow at it."""

    def __init__(self, sock: Any) -> None:
        self.fileno = sock.fileno


class _InPlace:
    """Receives into the connection's frames; hands on what came before the connection ended.

    A broker that refuses a login says so and closes the connection; the library drops its words.
    """

    _sock: Any
    _net: Any
    _protocol: Any
    _read: bool
    _closed: bool
    last_read: float

    async def _read_from_sock(self) -> None:
        handle = _Handle(self._sock)
        while self._read and not self._closed:
            await self._net.wait_read(handle)
            # A TLS socket may hold bytes that the kernel no longer tells of.
            while self._read and not self._closed and self._receive():
                pass

    def _receive(self) -> bool:
        """Receive once; return whether there may be more at once."""
        room = self._protocol.parser.room()
        try:
            size = self._sock.recv_into(room)
        except _LATER:
            return False
        except OSError as failure:
            self.abort(KafkaConnectionError(failure))
            return False
        if not size:
            self.abort(KafkaConnectionError("socket disconnected"))
            return False
        self.last_read = monotonic()
        try:
            self._protocol.data_received(room[:size])
        except KafkaError as error:
            self.abort(error)
        return True

    def abort(self, error: Exception | None = None) -> None:
        super().abort(error)  # type: ignore[misc]


class PlainTransport(_InPlace, KafkaTCPTransport):  # type: ignore[misc]
    """A socket without TLS: pieces go from where they lie."""

    def write(self, data: list[bytes | memoryview]) -> None:
        """Send a request in pieces, or what of it the kernel takes now; the rest is queued."""
        if self._writing or self._closed:
            self.writelines(data)
            return
        self._write_buffer.extend(data)
        self._sock_send()  # an error is met again by the task that sends the rest
        self.last_write = monotonic()
        if self._write_buffer:
            self.writelines(())

    def _sock_send(self) -> tuple[int, Exception | None]:
        if self._sock is None:
            return 0, KafkaConnectionError("Connection closed during send")
        waiting, total = self._write_buffer, 0
        try:
            while waiting:
                sent = self._sock.sendmsg(list(islice(waiting, _PIECES)))
                total += sent
                _forget(waiting, sent)
        except _LATER:
            pass
        except OSError as failure:
            return total, KafkaConnectionError(failure)
        return total, None


def _forget(waiting: Any, sent: int) -> None:
    """Drop the bytes that were sent from the head of the queue."""
    while sent:
        piece = waiting.popleft()
        if len(piece) > sent:
            waiting.appendleft(memoryview(piece)[sent:])
            return
        sent -= len(piece)


class TlsTransport(_InPlace, KafkaSSLTransport):  # type: ignore[misc]
    """A TLS socket: a request goes as one, or each piece would be a record of its own."""

    def write(self, data: Iterable[bytes | memoryview]) -> None:
        """Queue a request in pieces."""
        super().write(memoryview(b"".join(data)))


class Connection(KafkaConnection):  # type: ignore[misc]
    """The library's connection, reading and writing by ``ZeroCopyConnection``."""

    def connection_made(self, transport: Any) -> None:
        """Take over a connected transport of this module."""
        super().connection_made(transport)
        self.parser = ZeroCopyConnection(
            client_id=self.config["client_id"],
            receive_message_max_bytes=self.config["receive_message_max_bytes"],
            ident=f"node={self.node_id}",
        )
