"""``mm2 import`` of every setting of MirrorMaker 2: a valid file, and a note on what it lacks."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from k2ktui.config.load import Loaded
from k2ktui.errors import ConfigError
from k2ktui.kafka.properties.table import ALL
from k2ktui.kafka.properties.translation import load_checked
from k2ktui.mm2.flows.settings import parse_settings
from k2ktui.mm2.importing.pipeline_file import Imported, import_flow
from tests.unit.mm2.test_resource_files import MIRROR_MAKER

HEAD = """clusters = A, B
A.bootstrap.servers = a:9092
B.bootstrap.servers = b:9092
A->B.enabled = true
"""
JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";'
# What an operator sets the variables of an imported file to.
VALUES = {
    "SASL_MECHANISM": "PLAIN",
    "SASL_JAAS_CONFIG": JAAS,
    "SECURITY_PROTOCOL": "PLAINTEXT",
    "BOOTSTRAP_SERVERS": "host:9092",
}
# Names of MirrorConnectorConfig, MirrorSourceConfig, MirrorCheckpointConfig,
# MirrorHeartbeatConfig, ConnectorConfig and SourceConnectorConfig of Kafka 4.
CONNECTOR_SETTINGS = """
name connector.class connector.plugin.version tasks.max tasks.max.enforce key.converter
key.converter.plugin.version value.converter header.converter transforms predicates
config.action.reload errors.retry.timeout errors.tolerance errors.log.enable topic.creation.groups
exactly.once.support transaction.boundary transaction.boundary.interval.ms offsets.storage.topic
enabled source.cluster.alias target.cluster.alias replication.policy.class
replication.policy.separator replication.policy.internal.topic.separator.enabled replication.factor
admin.timeout.ms forwarding.admin.class metric.reporters metrics.sample.window.ms topics
topics.exclude config.properties.exclude config.property.filter.class topic.filter.class
add.source.alias.to.metrics consumer.poll.timeout.ms offset.lag.max offset-syncs.topic.location
offset-syncs.topic.replication.factor emit.offset-syncs.enabled refresh.topics.enabled
refresh.topics.interval.seconds sync.topic.configs.enabled sync.topic.configs.interval.seconds
sync.topic.acls.enabled sync.topic.acls.interval.seconds use.incremental.alter.configs
heartbeats.replication.enabled groups groups.exclude group.filter.class
checkpoints.topic.replication.factor refresh.groups.enabled refresh.groups.interval.seconds
emit.checkpoints.enabled emit.checkpoints.interval.seconds sync.group.offsets.enabled
sync.group.offsets.interval.seconds emit.heartbeats.enabled emit.heartbeats.interval.seconds
heartbeats.topic.replication.factor
""".split()  # noqa: SIM905
# Names of DistributedConfig and WorkerConfig.
WORKER_SETTINGS = """
group.id session.timeout.ms heartbeat.interval.ms rebalance.timeout.ms worker.sync.timeout.ms
worker.unsync.backoff.ms connect.protocol scheduled.rebalance.max.delay.ms
inter.worker.key.generation.algorithm offset.storage.topic offset.storage.partitions
offset.storage.replication.factor config.storage.topic config.storage.replication.factor
status.storage.topic status.storage.partitions status.storage.replication.factor
exactly.once.source.support offset.flush.interval.ms offset.flush.timeout.ms
task.shutdown.graceful.timeout.ms listeners rest.advertised.host.name admin.listeners
access.control.allow.origin response.http.headers.config plugin.path plugin.discovery
config.providers topic.tracking.enable topic.creation.enable key.converter value.converter
connector.client.config.override.policy metrics.num.samples
""".split()  # noqa: SIM905
UNKNOWN = "MirrorMaker 2 has no such setting"
CARRIED = {
    "enabled",
    "topics",
    "topics.exclude",
    "groups",
    "groups.exclude",
    "topic.filter.class",
    "group.filter.class",
    "replication.factor",
    "config.properties.exclude",
    "config.providers",
    "sync.topic.configs.enabled",
    "sync.topic.acls.enabled",
    "source.cluster.alias",
    "target.cluster.alias",
    "replication.policy.class",
    "replication.policy.separator",
    "replication.policy.internal.topic.separator.enabled",
    "sync.group.offsets.interval.seconds",
    "emit.checkpoints.interval.seconds",
}
USUAL = {
    "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
    "topic.filter.class": "org.apache.kafka.connect.mirror.DefaultTopicFilter",
    "group.filter.class": "org.apache.kafka.connect.mirror.DefaultGroupFilter",
    "replication.policy.separator": "_",
    "enabled": "true",
    "config.providers": "",
    "offset-syncs.topic.location": "target",
}


def imported(lines: Mapping[str, str]) -> Imported:
    text = HEAD + "".join(f"{key} = {value}\n" for key, value in lines.items())
    flow = parse_settings(text.encode("latin-1"), "mm2.properties", None).flow("A->B")
    return import_flow(flow)


def validated(result: Imported, directory: Path) -> Loaded:
    """Load the file as ``config validate`` does, with the variables that its notes name."""
    path = directory / "pipeline.yaml"
    path.write_text(result.text)
    with pytest.MonkeyPatch.context() as patch:
        for name in re.findall(r"\$\{env:string:(\w+)\}", result.text):
            assert any(name in note for note in result.notes), name
            usual = (value for key, value in VALUES.items() if name.endswith(key))
            patch.setitem(os.environ, name, next(usual, ""))
        return load_checked([path])


@pytest.mark.parametrize("key", CONNECTOR_SETTINGS)
@pytest.mark.parametrize("prefix", ["", "A->B."])
def test_settings_of_connectors(prefix: str, key: str, tmp_path: Path) -> None:
    """Each is carried over, or noted with its counterpart."""
    if key.endswith(".cluster.alias") and prefix:
        return  # in this file the aliases are those of clusters
    result = imported({f"{prefix}{key}": USUAL.get(key, "5")})
    validated(result, tmp_path)
    mine = [note for note in result.notes if note.startswith(f"{key}: not carried over; ")]
    assert bool(mine) is (key not in CARRIED), result.notes
    assert not any(UNKNOWN in note for note in result.notes)


@pytest.mark.parametrize("key", WORKER_SETTINGS)
def test_settings_of_workers(key: str, tmp_path: Path) -> None:
    result = imported({f"B.{key}": "5" if key != "config.providers" else ""})
    validated(result, tmp_path)
    mine = [note for note in result.notes if note.startswith(f"B.{key}: not carried over; ")]
    assert bool(mine) is (key not in CARRIED), result.notes
    assert not any(UNKNOWN in note for note in result.notes)


@pytest.mark.parametrize(
    ("lines", "kept", "words"),
    [
        ({"B.producer.acks": "1"}, False, "every write is acknowledged by all in-sync replicas"),
        ({"B.producer.acks": "all"}, True, ""),
        ({"B.producer.acks": "2"}, False, "expected all, -1, 0, 1"),
        ({"A->B.target.producer.enable.idempotence": "false"}, False, "every write is idempotent"),
        ({"B.producer.compression.type": "zstd"}, True, ""),
        ({"A.consumer.client.rack": "r1"}, True, ""),
        ({"A.consumer.fetch.min.bytes": "many"}, False, "expected a whole number"),
        ({"A.consumer.isolation.level": "read_uncommitted"}, False, "never copies records of"),
        ({"A.consumer.interceptor.classes": "x.Y"}, False, "a Java class cannot be loaded"),
        ({"A.consumer.what.ever": "1"}, False, "unknown property"),
        ({"A.producer.linger.ms": "1"}, False, "k2ktui writes nothing to the source"),
        ({"B.consumer.max.poll.records": "1"}, False, "target.kafka.consumer is its counterpart"),
        ({"consumer.max.poll.records": "1"}, False, "it has no effect in MirrorMaker 2"),
        ({"B.producer.bootstrap.servers": "c:1"}, True, ""),
    ],
)
def test_client_properties(lines: dict[str, str], kept: bool, words: str, tmp_path: Path) -> None:
    """Those that have an effect are carried over; the others are noted with the reason."""
    result = imported(lines)
    config = validated(result, tmp_path).config
    (key,) = lines
    name = re.sub(r".*?(consumer|producer)\.", "", key)
    side = config.target if "producer" in key else config.source
    role = side.kafka.producer if "producer" in key else side.kafka.consumer
    assert (name in role) is kept
    assert words in "; ".join(note for note in result.notes if name in note)


def test_a_login_that_a_pipeline_cannot_have_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Whether or not the extra kerberos is installed here.
    monkeypatch.setitem(sys.modules, "gssapi", None)
    result = imported({"A.security.protocol": "SASL_PLAINTEXT", "A.sasl.mechanism": "GSSAPI"})
    common = yaml.safe_load(result.text)["source"]["kafka"]["common"]
    assert common["sasl.mechanism"] == "${env:string:SOURCE_SASL_MECHANISM}"
    assert common["sasl.jaas.config"] == "${env:string:SOURCE_SASL_JAAS_CONFIG}"
    assert any("sasl.mechanism cannot be used (Kerberos" in note for note in result.notes)
    validated(result, tmp_path)


@pytest.mark.parametrize("value", ["0", "-1", "x", "²"])
@pytest.mark.parametrize("key", ["sync.group.offsets.interval.seconds", "replication.factor"])
def test_numbers_that_a_pipeline_cannot_have(key: str, value: str, tmp_path: Path) -> None:
    result = imported({key: value})
    validated(result, tmp_path)
    assert any(note.startswith(f"{key}: ") for note in result.notes), result.notes


def test_what_is_kept_in_step_is_carried_over(tmp_path: Path) -> None:
    """Only what the file says: a default of MirrorMaker 2 changes nothing on the target."""
    assert "parity" not in yaml.safe_load(imported({}).text)
    lines = {
        "sync.topic.configs.enabled": "true",
        "A->B.sync.topic.acls.enabled": "false",
        "config.properties.exclude": "min.insync.replicas, follower\\\\..*",
    }
    result = imported(lines)
    parity = validated(result, tmp_path).config.parity
    assert parity.topic_configs.mode == "apply" and parity.acls.mode == "off"
    assert parity.topic_configs.exclude == ("min.insync.replicas", r"follower\..*")
    assert any("takes whole names" in note for note in result.notes)
    result = imported({"sync.topic.acls.enabled": "perhaps"})
    assert validated(result, tmp_path).config.parity.acls.mode == "report"
    assert any("neither true nor false" in note for note in result.notes)


def test_an_exclusion_that_python_does_not_know_is_noted(tmp_path: Path) -> None:
    result = imported({"config.properties.exclude": "a(b"})
    exclude = validated(result, tmp_path).config.parity.topic_configs.exclude
    assert exclude != ("a(b",)
    assert any("parity.topicConfigs.exclude is its counterpart" in n for n in result.notes)


SMT = "org.apache.kafka.connect.transforms"


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("transforms", "mask", "replication.transform, replication.headers and replication.sink.t"),
        ("transforms.mask.type", f"{SMT}.MaskField$Value", "decode, set and drop"),
        ("transforms.mask.type", "com.own.Mask", "decode, set and drop"),
        ("transforms.mask.type", f"{SMT}.Filter", "filter of a replication.transform rule"),
        ("transforms.mask.type", f"{SMT}.InsertHeader", "add of a replication.headers rule"),
        ("transforms.mask.type", f"{SMT}.DropHeaders", "drop of a replication.headers rule"),
        ("transforms.mask.type", f"{SMT}.RegexRouter", "replication.sink.topic"),
        ("transforms.mask.type", f"{SMT}.TimestampRouter", "replication.sink.topic with an expr"),
        ("transforms.mask.fields", "card", "replication.transform"),
        ("predicates", "p", "topics and filter of a replication.transform rule"),
        ("predicates.p.type", f"{SMT}.predicates.TopicNameMatches", "topics of the rule"),
        ("predicates.p.type", f"{SMT}.predicates.RecordIsTombstone", "value IS NULL"),
        ("predicates.p.type", f"{SMT}.predicates.HasHeaderKey", "exists(headers, h -> h.key = "),
        ("errors.tolerance", "all", "onError of a replication.transform rule"),
        ("errors.retry.timeout", "10", "onError of its replication.transform rule"),
        ("errors.log.enable", "true", "onError of its replication.transform rule"),
    ],
)
def test_what_changes_records_has_counterparts(key: str, value: str, words: str) -> None:
    """They cannot be carried over: they are Java classes, and Spark SQL is written by hand."""
    result = imported({key: value})
    (note,) = [note for note in result.notes if note.startswith(f"{key}: not carried over; ")]
    assert words in note


def test_every_key_of_a_strimzi_resource(tmp_path: Path) -> None:
    text = MIRROR_MAKER.replace("tasksMax: 1", "autoRestart: {enabled: true}\n      pause: true")
    text = text.replace("scram-sha-512", "plain").replace("trustedCertificates:", "x:")
    result = import_flow(parse_settings(text.encode(), "mm.yaml", None).flow())
    assert validated(result, tmp_path).config.parity.acls.mode == "off"
    for key in ("spec.version", "spec.replicas", "sourceConnector.autoRestart", ".pause"):
        assert any(f"{key}: not carried over; " in note for note in result.notes), key
    assert not any("mirrormaker2-cluster" in note for note in result.notes)
    assert not any(UNKNOWN in note for note in result.notes)


names = st.sampled_from(sorted(ALL) + CONNECTOR_SETTINGS + WORKER_SETTINGS)
prefixes = st.sampled_from(
    """
    _ A. B. A->B. A.consumer. B.producer. A.admin. B.admin. B.consumer. A.producer.
    A->B.source.consumer. A->B.target.producer. A->B.source.cluster.
    """.replace("_", "").split(" ")
).map(str.strip)
values = st.one_of(
    st.sampled_from(["", "0", "1", "-1", "9" * 30, "true", "none", "latest", "all", "zstd"]),
    st.sampled_from(["SASL_SSL", "SSL", "PLAIN", "GSSAPI", "OAUTHBEARER", JAAS, "JKS", "PEM"]),
    st.sampled_from(
        ["x.y.Z", "${file:/f:k}", "a ${env:X} b", "/no/file", "\\u001b[31m", "a:1,b:2"]
    ),
)


@settings(
    deadline=None, max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.dictionaries(st.tuples(prefixes, names).map("".join), values, max_size=6))
@example({"config.properties.exclude": "a.b, ${file:/f:k}"})
@example({"config.properties.blacklist": "a ${env:X} b"})
def test_an_imported_file_is_always_valid(tmp_path: Path, lines: dict[str, str]) -> None:
    """Or nothing is written, because MirrorMaker 2's own file is refused."""
    try:
        result = imported(lines)
    except ConfigError as error:
        assert re.search("^the configuration has|cannot be expressed as a pipe", error.message)
        return
    try:
        validated(result, tmp_path)
    except ConfigError as error:
        # A variable's value was made up here; what is in the file itself is valid.
        for line in error.message.splitlines()[1:]:
            number = re.search(r"pipeline\.yaml:(\d+):", line)
            assert number and "${env:" in result.text.splitlines()[int(number[1]) - 1], line
