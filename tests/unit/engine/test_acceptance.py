"""A partition goes on after a restore only if everything shows that it is the same one."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from k2ktui.engine.moves.acceptance import find_doubt, plan_acceptance
from k2ktui.engine.moves.positions import MoveEffect, SourceLog, TargetTopicState, plan_move
from k2ktui.engine.records.state import (
    Landed,
    Position,
    SourcePartition,
    position_key,
    position_value,
    read_commit_record,
)

AT = SourcePartition("t", 0)
COPIED = Position(
    offset=50,
    start=10,
    leader_epoch=3,
    topic_id="old",
    term=4,
    slot=0,
    target_topic="t",
    target_partition=0,
    target_topic_id="there",
    since=2,
    landed=(Landed("t", 0, 0, 70),),
)
OFFSETS = st.integers(0, 100)


@given(
    start=OFFSETS,
    length=OFFSETS,
    exists=st.booleans(),
    end=OFFSETS,
    compared=st.sampled_from([None, "", "it differs"]),
    unmapped=st.sampled_from(["", "it has expired"]),
)
def test_everything_must_hold(
    start: int, length: int, exists: bool, end: int, compared: str | None, unmapped: str
) -> None:
    log = SourceLog(start, start + length, "new")
    topics = {"t"} if exists else set()
    doubt = find_doubt(COPIED, log, topics, {("t", 0): end}, compared, unmapped)
    is_shown = compared == "" and not unmapped
    goes_on = exists and start <= 50 <= start + length and end >= 70 and is_shown
    assert (doubt == "") == goes_on
    assert find_doubt(COPIED, None, {"t"}, {("t", 0): 70}, "")
    move = plan_acceptance(AT, COPIED, doubt, log, {"t": "new-there"}, ["source"])
    assert move.changes and move.offset == 50 and move.before == COPIED
    assert move.effect is (MoveEffect.ACCEPT if goes_on else MoveEffect.STOP)
    after = move.stamp(9, 5)
    assert after is not None and after.newer_than(COPIED) and after.since == 2
    assert (after.stopped == "") == goes_on


def test_a_partition_without_a_copied_record_goes_on_only_if_all_of_it_is_copied() -> None:
    fresh = replace(COPIED, offset=10, start=10, landed=())
    for begins, goes_on in ((10, True), (9, False)):
        doubt = find_doubt(fresh, SourceLog(begins, 90), {"t"}, {}, None)
        assert (doubt == "") == goes_on
    moved = replace(fresh, offset=12)
    assert find_doubt(moved, SourceLog(12, 90), {"t"}, {}, None), "what was passed is unknown"


def test_only_the_topics_of_the_restored_cluster_get_new_ids() -> None:
    """A topic that was created again on the other one is still found to be another one."""
    log, ids = SourceLog(0, 90, "new"), {"t": "new-there", "u": "new-u"}
    position = replace(COPIED, further_targets=(("u", "u-there"),), stopped="of an earlier restore")
    one = plan_acceptance(AT, position, "", log, ids, ["source"]).after
    assert one == replace(position, leader_epoch=-1, topic_id="new", stopped="")
    other = plan_acceptance(AT, position, "", log, ids, ["target"]).after
    further = (("u", "new-u"),)
    expected = replace(position, target_topic_id="new-there", further_targets=further, stopped="")
    assert other == expected and other.leader_epoch == 3


def test_a_stopped_partition_says_why_and_stays_readable() -> None:
    stopped = plan_acceptance(AT, COPIED, "it differs", None, {}, ["target"]).after
    assert stopped is not None and stopped.stopped == "it differs" and stopped.topic_id == "old"
    value = position_value(stopped)
    assert read_commit_record(position_key("p", AT), value) == ("p", AT, stopped)
    assert b"stopped" not in position_value(COPIED)


@given(offset=OFFSETS)
def test_the_operators_choice_begins_a_new_mapping(offset: int) -> None:
    """Also at the same offset, which would otherwise change nothing."""
    stopped = replace(COPIED, stopped="it differs", topic_id="old")
    landing = TargetTopicState("t", 0, "there")
    move = plan_move(AT, stopped, offset, SourceLog(0, 100, "old"), landing)
    assert move.effect is MoveEffect.RESTART and "it differs" in move.why
    assert (move.again, move.left_out) == (max(0, 50 - offset), max(0, offset - 50))
    after = move.stamp(9, 5)
    assert after is not None
    assert (after.offset, after.start, after.since, after.stopped) == (offset, offset, 9, "")
