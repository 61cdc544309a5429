"""A terminal with no room for the screens shows that; what was on them waits."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.geometry import Size
from textual.widgets import Input

from k2ktui.console.session import LeaveChoice
from k2ktui.console.widgets.text_lines import TextLines
from k2ktui.watch.model import PipelinePair
from tests.support.console.driver import ConsoleDriver, drive
from tests.support.console.views import usual


def said(console: ConsoleDriver) -> str:
    """What is on the screen, wherever lines are broken."""
    return " ".join(console.text.split())


SMALL = [(59, 24), (80, 15), (20, 6)]


@pytest.mark.parametrize("size", SMALL)
def test_what_is_not_seen_takes_no_keys(size: tuple[int, int]) -> None:
    async def flow(console: ConsoleDriver) -> None:
        await console.press("u", "o")
        await console.pilot.resize_terminal(*size)
        await console.settle()
        assert "too small: {} by {}. Enlarge it to at least 60 by 16".format(*size) in said(console)
        await console.press(*"rders", "tab", "space", "escape", "q", "2")
        await console.show()
        assert not console.app.session.unlocked
        await console.pilot.resize_terminal(60, 16)
        await console.settle()
        assert "too small" not in console.text
        assert console.app.screen.query_one(Input).value == "o"
        await console.press(*"rders", "tab", "space")
        assert console.app.session.unlocked
        assert "orders" in console.text

    drive(flow, usual(PipelinePair("orders", "production")))


def test_a_screen_that_was_laid_out_for_another_size_is_laid_out_again() -> None:
    async def flow(console: ConsoleDriver) -> None:
        # Textual has no public way to lay a screen out for a size that the terminal does not have.
        console.app.screen._screen_resized(Size(80, 20))  # noqa: SLF001
        # Not awaited: the console itself looks at the size each second.
        assert console.app.screen.outer_size != console.app.size
        console.app.fit()
        await console.settle()
        assert console.app.screen.outer_size == console.app.size

    drive(flow)


def test_it_may_be_small_from_the_beginning() -> None:
    async def flow(console: ConsoleDriver) -> None:
        assert "too small: 40 by 10" in console.text
        await console.pilot.resize_terminal(50, 12)
        await console.settle()
        assert "too small: 50 by 12" in console.text
        await console.pilot.resize_terminal(80, 24)
        await console.settle()
        assert "1,200 records" in console.panel("Lag")
        await console.press("2")
        assert "clicks-0" in console.text

    drive(flow, size=(40, 10))


def test_it_can_be_left_nevertheless() -> None:
    async def flow(console: ConsoleDriver) -> None:
        await console.press("ctrl+q")
        assert not console.app.is_running

    drive(flow, size=(40, 10))


@pytest.mark.parametrize(
    ("key", "texts"),
    [
        ("u", "#confirm-lines"),
        ("question_mark", "#help-lines"),
        ("e", "#ask-text"),
        ("q", "#leave-lines"),
    ],
)
def test_a_dialog_is_wrapped_again_for_a_new_size(
    key: str, texts: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    choice = LeaveChoice("d", "Detach", "The demo keeps running, and its clusters with it. " * 2, 1)
    shown: list[str] = []

    async def opened(console: ConsoleDriver) -> None:
        await console.press(key)
        await console.pilot.resize_terminal(60, 20)
        await console.settle()
        lines = console.widget(texts)
        assert isinstance(lines, TextLines)
        shown.append(lines.text)
        await console.press("escape")

    made = usual(PipelinePair("orders", "production"))
    for size in ((60, 20), (120, 40)):
        drive(opened, made, size=size, leave_choices=(choice,))
    assert shown[0] == shown[1] and shown[0]
