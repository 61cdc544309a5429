"""What phases of a drill say about rows of a plan, without clusters."""

from __future__ import annotations

from dataclasses import replace

from k2ktui.drill.phases.moves import find_unapplied
from k2ktui.engine.moves.plan import Action
from tests.unit.engine.test_plan import PLAN, ROW


def test_rows_beyond_those_that_are_named_are_counted() -> None:
    rows = [replace(ROW, partition=n, action=Action.ADVANCE) for n in range(23)]
    kept = replace(ROW, partition=99)
    unapplied = find_unapplied(replace(PLAN, rows=(kept, *rows)))
    assert unapplied[0] == "g t-0: 3 is committed, 7 was planned"
    assert (len(unapplied), unapplied[-1]) == (21, "and 3 more")
    assert len(find_unapplied(replace(PLAN, rows=tuple(rows[:20])))) == 20
