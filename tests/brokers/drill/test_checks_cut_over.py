"""D39 to D43 on real clusters, each with what makes it fail."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer

from k2ktui.drill.checks import cut_over
from k2ktui.drill.checks.context import DrillFacts
from k2ktui.engine.moves.journal import RunKind
from k2ktui.kafka.admin.transaction_state import describe_transaction
from k2ktui.kafka.properties.translation import wire
from k2ktui.kafka.wire.cluster import Loop, Wire
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import (
    TIMEOUT,
    Out,
    client,
    open_transaction,
    produce,
    unique_name,
)
from tests.support.drill.checks import FAIL, PASS, UNKNOWN, Drilled, between_readings
from tests.support.pipelines.preflight import pipeline

# Each test makes its own copy.
pytestmark = pytest.mark.slow


@pytest.fixture
def drilled(source: KafkaNode, target: KafkaNode, tmp_path: Path) -> Drilled:
    return Drilled(tmp_path, source, target)


def test_d39_producers_fenced(drilled: Drilled) -> None:
    result = drilled.check("D39")
    assert result.outcome is PASS
    assert result.evidence == "0 of 2 partitions moved in 0.5 s, 0 with an open transaction"

    with between_readings(cut_over, lambda: produce(drilled.source, drilled.topic, [b"more"])):
        result = drilled.check("D39")
    assert result.outcome is FAIL
    assert result.evidence.startswith("1 of 2 partitions moved in 0.5 s")
    assert f"{drilled.topic}-0 by " in result.evidence
    assert "; written by producer id " in result.evidence or "without id" in result.evidence

    name = unique_name("tx")
    producer = open_transaction(
        drilled.source, drilled.topic, [Out(b"open")], transactional_id=name
    )
    try:
        result = drilled.check("D39")
        assert result.outcome is FAIL and "1 with an open transaction" in result.evidence
        assert f"; written by transactional id {name} (producer id " in result.evidence
    finally:
        producer.abort_transaction(TIMEOUT)


def test_d40_drained(drilled: Drilled) -> None:
    result = drilled.check("D40")
    assert result.outcome is PASS
    assert result.evidence == "2 of 2 partitions drained; 0 records to copy, 0 in open transactions"

    drilled.write(3)
    result = drilled.check("D40")
    assert result.outcome is FAIL
    assert result.evidence.startswith("0 of 2 partitions drained; 6 records to copy")

    for partition in range(2):
        drilled.copied.put_position(drilled.topic, partition, 8, 0)
    producer = open_transaction(drilled.source, drilled.topic, [Out(b"open")])
    try:
        result = drilled.check("D40")
        assert result.outcome is FAIL
        assert "0 records to copy, 1 in open transactions" in result.evidence
    finally:
        producer.abort_transaction(TIMEOUT)


def test_d41_offsets_applied(drilled: Drilled) -> None:
    assert drilled.check("D41").outcome is UNKNOWN
    group = drilled.copied.group("a")
    drilled.commit_there(group, 2, 3)
    facts = DrillFacts(applied={(group, drilled.topic, 0): 2, (group, drilled.topic, 1): 3})
    result = drilled.check("D41", facts)
    assert result.outcome is PASS and result.evidence == "2 of 2 offsets read back as committed"

    drilled.commit_there(group, 2, 0)

    result = drilled.check("D41", facts)
    assert result.outcome is FAIL
    assert f"{group} {drilled.topic}-1: 0, not 3" in result.evidence


def test_d42_replicator_fenced(drilled: Drilled) -> None:
    assert drilled.check("D42").evidence == (
        "0 runs alive; the drill has not raised the producer epochs yet"
    )
    name = unique_name("tx")
    _raise_epoch(drilled.target, name)
    facts = DrillFacts(fenced={name: _epoch(drilled, name)})
    drilled.beat(kind=RunKind.SYNC)  # it copies nothing
    result = drilled.check("D42", facts)
    assert result.outcome is PASS
    assert result.evidence == "0 runs alive; 1 of 1 transactional id as the drill left them"

    _raise_epoch(drilled.target, name)
    result = drilled.check("D42", facts)
    assert result.outcome is FAIL and "Stop the driver that has taken pipeline" in result.hint

    with drilled.running():
        result = drilled.check("D42", facts)
    assert result.outcome is FAIL and result.evidence == "1 run alive: ann@host pid 7"

    unknown = DrillFacts(fenced={unique_name("tx"): (1, 1)})
    drilled.copied.state = f"{drilled.copied.state}_other"  # without that run
    assert drilled.check("D42", unknown).outcome is UNKNOWN


def _raise_epoch(node: KafkaNode, name: str) -> None:
    Producer(client(node, transactional_id=name)).init_transactions(TIMEOUT)


def _epoch(drilled: Drilled, name: str) -> tuple[int, int]:
    loop = Loop()
    connection = Wire(loop, wire(drilled.pipeline.target, "producer"), "target")
    try:
        loop.run(lambda: connection.open(TIMEOUT))
        state = loop.run(lambda: describe_transaction(connection, name, TIMEOUT))
    finally:
        connection.close()
        loop.close()
    return state.producer_id, state.epoch


def test_d43_loops(drilled: Drilled, source: KafkaNode, target: KafkaNode) -> None:
    assert drilled.check("D43").outcome is UNKNOWN

    apart = {
        "replication": {"source": {"topic": [drilled.topic]}, "sink": {"topic": {"prefix": "b."}}}
    }
    facts = DrillFacts(reverse=pipeline(target, source, **apart))
    result = drilled.check("D43", facts)
    assert result.outcome is PASS and result.evidence == "0 of 1 topic would come back"

    facts = DrillFacts(reverse=pipeline(target, source, drilled.topic))
    result = drilled.check("D43", facts)
    assert result.outcome is FAIL
    assert result.evidence == f"1 of 1 topic would come back: {drilled.topic}"
    assert "features.bidirectionalReplication" in result.hint

    same = DrillFacts(reverse=pipeline(source, target, drilled.topic))
    result = drilled.check("D43", same)
    assert result.outcome is FAIL and "is not the target of this one" in result.evidence
