"""D35 to D38 on real clusters, each with what makes it fail."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from k2ktui.engine.drill.checks import DrillKind
from k2ktui.runtime.node import KafkaNode
from k2ktui.sync.commit_snapshots import CommitSnapshotRunner
from tests.support.clusters.kafka import Out, delete_before, produce, produce_transaction, read_all
from tests.support.commands.cli import k2ktui
from tests.support.drill.checks import FAIL, PASS, UNKNOWN, Drilled
from tests.support.drill.planted import plant, planted
from tests.support.pipelines.copied import Copied

# Each test makes its own copy.
pytestmark = pytest.mark.slow


@pytest.fixture
def drilled(source: KafkaNode, target: KafkaNode, tmp_path: Path) -> Drilled:
    return Drilled(tmp_path, source, target, prior=2)


def test_d35_record_counts(drilled: Drilled) -> None:
    result = drilled.check("D35")
    assert result.outcome is PASS
    assert result.evidence == ("2 partitions sampled; 10 records on the source, 10 on the target")

    delete_before(drilled.target, drilled.topic, 4)

    result = drilled.check("D35")
    assert result.outcome is FAIL
    assert f"{drilled.topic}-0: 5 on the source, 3 on the target" in result.evidence


def test_d35_records_that_came_from_the_target_are_not_missing(
    source: KafkaNode, target: KafkaNode, tmp_path: Path
) -> None:
    opposite = Copied(tmp_path, target, source)
    settings = {
        "features": {"autoCreateControlTopics": "enabled", "bidirectionalReplication": "enabled"},
        "bidirectional": {
            "opposite": {"commitTopic": opposite.commits, "mappingTopic": opposite.mappings}
        },
    }
    drilled = Drilled(tmp_path, source, target, settings, partitions=1)
    opposite.put_run()
    (native,) = produce(target, drilled.topic, [Out(b"native")])
    (returned,) = produce(source, drilled.topic, [Out(b"native")])
    opposite.record(drilled.topic, 0, {native: returned}, native + 1, native)
    produce(source, drilled.topic, [Out(b"v6")])
    (last,) = produce(target, drilled.topic, [Out(b"v6")])
    drilled.copied.record(drilled.topic, 0, {returned + 1: last}, returned + 2, 0, first=5)
    result = drilled.check("D35")
    assert result.outcome is PASS
    assert result.evidence == "1 partition sampled; 6 records on the source, 6 on the target"

    produce(source, drilled.topic, [Out(b"missing"), Out(b"v8")])
    (last,) = produce(target, drilled.topic, [Out(b"v8")])
    drilled.copied.record(drilled.topic, 0, {8: last}, 9, 0, first=7)
    result = drilled.check("D35")
    assert result.outcome is FAIL
    assert "8 on the source, 7 on the target" in result.evidence


def test_d36_checksums(source: KafkaNode, target: KafkaNode, tmp_path: Path) -> None:
    result = Drilled(tmp_path, source, target).check("D36")
    assert result.outcome is PASS and "10 records compared, SHA-256 " in result.evidence

    result = Drilled(tmp_path, source, target, tampered=[1]).check("D36")

    assert result.outcome is FAIL and "first difference at 1 and 1" in result.evidence


def test_d36_takes_the_last_comparison_of_all_records(
    source: KafkaNode, target: KafkaNode, tmp_path: Path
) -> None:
    drilled = Drilled(tmp_path, source, target, partitions=1)
    assert "compared at" not in drilled.check("D36").evidence
    compared = ("compare", "-f", drilled.copied.file)
    k2ktui(*compared, "--no-store")
    assert "compared at" not in drilled.check("D36").evidence
    k2ktui(*compared)
    result = drilled.check("D36")
    assert result.outcome is PASS and result.evidence.endswith(": 5 equal, 0 different")
    # Below the newest records, which the sample has, a stranger's record stays unseen.
    produce(target, drilled.topic, [Out(b"stranger")])
    k2ktui(*compared, code=1)
    result = drilled.check("D36")
    assert result.outcome is FAIL and result.evidence.endswith(": 5 equal, 1 different")
    assert "k2ktui compare" in result.hint


def test_d36_takes_no_comparison_that_a_failure_has_disproved(
    source: KafkaNode, target: KafkaNode, tmp_path: Path
) -> None:
    """The failure counts, and not when its drill began: one may take days."""
    drilled = Drilled(tmp_path, source, target, partitions=1)
    config = drilled.copied.config

    def fail_now() -> None:
        failed = replace(drilled.check("D36"), outcome=FAIL)
        assert failed.at_ms
        drill = planted(config, DrillKind.PLANNED)
        plant(config, target, replace(drill, started_ms=1, checks=(failed,)))

    compared = ("compare", "-f", drilled.copied.file)
    k2ktui(*compared)
    assert "compared at" in drilled.check("D36").evidence
    fail_now()
    assert "compared at" not in drilled.check("D36").evidence
    k2ktui(*compared)
    assert drilled.check("D36").evidence.endswith(": 5 equal, 0 different")
    # A difference stays one until a comparison shows that it is gone, however often D36 is asked.
    produce(target, drilled.topic, [Out(b"stranger")])
    k2ktui(*compared, code=1)
    fail_now()
    assert drilled.check("D36").outcome is FAIL


def test_d37_records_of_others(source: KafkaNode, target: KafkaNode, tmp_path: Path) -> None:
    drilled = Drilled(tmp_path, source, target, partitions=1, prior=2)
    result = drilled.check("D37")
    assert result.outcome is PASS
    assert "5 copied records in order, 0 others between them; other writers" in result.evidence

    # A rogue producer, then the pipeline copies on.
    (rogue,) = produce(target, drilled.topic, [Out(b"rogue")])
    produce(source, drilled.topic, [Out(b"v5")])
    (last,) = produce(target, drilled.topic, [Out(b"v5")])
    drilled.copied.record(drilled.topic, 0, {5: last}, 6, 0, first=5)

    result = drilled.check("D37")
    assert result.outcome is FAIL
    assert f"1 record not from the source, from {rogue} on" in result.evidence
    assert "Find the producer" in result.hint


def test_d37_a_duplicate(source: KafkaNode, target: KafkaNode, tmp_path: Path) -> None:
    drilled = Drilled(tmp_path, source, target, partitions=1)
    (copy, *_) = read_all(target, drilled.topic)
    produce(target, drilled.topic, [Out(copy.value, copy.key, timestamp=copy.timestamp)])
    produce(source, drilled.topic, [Out(b"v5")])
    (last,) = produce(target, drilled.topic, [Out(b"v5")])
    drilled.copied.record(drilled.topic, 0, {5: last}, 6, 0, first=5)

    result = drilled.check("D37")

    assert result.outcome is FAIL and "1 duplicate of copied records" in result.evidence


def test_d38_aborted_records(source: KafkaNode, target: KafkaNode, tmp_path: Path) -> None:
    drilled = Drilled(tmp_path, source, target, partitions=1)
    produce_transaction(source, drilled.topic, [Out(b"no"), Out(b"no")], commit=False)
    drilled.copied.put_position(drilled.topic, 0, 8, 0)
    (aborted, _) = read_all(source, drilled.topic, "read_uncommitted")[5:7]
    drilled.copied.record(drilled.topic, 0, {}, 8, 0, first=5)
    result = drilled.check("D38")
    assert result.outcome is PASS
    assert result.evidence == "1 partition sampled; 0 of 2 aborted records copied"

    # A copier that reads uncommitted records.
    (landed,) = produce(target, drilled.topic, [Out(aborted.value)])
    drilled.copied.term += 1
    drilled.copied.record(drilled.topic, 0, {aborted.offset: landed}, 8, 0, first=5)

    result = drilled.check("D38")
    assert result.outcome is FAIL and "1 aborted record mapped, the first at 5" in result.evidence


def test_without_the_source(drilled: Drilled) -> None:
    settings = {"source": {"kafka": {"common": {"bootstrap.servers": "127.0.0.1:1"}}}}
    drilled.commit("a", 2)
    store_commits(drilled)
    drilled.copied.settings = {**drilled.copied.settings, **settings}

    assert drilled.check("D35").outcome is UNKNOWN
    assert drilled.check("D37").outcome is PASS, "the target alone decides"


def store_commits(drilled: Drilled) -> None:
    """Keep the source's commits on the target, as a running pipeline does."""
    runner = CommitSnapshotRunner(drilled.pipeline, lambda _: None)
    try:
        runner.work()
    finally:
        runner.close()
