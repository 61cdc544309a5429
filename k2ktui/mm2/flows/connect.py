"""Client of Kafka Connect's REST API for states, settings and offsets of connectors.

Paths and bodies follow Kafka Connect's documentation (KIP-875 for offsets and ``stop``). Errors
are raised as ``k2ktui.errors`` that say what was not changed.
"""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, urlsplit

from k2ktui.engine.strict_json import (
    MalformedRecord,
    field,
    items,
    mapping,
    parse,
    parse_object,
    text,
)
from k2ktui.errors import ConfigError, ConnectionFailed, K2kError, Refused, TimedOut
from k2ktui.mm2.flows.connect_settings import ConnectSettings
from k2ktui.text import safe_message, safe_text

if TYPE_CHECKING:  # loads the HTTP library, which most commands do not need
    from k2ktui.http_client import RequestFailed, Response

log = logging.getLogger(__name__)

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
        root = self._ask("GET", "/", mapping)
        digits = str(root.get("version", "")).split("-")[0].split(".")
        if not all(part.isdecimal() for part in digits):
            raise self._strange(f"it reports no version ({safe_text(root)[:_SHOWN]})", NOTHING)
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
        return self._ask("GET", "/connectors?expand=info", _classes)

    def config(self, connector: str) -> dict[str, str]:
        """Return a connector's settings; they may contain secrets.

        Raises:
            ConfigError: the connector does not exist.
        """
        settings = self._of(connector, "GET", "/config", mapping)
        return {str(name): str(value) for name, value in settings.items()}

    def state(self, connector: str) -> ConnectorState:
        """Return the states of a connector and its tasks."""
        return self._of(connector, "GET", "/status", _state)

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
        response = self._of(connector, "PATCH", "/offsets", mapping, body, unchanged=unchanged)
        return safe_message(response.get("message", ""))

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
            lambda state: state.state == STOPPED and not state.tasks,
            "did not stop",
            unchanged,
        )

    def await_running(self, connector: str) -> None:
        """Wait until a resumed or paused connector is no longer stopped.

        Raises:
            TimedOut: it is still stopped after the configured ``timeout``.
        """
        self._await(connector, lambda state: state.state != STOPPED, "did not resume", "")

    def _await(
        self,
        connector: str,
        done: Callable[[ConnectorState], bool],
        failed: str,
        unchanged: str,
    ) -> None:
        until = monotonic() + self._settings.timeout_s
        while not done(state := self.state(connector)):
            if monotonic() > until:
                raise TimedOut(
                    f"connector {safe_text(connector)} {failed} within "
                    f"{self._settings.timeout_s:g} s: it is {safe_text(state.state)} with "
                    f"{len(state.tasks)} tasks",
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
            log.debug("%s: %s %s: status %d", self.address, method, path, answer.status)
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
            log.info("%s: %s %s refused: status %d", self.address, method, path, answer.status)
            raise self._failure(answer, method, connector, unchanged)
        try:
            return read(parse(answer.body) if answer.body.strip() else None)
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            changed = unchanged if method == "GET" else _UNKNOWN_STATE
            start = safe_text(answer.body[:_SHOWN].decode(errors="replace"), 80)
            raise self._strange(
                f"it responded to {method} {path} with: {start}", changed
            ) from error

    def _failure(self, answer: Response, method: str, connector: str, unchanged: str) -> K2kError:
        status, said = answer.status, _message(answer)
        if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            return ConnectionFailed(
                f"Kafka Connect at {self.address} denied access ({status})",
                unchanged=unchanged,
                hint="Check user and password in the --connect-file, and the user's permissions.",
            )
        if status == HTTPStatus.NOT_FOUND and connector:
            return ConfigError(
                f"Kafka Connect at {self.address} has no connector {safe_text(connector)} "
                f"(404: {said})",
                unchanged=unchanged,
                hint="List its connectors: k2ktui mm2 offsets show without --connector.",
            )
        if status == HTTPStatus.BAD_REQUEST:
            return Refused(f"Kafka Connect rejected the request: {said}", unchanged=unchanged)
        if 300 <= status < 400:
            where = safe_text(answer.headers.get("location", ""), 120)
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

    def _exchange(self, method: str, path: str, body: object, unchanged: str) -> Response:
        """Try the worker that answered last, then the others; never resend a sent request.

        Raises:
            ConnectionFailed: no worker can be reached, or the connection was lost.
            TimedOut: the worker did not answer in time.
        """
        from k2ktui.http_client import Limits, RequestFailed, find_proxy, send

        limits = Limits(_LARGEST_BYTES, self._settings.timeout_s)
        data = None if body is None else json.dumps(body).encode()
        others = [url for url in self._settings.urls if url != self._worker]
        failures: list[str] = []
        for url in (self._worker, *others):
            try:
                answer = send(
                    method,
                    url + path,
                    limits,
                    headers=self._headers(data),
                    body=data,
                    context=self._context,
                )
            except RequestFailed as error:
                log.info("%s: %s %s failed: %s", safe_text(url), method, path, error)
                if error.was_sent:
                    self._worker = url
                    raise self._lost(error, f"{method} {safe_text(path)}", unchanged) from error
                proxy = find_proxy(url)
                through = f" through the proxy {_address(proxy)}" if proxy else ""
                failures.append(f"{safe_text(url)}{through}: {safe_text(error, _SHOWN)}")
            else:
                self._worker = url
                return answer
        raise ConnectionFailed(
            "Kafka Connect cannot be reached: " + "; ".join(failures),
            unchanged=unchanged,
            hint="Check the URL, that a worker is up, and tls in the --connect-file."
            + (_PROXY_HINT if any(map(find_proxy, self._settings.urls)) else ""),
        )

    def _lost(self, error: RequestFailed, request: str, unchanged: str) -> K2kError:
        """Return the error of a request that was sent and has no complete response."""
        changed = unchanged if request.startswith("GET ") else _UNKNOWN_STATE
        if error.is_late:
            return TimedOut(
                f"Kafka Connect at {self.address} did not respond to {request} within "
                f"{self._settings.timeout_s:g} s",
                unchanged=changed,
            )
        return ConnectionFailed(
            f"Kafka Connect at {self.address} closed the connection: {safe_text(error, _SHOWN)}",
            unchanged=changed,
        )

    def _headers(self, body: bytes | None) -> dict[str, str]:
        headers = {"Accept": "application/json"}
        if self._settings.user:
            login = f"{self._settings.user}:{self._settings.password}".encode()
            headers["Authorization"] = f"Basic {base64.b64encode(login).decode()}"
        if body is not None:
            headers["Content-Type"] = "application/json"
        return headers


def _is_rebalancing(answer: Response, method: str) -> bool:
    """Whether Connect refuses a request only while its workers are rebalancing.

    With 409 it has done nothing. With 500 a worker waited too long for the others, or could not
    reach the leader: a change of offsets may have been made nevertheless, and is not sent again.
    """
    if answer.status == HTTPStatus.CONFLICT:
        return True
    if answer.status != HTTPStatus.INTERNAL_SERVER_ERROR or method == "PATCH":
        return False
    said = _message(answer).lower()
    return any(words in said for words in _REBALANCING)


def _address(url: str) -> str:
    """Return host and port of a URL, without a login."""
    parts = urlsplit(url)
    return safe_text(parts.hostname or "") + (f":{parts.port}" if parts.port else "")


def _message(answer: Response) -> str:
    """Return the message of Connect's error response, or the start of any other body."""
    try:
        said = text(field(parse_object(answer.body), "message"))
    except MalformedRecord:
        said = answer.body[:_SHOWN].decode(errors="replace") or "no reason given"
    return safe_text(said.strip(), _SHOWN)


def _version_text(version: Sequence[int]) -> str:
    return ".".join(str(part) for part in version)


def _nothing(_: Any) -> None:
    return None


def _classes(body: Any) -> dict[str, str]:
    return {
        str(name): str(mapping(mapping(info["info"])["config"]).get("connector.class", ""))
        for name, info in sorted(mapping(body).items())
    }


def _state(body: Any) -> ConnectorState:
    own = mapping(mapping(body)["connector"])
    tasks = [mapping(task) for task in items(body["tasks"])]
    traces = [str(part["trace"]) for part in (own, *tasks) if part.get("trace")]
    return ConnectorState(
        str(own.get("state", "")),
        tuple(str(task.get("state", "")) for task in tasks),
        traces[0].splitlines()[0] if traces else "",
    )


def _offsets(body: Any) -> list[SourceOffset]:
    return [
        SourceOffset(mapping(stored["partition"]), stored["offset"] and mapping(stored["offset"]))
        for stored in items(mapping(body)["offsets"])
    ]
