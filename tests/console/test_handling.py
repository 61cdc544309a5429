"""Handling of tables: back to the row that was left, the filter in sight, a copy of any cell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from textual.widgets import Input

from k2ktui.console.event_log import EventKind
from k2ktui.console.screens.overview import OverviewScreen
from k2ktui.console.screens.row import RowScreen
from k2ktui.console.widgets.grid import Grid
from k2ktui.engine.mapping.translate import Basis
from k2ktui.engine.moves.journal import JournalHeader
from k2ktui.present.formatting import Cell, Line
from tests.support.console.driver import ConsoleDriver, drive
from tests.support.console.views import NOON, Made, beside_mirrormaker, usual
from tests.support.drill.made_drills import rehearsed

SIZES = [(80, 24), (120, 35), (200, 60)]
LONG = "g" * 249


def grid(console: ConsoleDriver) -> Grid[Any]:
    return console.screen.query_one(Grid)


def key_of(console: ConsoleDriver) -> object:
    return grid(console).current_key


def foot(console: ConsoleDriver) -> str:
    """The line below the table."""
    return console.text.splitlines()[-2]


def shown(console: ConsoleDriver) -> bool:
    """Whether the row under the cursor is in sight."""
    table = grid(console)
    return 0 <= table.cursor - table.scroll_offset.y < table.size.height - 1


def many() -> Made:
    """A pipeline with more groups and partitions than fit."""
    made = usual()
    for number in range(80):
        at = made.partition("many", number, end=1_000)
        made.group(f"app-{number:03}", at)
    return made


def reorder(made: Made) -> None:
    """Turn the order around: problems come first."""
    for number in range(70):
        at = made.partition("many", number, end=1_000)
        name = f"app-{number:03}"
        made.rows = [row for row in made.rows if row.group != name]
        made.group(name, at, basis=Basis.EXACT, divergence=50)


@pytest.mark.parametrize("screen", ["2", "3"])
@pytest.mark.parametrize("size", SIZES)
def test_back_returns_to_the_row_although_the_order_changed(
    screen: str, size: tuple[int, int]
) -> None:
    async def flow(console: ConsoleDriver) -> None:
        await console.press(screen, "j", "j", "j")
        left = key_of(console)
        await console.press("enter")
        assert len(console.app.screen_stack) == 2
        reorder(console.feed.made)
        for _ in range(3):  # a problem of a group is confirmed by the next polls
            console.feed.made.now += 20
            await console.show()
        await console.press("escape")
        assert len(console.app.screen_stack) == 1
        assert key_of(console) == left
        assert shown(console), "the row is out of sight"

    drive(flow, many(), size=size)


@pytest.mark.parametrize("screen", ["1", "4", "6"])
def test_back_returns_to_the_row_of_what_asks_or_opens(screen: str) -> None:
    """A problem, a group to plan, a partition to move: by key, not by number."""

    async def flow(console: ConsoleDriver) -> None:
        await console.press(screen, "j")
        left = key_of(console)
        await console.press("enter")  # what is planned needs clusters; here it says so
        reorder(console.feed.made)
        for _ in range(3):
            console.feed.made.now += 20
            await console.show()
        if len(console.app.screen_stack) > 1:
            await console.press("escape")
        assert len(console.app.screen_stack) == 1
        assert key_of(console) == left and shown(console)

    drive(flow, many())


def test_the_row_stays_in_sight_when_others_come_before_it() -> None:
    async def flow(console: ConsoleDriver) -> None:
        await console.press("3", "G")
        left = key_of(console)
        await console.press("g", *["j"] * 4)
        table = grid(console)
        table.select(left)
        await console.settle()
        assert shown(console)
        await console.press("S")  # the last row is the first
        assert key_of(console) == left and shown(console)
        await console.press("S")
        assert key_of(console) == left and shown(console)

    drive(flow, many())


def test_a_filter_that_hid_the_row_gives_it_back() -> None:
    async def flow(console: ConsoleDriver) -> None:
        await console.press("3", *["j"] * 30)
        left = key_of(console)
        await console.press("slash", *"nosuchgroup")
        await console.press("escape")
        assert key_of(console) == left and shown(console)
        await console.press("slash", *"app-00", "enter", "j")
        chosen = key_of(console)
        await console.press("escape")
        assert key_of(console) == chosen, "the operator has moved to another row"

    drive(flow, many())


@pytest.mark.parametrize("size", SIZES)
def test_the_filter_stays_in_sight_and_counts_its_hits(size: tuple[int, int]) -> None:
    async def flow(console: ConsoleDriver) -> None:
        await console.press("3", "slash", *"app-01")
        assert "/app-01 " in foot(console) and "10 of 84" in foot(console)
        await console.press("enter")
        assert "10 of 84" in foot(console), "also while the table has the focus"
        assert "esc shows all" in foot(console)
        await console.press("slash", "9")
        assert "1 of 84" in foot(console)
        await console.press("x")
        assert "nothing of 84" in foot(console)
        assert "No row of 84 matches /app-019x; Esc shows all." in console.text
        await console.press("enter", "escape")
        assert "/app" not in console.text and "84 groups" in console.text
        await console.press("z")
        assert "of 84" in foot(console)
        await console.press("slash", *"[", "enter")
        assert "problems /[" in foot(console)

    drive(flow, many(), size=size)


def test_an_expression_that_is_none_is_a_text_and_says_so() -> None:
    async def flow(console: ConsoleDriver) -> None:
        await console.press("3", "slash", "left_parenthesis")
        assert console.screen.query_one(Input).value == "("
        assert "nothing of 4" in foot(console)
        await console.press("backspace", *"pp", "backspace", "enter", "escape")

    drive(flow)


@pytest.mark.parametrize("size", SIZES)
def test_any_cell_is_copied_whole_and_said_where_the_eye_is(size: tuple[int, int]) -> None:
    made = usual()
    made.group(LONG, made.partition("clicks", 0, end=5_000))

    async def flow(console: ConsoleDriver) -> None:
        await console.press("3", "slash", *"ggg", "enter", "right")
        assert "y copies, esc leaves" in console.text
        await console.press("y")
        assert console.app.clipboard == LONG
        assert "copied group ggg" in console.notices
        last = console.app.events.events[0]
        assert last.kind is EventKind.DONE and last.text.startswith("copied group ggg")
        await console.press("right", "y")
        assert console.app.clipboard and console.app.clipboard != LONG
        assert len(console.app.clipboard) < 60
        await console.press("left", "left", "y")
        assert console.app.clipboard.startswith(f"{LONG}\t"), "the row again"
        await console.press("right", "escape")
        assert "y copies" not in console.text
        assert "1 of 5" in foot(console), "Esc leaves the cell first"
        await console.press("escape")
        assert "1 of 5" not in console.text

    drive(flow, made, size=size)


def test_a_copied_cell_has_no_control_characters() -> None:
    made = usual()
    made.group("a\x1b]0;x\x07\n[/b]", made.partition("clicks", 0, end=5_000))

    async def flow(console: ConsoleDriver) -> None:
        await console.press("3", "slash", *"x", "enter")
        await console.press("right", "y")
        assert console.app.clipboard == r"a\x1b]0;x\x07\x0a[/b]"
        assert "\x1b" not in console.text

    drive(flow, made)


def test_a_problem_is_copied_whole_where_the_screen_cuts_it() -> None:
    made = usual()
    made.group(LONG, made.partition("clicks", 0, end=5_000), basis=Basis.UNMAPPED)

    async def flow(console: ConsoleDriver) -> None:
        assert isinstance(console.screen, OverviewScreen)
        table = grid(console)
        row = next(n for n, row in enumerate(table.rows) if row.subject.startswith("ggg"))
        await console.press(*["j"] * row, "right", "right", "y")
        assert console.app.clipboard == LONG
        await console.press("right", "y")
        assert console.app.clipboard == table.rows[row].message

    drive(flow, made)


def events(console: ConsoleDriver) -> list[str]:
    return [event.text for event in console.app.events.events if event.kind is not EventKind.POLLED]


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        (("y",), "copied "),
        (("p",), "polling paused"),
        (("plus",), "polled every 6 s"),
        (("colon", *"theme k2k-light", "enter"), "theme k2k-light"),
        (("e", "enter"), "written:"),
        (("ctrl+s",), "written:"),
    ],
)
def test_what_a_key_did_is_said_and_in_the_event_log(
    keys: tuple[str, ...], said: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    async def flow(console: ConsoleDriver) -> None:
        await console.press("2")
        await console.press(*(("space" if key == " " else key) for key in keys))
        assert events(console)[0].startswith(said)
        assert said in console.notices or "paused" in console.text

    drive(flow)


def entry(number: int) -> JournalHeader:
    made, at = f"20261121-1200{number:02}-aaaa", int(NOON * 1000) + number * 1000
    return JournalHeader(made, at, "ann@bastion1", "apply", "", "orders", {"applied": 3}, "")


def new_event(console: ConsoleDriver) -> None:
    console.app.events.add(EventKind.DONE, "something else")


def new_entry(console: ConsoleDriver) -> None:
    console.feed.made.journal = [entry(9), *console.feed.made.journal]


def new_drill(console: ConsoleDriver) -> None:
    made = console.feed.made
    made.drills = (replace(rehearsed(1), id="20261121-newest"), *made.drills)


def new_audit(console: ConsoleDriver) -> None:
    made = console.feed.made
    worst = replace(made.audited[0], group="aaa", checkpoint_reread=9_999)
    made.audited = [worst, *made.audited]


@pytest.mark.parametrize(
    ("keys", "change"),
    [("7", new_entry), ("8", new_drill), ("3m", new_audit), ("L", new_event)],
    ids=["journal", "drill", "audit", "events"],
)
def test_back_returns_to_the_row_although_a_new_one_came_before_it(
    keys: str, change: Callable[[ConsoleDriver], None]
) -> None:
    async def flow(console: ConsoleDriver) -> None:
        await console.press(*keys, "j")
        left, depth = key_of(console), len(console.app.screen_stack)
        number = grid(console).cursor
        await console.press("enter")
        assert len(console.app.screen_stack) == depth + 1
        change(console)
        console.feed.made.now += 5
        await console.show()
        await console.press("escape")
        assert len(console.app.screen_stack) == depth
        assert key_of(console) == left and shown(console)
        assert grid(console).cursor > number, "the change was not seen"

    made = beside_mirrormaker()
    made.journal = [entry(2), entry(1)]
    made.drills = (rehearsed(40), replace(rehearsed(90), id="20261121-older"))
    drive(flow, made)


def test_an_opened_row_that_is_longer_than_the_screen_is_scrolled() -> None:
    async def flow(console: ConsoleDriver) -> None:
        lines: list[Line] = [(Cell(f"line {number}."),) for number in range(60)]
        await console.app.push_screen(RowScreen("orders-0", lambda _: lines))
        await console.settle()
        assert "line 0." in console.text and "line 59." not in console.text
        await console.press("end")
        assert "line 59." in console.text

    drive(flow)
