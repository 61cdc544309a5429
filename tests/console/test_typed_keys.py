"""Keys that arrive together, or once too often, do what was meant, and nothing else."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from textual.screen import ModalScreen

from k2ktui.console.screens.groups import GroupScreen
from k2ktui.console.screens.replication import ReplicationScreen
from k2ktui.console.session import DemoStep, LeaveChoice, Session
from k2ktui.console.widgets import start_dialog, typed_keys
from k2ktui.console.widgets.dialog import Dialog
from k2ktui.errors import Refused
from k2ktui.jobs import manager
from k2ktui.replication.preflight.checks import Check, CheckOutcome
from k2ktui.watch.model import PipelinePair
from tests.support.clusters.kafka import TIMEOUT
from tests.support.console.driver import (
    ConsoleDriver,
    drive,
    drive_session,
    file_session,
    made_session,
)
from tests.support.console.views import usual
from tests.support.jobs.jobs import write_pipeline

PRODUCTION = PipelinePair("queue-1", "production")
END = LeaveChoice("e", "End", "The clusters are stopped.", 0)


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Exports would be written here."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


async def listed(console: ConsoleDriver) -> None:
    """Wait until the palette lists something."""
    commands = console.widget("CommandList")
    await console.until(lambda: commands.option_count, "a list")  # type: ignore[attr-defined]


@pytest.mark.parametrize("opener", ["ctrl+p", "t"])
def test_a_second_enter_in_a_palette_does_nothing(opener: str) -> None:
    async def flow(console: ConsoleDriver) -> None:
        await console.press(opener)
        await listed(console)
        await console.press_at_once("down", "enter", "enter")
        assert not isinstance(console.screen, ModalScreen)
        assert console.app.is_running

    drive(flow)


def test_a_palette_runs_a_command_once() -> None:
    async def flow(console: ConsoleDriver) -> None:
        await console.press("ctrl+p", *"pause")
        await listed(console)
        await console.press_at_once("enter", "enter")
        await console.sees("paused")

    drive(flow)


def test_a_palette_runs_what_was_typed_and_not_what_it_listed_before() -> None:
    async def flow(console: ConsoleDriver) -> None:
        for name in ("replication", "journal", "groups"):
            await console.press_at_once("ctrl+p", *name, "enter", "enter")
            assert console.app.current_mode == name

    drive(flow)


@pytest.mark.parametrize("opener", ["ctrl+p", "t"])
def test_a_double_click_in_a_palette_does_nothing_more(opener: str) -> None:
    async def flow(console: ConsoleDriver) -> None:
        await console.press(opener)
        await listed(console)
        await console.pilot.double_click("CommandList", offset=(5, 3))
        await console.settle()
        assert not isinstance(console.screen, ModalScreen)
        assert console.app.is_running

    drive(flow)


@pytest.mark.parametrize(
    "keys",
    [
        ("q", "2"),
        ("q", "q"),
        ("2", "q", "3", "q", "4"),
        ("question_mark", "escape", "escape"),
        ("u", "escape", "escape"),
    ],
)
def test_keys_that_arrive_together_end_nothing_in_error(keys: tuple[str, ...]) -> None:
    async def flow(console: ConsoleDriver) -> None:
        await console.press_at_once(*keys)

    drive(flow, usual(PRODUCTION))


def test_a_key_acts_on_what_the_one_before_it_has_opened() -> None:
    async def flow(console: ConsoleDriver) -> None:
        await console.press_at_once("down", "enter", "q", "down", "enter")
        assert isinstance(console.screen, GroupScreen)
        await console.press_at_once("q", "2", "down", "down")
        assert isinstance(console.screen, ReplicationScreen)
        assert console.screen.grid().cursor == 2

    drive(flow)


def test_a_name_that_arrives_with_its_key_reaches_the_dialog(directory: Path) -> None:
    async def flow(console: ConsoleDriver) -> None:
        await console.press_at_once("u", *"queue-1", "tab", "space")
        assert not console.app.session.unlocked, "what it does was not drawn yet"
        await console.press("space")
        assert console.app.session.unlocked
        assert console.app.current_mode == "overview"

    drive(flow, usual(PRODUCTION), leave_choices=(END,))
    assert not list(directory.iterdir())


def test_a_name_that_is_typed_after_a_refusal_is_no_command(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(typed_keys, "_IGNORED_S", TIMEOUT)  # a busy machine types slowly

    async def flow(console: ConsoleDriver) -> None:
        await console.press("5")
        await console.press_at_once("J", *"queue-1", "tab", "space")
        assert "READ-ONLY" in console.text
        assert console.app.current_mode == "jobs"
        assert not isinstance(console.screen, ModalScreen)
        assert "Nothing was changed. The name that you type is ignored" in console.notices
        await console.press("2")
        assert console.app.current_mode == "jobs"
        await console.press("down", "2")  # whoever moves the cursor types no name
        assert console.app.current_mode == "replication"

    drive(flow, usual(PRODUCTION), leave_choices=(END,))
    assert not list(directory.iterdir())


def test_a_single_letter_after_a_refusal_is_a_command(directory: Path) -> None:
    """The message about the refusal may say which: "n plans again"."""

    async def flow(console: ConsoleDriver) -> None:
        await console.press("5")
        await console.press_at_once("J", "3")
        await console.until(lambda: console.app.current_mode == "groups", "the letter counts")
        assert "is ignored" not in console.notices

    drive(flow, usual(PRODUCTION))
    assert not list(directory.iterdir())


def test_a_wrong_name_tab_and_space_do_not_cancel() -> None:
    async def flow(console: ConsoleDriver) -> None:
        await console.press("u", *"queue", "tab", "space", "tab", "enter")
        assert "this is not the name" in console.text
        assert console.app.focused is console.widget("#confirm-name")
        await console.press("backspace", *"-1", "tab", "space")
        assert console.app.session.unlocked
        assert "Changes are allowed" in console.notices

    drive(flow, usual(PRODUCTION))


@pytest.mark.parametrize("how", ["escape", "click"])
def test_a_canceled_change_says_that_nothing_was_changed(how: str) -> None:
    async def flow(console: ConsoleDriver) -> None:
        await console.press("u", *"queue-1")
        if how == "click":
            await console.pilot.click("#confirm-cancel")
            await console.settle()
        else:
            await console.press("escape")
        assert "Nothing was changed" in console.notices
        assert not console.app.session.unlocked

    drive(flow, usual(PRODUCTION))


class Demo:
    """A demo that answers when it is told to."""

    def __init__(self) -> None:
        self.asked, self.may_answer = threading.Event(), threading.Event()
        self.done: list[str] = []

    def session(self) -> Session:
        """Return a session with its steps."""
        session = made_session(usual())
        session.demo_steps = self._steps()
        return session

    def _steps(self) -> tuple[DemoStep, ...]:
        return (
            DemoStep("show", "show what runs", "", self._show),
            DemoStep("one", "do the first", "It is first.", lambda: self._do("one")),
            DemoStep("two", "do the second", "It is second.", lambda: self._do("two")),
            DemoStep(
                "kill", "kill it", "It is gone.", lambda: self._do("kill"), is_destructive=True
            ),
        )

    def _show(self) -> str:
        self.asked.set()
        self.may_answer.wait(TIMEOUT)
        return "All runs."

    def _do(self, what: str) -> str:
        self.done.append(what)
        return f"done: {what}"


@pytest.fixture
def demo() -> Iterator[Demo]:
    made = Demo()
    yield made
    made.may_answer.set()


def test_keys_wait_for_the_choices_of_the_demo(demo: Demo) -> None:
    async def flow(console: ConsoleDriver) -> None:
        await console.press("8")
        console.post("C", "down", "enter")
        await console.until(demo.asked.is_set, "the choices are asked for")
        assert console.app.has_typed_keys
        demo.may_answer.set()
        await console.sees("done: two")
        assert demo.done == ["two"]

    drive_session(demo.session(), flow)


def test_the_demo_kills_nothing_without_the_name(demo: Demo) -> None:
    async def flow(console: ConsoleDriver) -> None:
        demo.may_answer.set()
        await console.press("8")
        await console.press_at_once("C", "G", "enter", "enter", "space")
        assert not demo.done
        assert "type orders to kill" in console.text
        await console.press("escape")
        assert "Nothing was changed" in console.notices
        await console.press_at_once("C", "G", "enter", *"orders", "tab")
        await console.press("space")
        await console.sees("done: kill")

    drive_session(demo.session(), flow)


def test_escape_cancels_what_is_still_prepared(demo: Demo, directory: Path) -> None:
    async def flow(console: ConsoleDriver) -> None:
        await console.press("8")
        console.post("C", "e", "p", "q", "escape")
        await console.sees("Canceled: nothing was changed.")
        demo.may_answer.set()
        await console.settle()
        assert not isinstance(console.screen, ModalScreen)
        assert "paused" not in console.text

    drive_session(demo.session(), flow)
    assert not list(directory.iterdir())


def test_every_dialog_gives_its_first_result_only() -> None:
    import k2ktui.console.app  # noqa: F401 - it imports all of them

    ours = [kind for kind in _kinds(ModalScreen) if kind.__module__.startswith("k2ktui.")]
    assert len(ours) > 8
    assert [kind for kind in ours if not issubclass(kind, Dialog)] == []


def _kinds(kind: type) -> set[type]:
    return {kind}.union(*map(_kinds, kind.__subclasses__()))


@pytest.mark.parametrize("fails", [False, True])
def test_a_name_may_be_typed_while_the_checks_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fails: bool
) -> None:
    """What confirms it must come after their results were drawn."""
    may_end, started = threading.Event(), threading.Event()

    def checks(*_: object, **__: object) -> Iterator[Check]:
        may_end.wait(TIMEOUT)
        yield Check("topics", CheckOutcome.FAIL if fails else CheckOutcome.PASS, "as they are", "")

    def start(*_: object, **__: object) -> None:
        started.set()
        raise Refused("enough")

    monkeypatch.setattr(start_dialog, "start_checks", checks)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(manager, "start_job", start)
    file = write_pipeline(tmp_path / "pipeline.yaml", 1)

    async def flow(console: ConsoleDriver) -> None:
        await console.sees("no run is alive")
        # All of them, before the checks end: an Enter behind that would be answered as a hasty one.
        await console.press_at_once("J", *"orders", "tab", "space", "enter")
        await console.sees("checking", "the checks still run")
        assert "orders" in console.widget("#confirm-name").value  # type: ignore[attr-defined]
        assert not started.is_set()
        may_end.set()
        await console.sees("Failed checks that do not" if fails else "then Enter, or Tab and space")
        await console.press("down")
        assert not started.is_set()
        await (console.press("tab", "space") if fails else console.enter())
        await console.until(started.is_set, "started")

    try:
        drive_session(file_session(file), flow, screen="5")
    finally:
        may_end.set()


def test_escape_closes_a_dialog_whose_checks_still_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    may_end = threading.Event()

    def checks(*_: object, **__: object) -> Iterator[Check]:
        may_end.wait(TIMEOUT)
        yield from ()

    monkeypatch.setattr(start_dialog, "start_checks", checks)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    file = write_pipeline(tmp_path / "pipeline.yaml", 1)

    async def flow(console: ConsoleDriver) -> None:
        await console.sees("no run is alive")
        console.post("J", *"orders", "tab", "space", "escape")
        await console.sees("Nothing was started.")
        may_end.set()
        assert not isinstance(console.screen, ModalScreen)

    try:
        drive_session(file_session(file), flow, screen="5")
    finally:
        may_end.set()
