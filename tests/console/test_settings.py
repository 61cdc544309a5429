"""Settings of the user: remembered between sessions, and never a reason not to open."""

from __future__ import annotations

import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from k2ktui.console import settings
from k2ktui.console.settings import Settings, SettingsFile, TableSettings, settings_path
from k2ktui.console.widgets.grid import Grid
from k2ktui.private_files import user_path
from tests.support.clusters.kafka import TIMEOUT
from tests.support.console.driver import ConsoleDriver, drive


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "console.json"


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine, the last of many writers waits longer than a console would."""
    monkeypatch.setattr(settings, "_WAIT_S", TIMEOUT)


@pytest.mark.usefixtures("patient")
def test_consoles_that_write_at_once_keep_what_each_has_changed(path: Path) -> None:
    names = [f"table-{number}" for number in range(32)]

    def write(name: str) -> None:
        file = SettingsFile(path)
        file.change_table(name, TableSettings("lag"))
        file.write()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, names))
    assert set(SettingsFile(path).settings.tables) == set(names)


def grid(console: ConsoleDriver) -> Grid[Any]:
    return console.screen.query_one(Grid)


def test_theme_window_order_and_columns_are_those_of_the_last_session(path: Path) -> None:
    async def first(console: ConsoleDriver) -> None:
        await console.press("colon", *"theme", "space", *"k2k-light", "enter")
        await console.press("2", "w", "colon", *"sort", "space", *"lag", "enter", "S")
        await console.press("colon", *"columns", "space", *"coverage", "enter")
        assert "columns: hidden: coverage" in console.notices
        assert "coverage" not in console.text.splitlines()[3]

    async def second(console: ConsoleDriver) -> None:
        assert console.app.theme == "k2k-light" and console.app.chart_minutes == 15
        await console.press("2")
        assert grid(console).sort == "lag" and grid(console).reverse
        assert grid(console).left_out == {"coverage"}
        await console.press("colon", *"columns", "enter")
        assert not grid(console).left_out

    drive(first, settings=path, size=(160, 40))
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert os.stat(path.parent).st_mode & 0o777 == 0o700
    drive(second, settings=path, size=(160, 40))


def test_a_flag_wins_and_is_not_remembered(path: Path) -> None:
    SettingsFile(path).change("theme", "x")
    file = SettingsFile(path)
    file.change("theme", "k2k-light")
    file.write()

    async def flow(console: ConsoleDriver) -> None:
        assert console.app.theme == "k2k-contrast"

    drive(flow, settings=path, theme="k2k-contrast")
    assert SettingsFile(path).settings.theme == "k2k-light"


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"{", "is damaged"),
        (b"[]", "is damaged"),
        (b"\xff\xfe", "is damaged"),
        (b"[" * 60_000, "is damaged"),
        (b" " * 70_000, "is too large"),
    ],
)
def test_a_damaged_file_is_one_note_and_the_next_change_replaces_it(
    path: Path, content: bytes, why: str
) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
    file = SettingsFile(path)
    assert why in file.note and file.settings == Settings()
    file.change("minutes", 60)
    file.write()
    again = SettingsFile(path)
    assert (again.note, again.settings.minutes) == ("", 60)


def test_the_note_is_on_the_screen(path: Path) -> None:
    path.parent.mkdir()
    path.write_text("{")

    async def flow(console: ConsoleDriver) -> None:
        assert "is damaged" in console.text and console.app.theme == "k2k-dark"
        await console.press("colon", *"forget", "enter")
        assert "is damaged" not in console.text

    drive(flow, settings=path, size=(160, 40))
    assert not path.exists()


@pytest.mark.parametrize(
    "value",
    [
        {"theme": 5, "minutes": "x", "tables": []},
        {"theme": "a\x1b[31m", "tables": {"partitions": 3}},
        {"minutes": 7, "tables": {"partitions": {"sort": "no such", "hidden": ["no", 3]}}},
        {"theme": "no-such-theme"},
    ],
)
def test_values_that_mean_nothing_are_ignored(path: Path, value: object) -> None:
    path.parent.mkdir()
    path.write_text(json.dumps(value))

    async def flow(console: ConsoleDriver) -> None:
        assert console.app.theme == "k2k-dark" and console.app.chart_minutes == 5
        await console.press("2")
        assert grid(console).sort is None and not grid(console).left_out

    drive(flow, settings=path)


def test_a_home_that_cannot_be_written_is_no_fault(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    async def flow(console: ConsoleDriver) -> None:
        await console.press("2", "s", "S")
        assert console.app.is_running
        said = [event.text for event in console.app.events.events if "settings" in event.text]
        assert len(said) == 1 and said[0].startswith("settings are not remembered: ")

    drive(flow, settings=tmp_path / "file" / "console.json")


def test_two_consoles_at_once_keep_what_both_changed(path: Path) -> None:
    one, other = SettingsFile(path), SettingsFile(path)
    one.change("theme", "nord")
    one.change_table("groups", TableSettings("group"))
    one.write()
    other.change("minutes", 60)
    other.change_table("partitions", TableSettings("lag", True, ("coverage",)))
    other.write()
    kept = SettingsFile(path).settings
    assert (kept.theme, kept.minutes) == ("nord", 60)
    assert kept.tables == {
        "groups": TableSettings("group"),
        "partitions": TableSettings("lag", True, ("coverage",)),
    }


@pytest.mark.usefixtures("patient")
def test_many_writers_never_leave_a_part_of_a_file(path: Path) -> None:
    def write(number: int) -> None:
        for turn in range(20):
            file = SettingsFile(path)
            assert not file.note, file.note
            file.change_table(f"table-{number}", TableSettings("lag", left_out=("x",) * turn))
            file.write()

    failed: list[object] = []

    def run(number: int) -> None:
        try:
            write(number)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    # The lock stays: who removes one may take it from a writer that waits.
    assert {other.name for other in path.parent.iterdir()} == {path.name, "console.lock"}


def test_forgetting_shows_the_defaults_and_removes_the_file(path: Path) -> None:
    async def flow(console: ConsoleDriver) -> None:
        await console.press("colon", *"theme", "space", *"k2k-light", "enter", "2", "s")
        assert grid(console).sort
        await console.press("colon", *"forget", "enter")
        assert console.app.theme == "k2k-dark" and grid(console).sort is None
        assert "settings are forgotten" in console.notices

    drive(flow, settings=path)
    assert not path.exists()


def test_nothing_is_read_unless_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert settings_path() == user_path("state") / "console.json"
    file = SettingsFile(settings_path())
    file.change("theme", "k2k-light")
    file.write()

    async def flow(console: ConsoleDriver) -> None:
        assert console.app.theme == "k2k-dark"
        await console.press("2", "s")

    drive(flow)
    assert SettingsFile(settings_path()).settings == Settings("k2k-light")
