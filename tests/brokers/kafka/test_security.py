"""Every login and every kind of store, through both client libraries, on a real broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from k2ktui.config.clusters import ClusterConfig, KafkaClients
from k2ktui.errors import ConnectionFailed
from k2ktui.kafka.auth import oauth
from k2ktui.kafka.auth.oauth import OauthClient, TokenProvider, check_token
from k2ktui.kafka.properties.translation import librdkafka
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters import cluster_ids
from tests.support.clusters.kafka import START_S, TIMEOUT
from tests.support.clusters.secure import create_scram_users
from tests.support.clusters.tls import Holder, make_intermediate, make_leaf, make_root, trust_pkcs12
from tests.support.clusters.tokens import Clock, TokenEndpoint, errors_until

pytestmark = pytest.mark.slow  # a cluster of its own

MODULES = "org.apache.kafka.common.security"
# A name and a password with all that needs care in JAAS lines, SCRAM and property files.
USER, PASSWORD = "ann=a,b", "p w\"d'\\;=ü"
SECRET = "client-secret"
STORE_PASSWORD = "changeit"
Properties = dict[str, str]


def quoted(text: str) -> str:
    """Quote a value for a login line."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


@dataclass(frozen=True)
class Secured:
    """A broker with listeners SASL (SASL_SSL), MUTUAL (SSL, client certificate), OTHER (SSL with
    a certificate for another host)."""

    node: KafkaNode
    root: Holder
    client: Holder
    tokens: TokenEndpoint
    directory: Path

    @property
    def trust(self) -> Properties:
        """Trust in the broker's certificate."""
        return {
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": self.root.certificates_pem,
        }

    def sasl(self, mechanism: str, module: str, password: str = PASSWORD) -> Properties:
        line = f'{MODULES}.{module} required username="{USER}" password={quoted(password)};'
        return self._sasl(mechanism, line)

    def oauth(self, secret: str = SECRET) -> Properties:
        """As Java wants it, the endpoint's trust in the login line."""
        store = self.directory / "endpoint-trust.pem"
        store.write_text(self.root.certificates_pem)
        line = (
            f"{MODULES}.oauthbearer.OAuthBearerLoginModule required clientId='replicator' "
            f"clientSecret='{secret}' scope='kafka' ssl.truststore.location='{store}';"
        )
        endpoint = {"sasl.oauthbearer.token.endpoint.url": self.tokens.url}
        return self._sasl("OAUTHBEARER", line) | endpoint

    def _sasl(self, mechanism: str, line: str) -> Properties:
        return {
            **self.trust,
            "bootstrap.servers": self.node.address("SASL"),
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": line,
        }

    def ssl(self, listener: str = "MUTUAL", **identity: str) -> Properties:
        address = {"bootstrap.servers": self.node.address(listener)}
        names = {key.replace("_", "."): text for key, text in identity.items()}
        return {**address, "security.protocol": "SSL", **self.trust, **names}


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    directory = tmp_path_factory.mktemp("security")
    root = make_root()
    server = make_leaf(root, "broker", "localhost", "127.0.0.1").pem_file(directory / "broker.pem")
    other = make_leaf(root, "other", "elsewhere.invalid").pem_file(directory / "other.pem")
    client = make_leaf(make_intermediate(root), "client")
    trust = directory / "root.pem"
    trust.write_text(root.certificates_pem)
    properties = {
        **_listener("sasl", server),
        **_mechanisms(),
        **_listener("mutual", server),
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.mutual.ssl.truststore.type": "PEM",
        "listener.name.mutual.ssl.truststore.location": str(trust),
        **_listener("other", other),
    }
    listeners = {"SASL": "SASL_SSL", "MUTUAL": "SSL", "OTHER": "SSL"}
    made = KafkaNode("secured", directory / "node", properties, listeners=listeners)
    with (
        TokenEndpoint(server, "replicator", SECRET) as tokens,
        made.start(START_S) as node,
    ):
        create_scram_users(node, {USER: PASSWORD})
        yield Secured(node, root, client, tokens, directory)


def _listener(name: str, store: Path) -> Properties:
    prefix = f"listener.name.{name}.ssl.keystore"
    return {f"{prefix}.type": "PEM", f"{prefix}.location": str(store)}


def _mechanisms() -> Properties:
    prefix = "listener.name.sasl"
    plain = f'{MODULES}.plain.PlainLoginModule required "user_{USER}"={quoted(PASSWORD)};'
    scram = f"{MODULES}.scram.ScramLoginModule required;"
    oauth = f"{MODULES}.oauthbearer.OAuthBearerLoginModule required;"
    return {
        f"{prefix}.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        f"{prefix}.plain.sasl.jaas.config": plain,
        f"{prefix}.scram-sha-256.sasl.jaas.config": scram,
        f"{prefix}.scram-sha-512.sasl.jaas.config": scram,
        f"{prefix}.oauthbearer.sasl.jaas.config": oauth,
        # Sessions last as long as their tokens, and at most a minute.
        f"{prefix}.oauthbearer.connections.max.reauth.ms": "60000",
    }


def config(properties: Properties) -> ClusterConfig:
    return ClusterConfig(kafka=KafkaClients(common=properties))


def by_librdkafka(properties: Properties, timeout: float) -> str:
    """Return the cluster's id, asked through confluent-kafka."""
    settings = librdkafka(config(properties), "admin")
    check_token(settings)
    return str(AdminClient({**settings, "log_level": 0}).list_topics(timeout=timeout).cluster_id)


def by_wire(properties: Properties, timeout: float) -> str:
    """Return the cluster's id, asked through kafka-python's wire layer."""
    return cluster_ids.by_wire(config(properties), timeout)


Ask = Callable[[Properties, float], str]
libraries = pytest.mark.parametrize("ask", [by_librdkafka, by_wire])
REFUSED = (KafkaException, ConnectionFailed)
PLAIN = ("PLAIN", "plain.PlainLoginModule")
MECHANISMS = [
    PLAIN,
    ("SCRAM-SHA-256", "scram.ScramLoginModule"),
    ("SCRAM-SHA-512", "scram.ScramLoginModule"),
]


@libraries
@pytest.mark.parametrize(("mechanism", "module"), MECHANISMS)
def test_passwords(secured: Secured, ask: Ask, mechanism: str, module: str) -> None:
    properties = secured.sasl(mechanism, module)
    assert ask(properties, TIMEOUT) == secured.node.cluster_id


@libraries
@pytest.mark.parametrize(("mechanism", "module"), MECHANISMS)
def test_wrong_passwords(secured: Secured, ask: Ask, mechanism: str, module: str) -> None:
    with pytest.raises(REFUSED) as caught:
        ask(secured.sasl(mechanism, module, "hunter2"), 2)
    assert "hunter2" not in str(caught.value)


@libraries
def test_client_credentials(secured: Secured, ask: Ask) -> None:
    before = len(secured.tokens.requests)
    assert ask(secured.oauth(), TIMEOUT) == secured.node.cluster_id
    (request,) = secured.tokens.requests[before:]
    assert request == {"grant_type": "client_credentials", "scope": "kafka"}


def test_librdkafka_renews_a_token_of_an_endpoint(secured: Secured) -> None:
    """No session ends, as it would without renewal.

    On a busy machine, a renewal may come too late for a short token: a longer one is tried then.
    """
    asked = secured.tokens.requests
    settings = librdkafka(config(secured.oauth()), "producer")
    errors: list[object] = []
    try:
        for secured.tokens.life in (5, 15, 45):
            enough = len(asked) + 3
            errors = errors_until(settings, lambda enough=enough: len(asked) >= enough)  # type: ignore[misc]
            if not errors:
                break
    finally:
        secured.tokens.life = 300
    assert errors == []


@libraries
def test_wrong_client_credentials(secured: Secured, ask: Ask) -> None:
    with pytest.raises(REFUSED) as caught:
        ask(secured.oauth("hunter2"), 2)
    assert "hunter2" not in str(caught.value)


def identities(secured: Secured) -> dict[str, Properties]:
    """Return every way to give a client certificate; its issuer's must be sent along."""
    client, directory = secured.client, secured.directory
    p12 = client.pkcs12(directory / "client.p12", STORE_PASSWORD)
    pem = client.pem_file(directory / "client.pem")
    return {
        "inline": {
            "ssl_keystore_certificate_chain": client.certificates_pem,
            "ssl_keystore_key": client.key_pem(),
        },
        "encrypted": {
            "ssl_keystore_certificate_chain": client.certificates_pem,
            "ssl_keystore_key": client.key_pem("key-password"),
            "ssl_key_password": "key-password",
        },
        "file": {"ssl_keystore_type": "PEM", "ssl_keystore_location": str(pem)},
        "pkcs12": {
            "ssl_keystore_type": "PKCS12",
            "ssl_keystore_location": str(p12),
            "ssl_keystore_password": STORE_PASSWORD,
        },
    }


@libraries
@pytest.mark.parametrize("kind", ["inline", "encrypted", "file", "pkcs12"])
def test_mutual_tls(secured: Secured, ask: Ask, kind: str) -> None:
    properties = secured.ssl(**identities(secured)[kind])
    assert ask(properties, TIMEOUT) == secured.node.cluster_id


@libraries
def test_mutual_tls_without_a_certificate(secured: Secured, ask: Ask) -> None:
    with pytest.raises(REFUSED):
        ask(secured.ssl(), 2)


@libraries
def test_trust_in_pkcs12(secured: Secured, ask: Ask) -> None:
    store = trust_pkcs12(secured.root.certificate, secured.directory / "trust.p12", STORE_PASSWORD)
    properties = secured.sasl(*PLAIN)
    del properties["ssl.truststore.certificates"]
    properties |= {
        "ssl.truststore.type": "PKCS12",
        "ssl.truststore.location": str(store),
        "ssl.truststore.password": STORE_PASSWORD,
    }
    assert ask(properties, TIMEOUT) == secured.node.cluster_id


@libraries
def test_an_unknown_issuer_is_refused(secured: Secured, ask: Ask) -> None:
    stranger = {"ssl.truststore.certificates": make_root("stranger").certificates_pem}
    with pytest.raises(REFUSED):
        ask(secured.sasl(*PLAIN) | stranger, 2)


@libraries
def test_the_hosts_name_is_checked_unless_configured_otherwise(secured: Secured, ask: Ask) -> None:
    properties = secured.ssl("OTHER")
    with pytest.raises(REFUSED):
        ask(properties, 2)
    unchecked = {"ssl.endpoint.identification.algorithm": ""}
    assert ask(properties | unchecked, TIMEOUT) == secured.node.cluster_id


def test_a_token_is_used_until_most_of_its_life_is_over(
    secured: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(oauth, "time", clock)
    trust = secured.root.certificates_pem
    server = secured.directory / "broker.pem"
    with TokenEndpoint(server, "id", "s", life=100) as endpoint:
        provider = TokenProvider(OauthClient(endpoint.url, "id", "s", trust=trust))
        first = provider.token()
        clock.now += 79
        assert provider.token() == first
        clock.now += 2
        assert len(endpoint.requests) == 1
        provider.token()
        assert len(endpoint.requests) == 2


def test_a_token_endpoint_that_is_not_there(secured: Secured) -> None:
    provider = TokenProvider(OauthClient("http://127.0.0.1:1/token", "id", "hunter2"))
    with pytest.raises(ConnectionFailed, match="no token from") as caught:
        provider.token()
    assert "hunter2" not in str(caught.value)
