"""D44 to D48 on real clusters, each with what makes it fail."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from k2ktui.drill.checks import after
from k2ktui.drill.checks.context import DrillFacts
from k2ktui.drill.facts import DrillMeasures, GroupReads
from k2ktui.engine.drill.checks import DrillKind
from k2ktui.engine.drill.objectives import Objectives
from k2ktui.engine.records.state import SourcePartition
from k2ktui.kafka.clients import Cluster
from k2ktui.log.content import ContentReader, content_digest
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import TIMEOUT
from tests.support.drill.checks import FAIL, PASS, QUICK, UNKNOWN, Drilled, between_readings
from tests.support.pipelines.copied import Copied

# Each test makes its own copy.
pytestmark = pytest.mark.slow


@pytest.fixture
def drilled(source: KafkaNode, target: KafkaNode, tmp_path: Path) -> Drilled:
    return Drilled(tmp_path, source, target, prior=2)


def _reads(drilled: Drilled, begin: int, records: int = 3) -> DrillFacts:
    """What a group that had read 2 records reads on the target from an offset on."""
    with ContentReader(Cluster(drilled.pipeline.target, "target")) as reader:
        (stretches,) = reader.stretches([((drilled.topic, 0, begin), records)], TIMEOUT)
    digests = tuple(content_digest(record) for _, record in sorted(stretches.records.items()))
    at = SourcePartition(drilled.topic, 0)
    read = GroupReads("g", at, 2, (drilled.topic, 0), digests, tuple(sorted(stretches.records)))
    return DrillFacts(reads=(read,))


def test_d44_records_that_groups_read(drilled: Drilled) -> None:
    assert drilled.check("D44").outcome is UNKNOWN
    result = drilled.check("D44", _reads(drilled, 4))
    assert result.outcome is PASS
    assert result.evidence.startswith("3 records read by 1 group in 1 partition, all equal")

    result = drilled.check("D44", _reads(drilled, 5, 2))  # one was skipped

    assert result.outcome is FAIL
    assert f"g {drilled.topic}-0: record 1 differs" in result.evidence


def test_d44_compares_offsets_where_a_transform_leaves_records_out(drilled: Drilled) -> None:
    replication = drilled.copied.settings["replication"]
    assert isinstance(replication, list)
    source, sink = replication
    entries = [source, {"transform": [{"filter": "offset <> 100"}]}, sink]
    drilled.copied.settings = {**drilled.copied.settings, "replication": entries}
    result = drilled.check("D44", _reads(drilled, 4))
    assert result.outcome is PASS
    assert result.evidence.endswith(
        "1 partition with a transform read from the mapped offset on, contents not compared"
    )

    result = drilled.check("D44", _reads(drilled, 5, 2))

    assert result.outcome is FAIL and "began at 5, not 4" in result.evidence


def test_d45_lag_on_the_target(drilled: Drilled) -> None:
    group, offsets = drilled.copied.group("a"), count(3)
    drilled.commit_there(group, 7, 7)
    facts = DrillFacts(applied={(group, drilled.topic, 0): 2})
    result = drilled.check("D45", facts)
    assert result.outcome is PASS
    assert result.evidence == "1 group: lag on the target 0, 0 0.2 s before; 0 not catching up"

    drilled.commit_there(group, 2, 7)
    result = drilled.check("D45", facts)
    assert result.outcome is FAIL and result.evidence.endswith(f"1 not catching up: {group}: 5")

    with between_readings(after, lambda: drilled.commit_there(group, next(offsets), 7)):
        result = drilled.check("D45", facts)
    assert result.outcome is PASS, result


def test_d46_measures(drilled: Drilled) -> None:
    assert drilled.check("D46").outcome is UNKNOWN
    facts = DrillFacts(measures=DrillMeasures(12.5, {"apply": 3.0, "drain": 7.0}, 4, 400, 1.5))
    result = drilled.check("D46", facts)
    assert result.outcome is PASS
    assert result.evidence == (
        "RTO 12.5 s, RPO 4 records, 400 bytes, 1.5 s; longest phase drain, 7.0 s"
    )

    met = replace(QUICK, objectives=Objectives(4, 2.0, 13.0))
    result = drilled.check("D46", facts, met)
    assert result.outcome is PASS
    assert result.evidence.endswith("; RPO at most 4 records, 2 s; RTO at most 13 s")

    missed = replace(QUICK, objectives=Objectives(0, 1.0, 10.0))
    result = drilled.check("D46", facts, missed)

    assert result.outcome is FAIL
    assert result.evidence == (
        "RTO 12.5 s, RPO 4 records, 400 bytes, 1.5 s; longest phase drain, 7.0 s; "
        "RTO above 10 s, RPO above 0 records, RPO above 1 s"
    )


def test_d46_of_what_is_known_only_in_part(drilled: Drilled) -> None:
    limits = replace(QUICK, objectives=Objectives(10, None, 5.0))
    rehearsed = DrillMeasures(rpo_records=0, rpo_s=0.0, tool_s=4.0)
    result = drilled.check("D46", DrillFacts(measures=rehearsed), limits)
    assert result.outcome is PASS, "of a rehearsal, the time of the tool counts"
    assert result.evidence.startswith("RTO at least 4.0 s (of the tool), RPO 0 records")

    lost = DrillMeasures(tool_s=4.0, rpo_at_least=10)
    facts = DrillFacts(kind=DrillKind.DISASTER, measures=lost)
    result = drilled.check("D46", facts, limits)
    assert result.outcome is UNKNOWN
    assert result.evidence.endswith("not known, so not compared: RTO, RPO in records")

    lost = DrillMeasures(tool_s=6.0, rpo_at_least=11)
    facts = DrillFacts(kind=DrillKind.DISASTER, measures=lost)
    result = drilled.check("D46", facts, limits)
    assert result.outcome is FAIL, "a lower bound is enough"
    assert result.evidence.endswith("RTO above 5 s, RPO above 10 records")


def test_d47_reverse_pipeline(drilled: Drilled, tmp_path: Path) -> None:
    assert drilled.check("D47").outcome is UNKNOWN
    replication = [
        {"source": {"topic": [drilled.topic]}},
        {"sink": {"topic": "source", "partition": "source"}},
    ]
    back = Copied(tmp_path, drilled.target, drilled.source, {"replication": replication})
    ends = {(drilled.topic, 0): 7, (drilled.topic, 1): 7}
    facts = DrillFacts(reverse=back.config, cut_over_ends=ends)
    result = drilled.check("D47", facts)
    assert result.outcome is FAIL and result.evidence.startswith("0 of 2 target partitions")

    back.put_position(drilled.topic, 0, 7, 7)
    back.put_position(drilled.topic, 1, 9, 9)
    result = drilled.check("D47", facts)
    assert result.outcome is FAIL
    assert f"records after the move missing: {drilled.topic}-1 from 9, not 7" in result.evidence

    facts = DrillFacts(reverse=back.config, cut_over_ends={**ends, (drilled.topic, 1): 9})
    result = drilled.check("D47", facts)
    assert result.outcome is PASS and result.evidence.startswith("2 of 2 target partitions copied")
    assert drilled.check("D47", DrillFacts(reverse=back.config)).outcome is UNKNOWN


def test_d48_records_not_copied(drilled: Drilled) -> None:
    result = drilled.check("D48")
    assert result.outcome is PASS
    assert result.evidence == "0 offsets of 0 partitions not copied, 0 of them not listed"

    drilled.write(3)
    result = drilled.check("D48")
    assert result.outcome is FAIL
    assert "6 offsets of 2 partitions not copied, 6 of them not listed" in result.evidence

    spans = {SourcePartition(drilled.topic, n): (5, 8) for n in range(2)}
    result = drilled.check("D48", DrillFacts(tail=spans))
    assert result.outcome is PASS
    assert result.evidence == "6 offsets of 2 partitions not copied, 0 of them not listed"
