"""Group positions on topics that a drill moved: compared by nobody, written by no forward plan."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2ktui.engine.acl import ALLOW, ANY, DENY, LITERAL, PREFIXED, TOPIC, Acl
from k2ktui.engine.mapping.replica import Replica, TargetLog
from k2ktui.engine.mapping.translate import Basis
from k2ktui.engine.moves.agreement import Agreement
from k2ktui.engine.moves.groups import (
    CommittedOffset,
    Finding,
    GroupView,
    Snapshot,
    make_group_rows,
)
from k2ktui.engine.moves.pipeline_summary import summarize_pipeline
from k2ktui.engine.moves.planning import make_plan, moved_positions, set_row
from k2ktui.engine.moves.ratings import NOTHING, Rating, estimate_rereads, rate, summarize_groups
from k2ktui.engine.name_pattern import NamePattern
from k2ktui.engine.parity.acl_items import PRESENT, acl_item
from k2ktui.engine.parity.acls import WantedAcl
from k2ktui.engine.parity.model import Difference, ParityAction, ParityItem
from k2ktui.engine.parity.moved import COVERS_MOVED, drop_moved_acls, leave_moved_alone
from k2ktui.engine.parity.rules import ParityKind
from k2ktui.engine.records.moved_topic import NO_MOVED_TOPICS, MovedTopic, MovedTopics
from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.errors import Refused
from k2ktui.sync.moves.choices import parse_value
from k2ktui.sync.moves.moved_topics import find_left_alone, left_out_note, refuse_moved
from tests.unit.engine.test_groups import OPTIONS, a_range, at, snapshot

DRILL = "20261121-101500-3f2a"
MOVE = MovedTopic("s", "t", DRILL, 1_795_252_312_786, "ann@bastion")
MOVED = MovedTopics([MOVE])
TOPICS = ("s", "a", "b")


def several(moved: MovedTopics = MOVED) -> Snapshot:
    """A group that has read ten records of each topic, and is at none on the target."""
    replicas, logs, offsets = {}, {}, {}
    for number, topic in enumerate(TOPICS):
        target = (f"t{topic}" if topic != "s" else "t", 0)
        position = Position(100, 0, 0, "id", 3, 0, *target)
        ranges = {target: a_range(0, 500, 100)}
        replicas[SourcePartition(topic, 0)] = Replica(position, ranges, source_start=0)
        logs[target] = TargetLog(0, 700)
        offsets[topic, 0] = CommittedOffset(10 + number)
    group = {"g": GroupView("Empty", 0, offsets)}
    return replace(snapshot(), source=group, replicas=replicas, logs=logs, moved=moved)


def test_a_row_of_a_moved_topic_says_so_and_is_in_no_sum() -> None:
    made_of = snapshot(40, at(520), moved=MOVED)
    (row,) = make_group_rows(made_of)
    assert (row.finding, row.moved_by) == (Finding.MOVED, DRILL)
    assert row.reason == f"moved to the target by drill {DRILL} at 2026-11-21 09:11:52 UTC"
    assert (row.divergence, row.reread, row.skipped, row.reread_now) == (None,) * 4
    assert (row.source_offset, row.target_offset) == (40, 520), "both are still shown"
    assert rate(row) is Rating.MOVED
    assert estimate_rereads([row]) == (NOTHING, NOTHING)
    assert row.as_json()["moved_by"] == DRILL
    settled = Agreement().settle([row], 0.0, 1.0)
    assert settled == [row], "no second reading is needed"


def test_a_group_of_which_a_topic_has_moved_is_judged_by_the_others() -> None:
    made_of = several()
    rows = make_group_rows(made_of)
    (group,) = summarize_groups(rows, made_of.source, made_of.target)
    assert (group.partitions, group.moved, group.moved_with_topic, group.missing) == (3, 1, 1, 2)
    assert group.rating is Rating.PARTLY_MOVED
    bounded = [replace(row, basis=Basis.BOUNDED) if row.moved_by else row for row in rows]
    (group,) = summarize_groups(bounded, made_of.source, made_of.target)
    assert group.rating is Rating.PARTLY_MOVED, "a bound of what has moved warns nobody"


@given(st.sets(st.sampled_from(TOPICS)))
def test_a_plan_is_that_of_the_other_topics(topics: set[str]) -> None:
    moved = MovedTopics(replace(MOVE, topic=topic) for topic in topics)
    made_of = several(moved)
    plan = make_plan(made_of, OPTIONS)
    planned = {at.topic for row in plan.rows for at, _ in row.sources}
    assert planned == set(TOPICS) - topics
    whole = make_plan(several(NO_MOVED_TOPICS), OPTIONS)
    assert plan.rows == tuple(r for r in whole.rows if r.sources[0][0].topic not in topics)
    assert len(moved_positions(made_of, OPTIONS)) == len(topics)
    # Nor do they count in the summary of the fleet.
    summary = summarize_pipeline(made_of, make_group_rows(made_of))
    assert summary.retained == summary.covered == 100 * (3 - len(topics))


def test_a_row_of_a_moved_topic_cannot_be_set() -> None:
    key = ("g", "t", 0)
    options = replace(OPTIONS, choices={key: parse_value("earliest")})
    with pytest.raises(Refused, match=f"g t:0: moved to the target by drill {DRILL}") as refused:
        make_plan(several(), options)
    assert refused.value.unchanged == "No plan was made."
    with pytest.raises(ValueError, match="no such row"):
        set_row(several(), OPTIONS, key, parse_value("earliest"), stopped=False)


def test_moved_topics_are_named_or_refused() -> None:
    (note,) = left_out_note(moved_positions(several(), OPTIONS))
    assert note == (
        f"left out: 1 committed offset of 1 topic moved to the target: s (drill {DRILL})"
    )
    assert left_out_note([]) == []

    def pattern(text: str) -> NamePattern:
        return NamePattern("--topic", text, re.compile(text))

    with pytest.raises(Refused, match=f"--topic s: s: moved to the target by drill {DRILL}"):
        refuse_moved(pattern("s"), TOPICS, MOVED)
    for accepted in (pattern(".*"), pattern("a"), lambda name: name == "s"):
        refuse_moved(accepted, TOPICS, MOVED)
    rows = [("g", "t", 0), ("g", "ta", 0)]
    left = find_left_alone(rows, {"t": MOVE})
    assert left == {rows[0]: f"its topic was {make_group_rows(several())[-1].reason}"}
    assert find_left_alone(rows, {"t": MOVE}, DRILL) == {}


def acl(name: str, pattern: str = LITERAL, permission: str = ALLOW, kind: str = TOPIC) -> Acl:
    return Acl(kind, name, pattern, "User:ann", ANY, "READ", permission)


def missing(item: ParityItem, action: ParityAction = ParityAction.SET) -> Difference:
    return Difference(item, PRESENT, None, None, PRESENT, action, "the source has it")


def test_parity_leaves_what_moved_alone() -> None:
    moved = {"s", "t"}
    setting = ParityItem(ParityKind.TOPIC_CONFIG, "t", "retention.ms")
    other = ParityItem(ParityKind.TOPIC_CONFIG, "ta", "retention.ms")
    quota = ParityItem(ParityKind.QUOTA, "t", "producer_byte_rate")
    own = [setting, acl_item(acl("t")), acl_item(acl("s", permission=DENY))]
    kept = [
        other,
        quota,
        acl_item(acl("ta")),
        acl_item(acl("t", kind="GROUP")),
        acl_item(acl("tax", PREFIXED)),
    ]
    wide = [acl_item(acl("t", PREFIXED)), acl_item(acl(ANY))]
    rows = [missing(item) for item in (*own, *kept, *wide)]
    assert leave_moved_alone(rows, ()) == rows
    left = leave_moved_alone(rows, moved)
    assert [row.item for row in left] == [*kept, *wide]
    assert [row for row in left if row.item in kept] == [missing(item) for item in kept]
    reported = [row for row in left if row.item in wide]
    assert {(row.action, row.why) for row in reported} == {(ParityAction.REPORT, COVERS_MOVED)}
    only = missing(wide[0], ParityAction.REPORT)
    assert leave_moved_alone([only], moved) == [only], "what was reported keeps its reason"
    damaged = missing(ParityItem(ParityKind.ACL, "t", "x"))
    assert leave_moved_alone([damaged], moved) == [damaged]
    wanted = [WantedAcl(one, one) for one in (acl("t"), acl("ta"), acl("t", PREFIXED))]
    assert drop_moved_acls(wanted, moved) == wanted[1:]
