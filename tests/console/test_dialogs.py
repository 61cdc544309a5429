"""Dialogs with more text than there is room for: it scrolls, and the buttons stay on the screen."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from k2ktui.console.leaving import LeaveDialog
from k2ktui.console.session import LeaveChoice
from k2ktui.console.widgets import start_dialog
from k2ktui.console.widgets.confirm import Confirm
from k2ktui.console.widgets.dialog import Dialog
from k2ktui.console.widgets.start_dialog import StartDialog
from k2ktui.replication.preflight.checks import Check, CheckOutcome
from tests.support.console.driver import ConsoleDriver, drive
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
