"""D18 to D25 on real clusters, each with what makes it fail."""

from __future__ import annotations

import contextlib
from itertools import count
from pathlib import Path

import pytest
from confluent_kafka import ShareConsumer

from k2ktui.drill.checks import groups
from k2ktui.drill.checks.context import DrillFacts
from k2ktui.engine.drill.checks import DrillPhase
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import client, eventually, grow_topic
from tests.support.commands.cli import k2ktui
from tests.support.drill.checks import (
    FAIL,
    PASS,
    UNKNOWN,
    Drilled,
    between_readings,
    member,
)

# Each test makes its own copy.
pytestmark = pytest.mark.slow


@pytest.fixture
def drilled(source: KafkaNode, target: KafkaNode, tmp_path: Path) -> Drilled:
    return Drilled(tmp_path, source, target)


def test_d18_groups_on_the_source(drilled: Drilled) -> None:
    assert drilled.check("D18").outcome is UNKNOWN
    group = drilled.commit("a", 2, 2)
    result = drilled.check("D18")
    assert result.outcome is PASS and result.evidence.startswith("1 group: 1 Empty")

    with member(drilled.source, group, drilled.topic):
        assert drilled.check("D18").outcome is PASS, "before consumers are to be stopped"
        result = drilled.check("D18", DrillFacts(phase=DrillPhase.STOP_CONSUMERS))
        assert result.outcome is FAIL
        assert f"1 group with members: {group}" in result.evidence


def test_d19_committed_offsets_in_range(drilled: Drilled) -> None:
    drilled.commit("a", 2, 5)
    result = drilled.check("D19")
    assert result.outcome is PASS
    assert result.evidence == "2 committed offsets within the logs of the source"

    group = drilled.commit("b", 1000, 5)

    result = drilled.check("D19")
    assert result.outcome is FAIL
    assert result.evidence.startswith("of 4 committed offsets 1 beyond the end")
    assert f"{group} {drilled.topic}-0 at 1000" in result.evidence


def test_d20_groups_inactive_on_the_target(drilled: Drilled) -> None:
    group = drilled.commit("a", 2, 2)
    result = drilled.check("D20")
    assert result.outcome is PASS and result.evidence == "0 of 1 group active on the target"

    with member(drilled.target, group, drilled.topic):
        result = drilled.check("D20")
        assert result.outcome is FAIL and f"active on the target: {group}" in result.evidence


def test_d20_a_consumer_with_assign(drilled: Drilled) -> None:
    group, offsets = drilled.commit("a", 2, 2), count()
    drilled.commit_there(group, next(offsets), 0)
    with between_readings(groups, lambda: drilled.commit_there(group, next(offsets), 0)):
        result = drilled.check("D20")
    assert result.outcome is FAIL
    assert "1 of 1 group without members committed" in result.evidence


def test_d21_commits_on_the_target(drilled: Drilled) -> None:
    group = drilled.commit("a", 2, 2)
    drilled.commit_there(group, 1, 2)
    result = drilled.check("D21")
    assert result.outcome is PASS
    assert result.evidence.endswith("0 ahead of the translation, 1 behind it")

    drilled.commit_there(group, 4, 2)

    result = drilled.check("D21")
    assert result.outcome is FAIL
    assert "1 ahead of the translation" in result.evidence
    assert result.evidence.endswith("4 now, 2 translated")


def test_rows_that_an_operator_chose_are_decided(drilled: Drilled) -> None:
    """D14, D21 and D22 would fail for what is unmapped, ahead, or skipped by choice."""
    group = drilled.commit("a", 2, 2000)
    for check_id in ("D14", "D22"):
        assert drilled.check(check_id).outcome is not PASS
    path = drilled.copied.directory / "chosen.json"
    words = [f"{group} {drilled.topic}:0=latest", f"{group} {drilled.topic}:1=earliest"]
    options = [part for word in words for part in ("--set", word)]
    k2ktui("plan", "-f", drilled.copied.file, "-o", path, *options)
    k2ktui("apply", path, "--yes")
    result = drilled.check("D14")
    assert result.outcome is PASS and result.evidence == "2 committed offsets: 2 chosen"
    result = drilled.check("D21")
    assert result.outcome is PASS and result.evidence.startswith("0 of 0 offsets")
    assert "2 chosen by operators" in drilled.check("D22").evidence
    # Their source commits move: they are as any other row again.
    drilled.commit("a", 3, 3)
    result = drilled.check("D21")
    assert result.outcome is FAIL and "1 ahead of the translation" in result.evidence


def test_d22_next_records(source: KafkaNode, target: KafkaNode, tmp_path: Path) -> None:
    drilled = Drilled(tmp_path, source, target, prior=3)
    drilled.commit("a", 2, 5)
    result = drilled.check("D22")
    assert result.outcome is PASS
    assert result.evidence.startswith("at most 0 read again and 0 skipped in 2 offsets")
    assert "2 equal, 0 different" in result.evidence

    tampered = Drilled(tmp_path, source, target, tampered=[2])
    tampered.commit("a", 2, 5)

    result = tampered.check("D22")
    assert result.outcome is FAIL and "1 equal, 1 different" in result.evidence


def test_d22_records_that_are_not_copied_yet(drilled: Drilled) -> None:
    drilled.write(4)
    drilled.commit("a", 9, 5)
    result = drilled.check("D22")
    assert result.outcome is FAIL
    assert result.evidence.startswith("at most 4 read again and 0 skipped in 2 offsets")


def test_d23_types_of_groups(drilled: Drilled) -> None:
    drilled.commit("a", 2, 2)
    result = drilled.check("D23")
    assert result.outcome is PASS
    assert result.evidence.startswith("1 classic; positions outside Kafka")

    group = drilled.copied.group("shared")
    consumer = ShareConsumer(client(drilled.source, group_id=group))
    consumer.subscribe([drilled.topic])
    try:

        def fails() -> bool:
            with contextlib.suppress(Exception):
                consumer.poll(0.1)
            return drilled.check("D23").outcome is FAIL

        eventually(fails, "the share group is listed")
        result = drilled.check("D23")
        assert "1 classic, 1 share" in result.evidence and f"not moved: {group}" in result.evidence
    finally:
        consumer.close()


def test_d24_partitions_without_an_offset(drilled: Drilled) -> None:
    drilled.commit("a", 2, 5)
    result = drilled.check("D24")
    assert result.outcome is PASS
    assert result.evidence == "0 of 2 partitions that groups read would have no offset"

    group = drilled.commit("b", 2)

    result = drilled.check("D24")
    assert result.outcome is FAIL
    assert result.evidence.startswith("1 of 4 partitions that groups read")
    assert f"{group} {drilled.topic}-1" in result.evidence


def test_d25_partition_of_each_key(drilled: Drilled) -> None:
    result = drilled.check("D25")
    assert result.outcome is PASS
    assert result.evidence == "2 partitions with the same number on both clusters"

    grow_topic(drilled.target, drilled.topic, 3)

    result = drilled.check("D25")
    assert result.outcome is FAIL
    assert f"{drilled.topic}: 2 and 3" in result.evidence
    assert "of 10 sampled keys" in result.evidence
