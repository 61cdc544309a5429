"""Strimzi resources and connectors' JSON, read as ``mm2.properties`` is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from k2ktui.config.mirror_files import is_mirror_file
from k2ktui.errors import ConfigError
from k2ktui.mm2.flows.model import FlowProperties
from k2ktui.mm2.flows.resources import StrimziResource
from k2ktui.mm2.flows.settings import MirrorSettings, parse_settings
from k2ktui.mm2.importing.pipeline_file import import_flow
from k2ktui.mm2.mirror_flow import load_mirror
from tests.support.commands.cli import k2ktui

# As in Strimzi's examples.
MIRROR_MAKER = """
apiVersion: kafka.strimzi.io/v1beta2
kind: KafkaMirrorMaker2
metadata:
  name: mm
  namespace: kafka
spec:
  version: 4.0.0
  replicas: 1
  connectCluster: "west"
  clusters:
  - alias: "east"
    bootstrapServers: east:9093
    tls:
      trustedCertificates:
        - secretName: east-ca
          certificate: ca.crt
    authentication:
      type: scram-sha-512
      username: user
      passwordSecret: {secretName: user, password: pw}
  - alias: "west"
    bootstrapServers: west:9092
    config:
      offset.storage.replication.factor: -1
  mirrors:
  - sourceCluster: "east"
    targetCluster: "west"
    sourceConnector:
      tasksMax: 1
      config:
        replication.factor: 3
        sync.topic.acls.enabled: "false"
    checkpointConnector:
      config:
        sync.group.offsets.enabled: true
    topicsPattern: "orders.*, pay"
    groupsPattern: "app-.*"
    topicsExcludePattern: "orders-tmp"
"""
VERSION_1 = """
apiVersion: kafka.strimzi.io/v1
kind: KafkaMirrorMaker2
metadata: {name: mm}
spec:
  target:
    alias: west
    bootstrapServers: west:9092
    groupId: workers
    configStorageTopic: c
    statusStorageTopic: s
    offsetStorageTopic: o
  mirrors:
    - source: {alias: other, bootstrapServers: "other:9092"}
      sourceConnector: {}
    - source: {alias: east, bootstrapServers: "east:9092"}
      sourceConnector: {tasksMax: 2, config: {topics: orders}}
"""
CONFIG = {
    "source.cluster.alias": "east",
    "source.cluster.bootstrap.servers": "east:9092",
    "target.cluster.alias": "west",
    "target.cluster.bootstrap.servers": "west:9092",
    "topics": "orders",
}
CLASS = "org.apache.kafka.connect.mirror.MirrorSourceConnector"
CONNECTOR = {
    "apiVersion": "kafka.strimzi.io/v1beta2",
    "kind": "KafkaConnector",
    "metadata": {"name": "any-name", "labels": {"strimzi.io/cluster": "workers"}},
    "spec": {"class": CLASS, "tasksMax": 2, "config": CONFIG},
}
CONNECT = {
    "kind": "KafkaConnect",
    "metadata": {"name": "workers"},
    "spec": {"bootstrapServers": "west:9092", "config": {"offset.storage.topic": "stored"}},
}
SECRETS = {"KAFKA_EAST_CA_CA_CRT": "PEM", "KAFKA_USER_PW": "secret"}


def read(text: str, name: str = "mm.yaml", env: Mapping[str, str] | None = None) -> MirrorSettings:
    return parse_settings(text.encode(), name, SECRETS if env is None else env)


def test_a_mirror_maker_resource() -> None:
    """TLS and login as Strimzi configures them, patterns over settings, and Strimzi's own names."""
    flow = read(MIRROR_MAKER).flow()
    assert str(flow) == "east->west" and flow.syncs_groups
    source, target = flow.cluster("source").kafka.common, flow.cluster("target").kafka.common
    assert source == {
        "bootstrap.servers": "east:9093",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="user" password="secret";',
        "ssl.truststore.certificates": "PEM",
        "ssl.truststore.type": "PEM",
    }
    assert target == {"bootstrap.servers": "west:9092", "security.protocol": "PLAINTEXT"}
    assert [t for t in ("orders.x", "pay", "orders-tmp", "other") if flow.replicates(t)] == [
        "orders.x",
        "pay",
    ]
    assert flow.groups.matches("app-1") and not flow.groups.matches("other")
    assert flow.connect_offsets_topic == "mirrormaker2-cluster-offsets"
    assert flow.worker_group == "mirrormaker2-cluster"
    assert flow.connector is not None
    assert flow.connector.name == "east->west.MirrorSourceConnector"
    assert flow.connector.checkpoints == "east->west.MirrorCheckpointConnector"
    assert flow.connector.resource == StrimziResource(
        "kafkamirrormaker2", "mm", "kafka", "/spec/mirrors/0", "/sourceCluster", "mm"
    )


def test_the_form_of_version_1() -> None:
    settings = read(VERSION_1)
    assert [str(flow) for flow in settings.flows] == ["other->west", "east->west"]
    flow = settings.flow("east->west.MirrorSourceConnector")
    assert (flow.connect_offsets_topic, flow.worker_group) == ("o", "workers")
    assert flow.connector is not None and flow.connector.resource is not None
    assert flow.connector.resource.mirror == "/spec/mirrors/1"
    assert flow.connector.resource.source_path == "/source/alias"
    assert not flow.switch("emit.checkpoints.enabled", True)  # there is no checkpointConnector
    with pytest.raises(ConfigError, match="enables other->west, east->west"):
        settings.flow()


LOGINS: list[tuple[dict[str, object], dict[str, str]]] = [
    (
        {
            "type": "tls",
            "certificateAndKey": {"secretName": "s", "certificate": "c.crt", "key": "c.key"},
        },
        {
            "security.protocol": "SSL",
            "ssl.keystore.certificate.chain": "chain",
            "ssl.keystore.key": "key",
            "ssl.keystore.type": "PEM",
        },
    ),
    (
        {
            "type": "oauth",
            "tokenEndpointUri": "https://t",
            "clientId": "me",
            "clientSecret": {"secretName": "s", "key": "c.key"},
            "scope": "kafka",
        },
        {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": "https://t",
            "sasl.oauthbearer.client.credentials.client.id": "me",
            "sasl.oauthbearer.client.credentials.client.secret": "key",
            "sasl.oauthbearer.scope": "kafka",
        },
    ),
    (
        {"type": "custom", "sasl": True, "config": {"sasl.mechanism": "PLAIN"}},
        {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"},
    ),
]


@pytest.mark.parametrize(
    ("login", "expected"), LOGINS, ids=lambda login_name: login_name.get("type", "")
)
def test_logins(login: dict[str, object], expected: dict[str, str]) -> None:
    document = yaml.safe_load(VERSION_1)
    document["spec"]["target"] |= {"authentication": login, "tls": {"trustedCertificates": []}}
    settings = read(json.dumps(document), env={"S_C_CRT": "chain", "S_C_KEY": "key"})
    common = settings.flow("east->west").cluster("target").kafka.common
    assert common == {"bootstrap.servers": "west:9092", **expected}


def test_a_secret_that_is_not_set_is_an_error_with_the_command() -> None:
    with pytest.raises(ConfigError) as error:
        read(MIRROR_MAKER, env={"KAFKA_EAST_CA_CA_CRT": "PEM"})
    assert (
        'export KAFKA_USER_PW="$(kubectl get secret user -n kafka -o '
        'go-template=\'{{index .data "pw" | base64decode}}\')"' in error.value.message
    )
    assert "mm.yaml:18: " in error.value.message


FORMS = {
    "resource.yaml": yaml.safe_dump(CONNECTOR),
    "several.yml": yaml.safe_dump_all([CONNECT, {"kind": "Secret", "data": {}}, CONNECTOR]),
    "list.yaml": yaml.safe_dump({"kind": "List", "items": [CONNECTOR, CONNECT]}),
    "resource.json": json.dumps(CONNECTOR),
    "create.json": json.dumps(
        {"name": "any-name", "config": {**CONFIG, "connector.class": CLASS}}, indent="\t"
    ),
    "config.json": json.dumps({**CONFIG, "connector.class": CLASS, "name": "any-name"}),
    "expanded.json": json.dumps(
        {
            "any-name": {
                "info": {
                    "name": "any-name",
                    "config": {"connector.class": CLASS, **CONFIG},
                    "tasks": [],
                }
            },
            "sink": {"info": {"name": "sink", "config": {"connector.class": "FileStreamSink"}}},
        }
    ),
    "worker.json": json.dumps(
        {
            "name": "any-name",
            "config": {"connector.class": CLASS, **CONFIG},
            "worker": {"offset.storage.topic": "stored", "group.id": "connect-cluster"},
        }
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_every_form_of_a_connector(name: str, tmp_path: Path) -> None:
    """The connector has any name; the topic of its positions is known from the workers only."""
    path = tmp_path / name
    path.write_text(FORMS[name])
    assert is_mirror_file(str(path)) and is_mirror_file(f"{path}#east->west")
    flow, notes = load_mirror(f"{path}#any-name")
    properties: FlowProperties = flow.properties
    assert str(properties) == "east->west" and properties.replicates("orders")
    assert properties.connector is not None and properties.connector.name == "any-name"
    known = name in ("several.yml", "list.yaml", "worker.json")
    assert properties.connect_offsets_topic == ("stored" if known else "")
    assert properties.worker_group == ("connect-cluster" if known else "")
    assert any("offset.storage.topic" in note for note in notes) is not known
    if name == "expanded.json":
        assert "connector sink (FileStreamSink) is not of MirrorMaker 2; ignored" in notes[0]


def test_connectors_of_a_flow_are_joined() -> None:
    """Each setting counts in the connector that reads it; a difference is noted with its lines."""
    checkpoint = {
        **CONNECTOR,
        "metadata": {"name": "b"},
        "spec": {
            "class": CLASS.replace("Source", "Checkpoint"),
            "config": {**CONFIG, "groups": "x", "topics": "other"},
        },
    }
    source = {**CONNECTOR, "spec": {"class": CLASS, "config": {**CONFIG, "groups": "y"}}}
    for documents in ([source, checkpoint], [checkpoint, source]):
        settings = read(yaml.safe_dump_all(documents))
        flow = settings.flow()
        assert flow.topics.includes == ("orders",) and flow.groups.includes == ("x",)
        assert flow.connector is not None and flow.connector.writers == ("any-name", "b")
        assert flow.connector.how_to_stop == (
            "Set state: stopped for any-name and b: kubectl edit kafkaconnector any-name; "
            "kubectl edit kafkaconnector b."
        )
        differing = [note for note in settings.notes if "differs between the connectors" in note]
        assert len(differing) == 2 and "mm.yaml:" in differing[0]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("kind: [", "not valid YAML"),
        ('{"name": "mm", "config": {"a": "b" "c": 1}}', "mm.yaml:1: not valid JSON: expecting ','"),
        ('{"sasl.jaas.config": "secret\n', "mm.yaml:1: not valid JSON: invalid control character"),
        ("name: my-pipeline", "expected a KafkaMirrorMaker2 or KafkaConnector"),
        ("kind: KafkaTopic", "no connector of MirrorMaker 2"),
        (MIRROR_MAKER.replace("name: mm", "name: m m"), "metadata.name: expected a name of Kub"),
        (MIRROR_MAKER.replace('sourceCluster: "east"', "sourceCluster: x"), "aliases of two"),
        (MIRROR_MAKER.replace("scram-sha-512", "kerberos"), "expected a type out of plain"),
        (MIRROR_MAKER.replace("secretName: user, ", ""), "expected the name of a secret"),
        (MIRROR_MAKER.replace("replication.factor: 3", "topics: [a]"), "expected a string"),
        (yaml.safe_dump_all([CONNECTOR, CONNECTOR]), "two MirrorSourceConnectors copy east->west"),
        (
            yaml.safe_dump(CONNECTOR).replace("east:9092", "${vault:x:y}"),
            "expected a provider out of env, strimzienv",
        ),
        (
            yaml.safe_dump(CONNECTOR).replace("east:9092", "${vault:x"),
            "strimzisecrets, found vault",
        ),
        (
            MIRROR_MAKER.replace("type: scram-sha-512", "type: oauth"),
            "username of type oauth is not supported",
        ),
    ],
)
def test_what_cannot_be_read_is_an_error_with_its_line(text: str, words: str) -> None:
    with pytest.raises(ConfigError) as error:
        read(text)
    assert words in error.value.message and "mm.yaml" in error.value.message


def test_commands_that_need_a_pipeline_say_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "mm.yaml"
    path.write_text(MIRROR_MAKER)
    for command in (("start",), ("config", "validate"), ("config", "show")):
        assert "k2ktui mm2 import FILE" in k2ktui(*command, "-f", path, code=2).stderr


def test_blank_names_within_a_resource() -> None:
    """Strimzi lays a connector's own settings over the alias of its cluster."""
    blank = """replication.factor: 3
        source.cluster.alias: ""
        replication.policy.separator: ''"""
    settings = read(MIRROR_MAKER.replace("replication.factor: 3", blank))
    flow = settings.flow("east->west")
    assert flow.connector and flow.connector.name == "east->west.MirrorSourceConnector"
    assert (flow.target_topic("orders"), flow.policy.prefix) == ("orders", "")
    different = [note for note in settings.notes if "is not the same for" in note]
    assert [note.split(": ")[1].split(" is not")[0] for note in different] == [
        "source.cluster.alias",
        "replication.policy.separator",
    ]
    assert "east->west.MirrorCheckpointConnector reads its own" in different[0]
    assert flow.checkpoint_policy and flow.checkpoint_policy.prefix == "east."
    joined = MIRROR_MAKER.replace(
        "sync.group.offsets.enabled: true", blank.partition("\n")[2].strip()
    )
    assert not read(joined.replace("replication.factor: 3", blank)).notes


IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"


@pytest.mark.parametrize("role", ["checkpoint", "heartbeat", "source"])
def test_topics_have_the_names_of_the_connector_that_copies(role: str) -> None:
    """Of three with settings of their own, the MirrorSourceConnector writes the copies."""
    text = yaml.safe_dump(
        {
            "kind": "KafkaMirrorMaker2",
            "metadata": {"name": "mm"},
            "spec": {
                "connectCluster": "west",
                "clusters": [
                    {"alias": alias, "bootstrapServers": f"{alias}:9092"}
                    for alias in ("east", "west")
                ],
                "mirrors": [
                    {
                        "sourceCluster": "east",
                        "targetCluster": "west",
                        "topicsPattern": "orders",
                        **{
                            f"{name}Connector": {
                                "config": {"replication.policy.class": IDENTITY}
                                if name == role
                                else {}
                            }
                            for name in ("checkpoint", "heartbeat", "source")
                        },
                    }
                ],
            },
        }
    )
    settings = read(text)
    flow = settings.flow()
    assert flow.target_topic("orders") == ("orders" if role == "source" else "east.orders")
    assert flow.checkpoint_policy is not None
    own = flow.checkpoint_policy.remote_topic("east", "orders")
    assert own == ("orders" if role == "checkpoint" else "east.orders")
    notes = [note for note in settings.notes if "replication.policy.class is not the same" in note]
    assert len(notes) == (role != "heartbeat")
    assert all("copies are named by east->west.MirrorSourceConnector" in note for note in notes)
    sink = {"topic": "source" if role == "source" else {"prefix": "east."}, "partition": "source"}
    assert {"sink": sink} in yaml.safe_load(import_flow(flow).text)["replication"]


def test_a_start_at_the_end_is_warned_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seed 003: it violates at-least-once; and the prefix source.consumer. is required."""
    reset = "source.consumer.auto.offset.reset"
    path = tmp_path / "mm.yaml"
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    path.write_text(MIRROR_MAKER.replace("replication.factor: 3", f"{reset}: latest"))
    flow, notes = load_mirror(str(path))
    assert flow.properties.reset == "latest"
    assert any("violates at-least-once" in note for note in notes)
    path.write_text(path.read_text().replace("source.consumer.", ""))
    flow, notes = load_mirror(str(path))
    assert flow.properties.reset == "earliest"
    assert any("auto.offset.reset has no effect" in note for note in notes)
