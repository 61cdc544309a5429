"""Content proof of a real copy: every position is right, and every wrong one is found."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from k2ktui.engine.mapping.range_columns import decode_columns
from k2ktui.engine.mapping.replica import Replica, TargetPartition
from k2ktui.engine.records.state import SourcePartition, read_mapping_record
from k2ktui.runtime.node import KafkaNode
from k2ktui.sync.verify.groups import ComparisonOutcome, ContentCheck, GroupPosition, verify
from tests.brokers.sync.test_verify_content import Span, cluster, replica
from tests.support.clusters.kafka import end_offsets, read_all, unique_name
from tests.support.oracle.judge import MAPPING_TOPIC
from tests.support.pipelines.pipeline import Pipeline
from tests.support.records.kinds import make_all


def mapping_of(node: KafkaNode, pipeline: str, topics: set[str]) -> dict[SourcePartition, Replica]:
    """What one run of a pipeline wrote, read with a plain consumer.

    Records of one transaction may be out of order: all are sorted first.
    """
    spans_by_copy: dict[tuple[SourcePartition, TargetPartition], list[Span]] = {}
    for got in read_all(node, MAPPING_TOPIC):
        mapping = read_mapping_record(got.key, got.value)
        if mapping.pipeline == pipeline and mapping.source.topic in topics:
            columns = decode_columns(mapping)
            lane = mapping.source, (mapping.target_topic, mapping.target_partition)
            parts = (columns.source.tolist(), columns.target.tolist(), columns.count.tolist())
            spans_by_copy.setdefault(lane, []).extend(zip(*parts, strict=True))
    return {at: replica(to, sorted(spans)) for (at, to), spans in spans_by_copy.items()}


@pytest.mark.slow
def test_a_real_copy_of_topics_of_every_kind(
    source: KafkaNode, target: KafkaNode, tmp_path: Path
) -> None:
    topics = list(make_all(source, unique_name("verify")).values())
    pipe = Pipeline(tmp_path, source, target, topics)
    pipe.catch_up()
    known = mapping_of(target, pipe.name, set(topics))
    right, early, late = [], [], []
    for at, one in known.items():
        ((to, ranges),) = one.target_ranges.items()
        ends = end_offsets(source, at.topic, "read_committed")[at.partition]
        offsets = np.arange(ranges.first or 0, ends, max(1, ends // 500), dtype=np.int64)
        for offset, there in zip(offsets.tolist(), ranges.translate(offsets).tolist(), strict=True):
            landed = there if there >= 0 else int(ranges.target_end or 0)
            right.append(GroupPosition("g", at, offset, to, landed))
            if 0 < landed == there:
                early.append(GroupPosition("early", at, offset, to, landed - 1))
                late.append(GroupPosition("late", at, offset, to, landed + 1))
    both = cluster(source, "source"), cluster(target, "target")

    verified = verify(*both, right, replicas=known, sample=1000, seed=1)

    wrong = [check for check in verified.checks if check.outcome is ComparisonOutcome.DIFFERENT]
    assert not wrong, [(check.what, check.why) for check in wrong[:5]]
    assert verified.positions.same > 2000 and verified.records.same > 20_000
    unsure = [
        check for check in verified.checks if check.outcome is ComparisonOutcome.COULD_NOT_CHECK
    ]
    assert all("compacted" in check.pair.source.topic for check in unsure), unsure[:3]
    assert verify(*both, right).positions.different == 0

    # A wrong position is found wherever the record before it, or the one it skips, is there.
    for moved, wanted in ((early, ComparisonOutcome.REREADS), (late, ComparisonOutcome.DIFFERENT)):
        judged = verify(*both, moved, replicas=known).checks
        missed = [check for check in judged if check.outcome is not wanted]
        assert len(judged) > 2000
        assert all(check.pair.target_offset < 0 or excused(check) for check in missed), missed[:3]


def excused(check: ContentCheck) -> bool:
    """An offset between records is as good as the next one's; compaction hides some."""
    return (check.outcome is ComparisonOutcome.SAME and check.group == "early") or (
        "compacted" in check.pair.source.topic
    )
