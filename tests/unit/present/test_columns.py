"""Text output and screens show the same cells, in the same format."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

import pytest
from rich.console import Console

from k2ktui.cli import groups, jobs, offsets, views
from k2ktui.cli.terminal.tables import print_table
from k2ktui.engine.mapping.translate import Basis
from k2ktui.engine.moves.journal import JournalHeader, JournalRow
from k2ktui.engine.moves.plan import Action, PlanRow
from k2ktui.engine.moves.ratings import NOTHING, RereadEstimate
from k2ktui.engine.records.mapping_version import MappingVersion
from k2ktui.errors import K2kError
from k2ktui.present.audits import audit_columns
from k2ktui.present.columns import Column, pick, rank, text_column
from k2ktui.present.formatting import ASCII, UNICODE, WORDS, Cell, duration, seconds, share
from k2ktui.present.groups import rereads_text, row_columns, summary_columns
from k2ktui.present.journal import entry_columns, entry_row_columns
from k2ktui.present.partitions import partition_columns
from k2ktui.present.plans import plan_columns, summarize_plan
from k2ktui.present.positions import move_columns
from k2ktui.present.runs import run_columns
from k2ktui.present.view_lines import view_lines
from k2ktui.watch.once import Reading
from tests.support.console.views import usual

T = TypeVar("T")


def printed(columns: Sequence[Column[T]], rows: Sequence[T], width: int) -> str:
    out = io.StringIO()
    print_table("t", columns, rows, Console(file=out, width=width, force_terminal=True))
    return re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue())


def plan_row(action: Action, **values: int | None) -> PlanRow:
    given = {"current": 10, "proposed": 12, "reread": 0, "skipped": 0, **values}
    return PlanRow(
        group="g",
        source="orders-0",
        topic="orders",
        partition=0,
        basis=Basis.EXACT,
        action=action,
        state_source="Empty",
        state_target="",
        reason="",
        version=MappingVersion(0, 0),
        **given,  # type: ignore[arg-type]
    )


def test_text_has_the_words_of_the_screen_without_its_signs() -> None:
    view = usual().view()
    for row in view.partitions:
        for text, drawn in zip(partition_columns(WORDS), partition_columns(UNICODE), strict=True):
            shown = drawn.cell(row).text
            if drawn.id == "state":
                shown = shown.split(" ", 1)[1]
            if drawn.id != "trend":
                assert text.cell(row).text == shown
    for group_row in view.groups:
        cells = {column.id: column.cell(group_row).text for column in row_columns(UNICODE)}
        assert [column.cell(group_row).text for column in views.group_columns()] == [
            cells[column.id] for column in views.group_columns()
        ]


def test_a_rank_of_a_column_that_is_not_there_is_a_fault() -> None:
    columns: list[Column[str]] = [text_column("a", str), text_column("b", str)]
    assert [(column.id, column.rank) for column in rank(columns, {"b": 2})] == [("b", 2)]
    with pytest.raises(KeyError):
        rank(columns, {"c": 0})


def test_columns_have_an_id_of_their_own_and_one_heading_in_text_and_on_screens() -> None:
    sets = (
        (partition_columns(ASCII), ()),
        (row_columns(ASCII), views.group_columns()),
        (summary_columns(ASCII, compared=True), ()),
        (plan_columns(ASCII), groups.PLAN_COLUMNS),
        (move_columns(ASCII), offsets.MOVES),
        (run_columns(ASCII, lambda: 0.0), jobs.columns(0.0)),
        (audit_columns(), ()),
        (entry_columns(ASCII, ()), groups.journal_columns([])),
    )
    for drawn, text in sets:
        headings = {column.id: column.heading for column in drawn}
        assert len(headings) == len(drawn)
        for column in text:
            assert headings[column.id] == column.heading


def test_commands_print_what_screens_show() -> None:
    view = usual().view()
    shown = printed(views.partition_table_columns(Reading(view)), list(view.partitions), 200)
    assert re.search(r"clicks-2 +behind +verbatim +88,802 +90,002 +1,200 +3\.0 s", shown)
    down = Reading(view, K2kError("no route"))
    assert "copied" in printed(views.partition_table_columns(down), list(view.partitions), 200)
    shown = printed(views.group_columns(), list(view.groups), 250)
    assert re.search(r"billing +payments-0 .* exact +\+107 ", shown)
    assert "no mapping reaches so far back" in shown


def test_the_journal_is_printed_with_the_state_of_each_entry() -> None:
    first = JournalHeader("a", 1_795_262_400_000, "ann@h", "apply", "3f2a", "p", {"applied": 3})
    entries = (
        replace(first, id="c", operation="undo", undoes="a", plan=""),
        replace(first, id="b", counts={"applied": 1, "refused": 1}),
        first,
    )
    shown = printed(groups.journal_columns(entries), entries, 250)
    for id_, operation, state in (("a", "apply", "undone"), ("b", "apply", "partly")):
        assert re.search(rf"{id_} +2026-11-21 12:00:00 +ann@h +{operation} +{state} ", shown)
    assert re.search(r"undo of a +done +3 applied", shown)
    row = JournalRow("orders", 0, None, "", 1200, "", "refused: it has members")
    shown = printed(entry_row_columns(), [("billing", row)], 250)
    assert re.search(r"billing +orders-0 +— +1,200 +refused: it has members", shown)


def test_a_narrow_terminal_leaves_wide_columns_out_and_wraps_sentences() -> None:
    columns: tuple[Column[str], ...] = (
        text_column("name", str, left=True),
        text_column("extra", str, wide=True),
        Column("why", "why", lambda row: Cell("because"), rank=12, widest=100),
    )
    assert "extra" in printed(columns, ["a"], 40)
    narrow = printed(columns, ["a"], 16)
    assert "because" in narrow and "not shown: extra" in " ".join(narrow.split())
    assert [column.id for column in pick(columns, "why", "name")] == ["why", "name"]


@pytest.mark.parametrize("width", [80, 100, 130])
def test_names_are_whole_at_every_width(width: int) -> None:
    made = usual()
    for number in range(4):
        made.group(
            "billing-service", made.partition("orders-of-europe", number, end=90_000 + number)
        )
    lines = printed(views.group_columns(), list(made.view().groups), width).splitlines()
    assert max(map(len, lines)) <= width
    for number in range(4):
        [line] = [line for line in lines if f"orders-of-europe-{number}" in line]
        assert "billing-service" in line
    assert "…" not in "".join(lines)


def test_a_column_of_a_part_of_a_row() -> None:
    column: Column[int] = Column("n", "n", lambda n: Cell(f"{n:,}"), lambda n: -n, True, 4, 3)
    inner: Column[tuple[int, str]] = column.of(lambda row: row[0])
    row = (1200, "x")
    assert inner.cell(row).text == "1,200"
    assert inner.sort is not None and inner.sort(row) == -1200
    assert (inner.right, inner.rank) == (True, 3)


def test_a_plan_is_summed_up_once() -> None:
    rows = [
        plan_row(Action.CREATE, reread=3, skipped=4),
        plan_row(Action.ADVANCE, reread=None, skipped=None),
        plan_row(Action.BLOCKED, reread=50, skipped=60),
        plan_row(Action.UPDATE, reread=70, skipped=80),
    ]
    summary = summarize_plan(rows)
    assert (summary.reread, summary.skipped) == (3, 4)
    assert summary.actions == {
        Action.CREATE: 1,
        Action.ADVANCE: 1,
        Action.BLOCKED: 1,
        Action.UPDATE: 1,
    }
    assert "3 records re-read and 4 skipped by what changes" in summary.text()
    assert "no group has committed" in summarize_plan([]).text()


def test_groups_are_summed_up_in_the_same_words() -> None:
    made = usual()
    totals = made.view().totals
    now = RereadEstimate(totals.rereads, totals.skips)
    after = RereadEstimate(totals.moved_rereads, totals.moved_skips)
    assert rereads_text(now, after) in "\n".join(view_lines(made.view(), made.now))
    assert "unknown for 2" in rereads_text(RereadEstimate(unknown=2), NOTHING)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (share(0.99999), "99.9 %"),
        (share(1.0), "100.0 %"),
        (share(None), "—"),
        (seconds(3.04), "3.0 s"),
        (seconds(100.0), "1 m 40 s"),
        (duration(3_700), "1 h 1 m"),
    ],
)
def test_one_format(text: str, shown: str) -> None:
    assert text == shown
