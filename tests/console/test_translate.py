"""The screens of Translate without clusters: choosing, what a plan shows, what is refused."""

from __future__ import annotations

import shlex
import threading
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.pilot import Pilot

from k2ktui.config.model import PipelineConfig
from k2ktui.config.topics import compile_pattern
from k2ktui.console import cli_equivalent
from k2ktui.console.app import ConsoleApp
from k2ktui.console.screens import translate_plan
from k2ktui.console.screens.translate_plan import PlanScreen, Shown
from k2ktui.console.session import Options, Session
from k2ktui.console.widgets.grid import Grid
from k2ktui.console.widgets.selectable_grid import SelectableGrid
from k2ktui.engine.guard import MappingVersion
from k2ktui.engine.plan import Action, Plan, PlanRow, Rewind
from k2ktui.engine.state import SourcePartition
from k2ktui.engine.translate import Basis
from k2ktui.sync import operations
from k2ktui.sync.flow import PipelineFlow
from k2ktui.sync.operations import VerificationReport
from k2ktui.sync.record_comparison import ComparisonOutcome, PositionPair
from k2ktui.sync.verification import ContentCheck, Verification
from k2ktui.text import moment
from tests.console.acting import drive, notices, shows, text_of, until
from tests.support.views import NOON, Made, StubFeed

App, Driver = ConsoleApp, Pilot[Any]
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


def session(*skips: int, config: bool = True, **options: Any) -> Session:
    """A session on groups g0, g1 …, which would skip so many records."""
    made = Made()
    at = made.partition("orders", 0, end=50)
    for number, each in enumerate(skips):
        made.group(f"g{number}", at, divergence=each)
    known = PipelineFlow(PipelineConfig.model_construct(name="orders")) if config else None
    return Session(StubFeed(made), made.pair, known, ("p.yaml",), Options(**options))


def opened(app: App, shown: Plan, *notes: str) -> PlanScreen:
    screen = PlanScreen(None, shown.rewind, Shown(shown, notes))
    app.push_screen(screen)
    return screen


def test_groups_are_marked_and_stay_marked_when_a_filter_hides_them() -> None:
    async def steps(app: App, pilot: Driver) -> None:
        await pilot.press("4", "space", "space")
        grid = app.screen.query_one(SelectableGrid)
        assert grid.marked == {"g2", "g1"}  # the worst are first
        await pilot.press("slash", "g", "0", "enter")
        assert [each.group for each in grid.chosen] == ["g1", "g2"]
        assert "2 marked, 2 of them not shown" in text_of(app)
        await pilot.press("a")
        assert grid.marked == {"g0", "g1", "g2"}
        await pilot.press("a", "escape")
        assert grid.marked == {"g1", "g2"}
        await pilot.press("a", "a")
        assert "none marked" in text_of(app)
        await pilot.press("w")
        assert "rewind: follow" in text_of(app)

    drive(session(0, 1, 2), steps)


class CountingSet(set[Any]):
    """A set that counts its differences."""

    differences = 0

    def __sub__(self, other: AbstractSet[Any]) -> set[Any]:
        self.differences += 1
        return set(self) - set(other)


def test_the_marked_rows_that_a_filter_hides_are_counted_with_one_difference() -> None:
    async def steps(app: App, pilot: Driver) -> None:
        await pilot.press("4", "a", "slash", "g", "1", "enter")
        grid = app.screen.query_one(SelectableGrid)
        grid.marked = counting = CountingSet(grid.marked)
        assert grid.hidden == 9
        assert counting.differences == 1

    drive(session(*range(20)), steps)


def test_a_plan_of_kept_commits_says_from_when_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    made = replace(plan(row(), row("other")), commits_at=NOON - 700)
    told = ["src:9092 does not answer"]
    monkeypatch.setattr(operations, "create_plan", lambda *_: (made, told))
    monkeypatch.setattr(translate_plan, "plan_options", lambda *_, **__: None)
    monkeypatch.setattr(translate_plan, "keep_plan", lambda _: None)

    async def steps(app: App, pilot: Driver) -> None:
        app.push_screen(PlanScreen(None, Rewind.NEVER))
        old = (f"commits are of {moment(NOON - 700)}", "11 m 40 s before this plan")
        for text in old:
            await until(app, pilot, lambda it=text: it in flat(app), text)
        await pilot.press("A")
        await until(app, pilot, lambda: app.screen.is_modal, "asked")
        assert all(text in flat(app) for text in old)

    def flat(app: App) -> str:
        return " ".join(text_of(app).replace("│", " ").split())

    drive(session(), steps)


def test_verify_shows_its_progress_and_why_a_row_is_unchecked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lost = row("lost", Action.SKIP, basis=Basis.UNMAPPED, proposed=None, reason="no mapping")
    shown = plan(lost, row("held"), row("well"))
    begun, end = threading.Event(), threading.Event()

    def check(group: str, outcome: ComparisonOutcome, why: str = "") -> ContentCheck:
        pair = PositionPair(SourcePartition("orders", 0), 5, ("orders", 0), 12)
        return ContentCheck(group, pair, 1, outcome, why)

    def verify(*_: object, progress: Callable[[str], None], **__: object) -> VerificationReport:
        progress("commits and mappings of both clusters are read")
        progress("next records of groups: 1 of 2 compared")
        begun.set()
        assert end.wait(60)
        held = check("held", ComparisonOutcome.COULD_NOT_CHECK, "deleted on the source")
        checks = (held, check("well", ComparisonOutcome.SAME))
        unasked = ((lost, "nothing was planned: no mapping"),)
        return VerificationReport(Verification(checks), unasked, ())

    monkeypatch.setattr(operations, "verify_content", verify)

    async def steps(app: App, pilot: Driver) -> None:
        screen = opened(app, shown)
        await pilot.press("v")
        await until(app, pilot, begun.is_set, "begun")
        await shows(app, pilot, "comparing the next records: next records of groups: 1 of 2")
        end.set()
        await shows(app, pilot, "verified: 1 same, 0 re-read, 0 different, 2 unchecked")
        assert "1 of 2 compared" not in text_of(app)
        grid = screen.query_one(Grid)
        for group, why in (("lost", "nothing was planned: no mapping"), ("held", "deleted on")):
            grid.select((group, "orders", 0))
            await shows(app, pilot, why)
            (line,) = (
                each for each in text_of(app).splitlines() if group in each[:20] and "?" in each
            )
            assert "? unchecked" in line
        assert text_of(app).count("no mapping") <= 2  # in the row and below the table, once each

    try:
        drive(session(), steps, (140, 30))
    finally:
        end.set()


def test_a_recording_plans_nothing() -> None:
    async def steps(app: App, pilot: Driver) -> None:
        await pilot.press("4", "enter")
        assert not isinstance(app.screen, PlanScreen)
        assert "recording" in notices(app)

    drive(session(0, config=False), steps)


def test_a_plan_shows_the_uncertain_rows_first_and_all_of_the_row_under_the_cursor() -> None:
    long = "still active on the source: what it reads there from now on is read again here"
    shown = plan(
        row("sure", current=10),
        row("lost", Action.SKIP, basis=Basis.UNMAPPED, proposed=None, reread=None, skipped=None),
        row("tardy", basis=Basis.BOUNDED, reread=4, reason=long),
    )

    async def steps(app: App, pilot: Driver) -> None:
        opened(app, shown, "the source does not answer; its commits are 90 s old")
        await until(app, pilot, lambda: "lost" in text_of(app), "shown")
        text = text_of(app)
        assert text.index("lost") < text.index("tardy") < text.index("sure")
        assert "commits are 90 s old" in text
        assert "4 re-read" in text
        assert "valid for 15 m" in text
        await pilot.press("j")
        if app.size.width >= 80:
            assert "4 re-read, 0 skipped" in text_of(app)
        assert "still active on the source" in text_of(app)
        await pilot.press("z")
        assert len(app.screen.query_one(Grid).rows) == 2

    for size in ((60, 20), (80, 24), (120, 40)):
        drive(session(), steps, size)


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
    async def steps(app: App, pilot: Driver) -> None:
        screen = opened(app, shown)
        await until(app, pilot, lambda: "billing" in text_of(app), "shown")
        assert not screen.active_bindings["A"].enabled
        await pilot.press("A")
        await pilot.pause()
        assert app.screen is screen
        assert why in notices(app)

    drive(session(**options), steps)


def test_only_the_typed_name_and_the_button_confirm() -> None:
    async def steps(app: App, pilot: Driver) -> None:
        screen = opened(app, plan(row()))
        await until(app, pilot, lambda: "billing" in text_of(app), "shown")
        for keys in (
            ["enter"] * 3,
            ["o", "r", "d", "e", "r", "tab", "space", "space"],
            ["tab", "tab", "space", "enter", "enter"],
            [*"orders", "enter", "enter", "escape"],
        ):
            await pilot.press("A")
            await until(app, pilot, lambda: app.screen.query("#confirm-do"), "asked")
            assert app.focused is not None and app.focused.id == "confirm-name"
            await pilot.press(*keys)
            if app.screen is not screen:
                await pilot.press("escape")
            await until(app, pilot, lambda: app.screen is screen, "closed")
            assert not screen.busy and screen.error is None

    drive(session(), steps, (60, 20))


def test_hostile_names_do_no_harm() -> None:
    async def steps(app: App, pilot: Driver) -> None:
        opened(app, plan(*(row(name, topic=name) for name in HOSTILE)), HOSTILE[1])
        await until(app, pilot, lambda: "a[/b]" in text_of(app), "shown")
        for _ in HOSTILE:
            assert "\x1b" not in text_of(app)
            assert "\u202e" not in text_of(app)
            await pilot.press("j")
        await pilot.press("A")
        await until(app, pilot, lambda: app.screen.query("#confirm-do"), "asked")
        assert "\x1b" not in text_of(app)

    drive(session(), steps)


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
    async def steps(app: App, pilot: Driver) -> None:
        await pilot.press("3")
        await until(app, pilot, lambda: "skips" in text_of(app), "shown")
        await pilot.press("T")
        await until(app, pilot, lambda: "recording" in notices(app), "refused")
        assert app.current_mode == "groups"

    drive(session(7, config=False), steps)


def test_one_plan_after_the_other_is_shown() -> None:
    async def steps(app: App, pilot: Driver) -> None:
        for group in ("one", "other"):
            opened(app, plan(row(group)))
            await shows(app, pilot, group)

    drive(session(), steps)


def test_what_must_be_done_first_is_said_above_the_plan_and_before_it_is_applied() -> None:
    async def steps(app: App, pilot: Driver) -> None:
        opened(app, plan(row()), "first", "second " * 30, "third", "last of all")
        await shows(app, pilot, "first")
        assert "… the rest is shown before it is applied" in text_of(app)
        await pilot.press("A")
        await until(app, pilot, lambda: app.screen.query("#confirm-do"), "asked")
        await pilot.press(*["down"] * 12)
        await shows(app, pilot, "last of all")

    drive(session(), steps)
