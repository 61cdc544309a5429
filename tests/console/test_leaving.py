"""``q`` goes back along the open screens, and asks before it ends anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from k2ktui.console.app import ConsoleApp
from k2ktui.console.screens.groups import GroupScreen
from k2ktui.console.screens.partition import PartitionScreen
from k2ktui.console.session import LeaveChoice
from k2ktui.watch.recording import Recorder
from tests.support.console.driver import ConsoleDriver, drive
from tests.support.console.views import usual

END = LeaveChoice("e", "End", "The clusters are stopped.", 0)
DETACH = LeaveChoice("d", "Detach", "The demo keeps running.", 1)


def test_q_goes_back_along_the_path_that_enter_took() -> None:
    async def flow(console: ConsoleDriver) -> None:
        assert "\u203a" not in console.text
        await console.press("enter")
        assert isinstance(console.app.screen, GroupScreen)
        assert console.line("\u203a").strip() == "Overview \u203a billing"
        await console.press("enter")
        assert isinstance(console.app.screen, PartitionScreen)
        assert console.line("\u203a").strip() == "Overview \u203a billing \u203a payments-0"
        await console.press("q")
        assert console.line("\u203a").strip() == "Overview \u203a billing"
        await console.press("q")
        assert "\u203a" not in console.text
        assert "1,200 records" in console.text

    drive(flow)


def test_q_returns_to_the_screen_of_a_problem() -> None:
    made = usual()
    made.running = False

    async def flow(console: ConsoleDriver) -> None:
        while "no job is running" not in str(console.app.screen.query_one("#problems").current):  # type: ignore[attr-defined]
            await console.press("down")
        await console.press("enter")
        assert console.line("\u203a").strip() == "Overview \u203a Jobs"
        await console.press("q")
        assert "1,200 records" in console.text
        await console.press("enter", "2")  # a digit begins a new path
        assert "\u203a" not in console.text
        await console.press("q")
        assert not console.app.is_running

    drive(flow, made)


def test_the_demo_asks_how_to_leave_it() -> None:
    async def flow(console: ConsoleDriver) -> None:
        await console.press("q")
        assert "Leave orders?" in console.text
        assert "Detach: The demo keeps running." in console.text
        await console.press("q")  # once too often
        assert "Leave orders?" not in console.text
        await console.press("q", "enter")  # the focus is on Stay
        assert console.app.is_running
        await console.press("q", "d")
        assert not console.app.is_running
        assert console.app.return_value == DETACH.result

    drive(flow, leave_choices=(END, DETACH))


@pytest.mark.parametrize(("keys", "result"), [(("e",), 0), (("left", "enter"), 1)])
def test_a_choice_is_made_by_letter_or_by_button(keys: tuple[str, ...], result: int) -> None:
    async def flow(console: ConsoleDriver) -> None:
        await console.press("q", *keys)
        assert not console.app.is_running
        assert console.app.return_value == result

    drive(flow, leave_choices=(END, DETACH))


def test_it_asks_while_a_recording_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # the dialog wraps the path
    recorder = Recorder(Path("today.k2k"))

    async def flow(console: ConsoleDriver) -> None:
        assert "REC" in console.text.splitlines()[0]
        await console.press("q")
        assert "recording" in console.text and "today.k2k ends" in " ".join(console.text.split())
        await console.press("l")
        assert not console.app.is_running

    drive(flow, recorder=recorder)
    recorder.close()


def test_it_asks_while_a_job_that_was_started_here_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    def work(app: ConsoleApp) -> list[str]:
        return ["The job orders, pid 7, was started here. It keeps running."]

    monkeypatch.setattr(ConsoleApp, "describe_session_work", work)

    async def flow(console: ConsoleDriver) -> None:
        await console.press("q")
        assert "The job orders, pid 7, was started here" in console.text
        await console.press("s")
        assert console.app.is_running
        await console.press("ctrl+q")
        assert not console.app.is_running

    drive(flow)


def test_nothing_else_is_asked() -> None:
    async def flow(console: ConsoleDriver) -> None:
        await console.press("2", "q")
        assert not console.app.is_running

    options: dict[str, Any] = {}
    drive(flow, **options)
