"""A token endpoint on loopback that answers as a test wants, hostile answers included."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler
from urllib.parse import urlsplit

from tests.support.http.server import Handler, http_server

Answer = Callable[[BaseHTTPRequestHandler], None]


@contextmanager
def endpoint(answer: Answer) -> Iterator[tuple[str, list[str]]]:
    """A server that answers every request so; its URL, and the paths that it was asked for."""
    asked: list[str] = []

    class Answering(Handler):
        def do_POST(self) -> None:
            asked.append(self.path)
            # What is left unread would reset the connection when it is closed.
            self.read_body()
            with suppress(OSError):
                answer(self)

        do_GET = do_POST

    with http_server(Answering) as url:
        yield f"http://127.0.0.1:{urlsplit(url).port}/token", asked


def says(body: str) -> Answer:
    """Answer with a body."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        handler.wfile.write(body.encode())

    return answer


def redirects(status: int, location: str = "/other?secret=abc") -> Answer:
    """Answer with a redirect."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        handler.send_header("Location", location)
        handler.end_headers()

    return answer


class Endless:
    """Answers with a body that does not end, as fast as it is read.

    Attributes:
        sent: bytes that the system took so far.
    """

    def __init__(self) -> None:
        self.sent = 0

    def __call__(self, handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        while True:
            handler.wfile.write(b" " * (1 << 16))
            self.sent += 1 << 16


def slow_body(handler: BaseHTTPRequestHandler) -> None:
    """Answer with a body that arrives byte by byte and does not end."""
    handler.send_response(200)
    handler.end_headers()
    _drip(handler)


def slow_headers(handler: BaseHTTPRequestHandler) -> None:
    """Answer with a header that arrives byte by byte and does not end."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX: ")
    _drip(handler)


def _drip(handler: BaseHTTPRequestHandler) -> None:
    while True:
        handler.wfile.write(b" ")
        handler.wfile.flush()
        threading.Event().wait(0.05)
