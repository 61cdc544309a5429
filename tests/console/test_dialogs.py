"""Dialogs: nothing is applied unseen, and the buttons stay on the screen, however long the text."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from textual import events
from textual.widgets import Input

from k2ktui.console.leaving import LeaveDialog
from k2ktui.console.session import LeaveChoice
from k2ktui.console.widgets import start_dialog, typed_keys
from k2ktui.console.widgets.confirm import Confirm, _SeenLines
from k2ktui.console.widgets.dialog import Dialog
from k2ktui.console.widgets.start_dialog import StartDialog
from k2ktui.console.widgets.text_lines import TextLines
from k2ktui.replication.preflight.checks import Check, CheckOutcome
from tests.support.console.driver import ConsoleDriver, drive, drive_session, made_session
from tests.support.console.views import usual
from tests.support.jobs.jobs import config_of, write_pipeline

_LONG = "a committed offset is not within the log of its partition on the source: " * 3
_FAILED = [
    Check(name, CheckOutcome.FAIL, _LONG, "Do something about it.")
    for name in ("source topics", "target topics", "target clock", "other runners", "disk", "Java")
]


def confirm(tmp_path: Path) -> Dialog[bool]:
    remarks = [f"- preflight: D{number} offsets: {_LONG}" for number in range(10, 30)]
    return Confirm("9 open-target", ["It opens the target.", *remarks], "open-target", "Confirm")


def start(tmp_path: Path) -> Dialog[bool]:
    return StartDialog(config_of(write_pipeline(tmp_path / "p.yaml", 1)), "Start", [_LONG] * 5)


def leave(tmp_path: Path) -> Dialog[int | None]:
    work = ["The job that was started here runs on.", "A recording is made.", "A drill runs here."]
    choices = [LeaveChoice("e", "End", "the pipeline and both clusters are stopped.", 0)]
    return LeaveDialog("orders", work, choices)


@pytest.mark.parametrize("size", [(100, 30), (80, 24), (60, 16)])
@pytest.mark.parametrize(
    ("made", "button"), [(confirm, "Cancel "), (start, "Cancel "), (leave, "Stay (s)")]
)
def test_its_buttons_are_on_the_screen(
    made: Callable[[Path], Dialog[object]],
    button: str,
    size: tuple[int, int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(start_dialog, "start_checks", lambda *_, **__: iter(_FAILED))

    async def steps(console: ConsoleDriver) -> None:
        dialog = made(tmp_path)
        console.app.push_screen(dialog)
        if made is start:
            await console.sees("do not prevent a start")
        await console.settle()
        assert button in console.text
        await console.pilot.resize_terminal(120, 40)
        await console.pilot.resize_terminal(*size)
        await console.settle()
        assert button in console.text

    drive(steps, size=size)


# What confirms


def ask(
    steps: Callable[[ConsoleDriver, Confirm, list[bool | None]], Awaitable[None]],
    lines: list[str] | None,
    typed: str | None = "orders",
    **options: Any,
) -> None:
    """Open a dialog, and let steps use it; the list has its result."""

    async def flow(console: ConsoleDriver) -> None:
        results: list[bool | None] = []
        dialog = Confirm("Do it", lines, typed, "Do", **options)
        console.app.push_screen(dialog, results.append)
        await console.until(lambda: console.screen is dialog, "opened")
        await console.settle()
        await steps(console, dialog, results)

    drive_session(made_session(usual()), flow)


def foot(console: ConsoleDriver) -> str:
    """What the lower edge of the field says, which is on the screen."""
    field = console.screen.query("#confirm-name") or console.screen.query("#confirm")
    said = str(field.first().border_subtitle)
    assert f" {said} " in console.text, console.text
    return said


def test_enter_on_the_right_name_applies_what_can_be_taken_back() -> None:
    async def steps(console: ConsoleDriver, _: Confirm, results: list[bool | None]) -> None:
        assert foot(console) == "then Enter, or Tab and space; Esc cancels"
        await console.type("ord")
        await console.enter()
        assert foot(console) == "this is not the name; Esc cancels"
        await console.type("ers")
        assert foot(console) == "then Enter, or Tab and space; Esc cancels"
        assert not results
        await console.enter()
        assert results == [True]

    ask(steps, ["It is done."], undoable=True)


def test_enter_never_applies_what_cannot_be_taken_back() -> None:
    async def steps(console: ConsoleDriver, _: Confirm, results: list[bool | None]) -> None:
        assert foot(console) == "then Tab and space; Esc cancels"
        await console.type("orders")
        for _times in range(3):
            await console.enter()
            assert foot(console) == "space applies; Esc cancels"
        assert not results
        await console.press("space")
        assert results == [True]

    ask(steps, ["It is done."])


@pytest.mark.parametrize("button", ["confirm-do", "confirm-cancel"])
def test_enter_on_a_button_applies_but_never_cancels(button: str) -> None:
    async def steps(console: ConsoleDriver, _: Confirm, results: list[bool | None]) -> None:
        await console.type("orders")
        await console.press(*["tab"] * (1 if button == "confirm-do" else 2))
        assert console.app.focused is console.widget(f"#{button}")
        says = "Enter or space applies; Esc cancels"
        assert foot(console) == (says if button == "confirm-do" else "space cancels")
        await console.enter()
        assert results == ([True] if button == "confirm-do" else [])

    ask(steps, ["It is done."], undoable=True)


@pytest.mark.parametrize("key", ["enter", "space"])
def test_a_name_typed_early_is_kept_and_a_key_behind_it_is_not(key: str) -> None:
    async def steps(console: ConsoleDriver, dialog: Confirm, results: list[bool | None]) -> None:
        assert "reading …" in console.text
        await console.press_at_once(*"orders", *(["tab"] if key == "space" else []), key)
        assert foot(console) == "reading the details; Esc cancels"
        assert console.widget("#confirm-do").disabled
        dialog.show_details(["It is done."])
        await console.settle()
        assert "It is done." in console.text and "reading …" not in console.text
        assert console.screen.query_one(Input).value.strip() == "orders"
        assert not results
        await console.enter()
        assert results == [True]

    ask(steps, None, undoable=True)


@pytest.mark.parametrize("how", ["enter", "space", "click"])
def test_what_was_on_its_way_before_the_details_were_drawn_does_not_count(how: str) -> None:
    async def steps(console: ConsoleDriver, dialog: Confirm, results: list[bool | None]) -> None:
        button = console.widget("#confirm-do")
        await console.type("orders")
        if how == "space":
            await console.press("tab")
        key = events.Key(how, "\r" if how == "enter" else " ")
        if how == "click":
            await console.pilot.mouse_down(button)
        dialog.show_details(["It does something else."])
        await console.settle()
        if how == "click":
            event = events.Click(button, 3, 0, 0, 0, 1, False, False, False)
            event._set_forwarded()  # noqa: SLF001 - as Textual passes it on to a widget
            button.post_message(event)
        else:
            console.app.post_message(key)
        await console.settle()
        name = {"enter": "Enter"}.get(how, how)
        assert foot(console) == f"wait a second, then {name}; Esc cancels"
        assert not results
        if how == "click":
            await console.pilot.click("#confirm-do")
            await console.until(lambda: results, "clicked again")
        else:
            await (console.enter() if how == "enter" else console.press("space"))
        assert results == [True]

    ask(steps, ["It is done."], undoable=True)


@pytest.mark.parametrize("how", ["bracketed", "as keys"])
def test_a_pasted_line_end_confirms_nothing(how: str) -> None:
    async def steps(console: ConsoleDriver, _: Confirm, results: list[bool | None]) -> None:
        if how == "bracketed":
            console.app.post_message(events.Paste("orders\n"))
            await console.settle()
        else:
            await console.press_at_once(*"orders", "enter")
            assert foot(console) == "wait a second, then Enter; Esc cancels"
        assert console.screen.query_one(Input).value == "orders"
        assert not results
        await console.enter()
        assert results == [True]

    ask(steps, ["It is done."], undoable=True)


def test_a_line_end_that_follows_a_paste_late_confirms_nothing() -> None:
    """The terminal may pass a paste on in two parts, between which the name was drawn."""

    async def steps(console: ConsoleDriver, _: Confirm, results: list[bool | None]) -> None:
        await console.press_at_once(*"orders")
        last = console.app._last_keys[-1]  # noqa: SLF001 - there is no clock to set
        key = events.Key("enter", "\r")
        key.time = last.time + 0.02
        console.app.post_message(key)
        await console.settle()
        assert not results

    ask(steps, ["It is done."], undoable=True)


async def arrives(console: ConsoleDriver, at: float) -> None:
    """Let Enter come at a time, whatever the time is."""
    key = events.Key("enter", "\r")
    key.time = at
    console.app.post_message(key)
    await console.settle()


def test_a_held_enter_confirms_nothing() -> None:
    async def steps(console: ConsoleDriver, dialog: Confirm, results: list[bool | None]) -> None:
        assert foot(console) == "Enter or space applies; Esc cancels"
        # Not the time now, which may be a second later.
        parts = dialog.query(_SeenLines)
        drawn = max(at for lines in parts for _, at in lines._drawn.values())  # noqa: SLF001
        # The first has opened the dialog.
        for passed in (-0.3, 0.2, 0.8, 0.83, 0.86):
            await arrives(console, drawn + passed)
            assert foot(console) == "wait a second, then Enter; Esc cancels"
        assert not results
        await arrives(console, drawn + 0.9 + typed_keys._REPEAT_S)  # noqa: SLF001
        assert results == [True]

    ask(steps, ["It is done."], None, undoable=True)


def test_enters_in_a_row_before_the_dialog_is_drawn_confirm_nothing() -> None:
    results: list[bool | None] = []

    async def flow(console: ConsoleDriver) -> None:
        dialog = Confirm("Do it", ["It is done."], None, "Do", undoable=True)
        console.app.push_screen(dialog, results.append)
        await console.press_at_once(*["enter"] * 5)
        assert console.screen is dialog and not results
        await console.enter()
        assert results == [True]

    drive_session(made_session(usual()), flow)


@pytest.mark.parametrize("withdrawn", [False, True])
def test_a_dialog_that_reads_goes_on_after_another_screen_has_covered_it(withdrawn: bool) -> None:
    async def steps(console: ConsoleDriver, dialog: Confirm, results: list[bool | None]) -> None:
        await console.type("orders")
        await console.pilot.resize_terminal(40, 10)
        await console.settle()
        assert "too small" in console.text
        if withdrawn:
            dialog.withdraw()
        else:
            dialog.show_details(["It is done."])
        late = events.Key("enter", "\r")
        await console.settle()
        assert not results
        await console.pilot.resize_terminal(80, 24)
        await console.settle()
        if withdrawn:
            assert results == [False] and console.screen is not dialog
            return
        assert "It is done." in console.text and "reading" not in console.text
        console.app.post_message(late)
        await console.settle()
        assert not results
        await console.enter()
        assert results == [True]

    ask(steps, None, undoable=True)


def test_a_name_without_room_in_the_prompt_is_shown_whole() -> None:
    name = "".join(f"pipeline-{number:02}-" for number in range(12))

    async def steps(console: ConsoleDriver, _: Confirm, results: list[bool | None]) -> None:
        parts = console.screen.query_one("#confirm-lines", TextLines).text.splitlines()
        assert "".join(parts[:-1]) == f"Type {name}" and "… to do" in console.text
        assert all(part in console.text for part in parts)
        await console.type(name)
        await console.enter()
        assert results == [True]

    ask(steps, ["It is done."], name, undoable=True)


@pytest.mark.parametrize("size", [(80, 24), (60, 16)])
def test_what_is_hasty_is_said_in_the_room_that_there_is(size: tuple[int, int]) -> None:
    async def flow(console: ConsoleDriver) -> None:
        console.app.push_screen(Confirm("Do it", ["Done."], "orders", "Do", undoable=True))
        await console.settle()
        foot(console)
        await console.press_at_once(*"orders", "enter")
        assert typed_keys._BURST_S < typed_keys._REPEAT_S  # noqa: SLF001
        assert foot(console).startswith("wait a second, then Enter")

    drive_session(made_session(usual()), flow, size)
