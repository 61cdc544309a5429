"""What the HTTP servers of the tests share: a thread on a free port, and replies."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from time import monotonic

import pytest


class Handler(BaseHTTPRequestHandler):
    """A handler that logs nothing, and reads and replies whole bodies."""

    def read_body(self) -> bytes:
        """Return the body of the request."""
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def reply(self, status: int, body: bytes, **headers: str) -> None:
        """Reply with a body; ``_`` in the names of headers stands for ``-``."""
        self.send_response(status)
        for name, text in headers.items():
            self.send_header(name.replace("_", "-"), text)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def http_server(
    handler: type[BaseHTTPRequestHandler], tls: ssl.SSLContext | None = None
) -> Iterator[str]:
    """Run a server on loopback, and give its URL; the host is ``localhost``, as in certificates."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"{'https' if tls else 'http'}://localhost:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


def count_time_from_request(
    monkeypatch: pytest.MonkeyPatch, has_arrived: Callable[[], object]
) -> None:
    """Let the time of a request of k2ktui begin when a part of it has arrived.

    On a busy machine, a second may be over before it is sent.
    """
    begun: list[float] = []

    def clock() -> float:
        if not begun and has_arrived():
            begun.append(monotonic())
        return monotonic() - begun[0] if begun else 0.0

    monkeypatch.setattr("k2ktui.http_client.monotonic", clock)
