"""What ``check`` says about the pipeline in the other direction, before anything is copied."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka.admin import AclOperation

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.records.cluster_pair import ClusterPair
from k2ktui.engine.records.producer_registration import (
    ProducerRegistration,
    registration_key,
    registration_value,
)
from k2ktui.engine.records.state import (
    Position,
    Run,
    SourcePartition,
    position_key,
    position_value,
    run_key,
    run_value,
)
from k2ktui.replication.preflight.checks import Check, CheckOutcome
from k2ktui.replication.preflight.suite import run_checks
from k2ktui.runtime.node import KafkaNode
from tests.brokers.replication.test_preflight import as_user
from tests.support.clusters.kafka import Out, create_topic, produce, unique_name
from tests.support.clusters.secure import SecureNode
from tests.support.pipelines.preflight import named, pipeline

OPPOSITE, RING = "opposite pipeline", "ring of clusters"
ENABLED = {"autoCreateControlTopics": "enabled", "bidirectionalReplication": "enabled"}


class Sites:
    """Two clusters with commit topics, and a pipeline that leaves out what came back."""

    def __init__(self, source: KafkaNode, target: KafkaNode) -> None:
        self.source, self.target = source, target
        self.commits = unique_name("commits")
        create_topic(source, self.commits)
        create_topic(target, self.commits, config={"cleanup.policy": "compact"})
        self.topic = create_topic(source)

    def config(
        self, mode: str = "provenance", opposite: str = "", **features: str
    ) -> PipelineConfig:
        return pipeline(
            self.source,
            self.target,
            self.topic,
            features={**ENABLED, **features},
            bidirectional={
                "mode": mode,
                **({"opposite": {"commitTopic": opposite}} if opposite else {}),
            },
            coordination={"commit": {"topic": self.commits, "group": "ours"}},
        )

    def run(self, on: KafkaNode, group: str, source: str, **fields: Any) -> None:
        """Write the run record of a pipeline into a cluster."""
        wanted = {"registers": True, "bidirectional": "provenance", **fields}
        run = Run(1, 1, group, pair=ClusterPair(source, on.cluster_id, "m"), **wanted)
        registration = ProducerRegistration(4711, source, on.cluster_id)
        produce(
            on,
            self.commits,
            [
                Out(run_value(run), run_key(group)),
                Out(registration_value(registration), registration_key(group, 4711)),
            ],
        )

    def back(self, **fields: Any) -> None:
        """Write the run record of the opposite pipeline."""
        self.run(self.source, "theirs", self.target.cluster_id, **fields)

    def check(self, name: str = OPPOSITE, mode: str = "provenance") -> Check:
        return named(run_checks(self.config(mode)), name)


@pytest.fixture
def sites(source: KafkaNode, target: KafkaNode) -> Sites:
    return Sites(source, target)


def test_an_opposite_pipeline_that_fits(sites: Sites) -> None:
    sites.back()
    result = sites.check()
    assert result.outcome is CheckOutcome.PASS
    assert result.detail == f"theirs has registered 1 producer id in {sites.commits}"
    assert sites.check(RING).outcome is CheckOutcome.PASS


def test_in_one_direction_nothing_is_checked(sites: Sites) -> None:
    config = sites.config(bidirectionalReplication="disabled")
    assert OPPOSITE not in [check.name for check in run_checks(config)]


def test_no_opposite_pipeline_yet(sites: Sites) -> None:
    """One of the two starts first, which is no warning; a name without a pipeline is one."""
    result = sites.check()
    assert result.outcome is CheckOutcome.PASS and sites.commits in result.detail
    result = named(run_checks(sites.config(opposite=sites.commits)), OPPOSITE)
    assert result.outcome is CheckOutcome.WARN and "config reverse" in result.hint
    assert sites.commits in result.detail and "bidirectional.opposite.commitTopic" in result.hint


def test_other_pipelines_where_the_opposite_one_is_looked_for(sites: Sites) -> None:
    sites.run(sites.source, "elsewhere", "another-cluster")
    assert sites.check().outcome is CheckOutcome.WARN


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"registers": False}, "theirs registers no producer ids"),
        ({"has_unregistered": True}, "the positions of theirs were recovered"),
        ({"bidirectional": ""}, "theirs copies all, so it would copy"),
        ({"bidirectional": "cluster"}, "theirs uses mode cluster"),
    ],
)
def test_an_opposite_pipeline_that_does_not_fit(
    sites: Sites, fields: dict[str, Any], why: str
) -> None:
    sites.back(**fields)
    result = sites.check()
    assert result.outcome is CheckOutcome.FAIL and result.fatal and why in result.detail
    assert "bidirectional.mode: provenance" in result.hint
    # If neither fits, one of the two has to start first.
    sites.run(sites.target, "ours", sites.source.cluster_id, **fields)
    result = sites.check()
    assert result.outcome is CheckOutcome.FAIL and not result.fatal


def test_pipelines_of_other_topics_are_not_compared(sites: Sites) -> None:
    sites.back()
    sites.run(sites.source, "others", sites.target.cluster_id, bidirectional="")
    for group, topic in (("others", "elsewhere"), ("theirs", sites.topic)):
        position = Position(1, 0, -1, "", 1, 0, topic, 0)
        key = position_key(group, SourcePartition("t", 0))
        produce(sites.source, sites.commits, [Out(position_value(position), key)])
    result = sites.check()
    assert result.outcome is CheckOutcome.PASS and "others" not in result.detail


def test_runs_of_an_earlier_release(sites: Sites) -> None:
    produce(sites.source, sites.commits, [Out(run_value(Run(1, 1, "old")), run_key("old"))])
    result = sites.check()
    assert result.outcome is CheckOutcome.UNKNOWN and "old" in result.detail


def of_another_release(out: Out) -> Out:
    assert out.value is not None
    return Out(out.value.replace(b'"v":1', b'"v":9'), out.key)


def test_records_of_another_release(sites: Sites) -> None:
    run = Out(run_value(Run(1, 1, "new")), run_key("new"))
    produce(sites.source, sites.commits, [of_another_release(run)])
    result = sites.check()
    assert result.outcome is CheckOutcome.UNKNOWN and "the runs of new in topic" in result.detail
    sites.back()
    registered = ProducerRegistration(5, sites.target.cluster_id, sites.source.cluster_id)
    record = Out(registration_value(registered), registration_key("new", 5))
    produce(sites.source, sites.commits, [of_another_release(record)])
    result = sites.check()
    assert result.outcome is CheckOutcome.WARN and "1 producer id registered" in result.detail
    assert "release" in result.hint


def test_the_same_mode_with_a_header(sites: Sites) -> None:
    sites.back(bidirectional="cluster", registers=False)
    result = sites.check(mode="cluster")
    assert result.outcome is CheckOutcome.PASS and "theirs uses the same mode" in result.detail


def test_a_third_cluster(sites: Sites) -> None:
    """Into the source only: perhaps a ring. Into both: its records would arrive twice."""
    sites.back()
    sites.run(sites.source, "third", "cluster-c")
    result = sites.check(RING)
    assert result.outcome is CheckOutcome.WARN and "cluster-c" in result.detail
    sites.run(sites.target, "third", "cluster-c")
    result = sites.check(RING)
    assert result.outcome is CheckOutcome.FAIL and result.fatal and "twice" in result.detail


def test_without_the_right_to_read_the_registrations(secure: SecureNode, target: KafkaNode) -> None:
    topic, commits = create_topic(secure.node), create_topic(secure.node)
    secure.allow("ann", [AclOperation.READ, AclOperation.DESCRIBE], topic)
    config = pipeline(
        as_user(secure, "ann"),
        target,
        topic,
        features=ENABLED,
        coordination={"commit": {"topic": unique_name("commits")}},
        bidirectional={"opposite": {"commitTopic": commits}},
    )
    result = named(run_checks(config), OPPOSITE)
    assert result.outcome is CheckOutcome.FAIL and result.fatal
    assert f"Grant the source principal Read on topic {commits}" in result.hint
    secure.allow("ann", [AclOperation.READ], commits)
    assert named(run_checks(config), OPPOSITE).outcome is CheckOutcome.WARN
