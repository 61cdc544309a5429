"""A topic moves by itself and comes back, while the pipeline's run goes on with another one."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from k2ktui.drill.operations import abort_drill, start_drill
from k2ktui.engine.drill.checks import DrillKind, DrillPhase
from k2ktui.engine.drill.model import ChangeKind, ChangeStatus, DrillStatus, PhaseStatus
from k2ktui.engine.drill.tail import TailChoice
from k2ktui.engine.drill.topics import TOPICS_STEP
from k2ktui.engine.records.state import Position
from k2ktui.errors import Refused
from k2ktui.kafka.clients import target_cluster
from k2ktui.replication.ownership.topic_moves import read_moved
from k2ktui.runtime.node import KafkaNode
from tests.spark.drill.test_failback import begin, clusters, read_on, work_on_the_other_side
from tests.support.clusters.kafka import end_offsets, eventually
from tests.support.commands.acting import acting
from tests.support.commands.cli import k2ktui_json
from tests.support.drill.checks import grow_topic
from tests.support.drill.failback import Workload
from tests.support.drill.runs import MAY, QUICK, Yes
from tests.support.records.numbered import PARTITIONS, write_numbered

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]
_COPIED_S = 180


@pytest.fixture
def work(tmp_path: Path, source: KafkaNode, target: KafkaNode) -> Iterator[Workload]:
    made = Workload(tmp_path, source, target, more=1)
    yield made
    made.close()


def await_copied(work: Workload, topic: str) -> None:
    eventually(lambda: work.forward.is_caught_up(topic), f"{topic} is copied", _COPIED_S)


def test_a_topic_moves_and_returns_while_the_pipeline_runs(work: Workload) -> None:
    (other,) = work.others
    work.write(work.a, 100)
    write_numbered(work.a, other, "o", range(50))
    run = work.forward.start()
    for topic in (work.topic, other):
        await_copied(work, topic)
    work.consume(work.a, work.groups[0], 20)
    work.consume(work.a, work.groups[1], 5)

    files = [str(work.file)]
    away = start_drill(
        work.flow, DrillKind.PLANNED, replace(QUICK, topics=work.topic), files, MAY, Yes()
    )
    assert away.status is DrillStatus.DONE, away
    moved = read_moved(work.flow.config, target_cluster(work.flow.config))
    assert [(move.topic, move.drill) for move in moved.all] == [(work.topic, away.id)]

    # The same run goes on with the other topic, and leaves the moved one alone, also if it grows.
    for topic in (work.topic, other):
        grow_topic(work.a, topic, PARTITIONS + 1)
    eventually(lambda: len(end_offsets(work.b, other)) > PARTITIONS, f"{other} grows", _COPIED_S)
    stands_at = end_offsets(work.b, work.topic, "read_committed")
    work.write(work.a, 30)
    write_numbered(work.a, other, "o", range(50, 90))
    await_copied(work, other)
    assert run.running, run.tail()
    assert end_offsets(work.b, work.topic, "read_committed") == stands_at
    assert len(stands_at) == PARTITIONS
    assert k2ktui_json("status", "-f", work.file)["pair_state"]["phase"] == "replicating"

    work.write(work.b, 40)
    work.consume(work.b, work.groups[0])
    work.consume(work.b, work.groups[1], 50)
    work.copy_back()
    operator = Yes()
    everything = 100 + 30 + 40

    def act() -> None:
        """What applications and an operator do while the drill waits for the copies."""
        eventually(
            lambda: sum(work.content(work.b).values()) == everything, "the tail is copied", 240
        )
        for group in work.groups:
            work.consume(work.b, group)
        work.copy_back()

    with acting(act):
        back = work.fail_back(operator, topics=work.topic, tail=TailChoice.REPLAY, wait_s=300.0)
    assert back.status is DrillStatus.DONE, back
    assert {phase.status for phase in back.phases} == {PhaseStatus.DONE}
    assert [step for step, _ in operator.asked] == [
        TOPICS_STEP,
        DrillPhase.TAIL,
        DrillPhase.APPLY,
        DrillPhase.MOVE_TOPICS,
        DrillPhase.OPEN_TARGET,
    ]
    assert "30 records" in back.record(DrillPhase.TAIL).live
    assert "0 read again, 0 skipped" in dict(operator.asked)[DrillPhase.APPLY]
    (released,) = [c for c in back.changes if c.kind is ChangeKind.RELEASED_TOPICS]
    assert released.status is ChangeStatus.MADE
    assert not read_moved(work.flow.config, target_cluster(work.flow.config))
    reverse = work.reverse_flow.config
    assert work.topic in read_moved(reverse, target_cluster(reverse))

    work.write(work.a, 30)
    await_copied(work, work.topic)
    for group in work.groups:
        work.consume(work.a, group)
        assert Counter(work.read[group]) == work.content(work.a), group
    assert set(work.content(work.a).values()) == {1}
    assert work.content(work.b) == work.content(work.a)
    assert run.running, run.tail()


def positions_of(work: Workload) -> dict[int, Position]:
    """Return where the forward pipeline stands in the topic, by partition."""
    positions = work.flow.open_mappings(*clusters(work)).positions()
    return {at.partition: known for at, known in positions.items() if at.topic == work.topic}


def test_a_tail_of_one_topic_is_left_out_and_an_abort_takes_that_back(
    work: Workload, tmp_path: Path
) -> None:
    (other,) = work.others
    write_numbered(work.a, other, "o", range(50))
    begin(work)
    options = replace(QUICK, topics=work.topic)
    away = start_drill(work.flow, DrillKind.PLANNED, options, [str(work.file)], MAY, Yes())
    work.write(work.a, 30)
    tail = {(b"a", b"%d" % n) for n in range(100, 130)}
    work_on_the_other_side(work)
    work.copy_back()
    before = positions_of(work)

    refuses = Yes(frozenset({DrillPhase.APPLY}))
    with pytest.raises(Refused, match="apply was not confirmed"):
        work.fail_back(refuses, topics=work.topic, tail=TailChoice.DISCARD)
    (drill,) = work.failbacks()
    assert {at.offset for at in positions_of(work).values()} == {65}
    aborted = abort_drill(work.reverse_flow, drill.id, [str(work.back)], MAY, Yes())
    assert aborted.status is DrillStatus.ABORTED
    assert {change.status for change in aborted.changes} == {ChangeStatus.UNDONE}
    now = positions_of(work)
    assert {n: (at.offset, at.gaps) for n, at in now.items()} == {
        n: (at.offset, at.gaps) for n, at in before.items()
    }
    moved = read_moved(work.flow.config, target_cluster(work.flow.config))
    assert [(move.topic, move.drill) for move in moved.all] == [(work.topic, away.id)]

    directory = tmp_path / "exported"
    back = work.fail_back(
        topics=work.topic, tail=TailChoice.EXPORT, export_to=str(directory), wait_s=300.0
    )
    assert back.status is DrillStatus.DONE, back
    rows = [
        json.loads(line) for file in directory.iterdir() for line in file.read_text().splitlines()
    ]
    assert {row["topic"] for row in rows} == {work.topic}
    assert {(b"a", base64.b64decode(row["key"])) for row in rows} == tail
    assert not read_moved(work.flow.config, target_cluster(work.flow.config))
    write_numbered(work.a, other, "o", range(50, 90))
    read_on(work, tail)
    assert sum(end_offsets(work.b, other).values()) >= 90
