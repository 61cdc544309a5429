"""Two Enters or clicks in one tick: a dialog gives one result, and what is below gets none of it.

And keys of one packet reach the field that the first of them opens.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from textual import events
from textual.widget import Widget

from k2ktui.console.screens import positions_plan
from k2ktui.console.screens.positions import PositionsScreen
from k2ktui.console.screens.positions_plan import MovesScreen
from k2ktui.console.screens.replication import ReplicationScreen
from k2ktui.console.session import LeaveChoice
from k2ktui.console.widgets.choice_dialog import Choice, ChoiceDialog
from k2ktui.console.widgets.confirm import Confirm
from k2ktui.console.widgets.drill_dialog import DrillDialog
from k2ktui.console.widgets.grid import Grid
from k2ktui.console.widgets.minimum_size import TooSmall
from k2ktui.console.widgets.text_prompt import TextPrompt
from k2ktui.engine.records.state import SourcePartition
from tests.console.test_positions import Planner, session
from tests.support.console.driver import ConsoleDriver, drive_session, made_session
from tests.support.console.views import usual


def click(widget: Widget, x: int, y: int, chain: int = 1) -> None:
    """Let a click arrive behind those before it, as Textual passes it on to a widget."""
    event = events.Click(widget, x, y, 0, 0, 1, False, False, False, chain=chain)
    event._set_forwarded()  # noqa: SLF001 - else Textual passes it on again, to what has opened meanwhile
    widget.post_message(event)


def double_click(widget: Widget, x: int, y: int, times: int = 1) -> None:
    """Let double clicks arrive together, before the first has had an effect."""
    for _ in range(times):
        click(widget, x, y)
        click(widget, x, y, chain=2)


def opened(console: ConsoleDriver) -> list[str]:
    """The names of the open screens, the lowest first."""
    return [type(screen).__name__ for screen in console.app.screen_stack]


@pytest.fixture(autouse=True)
def planner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(positions_plan, "PositionPlanner", lambda config: Planner())


async def on_positions(console: ConsoleDriver) -> None:
    await console.press("6")
    await console.until(lambda: isinstance(console.screen, PositionsScreen), "positions")


def test_a_new_position_may_be_typed_at_once_and_enter_pressed_twice() -> None:
    async def steps(console: ConsoleDriver) -> None:
        await on_positions(console)
        await console.press_at_once("enter", *"+5", "enter", "enter")
        await console.until(lambda: isinstance(console.screen, MovesScreen), "planned")
        screen = console.screen
        assert isinstance(screen, MovesScreen)
        await console.until(lambda: screen.shown, "planned")
        assert screen.shown and screen.shown.pipeline == repr({SourcePartition("a", 0): 55})
        assert opened(console) == ["PositionsScreen", "MovesScreen"]

    drive_session(session(), steps)


def test_enter_twice_without_a_position_asks_and_cancels_once() -> None:
    async def steps(console: ConsoleDriver) -> None:
        await on_positions(console)
        await console.press_at_once("enter", "enter")
        await console.sees("Nothing was changed.")
        assert opened(console) == ["PositionsScreen"]

    drive_session(session(), steps)


def test_a_double_click_twice_asks_for_a_new_position_once() -> None:
    async def steps(console: ConsoleDriver) -> None:
        await on_positions(console)
        double_click(console.screen.query_one(Grid), 5, 1, times=2)
        await console.until(lambda: isinstance(console.screen, TextPrompt), "asked")
        await console.settle()
        assert opened(console) == ["PositionsScreen", "TextPrompt"]
        await console.press("escape")
        assert opened(console) == ["PositionsScreen"]

    drive_session(session(), steps)


def test_enter_twice_in_a_new_drill_chooses_once() -> None:
    async def steps(console: ConsoleDriver) -> None:
        await console.press_at_once("N", "enter", "enter", "enter")
        await console.until(lambda: isinstance(console.screen, Confirm), "asked")
        assert opened(console) == ["DrillsScreen", "Confirm"]
        await console.press("escape")
        assert opened(console) == ["DrillsScreen"]

    drive_session(made_session(usual()), steps, screen="8")


@pytest.mark.parametrize("times", [1, 2])
def test_double_clicks_in_a_new_drill_choose_once(times: int) -> None:
    async def steps(console: ConsoleDriver) -> None:
        await console.press("N")
        await console.until(lambda: isinstance(console.screen, DrillDialog), "opened")
        double_click(console.widget("#drill-kinds"), 5, 2, times)
        await console.until(lambda: isinstance(console.screen, Confirm), "asked")
        await console.settle()
        assert opened(console) == ["DrillsScreen", "Confirm"]
        assert "--fence hand" in console.text or "planned" in console.text
        await console.press("escape")
        assert opened(console) == ["DrillsScreen"]

    drive_session(made_session(usual()), steps, screen="8")


def test_groups_of_a_new_drill_may_be_typed_at_once() -> None:
    async def steps(console: ConsoleDriver) -> None:
        await console.press_at_once("N", "tab", *"bil", "enter", "enter")
        await console.until(lambda: isinstance(console.screen, Confirm), "asked")
        assert "of the groups that match bil" in console.text
        assert opened(console) == ["DrillsScreen", "Confirm"]

    drive_session(made_session(usual()), steps, screen="8")


def test_two_dialogs_do_not_open_above_each_other_for_one_question() -> None:
    async def steps(console: ConsoleDriver) -> None:
        await console.press_at_once("N", "N")
        assert opened(console) == ["DrillsScreen", "DrillDialog"]

    drive_session(made_session(usual()), steps, screen="8")


@pytest.mark.parametrize("how", ["keys", "clicks"])
def test_a_choice_is_made_once(how: str) -> None:
    results: list[str | None] = []
    choices = [Choice("one", "the first", "It is first."), Choice("two", "the second", "Second.")]

    async def steps(console: ConsoleDriver) -> None:
        console.app.push_screen(ChoiceDialog("Which?", "choice", choices), results.append)
        await console.settle()
        if how == "keys":
            await console.press_at_once("down", "enter", "enter")
        else:
            double_click(console.widget("#choices"), 5, 2, times=2)
            await console.until(lambda: results, "chosen")
            await console.settle()
        assert results == ["two"]
        assert opened(console) == ["DrillsScreen"]

    drive_session(made_session(usual()), steps, screen="8")


def test_a_dialog_that_another_one_covers_closes_neither() -> None:
    results: list[bool | None] = []

    async def steps(console: ConsoleDriver) -> None:
        covered = Confirm("Do it", ["It is done."], "orders", "Do")
        console.app.push_screen(covered, results.append)
        await console.settle()
        await console.pilot.resize_terminal(40, 10)
        await console.until(lambda: isinstance(console.screen, TooSmall), "too small")
        covered.cancel(False)
        await console.settle()
        assert not results
        assert opened(console) == ["OverviewScreen", "Confirm", "TooSmall"]
        await console.pilot.resize_terminal(80, 24)
        await console.until(lambda: isinstance(console.screen, Confirm), "shown again")
        await console.press("escape")
        assert results == [False]

    drive_session(made_session(usual()), steps)


def test_two_clicks_in_one_tick_on_cancel_cancel_once() -> None:
    results: list[bool | None] = []

    async def steps(console: ConsoleDriver) -> None:
        console.app.push_screen(Confirm("Do it", ["It is done."], "orders", "Do"), results.append)
        await console.settle()
        button = console.widget("#confirm-cancel")
        for _ in range(2):
            click(button, 3, 0)
        await console.until(lambda: results, "canceled")
        await console.settle()
        assert results == [False]
        assert opened(console) == ["OverviewScreen"]

    drive_session(made_session(usual()), steps)


def test_a_filter_is_typed_at_once() -> None:
    async def steps(console: ConsoleDriver) -> None:
        await console.press_at_once("2", "slash", *"payments", "enter", "enter")
        assert opened(console) == ["ReplicationScreen", "PartitionScreen"]
        assert "payments-0" in console.text

    drive_session(made_session(usual()), steps)


def test_the_path_of_an_export_is_typed_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "q").mkdir()
    monkeypatch.chdir(tmp_path)

    async def steps(console: ConsoleDriver) -> None:
        await console.press_at_once("e", *"/q", "enter", "enter")
        await console.sees("written:")
        assert list((tmp_path / "q").iterdir())
        assert opened(console) == ["OverviewScreen"]

    drive_session(made_session(usual()), steps)


def test_two_double_clicks_open_a_row_once() -> None:
    async def steps(console: ConsoleDriver) -> None:
        await console.until(lambda: isinstance(console.screen, ReplicationScreen), "shown")
        await console.settle()
        double_click(console.screen.query_one(Grid), 5, 1, times=2)
        await console.until(lambda: len(opened(console)) > 1, "opened")
        await console.settle()
        assert opened(console) == ["ReplicationScreen", "PartitionScreen"]

    drive_session(made_session(usual()), steps, screen="2")


@pytest.mark.parametrize(
    ("screen", "key", "dialog"),
    [("1", "q Quit", "LeaveDialog"), ("8", "N New", "DrillDialog"), ("8", ": Com", "CommandLine")],
)
def test_two_clicks_on_a_key_of_the_footer_open_one_dialog(
    screen: str, key: str, dialog: str
) -> None:
    async def steps(console: ConsoleDriver) -> None:
        keys = console.widget("#keys")
        x = console.text.splitlines()[-1].index(key)
        for _ in range(2):
            click(keys, x, 0)
        await console.until(lambda: len(opened(console)) > 1, "opened")
        await console.settle()
        assert opened(console)[1:] == [dialog]

    session = made_session(usual())
    session.leave_choices = (LeaveChoice("e", "End", "The clusters are stopped.", 0),)
    drive_session(session, steps, screen=screen)
