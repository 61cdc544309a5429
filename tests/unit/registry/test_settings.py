"""Properties of a registry: every one is used or refused, and no secret is shown."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from k2ktui.config.clusters import ClusterConfig
from k2ktui.errors import ConfigError
from k2ktui.registry.client import RegistryClient
from k2ktui.registry.settings import find_registry_problems, read_registry_settings
from tests.support.clusters.tls import make_leaf, make_root, trust_pkcs12

URL = "http://registry-1:8081"


def cluster(url: str = URL, **properties: str) -> ClusterConfig:
    """A cluster whose registry has properties; ``__`` in a name is a dot."""
    given = {key.replace("__", "."): text for key, text in properties.items()}
    return ClusterConfig.model_validate(
        {
            "kafka": {"common": {"bootstrap.servers": "k:1"}},
            "registry": {
                "config": {"schema.registry.url": url, **given},
                "headers": {"x-team": "pay"},
                "cacheSize": 7,
            },
        }
    )


def problems(url: str = URL, **properties: str) -> list[str]:
    return [
        f"{problem.key}: {problem}"
        for problem in find_registry_problems(cluster(url, **properties))
    ]


def test_what_is_given_is_used() -> None:
    registry_settings = read_registry_settings(
        cluster(
            "http://a:1, http://b:2/path/",
            http__connect__timeout__ms="2000",
            http__read__timeout__ms="3000",
            max__retries="0",
            retries__wait__ms="10",
            retries__max__wait__ms="20",
            proxy__host="proxy",
            proxy__port="3128",
        ),
        "target",
    )
    assert registry_settings.urls == ("http://a:1", "http://b:2/path")
    assert registry_settings.address == "the target's schema registry (a:1, b:2)"
    assert (
        registry_settings.connect_timeout_s,
        registry_settings.read_timeout_s,
        registry_settings.max_retries,
    ) == (2, 3, 0)
    assert (registry_settings.retry_wait_ms, registry_settings.max_retry_wait_ms) == (10, 20)
    assert registry_settings.proxy == "http://proxy:3128"
    assert registry_settings.headers == {"x-team": "pay"} and registry_settings.cache_size == 7
    assert pickle.loads(pickle.dumps(registry_settings)) == registry_settings


@pytest.mark.parametrize(
    ("url", "properties"),
    [
        ("http://us%40er:hunter2@a:1", {}),
        (URL, {"basic__auth__user__info": "us@er:hunter2"}),
        (
            URL,
            {
                "schema__registry__basic__auth__user__info": "us@er:hunter2",
                "basic__auth__credentials__source": "USER_INFO",
            },
        ),
    ],
    ids=["url", "property", "prefix"],
)
def test_a_basic_login_is_used_and_never_shown(url: str, properties: dict[str, str]) -> None:
    registry_settings = read_registry_settings(cluster(url, **properties), "source")
    assert registry_settings.login == {"basic.auth.user.info": "us@er:hunter2"}
    assert (
        "hunter2" not in f"{registry_settings} {registry_settings.urls} {registry_settings.address}"
    )


def test_bearer_logins_are_used_and_never_shown() -> None:
    pytest.importorskip("authlib")
    token = read_registry_settings(cluster(bearer__auth__token="hunter2"), "source")
    assert token.login["bearer.auth.credentials.source"] == "STATIC_TOKEN"
    assert token.login["bearer.auth.token"] == "hunter2" and "hunter2" not in str(token)
    oauth = {
        "bearer__auth__credentials__source": "OAUTHBEARER",
        "bearer__auth__issuer__endpoint__url": "http://idp/token",
        "bearer__auth__client__id": "me",
        "bearer__auth__client__secret": "hunter2",
        "bearer__auth__scope": "all",
        "bearer__auth__identity__pool__id": "pool",
    }
    settings = read_registry_settings(cluster(**oauth), "source")
    assert settings.login["bearer.auth.scope"] == "all" and "hunter2" not in str(settings)
    # Confluent's client accepts both.
    for login in (token, settings):
        RegistryClient(login).close()


@pytest.mark.parametrize(
    ("properties", "problem"),
    [
        ({"url": ""}, "schema.registry.url: missing"),
        ({"url": "registry:8081"}, "schema.registry.url: expected URLs"),
        ({"url": "http://a:x"}, "schema.registry.url: expected URLs"),
        ({"url": "ftp://a"}, "schema.registry.url: expected URLs"),
        ({"max__retries": "-1"}, "max.retries: expected a whole number of at least 0"),
        ({"http__read__timeout__ms": "soon"}, "expected a whole number of at least 1"),
        ({"proxy__host": "p"}, "proxy.port: expected proxy.host and a port"),
        ({"basic__auth__user__info": "u"}, "basic.auth.user.info: expected user:password"),
        ({"basic__auth__credentials__source": "SASL_INHERIT"}, "expected URL or USER_INFO"),
        ({"basic__auth__credentials__source": "USER_INFO"}, "basic.auth.user.info: missing"),
        (
            {"url": "http://u:p@a", "basic__auth__user__info": "u:p"},
            "schema.registry.url holds a user, too",
        ),
        ({"bearer__auth__credentials__source": "CUSTOM"}, "expected STATIC_TOKEN or OAUTHBEARER"),
        ({"bearer__auth__credentials__source": "OAUTHBEARER"}, "endpoint.url: missing"),
        (
            {"bearer__auth__token": "t", "basic__auth__user__info": "u:p"},
            "basic authentication is set, too",
        ),
        ({"ssl__truststore__location": "/x"}, "schema.registry.url has no https address"),
        ({"url": "https://a", "ssl__truststore__location": "/no/such"}, "ssl.truststore.location"),
        ({"url": "https://a", "ssl__endpoint__identification__algorithm": "x"}, "expected https"),
        ({"apicurio__registry__use-id": "x"}, "expected contentId or globalId"),
        ({"auto__register__schemas": "true"}, "auto.register.schemas: unknown property"),
        ({"max__retrys": "1"}, "max.retrys: unknown property; did you mean max.retries?"),
    ],
)
def test_what_cannot_be_used_is_refused(properties: dict[str, str], problem: str) -> None:
    (line,) = problems(**properties)
    assert problem in line
    with pytest.raises(ConfigError, match="the source's schema registry cannot be used"):
        read_registry_settings(cluster(**properties), "source")


def test_key_stores_are_read_once_and_travel_with_the_settings(tmp_path: Path) -> None:
    """A Spark task on another machine has none of the files."""
    pytest.importorskip("authlib")
    root = make_root()
    store = make_leaf(root, "client").pkcs12(tmp_path / "client.p12", "hunter2")
    trust = trust_pkcs12(root.certificate, tmp_path / "trust.p12", "hunter2")
    registry_settings = read_registry_settings(
        cluster(
            "https://a",
            schema__registry__ssl__truststore__location=str(trust),
            schema__registry__ssl__truststore__password="hunter2",
            ssl__keystore__location=str(store),
            ssl__keystore__password="hunter2",
            ssl__endpoint__identification__algorithm="",
        ),
        "source",
    )
    store.unlink()
    trust.unlink()
    there = pickle.loads(pickle.dumps(registry_settings))
    assert there.tls is not None and there.tls.identity is not None and not there.tls.verify_name
    assert "hunter2" not in str(there) and "PRIVATE" not in str(there)
    RegistryClient(there).close()
