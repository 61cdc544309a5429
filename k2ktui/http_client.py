"""The HTTP client of everything but schema registries, with bounds on time, size and addresses.

Nothing here follows a redirect, so a login goes to the configured address only. It stands on
httpcore2, the transport of Confluent's registry client, whose network backends are made to be
replaced: each wait for the network takes what is left of the time. Loading it takes 70 ms, so
importers load it when they send a request.
"""

from __future__ import annotations

import socket
import ssl
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic
from typing import Any
from urllib.parse import unquote, urlsplit

import httpcore2

from k2ktui.version import __version__

_ERRORS = (
    httpcore2.NetworkError,
    httpcore2.ProtocolError,
    httpcore2.ProxyError,
    httpcore2.UnsupportedProtocol,
    OSError,
    ValueError,  # a URL or a host name that cannot be encoded
)
_HEADERS = {"User-Agent": f"k2ktui/{__version__}", "Accept-Encoding": "identity"}
# What httpcore2 reports when it begins to write a request; also for that of a tunnel.
_SENDING = "http11.send_request_headers.started"


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of an exchange.

    Attributes:
        largest: size of the response's body, in bytes.
        seconds: for the whole exchange, excluding name resolution.
    """

    largest: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Response:
    """A response with any status, redirects and failures included.

    Attributes:
        status: the HTTP status.
        headers: by name in small letters; the last of several counts.
        body: the content.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes


class RequestFailed(Exception):
    """There is no complete response; the message says why, without the URL.

    Attributes:
        was_sent: whether the server may have acted on the request.
        is_late: whether its time was over.
    """

    def __init__(self, reason: str, *, was_sent: bool, is_late: bool = False) -> None:
        super().__init__(reason)
        self.was_sent, self.is_late = was_sent, is_late


class TooLarge(RequestFailed):
    """The body of the response has more bytes than allowed."""


def send(
    method: str,
    url: str,
    limits: Limits,
    *,
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
    context: ssl.SSLContext | None = None,
) -> Response:
    """Send one request, once, and return the response; proxies as ``find_proxy`` says.

    Args:
        method: for example GET.
        url: http or https, without user and password.
        limits: bounds of the exchange.
        headers: of the request.
        body: of the request.
        context: TLS for https; by default, the system's certificates are trusted.

    Raises:
        RequestFailed: there is no response, or not all of it within the limits.
    """
    exchange = _Exchange(limits)
    if body is None and method != "GET":
        body = b""  # with its length, without which some proxies refuse a request
    with exchange.failures():
        if context is None and url.startswith("https:"):
            context = ssl.create_default_context()
        with (
            httpcore2.ConnectionPool(
                ssl_context=context,
                proxy=_proxy(find_proxy(url)),
                network_backend=_Network(exchange),
            ) as pool,
            pool.stream(
                method,
                _encoded(url),
                headers=[*_HEADERS.items(), *(headers or {}).items()],
                content=body,
                extensions={"trace": exchange.note},
            ) as response,
        ):
            received = {
                name.decode("ascii").lower(): text.decode("latin-1")
                for name, text in response.headers
            }
            return Response(response.status, received, exchange.read(response.iter_stream()))


def find_proxy(url: str) -> str:
    """Return the URL of the proxy that the environment names for an address; "" for none.

    The rule is that of requests to schema registries (docs/security.md#proxies).
    """
    parts = urlsplit(url)
    named = urllib.request.getproxies()
    proxy = named.get(parts.scheme) or named.get("all", "")
    if not proxy or urllib.request.proxy_bypass(parts.netloc.rpartition("@")[2]):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


def _proxy(url: str) -> httpcore2.Proxy | None:
    if not url:
        return None
    parts = urlsplit(url)
    if parts.scheme != "http":
        raise ValueError(f"proxies of type {parts.scheme} are not supported")
    login = None
    if parts.username:
        login = unquote(parts.username).encode(), unquote(parts.password or "").encode()
    return httpcore2.Proxy(_encoded(url), auth=login)


def _encoded(url: str) -> httpcore2.URL:
    """Return a URL as it is sent: the host in ASCII, an IPv6 address in brackets."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return httpcore2.URL(
        scheme=parts.scheme,
        host=f"[{host}]" if ":" in host else host.encode("idna"),
        port=parts.port,
        target=target.encode(),
    )


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no complete response in time"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({error.verify_message})"
    if isinstance(error, httpcore2.ProxyError):
        return f"the proxy opens no tunnel: {error}"
    return str(getattr(error, "strerror", None) or error) or type(error).__name__


class _Exchange:
    """What is left of an exchange's time and size, and whether the request was sent."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._deadline = monotonic() + limits.seconds
        self._was_sent = False

    def note(self, event: str, info: Mapping[str, Any]) -> None:
        """Take an event of httpcore2."""
        self._was_sent |= event == _SENDING and info["request"].method != b"CONNECT"

    def left(self) -> float:
        """Return how many seconds the next wait may take; raise TimeoutError if none is left."""
        left = self._deadline - monotonic()
        if left <= 0:
            raise TimeoutError
        return left

    def read(self, parts: Iterable[bytes]) -> bytes:
        """Return a body; more than its limit is not read."""
        body = bytearray()
        for part in parts:
            body += part
            if len(body) > self._limits.largest:
                raise TooLarge(
                    f"its response is longer than {self._limits.largest:,} bytes", was_sent=True
                )
        return bytes(body)

    @contextmanager
    def failures(self) -> Iterator[None]:
        """Raise what goes wrong as RequestFailed."""
        try:
            yield
        except _ERRORS as error:
            late = isinstance(error, TimeoutError)
            raise RequestFailed(_reason(error), was_sent=self._was_sent, is_late=late) from error


class _Network(httpcore2.NetworkBackend):
    """Connects within the time, to the first address of a host that accepts a connection."""

    def __init__(self, exchange: _Exchange) -> None:
        self._exchange = exchange

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.NetworkStream:
        failure: OSError = OSError("the host name cannot be resolved")
        for *_, address in socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM):
            try:
                connected = socket.create_connection(
                    (str(address[0]), port), timeout=self._exchange.left()
                )
            except OSError as error:
                failure = error
                continue
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return _Stream(connected, self._exchange)
        raise failure


class _Stream(httpcore2.NetworkStream):
    """A connection whose every wait ends in time; the time-outs of httpcore2 are not used."""

    def __init__(self, connected: socket.socket, exchange: _Exchange) -> None:
        self._socket, self._exchange = connected, exchange

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        self._socket.settimeout(self._exchange.left())
        return self._socket.recv(max_bytes)

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        rest = memoryview(buffer)
        try:
            while rest:
                self._socket.settimeout(self._exchange.left())
                rest = rest[self._socket.send(rest) :]
        except TimeoutError:
            raise
        except OSError as error:
            # A server may refuse a request before it has read all; its response is read then.
            raise httpcore2.WriteError(str(error)) from error

    def close(self) -> None:
        self._socket.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore2.NetworkStream:
        try:
            self._socket.settimeout(self._exchange.left())
            name = server_hostname and server_hostname.strip("[]")
            return _Stream(
                ssl_context.wrap_socket(self._socket, server_hostname=name), self._exchange
            )
        except BaseException:
            self.close()
            raise

    def get_extra_info(self, info: str) -> Any:
        is_tls = info == "ssl_object" and isinstance(self._socket, ssl.SSLSocket)
        return self._socket if is_tls else None
