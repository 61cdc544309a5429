"""Everything that the wire layer relies on in kafka-python and that the library does not promise.

kafka-python documents its clients, but not the layers below them (``kafka.net`` and
``kafka.protocol``). This module holds the private names of those layers: transports with zero-copy
receive and scatter-gather send, the manager that uses them, the event loop, and a protocol class
with public names for what subclasses need. ``test_kafka_python_private.py`` checks each name and
says what breaks without it; ``pyproject.toml`` pins the library's minor version.

The library reads 4 KiB at a time, joins the chunks and copies them into the frame. These transports
receive directly into the buffer that the connection's parser provides (``zero_copy.py``).
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from time import monotonic
from types import FunctionType, MethodType
from typing import Any

from kafka.errors import KafkaConnectionError, KafkaError
from kafka.net.connection import KafkaConnection
from kafka.net.inet import create_connection
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector, Task, yield_callback
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport
from kafka.protocol.broker_version_data import BROKER_API_VERSIONS, BrokerVersionData
from kafka.protocol.metadata import MetadataRequest
from kafka.protocol.parser import KafkaProtocol

# The library warns of every failed attempt; without a handler, Python would print that.
logging.getLogger("kafka").addHandler(logging.NullHandler())

# Linux allows 1,024 pieces per call (IOV_MAX); with 64 KiB records, 64 fill the socket buffer.
_PIECES = 64
# Time to handle a response that arrived together with the end of the connection.
_LAST_RESPONSE_S = 0.05
_FUNCTIONS = (FunctionType, MethodType)
_LATER = (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


def release_of(data: BrokerVersionData) -> str:
    """Return the Kafka release of a broker's API versions: ``4.1``, or ``4.4 or newer``.

    The library takes a release that it does not know for the newest that it knows. A broker that
    offers more than that one did is newer; which release it is, its versions do not tell.
    """
    release = tuple(data.broker_version)
    newest = max(BROKER_API_VERSIONS)
    if release != newest:
        return ".".join(map(str, release))
    known = BROKER_API_VERSIONS[newest]
    offers_more = any(
        highest > known.get(key, (0, -1))[1] for key, (_, highest) in data.api_versions.items()
    )
    major, minor = newest[:2]
    return f"{major}.{minor + 1} or newer" if offers_more else f"{major}.{minor}"


class Selector(NetworkSelector):  # type: ignore[misc]
    """The library's event loop; it knows at once what a timer calls.

    The library examines a function longer than all else that a timer takes, and each request has
    one.
    """

    def call_at(self, when: float, task: Any) -> Any:
        """Call a function, or run a task, at a monotonic time; return the task."""
        if isinstance(task, _FUNCTIONS):
            task = Task(yield_callback(task))
        return super().call_at(when, task)

    def call_later(self, delay: float, task: Any) -> Any:
        """Call a function, or run a task, in some seconds; return the task."""
        return self.call_at(monotonic() + delay, task)


class _Handle:
    """Stands in for a socket in the selector, which logs it: a socket's ``repr`` is slow."""

    def __init__(self, sock: Any) -> None:
        self.fileno = sock.fileno


class _InPlace:
    """Receives into the connection's buffers and delivers data that precedes a disconnect.

    A broker that refuses a login sends an error and closes the connection; the library drops that
    error.
    """

    _sock: Any
    _net: Any
    _protocol: Any
    _read: bool
    _closed: bool
    _ended = False
    last_read: float

    async def _read_from_sock(self) -> None:
        handle = _Handle(self._sock)
        while self._read and not self._closed:
            await self._net.wait_read(handle)
            received = False
            # A TLS socket may hold buffered bytes for which the kernel reports no readiness.
            while self._read and not self._closed and self._receive():
                received = True
            if self._ended and not self._closed:
                if received:
                    # The coroutine that awaits the response has not run yet. Without this pause
                    # it would see the end of the connection instead of the refused login.
                    await self._net.sleep(_LAST_RESPONSE_S)
                if not self._closed:
                    self.abort(KafkaConnectionError("socket disconnected"))

    def _receive(self) -> bool:
        """Receive once; return whether more data may be available immediately."""
        room = self._protocol.parser.room()
        try:
            size = self._sock.recv_into(room)
        except _LATER:
            return False
        except OSError as failure:
            self.abort(KafkaConnectionError(failure))
            return False
        if not size:
            self._ended = True
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
    """A plaintext transport that sends pieces without copying them."""

    def write(self, data: list[bytes | memoryview]) -> None:
        """Send as much of a request as the kernel accepts now and queue the rest."""
        if self._writing or self._closed:
            self.writelines(data)
            return
        self._write_buffer.extend(data)
        self._sock_send()  # ignore an error: the task that sends the rest hits it again
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
    """Remove ``sent`` bytes from the head of the queue."""
    while sent:
        piece = waiting.popleft()
        if len(piece) > sent:
            waiting.appendleft(memoryview(piece)[sent:])
            return
        sent -= len(piece)


class TlsTransport(_InPlace, KafkaSSLTransport):  # type: ignore[misc]
    """A TLS transport; joins the pieces, which would otherwise each become a TLS record."""

    def write(self, data: Iterable[bytes | memoryview]) -> None:
        """Queue a request given as pieces."""
        super().write(memoryview(b"".join(data)))


class ClosedInUseError(KafkaConnectionError):  # type: ignore[misc]
    """The broker has closed a connection that had been made, with requests unanswered.

    It does so when it stops, and for a request that is larger than ``socket.request.max.bytes``.
    """


class IdentifiedConnection(KafkaConnection):  # type: ignore[misc]
    """The library's connection; it asks for the cluster's id before it sends anything else.

    A connection that is lost is made again to the same address, where another cluster may answer.

    Attributes:
        identify: called with the id, "" if the broker has none; what it raises ends the connection
            before any request of a caller was sent. None to ask for no id.
    """

    identify: Callable[[str], None] | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        """Let requests in flight fail; see :class:`ClosedInUseError`."""
        if exc is not None and self.connected and type(exc) is KafkaConnectionError:
            exc = ClosedInUseError(*exc.args)
        super().connection_lost(exc)

    async def initialize(self, timeout_at: float | None = None) -> None:
        """Ask for versions, log in, and ask for the cluster's id."""
        until = self._timeout_at() if timeout_at is None else timeout_at
        try:
            await self._get_api_versions(until)
            if self.sasl_enabled:
                await self._sasl_authenticate(until)
            if self.identify is not None:
                request = MetadataRequest(
                    topics=[],
                    allow_auto_topic_creation=False,
                    include_cluster_authorized_operations=False,
                    include_topic_authorized_operations=False,
                    max_version=12,
                )
                answer = await self._send_request(request, timeout_at=until)
                self.identify(str(answer.cluster_id or ""))
        except Exception as error:
            self.close(error)
        else:
            self._init_complete()


class Manager(KafkaConnectionManager):  # type: ignore[misc]
    """The library's connection manager, with the transports of this module.

    Attributes:
        connection_class: class of the connections; the library's own cannot be configured.
    """

    connection_class: type[Any] = KafkaConnection

    def get_connection(self, node_id: Any, *args: Any, **options: Any) -> Any:
        """Return the connection to a node, as the library does; new ones have our class."""
        connection = super().get_connection(node_id, *args, **options)
        if connection.initializing:
            connection.__class__ = self.connection_class  # it has not connected yet
        return connection

    @property
    def is_throttled(self) -> bool:
        """Whether a broker has asked this client to send nothing for some time (quota)."""
        return any("throttle" in connection.paused for connection in self._conns.values())

    def usable_connection(self, node_id: Any) -> Any:
        """Return the connection to a node if it can be used as it is, None if not."""
        connection = self._conns.get(node_id)
        return connection if connection is not None and connection.connected else None

    def has_connection(self, node_id: Any) -> bool:
        """Whether there is a connection to a node, or one is being made."""
        return node_id in self._conns

    def use_login(self, options: Mapping[str, Any]) -> None:
        """Use other options of login and TLS: for new connections, and where one logs in again.

        Brokers ask connections to log in again when their session ends (KIP-368).
        """
        self.config.update(options)
        for connection in self._conns.values():
            connection.config.update(options)
        self._auth_failures.clear()
        for broker in [*self.cluster.brokers(), *self.cluster.bootstrap_brokers()]:
            self.reset_backoff(broker.node_id)

    def forget_login(self, node_id: Any) -> None:
        """Let a node's login be tried again; the library repeats a refusal for ever."""
        self._auth_failures.pop(node_id, None)

    def forget_node(self, node_id: Any) -> None:
        """Connect at once to a node that has another address now; keep a connection that works."""
        connection = self._conns.get(node_id)
        if connection is not None and not connection.connected:
            self._conns.pop(node_id).close()
        self.forget_login(node_id)
        self.reset_backoff(node_id)

    async def _build_transport(self, node: Any, timeout_at: float | None = None) -> Any:
        config = self.config
        sock = await create_connection(
            self._net,
            node.host,
            node.port,
            config["socket_options"],
            proxy_url=config["proxy_url"],
            timeout_at=timeout_at,
        )
        if self.ssl_enabled:
            tls = {key: value for key, value in config.items() if key.startswith("ssl_")}
            transport = TlsTransport(self._net, sock, host=node.host, **tls)
        else:
            transport = PlainTransport(self._net, sock, host=node.host)
        try:
            await transport.handshake()
        except Exception as error:
            raise KafkaConnectionError(f"TLS handshake failed: {error}") from error
        return transport


class Protocol(KafkaProtocol):  # type: ignore[misc]
    """The library's protocol state of one connection, with names for what a subclass needs."""

    next_correlation_id = KafkaProtocol._next_correlation_id
    check_frame_size = KafkaProtocol._validate_frame_size
    decode_response = KafkaProtocol._process_response

    @property
    def client_id(self) -> str:
        """The client id that requests carry."""
        return str(self._client_id)
