"""A gate before a real registry: TLS with client certificates, and a login by header."""

from __future__ import annotations

import http.client
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit


@dataclass
class Gate:
    """What it lets through, and what came.

    Attributes:
        url: its address.
        needed: headers without which it answers with status 401.
        asked: the path and headers of each request that it let through.
    """

    url: str = ""
    needed: dict[str, str] = field(default_factory=dict)
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)


@contextmanager
def gate_before(registry: str, tls: ssl.SSLContext | None = None) -> Iterator[Gate]:
    """Run a gate before the registry with a URL."""
    state, there = Gate(), urlsplit(registry)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            given = {name.lower(): text for name, text in self.headers.items()}
            if any(given.get(name) != text for name, text in state.needed.items()):
                self._answer(401, b'{"error_code":401,"message":"Unauthorized"}')
                return
            state.asked.append((self.path, given))
            connection = http.client.HTTPConnection(there.netloc, timeout=30)
            headers = {"Content-Type": given.get("content-type", "application/json")}
            connection.request(self.command, self.path, body, headers)
            answer = connection.getresponse()
            self._answer(answer.status, answer.read())
            connection.close()

        do_PUT = do_POST = do_DELETE = do_GET

        def _answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    scheme = "https" if tls else "http"
    state.url = f"{scheme}://localhost:{server.server_address[1]}{there.path}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
