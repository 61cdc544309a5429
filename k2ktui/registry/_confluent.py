"""Sends requests to a registry with the HTTP client inside Confluent's registry client.

It repeats requests that fail, and tries the registry's other addresses; only requests for tokens
are repeated here. The names that are used without a promise of the library are in this module:
``tests/unit/registry/test_confluent_private.py`` says what breaks without each.
"""

from __future__ import annotations

import importlib
import ssl
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from k2ktui.errors import ConnectionFailed, NotInstalled, install_command
from k2ktui.kafka.auth.oauth import OauthClient, TokenProvider
from k2ktui.kafka.auth.security import Tls
from k2ktui.registry.settings import NOTHING, RegistrySettings

# Bytes. The list of a million subjects with names of 60 characters fits.
LARGEST_RESPONSE = 64 << 20
_TOKEN_RETRY_S = 10.0  # no attempt to get a token begins later after the first one
_SOURCE, _CUSTOM = "bearer.auth.credentials.source", "bearer.auth.custom.provider"
_IDENTITY = ("bearer.auth.logical.cluster", "bearer.auth.identity.pool.id")


class RegistryHttp:
    """Sends requests to one registry; thread-safe.

    Args:
        settings: how to reach it.

    ``library`` is ``confluent_kafka.schema_registry``.

    Raises:
        NotInstalled: Confluent's registry client is not installed.
    """

    def __init__(self, settings: RegistrySettings) -> None:
        self.library = _import_library()
        with _tls_files(settings.tls) as files:
            self._client = self.library.SchemaRegistryClient(
                {
                    "url": ",".join(settings.urls),
                    **_login(settings),
                    **files,
                    "timeout": (
                        settings.connect_timeout_s,
                        settings.read_timeout_s,
                        settings.read_timeout_s,
                        settings.connect_timeout_s,
                    ),
                    "max.retries": settings.max_retries,
                    "retries.wait.ms": settings.retry_wait_ms,
                    "retries.max.wait.ms": settings.max_retry_wait_ms,
                    **({"proxy": settings.proxy} if settings.proxy else {}),
                }
            )
        # The client has no settings for these.
        rest = self._client._rest_client
        rest.session.headers.update(settings.headers)
        _limit_responses(rest.session)
        if settings.tls is not None:
            rest.verify.minimum_version = ssl.TLSVersion.TLSv1_2
            rest.verify.check_hostname = settings.tls.verify_name

    def send(
        self,
        method: str,
        path: str,
        query: Mapping[str, object] | None,
        body: Mapping[str, object] | None,
    ) -> Any:
        """Return the JSON of an answer; None if it has no content.

        Raises:
            library.SchemaRegistryError: the registry answers with an error.
            Exception: it cannot be reached, or does not answer as a registry does.
        """
        return self._client._rest_client.send_request(
            url=path, method=method, body=body, query=query
        )

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


def _import_library() -> Any:
    try:
        return importlib.import_module("confluent_kafka.schema_registry")
    except ImportError as error:
        raise NotInstalled(
            "schema mapping needs packages that are not installed: confluent-kafka[schemaregistry]",
            unchanged=NOTHING,
            hint=f"Install them, in k2ktui's checkout, with: {install_command('schemas')}",
        ) from error


def _limit_responses(session: Any) -> None:
    """Let a request fail with ValueError when its response is too large; it would take any.

    Compressed ones, whose size shows too late, are not asked for, and rejected.
    """
    library = importlib.import_module(type(session).__module__.partition(".")[0])

    def limit(response: Any) -> None:
        if response.headers.get("Content-Encoding", "identity").lower() != "identity":
            raise ValueError("it is compressed, which was not asked for")
        stream, parts, size = response.stream, [], 0
        for part in stream:
            parts.append(part)
            size += len(part)
            if size > LARGEST_RESPONSE:
                raise ValueError(f"it is larger than {LARGEST_RESPONSE:,} bytes")
        stream.close()
        response.stream = library.ByteStream(b"".join(parts))

    session.headers["Accept-Encoding"] = "identity"
    session.event_hooks = {"response": [limit]}


@contextmanager
def _tls_files(tls: Tls | None) -> Iterator[dict[str, str]]:
    """Yield the client's TLS settings; it reads the files at once, and from files only."""
    if tls is None:
        yield {}
        return
    texts = {"ssl.ca.location": tls.trust}
    if tls.identity is not None:
        texts["ssl.certificate.location"] = tls.identity.certificates + tls.identity.key
    with tempfile.TemporaryDirectory(prefix="k2ktui-") as directory:
        files = {name: Path(directory, name) for name, text in texts.items() if text}
        for name, file in files.items():
            file.touch(mode=0o600)
            file.write_text(texts[name])
        yield {name: str(file) for name, file in files.items()}


def _login(settings: RegistrySettings) -> dict[str, Any]:
    issuer = settings.issuer
    if issuer is None:
        return dict(settings.login)
    fields = _token_source(issuer, settings)
    return {_SOURCE: "CUSTOM", f"{_CUSTOM}.function": fields, f"{_CUSTOM}.config": {}}


def _token_source(
    issuer: OauthClient, settings: RegistrySettings
) -> Callable[[object], dict[str, str]]:
    """Return what gives the bearer fields of every request.

    Confluent's own requests for tokens have no limit of size or total time; ``kafka/auth/oauth.py``
    has both and follows no redirect. A failed attempt is repeated as those of the registry.
    """
    tokens = TokenProvider(issuer)
    identity = {name: settings.login[name] for name in _IDENTITY if name in settings.login}

    def fields(_config: object) -> dict[str, str]:
        until, pause_ms = monotonic() + _TOKEN_RETRY_S, settings.retry_wait_ms
        retries = settings.max_retries
        while True:
            try:
                return {"bearer.auth.token": tokens.token(), **identity}
            except ConnectionFailed:
                pause_s = min(pause_ms, settings.max_retry_wait_ms) / 1000
                if not retries or monotonic() + pause_s > until:
                    raise
            sleep(pause_s)
            pause_ms *= 2
            retries -= 1

    return fields
