"""A TCP proxy in front of a broker that loses requests, answers and connections on demand.

It understands no more of the protocol than the head of each request, so what it does to a
connection is what a network does.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from pathlib import Path
from typing import Any

from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.brokers import KINDS, KRaftNode
from tests.support.clusters.kafka import START_S, TIMEOUT

LISTENER = "PROXIED"
_HEAD = struct.Struct(">hhi")


class Api(IntEnum):
    """Requests by their number in Kafka's protocol."""

    PRODUCE = 0
    FETCH = 1
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    INIT_PRODUCER_ID = 22
    ADD_PARTITIONS_TO_TXN = 24
    END_TXN = 26


class Blow(Enum):
    """What befalls a request."""

    LOST = "the connection is cut before the request reaches the broker"
    UNANSWERED = "the broker acts on it, and the connection is cut before its answer arrives"
    DELAYED = "the connection is cut, and the broker gets the request only when the test says"


@dataclass
class Strike:
    """One request that something befell; made by :meth:`Proxy.strike`."""

    api: Api
    blow: Blow
    skip: int
    struck: threading.Event = field(default_factory=threading.Event)
    frame: bytes = b""

    @property
    def version(self) -> int:
        """The version of the request that it befell."""
        version: int = _HEAD.unpack_from(self.frame, 4)[1]
        return version

    def wait(self, timeout: float = TIMEOUT) -> None:
        """Wait until it has happened."""
        assert self.struck.wait(timeout), f"no {self.api.name} came in {timeout:g} s"


class Proxy:
    """Listens on a loopback port and forwards to ``upstream`` (``host:port``, set before use)."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.upstream = ""
        self._lock = threading.Lock()
        self._strike: Strike | None = None
        self._open: set[socket.socket] = set()
        self._is_cut = False
        threading.Thread(target=self._accept, daemon=True).start()

    def strike(self, api: Api, blow: Blow, skip: int = 0) -> Strike:
        """Let something befall the next such request, or one ``skip`` later."""
        strike = Strike(api, blow, skip)
        with self._lock:
            assert self._strike is None or self._strike.struck.is_set(), "one at a time"
            self._strike = strike
        return strike

    def deliver(self, strike: Strike) -> bytes:
        """Hand a delayed request to the broker at last, and return the answer's body."""
        with self._connect() as broker:
            broker.settimeout(TIMEOUT)
            broker.sendall(strike.frame)
            answer = _frame(broker)
            assert answer is not None, "the broker closed the connection"
            return answer[8:]

    def cut(self) -> None:
        """Cut every connection, and every new one at once, until :meth:`restore`."""
        with self._lock:
            self._is_cut = True
        self._cut_all()

    def restore(self) -> None:
        """Forward again."""
        self._is_cut = False

    def close(self) -> None:
        """Cut every connection and listen no more."""
        self._listener.close()
        self._cut_all()

    def _cut_all(self) -> None:
        with self._lock:
            left = list(self._open)
        for connection in left:
            _cut(connection)

    def _connect(self) -> socket.socket:
        host, _, port = self.upstream.rpartition(":")
        return socket.create_connection((host, int(port)), TIMEOUT)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
                if self._is_cut:
                    _cut(client)
                    continue
                broker = self._connect()
            except OSError:
                if self._listener.fileno() < 0:
                    return
                _cut(client)
                continue
            broker.settimeout(None)
            with self._lock:
                is_cut = self._is_cut  # perhaps since it was looked at above
                if not is_cut:
                    self._open |= {client, broker}
            if is_cut:
                _cut(client)
                _cut(broker)
            else:
                _Connection(self, client, broker).start()

    def find_strike(self, api: int, frame: bytes) -> Strike | None:
        with self._lock:
            strike = self._strike
            if strike is None or strike.struck.is_set() or strike.api != api or strike.frame:
                return None
            strike.skip -= 1
            if strike.skip >= 0:
                return None
            strike.frame = frame  # of several connections, it befalls one
            return strike

    def forget(self, *sockets: socket.socket) -> None:
        with self._lock:
            self._open.difference_update(sockets)


class _Connection:
    def __init__(self, proxy: Proxy, client: socket.socket, broker: socket.socket) -> None:
        self._proxy = proxy
        self._client = client
        self._broker = broker
        self._awaited: tuple[bytes, Strike] | None = None

    def start(self) -> None:
        for pump in (self._requests, self._answers):
            threading.Thread(target=self._until_cut, args=(pump,), daemon=True).start()

    def _until_cut(self, pump: object) -> None:
        with contextlib.suppress(OSError):
            pump()  # type: ignore[operator]
        _cut(self._client)
        _cut(self._broker)
        self._proxy.forget(self._client, self._broker)

    def _requests(self) -> None:
        while (frame := _frame(self._client)) is not None:
            api, _, correlation = _HEAD.unpack_from(frame, 4)
            strike = self._proxy.find_strike(api, frame)
            if strike is not None:
                if strike.blow is Blow.UNANSWERED:
                    self._awaited = struct.pack(">i", correlation), strike
                    self._broker.sendall(frame)
                    continue
                _cut(self._client)
                strike.struck.set()
                return
            self._broker.sendall(frame)

    def _answers(self) -> None:
        while (frame := _frame(self._broker)) is not None:
            if self._awaited is not None and frame[4:8] == self._awaited[0]:
                _cut(self._client)
                self._awaited[1].struck.set()
                return
            self._client.sendall(frame)


def _frame(source: socket.socket) -> bytes | None:
    head = _exactly(source, 4)
    if head is None:
        return None
    body = _exactly(source, int.from_bytes(head, "big"))
    return None if body is None else head + body


def _exactly(source: socket.socket, size: int) -> bytes | None:
    data = bytearray()
    while len(data) < size:
        part = source.recv(min(size - len(data), 1 << 20))
        if not part:
            return None
        data += part
    return bytes(data)


def _cut(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()


class ProxiedNode(KafkaNode):
    """A node with a second listener, at which clients get the address of a proxy."""

    def __init__(self, name: str, data_dir: Path, **more: Any) -> None:
        super().__init__(name, data_dir, **more)
        self._protocols[LISTENER] = "PLAINTEXT"
        self.proxy = Proxy()

    def _settings(self) -> dict[str, str]:
        settings = super()._settings()
        self.proxy.upstream = self.address(LISTENER)
        settings["advertised.listeners"] = settings["advertised.listeners"].replace(
            self.address(LISTENER), self.proxy.address
        )
        return settings


class ProxiedKind(ProxiedNode, KRaftNode):
    """The same of a node of another kind."""


@contextlib.contextmanager
def proxied_node(name: str, data_dir: Path, kind: str = "") -> Iterator[ProxiedNode]:
    """Run a node behind a proxy; ``kind`` is one of ``brokers.KINDS``, "" for the newest."""
    more = {"kind": KINDS[kind]} if kind else {}
    node = (ProxiedKind if kind else ProxiedNode)(name, data_dir, **more)
    try:
        yield node.start(START_S)
    finally:
        node.close()
        node.proxy.close()
