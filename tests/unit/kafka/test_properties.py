from __future__ import annotations

import pickle
import ssl
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from kafka.net.manager import KafkaConnectionManager

from k2ktui.config.clusters import ClusterConfig, KafkaClients, Role
from k2ktui.errors import ConfigError
from k2ktui.kafka.properties.renewal import ROLES
from k2ktui.kafka.properties.table import ALL, JAVA_FOR_LIBRDKAFKA, RULES
from k2ktui.kafka.properties.translation import findings, librdkafka, load_checked, wire
from tests.support.clusters.tls import make_leaf, make_root
from tests.unit.config.files import MINIMAL

SERVERS = {"bootstrap.servers": "localhost:1"}
MODULES = "org.apache.kafka.common.security"
JAAS = {
    "PLAIN": f'{MODULES}.plain.PlainLoginModule required username="a" password="hunter2";',
    "SCRAM": f'{MODULES}.scram.ScramLoginModule required username="a" password="hunter2";',
    "OAUTH": f"{MODULES}.oauthbearer.OAuthBearerLoginModule required "
    'clientId="id" clientSecret="hunter2" scope="s" extension_x="y";',
}
CLIENTS: dict[Role, Any] = {"consumer": Consumer, "producer": Producer, "admin": AdminClient}


def cluster(common: dict[str, str] | None = None, **sections: dict[str, str]) -> ClusterConfig:
    clients = {"common": SERVERS | (common or {}), **sections}
    return ClusterConfig(kafka=KafkaClients.model_validate(clients))


def refusals(common: dict[str, str], **sections: dict[str, str]) -> list[str]:
    return [str(finding) for finding in findings(cluster(common, **sections)) if finding.refused]


# A value of each property that Java accepts and librdkafka has its own limits or words for.
JAVA_VALUES = {
    "acks": "all",
    "allow.auto.create.topics": "false",
    "auto.offset.reset": "none",
    "buffer.memory": "33554432",
    "check.crcs": "true",
    "client.dns.lookup": "default",
    "compression.type": "zstd",
    "enable.auto.commit": "false",
    "enable.idempotence": "true",
    "enable.metrics.push": "true",
    "fetch.max.bytes": "2147483647",
    "isolation.level": "read_committed",
    "max.in.flight.requests.per.connection": "5",
    "max.poll.interval.ms": "2147483647",
    "metadata.recovery.strategy": "rebootstrap",
    "receive.buffer.bytes": "-1",
    "request.timeout.ms": "2147483647",
    "connections.max.idle.ms": "-1",
    "session.timeout.ms": "45000",
    "heartbeat.interval.ms": "3000",
    "reconnect.backoff.max.ms": "1000",
    "retry.backoff.max.ms": "1000",
    "max.request.size": "1048576",
    "transaction.timeout.ms": "60000",
    "metadata.max.age.ms": "300000",
}


@pytest.mark.parametrize("role", ROLES)
def test_librdkafka_takes_every_property_that_is_passed_on(role: Role) -> None:
    rules = {key: rule for key, rule in RULES[role].items() if rule.librdkafka}
    for key, rule in rules.items():
        own = JAVA_VALUES.get(key, "10" if rule.bounds else "x")
        own = SERVERS["bootstrap.servers"] if key == "bootstrap.servers" else own
        settings = librdkafka(cluster(**{role: {key: own}}), role)
        assert rule.librdkafka in settings
        if role == "consumer":
            settings.setdefault("group.id", "g")
        CLIENTS[role]({**settings, "log_level": 0})


@pytest.mark.parametrize("role", ROLES)
def test_the_wire_layer_knows_every_keyword(role: Role) -> None:
    words = {rule.wire for rule in RULES[role].values() if rule.wire}
    assert words <= KafkaConnectionManager.DEFAULT_CONFIG.keys()


def test_numbers_are_brought_into_librdkafkas_bounds() -> None:
    settings = librdkafka(
        cluster({"request.timeout.ms": "2147483647", "receive.buffer.bytes": "-1"}), "consumer"
    )
    assert settings["socket.timeout.ms"] == "300000"
    assert settings["socket.receive.buffer.bytes"] == "0"
    assert wire(cluster({"request.timeout.ms": "1000"}), "admin")["request_timeout_ms"] == 1000


def test_roles_inherit_and_override_common() -> None:
    config = cluster({"client.id": "c", "delivery.timeout.ms": "5"}, producer={"client.id": "p"})
    assert librdkafka(config, "producer")["client.id"] == "p"
    assert librdkafka(config, "producer")["delivery.timeout.ms"] == "5"
    assert librdkafka(config, "consumer")["client.id"] == "c"
    assert "delivery.timeout.ms" not in librdkafka(config, "consumer")
    assert findings(config) == []


def test_unknown_properties_name_the_nearest() -> None:
    assert refusals({"max.pol.records": "5", "sasl.username": "hunter2", "zzz": "1"}) == [
        'common."max.pol.records": unknown property; did you mean max.poll.records?',
        'common."sasl.username": unknown property; that is librdkafka\'s name; '
        "use sasl.jaas.config",
        'common."zzz": unknown property; no Kafka client has a similar property',
    ]


def test_librdkafkas_names_lead_to_javas() -> None:
    assert set(JAVA_FOR_LIBRDKAFKA.values()) <= ALL.keys()
    assert not JAVA_FOR_LIBRDKAFKA.keys() & ALL.keys()


def test_what_has_no_effect_is_reported_with_the_reason() -> None:
    config = cluster(
        consumer={
            "max.poll.records": "5",
            "key.deserializer": "org.apache.kafka.common.serialization.ByteArrayDeserializer",
            "value.deserializer": "org.apache.kafka.common.serialization.StringDeserializer",
            "acks": "all",
            "enable.auto.commit": "false",
            "isolation.level": "read_uncommitted",
            "interceptor.classes": "",
        }
    )
    assert not any(finding.refused for finding in findings(config))
    assert [str(finding) for finding in findings(config)] == [
        'consumer."max.poll.records": has no effect: the client library has no such setting',
        'consumer."value.deserializer": has no effect: records are copied as bytes',
        'consumer."acks": Java\'s consumer has no such property',
        'consumer."isolation.level": has no effect: k2ktui never copies records of aborted or '
        "open transactions",
    ]


@pytest.mark.parametrize(
    ("role", "key", "value"),
    [
        ("consumer", "group.id", "g"),
        ("consumer", "enable.auto.commit", "true"),
        ("consumer", "session.timeout.ms", "45000"),
        ("producer", "acks", "1"),
        ("producer", "enable.idempotence", "false"),
        ("producer", "batch.size", "5"),
        ("producer", "linger.ms", "5"),
        ("producer", "retries", "5"),
        ("producer", "max.in.flight.requests.per.connection", "5"),
        ("consumer", "key.deserializer", "com.example.AvroDeserializer"),
        ("consumer", "value.deserializer", "com.example.AvroDeserializer"),
        ("producer", "key.serializer", "com.example.AvroSerializer"),
        ("producer", "value.serializer", "com.example.AvroSerializer"),
    ],
)
def test_what_copying_decides_itself_is_reported(role: str, key: str, value: str) -> None:
    (finding,) = findings(cluster(**{role: {key: value}}))
    assert not finding.refused
    assert str(finding).startswith(f'{role}."{key}": has no effect: ')


@pytest.mark.parametrize(
    ("properties", "word"),
    [
        ({"interceptor.classes": "com.example.X"}, "Java class"),
        ({"sasl.login.callback.handler.class": "com.example.X"}, "Java class"),
        ({"security.protocol": "TLS"}, "PLAINTEXT, SSL"),
        ({"fetch.min.bytes": "many"}, "whole number"),
        ({"isolation.level": "snapshot"}, "read_committed, read_uncommitted"),
        ({"acks": "2"}, "all, -1, 0, 1"),
        ({"enable.idempotence": "maybe"}, "true, false"),
        ({"compression.type": "brotli"}, "none, gzip, snappy, lz4, zstd"),
        ({"security.protocol": "SASL_SSL"}, "Kerberos"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "DIGEST-MD5"}, "not supported"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}, "missing; PLAIN needs it"),
        (
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": JAAS["SCRAM"],
            },
            "expected PlainLoginModule",
        ),
        (
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": JAAS["PLAIN"].replace('username="a"', ""),
            },
            "no username",
        ),
        (
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.jaas.config": JAAS["OAUTH"],
            },
            "URL of the token endpoint",
        ),
        ({"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "ldap"}, "https"),
        ({"security.protocol": "SSL", "ssl.truststore.location": "/none"}, "No such file"),
    ],
)
def test_refusals(properties: dict[str, str], word: str) -> None:
    refused = refusals(properties)
    assert len(refused) == 1 and word in refused[0]
    with pytest.raises(ConfigError) as caught:
        librdkafka(cluster(properties), "consumer")
    assert "hunter2" not in str(caught.value) + repr(caught.value)


def test_all_refusals_are_reported_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        wire(cluster({"a": "1", "b": "1", "security.protocol": "x"}), "consumer")
    assert len(caught.value.message.splitlines()) == 4


def test_missing_bootstrap_servers() -> None:
    config = ClusterConfig(kafka=KafkaClients(consumer=SERVERS))
    assert librdkafka(config, "consumer")["bootstrap.servers"] == "localhost:1"
    with pytest.raises(ConfigError, match="the admin needs it"):
        librdkafka(config, "admin")


def test_empty_bootstrap_servers_count_as_missing() -> None:
    """An empty list hides no other one, and no client gets it."""
    common: dict[str, str] = {"bootstrap.servers": " "}
    clients = KafkaClients(common=common, admin=SERVERS)
    config = ClusterConfig(kafka=clients)
    assert config.bootstrap_servers == "localhost:1"
    assert librdkafka(config, "admin")["bootstrap.servers"] == "localhost:1"
    assert "bootstrap.servers" not in config.properties("consumer")
    for settings_of in (librdkafka, wire):
        with pytest.raises(ConfigError, match="missing; the consumer needs it"):
            settings_of(config, "consumer")
    clients = KafkaClients(common=SERVERS, consumer={"bootstrap.servers": ""})
    config = ClusterConfig(kafka=clients)
    assert librdkafka(config, "consumer")["bootstrap.servers"] == "localhost:1"


def test_passwords() -> None:
    config = cluster(
        {
            "security.protocol": "sasl_plaintext",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": JAAS["SCRAM"].replace('"a"', '"a=,b"'),
        }
    )
    client = librdkafka(config, "consumer")
    assert (client["sasl.username"], client["sasl.password"]) == ("a=,b", "hunter2")
    assert client["security.protocol"] == "SASL_PLAINTEXT"
    # RFC 5802 escapes, which kafka-python leaves to its caller.
    assert wire(config, "consumer")["sasl_plain_username"] == "a=3D=2Cb"


def test_oauth_settings() -> None:
    endpoint = "https://localhost/token"
    common = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": endpoint,
    }
    handler = f"{MODULES}.oauthbearer.secured.OAuthBearerLoginCallbackHandler"
    by_line = common | {
        "sasl.jaas.config": JAAS["OAUTH"],
        "sasl.login.callback.handler.class": handler,
    }
    by_property = common | {
        "sasl.oauthbearer.client.credentials.client.id": "id",
        "sasl.oauthbearer.client.credentials.client.secret": "hunter2",
        "sasl.oauthbearer.scope": "s",
    }
    for properties in (by_line, by_property):
        provider = librdkafka(cluster(properties), "admin")["oauth_cb"]
        client = provider.client
        assert (client.endpoint, client.client_id, client.scope) == (endpoint, "id", "s")
        assert client.secret == "hunter2" and "hunter2" not in repr(client) + repr(provider)
        assert wire(cluster(properties), "admin")["sasl_oauth_token_provider"].client == client
    assert librdkafka(cluster(by_line), "admin")["oauth_cb"].extensions() == {"x": "y"}


def test_wire_options_travel_without_their_files(tmp_path: Path) -> None:
    root = make_root()
    store = make_leaf(root, "client").pem_file(tmp_path / "me.pem")
    options = wire(
        cluster(
            {
                "security.protocol": "SSL",
                "ssl.truststore.certificates": root.certificates_pem,
                "ssl.keystore.location": str(store),
            }
        ),
        "consumer",
    )
    store.unlink()
    context = pickle.loads(pickle.dumps(options))["ssl_context"]
    assert isinstance(context, ssl.SSLContext)
    assert context.check_hostname and context.verify_mode == ssl.CERT_REQUIRED
    assert context.get_ca_certs()[0]["subject"] == ((("commonName", "root"),),)
    assert "PRIVATE" not in repr(options)


def test_load_checked_names_the_place(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(MINIMAL + "groups: {colour: green}\n", encoding="utf-8")
    over = tmp_path / "over.yaml"
    over.write_text(
        "target:\n  kafka:\n    producer:\n      ack: all\n      max.block.ms: 5\n",
        encoding="utf-8",
    )
    with pytest.raises(ConfigError) as caught:
        load_checked([path, over])
    assert "p.yaml:5: groups.colour: unknown key" in caught.value.message
    assert "over.yaml:4: target.kafka.producer.ack: unknown property" in caught.value.message


def test_load_checked_notes_what_has_no_effect(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(MINIMAL.replace('"t:1"', '"t:1", max.block.ms: 5'), encoding="utf-8")
    (note,) = load_checked([path]).notes
    assert note.endswith(
        'p.yaml:3: target.kafka.common."max.block.ms": '
        "has no effect: the client library has no such setting"
    )
