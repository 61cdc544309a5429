"""D26 to D28, D32 and D34 on real clusters, each with what makes it fail."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.admin import AclOperation

from k2ktui.runtime.node import KafkaNode
from k2ktui.sync.flow import Flow
from tests.support.clusters.brokers import Brokers
from tests.support.clusters.kafka import (
    alter_topic,
    await_leaders,
    create_topic,
    delete_before,
    delete_topic,
    eventually,
    grow_topic,
    unique_name,
)
from tests.support.clusters.secure import SecureNode
from tests.support.drill.checks import (
    FAIL,
    PASS,
    QUICK,
    UNKNOWN,
    Drilled,
    run_check,
)
from tests.support.pipelines.preflight import pipeline

# Each test makes its own copy.
pytestmark = pytest.mark.slow


@pytest.fixture
def drilled(source: KafkaNode, target: KafkaNode, tmp_path: Path) -> Drilled:
    return Drilled(tmp_path, source, target)


def test_d26_partition_counts(drilled: Drilled) -> None:
    result = drilled.check("D26")
    assert result.outcome is PASS
    assert result.evidence == "1 topic, 2 partitions on the source, 0 topics with another count"

    grow_topic(drilled.source, drilled.topic, 4)

    result = drilled.check("D26")
    assert result.outcome is FAIL
    assert f"1 topic with another count: {drilled.topic}: 4 and 2" in result.evidence
    assert "--partitions 4" in result.hint

    delete_topic(drilled.target, drilled.topic)
    result = drilled.check("D26")
    assert (
        result.outcome is FAIL and f"1 topic not on the target: {drilled.topic}" in result.evidence
    )


def test_d27_topic_settings(drilled: Drilled) -> None:
    result = drilled.check("D27")
    assert result.outcome is PASS and result.evidence == "1 topic: 0 settings not equal"

    alter_topic(drilled.target, drilled.topic, cleanup_policy="compact", max_message_bytes="1000")

    result = drilled.check("D27")
    assert result.outcome is FAIL and result.evidence.startswith("1 topic: 2 settings not equal")
    assert "cleanup.policy compact on the target, delete on the source" in result.evidence
    assert "cleanup.policy=delete" in result.hint


def test_d28_retention_on_the_target(drilled: Drilled) -> None:
    drilled.commit("a", 2, 2)
    result = drilled.check("D28")
    assert result.outcome is PASS
    assert result.evidence == (
        "1 topic kept for 1 d 0 h or as on the source: 1; 0 unread records already deleted there"
    )

    alter_topic(drilled.target, drilled.topic, retention_ms="3600000")

    result = drilled.check("D28")
    assert result.outcome is FAIL and f"shortest {drilled.topic}: 1 h 0 m" in result.evidence


def test_d28_records_that_the_target_has_deleted(drilled: Drilled) -> None:

    group = drilled.commit("a", 2, 5)
    delete_before(drilled.target, drilled.topic, 4)

    result = drilled.check("D28")

    assert result.outcome is FAIL
    assert "2 unread records already deleted there" in result.evidence
    assert f"{group} {drilled.topic}-0" in result.evidence


def test_d32_replicas(source: KafkaNode, brokers: Brokers) -> None:
    two = brokers.two
    topic = create_topic(source)
    create_topic(two, topic, replicas=[[1, 2], [1, 2]])
    await_leaders(two.first, topic, 2)
    # Other tests leave control topics of the default names on these brokers.
    own = {
        purpose: {"topic": unique_name(purpose)} for purpose in ("commit", "assignment", "state")
    }
    metrics = {"kafka": {"topic": unique_name("metrics")}}
    flow = Flow(pipeline(source, two.first, topic, coordination=own, metrics=metrics))
    # A replica that stands still for two seconds on a busy machine is out of sync for a while.
    result = eventually(
        lambda: (result := run_check(flow, "D32")).outcome is PASS and result, "both are in sync"
    )
    assert result.evidence.startswith("2 partitions: 0 without a leader, 0 under-replicated")

    two.second.kill()
    try:
        # Partitions with different leaders lose their replica one after the other.
        failed = eventually(
            lambda: "2 under-replicated" in (result := run_check(flow, "D32")).evidence and result,
            "the replicas are out of sync",
        )
        assert failed.outcome is FAIL
        assert f"2 under-replicated; replication factor (topics): 2 (1); {topic}" in failed.evidence
    finally:
        two.start()


def test_d32_on_one_broker(drilled: Drilled) -> None:
    result = drilled.check("D32")
    assert result.outcome is PASS and "0 under-replicated" in result.evidence


def test_d34_topic_names(source: KafkaNode, target: KafkaNode) -> None:
    topic = create_topic(source, unique_name("orders"))
    sections = {"replication": {"source": {"topic": [topic]}, "sink": {"topic": {"prefix": "b."}}}}
    flow = Flow(pipeline(source, target, **sections))
    result = run_check(flow, "D34")
    assert result.outcome is FAIL and f"not on the target: b.{topic}" in result.evidence

    create_topic(target, f"b.{topic}")
    result = run_check(flow, "D34")
    assert result.outcome is PASS
    assert result.evidence == (
        f"1 topic: 0 keep their name, 1 renamed (clients use b.{topic} for {topic})"
    )

    create_topic(target, topic)
    result = run_check(flow, "D34")
    assert result.outcome is FAIL
    assert f"with the old name and other records: {topic}" in result.evidence


def test_without_the_source_parity_is_could_not_check(target: KafkaNode) -> None:
    from tests.support.pipelines.preflight import plain

    flow = Flow(pipeline(plain("127.0.0.1:1"), target, "t"))
    for check_id in ("D26", "D27", "D30"):
        result = run_check(flow, check_id, limits=QUICK)
        assert result.outcome is UNKNOWN and "connection refused" in result.evidence
    # What the source allows does not matter where nothing is denied.
    result = run_check(flow, "D29", limits=QUICK)
    assert result.outcome is PASS and "the target has no authorizer" in result.evidence


def test_acls_without_the_source_and_without_a_record_of_them(secure: SecureNode) -> None:
    from tests.support.pipelines.preflight import plain

    flow = Flow(pipeline(plain("127.0.0.1:1"), secure.node, unique_name("t")))
    secure.allow("reader", [AclOperation.READ], unique_name("t"))
    result = run_check(flow, "D29", limits=QUICK)
    assert result.outcome is UNKNOWN
    assert "the target has no record of its access rules" in result.evidence
