"""Screen 0: the pipelines of a directory, and the way to each and back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from k2ktui.console.session import FLEET, Options, Session
from k2ktui.console.themes import shipped_directory
from k2ktui.console.widgets.grid import Grid
from k2ktui.console.widgets.text_dialog import TextDialog
from tests.support.console.driver import ConsoleDriver, drive_session, made_session
from tests.support.console.fleets import BAD, GOOD, NAMES, PAIR, TYPO, MadeFleet, fleet_session
from tests.support.console.pictures import compare_session_after
from tests.support.console.views import usual


def lines_of(console: ConsoleDriver) -> list[str]:
    return [line for line in console.text.splitlines() if any(name in line for name in NAMES)]


def test_the_worst_is_first_and_every_row_says_what_is_known() -> None:
    async def steps(console: ConsoleDriver) -> None:
        grid = console.screen.query_one(Grid)
        assert [row.pair.pipeline for row in grid.rows] == [
            "clicks",
            "typo",
            "new",
            "back",
            "orders",
        ]
        clicks, typo, new, back, orders = (
            next(line for line in lines_of(console) if f" {name} " in line)
            for name in ("clicks", "typo", "new", "back", "orders")
        )
        assert "8,120,441" in clicks and "≈" in clicks and "1 of 7 skips" in clicks
        assert "none" in clicks and "2 h 4 m" in clicks and "never" in clicks
        assert "unknown" in typo and "—" in typo
        assert "…" in new and " 0 " not in new, "what was not read is not zero"
        assert "fenced" in back and "12 records" in back and "2 findings" in back
        assert "2 runs" in orders and "179" in orders and "● 41" in orders and "3 d" in orders
        assert "5 pipelines: 2 bad, 2 good, 1 not read yet" in console.text

    drive_session(fleet_session(), steps, (200, 40))


@pytest.mark.parametrize("size", [(60, 20), (80, 24), (120, 35), (200, 60)])
def test_the_problem_of_a_row_is_found_at_every_size(size: tuple[int, int]) -> None:
    async def steps(console: ConsoleDriver) -> None:
        assert "clicks" in console.text and "none" in console.text
        if size[0] >= 120:
            assert "no broker answers" in console.panel("clicks")

    drive_session(fleet_session(GOOD, BAD), steps, size)


def left_for(session: Session, *keys: str) -> Path | None:
    async def steps(console: ConsoleDriver) -> None:
        await console.press(*keys)

    drive_session(session, steps, (120, 35))
    return session.leaves_for


def typed(text: str) -> tuple[str, ...]:
    return tuple({" ": "space", ":": "colon"}.get(letter, letter) for letter in text)


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (("enter",), NAMES["clicks"]),
        (("j", "enter"), NAMES["orders"]),
        ((*typed(":pipeline orders"), "enter"), NAMES["orders"]),
        (("q",), None),
    ],
)
def test_enter_and_the_name_open_a_pipeline(keys: tuple[str, ...], expected: Path | None) -> None:
    assert left_for(fleet_session(GOOD, BAD), *keys) == expected


def test_a_file_that_is_not_valid_shows_its_errors() -> None:
    async def steps(console: ConsoleDriver) -> None:
        await console.press("enter")
        assert isinstance(console.screen, TextDialog)
        assert "typo.yaml:2: sorce: unknown key" in console.text
        assert console.app.session.leaves_for is None

    drive_session(fleet_session(TYPO), steps, (120, 35))


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (("0",), FLEET),
        (("q",), FLEET),
        (("3", "q"), FLEET),
        ((*typed(":pipeline clicks"), "enter"), NAMES["clicks"]),
        ((*typed(":q"), "enter"), None),
    ],
)
def test_the_way_back_from_a_pipeline(keys: tuple[str, ...], expected: Path | None) -> None:
    session = made_session(usual())
    session.fleet = dict(NAMES)
    assert left_for(session, *keys) == expected


def test_a_pipeline_that_was_opened_alone_has_no_fleet() -> None:
    async def steps(console: ConsoleDriver) -> None:
        assert "0 Fleet" not in console.text
        await console.press("0")
        assert console.app.session.leaves_for is None and console.app.is_running

    drive_session(made_session(usual()), steps, (120, 35))


def test_a_row_that_changes_is_shown() -> None:
    fleet = MadeFleet(GOOD)
    session = Session(fleet, PAIR, options=Options(True), fleet=dict(NAMES))

    async def steps(console: ConsoleDriver) -> None:
        fleet.made[0] = replace(GOOD, lag=7_654)
        fleet.tell()
        await console.until(lambda: "7,654" in console.text, "the new lag")

    drive_session(session, steps, (120, 35))


THEMES = sorted(path.stem for path in shipped_directory().glob("*.yaml"))


@pytest.mark.slow
def test_it_looks_as_it_did() -> None:
    themes = [theme for theme in THEMES if theme != "k2k-dark"]
    compare_session_after(fleet_session(theme="k2k-dark"), (), "fleet", themes=themes)
