"""What the console relies on in Textual without Textual's promise (``console/_textual.py``).

A failure here after an update of Textual says which of its private names moved, and what breaks.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingsMap
from textual.drivers.linux_driver import LinuxDriver
from textual.geometry import Size
from textual.pilot import Pilot
from textual.widget import Widget

from k2ktui.console._textual import QuietApp, add_bindings, replace_binding
from k2ktui.console.widgets.text_lines import TextLines
from tests.support.console.idle import idle_by_its_event_loop


class Pressed(Widget, can_focus=True):
    BINDINGS = [Binding("enter", "app.note('class')", "Open", id="grid.open")]  # noqa: RUF012


class Sample(QuietApp):
    def __init__(self, widget: Widget | None = None) -> None:
        super().__init__()
        self.widget = widget
        self.noted: list[str] = []

    def compose(self) -> ComposeResult:
        if self.widget is not None:
            yield self.widget

    def action_note(self, text: str) -> None:
        self.noted.append(text)

    def action_fail(self) -> None:
        secret = "hunter2"  # noqa: F841 - a local value, as a traceback would print it
        raise RuntimeError("broken")


@asynccontextmanager
async def driven(app: Sample) -> AsyncIterator[Pilot[Any]]:
    """Open an app, with a driver that waits on a busy machine, too."""
    with idle_by_its_event_loop(app):
        async with app.run_test(size=(80, 24)) as pilot:
            yield pilot


def test_the_private_names_are_there() -> None:
    assert callable(App._fatal_error), "an exception would print values of variables, as secrets"
    assert callable(App._close_messages_no_wait), "the app would not end after an exception"
    assert callable(App._display), "what does not change would be sent again, at every refresh"
    app: App[Any] = App()
    assert app._exception is None, "the exception that ended the app would be lost"
    assert isinstance(app._bindings, BindingsMap), "screens would have no keys"
    started = inspect.getsource(LinuxDriver.start_application_mode)
    assert "WriterThread(self._file)" in started, "a hang-up would write a report of a crash"
    assert isinstance(Widget()._layout_updates, int), "lines would be cut at an earlier height"
    assert isinstance(Widget()._bindings, BindingsMap), "tables would not name what Enter does"


def test_an_exception_ends_the_app_with_the_fault_and_prints_nothing(
    capfd: pytest.CaptureFixture[str],
) -> None:
    async def run(app: Sample) -> None:
        async with driven(app) as pilot:
            app.call_later(app.action_fail)
            await pilot.pause()

    app = Sample()
    with pytest.raises(RuntimeError, match="broken"):  # Textual's driver for tests raises it again
        asyncio.run(run(app))
    assert str(app.fault) == "broken"
    said = capfd.readouterr()
    assert "hunter2" not in said.out + said.err, "values of variables reach the terminal"
    assert not app._exit_renderables


def test_an_added_key_works_and_can_be_moved() -> None:
    async def run() -> list[str]:
        app = Sample()
        add_bindings(app, [Binding("x", "note('x')", "X", id="screen.x")])
        async with driven(app) as pilot:
            await pilot.press("x")
            app.set_keymap({"screen.x": "f3"})
            await pilot.press("f3", "x")
        return app.noted

    assert asyncio.run(run()) == ["x", "x"], "the keys of the screens"


def test_a_replaced_key_belongs_to_one_widget() -> None:
    async def run() -> tuple[list[str], str]:
        widget = Pressed()
        replace_binding(widget, Binding("enter", "app.note('own')", "Choose", id="grid.open"))
        app = Sample(widget)
        async with driven(app) as pilot:
            widget.focus()
            await pilot.press("enter")
            return app.noted, widget.screen.active_bindings["enter"].binding.description

    assert asyncio.run(run()) == (["own"], "Choose"), "what Enter does in a table, and its label"
    assert Pressed()._bindings.key_to_bindings["enter"][0].description == "Open"


def test_lines_that_change_again_before_they_are_laid_out_are_all_seen() -> None:
    async def run() -> int:
        lines = TextLines(id="lines")
        app, size = Sample(lines), Size(100, 30)
        async with driven(app) as pilot:
            lines.styles.height = "auto"
            await pilot.pause()
            lines.show([()] * 5)
            # A layout in between, as while a screen opens; there is no public way to ask for it.
            app.screen._screen_resized(size)
            lines.show([()] * 10)
            await pilot.resize_terminal(*size)
            await pilot.pause()
            return lines.size.height

    assert asyncio.run(run()) == 10, "the facts of a run would be cut at the height of earlier ones"
