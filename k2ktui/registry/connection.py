"""Make Confluent's registry client from settings."""

from __future__ import annotations

import importlib
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from k2ktui.errors import NotInstalled, install_command
from k2ktui.kafka.auth.security import Tls
from k2ktui.registry import _confluent
from k2ktui.registry.issued_token import client_login
from k2ktui.registry.settings import RegistrySettings

NOTHING = "Nothing was changed."
# Bytes. The list of a million subjects with names of 60 characters fits.
LARGEST_RESPONSE = 64 << 20


def import_library() -> Any:
    """Import and return ``confluent_kafka.schema_registry``, which needs optional packages.

    Raises:
        NotInstalled: they are missing.
    """
    try:
        return importlib.import_module("confluent_kafka.schema_registry")
    except ImportError as error:
        raise NotInstalled(
            "schema mapping needs packages that are not installed: confluent-kafka[schemaregistry]",
            unchanged=NOTHING,
            hint=f"Install them, in k2ktui's checkout, with: {install_command('schemas')}",
        ) from error


def make_client(library: Any, settings: RegistrySettings) -> Any:
    """Return Confluent's client for a registry; ``library`` is what ``import_library`` returns."""
    with _tls_files(settings.tls) as files:
        client = library.SchemaRegistryClient(
            {
                "url": ",".join(settings.urls),
                **client_login(settings),
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
                "cache.capacity": settings.cache_size,
                **({"proxy": settings.proxy} if settings.proxy else {}),
            }
        )
    _confluent.set_headers(client, settings.headers)
    _confluent.limit_responses(client, LARGEST_RESPONSE)
    if settings.tls is not None:
        _confluent.set_minimum_tls(client, ssl.TLSVersion.TLSv1_2)
        if not settings.tls.verify_name:
            _confluent.skip_name_verification(client)
    return client


@contextmanager
def _tls_files(tls: Tls | None) -> Iterator[dict[str, str]]:
    """Yield the client's TLS settings; it reads the files at once, and from files only."""
    if tls is None:
        yield {}
        return
    with tempfile.TemporaryDirectory(prefix="k2ktui-") as directory:
        settings = {}
        texts = {"ssl.ca.location": tls.trust}
        if tls.identity is not None:
            texts["ssl.certificate.location"] = tls.identity.certificates + tls.identity.key
        for number, (key, text) in enumerate(texts.items()):
            if text:
                pem = Path(directory, f"{number}.pem")
                pem.touch(mode=0o600)
                pem.write_text(text)
                settings[key] = str(pem)
        yield settings
