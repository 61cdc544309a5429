"""The small HTTP server of a run: ``/livez``, ``/readyz`` and ``/metrics``.

It never affects the run: while its port is in use, binding is tried again. Connections and the time
for a request are bounded, as anyone who reaches the port may use it.
"""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from k2ktui.text import safe_message

LIVE, READY, METRICS = "/livez", "/readyz", "/metrics"
# Those of a run.
PAGES = f"{LIVE}, {READY} and {METRICS}"
_TEXT = "text/plain; charset=utf-8"
# Seconds until binding is tried again, after each failure.
_PAUSES_S = (5.0, 15.0, 60.0, 300.0)
_REQUEST_S = 10.0
MOST_CONNECTIONS = 32

Address = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Request:
    """A GET request: its query string, and its headers by lower-case name."""

    query: str
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Response:
    """What is answered; lines of text by default."""

    status: int
    body: bytes
    headers: Mapping[str, str]

    @classmethod
    def text(cls, text: str, *, ok: bool = True) -> Response:
        """Return an answer with status 200, or 503 if something is not ``ok``."""
        status = HTTPStatus.OK if ok else HTTPStatus.SERVICE_UNAVAILABLE
        lines = "".join(f"{safe_message(line)}\n" for line in text.splitlines())
        return cls(status, lines.encode(), {"Content-Type": _TEXT})


Page = Callable[[Request], Response]


class HttpServer:
    """Serves pages on a thread of its own.

    Args:
        address: host and port to listen on; port 0 for any.
        note: called from another thread, with where it listens, and once if the address cannot be
            used.

    Attributes:
        pages: by path; may be changed while it runs.
        port: where it listens, None until it does.
    """

    def __init__(self, address: Address, note: Callable[[str], None]) -> None:
        self._address, self._note = address, note
        self._closed = threading.Event()
        self._announces = ""
        self.pages: dict[str, Page] = {}
        self.port: int | None = None

    @property
    def address(self) -> str:
        """Where it is to listen, as ``host:port``."""
        return address_text(self._address)

    def start(self, *, announce: str = "") -> None:
        """Listen, from a thread, and return at once; ``announce`` where these pages are."""
        self._announces = announce
        threading.Thread(target=self._serve, name="k2ktui-http", daemon=True).start()

    def close(self) -> None:
        """Stop listening; later calls do nothing."""
        self._closed.set()

    def _serve(self) -> None:
        failures = 0
        while not self._closed.is_set():
            try:
                server = _bind(self._address, self.pages)
            except (OSError, UnicodeError, OverflowError) as error:
                if not failures:
                    self._report(error)
                self._closed.wait(_PAUSES_S[min(failures, len(_PAUSES_S) - 1)])
                failures += 1
                continue
            with server:
                self.port = server.server_port
                thread = threading.Thread(
                    target=server.serve_forever, name="k2ktui-http-requests", daemon=True
                )
                thread.start()
                if self._announces:
                    where = address_text((self._address[0], self.port))
                    self._note(f"serving {self._announces} at http://{where}")
                self._closed.wait()
                server.shutdown()

    def _report(self, error: Exception) -> None:
        why = getattr(error, "strerror", None) or error
        self._note(
            f"nothing is served to prometheus or probes at {self.address}: {why}; the run "
            "continues, and the address is tried again without further notes"
        )


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = MOST_CONNECTIONS
    block_on_close = False
    # Another run that listens on the same port would answer for this one.
    allow_reuse_port = False

    def __init__(self, family: int, address: Any, pages: Mapping[str, Page]) -> None:
        self.address_family = family
        self.pages = pages
        self._free = threading.BoundedSemaphore(MOST_CONNECTIONS)
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        # That of HTTPServer looks this host's name up, which may take long.
        socketserver.TCPServer.server_bind(self)
        host, self.server_port = self.socket.getsockname()[:2]
        self.server_name = str(host)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing: a client that goes away is none of the operator's business."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = _REQUEST_S
    server_version, sys_version = "k2ktui", ""

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def _answer(self, *, with_body: bool) -> None:
        parts = urlsplit(self.path)
        page = self.server.pages.get(parts.path)
        if page is None:
            paths = ", ".join(sorted(self.server.pages))
            response = Response(
                HTTPStatus.NOT_FOUND, f"{paths}\n".encode(), {"Content-Type": _TEXT}
            )
        else:
            headers = {name.lower(): text for name, text in self.headers.items()}
            response = page(Request(parts.query, headers))
        self.send_response(response.status)
        for name, text in response.headers.items():
            self.send_header(name, text)
        self.send_header("Content-Length", str(len(response.body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if with_body:
            self.wfile.write(response.body)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: a probe comes every few seconds."""


def address_text(address: Address) -> str:
    """Return an address as in a URL."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _bind(address: Address, pages: Mapping[str, Page]) -> _Server:
    host, port = address
    addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, _, _, _, where = addresses[0]
    return _Server(family, where, pages)
