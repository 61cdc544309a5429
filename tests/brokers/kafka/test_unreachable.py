"""A refused login is distinguished from a cluster that does not answer, in its own words."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from k2ktui.config.clusters import ClusterConfig, KafkaClients
from k2ktui.errors import ConnectionFailed, K2kError
from k2ktui.kafka import clients
from k2ktui.kafka.clients import Cluster
from k2ktui.kafka.properties.translation import wire
from k2ktui.kafka.wire.cluster import Loop, Wire
from tests.support.clusters.secure import MECHANISMS, SecureNode, make_authority

pytestmark = pytest.mark.slow

PASSWORD, WRONG = "ann-3cr3t", "hunter2"
# Longer than the suite lets a test run: what waits for a time-out does not pass.
PATIENCE = 3600.0
Properties = dict[str, str]
Ask = Callable[[ClusterConfig], object]


def login(secure: SecureNode, password: str, mechanism: str = "SCRAM-SHA-512") -> Properties:
    module = "plain.Plain" if mechanism == "PLAIN" else "scram.Scram"
    line = f'org.apache.kafka.common.security.{module}LoginModule required username="ann"'
    return {
        "bootstrap.servers": secure.bootstrap,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'{line} password="{password}";',
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(secure.authority.ca_path),
    }


def by_wire(config: ClusterConfig) -> object:
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
    loop = Loop()
    connection = Wire(loop, wire(config, "admin"), "source")
    try:
        return loop.run(lambda: connection.open(clients.REQUEST_TIMEOUT_S))
    finally:
        connection.close()
        loop.close()


def by_metadata(config: ClusterConfig) -> object:
    return Cluster(config, "source").topic_names()


def by_admin_call(config: ClusterConfig) -> object:
    return Cluster(config, "source").describe(["topic"])


@pytest.fixture
def endless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let calls wait for an answer for an hour, and ask as shortly as before for a refusal."""
    monkeypatch.setattr(clients, "_METADATA_S", (*[0.7] * 500, PATIENCE))
    monkeypatch.setattr(clients, "REQUEST_TIMEOUT_S", PATIENCE)


ways = pytest.mark.parametrize("ask", [by_wire, by_metadata, by_admin_call])


def failure(ask: Ask, properties: Properties) -> K2kError:
    with pytest.raises(K2kError) as caught:
        ask(ClusterConfig(kafka=KafkaClients(common=properties)))
    assert WRONG not in str(caught.value) and PASSWORD not in str(caught.value)
    return caught.value


@ways
@pytest.mark.usefixtures("endless")
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_password(secure: SecureNode, ask: Ask, mechanism: str) -> None:
    """It is known without a time-out."""
    error = failure(ask, login(secure, WRONG, mechanism))
    assert isinstance(error, ConnectionFailed)
    assert "the source cluster rejected the login: " in error.message
    assert "Authentication failed" in error.message
    assert "sasl.jaas.config" in error.hint and "source.kafka" in error.hint


@ways
@pytest.mark.usefixtures("endless")
def test_a_certificate_that_is_not_trusted(secure: SecureNode, ask: Ask, tmp_path: Path) -> None:
    """It is known without a time-out."""
    stranger = {"ssl.truststore.location": str(make_authority(tmp_path).ca_path)}
    error = failure(ask, login(secure, PASSWORD) | stranger)
    assert isinstance(error, ConnectionFailed)
    assert "the source cluster's certificate is not trusted: " in error.message
    assert "certificate verify failed" in error.message
    assert "ssl.truststore" in error.hint


@pytest.mark.parametrize("ask", [by_wire, by_metadata])
def test_no_tls_where_tls_is_expected(secure: SecureNode, ask: Ask) -> None:
    """It is known when the time is over: a connection that ends may begin again."""
    error = failure(ask, {"bootstrap.servers": secure.bootstrap})
    assert isinstance(error, ConnectionFailed)
    assert "security.protocol" in error.hint


@ways
@pytest.mark.usefixtures("endless")
def test_the_right_password(secure: SecureNode, ask: Ask) -> None:
    ask(ClusterConfig(kafka=KafkaClients(common=login(secure, PASSWORD))))
