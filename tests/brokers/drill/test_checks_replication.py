"""D06 to D13, and D49, on real clusters, each with what makes it fail."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from pathlib import Path

import pytest

from k2ktui.drill.checks.context import DrillFacts
from k2ktui.engine.drill.checks import DrillPhase
from k2ktui.engine.moves.journal import RunnerState
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import (
    TIMEOUT,
    Out,
    create_topic,
    delete_before,
    delete_topic,
    eventually,
    open_transaction,
    produce,
)
from tests.support.commands.cli import k2ktui
from tests.support.drill.checks import FAIL, PASS, QUICK, UNKNOWN, Drilled

# Each test makes its own copy.
pytestmark = pytest.mark.slow


@pytest.fixture
def drilled(source: KafkaNode, target: KafkaNode, tmp_path: Path) -> Drilled:
    return Drilled(tmp_path, source, target)


def test_d06_lag(drilled: Drilled) -> None:
    result = drilled.check("D06")
    assert result.outcome is PASS
    assert result.evidence.startswith("0 of 2 partitions behind; worst lag 0 records, 0 s")

    drilled.write(QUICK.lag_records + 1)

    result = drilled.check("D06")
    assert result.outcome is FAIL
    assert "2 of 2 partitions behind; worst lag 1,001 records" in result.evidence
    assert f"{drilled.topic}-0" in result.evidence and "k2ktui watch" in result.hint


def test_d49_held_topics(drilled: Drilled) -> None:
    result = drilled.check("D49")
    assert (result.outcome, result.evidence) == (PASS, "nothing is held")

    file = drilled.copied.file
    k2ktui("hold", "-f", file, f"{drilled.topic}:1", "--why", "a migration", "--yes")
    drilled.write(3)
    result = drilled.check("D49")
    assert result.outcome is FAIL and "k2ktui release" in result.hint
    assert result.evidence.startswith(f"1 hold, 3 records not copied: {drilled.topic}:1 held by ")
    assert "(a migration)" in result.evidence

    k2ktui("release", "-f", file, drilled.topic, "--yes")
    assert drilled.check("D49").outcome is PASS


def test_d07_heartbeat(drilled: Drilled) -> None:
    assert "has ever sent a heartbeat" in drilled.check("D07").evidence

    drilled.beat(age_s=90, state=RunnerState.STOPPED)
    result = drilled.check("D07")
    assert result.outcome is FAIL and re.search(r"copied-\S+ 1 m \d+ s ago", result.evidence)

    drilled.beat()
    result = drilled.check("D07")
    assert result.outcome is PASS and "newest commit" in result.evidence


def test_d08_and_d09_progress(drilled: Drilled) -> None:
    assert drilled.check("D08").evidence == "no run of the pipeline is alive"
    with drilled.running():
        assert drilled.check("D08").outcome is PASS
        result = drilled.check("D09")
        assert result.outcome is PASS and result.evidence == "0 of 2 partitions stalled"

        drilled.write(3)

        result = drilled.check("D08")
    assert result.outcome is FAIL
    assert result.evidence == "1 run alive; 0 records copied between two readings; " + (
        "2 of 2 partitions behind"
    )
    result = drilled.check("D09")
    assert result.outcome is FAIL
    assert result.evidence.startswith("2 of 2 partitions stalled; not copied between 3 readings")


def test_d10_open_transaction(drilled: Drilled) -> None:
    result = drilled.check("D10")
    assert result.outcome is PASS
    assert result.evidence == "0 of 2 partitions with an open transaction"

    producer = open_transaction(drilled.source, drilled.topic, [Out(b"open")])
    try:
        young = drilled.check("D10")
        assert young.outcome is PASS and young.evidence.startswith("1 of 2 partitions")
        after = drilled.check("D10", DrillFacts(phase=DrillPhase.FENCE_PRODUCERS))
        assert after.outcome is FAIL and "producer id" in after.evidence
        old = drilled.check("D10", limits=replace(QUICK, open_transaction_s=0.0))
        assert old.outcome is FAIL and "kafka-transactions.sh" in old.hint
    finally:
        producer.abort_transaction(TIMEOUT)


def test_d11_truncation(drilled: Drilled) -> None:
    result = drilled.check("D11")
    assert result.outcome is PASS and result.evidence == "0 of 2 partitions lost records"

    drilled.write(10)
    delete_before(drilled.source, drilled.topic, 12)

    result = drilled.check("D11")
    assert result.outcome is FAIL
    assert result.evidence == f"7 offsets deleted before they were copied: {drilled.topic}-0"
    # A partition that cannot be continued is stalled, too.
    assert "lost: " in drilled.check("D09").evidence


def test_d12_topic_ids(drilled: Drilled) -> None:
    result = drilled.check("D12")
    assert result.outcome is PASS and result.evidence.startswith("1 topic with the same id")

    delete_topic(drilled.target, drilled.topic)
    _create_again(drilled.target, drilled.topic)

    result = drilled.check("D12")
    assert result.outcome is FAIL
    assert "was deleted and created again on the target" in result.evidence


def test_d12_the_source_topic_is_another_one(drilled: Drilled) -> None:
    delete_topic(drilled.source, drilled.topic)
    _create_again(drilled.source, drilled.topic)

    result = drilled.check("D12")

    assert result.outcome is FAIL
    assert "was deleted and created again on the source" in result.evidence


def _create_again(node: KafkaNode, topic: str) -> None:
    def created() -> bool:
        try:
            create_topic(node, topic, 2)
        except Exception:
            return False
        return True

    eventually(created, f"{topic} can be created again")


def test_d13_retention_headroom(source: KafkaNode, target: KafkaNode, tmp_path: Path) -> None:
    drilled = Drilled(tmp_path, source, target, config={"retention.ms": "6000000"})
    result = drilled.check("D13")
    assert result.outcome is PASS and "nothing can be lost" in result.evidence

    written_ms = int((time.time() - 5700) * 1000)
    produce(source, drilled.topic, [Out(b"late", timestamp=written_ms)])

    result = drilled.check("D13")
    assert result.outcome is FAIL and "too soon" in result.evidence


def test_without_the_source_lag_is_could_not_check(drilled: Drilled) -> None:
    settings = {"source": {"kafka": {"common": {"bootstrap.servers": "127.0.0.1:1"}}}}
    drilled.copied.settings = {**drilled.copied.settings, **settings}

    for check_id in ("D06", "D09", "D10", "D11", "D13", "D39", "D40"):
        result = drilled.check(check_id)
        assert result.outcome is UNKNOWN, result
        assert "connection refused" in result.evidence or "no commits" in result.evidence
