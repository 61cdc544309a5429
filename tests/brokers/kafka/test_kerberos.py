"""Kerberos: clear errors where a library is missing, and logins where a KDC and both are there."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from k2ktui.config.clusters import ClusterConfig, KafkaClients
from k2ktui.errors import ConfigError, ConnectionFailed
from k2ktui.kafka.auth import kerberos
from k2ktui.kafka.properties.translation import findings, librdkafka, wire
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters import cluster_ids
from tests.support.clusters.cluster_ids import both_libraries
from tests.support.clusters.kafka import START_S
from tests.support.clusters.kerberos import REALM, Realm, missing_programs, running_realm

Properties = dict[str, str]
MODULE = "com.sun.security.auth.module.Krb5LoginModule required"
LOGIN = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "GSSAPI",
    "sasl.kerberos.service.name": "kafka",
}


def cluster(properties: Properties, servers: str = "localhost:1") -> ClusterConfig:
    return ClusterConfig(kafka=KafkaClients(common={"bootstrap.servers": servers, **properties}))


def refusals(properties: Properties) -> list[str]:
    return [str(finding) for finding in findings(cluster(properties)) if finding.refused]


@pytest.fixture
def able(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if both client libraries had Kerberos."""
    module = ModuleType("gssapi")
    module.__spec__ = ModuleSpec("gssapi", None)
    monkeypatch.setitem(sys.modules, "gssapi", module)
    monkeypatch.setattr(kerberos, "librdkafka_has_kerberos", lambda: True)


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    # What was read with the package stays: no other test has these properties.
    login = {**LOGIN, "sasl.kerberos.service.name": "without"}
    for settings_of in (librdkafka, wire):
        with pytest.raises(ConfigError, match=r"pip install '\.\[kerberos\]'"):
            settings_of(cluster(login), "admin")
    # Without a mechanism, a Java client uses Kerberos.
    assert len(refusals({"security.protocol": "SASL_SSL"})) == 1


@pytest.mark.usefixtures("able")
def test_without_a_librdkafka_that_can(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kerberos, "librdkafka_has_kerberos", lambda: False)
    (refusal,) = refusals(LOGIN)
    assert "this confluent-kafka has no Kerberos" in refusal and "--no-binary" in refusal


@pytest.mark.usefixtures("able")
def test_both_libraries_get_the_service() -> None:
    by_option = {key: LOGIN[key] for key in ("security.protocol", "sasl.mechanism")}
    line = f'{MODULE} useTicketCache=true doNotPrompt=true serviceName="kafka";'
    for properties in (LOGIN, by_option | {"sasl.jaas.config": line}):
        config = cluster(properties)
        assert findings(config) == []
        assert librdkafka(config, "admin")["sasl.kerberos.service.name"] == "kafka"
        assert librdkafka(config, "admin")["sasl.mechanism"] == "GSSAPI"
        assert wire(config, "admin")["sasl_kerberos_service_name"] == "kafka"


@pytest.mark.usefixtures("able")
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"sasl.kerberos.service.name": ""}, "missing; GSSAPI needs it"),
        ({"sasl.jaas.config": f'{MODULE} useKeyTab=true keyTab="/k";'}, "keyTab, useKeyTab not"),
        ({"sasl.jaas.config": f'{MODULE} principal="a@B";'}, "KRB5_CLIENT_KTNAME"),
        ({"sasl.jaas.config": "x.PlainLoginModule required;"}, "expected Krb5LoginModule"),
    ],
)
def test_refusals(change: Properties, words: str) -> None:
    (refusal,) = refusals(LOGIN | change)
    assert words in refusal


@dataclass(frozen=True)
class Kerberized:
    """A broker with Kerberos, and the keytab of a client."""

    realm: Realm
    node: KafkaNode
    client: Path

    @property
    def config(self) -> ClusterConfig:
        return cluster(LOGIN, self.node.address("SASL"))


@pytest.fixture(scope="module")
def kerberized(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kerberized]:
    if missing_programs():
        pytest.skip(f"no KDC here: {', '.join(missing_programs())} not found (Debian: krb5-kdc)")
    if find_spec("gssapi") is None or not kerberos.librdkafka_has_kerberos():
        pytest.skip("a client library has no Kerberos")
    directory = tmp_path_factory.mktemp("kerberos")
    with running_realm(directory / "realm") as realm:
        broker = realm.keytab("kafka/127.0.0.1")
        client = realm.keytab("k2ktui")
        prefix = "listener.name.sasl"
        line = f'{MODULE} useKeyTab=true storeKey=true keyTab="{broker}" '
        properties = {
            f"{prefix}.sasl.enabled.mechanisms": "GSSAPI",
            f"{prefix}.gssapi.sasl.jaas.config": f'{line}principal="kafka/127.0.0.1@{REALM}";',
            f"{prefix}.sasl.kerberos.service.name": "kafka",
        }
        made = KafkaNode(
            "kerberos",
            directory / "node",
            properties,
            listeners={"SASL": "SASL_PLAINTEXT"},
            jvm=(f"-Djava.security.krb5.conf={realm.config}",),
        )
        with made.start(START_S) as node:
            yield Kerberized(realm, node, client)


@pytest.fixture
def account(kerberized: Kerberized, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Kerberized:
    """An account with a keytab and without tickets."""
    monkeypatch.setenv("KRB5_CONFIG", str(kerberized.realm.config))
    monkeypatch.setenv("KRB5_CLIENT_KTNAME", f"FILE:{kerberized.client}")
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path / 'tickets'}")
    return kerberized


@pytest.mark.slow
@both_libraries
def test_login_with_a_keytab(account: Kerberized, ask: Any) -> None:
    assert ask(account.config) == account.node.cluster_id


@pytest.mark.slow
@both_libraries
def test_no_ticket(account: Kerberized, ask: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KRB5_CLIENT_KTNAME")
    # It tries for so long, and says what it met last: by then it must have met the broker.
    monkeypatch.setattr(cluster_ids, "TIMEOUT", 10)
    with pytest.raises(ConnectionFailed, match="No Kerberos credentials available"):
        ask(account.config)
