"""Send one HTTP request with a bounded response size and total time, without following redirects.

Plain ``urllib`` follows redirects with the ``Authorization`` header still in the request, reads a
response of any length, and restarts its timeout with every byte that arrives.
"""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from time import monotonic
from typing import Any
from urllib.parse import urlsplit


def fetch(
    request: urllib.request.Request, context: ssl.SSLContext, timeout_s: float, largest: int
) -> bytes:
    """Send a request and return the response body; proxies as :func:`find_proxy` says.

    Args:
        request: an http or https request.
        context: TLS context for https.
        timeout_s: seconds for the whole exchange, excluding name resolution.
        largest: maximum body size in bytes.

    Raises:
        urllib.error.HTTPError: the status is not a success; redirects count as failures.
        OSError: no response arrived, or not all of it in time (TimeoutError).
        ValueError: the body is longer than ``largest``.
        http.client.HTTPException: the response is not HTTP.
    """
    sockets = _Sockets(monotonic() + timeout_s)
    opener = _opener(_Http(sockets), _Https(sockets, context))
    with sockets.shut_at_deadline():
        try:
            with opener.open(request, timeout=timeout_s) as reply:
                body: bytes = reply.read(largest + 1)
        except (OSError, http.client.HTTPException):
            sockets.remaining()
            raise
        sockets.remaining()  # a response cut off at the deadline looks complete
    if len(body) > largest:
        raise ValueError(f"longer than {largest:,} bytes")
    return body


def find_proxy(url: str) -> str:
    """Return the URL of the proxy that the environment names for an address; "" for none.

    The rule is that of requests for tokens and to schema registries (docs/security.md#proxies).
    """
    parts = urlsplit(url)
    proxy = _environment_proxies().get(parts.scheme, "")
    if not proxy or urllib.request.proxy_bypass(parts.netloc.rpartition("@")[2]):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


def _environment_proxies() -> dict[str, str]:
    """Return the proxies of the environment by scheme; ALL_PROXY stands for both."""
    found = urllib.request.getproxies()
    every = found.get("all", "")
    named = {scheme: found.get(scheme) or every for scheme in ("http", "https")}
    return {scheme: proxy for scheme, proxy in named.items() if proxy}


def _opener(*handlers: urllib.request.BaseHandler) -> urllib.request.OpenerDirector:
    """Return an opener without those for redirects, files and FTP that ``build_opener`` adds."""
    opener = urllib.request.OpenerDirector()
    for each in (
        *handlers,
        urllib.request.ProxyHandler(_environment_proxies()),
        urllib.request.UnknownHandler(),
        urllib.request.HTTPErrorProcessor(),
        urllib.request.HTTPDefaultErrorHandler(),
    ):
        opener.add_handler(each)
    return opener


class _Sockets:
    def __init__(self, deadline: float) -> None:
        self._deadline = deadline
        self._handles: list[socket.socket] = []

    def remaining(self) -> float:
        """Return the seconds left until the deadline; raise TimeoutError after it."""
        left = self._deadline - monotonic()
        if left <= 0:
            raise TimeoutError("no complete response in time")
        return left

    def connect(self, address: tuple[str, int], *_: object) -> socket.socket:
        """Connect to the first address of the host that accepts a connection."""
        error: OSError = OSError("the host name cannot be resolved")
        for found in socket.getaddrinfo(*address, type=socket.SOCK_STREAM):
            try:
                made = socket.create_connection((str(found[4][0]), address[1]), self.remaining())
            except OSError as failed:
                error = failed
                continue
            # TLS detaches the socket object; a duplicate can still shut the connection down.
            self._handles.append(made.dup())
            return made
        raise error

    @contextmanager
    def shut_at_deadline(self) -> Iterator[None]:
        """Shut the connections down at the deadline, which ends any blocked read."""
        timer = threading.Timer(max(0.0, self._deadline - monotonic()), self._shut)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()
            for handle in self._handles:
                handle.close()

    def _shut(self) -> None:
        for handle in list(self._handles):
            with suppress(OSError):
                handle.shutdown(socket.SHUT_RDWR)


class _Http(urllib.request.HTTPHandler):
    def __init__(self, sockets: _Sockets) -> None:
        super().__init__()
        self._sockets = sockets

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_maker(http.client.HTTPConnection, self._sockets), req)


class _Https(urllib.request.HTTPSHandler):
    def __init__(self, sockets: _Sockets, context: ssl.SSLContext) -> None:
        super().__init__(context=context)
        self._sockets, self._tls = sockets, context

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        made = _maker(http.client.HTTPSConnection, self._sockets)
        return self.do_open(made, req, context=self._tls)


def _maker(kind: Callable[..., Any], sockets: _Sockets) -> Any:
    def make(host: str, **options: Any) -> Any:
        connection = kind(host, **options)
        connection._create_connection = sockets.connect  # noqa: SLF001 - no public hook
        return connection

    return make
