"""Changes: whoever is asked has seen what is asked, with ``--json`` too, and sums are named."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click
import pytest

from k2ktui.cli.changes import Change, ChangeFlags, run_change
from k2ktui.cli.groups import effect_text, plan, show_plan
from k2ktui.cli.offsets import note_moves, show_moves
from k2ktui.cli.terminal.notes import print_notes
from k2ktui.engine.moves.plan import Plan, Rewind
from k2ktui.engine.moves.positions import SET, MoveEffect, PositionMove, PositionPlan
from k2ktui.engine.records.state import SourcePartition
from tests.support.commands.in_process import invoke
from tests.support.commands.transcript import Typed
from tests.unit.engine.test_plan import PLAN
from tests.unit.golden.cases import typed_cases
from tests.unit.golden.test_transcript import FILE

ASKING = (
    *("apply", "undo", "groups reset", "parity apply", "parity undo", "schemas apply"),
    *("offsets set", "offsets clear", "offsets recover", "offsets acknowledge", "hold", "release"),
    *("mm2 offsets set", "mm2 offsets clear", "mm2 apply-checkpoints", "mm2 takeover"),
    "drill release",
)


def printed(case: Typed, folder: Path) -> tuple[set[str], set[str]]:
    """Return the lines of standard output and of standard error."""
    lines = [line for line in case.run(folder).splitlines() if line.strip("! ")]
    errors = {line.removeprefix("! ") for line in lines if line[0] == "!"}
    return {line for line in lines if line[0] not in "!$>["}, errors


@pytest.mark.parametrize("command", ASKING)
def test_with_json_the_plan_is_on_standard_error_before_the_question(
    command: str, tmp_path: Path
) -> None:
    (tmp_path / "orders.yaml").write_text(FILE)
    cases = typed_cases(command, tmp_path)
    asked = next(case for case in cases if case.input and "--json" not in case.arguments)
    for given in ("no\n", ""):  # at a terminal, and without one
        text = replace(asked, input=given)
        shown, remarks = printed(text, tmp_path)
        json = replace(text, arguments=(*text.arguments, "--json"))
        assert printed(json, tmp_path) == (set(), shown | remarks)
        assert shown or command == "drill release"


@pytest.mark.parametrize(("effect", "noted"), [("write", ""), ("", "Nothing to apply.\n")])
def test_with_json_nobody_sees_a_plan_who_is_not_asked(
    effect: str, noted: str, capsys: pytest.CaptureFixture[str]
) -> None:
    change: Change[None] = Change(
        "orders",
        effect,
        show=lambda: click.echo("the plan"),
        apply=lambda: None,
        report=lambda _: None,
        as_json=lambda _: {},
        nothing="Nothing to apply.",
        notes_nothing=True,
    )
    run_change(change, ChangeFlags(dry_run=bool(effect), as_json=True))
    assert capsys.readouterr() == ("{}\n", noted)


@pytest.mark.parametrize("forced", ["", "FORCE_COLOR", "TTY_COMPATIBLE"])
def test_a_plan_is_complete_in_a_pipe(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, forced: str
) -> None:
    """Also where the environment lets Rich take it for a terminal."""
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
    change = PositionPlan(SET, "orders", (move,), ("a\x1bnote",))
    show_moves(change)
    note_moves(change)
    shown = capsys.readouterr()
    assert "orders-0 — 1,200 back up to 34 copied again" in " ".join(shown.out.split())
    assert "note: a\\x1bnote" in shown.err and "34 records" in shown.err


def test_notes_cannot_control_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    print_notes(["one\ntwo", "\x1b[2J"])
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", "note: one\ntwo\nnote: \\x1b[2J\n")


def test_the_question_before_an_apply_says_from_when_kept_commits_are() -> None:
    made = Plan("p", "S", "T", 1000.0, 1600.0, "me@here", Rewind.NEVER, ())
    assert effect_text(made, 1100.0) == "commit 0 offsets on the target"
    reported = effect_text(replace(made, commits_at=400.0), 1100.0)
    assert reported.endswith("from the source's commits of 1970-01-01 00:06:40 UTC (11 m 40 s ago)")


@pytest.mark.parametrize("seconds", ["-1", "99999999999999999999", "9" * 5000])
def test_a_lifetime_out_of_range_is_refused(seconds: str) -> None:
    with pytest.raises(click.BadParameter):
        invoke(plan, "-f", "missing.yaml", "--valid", seconds)
