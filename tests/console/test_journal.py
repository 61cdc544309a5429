"""The journal's screens without clusters: what became of entries, what is refused."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from k2ktui.console.screens.journal import EntryScreen
from k2ktui.console.session import Session
from k2ktui.engine.journal import JournalHeader, JournalRow, JournalRows
from k2ktui.errors import Refused
from k2ktui.sync.operations import JournalEntry
from tests.support.console import ConsoleDriver, drive_session, made_session
from tests.support.views import NOON, Made

AT = int(NOON * 1000)


def header(
    number: int, counts: dict[str, int], what: str = "apply", plan: str = "", undoes: str = ""
) -> JournalHeader:
    made, at = f"20261121-1200{number:02}-aaaa", AT + number * 1000
    return JournalHeader(made, at, "ann@bastion1", what, plan, "orders", counts, undoes)


FIRST = header(1, {"applied": 3})
CUT = header(2, {"begun": 2})
PARTLY = header(3, {"applied": 1, "refused": 1}, plan="3f2a")
UNDO = header(4, {"applied": 3}, "undo", undoes=FIRST.id)


def session(*headers: JournalHeader, **options: Any) -> Session:
    made = Made(journal=sorted(headers, key=lambda each: each.id, reverse=True))
    return made_session(made, **options)


def test_entries_say_what_became_of_them() -> None:
    async def steps(console: ConsoleDriver) -> None:
        await console.press("7")
        await console.until(lambda: "entries: 4" in console.text, "shown")
        lines = [line for line in console.text.splitlines() if "2026-11-21 12:0" in line]
        states = ("done", "partly", "not ended", "undone")
        for line, word in zip(lines[:4], states, strict=True):
            assert word in line
            assert "ann@bastion1" in line
        await console.press("G")
        assert f"undone 2026-11-21 12:00:04 UTC by ann@bastion1, entry {UNDO.id}" in console.text
        # There is nothing left of it to undo.
        await console.press("U")
        await console.settle()
        assert "has undone it completely" in console.notices
        await console.press("up", "z")  # letters behind a refusal are taken for a name
        assert "2 of 4" in console.text

    drive_session(session(FIRST, CUT, PARTLY, UNDO), steps, (120, 30))


@pytest.mark.parametrize(
    ("settings", "why"),
    [({"read_only": True}, "started with --read-only"), ({"config": False}, "recording")],
)
def test_nothing_is_undone_where_nothing_may_change(settings: dict[str, Any], why: str) -> None:
    async def steps(console: ConsoleDriver) -> None:
        await console.press("7")
        await console.until(lambda: "entries: 1" in console.text, "shown")
        await console.press("U")
        await console.settle()
        assert why in console.notices

    drive_session(session(FIRST, **settings), steps)


def test_a_recording_has_no_rows_and_reports_it() -> None:
    async def steps(console: ConsoleDriver) -> None:
        await console.press("7", "enter")
        await console.until(lambda: isinstance(console.screen, EntryScreen), "opened")
        assert "this is a recording" in console.text

    drive_session(session(FIRST, config=False), steps)


def test_the_journal_is_exported_as_the_command_prints_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    async def steps(console: ConsoleDriver) -> None:
        await console.press("7", "e", "enter")
        await console.until(lambda: "written" in console.notices, "exported")

    drive_session(session(FIRST, PARTLY), steps)
    (document,) = tmp_path.glob("*.json")
    (table,) = tmp_path.glob("*.csv")
    reported = json.loads(document.read_text())["journal"]
    assert [each["id"] for each in reported] == [PARTLY.id, FIRST.id]
    assert len(list(csv.reader(table.open()))) == 3


def test_an_entry_about_positions_is_not_undone_as_one_about_groups() -> None:
    row = JournalRow("orders", 0, 5, "{}", 9, "{}", "forward")
    entry = JournalEntry(
        header(1, {"forward": 1}, "offsets set"), (JournalRows("x", "orders", (row,)),)
    )
    with pytest.raises(Refused, match="source positions"):
        entry.reversal()
    assert entry.lines == [("orders", row)]
