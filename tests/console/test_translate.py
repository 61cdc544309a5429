"""The screens of Translate without clusters: choosing, what a plan shows, what is refused."""

from __future__ import annotations

import shlex
import threading
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.widgets import Input

from k2ktui import progress
from k2ktui.console import cli_equivalent
from k2ktui.console.screens import plan_table, translate_plan
from k2ktui.console.screens.plan_table import PlanLine
from k2ktui.console.screens.translate_plan import PlanScreen, Shown
from k2ktui.console.session import Session
from k2ktui.console.widgets.grid import Grid
from k2ktui.console.widgets.selectable_grid import SelectableGrid
from k2ktui.console.widgets.text_lines import TextLines
from k2ktui.engine.java_patterns import compile_pattern
from k2ktui.engine.mapping.replica import Replica, TargetLog
from k2ktui.engine.mapping.translate import Basis
from k2ktui.engine.moves.choice import RowValue, ValueKind
from k2ktui.engine.moves.groups import CommittedOffset, Snapshot
from k2ktui.engine.moves.plan import Action, Plan, PlanRow, Rewind
from k2ktui.engine.moves.planning import PlanOptions, make_plan
from k2ktui.engine.records.mapping_version import MappingVersion
from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.present.columns import pick
from k2ktui.present.formatting import UNICODE
from k2ktui.progress import long_step
from k2ktui.sync import operations
from k2ktui.sync.operations import VerificationReport
from k2ktui.sync.verify.record_comparison import ComparisonOutcome, PositionPair
from k2ktui.sync.verify.verification import ContentCheck, Verification
from k2ktui.text import moment
from tests.support.clusters.kafka import TIMEOUT
from tests.support.console.driver import ConsoleDriver, drive_session, made_session
from tests.support.console.views import NOON, Made
from tests.unit.engine.test_groups import S, a_range, snapshot

COMMIT = CommittedOffset(40)

HOSTILE = (
    r"\z\Q(?<a>b++[a&&b]",
    "a[/b]",
    "\x1b[31mred",
    "\u202eback",
    "x" * 249,
    "q'\"$(x)`y`",
    "new\nline",
    "🦆 quack",
)


def row(group: str = "billing", action: Action = Action.CREATE, **values: Any) -> PlanRow:
    made = PlanRow(
        group=group,
        topic="orders",
        partition=0,
        source="orders-0@5",
        state_source="Empty",
        state_target="",
        current=None,
        proposed=12,
        basis=Basis.EXACT,
        reread=0,
        skipped=0,
        action=action,
        reason="",
        version=MappingVersion(1, 82),
    )
    return replace(made, **values)


def plan(*rows: PlanRow, valid_s: float = 900) -> Plan:
    return Plan("orders", "src", "tgt", NOON, NOON + valid_s, "ann@bastion", Rewind.NEVER, rows)


def session(*skips: int, **options: Any) -> Session:
    """A session on groups g0, g1 …, which would skip so many records."""
    made = Made()
    at = made.partition("orders", 0, end=50)
    for number, skip in enumerate(skips):
        made.group(f"g{number}", at, divergence=skip)
    return made_session(made, **options)


def opened(console: ConsoleDriver, shown: Plan, *notes: str) -> PlanScreen:
    screen = PlanScreen(None, shown.rewind, Shown(shown, notes))
    console.app.push_screen(screen)
    return screen


def test_groups_are_marked_and_stay_marked_when_a_filter_hides_them() -> None:
    async def steps(console: ConsoleDriver) -> None:
        await console.press("4", "space", "space")
        grid = console.screen.query_one(SelectableGrid)
        assert grid.marked == {"g2", "g1"}  # the worst are first
        await console.press("slash", "g", "0", "enter")
        assert [group.group for group in grid.chosen] == ["g1", "g2"]
        assert "2 marked, 2 of them not shown" in console.text
        await console.press("a")
        assert grid.marked == {"g0", "g1", "g2"}
        await console.press("a", "escape")
        assert grid.marked == {"g1", "g2"}
        await console.press("a", "a")
        assert "none marked" in console.text
        await console.press("w")
        assert "rewind: follow" in console.text

    drive_session(session(0, 1, 2), steps)


class CountingSet(set[Any]):
    """A set that counts its differences."""

    differences = 0

    def __sub__(self, other: AbstractSet[Any]) -> set[Any]:
        self.differences += 1
        return set(self) - set(other)


def test_the_marked_rows_that_a_filter_hides_are_counted_with_one_difference() -> None:
    async def steps(console: ConsoleDriver) -> None:
        await console.press("4", "a", "slash", "g", "1", "enter")
        grid = console.screen.query_one(SelectableGrid)
        grid.marked = counting = CountingSet(grid.marked)
        assert grid.hidden == 9
        assert counting.differences == 1

    drive_session(session(*range(20)), steps)


def test_a_plan_of_kept_commits_says_from_when_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    notes = ("src:9092 does not answer",)
    made = replace(plan(row(), row("other")), commits_at=NOON - 700, notes=notes)
    monkeypatch.setattr(operations, "create_plan", lambda *_: made)
    monkeypatch.setattr(translate_plan, "plan_options", lambda *_, **__: None)
    monkeypatch.setattr(translate_plan, "keep_plan", lambda _: None)

    async def steps(console: ConsoleDriver) -> None:
        console.app.push_screen(PlanScreen(None, Rewind.NEVER))
        old = (f"commits are of {moment(NOON - 700)}", "11 m 40 s before this plan")
        for text in old:
            await console.until(partial(shows, console, text), text)
        await console.press("A")
        await console.until(lambda: console.screen.is_modal, "asked")
        assert all(shows(console, text) for text in old)

    def shows(console: ConsoleDriver, text: str) -> bool:
        return text in flat(console)

    def flat(console: ConsoleDriver) -> str:
        return " ".join(console.text.replace("│", " ").split())

    drive_session(session(), steps)


def test_verify_shows_its_progress_and_why_a_row_is_unchecked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lost = row("lost", Action.BLOCKED, basis=Basis.UNMAPPED, proposed=None, reason="no mapping")
    shown = plan(lost, row("held"), row("well"))
    begun, end = threading.Event(), threading.Event()

    def check(group: str, outcome: ComparisonOutcome, why: str = "") -> ContentCheck:
        pair = PositionPair(SourcePartition("orders", 0), 5, ("orders", 0), 12)
        return ContentCheck(group, pair, 1, outcome, why)

    def verify(*_: object, **__: object) -> VerificationReport:
        with long_step("next records of groups compared", 2) as advance:
            advance(1)
            begun.set()
            assert end.wait(TIMEOUT)
        held = check("held", ComparisonOutcome.COULD_NOT_CHECK, "deleted on the source")
        checks = (held, check("well", ComparisonOutcome.SAME))
        unasked = ((lost, "nothing was planned: no mapping"),)
        return VerificationReport(Verification(checks), unasked, ())

    monkeypatch.setattr(operations, "verify_content", verify)
    monkeypatch.setattr(progress, "_COUNTED_AFTER_S", 0)  # shorter steps are not shown
    monkeypatch.setattr(progress, "_SHOWN_EVERY_S", 0)

    async def steps(console: ConsoleDriver) -> None:
        screen = opened(console, shown)
        await console.press("v")
        await console.until(begun.is_set, "begun")
        await console.sees(
            "comparing the next records: next records of groups compared ██████░░░░░░ 50 %  1 of 2"
        )
        end.set()
        await console.sees("verified: 1 same, 0 re-read, 0 different, 2 unchecked")
        assert "1 of 2" not in console.text
        grid = screen.query_one(Grid)
        for group, why in (("lost", "nothing was planned: no mapping"), ("held", "deleted on")):
            grid.select((group, "orders", 0))
            await console.sees(why)
            (line,) = (
                line for line in console.text.splitlines() if group in line[:20] and "?" in line
            )
            assert "? unchecked" in line
        assert console.text.count("no mapping") <= 2  # in the row and below the table, once each

    try:
        drive_session(session(), steps, (140, 30))
    finally:
        end.set()


def test_a_recording_plans_nothing() -> None:
    async def steps(console: ConsoleDriver) -> None:
        await console.press("4", "enter")
        assert not isinstance(console.screen, PlanScreen)
        assert "recording" in console.notices

    drive_session(session(0, config=False), steps)


def test_a_plan_shows_the_uncertain_rows_first_and_all_of_the_row_under_the_cursor() -> None:
    long = "still active on the source: what it reads there from now on is read again here"
    shown = plan(
        row("sure", current=10),
        row("lost", Action.BLOCKED, basis=Basis.UNMAPPED, proposed=None, reread=None, skipped=None),
        row("tardy", basis=Basis.BOUNDED, reread=4, reason=long),
    )

    async def steps(console: ConsoleDriver) -> None:
        opened(console, shown, "the source does not answer; its commits are 90 s old")
        await console.until(lambda: "lost" in console.text, "shown")
        text = console.text
        assert text.index("lost") < text.index("tardy") < text.index("sure")
        assert "commits are 90 s old" in text
        assert "4 records" in console.panel("Re-read")
        assert "0 records" in console.panel("Skipped")
        assert "At most 4 records read again, no record skipped." in text
        assert "valid for 15 m" in text
        await console.press("j")
        await console.sees("still active on the source")
        if console.app.size.width < 120:
            await console.press("enter")
        await console.sees("4 re-read, 0 skipped")
        assert "4 re-read, 0 skipped" in console.panel("tardy  orders-0")
        assert "from now on is read again here" in " ".join(
            console.panel("tardy  orders-0").split()
        )
        if console.app.size.width < 120:
            await console.press("escape")
        await console.press("z")
        assert len(console.screen.query_one(Grid).rows) == 2

    for size in ((60, 20), (80, 24), (120, 40)):
        drive_session(session(), steps, size)


@pytest.mark.parametrize(
    ("shown", "options", "why"),
    [
        (plan(row()), {"read_only": True}, "started with --read-only"),
        (plan(row(), valid_s=-1), {}, "has expired"),
        (plan(row(action=Action.KEEP)), {}, "nothing to apply"),
    ],
)
def test_what_cannot_be_applied_is_greyed_and_says_why(
    shown: Plan, options: dict[str, Any], why: str
) -> None:
    async def steps(console: ConsoleDriver) -> None:
        screen = opened(console, shown)
        await console.until(lambda: "billing" in console.text, "shown")
        assert not screen.active_bindings["A"].enabled
        await console.press("A")
        await console.settle()
        assert console.screen is screen
        assert why in console.notices

    drive_session(session(**options), steps)


def test_only_the_typed_name_confirms() -> None:
    async def steps(console: ConsoleDriver) -> None:
        screen = opened(console, plan(row()))
        await console.until(lambda: "billing" in console.text, "shown")
        for keys in (
            ["enter"] * 3,
            ["o", "r", "d", "e", "r", "tab", "space", "space"],
            ["tab", "tab", "space", "enter", "enter"],
            [*"order", "enter", "enter", "escape"],
        ):
            await console.press("A")
            await console.until(lambda: console.screen.query("#confirm-do"), "asked")
            assert console.app.focused is not None and console.app.focused.id == "confirm-name"
            await console.press(*keys)
            if console.screen is not screen:
                await console.press("escape")
            await console.until(lambda: console.screen is screen, "closed")
            assert not screen.busy and screen.error is None

    drive_session(session(), steps, (60, 20))


def test_hostile_names_do_no_harm() -> None:
    async def steps(console: ConsoleDriver) -> None:
        opened(console, plan(*(row(name, topic=name) for name in HOSTILE)), HOSTILE[1])
        await console.until(lambda: "a[/b]" in console.text, "shown")
        for _ in HOSTILE:
            assert "\x1b" not in console.text
            assert "\u202e" not in console.text
            await console.press("j")
        await console.press("A")
        await console.until(lambda: console.screen.query("#confirm-do"), "asked")
        assert "\x1b" not in console.text

    drive_session(session(), steps)


@given(st.sets(st.text(max_size=8) | st.sampled_from(HOSTILE), min_size=1), st.text(max_size=8))
def test_the_pattern_of_a_command_matches_its_groups_and_no_other(
    names: set[str], other: str
) -> None:
    pattern = cli_equivalent.pattern_of(names)
    assert all(compile_pattern(pattern).fullmatch(name) for name in names)
    assert (compile_pattern(pattern).fullmatch(other) is not None) == (other in names)
    assert pattern.isprintable()


def test_commands_survive_a_shell() -> None:
    line = cli_equivalent.plan_and_apply(["my pipeline.yaml"], {"it's"}, Rewind.FOLLOW, "p l.json")
    first, second = line.split(" && ")
    assert shlex.split(first) == [
        *("k2ktui", "plan", "-f", "my pipeline.yaml", "--group", "it's"),
        *("--rewind", "follow", "-o", "p l.json"),
    ]
    assert shlex.split(second) == ["k2ktui", "apply", "p l.json"]


def test_a_group_is_planned_from_where_its_trouble_is_seen() -> None:
    async def steps(console: ConsoleDriver) -> None:
        await console.press("3")
        await console.until(lambda: "skips" in console.text, "shown")
        await console.press("T")
        await console.until(lambda: "recording" in console.notices, "refused")
        assert console.app.current_mode == "groups"

    drive_session(session(7, config=False), steps)


def test_one_plan_after_the_other_is_shown() -> None:
    async def steps(console: ConsoleDriver) -> None:
        for group in ("one", "other"):
            opened(console, plan(row(group)))
            await console.sees(group)

    drive_session(session(), steps)


def test_what_must_be_done_first_is_said_above_the_plan_and_before_it_is_applied() -> None:
    async def steps(console: ConsoleDriver) -> None:
        opened(console, plan(row()), "first", "second " * 30, "third", "last of all")
        await console.sees("first")
        assert "… the rest is shown before it is applied" in console.text
        await console.press("A")
        await console.until(lambda: console.screen.query("#confirm-do"), "asked")
        await console.press(*["down"] * 12)
        await console.sees("last of all")

    drive_session(session(), steps)


def test_the_screen_says_of_apply_what_the_dialog_says() -> None:
    rows = (
        row("made"),
        row("lost", Action.ADVANCE, current=3, skipped=9),
        row("held", Action.BLOCKED, current=20, reason="the target is ahead"),
    )

    async def steps(console: ConsoleDriver) -> None:
        opened(console, plan(*rows))
        said = (
            "Apply commits 2 offsets (1 create, 1 advance) of 2 groups on the target.",
            "No record read again, at most 9 records skipped.",
        )
        await console.sees(*said)
        assert "1 blocked" in console.panel("Left alone")
        assert "9 records" in console.panel("Skipped")
        await console.press("A")
        await console.until(lambda: console.screen.query("#confirm-do"), "asked")
        lines = str(console.screen.query_one("#confirm-lines", TextLines).text)
        assert all(text in lines for text in said)

    drive_session(session(), steps, (120, 35))


def test_the_jump_is_drawn_for_known_offsets_only_and_broken_if_it_is_not_made() -> None:
    rows = (
        row("made"),
        row("goes", Action.ADVANCE, current=3),
        row("back", Action.REWIND, current=20),
        row("held", Action.BLOCKED, current=20, reason="the target is ahead"),
    )

    lines = [PlanLine(number, row) for number, row in enumerate(rows)]
    columns = plan_table.columns(UNICODE, news=False, largest=1_000, width=7)
    (jump,) = pick(columns, "jump")
    drawn = {line.row.group: jump.cell(line).text.strip() for line in lines}
    assert drawn == {"made": "", "goes": "│▶", "back": "◀│", "held": "◁│"}


def test_a_plan_without_rows_and_one_without_changes_say_what_to_do() -> None:
    async def steps(console: ConsoleDriver) -> None:
        opened(console, plan())
        await console.sees("Nothing to plan: no committed offset. Esc: choose others.")
        opened(console, plan(row(action=Action.KEEP, current=12)))
        await console.sees("Nothing to apply: every row is kept or blocked")

    for size in ((60, 20), (120, 35)):
        drive_session(session(), steps, size)


def test_a_plan_is_drawn_with_ascii_only_if_that_is_all_there_is() -> None:
    rows = (
        row("goes", Action.ADVANCE, current=3, skipped=9),
        row("held", Action.BLOCKED, current=20, reason="the target is ahead"),
    )

    async def steps(console: ConsoleDriver) -> None:
        opened(console, plan(*rows))
        await console.sees("held", "|>", "(|")
        assert console.text.isascii()
        await console.press("enter")
        await console.sees("Retained on the target")
        assert console.text.isascii()

    drive_session(session(ascii=True), steps, (120, 35))


def selected(grid: Grid[Any]) -> Any:
    """Return what is under the cursor."""
    assert grid.current is not None
    return grid.current


def set_rows(
    made_of: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> tuple[Session, PlanScreen, list[PlanOptions]]:
    """A session, and the plan of a snapshot, whose rows are set without a cluster."""
    asked: list[PlanOptions] = []

    def options(*_: object, rewind: Rewind, group: Any, choices: Any) -> PlanOptions:
        asked.append(PlanOptions("ann@bastion", rewind=rewind, group=group, choices=choices))
        return asked[-1]

    def planned(snapshot: Snapshot, options: PlanOptions, files: object) -> Plan:
        return make_plan(snapshot, options)

    monkeypatch.setattr(translate_plan, "plan_options", options)
    monkeypatch.setattr(translate_plan, "keep_plan", lambda _: None)
    monkeypatch.setattr(operations, "plan_snapshot", planned)
    shown = Shown(make_plan(made_of, PlanOptions("ann@bastion")), ("a note",), None, made_of)
    return session(0), PlanScreen(None, Rewind.NEVER, shown), asked


def two_partitions() -> Snapshot:
    """A group that has read 40 of 100 copies on each of two partitions."""
    made = snapshot(40)
    other = SourcePartition("s", 1)
    copy = Replica(Position(100, 0, 0, "id", 3, 0, "t", 1), {("t", 1): a_range(0, 500, 100)})
    return replace(
        made,
        taken_at=NOON,
        source={"g": replace(made.source["g"], offsets={("s", n): COMMIT for n in (0, 1)})},
        replicas={
            S: made.replicas[S],
            other: copy,
        },
        logs={("t", n): TargetLog(3, 700) for n in (0, 1)},
    )


def test_a_row_is_set_after_its_cost_was_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    made, screen, _ = set_rows(two_partitions(), monkeypatch)

    async def steps(console: ConsoleDriver) -> None:
        console.app.push_screen(screen)
        await console.until(lambda: console.screen is screen, "shown")
        await console.settle()
        grid = screen.query_one(Grid)
        await console.press("down")
        assert selected(grid).key == ("g", "t", 1)
        await console.press("o")
        await console.until(lambda: console.screen.is_modal, "asked")
        field = console.screen.query_one(Input)
        assert field.value == "540", "the present value is filled in"
        await console.type("510")
        assert field.value == "510", "what is typed replaces it"
        await console.settle()
        assert "At most 30 records read again, no record skipped." in console.text
        field.value = "600"
        await console.settle()
        assert "No record read again, at most 60 records skipped." in console.text
        field.value = "701"
        await console.press("enter")
        assert console.screen.is_modal and "outside the target's log" in console.text
        field.value = "510"
        await console.press("enter")
        await console.until(lambda: not console.screen.is_modal, "set")
        await console.until(lambda: selected(grid).row.basis is Basis.CHOSEN, "planned")
        assert selected(grid).key == ("g", "t", 1), "the cursor stays on the row"
        assert (selected(grid).row.proposed, selected(grid).row.reread) == (510, 30)
        assert "--set 'g t:1=510'" in screen.text_to_copy()
        # Emptied, it is translated again.
        await console.press("o")
        await console.until(lambda: console.screen.is_modal, "asked again")
        assert console.screen.query_one(Input).value == "510"
        console.screen.query_one(Input).value = ""
        await console.settle()
        assert "translated again" in console.text
        await console.press("enter")
        await console.until(lambda: selected(grid).row.basis is Basis.EXACT, "translated")
        assert "--set" not in screen.text_to_copy()

    drive_session(made, steps)


def test_a_time_is_looked_up_before_it_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    made, screen, _ = set_rows(two_partitions(), monkeypatch)

    def look_up(choices: dict[Any, RowValue], _: object) -> dict[Any, RowValue]:
        return {
            key: replace(value, kind=ValueKind.OFFSET, number=520) for key, value in choices.items()
        }

    monkeypatch.setattr(translate_plan, "look_up_times", look_up)

    async def steps(console: ConsoleDriver) -> None:
        console.app.push_screen(screen)
        await console.until(lambda: console.screen is screen, "shown")
        await console.settle()
        await console.press("o")
        await console.until(lambda: console.screen.is_modal, "asked")
        console.screen.query_one(Input).value = "2026-11-27"
        await console.settle()
        assert "Enter looks this time up" in console.text
        await console.press("enter")
        await console.until(lambda: "At most 20 records read again" in console.text, "looked up")
        assert console.screen.is_modal
        await console.press("enter")
        grid = screen.query_one(Grid)
        await console.until(lambda: selected(grid).row.basis is Basis.CHOSEN, "planned")
        row = selected(grid).row
        assert (row.proposed, row.choice.value) == (520, "2026-11-27")

    drive_session(made, steps)


def test_rows_cannot_be_set_where_nothing_is_known_to_count_with() -> None:
    async def steps(console: ConsoleDriver) -> None:
        screen = opened(console, plan(row()))
        await console.settle()
        assert screen.refusal("set_row") == "n plans again; then rows can be set"
        await console.press("o")
        assert not console.screen.is_modal

    drive_session(session(0), steps)
