"""Memory holds few mappings; what is said of groups does not depend on it."""

from __future__ import annotations

from pathlib import Path

import pytest

from k2ktui.engine.moves.groups import make_group_rows
from k2ktui.runtime.node import KafkaNode
from k2ktui.sync import operations
from k2ktui.sync.flow import Flow
from k2ktui.sync.moves.plans import plan_options
from k2ktui.sync.moves.snapshot import take_snapshot
from tests.support.clusters.kafka import Out, create_topic, produce
from tests.support.oracle.group_offsets import commit_offsets
from tests.support.pipelines.copied import Copied

RECORDS, STEP = 4_000, 10


@pytest.fixture
def copied(source: KafkaNode, target: KafkaNode, tmp_path: Path) -> Copied:
    made = Copied(tmp_path, source, target)
    retention = {"count": 5, "schedule": "1 millisecond"}
    made.settings = {"offsetMapping": {"topic": made.mappings, "retention": retention}}
    return made


def test_where_memory_holds_no_mapping(
    copied: Copied, source: KafkaNode, target: KafkaNode
) -> None:
    topic = create_topic(source)
    produce(source, topic, [Out(b"%d" % n) for n in range(RECORDS)])
    landed = copied.copy(topic, step=STEP)[topic, 0]
    group, at = copied.group("g"), 3_200
    commit_offsets(source, group, {(topic, 0): at})
    for off in (-500, 300):
        commit_offsets(target, group, {(topic, 0): landed[at + off]})
        (row,) = make_group_rows(take_snapshot(Flow(copied.config)))
        assert (row.translated_offset, row.basis) == (landed[at], "exact")
        assert row.divergence == off
    # A plan is proven where it was made, although the group has gone on since.
    plan = operations.create_plan(Flow(copied.config), plan_options(copied.config), ())
    commit_offsets(source, group, {(topic, 0): RECORDS})
    proof = operations.verify_content(
        Flow(copied.config), group=lambda _: True, plan=plan, sample=0
    )
    assert proof.verification.positions.same == 1
