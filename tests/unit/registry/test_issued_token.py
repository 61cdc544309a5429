"""Tokens of a registry login: bounded, never redirected, and requested again after a failure."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from k2ktui.errors import ConnectionFailed
from k2ktui.kafka.auth import oauth
from k2ktui.registry.client import RegistryClient
from k2ktui.registry.settings import find_registry_problems, read_registry_settings
from tests.support.clusters.token_answers import Answer, Endless, endpoint, redirects, slow_body
from tests.support.http.rest import serving
from tests.unit.registry.test_settings import cluster

pytest.importorskip("authlib")
SECRET = "hunter2"
NOWHERE = "http://127.0.0.1:1"


def login(url: str) -> dict[str, str]:
    """What is needed to get a token from an issuer."""
    return {
        "bearer__auth__credentials__source": "OAUTHBEARER",
        "bearer__auth__issuer__endpoint__url": url,
        "bearer__auth__client__id": "me",
        "bearer__auth__client__secret": SECRET,
        "bearer__auth__scope": "all",
    }


def client(url: str, registry: str = NOWHERE, **properties: str) -> RegistryClient:
    more = {"bearer__auth__identity__pool__id": "pool", "retries__wait__ms": "1"}
    configured = cluster(registry, **(login(url) | more | properties))
    return RegistryClient(read_registry_settings(configured, "target"))


HOSTILE: dict[str, tuple[Callable[[], Answer], str]] = {
    "redirect": (lambda: redirects(307), "responded with 307, a redirect to nowhere"),
    "endless": (Endless, "its response has no access_token"),
    "slow": (lambda: slow_body, "no complete response in time"),
}


@pytest.mark.parametrize("harm", HOSTILE)
def test_no_client_is_harmed(harm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oauth, "_TIMEOUT_S", 0.4)
    answer, words = HOSTILE[harm]
    with (
        endpoint(answer()) as (url, asked),
        client(url, max__retries="1") as registry,
        pytest.raises(ConnectionFailed, match=f"no token from {url}: .*{words}") as caught,
    ):
        registry.default_mode()
    assert asked == ["/token", "/token"], "one further attempt, and never elsewhere"
    assert SECRET not in str(caught.value) and "secret=abc" not in str(caught.value)
    assert "Check bearer.auth.issuer.endpoint.url in target.registry.config" in caught.value.hint


def test_no_attempt_begins_after_ten_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        endpoint(redirects(302)) as (url, asked),
        client(url, retries__wait__ms="10001", retries__max__wait__ms="20000") as registry,
        pytest.raises(ConnectionFailed, match="a redirect"),
    ):
        registry.default_mode()
    assert len(asked) == 1


def test_a_token_is_requested_again_after_a_failure_and_then_kept() -> None:
    with serving() as server:
        token = b'{"access_token": "abc", "expires_in": 300}'
        server.answers["POST /token"] = [(500, b""), (200, token)]
        server.answers["GET /mode"] = [(200, b'{"mode": "READWRITE"}')]
        with client(f"{server.url}/token", server.url) as registry:
            assert registry.default_mode() == registry.default_mode() == "READWRITE"
    named = [name for name, _ in server.asked]
    assert named == ["POST /token", "POST /token", "GET /mode", "GET /mode"]
    assert {used for name, used in server.asked if name == "GET /mode"} == {"Bearer abc"}


@pytest.mark.parametrize("url", ["file:///etc/passwd", "https://me:hunter2@idp/token"])
def test_an_issuer_is_a_plain_http_url(url: str) -> None:
    (problem,) = find_registry_problems(cluster(NOWHERE, **login(url)))
    assert problem.key == "bearer.auth.issuer.endpoint.url" and SECRET not in str(problem)
