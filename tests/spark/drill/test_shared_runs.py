"""A planned switchover of a pipeline that several runs share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from k2ktui.drill.operations import release_replicator, start_drill
from k2ktui.engine.drill.checks import DrillCheckOutcome, DrillKind
from k2ktui.engine.drill.model import DrillStatus
from k2ktui.kafka.properties.translation import load_checked
from k2ktui.runtime.node import KafkaNode
from k2ktui.sync.flow import PipelineFlow
from tests.support.clusters.kafka import Out, create_topic, produce, read_unread, unique_name
from tests.support.drill.runs import MAY, QUICK, Yes, check_of, remove_quotas
from tests.support.oracle.group_offsets import commit_offsets
from tests.support.pipelines.pipeline import Pipeline
from tests.support.pipelines.shared_pipelines import SHARED, expect_owning

_SUPERSEDED, _REFUSED = 5, 5
_RECORDS = 300


@pytest.fixture
def shared(tmp_path: Path, source: KafkaNode, target: KafkaNode) -> Iterator[Pipeline]:
    topic = create_topic(source, partitions=4)
    produce(source, topic, [Out(b"v%d" % n, b"k%d" % n, n % 4) for n in range(_RECORDS)])
    pipeline = Pipeline(tmp_path, source, target, [topic], SHARED)
    yield pipeline
    pipeline.close()
    remove_quotas(source)


@pytest.mark.slow
def test_a_switchover_ends_all_runs_and_moves_the_group(shared: Pipeline) -> None:
    topic = shared.topics[0]
    group = unique_name("billing")
    commit_offsets(
        shared.source, group, {(topic, partition): 10 + partition for partition in range(4)}
    )
    runs = [shared.start() for _ in range(2)]
    expect_owning(runs)
    file = str(shared.write())
    flow = PipelineFlow(load_checked((file,)).config)
    drill = start_drill(flow, DrillKind.PLANNED, QUICK, [file], MAY, Yes())
    assert drill.status is DrillStatus.DONE, drill
    for run in runs:
        assert run.wait() == _SUPERSEDED, run.tail()
        run.await_gone()
    result = check_of(drill, "D42")
    assert result.outcome is DrillCheckOutcome.PASS, result
    assert shared.start().wait() == _REFUSED
    unread = sum(_RECORDS // 4 - 10 - partition for partition in range(4))
    assert len(read_unread(shared.target, group, topic, range(4))) == unread
    release_replicator(flow, drill.id, [], MAY, Yes())
    runs = [shared.start() for _ in range(2)]
    expect_owning(runs)
    assert [run.stop() for run in runs] == [0, 0]
