"""Moves of positions: gaps, start and since against a model that remembers every copied offset."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from k2ktui.engine.moves.acceptance import plan_acceptance
from k2ktui.engine.moves.positions import (
    LOST,
    SET,
    SKIPPED,
    MoveEffect,
    PositionPlan,
    SourceLog,
    TargetTopicState,
    plan_clear,
    plan_move,
)
from k2ktui.engine.records.state import FirstLanded, Gap, Landed, Position, SourcePartition
from k2ktui.sync.moves.journal_writer import position_row
from tests.support.schedule.examples import examples

SOURCE = SourcePartition("t", 0)
LOG = SourceLog(0, 1000, "a")
THERE = TargetTopicState("t", 0, "b")
_IDS = st.sampled_from(["", "a", "other"])
POSITION = Position(500, 100, 4, "a", 3, 2, "t", 0, "b", since=2, at_ms=9)


@pytest.mark.parametrize("offset", [-1, 49, 1001])
def test_outside_of_the_log_is_refused(offset: int) -> None:
    move = plan_move(SOURCE, POSITION, offset, replace(LOG, start=50), THERE)
    assert (move.effect, move.after, move.changes) == (MoveEffect.REFUSED, None, False)
    assert "log start offset 50, last stable offset 1000" in move.why
    assert PositionPlan(SET, "orders", (move,)).refused == (move,)


@pytest.mark.parametrize("offset", [50, 1000])
def test_the_ends_of_the_log_are_inside(offset: int) -> None:
    assert plan_move(SOURCE, POSITION, offset, replace(LOG, start=50), THERE).changes


def test_what_is_not_there_is_refused() -> None:
    assert plan_move(SOURCE, POSITION, 500, None, THERE).effect is MoveEffect.REFUSED
    gone = TargetTopicState("t", 0, None)
    assert "does not exist" in plan_move(SOURCE, POSITION, 500, LOG, gone).why
    assert plan_move(SOURCE, None, 500, LOG, gone).effect is MoveEffect.REFUSED


def test_the_same_offset_changes_nothing() -> None:
    move = plan_move(SOURCE, POSITION, 500, LOG, THERE)
    assert (move.effect, move.changes) == (MoveEffect.KEEP, False)


def test_every_topic_that_an_expression_may_choose_counts() -> None:
    there = replace(THERE, partition=None, further=(("u", "c"),))
    begun = plan_move(SOURCE, None, 10, LOG, there).after
    assert begun is not None and begun.target_topics == {"t": "b", "u": "c"}
    gone = replace(there, further=(("u", None),))
    assert "u does not exist" in plan_move(SOURCE, None, 10, LOG, gone).why
    other = replace(there, further=(("u", "d"),))
    again = plan_move(SOURCE, begun, 10, LOG, other)
    assert "u was deleted and created again" in again.why


def test_a_target_that_ends_before_what_was_written_is_another_one() -> None:
    """The mapping starts over, and nothing that was written before is expected there."""
    written = replace(POSITION, landed=(Landed("t", 0, 0, 400),))
    move = plan_move(SOURCE, written, 500, LOG, replace(THERE, shorter="t-0"))
    assert (move.effect, move.changes) == (MoveEffect.RESTART, True)
    assert "t-0 was created again on the target, or has lost records" in move.why
    after = move.stamp(8, 99)
    assert after is not None and (after.start, after.since, after.landed) == (500, 8, ())


def test_a_move_keeps_what_is_known_of_the_target_log() -> None:
    written = replace(POSITION, landed=(Landed("t", 0, 0, 400),))
    for offset in (50, 200, 700):
        after = plan_move(SOURCE, written, offset, LOG, THERE).after
        # A span claims that the target's end is that of the position; after a move back, it is not.
        first = 0 if offset == 700 else 400
        assert after is not None and after.landed == (Landed("t", 0, first, 400),)


def test_a_move_back_keeps_the_first_copy_that_is_before_it() -> None:
    first = FirstLanded("t", 0, 150, 7)
    written = replace(POSITION, first_landed=(first,))

    def kept(offset: int) -> object:
        after = plan_move(SOURCE, written, offset, LOG, THERE).after
        assert after is not None
        return after.first_landed

    assert (kept(700), kept(151), kept(150), kept(100)) == ((first,), (first,), (), None)


def test_a_new_position_begins() -> None:
    move = plan_move(SOURCE, None, 7, replace(LOG, start=5), THERE)
    assert (move.effect, move.left_out, move.again) == (MoveEffect.BEGIN, 2, 0)
    assert move.stamp(8, 99) == Position(7, 7, -1, "a", 8, -1, "t", 0, "b", since=8, at_ms=99)


def test_back_behind_the_start_keeps_the_mapping_of_what_was_before() -> None:
    move = plan_move(SOURCE, POSITION, 300, LOG, THERE)
    assert (move.effect, move.again, move.left_out) == (MoveEffect.BACK, 200, 0)
    after = move.stamp(8, 99)
    assert after is not None
    assert (after.offset, after.start, after.since, after.term) == (300, 100, 2, 8)
    assert (after.leader_epoch, after.slot, after.at_ms) == (-1, -1, 99)


@pytest.mark.parametrize("offset", [100, 40])
def test_back_to_the_start_or_before_begins_the_mapping_again(offset: int) -> None:
    gapped = replace(POSITION, gaps=(Gap(100, 120, LOST),))
    move = plan_move(SOURCE, gapped, offset, LOG, THERE)
    after = move.stamp(8, 99)
    assert after is not None and move.again == 500 - offset
    assert (after.offset, after.start, after.since, after.gaps) == (offset, offset, 8, ())


def test_forward_leaves_a_gap() -> None:
    move = plan_move(SOURCE, POSITION, 700, LOG, THERE)
    assert (move.effect, move.left_out, move.again) == (MoveEffect.FORWARD, 200, 0)
    assert move.after is not None and move.after.gaps == (Gap(500, 700, SKIPPED),)
    further = plan_move(SOURCE, move.stamp(8, 0), 800, LOG, THERE)
    assert further.after is not None and further.after.gaps == (Gap(500, 800, SKIPPED),)


def test_a_mistake_is_set_right_without_a_trace() -> None:
    gapped = replace(POSITION, gaps=(Gap(400, 450, LOST),))
    for mistake in (0, 300, 420, 900):
        wrong = plan_move(SOURCE, gapped, mistake, LOG, THERE).stamp(8, 0)
        right = plan_move(SOURCE, wrong, 500, LOG, THERE, gapped)
        assert (right.again, right.left_out) == (0, 0)
        after = right.stamp(9, 0)
        assert after == replace(gapped, term=9, at_ms=0, leader_epoch=-1, slot=-1)
    further = plan_move(SOURCE, wrong, 700, LOG, THERE, gapped)
    assert (further.effect, further.left_out) == (MoveEffect.BACK, 200)
    another = replace(gapped, topic_id="another")
    assert plan_move(SOURCE, POSITION, 700, LOG, THERE, another).left_out == 200


def test_forward_over_what_is_lost_distinguishes_the_two() -> None:
    log = replace(LOG, start=600)
    move = plan_move(SOURCE, POSITION, 700, log, THERE)
    assert move.after is not None
    assert move.after.gaps == (Gap(500, 600, LOST), Gap(600, 700, SKIPPED))
    assert "100 of them are lost" in move.why
    earliest = plan_move(SOURCE, POSITION, 600, log, THERE)
    assert earliest.after is not None and earliest.after.gaps == (Gap(500, 600, LOST),)


@pytest.mark.parametrize(
    ("log", "landing", "again"),
    [(replace(LOG, topic_id="z"), THERE, 0), (LOG, replace(THERE, topic_id="z"), 200)],
)
def test_another_incarnation_begins_again(
    log: SourceLog, landing: TargetTopicState, again: int
) -> None:
    move = plan_move(SOURCE, POSITION, 300, log, landing)
    after = move.stamp(8, 99)
    assert (move.effect, move.again) == (MoveEffect.RESTART, again)
    assert after is not None and (after.start, after.since, after.gaps) == (300, 8, ())
    assert (after.topic_id, after.target_topic_id) == (log.topic_id, landing.topic_id)


def test_brokers_without_ids_are_no_other_incarnation() -> None:
    move = plan_move(SOURCE, POSITION, 300, replace(LOG, topic_id=""), replace(THERE, topic_id=""))
    assert move.effect is MoveEffect.BACK
    assert move.after is not None and move.after.topic_id == "a"


def test_clearing() -> None:
    move = plan_clear(SOURCE, POSITION, LOG, 0)
    assert (move.effect, move.again, move.left_out, move.stamp(8, 0)) == (
        MoveEffect.CLEAR,
        400,
        0,
        None,
    )
    assert plan_clear(SOURCE, POSITION, LOG, 1000).left_out == 500
    assert plan_clear(SOURCE, POSITION, LOG, None).again == 0
    assert "does not exist" in plan_clear(SOURCE, POSITION, None, None).why


@given(
    offset=st.integers(0, 1000),
    log=st.none() | st.builds(SourceLog, st.integers(0, 600), st.integers(400, 1000), _IDS),
    before=st.none() | st.builds(replace, st.just(POSITION), stopped=st.sampled_from(["", "why"])),
    doubt=st.sampled_from(["", "it differs"]),
)
def test_the_journal_says_what_is_stored(
    offset: int, log: SourceLog | None, before: Position | None, doubt: str
) -> None:
    moves = [
        plan_move(SOURCE, before, offset, log, THERE),
        plan_clear(SOURCE, before, log, offset),
        plan_acceptance(SOURCE, before or POSITION, doubt, log, {"t": "c"}, ["source", "target"]),
    ]
    for move in moves:
        written = move.stamp(9, 0)
        if move.effect is not MoveEffect.REFUSED:
            row = position_row(move, written)
            assert row.after == move.then == (written.offset if written else None)


@dataclass
class Model:
    """Remembers each copied source offset with the term of its last copy."""

    position: Position
    term: int = 1
    copies: dict[int, int] = field(default_factory=dict)
    reached: Position | None = None

    def copy(self, count: int) -> None:
        end = min(self.position.offset + count, LOG.end)
        if end > self.position.offset:
            self.reached = None
            # What comes later replaces what was mapped from there on (Ranges.append).
            self.copies = {o: t for o, t in self.copies.items() if o < self.position.offset}
        self.copies.update(dict.fromkeys(range(self.position.offset, end), self.term))
        self.position = replace(self.position, offset=end, term=self.term)

    def set(self, offset: int) -> None:
        self.term += 1
        move = plan_move(SOURCE, self.position, offset, LOG, THERE, self.reached)
        after = move.stamp(self.term, 0)
        assert after is not None
        self.reached = self.reached or self.position
        self.position = after

    def in_gap(self, offset: int) -> bool:
        return any(gap.first <= offset < gap.end for gap in self.position.gaps)


@settings(max_examples=examples(500))
@given(
    st.integers(0, 60),
    st.lists(st.tuples(st.sampled_from(["copy", "set"]), st.integers(0, 60)), max_size=12),
)
def test_what_a_position_says_of_its_past_is_true(begin: int, steps: list[tuple[str, int]]) -> None:
    """From ``start`` to ``offset`` all was copied, by a term a reader keeps, except the gaps."""
    model = Model(replace(POSITION, offset=begin, start=begin, term=1, since=1))
    for what, number in steps:
        model.copy(number) if what == "copy" else model.set(number)
        position = model.position
        assert position.start <= position.offset
        for offset in range(position.start, position.offset):
            copied = model.copies.get(offset, -1) >= position.since
            assert copied or model.in_gap(offset), offset
        for gap in position.gaps:
            assert not any(
                model.copies.get(o, -1) >= position.since for o in range(gap.first, gap.end)
            ), "what was copied is no gap"
            assert position.start <= gap.first < gap.end <= position.offset
        ends = [gap.end for gap in position.gaps]
        assert ends == sorted(ends)
