"""D02 to D04, D29 to D31 and D33 on real clusters, each with what makes it fail."""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from k2ktui.drill.checks.context import DrillFacts
from k2ktui.engine.drill.checks import DrillKind
from k2ktui.kafka.admin import probe
from k2ktui.kafka.admin.acls import allow_writes, denied_topics, deny_writes
from k2ktui.kafka.clients import Cluster
from k2ktui.runtime.node import KafkaNode
from k2ktui.sync.flow import Flow
from tests.support.clusters.brokers import Kind, ZooKeeperNode
from tests.support.clusters.kafka import (
    START_S,
    Out,
    create_topic,
    eventually,
    produce,
    unique_name,
)
from tests.support.clusters.quotas import limited
from tests.support.clusters.registries import Registries, avro_record, own_ids, register
from tests.support.clusters.registry_stand_in import registry_stand_in
from tests.support.clusters.secure import SecureNode
from tests.support.drill.checks import FAIL, PASS, QUICK, UNKNOWN, Drilled, run_check
from tests.support.http.server import Handler, http_server
from tests.support.pipelines.preflight import pipeline, plain

# Each test makes its own copy.
pytestmark = pytest.mark.slow


@pytest.fixture
def drilled(source: KafkaNode, target: KafkaNode, tmp_path: Path) -> Drilled:
    return Drilled(tmp_path, source, target)


def test_d02_versions(source: KafkaNode, target: KafkaNode) -> None:
    result = run_check(Flow(pipeline(source, target, "t")), "D02")
    assert result.outcome is PASS
    assert "source Kafka 4." in result.evidence and "target Kafka 4." in result.evidence


def test_d02_a_broker_that_is_too_old(source: KafkaNode, tmp_path: Path) -> None:
    old = ZooKeeperNode("old", tmp_path / "old", kind=Kind("2.4.1", zookeeper=True))
    try:
        old.start(START_S)
        flow = Flow(pipeline(source, old, "t"))

        result = run_check(flow, "D02")

        assert result.outcome is FAIL
        assert "the target lacks InitProducerIdRequest" in result.evidence
        assert "Kafka 2.5" in result.hint
    finally:
        old.close()


def test_d03_credentials(secure: SecureNode, target: KafkaNode) -> None:
    topic = create_topic(secure.node)
    secure.allow("reader", [AclOperation.READ, AclOperation.DESCRIBE], topic)
    side = {"kafka": {"common": secure.java("reader")}}
    result = run_check(Flow(pipeline(side, target, topic)), "D03")
    assert result.outcome is PASS
    assert result.evidence.startswith("5 client roles can log in")

    # No Read on the topic.
    other = create_topic(secure.node)
    result = run_check(Flow(pipeline(side, target, other)), "D03")
    assert result.outcome is FAIL and "no Read on 1 topic" in result.evidence
    assert "kafka-acls.sh" in result.hint

    wrong = {"kafka": {"common": secure.java("reader", "wrong")}}
    result = run_check(Flow(pipeline(wrong, target, topic)), "D03")
    assert result.outcome is FAIL and "rejected the login" in result.evidence
    assert "sasl.jaas.config" in result.hint and "wrong" not in result.evidence

    away = run_check(Flow(pipeline(plain("127.0.0.1:1"), target, topic)), "D03")
    assert away.outcome is UNKNOWN and "3 client roles can log in" in away.evidence


def test_d04_clocks(source: KafkaNode, target: KafkaNode, monkeypatch: pytest.MonkeyPatch) -> None:
    flow = Flow(pipeline(source, target, "t"))
    result = run_check(flow, "D04")
    assert result.outcome is PASS and "this machine's clock" in result.evidence

    class Late:
        """This machine's clock, an hour behind."""

        monotonic = staticmethod(time.monotonic)

        @staticmethod
        def time() -> float:
            return clock() - 3600

    clock = time.time
    monkeypatch.setattr(probe, "time", Late)

    result = run_check(flow, "D04")
    assert result.outcome is FAIL
    assert (
        re.search(r"source 3,[56]\d\d\.\d+ s ahead", result.evidence)
        and "at most 5 s are allowed" in result.evidence
    )


def test_d29_acls(secure: SecureNode) -> None:
    node = secure.node
    topic, user = create_topic(node), "reader"
    secure.allow(user, [AclOperation.READ], topic)
    copied = create_topic(node, f"b.{topic}")
    # One cluster with an authorizer stands for both; the names of the topics differ.
    sections = {"replication": {"source": {"topic": [topic]}, "sink": {"topic": {"prefix": "b."}}}}
    flow = Flow(pipeline(node, node, **sections))

    result = run_check(flow, "D29")
    assert result.outcome is FAIL
    assert f"missing ALLOW User:{user} READ on TOPIC {copied}" in result.evidence

    secure.allow(user, [AclOperation.READ], copied)
    assert run_check(flow, "D29").outcome is PASS

    cluster = Cluster(flow.config.target, "target")
    deny_writes(cluster, [copied])
    eventually(lambda: denied_topics(cluster, [copied]), "the broker denies it")
    try:
        result = run_check(flow, "D29")
        assert result.outcome is FAIL
        assert f"DENY User:* WRITE on TOPIC {copied}" in result.evidence
    finally:
        allow_writes(cluster, [copied])
        eventually(lambda: not denied_topics(cluster, [copied]), "the broker allows it again")


def test_d29_rights_of_groups(secure: SecureNode, target: KafkaNode) -> None:
    group = unique_name("g")
    topic = create_topic(secure.node)
    secure.allow("ann", [AclOperation.READ], group, ResourceType.GROUP)

    # A target without an authorizer denies nothing; a source without one shows nothing.
    assert run_check(Flow(pipeline(secure.node, target, topic)), "D29").outcome is PASS
    result = run_check(Flow(pipeline(target, secure.node, topic)), "D29")
    assert result.outcome is UNKNOWN and "the source has no authorizer" in result.evidence


def test_d30_quotas(drilled: Drilled) -> None:
    result = drilled.check("D30")
    assert result.outcome is PASS and "0 lower on the target" in result.evidence

    with limited(drilled.target, unique_name("app"), producer_byte_rate=1000.0):
        result = drilled.check("D30")
        assert result.outcome is FAIL
        assert result.evidence.endswith("producer_byte_rate 1,000, unlimited on the source")


@pytest.fixture
def registry() -> Iterator[str]:
    """A schema registry with the ids 7 and 8."""

    class Registry(Handler):
        def do_GET(self) -> None:
            known = self.path in ("/schemas/ids/7", "/schemas/ids/8")
            body = json.dumps({"schema": "{}"} if known else {"error_code": 40403}).encode()
            self.reply(200 if known else 404, body)

    with http_server(Registry) as url:
        yield f"{url}/"


def test_d31_schema_ids(drilled: Drilled, registry: str) -> None:
    result = drilled.check("D31")
    assert result.outcome is PASS and "none has a schema id" in result.evidence

    def put(schema_id: int) -> None:
        value = b"\0" + schema_id.to_bytes(4, "big") + b"payload"
        produce(drilled.target, drilled.topic, [Out(value)])

    put(7)
    put(8)
    result = drilled.check("D31")
    assert result.outcome is UNKNOWN and "2 ids; the registry" in result.evidence
    facts = DrillFacts(registry=registry)
    result = drilled.check("D31", facts)
    assert result.outcome is PASS and result.evidence.endswith("has 2 of 2 that were asked for")

    put(9)
    result = drilled.check("D31", facts)
    assert result.outcome is FAIL and "1 of 3 not in the registry: 9" in result.evidence

    gone = drilled.check("D31", DrillFacts(registry="http://127.0.0.1:1"))
    assert gone.outcome is UNKNOWN and "cannot be reached" in gone.evidence
    assert drilled.check("D31", DrillFacts(registry="file:///etc/passwd")).outcome is UNKNOWN


def test_d31_asks_the_registry_of_a_pipeline_that_maps_schemas(
    drilled: Drilled, registries: Registries
) -> None:
    """Ids of every form: in payloads, and in the headers of Confluent and Apicurio."""
    subject, schema = unique_name("subject"), avro_record("Known", "a")
    known = register(registries.target, subject, schema)
    register(registries.target, unique_name("twin"), schema)  # gets another global id
    own = own_ids(registries.target, subject)
    headers = (
        ("__value_schema_id", b"\0" + known.to_bytes(4, "big")),
        ("apicurio.value.contentId", own["contentId"].to_bytes(8, "big")),
        ("apicurio.value.globalId", own["globalId"].to_bytes(8, "big")),
    )
    sent = [Out(b"data", headers=(header,)) for header in headers]
    sent += [Out(b"\0" + known.to_bytes(width, "big") + b"data") for width in (4, 8)]
    produce(drilled.target, drilled.topic, sent)
    drilled.map_schemas(registries)
    result = drilled.check("D31")
    assert result.outcome is PASS and result.evidence.endswith("has 5 of 5 that were asked for")

    missing = (4_000_000).to_bytes(8, "big")
    produce(
        drilled.target,
        drilled.topic,
        [
            Out(b"\0" + missing[4:] + b"data"),
            Out(b"\0" + missing + b"data"),
            Out(b"key", b"data", headers=(("apicurio.key.globalId", missing),)),
        ],
    )
    result = drilled.check("D31")
    assert result.outcome is FAIL
    shown = "4000000, 4000000 (globalIdHeader), 4000000 (longPrefix)"
    assert f"3 of 8 not in the registry: {shown}" in result.evidence


def test_d31_guids(drilled: Drilled) -> None:
    with registry_stand_in() as there:
        known = register(there, "subject", avro_record("Known", "a"))
        facts = DrillFacts(registry=there.url)

        def put(guid: uuid.UUID) -> None:
            header = ("__key_schema_id", b"\1" + guid.bytes)
            produce(drilled.target, drilled.topic, [Out(b"value", b"key", headers=(header,))])

        put(uuid.UUID(there.guid(known)))
        result = drilled.check("D31", facts)
        assert result.outcome is PASS and result.evidence.endswith("has 1 of 1 that were asked for")
        unknown = uuid.uuid4()
        put(unknown)
        result = drilled.check("D31", facts)
        assert result.outcome is FAIL
        assert f"1 of 2 not in the registry: {unknown}" in result.evidence


def test_d33_disk_space(drilled: Drilled) -> None:
    result = drilled.check("D33", limits=replace(QUICK, free_space=0.0))
    assert result.outcome is PASS and "log directories of 1 broker: 1" in result.evidence

    result = drilled.check("D33", limits=replace(QUICK, free_space=1.0))
    assert result.outcome is FAIL and "at least 100.0% wanted" in result.evidence


def test_checks_of_the_target_work_in_a_disaster(drilled: Drilled) -> None:
    settings = {"source": {"kafka": {"common": {"bootstrap.servers": "127.0.0.1:1"}}}}
    drilled.copied.settings = {**drilled.copied.settings, **settings}
    facts = DrillFacts(kind=DrillKind.DISASTER)
    assert drilled.check("D31", facts).outcome is UNKNOWN
    assert drilled.check("D33", facts, replace(QUICK, free_space=0.0)).outcome is PASS
