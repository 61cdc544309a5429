"""Bounds of a request whatever the other side does, and what is known of it after a failure."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from k2ktui.http_client import Limits, RequestFailed, TooLarge, send
from tests.support.clusters.kafka import TIMEOUT
from tests.support.http.server import Handler, count_time_from_request, http_server

Peer = Callable[[socket.socket], None]
# For what never answers.
SOON = Limits(1 << 20, 1.0)
# For what answers: no test fails because a machine is busy.
AMPLE = Limits(1 << 20, 60.0)


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http", "https", "all", "no"):
        monkeypatch.delenv(f"{name}_proxy", raising=False)
        monkeypatch.delenv(f"{name.upper()}_PROXY", raising=False)


@contextmanager
def peer(answer: Peer, family: socket.AddressFamily = socket.AF_INET) -> Iterator[int]:
    """A server of one connection on loopback; yields its port."""
    host = "127.0.0.1" if family == socket.AF_INET else "::1"
    with socket.create_server((host, 0), family=family) as listener:

        def serve() -> None:
            with contextlib.suppress(OSError):
                connection, _ = listener.accept()
                with connection:
                    answer(connection)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        listener.close()
        thread.join(10)


def drips(start: bytes = b"", asked: threading.Event | None = None) -> Peer:
    """Send a start and then a byte now and then, until the client has gone.

    Args:
        start: what is sent first.
        asked: is set when a part of the request was read; without, nothing is read.
    """

    def answer(connection: socket.socket) -> None:
        if asked is not None and connection.recv(1):
            asked.set()
        connection.sendall(start)
        while True:
            connection.sendall(b" ")
            threading.Event().wait(0.05)

    return answer


def silent(connection: socket.socket) -> None:
    connection.recv(1 << 16)
    connection.recv(1)  # it comes when the client has gone


def failure(
    method: str, url: str, limits: Limits = SOON, body: bytes | None = None
) -> RequestFailed:
    with pytest.raises(RequestFailed) as caught:
        send(method, url, limits, body=body)
    return caught.value


@pytest.mark.parametrize(
    "start",
    [b"HTTP/1.1 200 OK\r\nX: ", b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 100 Continue\r\n"],
)
def test_a_response_that_arrives_byte_by_byte_is_given_up(
    start: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = threading.Event()
    count_time_from_request(monkeypatch, asked.is_set)
    with peer(drips(start, asked)) as port:
        failed = failure("GET", f"http://127.0.0.1:{port}/")
    assert failed.is_late and failed.was_sent


@pytest.mark.parametrize("answer", [drips(), silent])
def test_a_handshake_that_does_not_end_is_given_up(answer: Peer) -> None:
    with peer(answer) as port:
        failed = failure("GET", f"https://127.0.0.1:{port}/")
    assert not failed.was_sent


@pytest.mark.parametrize(
    ("answer", "limits", "words"),
    [
        (drips(b"HTTP/1.1 200 OK\r\nX: "), SOON, "no complete response in time"),
        (silent, SOON, "no complete response in time"),
        (lambda it: it.sendall(b"HTTP/1.1 407 Who\r\n\r\n"), AMPLE, "opens no tunnel: 407 Who"),
    ],
)
def test_a_proxy_that_opens_no_tunnel(
    answer: Peer, limits: Limits, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request was not sent: another address may be tried."""
    with peer(answer) as port:
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{port}")
        failed = failure("PATCH", "https://example.invalid/", limits, body=b"{}")
    assert words in str(failed) and not failed.was_sent


def test_a_request_that_is_not_read_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, over = threading.Event(), threading.Event()
    count_time_from_request(monkeypatch, asked.is_set)

    def wait(connection: socket.socket) -> None:
        connection.recv(1)
        asked.set()
        over.wait(TIMEOUT)

    with peer(wait) as port:
        failed = failure("POST", f"http://127.0.0.1:{port}/", body=b" " * (16 << 20))
        over.set()
    assert failed.is_late and failed.was_sent


def test_a_response_in_place_of_reading_the_request() -> None:
    def refuse(connection: socket.socket) -> None:
        connection.recv(1)
        connection.sendall(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
        connection.shutdown(socket.SHUT_WR)
        with contextlib.suppress(OSError):
            while connection.recv(1 << 20):
                pass

    with peer(refuse) as port:
        answer = send("POST", f"http://127.0.0.1:{port}/", AMPLE, body=b" " * (8 << 20))
    assert answer.status == 413


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (b"", "disconnected"),
        (b"SSH-2.0-OpenSSH_9.6\r\n\r\n", "illegal"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", "without sending complete"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * (1 << 20), "Receive buffer too long"),
    ],
)
def test_what_is_no_complete_response(said: bytes, words: str) -> None:
    def answer(connection: socket.socket) -> None:
        connection.recv(1 << 16)
        connection.sendall(said)

    with peer(answer) as port:
        failed = failure("GET", f"http://127.0.0.1:{port}/", AMPLE)
    assert words in str(failed) and failed.was_sent and not failed.is_late


def test_a_body_is_bounded() -> None:
    class Large(Handler):
        def do_GET(self) -> None:
            self.reply(200, b" " * 100)

    with http_server(Large) as url:
        assert len(send("GET", url, Limits(100, AMPLE.seconds)).body) == 100
        with pytest.raises(TooLarge, match="longer than 99 bytes"):
            send("GET", url, Limits(99, AMPLE.seconds))


def test_nothing_listens() -> None:
    failed = failure("GET", "http://127.0.0.1:1/", AMPLE)
    assert str(failed) == "Connection refused" and not failed.was_sent


@pytest.mark.parametrize(
    "url",
    [
        "http://a:x/",
        "http://" + "a" * 64 + ".example/",
        "http://127.0.0.1:1/a b",
        "ftp://a/",
        "http://[::/",
    ],
)
def test_a_url_that_cannot_be_asked(url: str) -> None:
    assert not failure("GET", url).was_sent


def test_a_host_may_be_an_ipv6_address(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bytes] = []

    def answer(connection: socket.socket) -> None:
        asked.append(connection.recv(1 << 16))
        connection.sendall(b"HTTP/1.1 204 None\r\n\r\n")

    try:
        with peer(answer, socket.AF_INET6) as port:
            assert send("GET", f"http://[::1]:{port}/x?y=z", AMPLE).status == 204
    except OSError:
        pytest.skip("this host has no IPv6")
    assert asked[0].startswith(b"GET /x?y=z HTTP/1.1\r\nHost: [::1]:%d\r\n" % port)
    with peer(answer) as port:
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{port}")
        assert send("PUT", "http://[::1]:8083/x", AMPLE).status == 204
    assert asked[1].startswith(b"PUT http://[::1]:8083/x HTTP/1.1\r\n")
    assert b"\r\nContent-Length: 0\r\n" in asked[1]


def test_the_library_is_loaded_for_the_first_request() -> None:
    """It takes 70 ms, and most commands and screens send none."""
    script = (
        "import sys, k2ktui.console.app, k2ktui.mm2.flows.connect, k2ktui.kafka.auth.oauth;"
        "print('httpcore2' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr
