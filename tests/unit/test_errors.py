"""The three parts of an error where it is shown: what happened, what was not changed, the fix."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path

from k2ktui.cli.check import check_text
from k2ktui.console.screens.operation import OperationScreen
from k2ktui.engine.records.state import SourcePartition
from k2ktui.errors import Refused
from k2ktui.jobs.joblog import LogEntry, parse_entry
from k2ktui.replication.copying.slot_task import Fault, FaultKind
from k2ktui.replication.preflight.checks import Check
from k2ktui.replication.reports.events import Stopped, report_text
from tests.support.commands.cli import k2ktui
from tests.support.console.driver import ConsoleDriver, drive

PACKAGE = Path(__file__).parents[2] / "k2ktui"
ERROR = Refused("orders-0 has no leader", unchanged="Nothing was written.", hint="Start a broker.")
SHOWN = ["orders-0 has no leader", "Nothing was written.", "Fix: Start a broker."]


def test_an_error_has_three_parts() -> None:
    assert str(ERROR).splitlines() == SHOWN
    assert str(Refused("orders-0 has no leader")) == SHOWN[0]


def test_a_command_prints_the_fix_last() -> None:
    lines = k2ktui("jobs", "log", "-f", "absent.yaml", code=2).stderr.splitlines()
    assert lines[0].startswith("k2ktui: ")
    assert lines[-1].startswith("  Fix: ")
    assert sum("Fix:" in line for line in lines) == 1


def test_a_check_and_a_stopped_partition_have_a_fix() -> None:
    assert check_text(Check.error("leaders", ERROR)).splitlines()[-1] == f"      {SHOWN[2]}"
    source = SourcePartition("orders", 0)
    fault = Fault(source, FaultKind.UNAVAILABLE, ERROR.message, ERROR.hint)
    assert report_text(Stopped(fault)).splitlines()[-1] == f"  {SHOWN[2]}"


def test_the_log_of_a_job_shows_the_fix() -> None:
    event = {"event": "error", "at": 1, "message": SHOWN[0], "unchanged": SHOWN[1]}
    assert _entry({**event, "hint": ERROR.hint}).text.splitlines() == [
        f"ERROR {SHOWN[0]}",
        f"  {SHOWN[1]}",
        f"  {SHOWN[2]}",
    ]
    check = {"event": "check", "name": "leaders", "outcome": "fail", "detail": SHOWN[0]}
    assert _entry({**check, "hint": ERROR.hint}).text.splitlines()[1] == f"  {SHOWN[2]}"
    assert "Fix" not in _entry({**check, "hint": ""}).text


def _entry(event: dict[str, object]) -> LogEntry:
    return parse_entry(json.dumps(event).encode())


def test_a_screen_shows_the_fix() -> None:
    async def steps(console: ConsoleDriver) -> None:
        await console.press("7")
        screen = console.screen
        assert isinstance(screen, OperationScreen)
        screen.error = ERROR
        screen.show_state()
        await console.settle()
        for part in SHOWN:
            assert part in console.text

    drive(steps)


def _literal_hints() -> Iterator[tuple[str, str]]:
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.keyword) and node.arg == "hint":
                for part in ast.walk(node.value):
                    if isinstance(part, ast.Constant) and isinstance(part.value, str):
                        yield f"{path.relative_to(PACKAGE)}:{part.lineno}", part.value


def test_hints_leave_the_prefix_to_where_they_are_shown() -> None:
    hints = list(_literal_hints())
    assert len(hints) > 100
    assert [hint for hint in hints if hint[1].startswith(("Fix", "To fix", "Please"))] == []
