"""OAUTHBEARER tokens for both client libraries and schema registries, from one implementation.

librdkafka has its own (``sasl.oauthbearer.method=oidc``), and so has Confluent's registry client;
neither limits the size of a response, and the latter does not limit its total time. They are not
used.
"""

from __future__ import annotations

import base64
import json
import logging
import math
import re
import ssl
import threading
import time
import urllib.parse
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from k2ktui.errors import ConnectionFailed
from k2ktui.kafka.auth.logins import LOGINS, login_of
from k2ktui.text import safe_text

if TYPE_CHECKING:  # loads the HTTP library, which most commands do not need
    from k2ktui.http_client import Response

log = logging.getLogger(__name__)

_TIMEOUT_S = 10.0
_REFRESH_AT = 0.8  # fraction of a token's lifetime, as in the Java client
_LIFE_S = 300.0  # lifetime assumed when the response has no expires_in
_LONGEST_LIFE_S = 24 * 3600.0  # upper bound, whatever expires_in says
_LARGEST_BYTES = 1 << 20
_LOGIN_REFUSED = (400, 401, 403)  # RFC 6749, 5.2, and what proxies say
_LONGEST_REASON = 200
# RFC 6750, b64token. Other characters could inject fields into the SASL message.
_TOKEN = re.compile(r"[A-Za-z0-9\-._~+/]+=*")


@dataclass(frozen=True)
class OauthClient:
    """A token endpoint and its client credentials.

    ``trust`` holds trusted certificates as PEM; "" uses the system's. ``configured_by`` names the
    property that holds the endpoint, for messages.
    """

    endpoint: str
    client_id: str
    secret: str = field(repr=False)
    scope: str = ""
    extensions: Mapping[str, str] = field(default_factory=dict)
    trust: str = ""
    configured_by: str = "sasl.oauthbearer.token.endpoint.url"


class CachingTokenProvider(ABC):
    """Keeps each token for 80 % of its lifetime; subclasses fetch them.

    Brokers that limit sessions ask for a new login after 85 % of a token's lifetime or later.
    kafka-python takes an instance as ``sasl_oauth_token_provider``, librdkafka as ``oauth_cb``.
    """

    def __init__(self) -> None:
        # Deferred import: every command reads login settings, and most need no token.
        from kafka.net.sasl.oauth import AbstractTokenProvider

        AbstractTokenProvider.register(CachingTokenProvider)  # kafka-python takes no other
        self._lock = threading.Lock()
        self._token = ""
        self._refresh_at = 0.0
        self._expires_at = 0.0

    def token(self) -> str:
        """Return a valid token, fetching a new one when the cached one is due for refresh.

        Raises:
            ConnectionFailed: no token can be had.
        """
        with self._lock:
            return self._refreshed()

    def extensions(self) -> dict[str, str]:
        """Return the SASL extensions to send with the token."""
        return {}

    def __call__(self, _config: str) -> tuple[str, float, str, dict[str, str]]:
        """Return what librdkafka asks for: token, expiry (seconds since 1970), user, extensions.

        librdkafka calls this in a thread of its own: when a client is created, after 80 % of what
        is left of the token's lifetime, and 10 seconds after a failure.
        """
        with self._lock:
            token = self._refreshed()
            left = self._expires_at - time.monotonic()
        return token, time.time() + left, "", self.extensions()

    def _refreshed(self) -> str:
        if time.monotonic() >= self._refresh_at:
            self._token, life = self._fetch()
            now = time.monotonic()
            self._refresh_at, self._expires_at = now + life * _REFRESH_AT, now + life
        return self._token

    @abstractmethod
    def _fetch(self) -> tuple[str, float]:
        """Return a new token and its lifetime in seconds."""


class TokenProvider(CachingTokenProvider):
    """Fetches tokens from an endpoint, with the client credentials grant."""

    def __init__(self, client: OauthClient) -> None:
        super().__init__()
        self.client = client

    def __reduce__(self) -> tuple[object, ...]:
        # The lock cannot be pickled; the copy starts without a token.
        return TokenProvider, (self.client,)

    def extensions(self) -> dict[str, str]:
        """Return the SASL extensions to send with the token."""
        return dict(self.client.extensions)

    def _fetch(self) -> tuple[str, float]:
        client = self.client
        # A secret that was refused is tried again once in 30 seconds, as accounts are locked.
        login = login_of(client.endpoint, client.client_id, client.secret)
        if reason := LOGINS.reason(login):
            raise self._token_error(reason)
        form = {"grant_type": "client_credentials", "scope": client.scope}
        body = urllib.parse.urlencode({name: text for name, text in form.items() if text})
        basic = base64.b64encode(f"{client.client_id}:{client.secret}".encode()).decode()
        headers = {
            "Authorization": f"Basic {basic}",
            "Accept": "application/json",
            "Content-Type": "application/x-www-form-urlencoded",
        }
        answer = self._post(body.encode(), headers)
        if not 200 <= answer.status < 300:
            log.info("token endpoint %s: status %d", _shown(client.endpoint), answer.status)
            if answer.status in _LOGIN_REFUSED:
                LOGINS.note(login, _refusal(answer))
            raise self._token_error(_refusal(answer))
        try:
            token = _token_of(answer.body)
        except (ValueError, RecursionError) as error:
            raise self._token_error("its response has no access_token") from error
        LOGINS.accepted(login)
        log.debug("token of %s is valid for %.0f s", _shown(client.endpoint), token[1])
        return token

    def _post(self, body: bytes, headers: Mapping[str, str]) -> Response:
        try:
            from k2ktui.http_client import Limits, RequestFailed, TooLarge, send
        except ImportError as error:  # on an executor, see docs/spark-cluster.md
            raise self._token_error(f"the package {error.name} is not installed") from error
        client = self.client
        context = ssl.create_default_context(cadata=client.trust) if client.trust else None
        limits = Limits(_LARGEST_BYTES, _TIMEOUT_S)
        try:
            return send(
                "POST", client.endpoint, limits, headers=headers, body=body, context=context
            )
        except TooLarge as error:
            raise self._token_error("its response has no access_token") from error
        except RequestFailed as error:
            log.info("token endpoint %s: %s", _shown(client.endpoint), error)
            raise self._token_error(str(error)) from error

    def _token_error(self, reason: str) -> ConnectionFailed:
        return ConnectionFailed(
            f"no token from {_shown(self.client.endpoint)}: {safe_text(reason, _LONGEST_REASON)}",
            hint=f"Check {self.client.configured_by}, the client id, its secret and scope.",
        )


def check_token(settings: Mapping[str, Any]) -> None:
    """Get a token if these settings of librdkafka need one, so that a failure has its reason.

    librdkafka waits 10 seconds for the first token and then reports only that there is none.

    Raises:
        ConnectionFailed: no token can be had.
    """
    tokens = settings.get("oauth_cb")
    if tokens is not None:
        tokens("")


def _token_of(answer: bytes) -> tuple[str, float]:
    """Return the token in an endpoint's response (RFC 6749, 5.1) and its lifetime in seconds.

    Without ``expires_in``, the token's own claim ``exp`` decides, if it has one.

    Raises:
        ValueError, RecursionError: the response is not valid or holds no token.
    """
    response = json.loads(answer)
    token = response.get("access_token") if isinstance(response, dict) else None
    if not isinstance(token, str) or not _TOKEN.fullmatch(token):
        raise ValueError
    life = response["expires_in"] if "expires_in" in response else _claimed_life(token)
    if isinstance(life, str):
        life = float(life)  # some endpoints send a string
    if isinstance(life, bool) or not isinstance(life, int | float) or math.isnan(life):
        raise ValueError
    return token, float(min(max(life, 0.0), _LONGEST_LIFE_S))


def _claimed_life(token: str) -> float:
    """Return the seconds until the ``exp`` of a JSON web token; 300 for any other token."""
    try:
        coded = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(coded + "=" * (-len(coded) % 4)))
        return float(claims["exp"]) - time.time()
    except (ValueError, TypeError, LookupError, RecursionError, OverflowError):
        return _LIFE_S


def _refusal(answer: Response) -> str:
    if 300 <= answer.status < 400:
        try:
            where = urllib.parse.urlsplit(answer.headers.get("location", "")).hostname
        except ValueError:  # the endpoint can send anything
            where = None
        return f"it responded with {answer.status}, a redirect to {where or 'nowhere'}"
    return f"it responded with {answer.status}"


def is_endpoint(url: str) -> bool:
    """Return whether a URL can be that of a token endpoint: http(s), without user and password."""
    try:
        parts = urllib.parse.urlsplit(url)
        _ = parts.port
    except ValueError:
        return False
    # A URL with a space, or text outside ASCII, is no URL; an error would show all of it.
    is_plain = url.isascii() and url.isprintable() and " " not in url
    known = parts.scheme in ("http", "https") and bool(parts.hostname)
    return is_plain and known and "@" not in parts.netloc


def _shown(endpoint: str) -> str:
    """Return a URL without its query, which may hold a secret."""
    return safe_text(urllib.parse.urlsplit(endpoint)._replace(query="", fragment="").geturl())
