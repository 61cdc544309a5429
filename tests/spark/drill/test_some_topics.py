"""A topic moves by itself and comes back, while the pipeline's run goes on with another one."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from k2ktui.drill.operations import list_drills, start_drill
from k2ktui.engine.drill.checks import DrillKind, DrillPhase
from k2ktui.engine.drill.model import ChangeKind, ChangeStatus, Drill, DrillStatus, PhaseStatus
from k2ktui.engine.drill.tail import TailChoice
from k2ktui.engine.drill.topics import TOPICS_STEP
from k2ktui.engine.records.state import Position
from k2ktui.errors import Refused
from k2ktui.kafka.clients import target_cluster
from k2ktui.replication.ownership.topic_moves import read_moved
from k2ktui.runtime.node import KafkaNode
from tests.spark.drill.test_failback import clusters, read_on, work_on_the_other_side
from tests.support.clusters.kafka import end_offsets, eventually
from tests.support.commands.acting import acting
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.drill.checks import grow_topic
from tests.support.drill.failback import Workload
from tests.support.drill.runs import MAY, QUICK, Yes
from tests.support.pipelines.pipeline import Run
from tests.support.records.numbered import PARTITIONS, write_numbered

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]
_COPIED_S = 180
QUICKLY = ("--frozen", "1", "--watch", "20", "--accept", ",".join(QUICK.accepted))


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
    with acting(partial(read_the_replay, work)):
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


def offsets_and_gaps(work: Workload) -> dict[int, tuple[int, object]]:
    return {number: (at.offset, at.gaps) for number, at in positions_of(work).items()}


def moves_of(work: Workload) -> list[tuple[str, str]]:
    """Return the moved topics of the forward pipeline, with the drills that have moved them."""
    moved = read_moved(work.flow.config, target_cluster(work.flow.config))
    return [(move.topic, move.drill) for move in moved.all]


def move_away(work: Workload) -> tuple[Run, Drill]:
    """Move a topic while the pipeline runs, then write to it on both clusters."""
    (other,) = work.others
    work.write(work.a, 100)
    write_numbered(work.a, other, "o", range(50))
    run = work.forward.start()
    for topic in (work.topic, other):
        await_copied(work, topic)
    work.consume(work.a, work.groups[0], 20)
    work.consume(work.a, work.groups[1], 5)
    options = replace(QUICK, topics=work.topic)
    away = start_drill(work.flow, DrillKind.PLANNED, options, [str(work.file)], MAY, Yes())
    assert away.status is DrillStatus.DONE, away
    work.write(work.a, 30)
    work_on_the_other_side(work)
    work.copy_back()
    return run, away


def goes_on(work: Workload, run: Run, first: int) -> None:
    """The run that was there from the beginning copies the other topic."""
    (other,) = work.others
    write_numbered(work.a, other, "o", range(first, first + 20))
    await_copied(work, other)
    assert end_offsets(work.b, other) and run.running, run.tail()


def test_a_tail_is_left_out_and_an_abort_takes_that_back_while_the_pipeline_runs(
    work: Workload, tmp_path: Path
) -> None:
    run, away = move_away(work)
    tail = {(b"a", b"%d" % n) for n in range(100, 130)}
    before = offsets_and_gaps(work)
    common = "-f", work.back, "--topics", work.topic, *QUICKLY

    steps = "topics,source-back,tail"  # apply is not confirmed, and so refused
    k2ktui("drill", "failback", *common, "--tail", "discard", "--yes-to", steps, code=5)
    (drill,) = work.failbacks()
    assert drill.record(DrillPhase.TAIL).status is PhaseStatus.DONE, drill
    assert {at.offset for at in positions_of(work).values()} == {65}
    goes_on(work, run, 50)
    assert {at.offset for at in positions_of(work).values()} == {65}, "no run has moved them"
    k2ktui("drill", "abort", drill.id, "-f", work.back)
    (aborted,) = work.failbacks()
    assert aborted.status is DrillStatus.ABORTED
    assert {change.status for change in aborted.changes} == {ChangeStatus.UNDONE}
    assert offsets_and_gaps(work) == before
    assert moves_of(work) == [(work.topic, away.id)]
    goes_on(work, run, 70)

    directory = tmp_path / "exported"
    export = "--tail", "export", "--export-to", directory
    k2ktui("drill", "failback", *common, *export, "--yes-to", "all", code=1)
    back = work.failbacks()[0]
    assert back.status is DrillStatus.DONE, back
    rows = [
        json.loads(line) for file in directory.iterdir() for line in file.read_text().splitlines()
    ]
    assert {row["topic"] for row in rows} == {work.topic}
    assert {(b"a", base64.b64decode(row["key"])) for row in rows} == tail
    assert moves_of(work) == []
    read_on(work, tail, lambda: await_copied(work, work.topic))
    goes_on(work, run, 90)


def test_an_abort_after_a_replay_keeps_the_copies_and_stops_copying_again(work: Workload) -> None:
    """What was copied stays; the run leaves the topic alone again, and the way back begins anew."""
    run, away = move_away(work)
    refuses = Yes(frozenset({DrillPhase.APPLY}))
    with acting(partial(read_the_replay, work)), pytest.raises(Refused, match="apply was not"):
        work.fail_back(refuses, topics=work.topic, tail=TailChoice.REPLAY, wait_s=300.0)
    assert moves_of(work) == []
    (drill,) = work.failbacks()
    assert f"{work.forward.name} runs" in drill.record(DrillPhase.TAIL).live
    said = k2ktui("drill", "abort", drill.id, "-f", work.back, code=1).stdout
    assert "Not taken back completely: copy 30 records of the old source" in said
    (aborted,) = work.failbacks()
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
    goes_on(work, run, 50)
    assert end_offsets(work.b, work.topic, "read_committed") == stands_at

    with acting(partial(read_the_replay, work)):
        again = work.fail_back(topics=work.topic, tail=TailChoice.REPLAY, wait_s=300.0)
    assert again.status is DrillStatus.DONE, again
    assert "10 records" in again.record(DrillPhase.TAIL).live
    assert moves_of(work) == []
    read_on(work, copy=lambda: await_copied(work, work.topic))
    goes_on(work, run, 70)


def read_the_replay(work: Workload) -> None:
    """What applications and an operator do while a failback waits for the copies of its tail."""
    copied = work.written(work.a) + work.written(work.b)
    eventually(lambda: work.content(work.b).total() == copied, "the tail is copied", 240)
    for group in work.groups:
        work.consume(work.b, group)
    work.copy_back()
