"""An HTTP server that answers as a test sets it up: the answers no real server gives on demand."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Answer = tuple[int, bytes]


@dataclass
class Server:
    """What it will answer, per method and path, in order; the last answer stays.

    ``hang`` is what it says nothing to; ``asked`` are the requests so far, with their logins.
    """

    url: str = ""
    answers: dict[str, list[Answer]] = field(default_factory=dict)
    hang: set[str] = field(default_factory=set)
    asked: list[tuple[str, str]] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)


@contextmanager
def serving(tls: ssl.SSLContext | None = None) -> Iterator[Server]:
    """Run one on a port of its own."""
    state = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = f"{self.command} {self.path}"
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            state.asked.append((name, self.headers.get("Authorization", "")))
            if name in state.hang:
                state.released.wait(30)
                return
            planned = state.answers.get(name, [(404, b'{"error_code":404,"message":"none"}')])
            status, body = planned.pop(0) if len(planned) > 1 else planned[0]
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Location", "http://elsewhere/")
            self.end_headers()
            self.wfile.write(body)

        do_PUT = do_POST = do_PATCH = do_GET

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    scheme = "https" if tls else "http"
    state.url = f"{scheme}://localhost:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield state
    finally:
        state.released.set()
        server.shutdown()
        server.server_close()
        thread.join()
