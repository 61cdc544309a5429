"""AWS MSK IAM: which logins are recognized, the signer's tokens, and their renewal.

AWS itself takes part in no test. The tokens are compared with what the signature needs, and a real
broker with OAUTHBEARER, which knows nothing about AWS, shows that tokens arrive and are renewed.
"""

from __future__ import annotations

import base64
import pickle
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import psutil
import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from k2ktui.config.clusters import ClusterConfig, KafkaClients
from k2ktui.errors import ConfigError, ConnectionFailed
from k2ktui.kafka.auth import msk, oauth
from k2ktui.kafka.auth.msk import MskSigner, MskTokens
from k2ktui.kafka.properties.translation import findings, librdkafka, wire
from k2ktui.kafka.wire.cluster import Loop, Wire
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters import cluster_ids
from tests.support.clusters.cluster_ids import both_libraries, by_wire
from tests.support.clusters.kafka import START_S, TIMEOUT
from tests.support.clusters.tls import Holder, make_leaf, make_root
from tests.support.clusters.tokens import Clock, errors_until, unsigned_token

Properties = dict[str, str]
AWS = "software.amazon.msk.auth.iam"
HOST = "b-1.orders.abc123.c2.kafka.eu-west-1.amazonaws.com:9098"
KEY, SECRET = "AKIAEXAMPLEEXAMPLE", "hunter2hunter2"
JAVA = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "AWS_MSK_IAM",
    "sasl.jaas.config": f"{AWS}.IAMLoginModule required;",
    "sasl.client.callback.handler.class": f"{AWS}.IAMClientCallbackHandler",
}
JAVA_OAUTH = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.jaas.config": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule "
    "required;",
    "sasl.login.callback.handler.class": f"{AWS}.IAMOAuthBearerLoginCallbackHandler",
}
SHORT = {"security.protocol": "SASL_SSL", "sasl.mechanism": "AWS_MSK_IAM"}


@pytest.fixture(autouse=True)
def account(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Credentials in the environment only; no file or service of AWS is asked."""
    pytest.importorskip("aws_msk_iam_sasl_signer")
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))


def cluster(properties: Properties, servers: str = HOST) -> ClusterConfig:
    return ClusterConfig(kafka=KafkaClients(common={"bootstrap.servers": servers, **properties}))


def with_options(options: str) -> Properties:
    return JAVA | {"sasl.jaas.config": f"{AWS}.IAMLoginModule required {options};"}


def signer(properties: Properties, servers: str = HOST) -> MskSigner:
    provider = wire(cluster(properties, servers), "consumer")["sasl_oauth_token_provider"]
    assert isinstance(provider, MskTokens)
    return provider.signer


@pytest.mark.parametrize("properties", [JAVA, JAVA_OAUTH, SHORT])
def test_both_libraries_log_in_with_oauthbearer(properties: Properties) -> None:
    config = cluster(properties)
    assert findings(config) == []
    for_librdkafka, for_wire = librdkafka(config, "admin"), wire(config, "admin")
    assert for_librdkafka["sasl.mechanism"] == for_wire["sasl_mechanism"] == "OAUTHBEARER"
    assert "sasl.oauthbearer.method" not in for_librdkafka
    AdminClient({**for_librdkafka, "bootstrap.servers": "localhost:1", "log_level": 0})


def test_options_of_the_login_line() -> None:
    assert signer(JAVA) == MskSigner("eu-west-1")
    assert signer(with_options('awsProfileName="p"')) == MskSigner("eu-west-1", profile="p")
    role = 'awsRoleArn="arn:aws:iam::1:role/r" awsRoleSessionName="s" awsDebugCreds="false"'
    assert signer(with_options(role)) == MskSigner(
        "eu-west-1", role_arn="arn:aws:iam::1:role/r", session_name="s"
    )


@pytest.mark.parametrize(
    ("servers", "options", "environment", "region"),
    [
        (HOST, "", "", "eu-west-1"),
        ("boot-x.c1.kafka-serverless.us-east-1.amazonaws.com:9098", "", "", "us-east-1"),
        ("b-1.x.y.c2.kafka.cn-north-1.amazonaws.com.cn:9098", "", "", "cn-north-1"),
        ("kafka.example.com:9098", 'awsRegion="ap-south-1"', "us-east-2", "ap-south-1"),
        ("kafka.example.com:9098", "", "us-east-2", "us-east-2"),
        (HOST, "", "us-east-2", "eu-west-1"),
        (HOST, 'awsRegion="ap-south-1"', "", "ap-south-1"),
    ],
)
def test_region(
    servers: str,
    options: str,
    environment: str,
    region: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if environment:
        monkeypatch.setenv("AWS_REGION", environment)
    assert signer(with_options(options), servers).region == region


PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required username=a password=b;"


@pytest.mark.parametrize(
    ("properties", "servers", "words"),
    [
        (JAVA, "kafka.example.com:9098", "region is not part of the brokers' host names"),
        (JAVA, f"{HOST},{HOST.replace('eu-west', 'us-east')}", "several AWS regions"),
        (with_options('awsRegion="eu west"'), HOST, "region is not part"),
        (JAVA | {"security.protocol": "SASL_PLAINTEXT"}, HOST, "needs SASL_SSL"),
        (with_options('awsRoleSecretAccessKey="hunter2"'), HOST, "awsRoleSecretAccessKey not"),
        (with_options('awsProfileName="p" awsRoleArn="r"'), HOST, "not both"),
        (with_options('awsRoleSessionName="s"'), HOST, "needs awsRoleArn"),
        (JAVA | {"sasl.mechanism": "PLAIN", "sasl.jaas.config": PLAIN}, HOST, "not PLAIN"),
        (JAVA_OAUTH | SHORT, HOST, "expected IAMLoginModule"),
        (JAVA | {"sasl.mechanism": "OAUTHBEARER"}, HOST, "expected OAuthBearerLoginModule"),
        (
            JAVA | {"sasl.client.callback.handler.class": "com.example.IAMClientCallbackHandler"},
            HOST,
            "Java class",
        ),
    ],
)
def test_refusals(properties: Properties, servers: str, words: str) -> None:
    refused = [
        str(finding) for finding in findings(cluster(properties, servers)) if finding.refused
    ]
    assert len(refused) == 1 and words in refused[0] and "hunter2" not in refused[0]


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer", None)
    for settings_of in (librdkafka, wire):
        with pytest.raises(ConfigError, match=r"pip install '\.\[msk\]'"):
            # A section of its own: what an earlier test has read of one is kept.
            settings_of(cluster({**JAVA, "client.id": "without the extra"}), "admin")


def query(token: str) -> dict[str, str]:
    """Return the query of the signed URL that a token stands for."""
    url = urlsplit(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode())
    assert url.hostname == "kafka.eu-west-1.amazonaws.com"
    return {name: values[0] for name, values in parse_qs(url.query).items()}


def test_a_token_is_a_signed_url(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SESSION_TOKEN", "session")
    tokens = MskTokens(MskSigner("eu-west-1"))
    before_s = int(time.time())
    fields = query(tokens.token())
    assert fields["Action"] == "kafka-cluster:Connect"
    assert fields["X-Amz-Credential"].startswith(f"{KEY}/")
    assert fields["X-Amz-Credential"].endswith("/eu-west-1/kafka-cluster/aws4_request")
    assert fields["X-Amz-Expires"] == "900"
    assert fields["X-Amz-Security-Token"] == "session"
    assert len(fields["X-Amz-Signature"]) == 64
    assert SECRET not in str(fields) + repr(tokens) + repr(vars(tokens))
    token, expires, *_ = tokens("")
    assert before_s <= expires - 900 <= time.time() + 1
    assert query(token).keys() == fields.keys()


def test_a_token_of_a_profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "credentials").write_text(
        f"[ops]\naws_access_key_id = AKIAOTHER\naws_secret_access_key = {SECRET}\n"
    )
    fields = query(MskTokens(MskSigner("eu-west-1", profile="ops")).token())
    assert fields["X-Amz-Credential"].startswith("AKIAOTHER/")
    with pytest.raises(ConnectionFailed, match=r"no AWS token for region eu-west-1: .*absent"):
        MskTokens(MskSigner("eu-west-1", profile="absent")).token()


def test_a_copy_in_another_process_has_no_token() -> None:
    tokens = MskTokens(MskSigner("eu-west-1"))
    before = pickle.dumps(tokens)
    token = tokens.token()
    assert pickle.dumps(tokens) == before, "worker processes find their connections by it"
    assert token.encode() not in before and SECRET.encode() not in before
    assert query(pickle.loads(before).token())["X-Amz-Expires"] == "900"


def test_no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(ConnectionFailed, match="no AWS credentials were found"):
        MskTokens(MskSigner("eu-west-1")).token()


def test_a_role_service_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(msk, "_TIMEOUT_S", 0.2)
    over = threading.Event()
    monkeypatch.setattr(msk, "sign", lambda _: over.wait())
    with pytest.raises(ConnectionFailed, match="no answer within"):
        MskTokens(MskSigner("eu-west-1")).token()
    over.set()


class Signatures:
    """Stands in for AWS's signer with tokens that a broker can read, and counts them."""

    def __init__(self, life: float) -> None:
        self.life = life
        self.signers: list[MskSigner] = []

    def __call__(self, signer: MskSigner) -> tuple[str, int]:
        self.signers.append(signer)
        now = time.time()
        return unsigned_token("aws", "kafka", self.life), int(now + self.life) * 1000


def test_a_token_is_signed_again_before_it_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, signed = Clock(), []

    def sign(_: MskSigner) -> tuple[str, int]:
        signed.append(clock.now)
        return str(len(signed)), int((clock.now + 100) * 1000)

    monkeypatch.setattr(msk, "sign", sign)
    monkeypatch.setattr(msk, "time", clock.time)
    monkeypatch.setattr(oauth, "time", clock)
    tokens = MskTokens(MskSigner("eu-west-1"))
    assert tokens.token() == tokens.token() == "1"
    clock.now += 79
    assert tokens.token() == "1"
    clock.now += 2
    assert tokens.token() == tokens.token() == "2"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[KafkaNode, Holder]]:
    """A broker whose sessions last as long as their tokens, and at most a minute."""
    directory = tmp_path_factory.mktemp("msk")
    root = make_root()
    store = make_leaf(root, "broker", "localhost", "127.0.0.1").pem_file(directory / "broker.pem")
    prefix = "listener.name.sasl"
    oauth = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"
    properties = {
        f"{prefix}.ssl.keystore.type": "PEM",
        f"{prefix}.ssl.keystore.location": str(store),
        f"{prefix}.sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{prefix}.oauthbearer.sasl.jaas.config": oauth,
        f"{prefix}.oauthbearer.connections.max.reauth.ms": "60000",
    }
    made = KafkaNode("msk", directory / "node", properties, listeners={"SASL": "SASL_SSL"})
    with made.start(START_S) as node:
        yield node, root


def at(broker: tuple[KafkaNode, Holder]) -> ClusterConfig:
    node, root = broker
    trust = {
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": root.certificates_pem,
    }
    login = with_options('awsRegion="eu-west-1"')
    return cluster(login | trust, node.address("SASL"))


@pytest.mark.slow
@both_libraries
def test_a_broker_gets_the_token(
    broker: tuple[KafkaNode, Holder], ask: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    signatures = Signatures(300)
    monkeypatch.setattr(msk, "sign", signatures)
    assert ask(at(broker)) == broker[0].cluster_id
    assert set(signatures.signers) == {MskSigner("eu-west-1")}


@pytest.mark.slow
@both_libraries
def test_a_broker_that_cannot_read_it(broker: tuple[KafkaNode, Holder], ask: Any) -> None:
    """AWS's real token: a broker that is not AWS's refuses it, and nothing of it is shown."""
    with pytest.raises(ConnectionFailed) as caught:
        ask(at(broker))
    text = str(caught.value)
    assert "rejected the login" in text
    assert SECRET not in text and KEY not in text and "X-Amz" not in text


@pytest.mark.slow
@both_libraries
def test_no_token_says_why(
    broker: tuple[KafkaNode, Holder], ask: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    # AWS's library takes seconds to load where the machine is busy; here it is loaded.
    with pytest.raises(ConnectionFailed, match="no AWS credentials were found"):
        MskTokens(MskSigner("eu-west-1")).token()
    # It tries for so long, and says what it met last: by then it must have met the broker.
    monkeypatch.setattr(cluster_ids, "TIMEOUT", 10)
    with pytest.raises(ConnectionFailed, match="no AWS credentials were found"):
        ask(at(broker))


@pytest.mark.slow
def test_librdkafka_renews_without_being_polled(
    broker: tuple[KafkaNode, Holder], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No session ends, as it would without renewal.

    On a busy machine, a renewal may come too late for a short token: a longer one is tried then.
    """
    errors: list[Any] = []
    for life in (5, 15, 45):
        errors = errors_of_three_tokens(broker, monkeypatch, life)
        if not errors:
            break
    assert errors == []


def errors_of_three_tokens(
    broker: tuple[KafkaNode, Holder], monkeypatch: pytest.MonkeyPatch, life: float
) -> list[Any]:
    """Keep a producer open until it has its third token, and return what it reports."""
    signatures = Signatures(life)
    monkeypatch.setattr(msk, "sign", signatures)
    settings = librdkafka(at(broker), "producer")
    return errors_until(settings, lambda: len(signatures.signers) >= 3)


@pytest.mark.slow
def test_the_wire_layer_renews_within_a_connection(
    broker: tuple[KafkaNode, Holder], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It logs in again, on the same sockets; tokens as in the test above."""
    kept = (keeps_its_sockets(broker, monkeypatch, life) for life in (5, 15, 45))
    assert any(kept)


def keeps_its_sockets(
    broker: tuple[KafkaNode, Holder], monkeypatch: pytest.MonkeyPatch, life: float
) -> bool:
    signatures = Signatures(life)
    monkeypatch.setattr(msk, "sign", signatures)
    loop = Loop()
    connection = Wire(loop, wire(at(broker), "admin"), "source")
    others = sockets_to(broker[0])  # clients of earlier tests live until they are collected

    async def run() -> bool:
        await connection.open(TIMEOUT)
        await connection.brokers()
        own = sockets_to(broker[0]) - others
        while len(signatures.signers) < 3:  # the test's own time-out bounds it
            await connection.brokers()
            await loop.sleep(0.05)
        return bool(own) and own <= sockets_to(broker[0])

    try:
        return bool(loop.run(run))
    finally:
        connection.close()
        loop.close()


def sockets_to(node: KafkaNode) -> set[int]:
    """Return this process's own ports of its connections to a node's listener for clients."""
    port = int(node.address("SASL").rpartition(":")[2])
    connections = psutil.Process().net_connections("tcp")
    return {
        connection.laddr.port
        for connection in connections
        if connection.raddr and connection.raddr.port == port
    }


@pytest.mark.slow
def test_an_expired_token_is_refused(
    broker: tuple[KafkaNode, Holder], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the tests of renewal rely on: the broker checks the time in a token."""
    monkeypatch.setattr(msk, "sign", lambda _: (unsigned_token("aws", "kafka", -60), 1 << 50))
    with pytest.raises((ConnectionFailed, KafkaException)):
        by_wire(at(broker))
