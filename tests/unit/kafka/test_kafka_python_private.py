"""What the wire layer relies on in kafka-python without its promise.

A failure here after an update of kafka-python says which of its private names moved, and what
breaks. ``test_frames.py`` compares the messages themselves.
"""

from __future__ import annotations

import inspect
import socket
import ssl
from collections import deque
from contextlib import suppress
from time import monotonic
from typing import Any

import pytest
from confluent_kafka import KafkaError
from kafka.errors import CorrelationIdError, InvalidReceiveError, NodeNotReadyError
from kafka.net.connection import KafkaConnection
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport
from kafka.protocol.broker_version_data import BROKER_API_VERSIONS, BrokerVersionData
from kafka.protocol.frame import KafkaBytes
from kafka.protocol.parser import KafkaProtocol

from k2ktui.kafka import client_errors
from k2ktui.kafka.wire._kafka_python import PlainTransport, Protocol, TlsTransport, release_of
from k2ktui.kafka.wire.cluster import Loop
from k2ktui.kafka.wire.connections import Connection, ConnectionManager
from k2ktui.kafka.wire.zero_copy import ZeroCopyConnection


class Peer:
    """The protocol object of a transport: keeps what arrives and how the connection ended."""

    _sensors = None

    def __init__(self) -> None:
        self.parser = ZeroCopyConnection(client_id="test")
        self.arrived = b""
        self.lost: list[Exception | None] = []

    def data_received(self, data: memoryview) -> None:
        self.arrived += bytes(data)

    def connection_lost(self, error: Exception | None) -> None:
        self.lost.append(error)


@pytest.fixture
def pair() -> Any:
    """A connected transport, its loop, its protocol object, and the other end of the socket."""
    loop = Loop()
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    transport, peer = PlainTransport(loop.net, ours, host="host"), Peer()
    transport.set_protocol(peer)
    yield loop, transport, peer, theirs
    transport.abort()
    theirs.close()
    loop.close()


@pytest.mark.parametrize("kind", [KafkaTCPTransport, KafkaSSLTransport])
def test_transports_read_and_send_through_the_methods_that_are_replaced(kind: type) -> None:
    for name in ("_read_from_sock", "_sock_send", "abort", "write", "writelines"):
        assert callable(getattr(kind, name)), f"{name}: data would be copied, or errors be lost"


def test_a_transport_has_the_state_that_ours_reads() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        state = vars(KafkaTCPTransport(object(), ours))
    expected = {"_closed": False, "_writing": False, "_read": False, "_protocol": None}
    assert expected.items() <= state.items(), "flow control and the end of a connection"
    assert state["_sock"] is ours and state["_net"] is not None
    assert isinstance(state["_write_buffer"], deque), "requests are queued in pieces"
    assert {"last_read", "last_write"} <= state.keys(), "idle connections would be closed"


def test_the_library_reads_by_the_method_that_is_replaced(pair: Any) -> None:
    loop, transport, peer, theirs = pair
    transport.resume_reading()
    theirs.sendall(b"answer")
    _run_until(loop, lambda: peer.arrived == b"answer")


def test_data_that_precedes_the_end_of_a_connection_is_delivered(pair: Any) -> None:
    loop, transport, peer, theirs = pair
    transport.resume_reading()
    theirs.sendall(b"refused")
    theirs.close()
    _run_until(loop, lambda: peer.lost)
    assert peer.arrived == b"refused", "the reason of a refused login would be lost"
    assert "socket disconnected" in str(peer.lost[0])


def test_the_library_sends_the_rest_by_the_method_that_is_replaced(pair: Any) -> None:
    loop, transport, _, theirs = pair
    theirs.setblocking(False)
    transport._sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    pieces = [bytes([n]) * 100_000 for n in range(10)]
    transport.write(list(pieces))
    assert transport._write_buffer and transport._writing, "the kernel cannot have taken it all"
    got = bytearray()

    def read() -> bool:
        with suppress(BlockingIOError):
            got.extend(theirs.recv(1 << 20))
        return len(got) == 1_000_000

    _run_until(loop, read)
    assert bytes(got) == b"".join(pieces)


def test_a_tls_transport_takes_the_librarys_options() -> None:
    context = ssl.create_default_context()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        transport = TlsTransport(object(), ours, host="localhost", ssl_context=context)
        transport._sock.close()


def test_a_connection_gets_our_class_parser_and_transport() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        loop = Loop()
        manager = ConnectionManager(loop.net, bootstrap_servers=f"127.0.0.1:{port}")
        (broker,) = manager.cluster.bootstrap_brokers()
        connection = manager.get_connection(broker.node_id)
        assert isinstance(connection, Connection), "frames would be copied by the library"
        before = connection.transport
        assert before is None, "it connected before its class was set"
        _run_until(loop, lambda: connection.transport is not None)
        assert type(connection.transport) is PlainTransport, "_build_transport is not called"
        assert isinstance(connection.parser, ZeroCopyConnection), "connection_made is not called"
        assert connection.transport._protocol is connection
        manager.close()
        loop.close()


def test_a_failed_connection_is_reported_by_its_futures() -> None:
    loop = Loop()
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # and nothing listens
        port = closed.getsockname()[1]
        manager = ConnectionManager(loop.net, bootstrap_servers=f"127.0.0.1:{port}")
        (broker,) = manager.cluster.bootstrap_brokers()
        manager.get_connection(broker.node_id)
        _run_until(loop, lambda: manager.failure is not None)
    assert manager.ports_are_closed, "a closed port would be reported as a timeout"
    manager.close()
    loop.close()


def test_the_manager_and_the_connection_have_what_is_overridden() -> None:
    assert callable(KafkaConnectionManager._build_transport)
    assert callable(KafkaConnection.connection_made)
    # Ours tells a connection that the broker has closed from one that could not be made.
    assert "self.connected = self.initializing = False" in inspect.getsource(
        KafkaConnection.connection_lost
    )
    for name in ("_get_api_versions", "_sasl_authenticate", "_send_request", "_init_complete"):
        assert callable(getattr(KafkaConnection, name)), f"{name}: no connection would be made"
    assert callable(KafkaConnection._timeout_at)
    # Ours repeats it with one more request: a step that the library adds would be missing.
    body = inspect.getsource(KafkaConnection.initialize)
    assert "".join(body.split()).endswith(
        "try:awaitself._get_api_versions(timeout_at)ifself.sasl_enabled:"
        "awaitself._sasl_authenticate(timeout_at)exceptExceptionaserror:self.close(error)else:"
        "self._init_complete()log.info('%s:Connected',self)"
    )
    for name in ("bootstrap_async", "bootstrapped", "send", "close", "ssl_enabled"):
        assert hasattr(KafkaConnectionManager, name), f"kafka.wire uses {name}"
    for name in ("run", "call_soon", "call_later", "cancel", "sleep", "wait_read", "close"):
        assert callable(getattr(NetworkSelector, name)), f"kafka.wire uses {name}"


@pytest.mark.parametrize("kind", ["call_at", "call_later"])
def test_a_timer_calls_functions_and_runs_coroutines_unless_it_is_cancelled(kind: str) -> None:
    loop, called = Loop(), list[str]()

    async def run() -> None:
        await loop.sleep(0)
        called.append("coroutine")

    start = getattr(loop.net, kind)
    loop.net.cancel(start(0, lambda: called.append("cancelled")))
    for what in (lambda: called.append("function"), run, run()):
        start(0, what)
    _run_until(loop, lambda: len(called) == 3)
    assert sorted(called) == ["coroutine", "coroutine", "function"]
    loop.close()


class Calls:
    """Has a method to call later."""

    count = 0

    def call(self) -> None:
        self.count += 1


@pytest.mark.parametrize("kind", ["call_at", "call_later"])
def test_a_timer_calls_a_bound_method(kind: str) -> None:
    loop, calls = Loop(), Calls()
    getattr(loop.net, kind)(0, calls.call)
    _run_until(loop, lambda: calls.count == 1)
    loop.close()


def test_a_timer_that_raises_stops_nothing_else() -> None:
    loop, calls = Loop(), Calls()
    loop.net.call_later(0, lambda: 1 / 0)
    loop.net.call_later(0.01, calls.call)
    _run_until(loop, lambda: calls.count == 1)
    loop.close()


def test_a_timer_can_be_cancelled_after_it_was_called() -> None:
    """As a wait does that the timer has ended."""
    loop, calls = Loop(), Calls()
    timer = loop.net.call_later(0, calls.call)
    _run_until(loop, lambda: calls.count == 1)
    loop.net.cancel(timer)
    loop.net.call_later(0, calls.call)
    _run_until(loop, lambda: calls.count == 2)
    loop.close()


@pytest.mark.parametrize("bootstrapped", [False, True])
def test_a_usable_connection_is_used_whatever_an_attempt_before_has_left(
    bootstrapped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = Loop()
    manager = ConnectionManager(loop.net, bootstrap_servers=["localhost:1"])
    monkeypatch.setattr(ConnectionManager, "bootstrapped", bootstrapped)
    connection = KafkaConnection(loop.net, node_id=1)
    connection.connected = True
    manager._conns[1] = connection
    manager._backoff[1] = (1, monotonic() + 60, 10_000)
    if bootstrapped:
        assert manager.get_connection(1) is connection
    else:
        with pytest.raises(NodeNotReadyError):
            manager.get_connection(1)
    loop.close()


def test_a_throttled_connection_is_known() -> None:
    """A broker that throttles would else be one to which there is no connection."""
    loop = Loop()
    manager = ConnectionManager(loop.net, bootstrap_servers=["localhost:1"])
    connection = KafkaConnection(loop.net, node_id=1)
    manager._conns[1] = connection
    assert not manager.is_throttled
    connection.pause("throttle")
    assert manager.is_throttled
    pausing = inspect.getsource(KafkaConnection._maybe_throttle)
    assert "self.pause('throttle')" in pausing
    loop.close()


def test_the_protocol_has_the_names_that_ours_gives_to_subclasses() -> None:
    protocol = Protocol(client_id="me", receive_message_max_bytes=10)
    assert protocol.client_id == "me", "requests would carry another client id, and quotas fail"
    assert [protocol.next_correlation_id() for _ in range(2)] == [1, 2]
    with pytest.raises(InvalidReceiveError):
        protocol.check_frame_size(11)  # a broker could make us reserve any amount of memory
    with pytest.raises(CorrelationIdError):
        protocol.decode_response(KafkaBytes(4))
    assert protocol.in_flight_requests == deque() and protocol.bytes_to_send == []
    assert KafkaProtocol.send_request and KafkaProtocol.send_bytes


def test_librdkafkas_own_codes_have_not_moved() -> None:
    for code, name in (
        (client_errors.LOCAL_TIMED_OUT, "_TIMED_OUT"),
        (client_errors.MESSAGE_TIMED_OUT, "_MSG_TIMED_OUT"),
        (client_errors.PARTITION_END, "_PARTITION_EOF"),
        (client_errors.OFFSET_RESET, "_AUTO_OFFSET_RESET"),
        (client_errors.NO_LEADER_KNOWN, "_NOENT"),
        (client_errors.LOGIN, "_AUTHENTICATION"),
    ):
        assert code == getattr(KafkaError, name), f"{name} would be taken for another error"
    assert {KafkaError(code).name() for code in client_errors.UNREACHABLE} == {
        "_TRANSPORT",
        "_RESOLVE",
        "_ALL_BROKERS_DOWN",
        "_SSL",
        "_AUTHENTICATION",
    }


def _run_until(loop: Loop, ready: Any) -> None:
    async def wait() -> None:
        for _ in range(2000):
            if ready():
                return
            await loop.sleep(0.005)
        raise AssertionError("not within ten seconds")

    loop.run(wait)


@pytest.mark.parametrize("release", [(2, 5), (3, 9), (4, 1), max(BROKER_API_VERSIONS)])
def test_a_known_release_is_named(release: tuple[int, int]) -> None:
    data = BrokerVersionData(api_versions=BROKER_API_VERSIONS[release])
    assert release_of(data) == f"{release[0]}.{release[1]}"


@pytest.mark.parametrize("key", ["a new one", "one that grew"])
def test_a_release_that_the_library_does_not_know_is_newer(key: str) -> None:
    """Without this, Kafka 4.4 is called 4.3 on every screen."""
    major, minor = max(BROKER_API_VERSIONS)
    versions = dict(BROKER_API_VERSIONS[major, minor])
    if key == "a new one":
        versions[max(versions) + 1] = (0, 0)
    else:
        lowest, highest = versions[18]  # ApiVersions
        versions[18] = (lowest, highest + 1)
    assert release_of(BrokerVersionData(api_versions=versions)) == f"{major}.{minor + 1} or newer"
