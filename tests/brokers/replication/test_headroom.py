"""How long the source keeps what is not copied yet."""

from __future__ import annotations

import time
from typing import Any

import pytest

from k2ktui.cli.jobs import run_checks as start_checks_of_jobs
from k2ktui.config.model import PipelineConfig
from k2ktui.engine.moves.journal import RunKind
from k2ktui.engine.records.state import Position, SourcePartition, position_key, position_value
from k2ktui.replication.preflight import headroom as module
from k2ktui.replication.preflight.checks import Check, CheckOutcome
from k2ktui.replication.preflight.suite import run_checks
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import (
    TIMEOUT,
    Out,
    create_topic,
    delete_before,
    produce,
    start_offsets,
)
from tests.support.pipelines.preflight import named, pipeline
from tests.support.records.sent_batches import make_batch, send_batches


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy broker takes longer than a check waits for the time of a record."""
    monkeypatch.setattr(module, "_TIMESTAMPS_S", TIMEOUT)


def with_position(
    source: KafkaNode,
    target: KafkaNode,
    topic: str,
    offset: int,
    number: int = 0,
    **sections: Any,
) -> PipelineConfig:
    """A pipeline that has copied a partition of ``topic`` up to ``offset``."""
    config = pipeline(source, target, topic, **sections)
    commit = create_topic(
        target, config.coordination.commit.topic, config={"cleanup.policy": "compact"}
    )
    create_topic(target, topic)
    position = Position(offset, 0, -1, "", 1, 0, topic, 0)
    key = position_key(config.coordination.commit.group, SourcePartition(topic, number))
    produce(target, commit, [Out(position_value(position), key)])
    return config


def headroom(config: PipelineConfig) -> Check:
    return named(run_checks(config), "retention headroom")


@pytest.mark.parametrize(
    ("settings", "age_s", "outcome", "says"),
    [
        # However many minutes the check takes.
        ({"retention.ms": "86400000"}, 3601, CheckOutcome.PASS, "in 22 h "),
        ({"retention.ms": "86400000"}, 82801, CheckOutcome.FAIL, "in 5"),
        ({"retention.ms": "-1"}, 3600, CheckOutcome.PASS, "deletes no records by age"),
        ({"cleanup.policy": "compact"}, 3600, CheckOutcome.PASS, "deletes no records by age"),
        (
            {"retention.bytes": "1000000"},
            3600,
            CheckOutcome.UNKNOWN,
            "how soon retention.bytes deletes",
        ),
    ],
)
def test_headroom(
    source: KafkaNode,
    target: KafkaNode,
    settings: dict[str, str],
    age_s: int,
    outcome: CheckOutcome,
    says: str,
) -> None:
    topic = create_topic(source, config=settings)
    stamp = int(time.time() - age_s) * 1000
    produce(source, topic, [Out(b"v", b"k", timestamp=stamp) for _ in range(5)])

    check = headroom(with_position(source, target, topic, 2))

    assert (check.outcome, says in check.detail) == (outcome, True), check.detail
    assert "at most 3 records not copied in 1 partition" in check.detail


def test_the_age_of_records_without_a_timestamp_is_not_known(
    source: KafkaNode, target: KafkaNode
) -> None:
    """Brokers then delete by the age of the segment's file, which is not 57 years."""
    topic = create_topic(source, config={"retention.ms": "86400000"})
    send_batches(source, topic, [make_batch([b"v"] * 5, timestamp=-1)])

    check = headroom(with_position(source, target, topic, 2))

    assert check.outcome is CheckOutcome.UNKNOWN
    assert f"the age of their log segment, which is unknown: {topic}-0" in check.detail


def test_a_shortage_does_not_prevent_the_start_that_removes_it(
    source: KafkaNode, target: KafkaNode, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = create_topic(source, config={"retention.ms": "86400000"})
    stamp = int(time.time() - 86000) * 1000
    produce(source, topic, [Out(b"v", timestamp=stamp) for _ in range(5)])
    config = with_position(source, target, topic, 2)
    assert headroom(config).outcome is CheckOutcome.FAIL

    checks = start_checks_of_jobs(config, RunKind.COPY, force=False, take_over=False)

    assert named(checks, "retention headroom").outcome is CheckOutcome.WARN
    assert "warning" in capsys.readouterr().err


def test_headroom_when_all_is_copied(source: KafkaNode, target: KafkaNode) -> None:
    topic = create_topic(source)
    produce(source, topic, [b"a", b"b"])
    assert "1 partition caught up" in headroom(with_position(source, target, topic, 2)).detail


@pytest.mark.parametrize(("policy", "outcome"), [("fail", "fail"), ("continue", "pass")])
def test_records_lost_already(
    source: KafkaNode, target: KafkaNode, policy: str, outcome: str
) -> None:
    topic = create_topic(source)
    produce(source, topic, [b"a", b"b", b"c"])
    delete_before(source, topic, 2)
    assert start_offsets(source, topic) == {0: 2}

    check = headroom(with_position(source, target, topic, 0, onSourceDataLoss=policy))

    assert check.outcome == outcome
    assert f"{topic}-0 (2 offsets)" in check.detail


def test_a_partition_of_which_nothing_is_known(source: KafkaNode, target: KafkaNode) -> None:
    topic = create_topic(source)

    result = headroom(with_position(source, target, topic, 3, number=1))

    assert result.outcome is CheckOutcome.UNKNOWN
    assert f"the log bounds of {topic}-1 are unavailable" in result.detail
