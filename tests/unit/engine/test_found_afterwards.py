"""Writes whose writer was killed are judged by what is there."""

from __future__ import annotations

import pytest

from k2ktui.engine.moves.apply import WriteOutcome, judge_unreported
from k2ktui.engine.moves.groups import CommittedOffset, GroupView
from k2ktui.engine.moves.written import OffsetWrite
from k2ktui.text import counted

WHERE = ("orders", 0)


def view(offset: int | None, error: str = "") -> GroupView:
    offsets = {} if offset is None else {WHERE: CommittedOffset(offset)}
    return GroupView("Empty", 0, offsets, error=error)


@pytest.mark.parametrize(
    ("before", "after", "there", "result"),
    [
        (5, 12, 12, WriteOutcome.APPLIED),
        (5, 12, 5, WriteOutcome.NOT_WRITTEN),
        (None, 12, None, WriteOutcome.NOT_WRITTEN),
        (5, 12, 40, WriteOutcome.UNKNOWN),
        (5, 12, None, WriteOutcome.UNKNOWN),
        (5, None, None, WriteOutcome.APPLIED),
        (None, 12, -1, WriteOutcome.NOT_WRITTEN),
    ],
)
def test_by_what_is_there(
    before: int | None, after: int | None, there: int | None, result: WriteOutcome
) -> None:
    write = OffsetWrite("billing", *WHERE, before, "", after, "")
    assert judge_unreported(write, view(there)).outcome is result


def test_what_may_not_be_read_is_not_known() -> None:
    write = OffsetWrite("billing", *WHERE, 5, "", 12, "")
    judged = judge_unreported(write, view(12, "not allowed"))
    assert (judged.outcome, judged.reason) == (WriteOutcome.UNKNOWN, "not allowed")


def test_one_is_singular() -> None:
    assert [counted(n, "row") for n in (0, 1, 2, 1200)] == [
        "0 rows",
        "1 row",
        "2 rows",
        "1,200 rows",
    ]
