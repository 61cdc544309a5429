"""What this package relies on in Confluent's registry client without its promise.

A failure here after an update of confluent-kafka says which of its private names moved, and what
breaks (``registry/_confluent.py``).
"""

from __future__ import annotations

import ssl
from typing import Any

import pytest

from k2ktui.registry import _confluent

library = pytest.importorskip("confluent_kafka.schema_registry")


@pytest.fixture
def client() -> Any:
    return library.SchemaRegistryClient({"url": "https://localhost:1", "max.retries": 0})


def test_headers_are_sent_with_every_request(client: Any) -> None:
    """Without it, ``registry.headers`` has no effect."""
    _confluent.set_headers(client, {"x-team": "pay"})
    assert client._rest_client.session.headers["x-team"] == "pay"


def test_the_tls_context_can_be_changed(client: Any) -> None:
    """Without it, host names are always verified, and old versions of TLS are accepted."""
    context = client._rest_client.verify
    assert isinstance(context, ssl.SSLContext) and context.check_hostname
    _confluent.skip_name_verification(client)
    _confluent.set_minimum_tls(client, ssl.TLSVersion.TLSv1_3)
    assert not context.check_hostname and context.minimum_version is ssl.TLSVersion.TLSv1_3


def test_the_size_of_responses_can_be_limited(client: Any) -> None:
    """Without it, a registry's response takes as much memory as it likes."""
    _confluent.limit_responses(client, 10)
    session = client._rest_client.session
    assert session.headers["Accept-Encoding"] == "identity"
    assert len(session.event_hooks["response"]) == 1


@pytest.mark.parametrize("name", ["get", "post"])
def test_requests_can_be_sent_directly(client: Any, name: str) -> None:
    """Without it, ids are not kept in mode IMPORT, and GUIDs and global ids are unknown."""
    assert callable(getattr(client._rest_client, name))
