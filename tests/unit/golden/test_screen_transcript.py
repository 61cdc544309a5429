"""What each screen shows is what the transcript has (``tests/support/console/transcript.py``)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from textwrap import wrap

import pytest
from textual.screen import Screen

import k2ktui.console
from k2ktui.console.keys import GLOBAL, REPLAY
from k2ktui.console.screens.base import ConsoleScreen, ListScreen
from k2ktui.console.screens.change import ChangeScreen
from k2ktui.console.screens.drill_base import DrillBaseScreen
from k2ktui.console.screens.drill_checklist import DrillChecklist
from k2ktui.console.screens.drill_frame import DrillFrame
from k2ktui.console.screens.drill_runs import DrillRunsScreen
from k2ktui.console.screens.groups import _GroupTable
from k2ktui.console.screens.operation import OperationScreen
from k2ktui.console.screens.row import RowsScreen
from k2ktui.console.widgets.dialog import Dialog
from tests.support.commands.transcript import compare_kept
from tests.support.console.transcript import SCREENS, compare_screens
from tests.unit.golden.scenes import SCENES

HELP = "help-and-keys"

# Only their subclasses are shown.
BASES = {
    ConsoleScreen,
    ListScreen,
    RowsScreen,
    OperationScreen,
    ChangeScreen,
    DrillBaseScreen,
    DrillChecklist,
    DrillFrame,
    DrillRunsScreen,
    _GroupTable,
    Dialog,
}


# What has few texts that other walks do not have.
LONG = {
    *(
        "audit",
        "comparison",
        "jobs",
        "site-drill",
        "drill-run",
        "drill-states",
        "event-log",
        "fleet",
        "jobs-states",
    ),
    *("mirrormaker", "narrow", "parity", "read-only", "recording", "records", "reset"),
    *("site-drill-new", "site-drill-refused", "translate", "unread"),
}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * (name in LONG)) for name in SCENES],
)
def test_screens_show_what_they_showed(name: str, tmp_path: Path) -> None:
    compare_screens(name, SCENES[name], tmp_path)


def test_each_file_is_of_a_walk() -> None:
    """A file of a walk that is gone, or renamed, would prove nothing."""
    assert {path.stem for path in SCREENS.glob("*.txt")} == {*SCENES, HELP}


def screen_classes() -> Iterator[type[Screen[object]]]:
    """Yield each class of a screen or dialog in the package."""
    for module in walk_packages(k2ktui.console.__path__, "k2ktui.console."):
        for value in vars(import_module(module.name)).values():
            own = isinstance(value, type) and value.__module__ == module.name
            if own and issubclass(value, Screen):
                yield value


def test_help_and_keys_are_what_they_were() -> None:
    """Of each class: its help, and its own keys with their ids; a walk may not show all."""
    lines: list[str] = []
    for kind in screen_classes():
        lines += ["", f"##### {kind.__module__.removeprefix('k2ktui.console.')}.{kind.__name__}"]
        for paragraph in (getattr(kind, "HELP", None) or "").strip().split("\n\n"):
            lines += wrap(" ".join(paragraph.split()), 110)
        lines += [f"changes: {name}" for name in sorted(getattr(kind, "CHANGES", ()))]
        for binding in vars(kind).get("BINDINGS", ()):
            hidden = "" if binding.show else "  (hidden)"
            lines.append(f"key {binding.key}: {binding.description}  {binding.id or ''}{hidden}")
    lines += ["", "##### every screen", *(f"key {b.key}: {b.description}  {b.id}" for b in GLOBAL)]
    lines += ["", "##### a recording", *(f"key {b.key}: {b.description}  {b.id}" for b in REPLAY)]
    compare_kept(SCREENS / f"{HELP}.txt", "\n".join(lines) + "\n")


def test_each_screen_and_dialog_is_in_the_transcript() -> None:
    text = "\n".join(path.read_text() for path in SCREENS.glob("*.txt"))
    shown = set(re.findall(r"^=== (\w+):", text, re.MULTILINE))
    assert {kind.__name__ for kind in screen_classes()} - {kind.__name__ for kind in BASES} == shown
