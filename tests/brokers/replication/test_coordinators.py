"""Clusters that can have no coordinator: their internal topics need more brokers than there are."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from k2ktui.errors import ExitCode, Refused, TimedOut
from k2ktui.kafka.clients import target_cluster
from k2ktui.kafka.properties.translation import wire
from k2ktui.replication.ownership.pipeline import make_ownership
from k2ktui.replication.preflight.checks import CheckOutcome, exit_code
from k2ktui.replication.preflight.gate import require_startable
from k2ktui.replication.preflight.suite import run_checks
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import START_S, TIMEOUT, admin, create_topic
from tests.support.pipelines.preflight import named, pipeline

FACTORS = ("transaction.state.log.replication.factor", "offsets.topic.replication.factor")
INTERNAL = {"__transaction_state", "__consumer_offsets"}


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaNode]:
    """One broker with the factors of three."""
    node = KafkaNode("alone", tmp_path_factory.mktemp("alone"), dict.fromkeys(FACTORS, "3"))
    try:
        node.start(START_S)
        yield node
    finally:
        node.close()


def internal_topics(node: KafkaNode) -> set[str]:
    return INTERNAL.intersection(admin(node).list_topics(timeout=TIMEOUT).topics)


def test_a_target_without_coordinators_is_no_target(source: KafkaNode, alone: KafkaNode) -> None:
    config = pipeline(source, alone, create_topic(source))
    checks = run_checks(config)
    ids = named(checks, "target transactional ids")
    assert ids.outcome is CheckOutcome.FAIL and ids.fatal
    assert (
        "__transaction_state does not exist and cannot be created: the target cluster has 1 broker,"
        f" and {FACTORS[0]} is 3"
    ) in ids.detail
    groups = named(checks, "target group coordinator")
    assert groups.outcome is CheckOutcome.FAIL and not groups.fatal
    assert f"{FACTORS[1]} is 3: no group can be moved" in groups.detail
    assert exit_code(checks) is ExitCode.REFUSED
    # A run that waits as a standby asks this first.
    shown: list[str] = []
    with pytest.raises(Refused, match="not started: target transactional ids failed"):
        require_startable(config, lambda check: shown.append(check.name))
    assert "target group coordinator" in shown


def test_a_driver_says_why_there_is_no_coordinator(source: KafkaNode, alone: KafkaNode) -> None:
    """Where brokers do not tell their settings, a start cannot know whether to wait."""
    # By then, the broker must have answered.
    commit = {"commit": {"topic": create_topic(alone), "syncTimeout": "10 seconds"}}
    config = pipeline(source, alone, create_topic(source), coordination=commit)
    options = wire(config.target, "producer")
    ownership = make_ownership(config, target_cluster(config), options, 1)
    try:
        with pytest.raises(
            TimedOut, match=f"__transaction_state does not exist; the cluster has 1 .*{FACTORS[0]}"
        ):
            ownership.take_over(1)
    finally:
        ownership.close()


def test_a_source_is_not_asked_for_a_coordinator(
    alone: KafkaNode, target: KafkaNode, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Asking creates the internal topic, and nothing is created on the source."""
    checks = run_checks(pipeline(alone, target, create_topic(alone)))
    coordinator = named(checks, "source group coordinator")
    assert coordinator.outcome is CheckOutcome.WARN
    assert f"{FACTORS[1]} is 3: no group has offsets there" in coordinator.detail
    assert named(checks, "target group coordinator").outcome is CheckOutcome.PASS
    fresh = KafkaNode("fresh", tmp_path_factory.mktemp("fresh"))
    try:
        fresh.start(START_S)
        checks = run_checks(pipeline(fresh, target, create_topic(fresh)))
        assert not [check for check in checks if check.name == "source group coordinator"]
        assert internal_topics(fresh) == set()
    finally:
        fresh.close()
