"""What commands print for people: complete tables, sums, notes on standard error."""

from __future__ import annotations

import pytest

from k2ktui.cli.offsets import show_change
from k2ktui.cli.plan import show_plan
from k2ktui.cli.terminal.changes import ChangeFlags
from k2ktui.cli.terminal.notes import print_notes
from k2ktui.engine.moves.positions import MoveEffect, PositionMove
from k2ktui.engine.records.state import SourcePartition
from k2ktui.sync.moves.positions import SET, PositionPlan
from tests.unit.engine.test_plan import PLAN


@pytest.mark.parametrize("forced", ["", "FORCE_COLOR", "TTY_COMPATIBLE"])
def test_a_plan(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, forced: str
) -> None:
    """Complete in a pipe, also where the environment lets Rich take it for a terminal."""
    if forced:
        monkeypatch.setenv(forced, "1")
    show_plan(PLAN)
    shown = capsys.readouterr().out.splitlines()
    [row] = PLAN.rows
    [line] = [line for line in shown if line.startswith(f" {row.group} ")]
    offsets = f"{row.current or 0:,}" if row.current is not None else "—"
    assert line.split()[1:4] == [f"{row.topic}-{row.partition}", row.source, offsets]
    assert shown[-1].startswith("1 to ")


def test_a_plan_for_positions(capsys: pytest.CaptureFixture[str]) -> None:
    at = SourcePartition("orders", 0)
    move = PositionMove(at, MoveEffect.BACK, None, offset=1200, again=34)
    show_change(
        PositionPlan(SET, "orders", (move,), ("a\x1bnote",)),
        ChangeFlags(False, False, False, False),
    )
    shown = capsys.readouterr()
    assert "orders-0 — 1,200 back up to 34 copied again" in " ".join(shown.out.split())
    assert "note: a\\x1bnote" in shown.err and "34 records" in shown.err


def test_notes_cannot_control_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    print_notes(["one\ntwo", "\x1b[2J"])
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", "note: one\ntwo\nnote: \\x1b[2J\n")
