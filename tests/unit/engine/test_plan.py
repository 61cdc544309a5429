"""Plans: decided once, written down, and applied as they are or refused."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2ktui.engine.mapping.replica import TargetLog
from k2ktui.engine.mapping.translate import Basis
from k2ktui.engine.moves.apply import log_objections
from k2ktui.engine.moves.pins import PinnedLog
from k2ktui.engine.moves.plan import (
    Action,
    Plan,
    PlanRow,
    Rewind,
    UnusablePlan,
    decide_action,
    dump_plan,
    load_plan,
    plan_remarks,
    to_csv,
    uncertain_first,
)
from k2ktui.engine.moves.written import Ours
from k2ktui.engine.records.mapping_version import MappingVersion, is_stale, split_guard
from k2ktui.engine.records.state import SourcePartition

ROW = PlanRow(
    "g", "t", 0, "t-0@5", "Stable", "Empty", 3, 7, Basis.EXACT, 0, 0, Action.KEEP, "",
    MappingVersion(2, 50),
)  # fmt: skip
LOG = PinnedLog("t", 0, "a1", 2, 90)
PLAN = Plan("p", "S", "T", 1000.0, 1600.0, "me@here", Rewind.NEVER, (ROW,), logs=(LOG,))


@pytest.mark.parametrize(
    ("changes", "rewind", "present", "expected"),
    [
        ({}, Rewind.NEVER, None, Action.ADVANCE),
        ({"current": None, "state_target": ""}, Rewind.NEVER, None, Action.CREATE),
        ({"current": 7}, Rewind.NEVER, None, Action.KEEP),
        ({"current": 9}, Rewind.NEVER, None, Action.BLOCKED),
        ({"current": 9}, Rewind.FOLLOW, None, Action.REWIND),
        ({"state_target": "Stable"}, Rewind.NEVER, None, Action.BLOCKED),
        ({"proposed": None}, Rewind.NEVER, None, Action.BLOCKED),
        ({"basis": Basis.UNMAPPED}, Rewind.NEVER, None, Action.BLOCKED),
        ({}, Rewind.NEVER, Ours(MappingVersion(2, 50)), Action.ADVANCE),
        ({}, Rewind.NEVER, Ours(MappingVersion(2, 51)), Action.BLOCKED),
        ({}, Rewind.NEVER, Ours(MappingVersion(3, 1)), Action.BLOCKED),
        ({"current": 9}, Rewind.NEVER, Ours(MappingVersion(2, 40)), Action.BLOCKED),
    ],
)
def test_decisions(
    changes: dict[str, object], rewind: Rewind, present: Ours | None, expected: Action
) -> None:
    row = decide_action(replace(ROW, **changes), rewind, present)  # type: ignore[arg-type]
    assert row.action is expected
    assert bool(row.reason) == (expected is Action.BLOCKED)


def test_without_the_guard_an_older_mapping_may_overwrite() -> None:
    newer = Ours(MappingVersion(9, 9))
    assert decide_action(ROW, Rewind.NEVER, newer, guarded=False).action is Action.ADVANCE


def test_what_a_suspended_process_committed_is_corrected() -> None:
    """It is further than what a newer mapping says: records would be skipped."""
    late = Ours(MappingVersion(2, 40), overwrote_newer=True)
    row = decide_action(replace(ROW, current=9), Rewind.NEVER, late)
    assert (row.action, "suspended" in row.reason) == (Action.REWIND, True)


@pytest.mark.parametrize(
    ("there", "present", "action"),
    [
        ("old", Ours(MappingVersion(2, 50)), Action.UPDATE),
        ("new", Ours(MappingVersion(2, 50)), Action.KEEP),
        ("old", None, Action.KEEP),
        ("old", Ours(MappingVersion(2, 51)), Action.BLOCKED),
    ],
)
def test_metadata_follows_only_where_the_commit_is_ours(
    there: str, present: Ours | None, action: Action
) -> None:
    row = replace(ROW, current=7, metadata="new")
    decided = decide_action(row, Rewind.NEVER, present, metadata=there)
    assert (decided.action, decided.changes) == (action, action is Action.UPDATE)
    assert to_csv(replace(PLAN, rows=(decided,))) == "", "Kafka's tool would remove the metadata"


@pytest.mark.parametrize(("metadata", "length"), [("x" * 10, 10), ("é" * 10, 10), ("😀" * 5, 10)])
def test_metadata_that_the_target_does_not_take(metadata: str, length: int) -> None:
    row = replace(ROW, metadata=metadata)
    assert decide_action(row, Rewind.NEVER, None, longest=length).action is Action.ADVANCE
    refused = decide_action(row, Rewind.NEVER, None, longest=length - 1)
    assert refused.action is Action.BLOCKED
    assert "10 characters" in refused.reason and "offset.metadata.max.bytes" in refused.reason
    kept = decide_action(replace(row, current=7), Rewind.NEVER, None, longest=length - 1)
    assert kept.action is Action.KEEP


def test_a_plan_survives_its_file_and_a_changed_one_does_not() -> None:
    text = dump_plan(PLAN)
    assert load_plan(text, now=1500.0) == PLAN
    changed = json.loads(text)
    changed["rows"][0]["proposed"] = 8
    for bad in (json.dumps(changed), "{}", "x", text.replace('"v": 2', '"v": 3')):
        with pytest.raises(UnusablePlan):
            load_plan(bad, now=1500.0)
    with pytest.raises(UnusablePlan, match="expired"):
        load_plan(text, now=1601.0)


def test_a_plan_of_an_earlier_release_is_to_be_made_again() -> None:
    old = json.loads(dump_plan(PLAN)) | {"v": 1}
    del old["logs"]
    with pytest.raises(UnusablePlan, match="topic ids and log bounds of the target; make a new"):
        load_plan(json.dumps(old), now=1500.0)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("expires_at", float("nan")),  # it would never expire
        ("expires_at", float("inf")),
        ("created_at", True),
        ("files", "/p.yaml"),
        ("logs", [["t", 0, "", 1]]),
        ("logs", [["t", True, "", 0, 1]]),
        ("rows", [{}]),
        ("rewind", ["never"]),
    ],
)
def test_a_plan_is_read_strictly(name: str, value: object) -> None:
    """Though somebody made its digest fit."""
    changed = json.loads(dump_plan(PLAN)) | {name: value}
    with pytest.raises(UnusablePlan, match="damaged"):
        load_plan(json.dumps(changed), now=1500.0)


@pytest.mark.parametrize(
    ("now", "topic_id", "why"),
    [
        (TargetLog(2, 90), "a1", ""),
        (TargetLog(7, 95), "a1", ""),
        (TargetLog(2, 90), "", ""),  # brokers without topic ids
        (TargetLog(2, 90), "b2", "deleted and created again"),
        (TargetLog(2, 90), None, "no longer exists"),
        (None, "a1", "are unavailable"),
        (TargetLog(2, 89), "a1", "before its end of 90 in the plan"),
        (TargetLog(9, 95), "a1", "would skip 2 more than was shown"),
    ],
)
def test_a_row_rests_on_its_log(now: TargetLog | None, topic_id: str | None, why: str) -> None:
    logs = {("t", 0): now} if now else {}
    ids = {} if topic_id is None else {"t": topic_id}
    objections = log_objections([ROW], [LOG], logs, ids)
    assert objections.keys() == ({("g", "t", 0)} if why else set())
    assert why in "".join(objections.values())


def test_what_a_plan_says_is_skipped_already_is_no_objection() -> None:
    row, log = replace(ROW, proposed=1), replace(LOG, start=5)
    assert not log_objections([row], [log], {("t", 0): TargetLog(5, 90)}, {"t": "a1"})
    (why,) = log_objections([row], [log], {("t", 0): TargetLog(8, 90)}, {"t": "a1"}).values()
    assert "would skip 3 more" in why
    assert log_objections([row], [], {("t", 0): TargetLog(5, 90)}, {"t": "a1"})


def test_only_changes_go_into_the_csv() -> None:
    rows = (replace(ROW, action=Action.ADVANCE), replace(ROW, partition=1, action=Action.BLOCKED))
    assert to_csv(replace(PLAN, rows=rows)) == "g,t,0,7\n"


hostile = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)


@given(st.lists(st.tuples(hostile, hostile), max_size=4))
def test_any_name_survives_the_plan_file_and_the_csv(names: list[tuple[str, str]]) -> None:
    rows = tuple(
        replace(ROW, group=group, metadata=metadata, action=Action.ADVANCE)
        for group, metadata in names
    )
    plan = replace(PLAN, rows=rows)
    assert load_plan(dump_plan(plan), now=1500.0) == plan
    assert len(dump_plan(plan).splitlines()) >= len(rows)
    read = list(csv.reader(io.StringIO(to_csv(plan), newline="")))
    assert read == [[group, "t", "0", "7"] for group, _ in names]


def test_a_plan_of_kept_commits_reports_it_in_its_file() -> None:
    plan = replace(PLAN, commits_at=400.0)
    assert load_plan(dump_plan(plan), now=1500.0) == plan
    assert "commits_at" not in dump_plan(PLAN)
    moved = dump_plan(plan).replace('"commits_at": 400.0', '"commits_at": 900.0')
    with pytest.raises(UnusablePlan, match="modified"):
        load_plan(moved, now=1500.0)


def test_what_is_to_be_done_first_is_said_once() -> None:
    moving = replace(ROW, action=Action.ADVANCE)
    rows = [replace(moving, group=f"g{n}", partition=p) for n in range(7) for p in range(3)]
    held = replace(ROW, group="\x1b[31mheld", state_target="Stable", action=Action.BLOCKED)
    active, left = plan_remarks(replace(PLAN, rows=(*rows, held)))
    assert "g0, g1, g2, g3, g4 and 2 more" in active and "stop them" in active
    assert "members on the target" in left and "\x1b" not in left
    assert plan_remarks(replace(PLAN, rows=(replace(moving, state_source="Empty"),))) == []


def test_uncertain_rows_come_first() -> None:
    sure = replace(ROW, action=Action.ADVANCE)
    skipped = replace(sure, partition=1, action=Action.BLOCKED)
    bounded = replace(sure, partition=2, basis=Basis.BOUNDED, reread=4)
    assert uncertain_first([sure, skipped, bounded]) == [bounded, skipped, sure]


versions = st.builds(MappingVersion, st.integers(0, 2**40), st.integers(0, 2**62))


@given(st.text(min_size=1, max_size=20), versions, st.text(max_size=200))
def test_marks_keep_the_applications_metadata(
    prefix: str, version: MappingVersion, metadata: str
) -> None:
    marked = f"{prefix}{version.term}.{version.position};{metadata}"
    assert split_guard(prefix, marked) == (version, metadata)


def test_foreign_metadata_is_left_alone() -> None:
    huge = f"k2k_1.{2**63};"
    for metadata in ("", "k2k_", "k2k_x.1;", "hello", "k2k_1.2", huge, "k2k_1.²;"):
        assert split_guard("k2k_", metadata) == (None, metadata)
    assert split_guard("k2k_", None) == (None, "")
    assert not is_stale(MappingVersion(1, 1), None)


def test_what_a_row_was_translated_from() -> None:
    row = replace(ROW, source="a-b.c_1-0@5,t-12@7000")
    assert row.sources == ((SourcePartition("a-b.c_1", 0), 5), (SourcePartition("t", 12), 7000))
