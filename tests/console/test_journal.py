"""The journal's screens without clusters: what became of entries, what is refused."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from k2ktui.config.model import PipelineConfig
from k2ktui.console.screens.journal import EntryScreen
from k2ktui.console.session import Session
from k2ktui.engine.moves.journal import JournalHeader, JournalRow, JournalRows
from k2ktui.errors import Refused, TimedOut
from k2ktui.sync import operations
from k2ktui.sync.flow import Flow
from k2ktui.sync.operations import JournalEntry
from tests.support.console.driver import ConsoleDriver, drive_session, made_session
from tests.support.console.pictures import ONE, SIZES, compare_screen, each_screen
from tests.support.console.views import NOON, Made, usual

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


def found(config: object, entry: str) -> JournalEntry:
    """The rows of an entry, as the target has them."""
    (own,) = [header for header in (FIRST, CUT, PARTLY, UNDO) if header.id == entry]
    refused = "refused: the group has got a member"
    billing = (
        JournalRow("payments", 0, 39_895, "", 40_002, "", "applied"),
        JournalRow("payments", 1, 39_990, "", 40_002, "", "applied"),
    )
    archive = (JournalRow("a-topic-with-a-long-name", 11, None, "", 120, "", refused),)
    return JournalEntry(
        own, (JournalRows("x", "archive", archive), JournalRows("x", "billing", billing))
    )


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations, "read_entry", found)


def session(*headers: JournalHeader, **options: Any) -> Session:
    made = Made(journal=sorted(headers, key=lambda header: header.id, reverse=True))
    return made_session(made, **options)


@pytest.mark.usefixtures("rows")
@pytest.mark.parametrize("size", [(110, 30), (120, 35)])
def test_nothing_is_cut_for_a_column_without_values(size: tuple[int, int]) -> None:
    """At 110 columns "offsets set" was cut beside an empty column of plans."""
    mixed = header(5, {"begun": 20, "applied": 10})

    async def steps(console: ConsoleDriver) -> None:
        await console.until(lambda: "entries: 2" in console.text, "shown")
        assert " plan" not in console.panel("Journal")
        assert "offsets set" in console.panel("Journal")
        if size[0] < 120:
            assert "20 begun, 10 applied" in console.panel("Journal")

    drive_session(session(header(1, {"applied": 3}, "offsets set"), mixed), steps, size, screen="7")


@pytest.mark.usefixtures("rows")
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
        await console.sees(f"Entry {FIRST.id}", "39,895 → 40,002")
        entry = " ".join(console.panel(f"Entry {FIRST.id}").split())
        assert "Who ann from bastion1" in entry
        assert f"undone 2026-11-21 12:00:04 UTC by ann@bastion1, entry {UNDO.id}" in entry
        # What was not written comes first.
        assert entry.index("refused") < entry.index("payments-0")
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
    assert [entry["id"] for entry in reported] == [PARTLY.id, FIRST.id]
    assert len(list(csv.reader(table.open()))) == 3


def test_an_entry_about_positions_is_not_undone_as_one_about_groups() -> None:
    row = JournalRow("orders", 0, 5, "{}", 9, "{}", "forward")
    entry = JournalEntry(
        header(1, {"forward": 1}, "offsets set"), (JournalRows("x", "orders", (row,)),)
    )
    with pytest.raises(Refused, match="source positions"):
        entry.reversal()
    assert entry.lines == [("orders", row)]


def test_offsets_that_cannot_be_read_are_said_to_be_so(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def read(config: object, entry: str) -> JournalEntry:
        calls.append(entry)
        raise TimedOut("dst:9092 does not answer", hint="Look at the target.")

    monkeypatch.setattr(operations, "read_entry", read)

    async def steps(console: ConsoleDriver) -> None:
        await console.press("7")
        await console.sees("dst:9092 does not answer")
        for _ in range(3):
            await console.show()
        assert calls == [FIRST.id]

    drive_session(session(FIRST), steps, (120, 35), awaits_workers=True)


@pytest.mark.usefixtures("rows")
@each_screen(("journal", "entry", "journal-none"))
def test_screens_look_as_they_did(screen: str) -> None:
    made = usual()
    made.journal = [] if screen == "journal-none" else [UNDO, PARTLY, CUT, FIRST]

    async def opens(console: ConsoleDriver) -> None:
        await console.press("7", "j", *(("enter",) if screen == "entry" else ()))
        await console.pilot.pause(0.3)
        await console.settle()

    flow = Flow(PipelineConfig.model_construct(name="orders"))
    sizes = ONE if screen == "journal-none" else SIZES
    themes = ("k2k-light", "k2k-mono") if screen == "journal" else ()
    files = ("orders.yaml",)
    compare_screen(opens, made, screen, sizes=sizes, themes=themes, files=files, flow=flow)
