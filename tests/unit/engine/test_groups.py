"""Rows, divergence, plans and their preconditions, from snapshots made by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2ktui.engine.mapping.ranges import MappingRanges
from k2ktui.engine.mapping.replica import Replica, TargetLog
from k2ktui.engine.mapping.translate import Basis
from k2ktui.engine.moves.apply import (
    WriteOutcome,
    WriteResult,
    check_written,
    find_conflicts,
    find_taken,
    make_deletions,
    make_writes,
    reverse_writes,
    without_mark,
)
from k2ktui.engine.moves.groups import (
    CommittedOffset,
    GroupView,
    Snapshot,
    describe_conflicts,
    make_group_rows,
    reading_notes,
    snapshot_notes,
)
from k2ktui.engine.moves.plan import Action, PlanRow, Rewind, dump_plan, load_plan, plan_remarks
from k2ktui.engine.moves.planning import PlanOptions, make_plan
from k2ktui.engine.moves.written import OffsetWrite, WrittenCommit, WrittenCommits
from k2ktui.engine.records.mapping_version import MappingVersion
from k2ktui.engine.records.state import Position, SourcePartition

T = ("t", 0)
S = SourcePartition("s", 0)
OPTIONS = PlanOptions("me@here")


def a_range(source: int, target: int, count: int) -> MappingRanges:
    made = MappingRanges()
    made.append(np.array([source]), np.array([target]), np.array([count]))
    return made


def at(offset: int, metadata: str = "") -> dict[tuple[str, int], CommittedOffset]:
    return {T: CommittedOffset(offset, metadata)}


def snapshot(
    source: int = 40,
    target: Mapping[tuple[str, int], CommittedOffset] | None = None,
    **changes: object,
) -> Snapshot:
    position = Position(100, 0, 0, "id", 3, 0, *T)
    made = Snapshot(
        "p",
        "A",
        "B",
        1000.0,
        1000.0,
        source={"g": GroupView("Empty", 0, {("s", 0): CommittedOffset(source, "mine")})},
        target={"g": GroupView("Empty", 0, target)} if target is not None else {},
        replicas={S: Replica(position, {T: a_range(0, 500, 100)})},
        logs={T: TargetLog(0, 700)},
    )
    return replace(made, **changes)  # type: ignore[arg-type]


@given(st.integers(0, 100), st.integers(500, 600))
def test_divergence_counts_source_records(source: int, target: int) -> None:
    (row,) = make_group_rows(snapshot(source, at(target)))
    assert row.translated_offset == 500 + source
    assert row.divergence == target - (500 + source)


@pytest.mark.parametrize(
    "lacking",
    [
        {"held_from": 20},  # not in memory
        {"complete_from": 30},  # deleted from the mapping topic
        {"holes": ((10, 20),)},
    ],
)
def test_what_cannot_be_counted_is_unknown_and_never_zero(lacking: dict[str, Any]) -> None:
    position = Position(100, 0, 0, "id", 3, 0, *T)
    newest = a_range(30, 530, 70)
    replica = Replica(position, {T: newest}, **lacking)
    (row,) = make_group_rows(snapshot(40, at(505), replicas={S: replica}))
    assert (row.translated_offset, row.divergence, row.reread_now) == (540, None, None)
    (row,) = make_group_rows(snapshot(40, at(532), replicas={S: replica}))
    assert (row.divergence, row.reread_now, row.skipped_now) == (-8, 8, 0)


def test_a_partition_that_was_never_replicated() -> None:
    (row,) = make_group_rows(snapshot(replicas={}))
    assert (row.basis, row.divergence, row.target_topic) == (Basis.UNMAPPED, None, "")
    assert "not replicated" in row.reason


@pytest.mark.parametrize(
    ("target", "rewind", "action"),
    [
        (None, Rewind.NEVER, Action.CREATE),
        (at(-1), Rewind.NEVER, Action.CREATE),
        (at(539), Rewind.NEVER, Action.ADVANCE),
        (at(540), Rewind.NEVER, Action.KEEP),
        (at(541), Rewind.NEVER, Action.BLOCKED),
        (at(541), Rewind.FOLLOW, Action.REWIND),
    ],
)
def test_actions(target: object, rewind: Rewind, action: Action) -> None:
    plan = make_plan(snapshot(40, target), replace(OPTIONS, rewind=rewind))  # type: ignore[arg-type]
    (row,) = plan.rows
    assert (row.action, row.proposed, row.source) == (action, 540, "s-0@40")
    assert row.metadata == "mine", "byte for byte"
    assert row.version == MappingVersion(3, 100)


def test_an_active_group_is_left_alone() -> None:
    busy = {"g": GroupView("Stable", 2, at(0))}
    (row,) = make_plan(snapshot(target=busy[next(iter(busy))].offsets), OPTIONS).rows
    assert row.changes
    (row,) = make_plan(replace(snapshot(), target=busy), OPTIONS).rows
    assert row.action is Action.BLOCKED
    assert "Stable" in row.reason


def test_what_the_application_committed_itself_is_not_undone() -> None:
    own_only = replace(OPTIONS, rewind=Rewind.FOLLOW, own_only=True)
    (row,) = make_plan(snapshot(40, at(560, "app")), own_only).rows
    assert (row.action, "on the target itself" in row.reason) == (Action.BLOCKED, True)
    (row,) = make_plan(snapshot(40, at(560, "k2k_3.90;app")), own_only).rows
    assert row.action is Action.REWIND
    written = {"g": written_commits(560, "app", MappingVersion(3, 90))}
    (row,) = make_plan(replace(snapshot(40, at(560, "app")), written=written), own_only).rows
    assert row.action is Action.REWIND


def test_an_older_mapping_never_overwrites() -> None:
    written = {"g": written_commits(530, "", MappingVersion(4, 1))}
    for newer in (
        snapshot(40, at(530, "k2k_4.1;")),
        replace(snapshot(40, at(530, "")), written=written),
    ):
        (row,) = make_plan(newer, OPTIONS).rows
        assert (row.action, "newer mapping" in row.reason) == (Action.BLOCKED, True)
        (row,) = make_plan(newer, replace(OPTIONS, guarded=False)).rows
        assert row.action is Action.ADVANCE


def test_the_mark_of_an_earlier_release_is_removed_at_the_same_offset() -> None:
    (row,) = make_plan(snapshot(40, at(540, "k2k_3.90;mine")), OPTIONS).rows
    assert (row.action, row.proposed, row.metadata) == (Action.UPDATE, 540, "mine")
    (row,) = make_plan(snapshot(40, at(540, "its own")), OPTIONS).rows
    assert row.action is Action.KEEP


def test_what_was_committed_by_another_since_the_plan_is_refused() -> None:
    """At the same offset: by a newer mapping, or the application itself."""
    at_540, at_510 = at(540, "k2k_3.90;mine"), at(510, "")
    (update,) = make_plan(snapshot(40, at_540), OPTIONS).rows
    (advance,) = make_plan(snapshot(40, at_510), OPTIONS).rows
    newer = {"g": written_commits(510, "", MappingVersion(3, 101))}

    def taken(row: PlanRow, offset: int, metadata: str, guarded: bool = True) -> str:
        views = {"g": GroupView("Empty", 0, at(offset, metadata))}
        return "".join(find_taken([row], views, newer, "k2k_", guarded=guarded).values())

    assert not taken(update, 540, "k2k_3.90;mine")
    assert "application's own" in taken(update, 540, "its own")
    assert "newer mapping" in taken(advance, 510, "")
    assert not taken(advance, 510, "", guarded=False)
    assert not taken(advance, 510, "its own")


def test_two_pipelines_for_one_record() -> None:
    conflicting_pipelines = {S: ("p", "q")}
    (row,) = make_plan(snapshot(conflicting_pipelines=conflicting_pipelines), OPTIONS).rows
    assert (row.action, "p, q" in row.reason) == (Action.BLOCKED, True)
    (row,) = make_plan(
        snapshot(conflicting_pipelines=conflicting_pipelines),
        replace(OPTIONS, conflicts="ignore"),
    ).rows
    assert row.action is Action.CREATE


def test_a_conflict_stops_all_rows_skips_its_own_or_is_ignored() -> None:
    """Two groups: one on the partition with two pipelines, one on another partition."""
    u = ("u", 0)
    position = Position(100, 0, 0, "id", 3, 0, *u)
    made = snapshot(conflicting_pipelines={S: ("p", "q")})
    conflicting = replace(
        made,
        source={**made.source, "h": GroupView("Empty", 0, {u: CommittedOffset(40)})},
        replicas={
            **made.replicas,
            SourcePartition(*u): Replica(position, {u: a_range(0, 500, 100)}),
        },
        logs={**made.logs, u: TargetLog(0, 700)},
    )
    policies: list[Literal["fail", "skip", "ignore"]] = ["fail", "skip", "ignore"]
    actions = {}
    for policy in policies:
        plan = make_plan(conflicting, replace(OPTIONS, conflicts=policy))
        actions[policy] = [row.action for row in plan.rows]
        assert plan.is_stopped_by_conflict == (policy == "fail")
        assert describe_conflicts(conflicting, policy)[0].startswith("1 source partition mapped by")
    skip, create = Action.BLOCKED, Action.CREATE
    assert actions == {"fail": [skip] * 2, "skip": [skip, create], "ignore": [create] * 2}


def test_a_conflict_stops_a_plan_whose_only_row_is_refused_for_another_reason() -> None:
    made = snapshot(conflicting_pipelines={S: ("p", "q")})
    unauthorized = replace(made, target={"g": GroupView("", error="not authorized")})
    plan = make_plan(unauthorized, OPTIONS)
    assert plan.rows[0].reason.startswith("on the target: not authorized")
    assert plan.is_stopped_by_conflict
    assert load_plan(dump_plan(plan), 0.0) == plan
    assert not make_plan(unauthorized, replace(OPTIONS, conflicts="skip")).is_stopped_by_conflict


def test_the_age_of_what_is_known_of_a_dead_source_is_reported() -> None:
    old = snapshot(source_down="no answer", commits_at=880.0)
    plan = make_plan(old, OPTIONS)
    (row,) = plan.rows
    assert row.changes
    assert "2 m 0 s old" in row.reason
    assert plan.commits_at == 880.0
    assert plan_remarks(plan) == [
        "the source did not answer: its commits are of 1970-01-01 00:14:40 UTC, 2 m 0 s before "
        "this plan. Records that groups read there since then are re-read on the target"
    ]
    assert snapshot_notes(old) == [
        "no answer; its commits are from a snapshot of 1970-01-01 00:14:40 UTC, 2 m 0 s old"
    ]
    assert reading_notes(old) == ["no answer"]
    now = make_plan(snapshot(), OPTIONS)
    assert now.commits_at is None and not any(
        "commits are of" in remark for remark in plan_remarks(now)
    )


def test_groups_and_topics_are_chosen() -> None:
    none = replace(OPTIONS, group=lambda name: name != "g")
    assert not make_plan(snapshot(), none).rows
    assert not make_plan(snapshot(), replace(OPTIONS, topic=lambda name: name != "s")).rows


def written_commits(offset: int, metadata: str, version: MappingVersion) -> WrittenCommits:
    return WrittenCommits("g", 1, {T: (WrittenCommit(offset, metadata, version),)})


def planned(
    target: Mapping[tuple[str, int], CommittedOffset] | None,
) -> tuple[PlanRow, OffsetWrite]:
    taken = snapshot(40, target)
    (row,) = make_plan(taken, OPTIONS).rows
    (write,) = make_writes([row], taken.target, taken.written, "k2k_")
    return row, write


def test_what_moved_since_is_reported() -> None:
    row, _ = planned(at(510, "before"))
    expected = {("g", "t", 0): row.current}
    assert not find_conflicts(expected, {"g": GroupView("Empty", 0, at(510))})
    (why,) = find_conflicts(expected, {"g": GroupView("Stable", 1, at(510))}).values()
    assert "Stable" in why
    (why,) = find_conflicts(expected, {"g": GroupView("Empty", 0, at(511))}).values()
    assert "511" in why
    assert find_conflicts(expected, {})
    assert not find_conflicts({("g", "t", 0): None}, {})


def test_every_write_is_judged_by_what_is_there_afterwards() -> None:
    _, write = planned(at(510, "before"))
    assert write.before_metadata == "before"

    def judged(refused: str, view: GroupView | None) -> WriteOutcome:
        views = {"g": view} if view else {}
        return check_written([write], {write: refused} if refused else {}, views)[0].outcome

    assert judged("", GroupView("Empty", 0, at(540, "mine"))) is WriteOutcome.APPLIED
    assert judged("", GroupView("Empty", 0, at(540, "another"))) is WriteOutcome.CHANGED
    assert judged("has members", None) is WriteOutcome.REFUSED
    assert judged("", None) is WriteOutcome.UNKNOWN
    assert judged("", GroupView("Empty", 0, at(541))) is WriteOutcome.CHANGED
    assert judged("", GroupView("Stable", 1, at(540))) is WriteOutcome.CHANGED


def test_undoing_is_the_way_back() -> None:
    _, write = planned(None)
    (back,) = reverse_writes(
        [WriteResult(write, WriteOutcome.APPLIED), WriteResult(write, WriteOutcome.REFUSED)]
    )
    assert (back.before, back.after) == (540, None)
    (again,) = reverse_writes([WriteResult(back, WriteOutcome.APPLIED)])
    assert again == write


def test_a_deleted_commit_is_put_back_as_it_was() -> None:
    view = GroupView("Empty", 0, {**at(510, "k2k_3.90;mine"), ("t", 1): CommittedOffset(-1)})
    deletions = make_deletions("g", view, [("t", 0), ("t", 1), ("t", 2)], None, "k2k_")
    (write,) = deletions
    assert (write.before, write.after, write.before_version) == (510, None, MappingVersion(3, 90))
    assert check_written(deletions, {}, {"g": GroupView("")})[0].outcome is WriteOutcome.APPLIED
    (back,) = reverse_writes([WriteResult(write, WriteOutcome.APPLIED)])
    bare = without_mark(back, "k2k_")
    assert (bare.before, bare.after, bare.after_metadata) == (None, 510, "mine")


def test_undoing_puts_back_no_mark() -> None:
    _, write = planned(at(510, "k2k_3.90;mine"))
    assert (write.before_version, write.after_version) == (
        MappingVersion(3, 90),
        MappingVersion(3, 100),
    )
    (back,) = reverse_writes([WriteResult(write, WriteOutcome.APPLIED)])
    assert without_mark(back, "k2k_").after_metadata == "mine"
    old = replace(back, after_version=None)
    assert without_mark(old, "k2k_").after_version == MappingVersion(3, 90), "of an old journal"
    assert without_mark(replace(back, after_metadata="its own"), "k2k_").after_metadata == "its own"
