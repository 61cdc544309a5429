"""What this package relies on in Confluent's registry client without its promise.

A failure here after an update of confluent-kafka says which of its private names moved, and what
breaks (``registry/_confluent.py``).
"""

from __future__ import annotations

import inspect
import ssl
from typing import Any

import pytest

from k2ktui.kafka.auth.security import Tls
from k2ktui.registry._confluent import RegistryHttp
from k2ktui.registry.settings import RegistrySettings

pytest.importorskip("authlib")


def rest_client(*, verify_name: bool = True) -> Any:
    settings = RegistrySettings(
        "source",
        ("https://localhost:1",),
        headers={"x-team": "pay"},
        tls=Tls("", None, verify_name),
    )
    return RegistryHttp(settings)._client._rest_client


def test_headers_are_sent_with_every_request() -> None:
    """Without it, ``registry.headers`` has no effect."""
    assert rest_client().session.headers["x-team"] == "pay"


@pytest.mark.parametrize("verify_name", [True, False])
def test_the_tls_context_can_be_changed(monkeypatch: pytest.MonkeyPatch, verify_name: bool) -> None:
    """Without it, host names are always verified, and old versions of TLS are accepted."""
    made = ssl.create_default_context()
    made.minimum_version = ssl.TLSVersion.TLSv1_3
    monkeypatch.setattr(ssl, "create_default_context", lambda **_: made)
    context = rest_client(verify_name=verify_name).verify
    assert context is made and context.check_hostname is verify_name
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2


def test_the_size_of_responses_can_be_limited() -> None:
    """Without it, a registry's response takes as much memory as it likes."""
    session = rest_client().session
    assert session.headers["Accept-Encoding"] == "identity"
    assert len(session.event_hooks["response"]) == 1


def test_requests_can_be_sent_directly() -> None:
    """Without it, a registry cannot be asked for anything."""
    signature = inspect.signature(rest_client().send_request)
    signature.bind(url="subjects", method="GET", body=None, query={})
