"""OAUTHBEARER tokens for kafka-python connections: cached, and from the client credentials grant.

librdkafka has this built in (``sasl.oauthbearer.method=oidc``); kafka-python needs a provider.
"""

from __future__ import annotations

import base64
import http.client
import json
import math
import re
import ssl
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field

from kafka.net.sasl.oauth import AbstractTokenProvider

from k2ktui.errors import ConnectionFailed
from k2ktui.kafka.bounded_http import fetch
from k2ktui.text import safe_text

_TIMEOUT_S = 10.0
_REFRESH_AT = 0.8  # fraction of a token's lifetime, as in the Java client
_LIFE_S = 300.0  # lifetime assumed when the response has no expires_in
_LONGEST_LIFE_S = 24 * 3600.0  # upper bound, whatever expires_in says
_LARGEST_BYTES = 1 << 20
# RFC 6750, b64token. Other characters could inject fields into the SASL message.
_TOKEN = re.compile(r"[A-Za-z0-9\-._~+/]+=*")


@dataclass(frozen=True)
class OauthClient:
    """A token endpoint and its client credentials.

    ``trust`` holds trusted certificates as PEM; "" uses the system's.
    """

    endpoint: str
    client_id: str
    secret: str = field(repr=False)
    scope: str = ""
    extensions: Mapping[str, str] = field(default_factory=dict)
    trust: str = ""


class CachingTokenProvider(AbstractTokenProvider):  # type: ignore[misc]
    """Keeps each token for 80 % of its lifetime; subclasses fetch them.

    Brokers that limit sessions ask for a new login after 85 % of a token's lifetime or later.
    """

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._token = ""
        self._refresh_at = 0.0

    def token(self) -> str:
        """Return a valid token, fetching a new one when the cached one is due for refresh.

        Raises:
            ConnectionFailed: no token can be had.
        """
        with self._lock:
            if time.monotonic() >= self._refresh_at:
                self._token, life = self._fetch()
                self._refresh_at = time.monotonic() + life * _REFRESH_AT
            return self._token

    @abstractmethod
    def _fetch(self) -> tuple[str, float]:
        """Return a new token and its lifetime in seconds."""


class TokenProvider(CachingTokenProvider):
    """Fetches tokens from an endpoint, with the client credentials grant."""

    def __init__(self, client: OauthClient) -> None:
        super().__init__()
        self._client = client

    def __reduce__(self) -> tuple[object, ...]:
        # The lock cannot be pickled; the copy starts without a token.
        return TokenProvider, (self._client,)

    def extensions(self) -> dict[str, str]:
        """Return the SASL extensions to send with the token."""
        return dict(self._client.extensions)

    def _fetch(self) -> tuple[str, float]:
        client = self._client
        form = {"grant_type": "client_credentials", "scope": client.scope}
        body = urllib.parse.urlencode({name: text for name, text in form.items() if text})
        login = base64.b64encode(f"{client.client_id}:{client.secret}".encode()).decode()
        # The scheme was checked when the endpoint was configured.
        request = urllib.request.Request(  # noqa: S310
            client.endpoint,
            data=body.encode(),
            headers={"Authorization": f"Basic {login}", "Accept": "application/json"},
        )
        context = ssl.create_default_context(cadata=client.trust or None)
        try:
            return _token_of(fetch(request, context, _TIMEOUT_S, _LARGEST_BYTES))
        except urllib.error.HTTPError as error:
            error.close()
            raise self._token_error(_refusal(error)) from None
        except (OSError, http.client.HTTPException) as error:
            raise self._token_error(str(getattr(error, "reason", "") or error)) from None
        except (ValueError, RecursionError):
            raise self._token_error("its response has no access_token") from None

    def _token_error(self, reason: str) -> ConnectionFailed:
        return ConnectionFailed(
            f"no token from {safe_text(self._client.endpoint)}: {safe_text(reason)}",
            hint="Check sasl.oauthbearer.token.endpoint.url, the client id, its secret and scope",
        )


def _token_of(answer: bytes) -> tuple[str, float]:
    """Return the token in an endpoint's response (RFC 6749, 5.1) and its lifetime in seconds.

    Raises:
        ValueError, RecursionError: the response is not valid or holds no token.
    """
    found = json.loads(answer)
    token = found.get("access_token") if isinstance(found, dict) else None
    if not isinstance(token, str) or not _TOKEN.fullmatch(token):
        raise ValueError
    life = found.get("expires_in", _LIFE_S)
    if isinstance(life, str):
        life = float(life)  # some endpoints send a string
    if isinstance(life, bool) or not isinstance(life, int | float) or math.isnan(life):
        raise ValueError
    return token, float(min(max(life, 0.0), _LONGEST_LIFE_S))


def _refusal(error: urllib.error.HTTPError) -> str:
    if 300 <= error.code < 400:
        where = urllib.parse.urlsplit(error.headers.get("Location", ""))
        return f"it responded with {error.code}, a redirect to {where.hostname or 'nowhere'}"
    return f"it responded with {error.code}"
