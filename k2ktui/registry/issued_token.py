"""Tokens of a registry login with client credentials, for Confluent's client.

Its own requests for tokens have no limit of size or total time; ``kafka/auth/oauth.py`` has both
and follows no redirect.
"""

from __future__ import annotations

from collections.abc import Mapping
from time import monotonic, sleep
from typing import Any

from k2ktui.errors import ConnectionFailed
from k2ktui.kafka.auth.oauth import OauthClient, TokenProvider
from k2ktui.registry.settings import RegistrySettings

_SOURCE, _CUSTOM = "bearer.auth.credentials.source", "bearer.auth.custom.provider"
_OTHER_FIELDS = ("bearer.auth.logical.cluster", "bearer.auth.identity.pool.id")
_RETRY_S = 10.0  # no attempt begins later after the first one


class IssuedToken:
    """Provides a token for every request; a failed attempt is repeated as those of the registry.

    Args:
        issuer: where tokens are requested from.
        settings: the registry, with the limits of attempts and pauses.
    """

    def __init__(self, issuer: OauthClient, settings: RegistrySettings) -> None:
        self._tokens = TokenProvider(issuer)
        self._settings = settings
        given = settings.login
        self._fields = {name: given[name] for name in _OTHER_FIELDS if name in given}

    def __call__(self, _config: Mapping[str, Any]) -> dict[str, str]:
        """Return the bearer fields of a request.

        Raises:
            ConnectionFailed: no token can be had.
        """
        return {"bearer.auth.token": self._token(), **self._fields}

    def _token(self) -> str:
        until, pause_ms = monotonic() + _RETRY_S, self._settings.retry_wait_ms
        for _ in range(self._settings.max_retries):
            try:
                return self._tokens.token()
            except ConnectionFailed:
                pause_ms = min(pause_ms, self._settings.max_retry_wait_ms)
                if monotonic() + pause_ms / 1000 > until:
                    raise
                sleep(pause_ms / 1000)
                pause_ms *= 2
        return self._tokens.token()


def client_login(settings: RegistrySettings) -> dict[str, Any]:
    """Return the login as settings of Confluent's Python client."""
    issuer = settings.issuer
    if issuer is None:
        return dict(settings.login)
    provider = IssuedToken(issuer, settings)
    return {_SOURCE: "CUSTOM", f"{_CUSTOM}.function": provider, f"{_CUSTOM}.config": {}}
