"""Checkpoints as a plan: what is proposed, what is left alone, and what must hold."""

from __future__ import annotations

from dataclasses import replace

import pytest

from k2ktui.cli import mm2
from k2ktui.engine.mapping.replica import TargetLog
from k2ktui.engine.mapping.translate import Basis
from k2ktui.engine.moves.groups import CommittedOffset, GroupView
from k2ktui.engine.moves.pins import PinnedLog
from k2ktui.engine.moves.plan import Action, PlanRow, Rewind
from k2ktui.engine.records.state import SourcePartition
from k2ktui.mm2.checkpoints.plan import (
    CONSUMERS_STOPPED,
    OWN_TOPICS,
    PRODUCERS_STOPPED,
    REPLICATED,
    REQUIRED,
    RESET,
    RETAINED,
    ClusterObservation,
    ComparedRecords,
    NextRecordRelation,
    checks,
    make_plan,
    standing_in_the_way,
)
from k2ktui.mm2.flows.formats import Checkpoint, GroupPartition
from k2ktui.replication.preflight.checks import Check, CheckOutcome

AT = GroupPartition("g", "A.t", 0)
T = SourcePartition("t", 0)
SEEN = ClusterObservation(
    pipeline="A->B",
    source_cluster="s",
    target_cluster="t",
    at=1000.0,
    checkpoints=(Checkpoint(AT, 50, 60, "app"),),
    sources={"A.t": "t"},
    source={"g": GroupView("Empty", 0, {("t", 0): CommittedOffset(50)})},
    target={},
    logs={("A.t", 0): TargetLog(10, 100)},
    target_ids={"A.t": "id"},
    own_topics=True,
    source_ends={T: 90},
    watched_s=5.0,
    nexts={AT: ComparedRecords(NextRecordRelation.SAME, 0)},
)


def row(seen: ClusterObservation, rewind: Rewind = Rewind.NEVER) -> PlanRow:
    plan = make_plan(seen, rewind=rewind, valid_s=900, made_by="me", files=("f",))
    (plan_row,) = plan.rows
    return plan_row


def outcome(seen: ClusterObservation, name: str) -> Check:
    (check_,) = [check for check in checks(seen) if check.name == name]
    return check_


def test_a_checkpoint_whose_next_record_is_the_groups_is_exact() -> None:
    plan_row = row(SEEN)
    assert (plan_row.action, plan_row.proposed, plan_row.basis) == (Action.CREATE, 60, Basis.EXACT)
    assert (plan_row.reread, plan_row.skipped, plan_row.metadata) == (0, 0, "app")
    assert plan_row.source == "t-0@50"


def test_the_plan_pins_the_logs_that_it_was_made_for() -> None:
    """Without them, apply refuses every row."""
    plan = make_plan(SEEN, rewind=Rewind.NEVER, valid_s=900, made_by="me", files=("f",))
    assert plan.logs == (PinnedLog("A.t", 0, "id", 10, 100),)


@pytest.mark.parametrize(
    ("compared", "basis", "reread", "action"),
    [
        (ComparedRecords(NextRecordRelation.NEITHER), Basis.END, 0, Action.CREATE),
        (ComparedRecords(NextRecordRelation.LATER, 7), Basis.BOUNDED, 7, Action.CREATE),
        (ComparedRecords(NextRecordRelation.ONLY_TARGET), Basis.BOUNDED, 40, Action.CREATE),
        (ComparedRecords(NextRecordRelation.UNKNOWN), Basis.BOUNDED, 40, Action.CREATE),
        (ComparedRecords(NextRecordRelation.EARLIER), Basis.UNMAPPED, 0, Action.BLOCKED),
    ],
)
def test_what_the_next_records_say(
    compared: ComparedRecords, basis: Basis, reread: int, action: Action
) -> None:
    plan_row = row(replace(SEEN, nexts={AT: compared}))
    assert (plan_row.basis, plan_row.reread, plan_row.action) == (basis, reread, action)


@pytest.mark.parametrize(
    ("log", "why"),
    [
        (TargetLog(61, 100), "below the log start offset 61"),
        (TargetLog(0, 59), "beyond the end 59"),
        (None, "its topic does not exist on the target"),
    ],
)
def test_offsets_that_the_target_does_not_hold_are_left_alone(
    log: TargetLog | None, why: str
) -> None:
    seen = replace(SEEN, logs={("A.t", 0): log} if log else {})
    plan_row = row(seen)
    assert plan_row.action is Action.BLOCKED and why in plan_row.reason
    assert "auto.offset.reset" in plan_row.reason
    assert outcome(seen, RETAINED).outcome is CheckOutcome.FAIL


def test_groups_in_use_and_further_ones_are_left_alone() -> None:
    used = replace(SEEN, target={"g": GroupView("Stable", 1)})
    assert row(used).action is Action.BLOCKED
    assert "in use on the target" in outcome(used, "groups-empty").detail
    further = {"g": GroupView("Empty", 0, {("A.t", 0): CommittedOffset(70)})}
    assert row(replace(SEEN, target=further)).action is Action.BLOCKED
    assert row(replace(SEEN, target=further), Rewind.FOLLOW).action is Action.REWIND


def test_a_checkpoint_that_is_old_is_reported() -> None:
    source = {"g": GroupView("Empty", 0, {("t", 0): CommittedOffset(55)})}
    plan_row = row(replace(SEEN, source=source))
    assert plan_row.source == "t-0@55"
    assert plan_row.reason == "the checkpoint is of source offset 50"


def test_every_precondition_is_reported_by_itself() -> None:
    assert [check.outcome for check in checks(SEEN)] == [CheckOutcome.PASS] * 7
    assert standing_in_the_way(checks(SEEN), ()) == []
    bad = replace(SEEN, growing=frozenset({T}), behind={T: 12}, own_topics=False)
    results = checks(bad)
    named = [check.name for check in standing_in_the_way(results, ())]
    assert named == [PRODUCERS_STOPPED, REPLICATED, OWN_TOPICS]
    assert "up to 12 records not copied yet: t-0" in outcome(bad, REPLICATED).detail
    left = standing_in_the_way(results, [OWN_TOPICS, REPLICATED])
    assert [check.name for check in left] == [PRODUCERS_STOPPED]


def test_what_could_not_be_checked_stands_in_the_way() -> None:
    seen = replace(SEEN, unread={REPLICATED: "no positions"})
    assert outcome(seen, REPLICATED).outcome is CheckOutcome.UNKNOWN
    assert [c.name for c in standing_in_the_way(checks(seen), ())] == [REPLICATED]


def test_commits_without_a_checkpoint_are_reported() -> None:
    offsets = {("t", 0): CommittedOffset(50), ("t", 1): CommittedOffset(5)}
    seen = replace(SEEN, source={"g": GroupView("Empty", 0, offsets)})
    check = outcome(seen, RESET)
    assert check.outcome is CheckOutcome.FAIL and "g t-1" in check.detail
    assert standing_in_the_way(checks(seen), ()) == []


@pytest.mark.parametrize(
    ("view", "moving"),
    [
        (GroupView("Stable", 1), frozenset()),
        (GroupView("Empty", 1), frozenset()),
        (GroupView("Empty", 0), frozenset({"g"})),
    ],
)
def test_consumers_of_the_source_must_have_stopped(view: GroupView, moving: frozenset[str]) -> None:
    """Also those without a membership, which only commit."""
    seen = replace(SEEN, source={"g": view}, moving=moving)
    check = outcome(seen, CONSUMERS_STOPPED)
    assert check.outcome is CheckOutcome.FAIL and ": g" in check.detail
    assert [c.name for c in standing_in_the_way(checks(seen), ())] == [CONSUMERS_STOPPED]
    assert standing_in_the_way(checks(seen), [CONSUMERS_STOPPED]) == []


def test_a_group_that_the_source_hides_may_be_in_use() -> None:
    seen = replace(SEEN, source={"g": GroupView("", None, error="not authorized")})
    assert outcome(seen, CONSUMERS_STOPPED).outcome is CheckOutcome.UNKNOWN
    assert [c.name for c in standing_in_the_way(checks(seen), ())] == [CONSUMERS_STOPPED]
    others = {**SEEN.source, "other": GroupView("Stable", 1)}
    assert standing_in_the_way(checks(replace(SEEN, source=others)), ()) == []


def test_the_command_offers_what_the_plan_knows() -> None:
    assert mm2.REQUIRED == REQUIRED
    assert tuple(Rewind) == mm2.REWINDS
