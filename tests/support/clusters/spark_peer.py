"""Another user of the same host: anyone who can connect to a port and speaks its protocol.

The messages are those of Spark's network-common (a frame is its length in 8 bytes, a type, a
header, a body) and of py4j's gateway, each without any login.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import closing, suppress

import lz4.block
import psutil

_HOST = "127.0.0.1"
_ANSWER_S = 2.0
_CHUNK_REQUEST, _CHUNK = 0, 1
_RPC, _RPC_ANSWER, _STREAM = 3, 4, 6
_OPEN_BLOCKS = b"\x00"
_BLOCK = struct.Struct("<8sBiii")
_LZ4 = 0x20
_ASK_PY4J = b"c\nz:java.lang.System\ngetProperty\nsuser.name\ne\n"


def listening(process: psutil.Process) -> dict[tuple[int, int], str]:
    """Return the address of each (pid, port) that a process and its children listen on."""
    addresses = {}
    for part in (process, *process.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            for one in part.net_connections():
                if one.status == psutil.CONN_LISTEN:
                    addresses[part.pid, one.laddr.port] = one.laddr.ip.removeprefix("::ffff:")
    return addresses


def block(port: int, name: str) -> bytes:
    """Return a block of the block manager, uncompressed; b"" if it is not given."""
    with closing(_Peer(port)) as peer:
        asked = _OPEN_BLOCKS + _text("any") + _text("driver") + struct.pack(">i", 1) + _text(name)
        answer = peer.call(asked)
        if answer[:1] != bytes([_RPC_ANSWER]):
            return b""
        (stream,) = struct.unpack_from(">q", answer, 1 + 8 + 4 + 1)
        peer.send(_CHUNK_REQUEST, struct.pack(">qi", stream, 0))
        answer = peer.answer()
        return b"".join(_unpacked(answer[1 + 12 :])) if answer[0] == _CHUNK else b""


def any_file(port: int) -> bytes:
    """Return what a file server says to a request for a file."""
    with closing(_Peer(port)) as peer:
        peer.send(_STREAM, _text("/files/any"))
        return peer.answer()


def takes_objects(port: int) -> bool:
    """Whether a driver's RPC port reads Java objects that it is sent."""
    address = b"\x01" + _utf(_HOST) + struct.pack(">i", port)
    with closing(_Peer(port)) as peer:
        sent = peer.call(b"\x00" + address + _utf("endpoint-verifier") + _java_text("hello"))
        # The endpoint refuses a mere text, which it has read by then.
        return sent[:1] == bytes([_RPC_ANSWER])


def gateway(port: int) -> bytes:
    """Return what a py4j gateway answers to a call of a Java method."""
    with closing(_Peer(port)) as peer:
        return peer.talk(_ASK_PY4J)


def python_worker(port: int) -> bytes:
    """Return what PySpark's daemon answers to a wrong secret, after its worker's process id."""
    with closing(_Peer(port)) as peer:
        return peer.talk(_text("wrong"))[4:]


class _Peer:
    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection((_HOST, port), _ANSWER_S)
        self._file = self._socket.makefile("rb")

    def close(self) -> None:
        self._file.close()
        self._socket.close()

    def send(self, kind: int, header: bytes, body: bytes = b"") -> None:
        frame = struct.pack(">b", kind) + header + body
        self._socket.sendall(struct.pack(">q", 8 + len(frame)) + frame)

    def call(self, body: bytes) -> bytes:
        self.send(_RPC, struct.pack(">qi", 7, len(body)), body)
        return self.answer()

    def answer(self) -> bytes:
        """Return the next frame without its length; b"" where none comes."""
        with suppress(OSError):
            (length,) = struct.unpack(">q", self._file.read(8).rjust(8, b"\0"))
            return self._file.read(length - 8) if 8 < length < 1 << 24 else b""
        return b""

    def talk(self, text: bytes) -> bytes:
        """Send as it is; return what comes until the end or the time-out."""
        self._socket.sendall(text)
        said = b""
        with suppress(OSError):
            while more := self._socket.recv(4096):
                said += more
        return said


def _unpacked(data: bytes) -> Iterator[bytes]:
    while data:
        magic, token, packed, size, _ = _BLOCK.unpack_from(data)
        assert magic == b"LZ4Block"
        part, data = data[_BLOCK.size :][:packed], data[_BLOCK.size + packed :]
        yield lz4.block.decompress(part, uncompressed_size=size) if token & _LZ4 else part


def _text(text: str) -> bytes:
    return struct.pack(">i", len(text)) + text.encode()


def _utf(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()


def _java_text(text: str) -> bytes:
    return b"\xac\xed\x00\x05t" + _utf(text)
