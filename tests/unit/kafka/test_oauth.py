"""A token endpoint that means harm, or is not one: bounded in time and size, never followed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from time import monotonic, time

import pytest
from opentelemetry.sdk.metrics.export import MetricsData

from k2ktui.config.clusters import ClusterConfig, KafkaClients
from k2ktui.errors import ConfigError, ConnectionFailed
from k2ktui.kafka.admin import broker_creation
from k2ktui.kafka.auth import oauth
from k2ktui.kafka.auth.oauth import OauthClient, TokenProvider
from k2ktui.kafka.clients import Cluster
from k2ktui.kafka.control.keyed_writer import KeyedWriter
from k2ktui.kafka.control.metrics_exporter import ExportFailed, KafkaMetrics
from k2ktui.kafka.properties.translation import librdkafka
from tests.support.clusters.kafka import TIMEOUT, eventually
from tests.support.clusters.token_answers import (
    Answer,
    Endless,
    endpoint,
    redirects,
    says,
    slow_body,
    slow_headers,
)
from tests.support.clusters.tokens import unsigned_token
from tests.support.http.server import count_time_from_request

SECRET = "hunter2"


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """An endpoint that answers has the time of a busy machine."""
    monkeypatch.setattr(oauth, "_TIMEOUT_S", TIMEOUT)


def provider(url: str) -> TokenProvider:
    return TokenProvider(OauthClient(url, "id", SECRET))


def test_kafka_python_takes_the_provider() -> None:
    """It is no subclass, as every command would have to load all of kafka-python."""
    from kafka.net.sasl.oauth import SaslMechanismOAuth

    SaslMechanismOAuth(sasl_oauth_token_provider=provider("http://127.0.0.1:1/token"))


def test_a_token_is_asked_for_once() -> None:
    with endpoint(says('{"access_token": "abc.d-e_f~g+/==", "expires_in": "300"}')) as (url, asked):
        tokens = provider(url)
        assert tokens.token() == tokens.token() == "abc.d-e_f~g+/=="
        assert asked == ["/token"]


def test_a_refused_secret_is_sent_once_in_thirty_seconds() -> None:
    with endpoint(redirects(401, "")) as (url, asked):
        for tokens in (provider(url), provider(url)):
            for _ in range(3):
                with pytest.raises(ConnectionFailed, match="responded with 401"):
                    tokens.token()
        assert asked == ["/token"]
        with pytest.raises(ConnectionFailed):
            TokenProvider(OauthClient(url, "id", "another-secret")).token()
        assert asked == ["/token"] * 2


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_redirect_is_followed(status: int) -> None:
    with endpoint(redirects(status)) as (url, asked):
        with pytest.raises(
            ConnectionFailed, match=f"responded with {status}, a redirect"
        ) as caught:
            provider(url).token()
        assert asked == ["/token"]
    assert SECRET not in str(caught.value) and "secret=abc" not in str(caught.value)


@pytest.mark.parametrize("location", ["http://[", "http://", ""])
def test_a_redirect_to_nowhere(location: str) -> None:
    with (
        endpoint(redirects(302, location)) as (url, _),
        pytest.raises(ConnectionFailed, match="a redirect to nowhere"),
    ):
        provider(url).token()


def test_an_endless_answer() -> None:
    answer = Endless()
    with endpoint(answer) as (url, _), pytest.raises(ConnectionFailed, match="no access_token"):
        provider(url).token()
    assert answer.sent < 64 << 20


@pytest.mark.parametrize("answer", [slow_body, slow_headers])
def test_an_answer_that_does_not_end(answer: Answer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each byte is well within the time-out, the whole is not."""
    monkeypatch.setattr(oauth, "_TIMEOUT_S", 0.4)
    with endpoint(answer) as (url, _), pytest.raises(ConnectionFailed, match="in time"):
        provider(url).token()


@pytest.mark.parametrize(
    "body",
    [
        "",
        "no JSON",
        "[]",
        "null",
        "[" * 100_000,
        '{"access_token": null}',
        '{"access_token": ["a"]}',
        '{"access_token": ""}',
        '{"access_token": "a\\u0001user=other"}',
        '{"access_token": "a b"}',
        '{"access_token": "a", "expires_in": NaN}',
        '{"access_token": "a", "expires_in": "soon"}',
        '{"access_token": "a", "expires_in": true}',
    ],
)
def test_no_token(body: str) -> None:
    with endpoint(says(body)) as (url, _), pytest.raises(ConnectionFailed, match="no access_token"):
        provider(url).token()


def test_no_http() -> None:
    def rude(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(b"SSH-2.0-OpenSSH_9.6\r\n")

    with endpoint(rude) as (url, _), pytest.raises(ConnectionFailed, match="no token from"):
        provider(url).token()


@pytest.mark.parametrize("life", ["1e999", "-5", "99999999999999999999"])
def test_a_life_without_bounds(life: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A token is requested again within a day."""
    with endpoint(says(f'{{"access_token": "a", "expires_in": {life}}}')) as (url, asked):
        tokens = provider(url)
        assert tokens.token() == "a"
        later = monotonic() + 24 * 3600
        monkeypatch.setattr("k2ktui.kafka.auth.oauth.time.monotonic", lambda: later)
        assert tokens.token() == "a"
    assert len(asked) == 2


def at(url: str, **options: str) -> ClusterConfig:
    """A cluster of a login with a token endpoint; no broker listens there."""
    line = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
    given = {"clientId": "id", "clientSecret": SECRET, **options}
    return ClusterConfig(
        kafka=KafkaClients(
            common={
                "bootstrap.servers": "127.0.0.1:1",
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.oauthbearer.token.endpoint.url": url,
                "sasl.jaas.config": " ".join(
                    [line, *(f'{name}="{text}"' for name, text in given.items())]
                )
                + ";",
            }
        )
    )


# Each way to make a client of confluent-kafka.
CLIENTS: dict[str, Callable[[ClusterConfig], object]] = {
    "admin": lambda config: Cluster(config, "source").admin,
    "consumer": lambda config: Cluster(config, "target").consumer(),
    "kept consumer": lambda config: Cluster(config, "target").kept_consumer(),
    "writer": lambda config: KeyedWriter(Cluster(config, "target"), "t").put([(b"k", b"v")]),
    "metrics": lambda config: KafkaMetrics(config, "t", "p").write(MetricsData([]), 10.0),
    "creation": lambda config: broker_creation.let_brokers_create(
        Cluster(config, "target"), ["t"], attempts=1, delay_s=0.0
    ),
}
HOSTILE: dict[str, tuple[Callable[[], Answer], str]] = {
    "redirect": (lambda: redirects(307), "responded with 307, a redirect to nowhere"),
    "endless": (Endless, "its response has no access_token"),
    "slow": (lambda: slow_body, "no complete response in time"),
}


@pytest.mark.parametrize("kind", CLIENTS)
@pytest.mark.parametrize("harm", HOSTILE)
def test_no_client_is_harmed(kind: str, harm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """librdkafka's own requests would read everything, and the reason would be lost."""
    if harm == "slow":
        monkeypatch.setattr(oauth, "_TIMEOUT_S", 0.4)
    monkeypatch.setattr(broker_creation, "creates_topics", lambda _: None)
    answer, words = HOSTILE[harm]
    with endpoint(answer()) as (url, asked):
        count_time_from_request(monkeypatch, lambda: asked)
        with pytest.raises((ConnectionFailed, ExportFailed), match=words) as caught:
            CLIENTS[kind](at(url))
        eventually(lambda: asked, "the endpoint has got what was sent")
    assert asked == ["/token"] and SECRET not in str(caught.value)


def test_a_client_asks_for_one_token() -> None:
    with endpoint(says('{"access_token": "abc", "expires_in": 300}')) as (url, asked):
        _ = Cluster(at(url), "source").admin
        assert asked == ["/token"]


def test_what_librdkafka_is_given() -> None:
    with endpoint(says('{"access_token": "abc", "expires_in": 300}')) as (url, asked):
        tokens = librdkafka(at(url, extension_x="y"), "admin")["oauth_cb"]
        began = time()
        token, expires, user, extensions = tokens("")
        assert (token, user, extensions) == ("abc", "", {"x": "y"})
        assert 0 <= expires - began - 300 < TIMEOUT
        assert tokens("")[:2] == ("abc", pytest.approx(expires, abs=5)) and len(asked) == 1


def test_the_end_of_a_token_is_that_of_its_claim() -> None:
    """Where the response has no ``expires_in``."""
    with endpoint(says(f'{{"access_token": "{unsigned_token("me", "", 5000)}"}}')) as (url, _):
        assert 5000 - TIMEOUT < provider(url)("")[1] - time() <= 5000


@pytest.mark.parametrize("token", ["a", "a.b.c", "a.bnVsbA.c", "a.eyJleHAiOiJ4In0.c"])
def test_a_token_without_a_claim_lives_for_five_minutes(token: str) -> None:
    with endpoint(says(f'{{"access_token": "{token}"}}')) as (url, _):
        assert 300 - TIMEOUT < provider(url)("")[1] - time() <= 300


@pytest.mark.parametrize(
    "url",
    ["file:///etc/passwd", "https://me:hunter2@idp/token", "https://", "http://a b", "http://a:x"],
)
def test_an_endpoint_is_a_plain_http_url(url: str) -> None:
    with pytest.raises(ConfigError, match="without user and password") as caught:
        librdkafka(at(url), "admin")
    assert SECRET not in str(caught.value)


def test_the_query_of_an_endpoint_is_not_shown() -> None:
    with pytest.raises(
        ConnectionFailed, match=r"no token from http://127.0.0.1:1/token:"
    ) as caught:
        provider("http://127.0.0.1:1/token?key=abc123").token()
    assert "abc123" not in str(caught.value)


def test_an_executor_without_the_http_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is loaded for the first token, and docs/spark-cluster.md says who needs it."""
    monkeypatch.delitem(sys.modules, "k2ktui.http_client", raising=False)
    monkeypatch.setitem(sys.modules, "httpcore2", None)
    with pytest.raises(ConnectionFailed, match="the package httpcore2 is not installed"):
        provider("http://127.0.0.1:1/token").token()
