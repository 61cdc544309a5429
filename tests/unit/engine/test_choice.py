"""Rows of a plan that an operator sets: where they lead, and what they cost."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2ktui.engine.mapping.replica import Replica, TargetLog
from k2ktui.engine.mapping.translate import Basis
from k2ktui.engine.moves.agreement import Agreement
from k2ktui.engine.moves.apply import (
    WriteOutcome,
    WriteResult,
    check_written,
    make_writes,
    reverse_writes,
)
from k2ktui.engine.moves.choice import Choice, RowValue
from k2ktui.engine.moves.groups import Finding, GroupView, Snapshot, make_group_rows
from k2ktui.engine.moves.lags import ReadLogs, measure_lags
from k2ktui.engine.moves.plan import Action, PlanRow, Rewind, UnusablePlan, dump_plan, load_plan
from k2ktui.engine.moves.planning import make_plan
from k2ktui.engine.moves.ratings import (
    NOTHING,
    Rating,
    estimate_rereads,
    rate,
    summarize_groups,
)
from k2ktui.engine.moves.written import WrittenCommits
from k2ktui.engine.records.state import Position
from k2ktui.errors import ConfigError
from k2ktui.sync.moves.choices import choice_text, parse_choices, parse_value
from tests.unit.engine.test_groups import OPTIONS, S, T, a_range, at, snapshot

ROW = ("g", *T)


def chosen(value: str, made_of: Snapshot) -> PlanRow:
    plan = make_plan(made_of, replace(OPTIONS, choices={ROW: parse_value(value)}))
    (row,) = load_plan(dump_plan(plan), now=1000.0).rows
    assert plan.rows == (row,)
    return row


@given(source=st.integers(0, 100), offset=st.integers(0, 700))
def test_the_cost_of_a_chosen_offset_is_counted_record_by_record(source: int, offset: int) -> None:
    """Of the 100 copies at 500 to 599, the group has read the first ``source``."""
    row = chosen(str(offset), snapshot(source, at(520)))
    read, unread = range(500, 500 + source), range(500 + source, 600)
    assert row.reread == sum(record >= offset for record in read)
    assert row.skipped == sum(record < offset for record in unread)
    assert (row.proposed, row.basis, row.source) == (offset, Basis.CHOSEN, f"s-0@{source}")
    assert row.choice == Choice("me@here", str(offset), f"s-0@{source}", 1_000_000)


@pytest.mark.parametrize(
    ("value", "offset"),
    [("earliest", 3), ("latest", 700), ("+5", 545), ("-5", 535), ("3", 3), ("700", 700)],
)
def test_where_values_lead(value: str, offset: int) -> None:
    row = chosen(value, snapshot(40, logs={T: TargetLog(3, 700)}))
    assert (row.proposed, row.action) == (offset, Action.CREATE)
    assert row.reason == f"chosen: {value}, by me@here; translated: 540 (exact)"


@pytest.mark.parametrize("value", ["2", "701", "-538", "+161", "2020-01-01"])
def test_values_outside_the_log_are_refused(value: str) -> None:
    """A time that nobody has looked up is no offset, either."""
    with pytest.raises(ConfigError, match=f"g t:0={value.replace('+', '.')}: ") as refused:
        chosen(value, snapshot(40, logs={T: TargetLog(3, 700)}))
    assert refused.value.unchanged == "No plan was made."


def test_all_rows_that_cannot_be_set_are_named_at_once() -> None:
    choices = {("other", *T): parse_value("1"), ("g", "t", 1): parse_value("earliest")}
    with pytest.raises(ConfigError) as refused:
        make_plan(snapshot(), replace(OPTIONS, choices=choices))
    assert "other t:0=1: the plan has no such row" in refused.value.message
    assert "g t:1=earliest: the plan has no such row" in refused.value.message


def test_a_row_left_out_stays_and_shows_what_that_costs() -> None:
    row = chosen("leave-out", snapshot(40, at(520)))
    assert (row.action, row.changes, row.proposed) == (Action.LEAVE_OUT, False, None)
    assert (row.reread, row.skipped) == (20, 0), "of the offset that stays"
    assert row.reason == "left out, by me@here; translated: 540 (exact)"


def test_a_row_without_a_translation_can_be_set() -> None:
    lost = Replica(Position(100, 0, 0, "id", 3, 0, *T), {T: a_range(0, 500, 100)}, holes=((0, 90),))
    unmapped = snapshot(40, replicas={S: lost})
    (row,) = make_plan(unmapped, OPTIONS).rows
    assert (row.basis, row.action) == (Basis.UNMAPPED, Action.BLOCKED)
    row = chosen("600", unmapped)
    assert (row.action, row.proposed, row.reread, row.skipped) == (Action.CREATE, 600, None, None)
    gone = replace(unmapped, replicas={S: replace(lost, unusable_reason="created again")})
    assert chosen("600", gone).action is Action.CREATE
    with pytest.raises(ConfigError, match="no offset is proposed that could be shifted"):
        chosen("+1", gone)


def test_a_choice_moves_back_but_never_a_group_in_use() -> None:
    assert chosen("510", snapshot(40, at(541))).action is Action.REWIND
    busy = {"g": GroupView("Stable", 1, at(541))}
    row = chosen("510", replace(snapshot(40), target=busy))
    assert (row.action, "stop it there first" in row.reason) == (Action.BLOCKED, True)


def test_what_a_plan_file_says_of_a_choice_is_read_strictly() -> None:
    plan = make_plan(snapshot(), replace(OPTIONS, choices={ROW: parse_value("earliest")}))
    written = json.loads(dump_plan(plan))
    (row,) = written["rows"]
    assert (row["basis"], row["choice"]["value"], row["choice"]["by"]) == (
        "chosen",
        "earliest",
        "me@here",
    )
    for change in ({"choice": None}, {"choice": {"by": 3}}, {"basis": "exact"}):
        with pytest.raises(UnusablePlan, match="damaged"):
            load_plan(json.dumps(written | {"rows": [row | change]}), now=1000.0)


def test_a_write_carries_the_choice_and_its_undo_does_not() -> None:
    (write,) = make_writes([chosen("earliest", snapshot())], {}, {}, "k2k_")
    assert write.choice is not None and write.choice.value == "earliest"
    (back,) = reverse_writes([WriteResult(write, WriteOutcome.APPLIED)])
    assert back.choice is None


@given(
    st.text(max_size=20),
    st.from_regex(r"[a-z0-9._-]{3,20}", fullmatch=True),
    st.integers(0, 2**31 - 1),
    st.sampled_from(["0", "7", "+3", "-3", "earliest", "latest", "leave-out", "2026-11-27T10:00Z"]),
)
def test_every_row_can_be_written_as_text(
    group: str, topic: str, partition: int, value: str
) -> None:
    """Kafka takes group names with spaces, colons and line breaks."""
    key = (group, topic, partition)
    assert parse_choices([choice_text(key, value)]) == {key: parse_value(value)}


@pytest.mark.parametrize(
    "word",
    [
        "", "g", "g t=1", "g t:0", "g t:0=", "g t:0=x", "g t:-1=1", "g t:2147483648=1", "g t/:0=1",
        "gt:0=1", "g t:0=99999999999999999999", "g t:0=9223372036854775808", "g t:0=1.5",
        "g t:0=Earliest", "g t:0=+", "g t:0=2026-13-01", "g t:" + "9" * 5000 + "=1",
    ],
)  # fmt: skip
def test_what_is_no_row(word: str) -> None:
    with pytest.raises(ConfigError, match="rows that cannot be set"):
        parse_choices([word])


def test_a_row_is_set_once() -> None:
    with pytest.raises(ConfigError, match="the row is set twice"):
        parse_choices(["g t:0=1", "g t:0=1"])


def test_times_are_utc_unless_they_say_otherwise() -> None:
    expected = RowValue(parse_value("2026-11-27").kind, "2026-11-27T10:00", 1795773600000)
    assert parse_value("2026-11-27T10:00") == expected
    assert parse_value("2026-11-27T11:00+01:00").number == expected.number


def remembering(value: str, source: int, current: int | None) -> Snapshot:
    """A snapshot in which a value was chosen while the source's commit was 40."""
    choice = Choice("ann@bastion1", value, "s-0@40", 1_000_000)
    target = {} if current is None else at(current)
    return snapshot(source, target, written={"g": WrittenCommits("g", 1, {}, {T: choice})})


@given(st.sampled_from(["earliest", "520", "leave-out"]), st.integers(0, 100), st.integers(0, 700))
def test_sync_leaves_a_chosen_row_alone_until_its_source_commit_moves(
    value: str, source: int, current: int
) -> None:
    made_of = remembering(value, source, current)
    sync = replace(OPTIONS, keeps_choices=True, own_only=True, rewind=Rewind.FOLLOW)
    (row,) = make_plan(made_of, sync).rows
    (shown,) = make_group_rows(made_of)
    if source == 40:
        assert (row.changes, row.basis, row.proposed) == (False, Basis.CHOSEN, current)
        assert row.reason == f"chosen by ann@bastion1: {value}"
        assert (shown.basis, shown.finding, shown.divergence) == (
            Basis.CHOSEN,
            Finding.CHOSEN,
            None,
        )
        assert (shown.chosen_by, shown.reason) == ("ann@bastion1", row.reason)
    else:
        assert row.basis is shown.basis is (Basis.EXACT if source < 100 else Basis.END)
        assert (row.proposed, row.choice, shown.chosen_by) == (500 + source, None, "")


def test_a_plan_of_an_operator_translates_again_and_says_what_was_chosen() -> None:
    (row,) = make_plan(remembering("earliest", 40, 0), OPTIONS).rows
    assert (row.proposed, row.action, row.choice) == (540, Action.ADVANCE, None)
    assert row.reason == "until now chosen by ann@bastion1: earliest"


def test_what_was_left_out_before_the_group_came_stays_left_out() -> None:
    sync = replace(OPTIONS, keeps_choices=True)
    (row,) = make_plan(remembering("leave-out", 40, None), sync).rows
    assert (row.action, row.proposed) == (Action.LEAVE_OUT, None)
    # A chosen offset that is gone, with its group, decides nothing any more.
    (row,) = make_plan(remembering("earliest", 40, None), sync).rows
    assert row.action is Action.CREATE


def test_chosen_rows_are_no_finding_and_cost_nothing_of_a_move() -> None:
    made_of = remembering("700", 40, 700)
    rows = make_group_rows(made_of)
    assert estimate_rereads(rows) == (NOTHING, NOTHING)
    (group,) = summarize_groups(rows, made_of.source, made_of.target)
    assert (group.chosen, group.ahead, group.unknown) == (1, 0, 0)
    assert measure_lags(rows, ReadLogs({("s", 0): 100}))[0].records == 60
    assert group.rating is rate(rows[0]) is Rating.CHOSEN
    assert Agreement().settle(rows, 0.0, 1.0) == rows


def test_rows_that_stay_as_chosen_are_applied_without_a_commit() -> None:
    for value, current in (("leave-out", 520), ("520", 520)):
        made_of = snapshot(40, at(520, "app"))
        plan = make_plan(made_of, replace(OPTIONS, choices={ROW: parse_value(value)}))
        assert (plan.changes, plan.applied) == ((), plan.rows)
        (write,) = make_writes(plan.applied, made_of.target, {}, "k2k_")
        assert write.changes_nothing and write.choice is not None
        assert (write.before, write.after, write.after_metadata) == (current, current, "app")
        assert write.after_version is None, "the application's own stays its own"
        (result,) = check_written([write], {}, {"g": GroupView("Stable", 1, at(999))})
        assert result.outcome is WriteOutcome.APPLIED
        (back,) = reverse_writes([result])
        assert back.changes_nothing and back.choice is None
