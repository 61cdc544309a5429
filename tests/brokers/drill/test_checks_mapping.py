"""D14 to D17 on real clusters, each with what makes it fail."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import (
    Out,
    create_topic,
    grow_topic,
    produce,
    read_all,
    unique_name,
)
from tests.support.clusters.registries import Registries, avro_record, register
from tests.support.drill.checks import (
    FAIL,
    PASS,
    QUICK,
    UNKNOWN,
    Drilled,
)
from tests.support.pipelines.copied import delete_records


@pytest.fixture
def drilled(source: KafkaNode, target: KafkaNode, tmp_path: Path) -> Drilled:
    return Drilled(tmp_path, source, target)


@pytest.mark.slow
def test_d14_coverage(drilled: Drilled) -> None:
    assert drilled.check("D14").outcome is UNKNOWN
    drilled.commit("a", 2, 5)
    result = drilled.check("D14")
    assert result.outcome is PASS and result.evidence == "2 committed offsets: 1 exact, 1 end"

    grow_topic(drilled.source, drilled.topic, 3)
    drilled.commit("b", 2, 5, 0)

    result = drilled.check("D14")
    assert result.outcome is FAIL
    assert result.evidence.startswith("5 committed offsets: 2 exact, 2 end, 1 unmapped; ")
    assert f"b {drilled.topic}-2" in result.evidence and "not replicated" in result.evidence


@pytest.mark.slow
def test_d15_mapping_end(drilled: Drilled) -> None:
    result = drilled.check("D15")
    assert result.outcome is PASS
    assert result.evidence == "the mapping of 2 partitions reaches the replicated position"

    drilled.write(3)
    drilled.copied.put_position(drilled.topic, 1, 8, 0)  # without its mapping

    result = drilled.check("D15")
    assert result.outcome is FAIL
    assert result.evidence.startswith("the mapping of 1 of 2 partitions ends before")
    assert f"{drilled.topic}-1" in result.evidence


@pytest.mark.slow
def test_d15_of_a_mapping_that_has_expired(drilled: Drilled) -> None:
    """Positions say where the last records landed, if a slot with transactions wrote them."""
    delete_records(drilled.target, drilled.copied.mappings)
    result = drilled.check("D15")
    assert result.outcome is FAIL and "2 of 2 partitions ends before" in result.evidence

    for partition in range(2):
        drilled.copied.put_position(drilled.topic, partition, 5, 0, landed=(0, 5))

    result = drilled.check("D15")
    assert result.outcome is PASS
    assert "the mapping of 2 partitions has expired" in result.evidence


@pytest.mark.slow
def test_d16_mapping_and_target(source: KafkaNode, target: KafkaNode, tmp_path: Path) -> None:
    result = Drilled(tmp_path, source, target).check("D16")
    assert result.outcome is PASS
    assert result.evidence.startswith("10 sampled records of 10 mapped: 10 equal, 0 different")

    tampered = Drilled(tmp_path, source, target, tampered=[3])

    result = tampered.check("D16")
    assert result.outcome is FAIL
    assert "9 equal, 1 different" in result.evidence and "source offset 3" in result.evidence


@pytest.mark.slow
def test_d16_schema_ids(
    source: KafkaNode, target: KafkaNode, tmp_path: Path, registries: Registries
) -> None:
    topic = create_topic(source)
    replication = [{"source": {"topic": [topic]}}, {"sink": {"topic": "source"}}]
    drilled = Drilled(tmp_path, source, target, {"replication": replication})
    schema = avro_record("Pay", unique_name("field").replace("-", "_"))
    here, there = (
        register(registry, f"{topic}-value", schema)
        for registry in (registries.source, registries.target)
    )
    produce(source, topic, [Out(value_with(here)) for _ in range(4)])
    sent = read_all(source, topic)
    wrong = replace(sent[3], value=value_with(there + 1))
    right = [replace(out, value=value_with(there)) for out in sent[:3]]
    drilled.copied.copy(topic, [*right, wrong])
    drilled.map_schemas(registries)

    result = drilled.check("D16")

    assert result.outcome is FAIL and "3 equal, 1 different" in result.evidence
    assert f"({here} on the source, {there} expected, {there + 1} found)" in result.evidence


def value_with(schema_id: int) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + b"data"


@pytest.mark.slow
def test_d17_age_of_the_newest_commit(drilled: Drilled) -> None:
    result = drilled.check("D17")
    assert result.outcome is PASS and result.evidence.startswith("newest commit ")

    drilled.write(1)

    strict = replace(QUICK, heartbeat_s=0.0)
    result = drilled.check("D17", limits=strict)
    assert result.outcome is FAIL
    assert "2 partitions with records to copy not committed" in result.evidence
