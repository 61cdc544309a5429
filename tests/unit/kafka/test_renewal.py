"""Logins and certificates are read again while a process runs, if they can be used."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest

from k2ktui.config import load
from k2ktui.config.clusters import ClusterConfig, KafkaClients, is_security_value
from k2ktui.kafka.auth.alerts import refused_certificate, refused_certificate_code, untrusted_code
from k2ktui.kafka.auth.logins import RENEWAL, RETRY_S, RefusedLogins, login_of, newest
from k2ktui.kafka.properties.renewal import Credentials, credentials_of, listening
from k2ktui.kafka.properties.translation import wire
from k2ktui.mm2.mirror_flow import load_mirror
from k2ktui.registry.settings import read_registry_settings
from k2ktui.secret_values import hide_secrets
from tests.support.clusters.tls import make_leaf, make_root

MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
LOGIN = f'{MODULE} required username="ann" password="%s";'


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 2.0  # each look is due
        return self.now


@pytest.fixture
def notes() -> Iterator[list[str]]:
    texts: list[str] = []
    with listening(texts.append):
        yield texts


def pipeline(directory: Path, password: str, more: str = "") -> ClusterConfig:
    write(directory, password, more)
    return load([directory / "pipeline.yaml"], env={"WORD": "from-env"}).config.source


def write(directory: Path, password: str, more: str = "") -> None:
    text = f"""\
name: p
source:
  kafka:
    common:
      bootstrap.servers: "s:1"
      security.protocol: SASL_PLAINTEXT
      sasl.mechanism: SCRAM-SHA-512
      sasl.jaas.config: '{LOGIN % password}'
{more}
target: {{kafka: {{common: {{bootstrap.servers: "t:1"}}}}}}
replication: [{{source: {{topic: ".*"}}}}, {{sink: {{topic: source}}}}]
"""
    (directory / "pipeline.yaml").write_text(text)


def password_of(credentials: Credentials) -> str:
    security = credentials.security("consumer")
    assert security is not None and security.login is not None
    return security.login.password


def test_a_password_in_a_file_that_a_template_names(tmp_path: Path, notes: list[str]) -> None:
    secret = tmp_path / "password"
    secret.write_text("first-3cr3t\n")
    known = Credentials(pipeline(tmp_path, "${file:password}"), Clock())
    assert (password_of(known), known.generation) == ("first-3cr3t", 0)
    secret.write_text("second-3cr3t\n")
    assert (password_of(known), known.generation) == ("second-3cr3t", 1)
    assert notes == ["source cluster: passwords and certificates were read again and are used now"]
    assert "second-3cr3t" not in hide_secrets("second-3cr3t"), "it is a secret from now on"


def test_a_password_in_the_file_of_a_config_provider(tmp_path: Path) -> None:
    (tmp_path / "login.properties").write_text("password = first-3cr3t\n")
    more = """\
      config.providers: file
      config.providers.file.class: org.apache.kafka.common.config.provider.FileConfigProvider"""
    text = "${file:%s:password}" % (tmp_path / "login.properties")
    known = Credentials(pipeline(tmp_path, text, more), Clock())
    assert password_of(known) == "first-3cr3t"
    (tmp_path / "login.properties").write_text("password = second-3cr3t\n")
    assert password_of(known) == "second-3cr3t"


def test_a_password_in_the_pipeline_file_is_taken_and_nothing_else(
    tmp_path: Path, notes: list[str]
) -> None:
    known = Credentials(pipeline(tmp_path, "first-3cr3t"), Clock())
    write(tmp_path, "second-3cr3t", "      fetch.max.bytes: 1000000")
    assert password_of(known) == "second-3cr3t"
    assert "fetch.max.bytes" not in known.cluster.kafka.common
    assert known.cluster.kafka.common["security.protocol"] == "SASL_PLAINTEXT"
    assert [note for note in notes if "other settings" in note and "next start" in note]
    assert len(notes) == 2


@pytest.mark.parametrize("broken", ["", "name: [", "name: p\nsource: {kafka: {}}\n"])
def test_a_pipeline_file_that_is_half_written(
    tmp_path: Path, notes: list[str], broken: str
) -> None:
    known = Credentials(pipeline(tmp_path, "first-3cr3t"), Clock())
    (tmp_path / "pipeline.yaml").write_text(broken)
    assert (password_of(known), known.generation) == ("first-3cr3t", 0)
    assert len(notes) == 1 and "cannot be used yet" in notes[0]
    write(tmp_path, "second-3cr3t")
    assert (password_of(known), known.generation) == ("second-3cr3t", 1)


def test_an_empty_password_file_keeps_the_former_one(tmp_path: Path, notes: list[str]) -> None:
    secret = tmp_path / "password"
    secret.write_text("first-3cr3t")
    known = Credentials(pipeline(tmp_path, "${file:password}"), Clock())
    for content in ("", None):
        secret.unlink() if content is None else secret.write_text(content)
        assert (password_of(known), known.generation) == ("first-3cr3t", 0)
    secret.write_text("second-3cr3t")
    assert password_of(known) == "second-3cr3t"


def mutual(directory: Path, store: str) -> ClusterConfig:
    text = f"""\
name: p
source:
  kafka:
    common:
      bootstrap.servers: "s:1"
      security.protocol: SSL
      ssl.keystore.password: changeit
      {store}
target: {{kafka: {{common: {{bootstrap.servers: "t:1"}}}}}}
replication: [{{source: {{topic: ".*"}}}}, {{sink: {{topic: source}}}}]
"""
    (directory / "pipeline.yaml").write_text(text)
    return load([directory / "pipeline.yaml"]).config.source


@pytest.mark.parametrize("kind", ["pem", "p12"])
def test_a_store_that_is_half_written(tmp_path: Path, notes: list[str], kind: str) -> None:
    root = make_root()
    store = tmp_path / f"client.{kind}"

    def issue(name: str) -> bytes:
        holder = make_leaf(root, name)
        path = holder.pem_file(store) if kind == "pem" else holder.pkcs12(store, "changeit")
        return path.read_bytes()

    issue("first")
    known = Credentials(mutual(tmp_path, f"ssl.keystore.location: {store}"), Clock())
    first = known.security("consumer")
    content = issue("second")
    store.write_bytes(content[: len(content) // 2])
    assert (known.security("consumer"), known.generation) == (first, 0)
    assert len(notes) == 1 and "cannot be used yet" in notes[0]
    store.write_bytes(content)
    assert known.generation == 1
    assert known.security("consumer") != first


def test_a_key_that_does_not_match_its_certificate(tmp_path: Path, notes: list[str]) -> None:
    root = make_root()
    old, new = make_leaf(root, "old"), make_leaf(root, "new")
    key, chain = tmp_path / "tls.key", tmp_path / "tls.crt"
    key.write_text(old.key_pem())
    chain.write_text(old.certificates_pem)
    stores = (
        "ssl.keystore.key: ${file:tls.key}\n      ssl.keystore.certificate.chain: ${file:tls.crt}"
    )
    known = Credentials(mutual(tmp_path, stores), Clock())
    first = known.security("consumer")
    key.write_text(new.key_pem())
    assert (known.security("consumer"), known.generation) == (first, 0)
    assert "does not belong" in notes[0]
    chain.write_text(new.certificates_pem)
    assert known.generation == 1
    security = known.security("consumer")
    assert security is not None and security.tls is not None and security.tls.identity is not None
    assert security.tls.identity.certificates == new.certificates_pem


def test_properties_without_a_file_have_stores_that_are_read_again(tmp_path: Path) -> None:
    root = make_root()
    store = make_leaf(root, "first").pem_file(tmp_path / "client.pem")
    common = {
        "bootstrap.servers": "s:1",
        "security.protocol": "SSL",
        "ssl.keystore.location": str(store),
    }
    known = Credentials(ClusterConfig(kafka=KafkaClients(common=common)), Clock())
    first = known.security("admin")
    make_leaf(root, "second").pem_file(store)
    assert known.generation == 1 and known.security("admin") != first


def test_what_makes_a_process_use_another_password(tmp_path: Path) -> None:
    from_env = Credentials(pipeline(tmp_path, "${env:string:WORD}"), Clock())
    assert "WORD" in from_env.advice and "restart" in from_env.advice
    (tmp_path / "password").write_text("first-3cr3t")
    from_file = Credentials(pipeline(tmp_path, "${file:password}"), Clock())
    assert "read again" in from_file.advice


def test_a_task_of_spark_gets_the_newest_options_and_no_more(tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("first-3cr3t")
    options = wire(pipeline(tmp_path, "${file:password}"), "consumer")
    secret.write_text("second-3cr3t")
    options[RENEWAL].refused()  # as after a refused login: it looks at once
    shipped = pickle.loads(pickle.dumps(newest(options)))
    assert shipped["sasl_plain_password"] == "second-3cr3t"
    assert shipped[RENEWAL].options() == {} and shipped[RENEWAL].generation == 0
    assert "read again" in shipped[RENEWAL].advice


def test_a_password_of_a_registry(tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("first-3cr3t")
    registry = """\
  registry:
    config:
      schema.registry.url: http://127.0.0.1:1
      basic.auth.user.info: "ann:${file:password}\""""
    cluster = pipeline(tmp_path, "kafka-3cr3t", registry)
    assert "read again" in read_registry_settings(cluster, "source").advice
    before = read_registry_settings(cluster, "source").login
    assert before == {"basic.auth.user.info": "ann:first-3cr3t"}
    secret.write_text("second-3cr3t")
    credentials_of(cluster).read_again()  # the shared one looks once a second
    after = read_registry_settings(cluster, "source").login
    assert after == {"basic.auth.user.info": "ann:second-3cr3t"}


def test_a_password_of_a_registry_from_the_environment(tmp_path: Path) -> None:
    registry = """\
  registry:
    config:
      schema.registry.url: http://127.0.0.1:1
      basic.auth.user.info: "ann:${env:string:WORD}\""""
    known = Credentials(pipeline(tmp_path, "kafka-3cr3t", registry), Clock())
    assert "WORD" in known.registry_advice and "restart" in known.registry_advice
    assert "WORD" not in known.advice


def test_a_file_of_mirrormaker_2(tmp_path: Path) -> None:
    secrets = tmp_path / "login.properties"
    secrets.write_text("password = first-3cr3t\n")
    path = tmp_path / "mm2.properties"
    path.write_text(f"""\
clusters = A, B
A.bootstrap.servers = a:1
B.bootstrap.servers = b:1
A.security.protocol = SASL_PLAINTEXT
A.sasl.mechanism = SCRAM-SHA-512
A.sasl.jaas.config = {LOGIN % ("${file:" + str(secrets) + ":password}")}
A->B.enabled = true
config.providers = file
config.providers.file.class = org.apache.kafka.common.config.provider.FileConfigProvider
""")
    flow, _ = load_mirror(f"{path}#A->B")
    for cluster in (flow.config.source, flow.properties.cluster("source")):
        secrets.write_text("password = first-3cr3t\n")
        known = Credentials(cluster, Clock())
        assert password_of(known) == "first-3cr3t"
        secrets.write_text("password = second-3cr3t\n")
        assert password_of(known) == "second-3cr3t"


def test_a_refused_login_is_tried_once_in_thirty_seconds() -> None:
    now = [0.0]
    refused = RefusedLogins(lambda: now[0])
    login, other = login_of("s:1", "ann", "one"), login_of("s:1", "ann", "two")
    assert refused.reason(login) == "" and not refused.is_refused(login)
    refused.note(login, "wrong")
    assert refused.reason(login) == "wrong" and refused.is_refused(login)
    assert refused.reason(other) == "", "another password is tried at once"
    now[0] = RETRY_S - 1
    assert refused.reason(login) == "wrong"
    now[0] = RETRY_S
    assert refused.reason(login) == "", "one may try"
    assert refused.reason(login) == "wrong", "the others wait for what comes of it"
    refused.accepted(login)
    assert refused.reason(login) == ""


def test_alerts_are_told_by_their_codes() -> None:
    assert refused_certificate("SSLV3_ALERT_CERTIFICATE_UNKNOWN")
    assert refused_certificate("TLSV1_ALERT_UNKNOWN_CA")
    assert refused_certificate("TLSV13_ALERT_CERTIFICATE_REQUIRED")
    assert not refused_certificate("CERTIFICATE_VERIFY_FAILED")
    assert not refused_certificate("SSLV3_ALERT_HANDSHAKE_FAILURE")
    assert refused_certificate_code(
        "x: SSL handshake failed: error:0A000416:SSL routines::any text"
    )
    assert not refused_certificate_code("error:0A000086:SSL routines::certificate verify failed")
    assert untrusted_code("error:0A000086:SSL routines::any text")
    assert not untrusted_code("a sentence about a certificate")


def test_settings_that_are_no_security_values() -> None:
    for key in ("sasl.mechanism", "security.protocol", "ssl.endpoint.identification.algorithm"):
        assert not is_security_value(key)
    for key in ("sasl.jaas.config", "A.ssl.keystore.location", "schema.registry.bearer.auth.token"):
        assert is_security_value(key)
