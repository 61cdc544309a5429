"""Failback on real clusters with real pipelines; a plain consumer says what each group has read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from k2ktui.engine.drill import DrillStatus, PhaseStatus
from k2ktui.engine.drill_checks import DrillPhase
from k2ktui.runtime.node import KafkaNode
from tests.support.drills import Yes
from tests.support.failback import Workload


@pytest.fixture
def work(tmp_path: Path, source: KafkaNode, target: KafkaNode) -> Iterator[Workload]:
    made = Workload(tmp_path, source, target)
    yield made
    made.close()


@pytest.mark.slow
def test_there_and_back_every_group_reads_each_record_once(work: Workload) -> None:
    fast, slow = work.groups
    work.write(work.a, 100)
    work.forward.catch_up()
    work.consume(work.a, fast, 20)
    work.consume(work.a, slow, 5)
    work.fail_over()
    work.write(work.b, 40)
    work.consume(work.b, fast)
    work.consume(work.b, slow, 50)
    work.copy_back()
    operator = Yes()
    drill = work.fail_back(operator)
    assert drill.status is DrillStatus.DONE, drill
    assert (
        drill.record(DrillPhase.TAIL).live == "every record of the old source is on the new primary"
    )
    assert [phase for phase, _ in operator.asked] == [
        DrillPhase.APPLY,
        DrillPhase.FENCE_REPLICATOR,
        DrillPhase.OPEN_TARGET,
    ]
    assert "0 read again, 0 skipped" in operator.asked[0][1]
    assert {each.status for each in drill.phases} == {PhaseStatus.DONE}
    work.write(work.a, 30)
    for group in work.groups:
        work.consume(work.a, group)
        assert Counter(work.read[group]) == work.content(work.a), "each record once"
    work.forward.catch_up()
    assert work.content(work.a) == work.content(work.b), "both clusters have each record once"
