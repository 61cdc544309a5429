"""Client of Kafka Connect's REST API for states, settings and offsets of connectors.

Paths and bodies follow Kafka Connect's documentation (KIP-875 for offsets and ``stop``). Errors
are raised as ``k2ktui.errors`` that say what was not changed.
"""

from __future__ import annotations

import base64
import http.client
import json
import socket
import ssl
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic, sleep
from typing import Any, TypeVar
from urllib.parse import quote, unquote, urlsplit

from k2ktui import __version__
from k2ktui.engine.strict_json import MalformedRecord, field, parse, parse_object, text
from k2ktui.errors import ConfigError, ConnectionFailed, K2kError, Refused, TimedOut
from k2ktui.kafka.bounded_http import find_proxy
from k2ktui.mm2.connect_settings import ConnectSettings
from k2ktui.text import safe_message, safe_text

T = TypeVar("T")

NOTHING = "Nothing was changed."
STOPPED, RUNNING, PAUSED = "STOPPED", "RUNNING", "PAUSED"

_LARGEST_BYTES = 64 << 20
_POLL_S = 0.2
_SHOWN = 200
_UNKNOWN_STATE = "It is unknown whether the change was made; check with k2ktui mm2 offsets show."
# In Connect's messages with status 500 while workers leave and join: RestServer's time-out, a
# request that a worker could not forward to the leader, and a leader that is not known yet.
_REBALANCING = ("rebalanc", "request timed out", "forward rest request", "no known leader")
_PROXY_PORT = 80
_PROXY_HINT = (
    " The proxy is that of HTTP_PROXY, HTTPS_PROXY or ALL_PROXY in the environment; NO_PROXY lists "
    "the hosts that need none."
)
_SINCE = {"stop": (3, 5), "show": (3, 5), "alter": (3, 6)}


@dataclass(frozen=True, slots=True)
class SourceOffset:
    """A connector's stored offset of one source partition; ``offset`` None means none."""

    partition: Mapping[str, Any]
    offset: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class ConnectorState:
    """States of a connector and its tasks in Connect's terms (``RUNNING``, ``FAILED``, …).

    ``trace`` is the first line of the first stack trace, "" if there is none.
    """

    state: str
    tasks: tuple[str, ...]
    trace: str = ""


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    body: bytes
    location: str


class Connect:
    """Client of one Connect cluster. Not thread-safe; keeps no connection open.

    Args:
        settings: URLs and credentials.
    """

    def __init__(self, settings: ConnectSettings) -> None:
        self._settings = settings
        secure = any(url.startswith("https:") for url in settings.urls)
        self._context = settings.context() if secure else None
        self._worker = settings.urls[0]

    @property
    def address(self) -> str:
        """URL of the worker that answered last, for messages."""
        return safe_text(self._worker)

    def version(self) -> tuple[int, ...]:
        """Return the workers' Apache Kafka version, for example ``(4, 1, 0)``."""
        found = self._ask("GET", "/", _object)
        digits = str(found.get("version", "")).split("-")[0].split(".")
        if not all(part.isdecimal() for part in digits):
            raise self._strange(f"it reports no version ({safe_text(found)[:_SHOWN]})", NOTHING)
        return tuple(int(part) for part in digits)

    def require(self, what: str) -> None:
        """Check that Connect supports the operation ``stop``, ``show`` or ``alter``.

        Raises:
            Refused: the version is too old.
        """
        version, wanted = self.version(), _SINCE[what]
        if version < wanted:
            raise Refused(
                f"Kafka Connect at {self.address} is of version {_version_text(version)}; version "
                f"{_version_text(wanted)} or later is required",
                unchanged=NOTHING,
                hint="Upgrade its workers.",
            )

    def connectors(self) -> dict[str, str]:
        """Return the class of every connector, by name."""
        found = self._ask("GET", "/connectors?expand=info", _object)
        return {
            str(name): str(_inner(_inner(each, "info"), "config").get("connector.class", ""))
            for name, each in sorted(found.items())
        }

    def config(self, connector: str) -> dict[str, str]:
        """Return a connector's settings; they may contain secrets.

        Raises:
            ConfigError: the connector does not exist.
        """
        found = self._of(connector, "GET", "/config", _object)
        return {str(name): str(value) for name, value in found.items()}

    def state(self, connector: str) -> ConnectorState:
        """Return the states of a connector and its tasks."""
        found = self._of(connector, "GET", "/status", _object)
        own = _inner(found, "connector")
        tasks = [each for each in found.get("tasks", []) if isinstance(each, dict)]
        traces = [str(each["trace"]) for each in (own, *tasks) if each.get("trace")]
        return ConnectorState(
            str(own.get("state", "")),
            tuple(str(each.get("state", "")) for each in tasks),
            traces[0].splitlines()[0] if traces else "",
        )

    def offsets(self, connector: str) -> list[SourceOffset]:
        """Return a connector's stored offset of each source partition."""
        return self._of(connector, "GET", "/offsets", _offsets)

    def alter_offsets(self, connector: str, offsets: Sequence[SourceOffset]) -> str:
        """Replace a stopped connector's offsets of these partitions; others are unchanged.

        Returns:
            The message in Connect's response.

        Raises:
            Refused: the connector is not stopped, or rejects these offsets.
            TimedOut: it is unknown whether the offsets were stored.
        """
        body = {"offsets": [{"partition": o.partition, "offset": o.offset} for o in offsets]}
        unchanged = "No offset was changed."
        found = self._of(connector, "PATCH", "/offsets", _object, body, unchanged=unchanged)
        return safe_message(found.get("message", ""))

    def stop(self, connector: str) -> None:
        """Ask a connector to stop; :meth:`await_stopped` waits for it."""
        self._of(connector, "PUT", "/stop", _nothing, unchanged="It keeps running unchanged.")

    def resume(self, connector: str) -> None:
        """Resume a connector."""
        self._of(connector, "PUT", "/resume", _nothing, unchanged="Its state was not changed.")

    def pause(self, connector: str) -> None:
        """Pause a connector; its tasks stay assigned but idle."""
        self._of(connector, "PUT", "/pause", _nothing, unchanged="Its state was not changed.")

    def await_stopped(self, connector: str, unchanged: str = "No offset was changed.") -> None:
        """Wait until a connector is stopped and has no tasks.

        Raises:
            TimedOut: it did not stop within the configured ``timeout``.
        """
        self._await(
            connector,
            lambda found: found.state == STOPPED and not found.tasks,
            "did not stop",
            unchanged,
        )

    def await_running(self, connector: str) -> None:
        """Wait until a resumed or paused connector is no longer stopped.

        Raises:
            TimedOut: it is still stopped after the configured ``timeout``.
        """
        self._await(connector, lambda found: found.state != STOPPED, "did not resume", "")

    def _await(
        self,
        connector: str,
        done: Callable[[ConnectorState], bool],
        failed: str,
        unchanged: str,
    ) -> None:
        until = monotonic() + self._settings.timeout_s
        while not done(found := self.state(connector)):
            if monotonic() > until:
                raise TimedOut(
                    f"connector {safe_text(connector)} {failed} within "
                    f"{self._settings.timeout_s:g} s: it is {safe_text(found.state)} with "
                    f"{len(found.tasks)} tasks",
                    unchanged=unchanged,
                )
            sleep(_POLL_S)

    def _of(
        self,
        connector: str,
        method: str,
        path: str,
        read: Callable[[Any], T],
        body: object = None,
        *,
        unchanged: str = NOTHING,
    ) -> T:
        whole = f"/connectors/{quote(connector, safe='')}{path}"
        return self._ask(method, whole, read, body, connector=connector, unchanged=unchanged)

    def _ask(
        self,
        method: str,
        path: str,
        read: Callable[[Any], T],
        body: object = None,
        *,
        connector: str = "",
        unchanged: str = NOTHING,
    ) -> T:
        """Send a request, retry while the workers are rebalancing, and decode the response."""
        until = monotonic() + self._settings.timeout_s
        while True:
            answer = self._exchange(method, path, body, unchanged)
            if not _is_rebalancing(answer, method):
                break
            if monotonic() > until:
                raise TimedOut(
                    f"Kafka Connect at {self.address} has been rebalancing for more than "
                    f"{self._settings.timeout_s:g} s: {_message(answer)}",
                    unchanged=unchanged,
                    hint="Find the cause of the rebalances in its workers' logs, or raise timeout.",
                )
            sleep(_POLL_S)
        if not 200 <= answer.status < 300:
            raise self._failure(answer, method, connector, unchanged)
        try:
            return read(parse(answer.body) if answer.body.strip() else None)
        except (ValueError, TypeError, KeyError, RecursionError):
            changed = unchanged if method == "GET" else _UNKNOWN_STATE
            start = safe_text(answer.body[:_SHOWN].decode(errors="replace"), 80)
            raise self._strange(f"it responded to {method} {path} with: {start}", changed) from None

    def _failure(self, answer: _Answer, method: str, connector: str, unchanged: str) -> K2kError:
        status, said = answer.status, _message(answer)
        if status in (http.client.UNAUTHORIZED, http.client.FORBIDDEN):
            return ConnectionFailed(
                f"Kafka Connect at {self.address} denied access ({status})",
                unchanged=unchanged,
                hint="Check user and password in the --connect-file, and the user's permissions.",
            )
        if status == http.client.NOT_FOUND and connector:
            return ConfigError(
                f"Kafka Connect at {self.address} has no connector {safe_text(connector)} "
                f"(404: {said})",
                unchanged=unchanged,
                hint="List its connectors: k2ktui mm2 offsets show without --connector.",
            )
        if status == http.client.BAD_REQUEST:
            return Refused(f"Kafka Connect rejected the request: {said}", unchanged=unchanged)
        if 300 <= status < 400:
            where = safe_text(answer.location, 120)
            return self._strange(f"it redirects to another address ({status}: {where})", unchanged)
        if status >= 500 and method != "GET":
            unchanged = _UNKNOWN_STATE
        return K2kError(
            f"Kafka Connect at {self.address} failed ({status}): {said}",
            unchanged=unchanged,
            hint="See its workers' logs.",
        )

    def _strange(self, what: str, unchanged: str) -> K2kError:
        return K2kError(
            f"{self.address} returned a response that is not from Kafka Connect: {what}",
            unchanged=unchanged,
            hint="Check the URL and any proxy in between.",
        )

    def _exchange(self, method: str, path: str, body: object, unchanged: str) -> _Answer:
        """Try the worker that answered last, then the others; never resend a sent request.

        Raises:
            ConnectionFailed: no worker can be reached, or the connection was lost.
            TimedOut: the worker did not answer in time.
        """
        others = [url for url in self._settings.urls if url != self._worker]
        failures: list[str] = []
        for url in (self._worker, *others):
            proxy = find_proxy(url)
            through = f" through the proxy {_address(proxy)}" if proxy else ""
            try:
                connection = self._connection(url, proxy)
                connection.connect()
            except (OSError, ValueError, http.client.HTTPException) as error:
                failures.append(f"{safe_text(url)}{through}: {_why(error)}")
                continue
            self._worker = url
            # The connection's own limit is for each read: an answer can take forever, byte by byte.
            limit = _TimeLimit(connection, self._settings.timeout_s)
            try:
                forwarded = proxy and url.startswith("http:")  # https goes through a tunnel
                start = url if forwarded else urlsplit(url).path
                login = _proxy_login(proxy) if forwarded else {}
                answer = self._answer(connection, start + path, method, body, login)
                if not limit.is_over:  # what was read until then may look complete
                    return answer
            except (OSError, ValueError, http.client.HTTPException) as error:
                if not (limit.is_over or isinstance(error, TimeoutError)):
                    raise ConnectionFailed(
                        f"Kafka Connect at {self.address} closed the connection: {_why(error)}",
                        unchanged=unchanged if method == "GET" else _UNKNOWN_STATE,
                    ) from None
            finally:
                limit.cancel()
                connection.close()
            raise TimedOut(
                f"Kafka Connect at {self.address} did not respond to {method} "
                f"{safe_text(path)} within {self._settings.timeout_s:g} s",
                unchanged=unchanged if method == "GET" else _UNKNOWN_STATE,
            )
        raise ConnectionFailed(
            "Kafka Connect cannot be reached: " + "; ".join(failures),
            unchanged=unchanged,
            hint="Check the URL, that a worker is up, and tls in the --connect-file."
            + (_PROXY_HINT if any(map(find_proxy, self._settings.urls)) else ""),
        )

    def _connection(self, url: str, proxy: str) -> http.client.HTTPConnection:
        """Return a connection to a worker, or to the proxy before it; raises ValueError."""
        parts, through = urlsplit(url), urlsplit(proxy)
        host, port = parts.hostname or "", parts.port
        if proxy and through.scheme != "http":
            raise ValueError(f"proxies of type {safe_text(through.scheme)} are not supported")
        timeout = self._settings.timeout_s
        if proxy:
            address, at = through.hostname or "", through.port or _PROXY_PORT
        else:
            address, at = host, port or 0
        if parts.scheme == "https":
            connection = http.client.HTTPSConnection(
                address, at or None, timeout=timeout, context=self._context
            )
            if proxy:
                connection.set_tunnel(host, port, _proxy_login(proxy))
            return connection
        return http.client.HTTPConnection(address, at or None, timeout=timeout)

    def _answer(
        self,
        connection: http.client.HTTPConnection,
        path: str,
        method: str,
        body: object,
        more: Mapping[str, str],
    ) -> _Answer:
        headers = {
            "Accept": "application/json",
            "User-Agent": f"k2ktui/{__version__}",
            **more,
        }
        if self._settings.user:
            login = f"{self._settings.user}:{self._settings.password}".encode()
            headers["Authorization"] = f"Basic {base64.b64encode(login).decode()}"
        if body is not None:
            headers["Content-Type"] = "application/json"
        data = None if body is None else json.dumps(body).encode()
        connection.request(method, path, data, headers)
        response = connection.getresponse()
        content = response.read(_LARGEST_BYTES + 1)
        if len(content) > _LARGEST_BYTES:
            raise http.client.HTTPException("its response is too long")
        return _Answer(response.status, content, response.headers.get("Location", ""))


def _is_rebalancing(answer: _Answer, method: str) -> bool:
    """Whether Connect refuses a request only while its workers are rebalancing.

    With 409 it has done nothing. With 500 a worker waited too long for the others, or could not
    reach the leader: a change of offsets may have been made nevertheless, and is not sent again.
    """
    if answer.status == http.client.CONFLICT:
        return True
    if answer.status != http.client.INTERNAL_SERVER_ERROR or method == "PATCH":
        return False
    said = _message(answer).lower()
    return any(words in said for words in _REBALANCING)


def _address(url: str) -> str:
    """Return host and port of a URL, without a login."""
    parts = urlsplit(url)
    return safe_text(parts.hostname or "") + (f":{parts.port}" if parts.port else "")


def _proxy_login(proxy: str) -> dict[str, str]:
    """Return the header with the login in a proxy's URL; none if it has none."""
    parts = urlsplit(proxy)
    if not parts.username:
        return {}
    login = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
    return {"Proxy-Authorization": f"Basic {base64.b64encode(login).decode()}"}


class _TimeLimit:
    """Ends the exchanges of a connection after a time, whatever the other side sends."""

    def __init__(self, connection: http.client.HTTPConnection, seconds: float) -> None:
        self.is_over = False
        # The response may keep the socket after the connection has let go of it.
        self._socket = connection.sock
        self._timer = threading.Timer(seconds, self._end)
        self._timer.daemon = True
        self._timer.start()

    def _end(self) -> None:
        self.is_over = True
        if self._socket is None:
            return
        with suppress(OSError):
            # Not ssl's own method: it drops the session under the thread that reads.
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def cancel(self) -> None:
        """Stop counting."""
        self._timer.cancel()


def _message(answer: _Answer) -> str:
    """Return the message of Connect's error response, or the start of any other body."""
    try:
        said = text(field(parse_object(answer.body), "message"))
    except MalformedRecord:
        said = answer.body[:_SHOWN].decode(errors="replace") or "no reason given"
    return safe_text(said.strip(), _SHOWN)


def _why(error: BaseException) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return safe_text(f"its certificate is not trusted ({error.verify_message})")
    if isinstance(error, TimeoutError):
        return "no response in time"
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return safe_text(text, _SHOWN)


def _version_text(version: Sequence[int]) -> str:
    return ".".join(str(part) for part in version)


def _object(found: Any) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise TypeError
    return found


def _inner(found: Mapping[str, Any], name: str) -> dict[str, Any]:
    return _object(found[name])


def _nothing(_: Any) -> None:
    return None


def _offsets(found: Any) -> list[SourceOffset]:
    listed = _object(found)["offsets"]
    if not isinstance(listed, list):
        raise TypeError
    return [
        SourceOffset(_object(each["partition"]), each["offset"] and _object(each["offset"]))
        for each in listed
    ]
