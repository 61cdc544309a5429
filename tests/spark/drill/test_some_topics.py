"""A topic moves by itself and comes back, while the pipeline's run goes on with another one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from k2ktui.drill.operations import list_drills, start_drill
from k2ktui.drill.ownership import Actor
from k2ktui.engine.drill.checks import DrillKind, DrillPhase
from k2ktui.engine.drill.model import ChangeKind, ChangeStatus, Drill, DrillStatus, PhaseStatus
from k2ktui.engine.drill.tail import TailChoice
from k2ktui.engine.drill.topics import TOPICS_STEP
from k2ktui.engine.records.state import Position
from k2ktui.errors import Refused
from k2ktui.kafka.clients import target_cluster
from k2ktui.replication.ownership.topic_moves import read_moved
from k2ktui.runtime.node import KafkaNode
from tests.spark.drill.test_failback import PATIENCE_S, clusters, read_on, work_on_the_other_side
from tests.support.clusters.kafka import (
    end_offsets,
    eventually,
    grow_topic,
)
from tests.support.commands.acting import acting
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.drill.failback import Workload
from tests.support.drill.runs import MAY, QUICK, Yes
from tests.support.pipelines.pipeline import START_TIMEOUT, Run
from tests.support.records.numbered import PARTITIONS, write_numbered

pytestmark = pytest.mark.slow
_COPIED_S = START_TIMEOUT
QUICKLY = ("--frozen", "1", "--watch", "20", "--accept", ",".join(QUICK.accepted))


@pytest.fixture
def work(tmp_path: Path, source: KafkaNode, target: KafkaNode) -> Iterator[Workload]:
    made = Workload(tmp_path, source, target, more=1)
    yield made
    made.close()


def await_copied(work: Workload, topic: str) -> None:
    eventually(lambda: work.forward.is_caught_up(topic), f"{topic} is copied", _COPIED_S)


def positions_of(work: Workload) -> dict[int, Position]:
    """Return where the forward pipeline stands in the topic, by partition."""
    positions = work.flow.read_copier(*clusters(work)).positions
    return {at.partition: known for at, known in positions.items() if at.topic == work.topic}


def offsets_and_gaps(work: Workload) -> dict[int, tuple[int, object]]:
    return {number: (at.offset, at.gaps) for number, at in positions_of(work).items()}


def moves_of(work: Workload) -> list[tuple[str, str]]:
    """Return the moved topics of the forward pipeline, with the drills that have moved them."""
    moved = read_moved(work.flow.config, target_cluster(work.flow.config))
    return [(move.topic, move.drill) for move in moved.all]


def move_away(work: Workload) -> tuple[Run, Drill]:
    """Move a topic while the pipeline runs; the same run goes on with the other one."""
    (other,) = work.others
    work.write(work.a, 100)
    write_numbered(work.a, other, "o", range(50))
    run = work.forward.start()
    run.expect("started")
    for topic in (work.topic, other):
        await_copied(work, topic)
    work.consume(work.a, work.groups[0], 20)
    work.consume(work.a, work.groups[1], 5)
    options = replace(QUICK, topics=work.topic)
    away = start_drill(Actor(work.flow, [str(work.file)], MAY, Yes()), DrillKind.PLANNED, options)
    assert away.status is DrillStatus.DONE, away
    assert moves_of(work) == [(work.topic, away.id)]
    # It leaves the moved topic alone, also if that grows.
    for topic in (work.topic, other):
        grow_topic(work.a, topic, PARTITIONS + 1)
    eventually(lambda: len(end_offsets(work.b, other)) > PARTITIONS, f"{other} grows", _COPIED_S)
    stands_at = end_offsets(work.b, work.topic, "read_committed")
    work.write(work.a, 30)
    goes_on(work, run, 50)
    assert end_offsets(work.b, work.topic, "read_committed") == stands_at
    assert len(stands_at) == PARTITIONS
    assert k2ktui_json("status", "-f", work.file)["pair_state"]["phase"] == "replicating"
    return run, away


def goes_on(work: Workload, run: Run, first: int) -> None:
    """The run that was there from the beginning copies the other topic."""
    (other,) = work.others
    write_numbered(work.a, other, "o", range(first, first + 20))
    await_copied(work, other)
    assert end_offsets(work.b, other) and run.running, run.tail()


def test_a_topic_moves_and_returns_while_the_pipeline_runs(work: Workload) -> None:
    """The way back is aborted twice: with a tail that was left out, and with one that was copied.

    The same run copies another topic meanwhile.
    """
    run, away = move_away(work)
    work_on_the_other_side(work)
    work.copy_back()
    abort_a_discarded_tail(work, run, away)
    abort_after_a_replay(work, run, away)

    operator = Yes()
    with acting(partial(read_the_replay, work)):
        back = work.fail_back(
            operator, topics=work.topic, tail=TailChoice.REPLAY, wait_s=PATIENCE_S
        )
    assert back.status is DrillStatus.DONE, back
    assert {phase.status for phase in back.phases} == {PhaseStatus.DONE}
    assert [step for step, _ in operator.asked] == [
        TOPICS_STEP,
        DrillPhase.TAIL,
        DrillPhase.APPLY,
        DrillPhase.MOVE_TOPICS,
        DrillPhase.OPEN_TARGET,
    ]
    assert "10 records" in back.record(DrillPhase.TAIL).live
    assert "0 read again, 0 skipped" in dict(operator.asked)[DrillPhase.APPLY]
    (released,) = [c for c in back.changes if c.kind is ChangeKind.RELEASED_TOPICS]
    assert released.status is ChangeStatus.MADE
    assert moves_of(work) == []
    reverse = work.reverse_flow.config
    assert work.topic in read_moved(reverse, target_cluster(reverse))
    read_on(work, copy=lambda: await_copied(work, work.topic))
    goes_on(work, run, 130)


def abort_a_discarded_tail(work: Workload, run: Run, away: Drill) -> None:
    """The run goes on with the other topic, and moves no position of the one that is drilled."""
    before = offsets_and_gaps(work)
    # Apply is not confirmed, and so refused.
    choices = "--tail", "discard", "--yes-to", "topics,source-back,tail"
    topics = "--topics", work.topic
    k2ktui("drill", "failback", "-f", work.back, *topics, *QUICKLY, *choices, code=5)
    (drill,) = work.failbacks()
    assert drill.record(DrillPhase.TAIL).status is PhaseStatus.DONE, drill
    assert past_the_tail(work)
    goes_on(work, run, 70)
    assert past_the_tail(work), "no run has moved them"
    k2ktui("drill", "abort", drill.id, "-f", work.back)
    (aborted,) = work.failbacks()
    assert aborted.status is DrillStatus.ABORTED
    assert {change.status for change in aborted.changes} == {ChangeStatus.UNDONE}
    assert offsets_and_gaps(work) == before
    assert moves_of(work) == [(work.topic, away.id)]
    goes_on(work, run, 90)


def past_the_tail(work: Workload) -> bool:
    """Return whether the forward pipeline stands behind the records that it never copied."""
    positions = positions_of(work)
    return {positions[number].offset for number in range(PARTITIONS)} == {65}


def abort_after_a_replay(work: Workload, run: Run, away: Drill) -> None:
    """What was copied stays; the run leaves the topic alone again, and the way back begins anew."""
    refuses = Yes(frozenset({DrillPhase.APPLY}))
    with acting(partial(read_the_replay, work)), pytest.raises(Refused, match="apply was not"):
        work.fail_back(refuses, topics=work.topic, tail=TailChoice.REPLAY, wait_s=PATIENCE_S)
    assert moves_of(work) == []
    drill = work.failbacks()[0]
    assert f"{work.forward.name} runs" in drill.record(DrillPhase.TAIL).live
    said = k2ktui("drill", "abort", drill.id, "-f", work.back, code=1).stdout
    assert "Not taken back completely: copy 30 records of the old source" in said
    aborted = work.failbacks()[0]
    assert aborted.status is DrillStatus.ABORTED
    statuses = {change.kind: change.status for change in aborted.changes}
    assert statuses[ChangeKind.RELEASED_TOPICS] is ChangeStatus.UNDONE
    assert statuses[ChangeKind.TAIL] is ChangeStatus.KEPT
    (problem,) = [text for text in aborted.blockers if "what was copied" in text]
    assert problem.endswith("stays on the new primary") and f"{work.topic}-0" in problem
    assert moves_of(work) == [(work.topic, away.id)]
    (moving,) = [d for d in list_drills(work.flow) if d.id == away.id]
    (change,) = [c for c in moving.changes if c.kind is ChangeKind.MOVED_TOPICS]
    assert change.status is ChangeStatus.MADE
    k2ktui("drill", "report", away.id, "-f", work.file, "--verify")

    stands_at = end_offsets(work.b, work.topic, "read_committed")
    work.write(work.a, 10)
    goes_on(work, run, 110)
    assert end_offsets(work.b, work.topic, "read_committed") == stands_at


def read_the_replay(work: Workload) -> None:
    """What applications and an operator do while a failback waits for the copies of its tail."""
    copied = work.written(work.a) + work.written(work.b)
    eventually(lambda: work.content(work.b).total() == copied, "the tail is copied", PATIENCE_S)
    for group in work.groups:
        work.consume(work.b, group)
    work.copy_back()
