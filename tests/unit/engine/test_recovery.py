"""Which lost positions are rebuilt: a model of both logs and of the mapping topic, and each reason.

A position that is rebuilt must be the lost one, whatever happened before: a lower one copies
records twice, a higher one leaves records out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from k2ktui.engine.drill.changes import dump_names
from k2ktui.engine.drill.checks import DrillKind, DrillPhase
from k2ktui.engine.drill.model import Change, ChangeKind, ChangeStatus, Drill
from k2ktui.engine.mapping.log import MappingChunk
from k2ktui.engine.mapping.range_columns import RangeColumns
from k2ktui.engine.moves.positions import MoveEffect, PositionMove, SourceLog, TargetTopicState
from k2ktui.engine.moves.recovery import (
    COMPARED,
    Copy,
    LostPartition,
    MappingEvidence,
    TargetEnd,
    find_moved,
    is_unique,
    plan_recovery,
)
from k2ktui.engine.records.moved_topic import MovedTopic
from k2ktui.engine.records.state import Covers, Position, SourcePartition
from tests.support.schedule.examples import examples

SOURCE, TARGET = SourcePartition("orders", 0), ("orders", 0)
LANDING = TargetTopicState("orders", 0, "t1")


@dataclass
class World:
    """One source partition and its copy; the content of a record is a number."""

    source: list[int] = field(default_factory=list)
    target: list[int | None] = field(default_factory=list)  # None: a marker
    chunks: list[MappingChunk] = field(default_factory=list)
    position: int = 0
    term: int = 1
    start: int = 0
    moved_to: tuple[int, int] | None = None
    topic: str = "id-0"
    is_mapped: bool = True  # the last copy
    landed: int = 0  # target offset after it

    def produce(self, contents: Iterable[int]) -> None:
        # Others than before the topic was created again: with the same records at the same offsets,
        # it is the same log.
        self.source += [content + 10 * self.topic.count("'") for content in contents]

    def copy(self, most: int, *, mapped: bool = True) -> None:
        first, end = self.position, min(len(self.source), self.position + most)
        if first == end or len(self.target) < self.landed:
            return  # a run copies nothing to a target that has lost what it had written there
        landed = len(self.target)
        self.target += [*self.source[first:end], None]
        if mapped:
            self.map(first, end, landed)
        self.position, self.is_mapped, self.landed = end, mapped, len(self.target)

    def map(self, first: int, end: int, landed: int, *, again: bool = False) -> None:
        columns = RangeColumns(
            *(np.array([n], dtype=np.int64) for n in (first, landed, end - first))
        )
        at = len(self.chunks)
        covers = Covers(first, end)
        self.chunks.append(
            MappingChunk(self.term, 0, at, at, at, covers, TARGET, columns, again=again)
        )

    def rewind(self, to: int) -> None:
        self.term += 1
        self.position = min(to, len(self.source))
        self.moved_to = self.position, self.term
        self.term += 1

    def recreate(self, contents: Iterable[int]) -> None:
        """Delete the source topic, and make it again; its position is cleared."""
        self.topic += "'"
        self.source = []
        self.produce(contents)
        self.position = self.landed = 0
        self.term += 1

    def evidence(self) -> MappingEvidence:
        evidence = MappingEvidence()
        for chunk in self.chunks:
            evidence.take(SOURCE, chunk)
        return evidence

    def recover(self, **known: Any) -> PositionMove | None:
        evidence = self.evidence()
        end = evidence.landed_end(TARGET)
        landed = {} if end is None else {TARGET: end}
        next_record = next(
            (at for at in range(end or 0, len(self.target)) if self.target[at] is not None), None
        )
        ends = {TARGET: TargetEnd(0, len(self.target), next_record if end is not None else None)}
        span = evidence.span(SOURCE)
        lost = LostPartition(
            SOURCE,
            None,
            span,
            SourceLog(self.start, len(self.source), self.topic),
            LANDING,
            self._compare(span.firsts + span.last, span.last) if span is not None else "",
            self.moved_to,
        )
        return plan_recovery(replace(lost, **known), landed, ends, is_whole=True, begins_early=True)

    def _compare(self, copies: Iterable[Copy], last: Iterable[Copy]) -> str:
        for copy in copies:
            if copy.offset >= len(self.source) or copy.target_offset >= len(self.target):
                return "gone"
            if self.source[copy.offset] != self.target[copy.target_offset]:
                return "different"
        here = [self.source[copy.offset] for copy in last]
        return "" if is_unique(here) else "not unique"


steps = st.lists(
    st.one_of(
        st.tuples(st.just("produce"), st.lists(st.integers(0, 3), min_size=1, max_size=6)),
        st.tuples(st.just("copy"), st.integers(1, 6)),
        st.tuples(st.just("copy"), st.integers(1, 6)),
        st.tuples(st.just("unmapped"), st.integers(1, 6)),
        st.tuples(st.just("rewind"), st.integers(0, 12)),
        st.tuples(st.just("term"), st.just(0)),
        st.tuples(st.just("native"), st.integers(0, 3)),
        st.tuples(st.just("expire"), st.integers(1, 4)),
        st.tuples(st.just("recreate"), st.lists(st.integers(0, 3), max_size=12)),
        st.tuples(st.just("truncate"), st.integers(1, 4)),
    ),
    min_size=1,
    max_size=14,
)


def play(world: World, story: Iterable[tuple[str, Any]]) -> None:
    for what, how in story:
        match what:
            case "produce":
                world.produce(how)
            case "copy":
                world.copy(how)
            case "unmapped":
                world.copy(how, mapped=False)
            case "rewind":
                world.rewind(how)
            case "term":
                world.term += 1
            case "native":
                world.target.append(how)
            case "expire":
                del world.chunks[:how]
            case "recreate":
                world.recreate(how)
            case "truncate" if world.is_mapped:  # other copies are rightly made again
                del world.target[-how:]


@settings(max_examples=examples(2_000), deadline=None)
@given(steps)
def test_what_is_rebuilt_is_the_lost_position(story: list[tuple[str, Any]]) -> None:
    world = World()
    play(world, story)
    move = world.recover()
    event("new" if move is None else str(move.effect))
    if move is None:
        assert not world.target
    elif move.effect is MoveEffect.RECOVER:
        assert move.after is not None and move.offset == move.after.offset
        assert move.offset == world.position
    else:
        assert move.effect is MoveEffect.STOP and move.after is not None and move.after.stopped


@settings(max_examples=examples(400), deadline=None)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=8), st.integers(0, 5))
def test_a_quiet_partition_is_rebuilt(copies: list[int], left: int) -> None:
    world = World()
    world.produce(range(sum(copies) + left))
    for most in copies:
        world.copy(most)
        world.term += most % 3
    move = world.recover()
    assert move is not None and move.effect is MoveEffect.RECOVER, move
    after = move.after
    assert after is not None and (after.offset, after.start) == (world.position, 0)
    assert after.since == 1 and after.topic_id == "id-0" and after.target_topic_id == "t1"
    (landed,) = after.landed
    assert landed.first == landed.end == len(world.target) - 1


def copied(count: int = 10) -> World:
    world = World()
    world.produce(range(count))
    world.copy(count)
    return world


def why(world: World, **known: Any) -> str:
    move = world.recover(**known)
    assert move is not None and move.effect is MoveEffect.STOP and move.after is not None
    assert move.why == move.after.stopped
    return move.why


def test_each_doubt_stops_the_partition() -> None:
    world = copied()
    world.target.append(7)
    assert "records from offset 11 on that no mapping names" in why(world)
    world = copied()
    del world.target[-3:]
    assert "ends at offset 8, before its last copy" in why(world)
    assert "does not exist on the source" in why(copied(), log=None)
    assert "the source has the offsets 0 to 4" in why(copied(), log=SourceLog(0, 4))
    assert "the source has the offsets 12 to 20" in why(copied(), log=SourceLog(12, 20))
    elsewhere = TargetTopicState("other", 0, "t2")
    assert "mapped to orders-0, and the file copies it elsewhere" in why(
        copied(), landing=elsewhere
    )
    gone = replace(LANDING, topic_id=None)
    assert "target topic orders does not exist" in why(copied(), landing=gone)
    assert "set it to offset 3 in term 9" in why(copied(), moved_to=(3, 9))
    assert why(copied(), doubt="differs") == "differs"
    assert why(copied(), refused="unreadable") == "unreadable"
    world = copied()
    world.chunks.append(replace(world.chunks[0], covers=Covers(10, 14, 0, 2), offset=1, last=1))
    assert "up to offset 14, is not complete" in why(world)


def test_records_that_repeat_prove_nothing() -> None:
    world = World()
    world.produce([1] * 9)
    world.copy(9)
    assert why(world) == "not unique"
    assert is_unique([1, 1, 2]) and not is_unique([1, 1, 2, 2]) and not is_unique([])


def test_a_position_as_new_as_its_mapping_is_kept_and_an_older_one_is_rebuilt() -> None:
    world = copied()
    position = Position(10, 0, -1, "id-0", 1, 0, "orders", 0)
    for kept in (position, replace(position, offset=4, term=2)):
        move = world.recover(position=kept)
        assert move is not None and move.effect is MoveEffect.KEEP
    older = replace(position, offset=7)
    move = world.recover(position=older)
    assert move is not None and (move.effect, move.before, move.offset) == (
        MoveEffect.RECOVER,
        older,
        10,
    )
    refused = world.recover(position=position, refused="unreadable")
    assert refused is not None and refused.after == replace(position, stopped="unreadable")


def test_a_partition_without_a_mapping_is_new_only_if_the_target_never_had_records() -> None:
    assert World().recover() is None
    world = World(target=[5])
    assert "no mapping of it is left" in why(world)
    lost = LostPartition(SOURCE, log=SourceLog(0, 5), landing=LANDING)
    empty = {TARGET: TargetEnd(0, 0)}
    assert plan_recovery(lost, {}, empty, is_whole=True, begins_early=True) is None
    move = plan_recovery(lost, {}, empty, is_whole=True, begins_early=False)
    assert move is not None and "where it was to begin is not known" in move.why


def test_a_scattered_partition_needs_the_ends_of_all_target_partitions() -> None:
    scattered = replace(LANDING, partition=None)
    assert (move := copied().recover(landing=scattered)) and move.effect is MoveEffect.RECOVER
    world = copied()
    evidence = world.evidence()
    span, end = evidence.span(SOURCE), evidence.landed_end(TARGET)
    assert end is not None
    lost = LostPartition(SOURCE, None, span, SourceLog(0, 10, "id-0"), scattered)
    ends = {TARGET: TargetEnd(0, 11), ("orders", 1): TargetEnd(0, 3)}
    move = plan_recovery(lost, {TARGET: end}, ends, is_whole=True, begins_early=True)
    assert move is not None and "orders-1 on the target has had records" in move.why


def test_only_the_last_copies_and_the_first_of_each_term_are_compared() -> None:
    world = World()
    world.produce(range(200))
    for _ in range(4):
        world.copy(50)
        world.term += 1
    span = world.evidence().span(SOURCE)
    assert span is not None and len(span.last) == COMPARED
    assert [copy.offset for copy in span.last] == list(range(200 - COMPARED, 200))
    assert [copy.offset for copy in span.firsts] == [0, 50, 100, 150]
    assert (span.first, span.end, span.since, span.term) == (0, 200, 1, 4)


def test_what_was_cleared_is_void() -> None:
    world = copied()
    evidence = MappingEvidence(lambda _: 1)
    for chunk in world.chunks:
        evidence.take(SOURCE, chunk)
    assert evidence.span(SOURCE) is None and evidence.landed_end(TARGET) == 10
    assert evidence.term == 1


def test_lost_mappings_leave_the_start_open() -> None:
    world = copied(20)
    lost = LostPartition(SOURCE, None, None, SourceLog(0, 20, "id-0"), LANDING)
    evidence = MappingEvidence()
    world.chunks = [replace(world.chunks[0], covers=Covers(5, 20))]
    for chunk in world.chunks:
        evidence.take(SOURCE, chunk)
    lost = replace(lost, mapped=evidence.span(SOURCE))
    starts = []
    for is_whole, begins_early in ((True, True), (False, True), (False, False)):
        move = plan_recovery(
            lost,
            {TARGET: 20},
            {TARGET: TargetEnd(0, 21)},
            is_whole=is_whole,
            begins_early=begins_early,
        )
        assert move is not None and move.after is not None
        starts.append(move.after.start)
    assert starts == [5, 0, 5]


def drill(status: ChangeStatus, *topics: str) -> Drill:
    change = Change(
        DrillPhase.MOVE_TOPICS, ChangeKind.MOVED_TOPICS, "move", "", dump_names(topics), "", status
    )
    return Drill(
        "20261121-101500-3f2a",
        DrillKind.PLANNED,
        "p",
        "A",
        "B",
        "0.1",
        17,
        "ann@bastion",
        topics=topics,
        changes=(change,),
    )


@pytest.mark.parametrize("status", ChangeStatus)
def test_moved_topics_come_from_drills(status: ChangeStatus) -> None:
    moved = find_moved([drill(status, "a", "b")], [MovedTopic("b", "b", "d", 1, "w")], {"a": "A"})
    is_moved = status is not ChangeStatus.UNDONE
    assert [(m.topic, m.target, m.drill, m.at_ms) for m in moved] == (
        [("a", "A", "20261121-101500-3f2a", 17)] if is_moved else []
    )
