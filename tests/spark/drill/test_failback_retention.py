"""A failback after an absence that was longer than the old source's retention."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from k2ktui.engine.drill.checks import DrillPhase
from k2ktui.engine.drill.model import DrillStatus, PhaseStatus
from k2ktui.engine.records.gaps import RETURNED
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import delete_before, end_offsets, start_offsets
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.drill.failback import Workload
from tests.support.drill.runs import Yes
from tests.support.records.numbered import write_numbered

pytestmark = pytest.mark.slow


@pytest.fixture
def work(tmp_path: Path, source: KafkaNode, target: KafkaNode) -> Iterator[Workload]:
    made = Workload(tmp_path, source, target)
    yield made
    made.close()


def delete_heads(node: KafkaNode, topic: str, offsets: Mapping[int, int]) -> None:
    """Delete what is before these offsets, as retention does."""
    for number, offset in offsets.items():
        delete_before(node, topic, offset, number)
    assert start_offsets(node, topic) == offsets


def shown_positions(work: Workload) -> dict[int, dict[str, object]]:
    reply = k2ktui_json("offsets", "show", "-f", work.file)["partitions"]
    return {row["partition"]: row for row in reply}


def test_positions_move_past_deleted_records_that_came_from_the_other_cluster(
    work: Workload,
) -> None:
    """Of one partition, others may have written some of what is deleted: that is a choice."""
    work.write(work.a, 100)
    work.forward.catch_up()
    for group in work.groups:
        work.consume(work.a, group, 20)
    work.fail_over()
    copied = end_offsets(work.a, work.topic)
    # By a producer that was forgotten; even numbers are on partition 0.
    write_numbered(work.a, work.topic, "forgotten", (0, 2))
    work.write(work.b, 40)
    for group in work.groups:
        work.consume(work.b, group)
    work.copy_back()
    ends = end_offsets(work.a, work.topic)
    # Of one partition, a part of what came back is left; of the other one, nothing.
    delete_heads(work.a, work.topic, {0: ends[0] - 5, 1: ends[1]})

    stopped = work.fail_back()
    record = stopped.record(DrillPhase.SOURCE_BACK)
    assert stopped.status is DrillStatus.OPEN and record.status is PhaseStatus.FAILED
    assert "it is not proven that the reverse pipeline had written all of it" in record.findings[0]
    (command,) = re.findall(r"k2ktui (offsets set .*) moves ", record.findings[-1])
    k2ktui(*shlex.split(command), "--yes")

    operator = Yes()
    drill = work.resume(stopped, operator)
    assert drill.status is DrillStatus.DONE, drill
    effect = dict(operator.asked)[DrillPhase.SOURCE_BACK]
    deleted = ends[1] - copied[1]
    assert f"on 1 partition past {deleted} offsets that retention has deleted" in effect
    assert "positions moved past" in drill.record(DrillPhase.SOURCE_BACK).live
    assert shown_positions(work)[1]["gaps"] == [[copied[1], ends[1], RETURNED]]
    work.write(work.a, 30)
    work.forward.catch_up()
    written = {(b"a", b"%d" % n) for n in range(130)} | {(b"b", b"%d" % n) for n in range(40)}
    assert work.content(work.b) == Counter(dict.fromkeys(written, 1))
    for group in work.groups:
        work.consume(work.a, group)
        assert Counter(work.read[group]) == Counter(dict.fromkeys(written, 1)), group
