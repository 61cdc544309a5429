"""A transaction timeout above the target's limit: found by a check, and the end of a start."""

from __future__ import annotations

from pathlib import Path

import pytest

from k2ktui.errors import ClusterRefused, ExitCode
from k2ktui.kafka.clients import target_cluster
from k2ktui.kafka.control.topics import ensure_control_topics
from k2ktui.kafka.properties.translation import wire
from k2ktui.replication.ownership.pipeline import make_ownership
from k2ktui.replication.preflight.checks import CheckOutcome, exit_code
from k2ktui.replication.preflight.suite import run_checks
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.brokers import KINDS, Brokers, KRaftNode
from tests.support.clusters.kafka import START_S, Out, create_topic, produce
from tests.support.pipelines.fixtures import MakePipeline
from tests.support.pipelines.preflight import named, pipeline, plain

_SETTING = "transaction.timeout.ms"
_TOO_LONG = {_SETTING: "1200000"}


def test_the_check_finds_a_timeout_above_the_limit(source: KafkaNode, target: KafkaNode) -> None:
    topic = create_topic(source)
    side = plain(target.bootstrap)
    side["kafka"]["producer"] = _TOO_LONG

    checks = run_checks(pipeline(source, side, topic))

    result = named(checks, "transaction timeout")
    assert result.outcome is CheckOutcome.FAIL and result.fatal
    assert "transaction.timeout.ms is 1,200,000 ms" in result.detail
    assert "transaction.max.timeout.ms is 900,000 ms" in result.detail
    assert "at most 900000" in result.hint
    assert exit_code(checks) is ExitCode.REFUSED
    assert named(run_checks(pipeline(source, target, topic)), result.name).outcome is (
        CheckOutcome.PASS
    )


@pytest.mark.slow
def test_a_start_ends_with_the_setting_and_the_fix(
    make_pipeline: MakePipeline, source: KafkaNode
) -> None:
    topic = create_topic(source)
    pipe = make_pipeline([topic], {"target.kafka.producer": _TOO_LONG})

    run = pipe.start()

    assert run.wait() == ExitCode.REFUSED, run.tail()
    assert "Set transaction.timeout.ms in target.kafka.producer to at most 900000" in run.tail()


@pytest.mark.parametrize("kind", ["", pytest.param("2.8", marks=pytest.mark.slow)])
def test_a_refusal_ends_a_take_over_where_nothing_could_be_checked(
    source: KafkaNode, target: KafkaNode, brokers: Brokers, kind: str
) -> None:
    to = brokers(kind)[0] if kind else target
    side = plain(to.bootstrap)
    side["kafka"]["producer"] = _TOO_LONG
    config = pipeline(source, side, create_topic(source))
    cluster = target_cluster(config)
    partitions = ensure_control_topics(config, cluster).commit_partitions
    ownership = make_ownership(config, cluster, wire(config.target, "producer"), partitions)
    try:
        with pytest.raises(ClusterRefused, match="1,200,000 ms, above its") as why:
            ownership.take_over(1)
    finally:
        ownership.close()
    assert "raise transaction.max.timeout.ms" in why.value.hint


@pytest.mark.slow
def test_a_limit_lowered_while_a_run_copies(
    make_pipeline: MakePipeline, source: KafkaNode, tmp_path: Path
) -> None:
    """The run says so at once, ends not, and continues by itself when the limit is raised."""
    topic = create_topic(source)
    most = "transaction.max.timeout.ms"
    node = KRaftNode("limited", tmp_path / "limited", {most: "60000"}, kind=KINDS["4-tv2"])
    try:
        pipe = make_pipeline([topic], None, node.start(START_S))
        pipe.waits_briefly = True
        produce(source, topic, [Out(b"first")])
        run = pipe.start()
        run.expect("firstrecord")
        node.restart_with({most: "30000"})
        words = "transaction.timeout.ms is 60,000 ms"
        # The broker's restart may have stopped it, too.
        stopped = run.expect("stopped", lambda e: words in e["fault"]["message"])["fault"]
        assert "transaction.max.timeout.ms" in stopped["hint"]
        reported = run.reported
        node.restart_with({most: "60000"})
        produce(source, topic, [Out(b"second")])
        run.expect("resumed", since=reported)
        pipe.await_more([Out(b"third")])
        pipe.end(run)
        pipe.prove()
    finally:
        node.close()
