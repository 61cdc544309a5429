"""What is above every screen: names of clusters, tabs, replay and recording, warnings."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from k2ktui.console.banner import short_cause
from k2ktui.console.header import tab_at, tabs
from k2ktui.console.session import Options, Session
from k2ktui.console.widgets.text_dialog import TextDialog
from k2ktui.watch.model import PartName, PipelinePair
from k2ktui.watch.player import Player
from k2ktui.watch.recording import Recorder
from tests.support.console.driver import ConsoleDriver, drive, drive_session
from tests.support.console.views import NOON, usual

PAIR = r"east ● ━+( … records/s ━+| …/s ━+)?▶ ● west"


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_click_on_a_tab_opens_its_screen(width: int) -> None:
    async def flow(console: ConsoleDriver) -> None:
        for number, title in ((3, "Groups"), (1, "Overview"), (7, "Journal")):
            x = f"{console.text.splitlines()[1]} ".index(f" {number} ") + 1
            await console.pilot.click("#header", offset=(x, 1))
            await console.settle()
            assert console.app.current_mode == title.lower()
        await console.pilot.click("#header", offset=(2, 0))  # not a tab
        assert console.app.current_mode == "journal"

    drive(flow, size=(width, 24))


def test_tabs_are_found_by_column() -> None:
    line = tabs([("1", "Overview", True), ("2", "Replication", False)], 80)
    assert [tab_at(line, x) for x in (0, 11, 12, 40)] == [0, 0, 1, None]


def test_clusters_have_names_and_their_ids_are_on_the_overview_only() -> None:
    async def flow(console: ConsoleDriver) -> None:
        assert re.search(PAIR, console.text.splitlines()[0])
        assert "lQmMYe12RG21HTTP1Fo2zw" in console.line("Source")
        for key in "234567":
            await console.press(key)
            assert "lQmMYe12" not in console.text
            assert re.search(PAIR, console.text.splitlines()[0])

    drive(flow, usual(PipelinePair("orders", source="east", target="west")))


def test_a_cluster_without_a_name_has_that_of_its_first_bootstrap_host() -> None:
    async def flow(console: ConsoleDriver) -> None:
        assert " src ● " in console.text.splitlines()[0]
        assert " ● dst " in console.text.splitlines()[0]

    drive(flow)


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("width", [60, 80])
def test_the_age_is_whole_beside_long_names(width: int, plain: bool) -> None:
    """In ASCII, the sign of a cut takes two cells in place of one."""

    async def flow(console: ConsoleDriver) -> None:
        assert console.text.splitlines()[0].endswith("READ-WRITE <10 s")

    pair = PipelinePair("orders-of-the-east-region", "staging", source="east-production-cluster")
    drive(flow, usual(pair), size=(width, 24), ascii=plain)


@pytest.mark.parametrize("plain", [False, True])
def test_the_keys_of_jobs_are_all_shown_on_a_narrow_terminal(plain: bool) -> None:
    async def flow(console: ConsoleDriver) -> None:
        await console.press("5")
        keys = console.text.splitlines()[-1]
        assert all(f" {key} " in keys for key in ("J Start", "X Stop", "R Restart", "? Help"))

    drive(flow, size=(60, 20), ascii=plain)


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    path = tmp_path / "session.k2k"
    recorder, made = Recorder(path), usual()
    for _ in range(3):
        recorder.add(made.view())
        made.now += 5
    recorder.close()
    return path


def test_a_replay_shows_the_time_of_its_frame(recording: Path) -> None:
    player = Player(recording, paused=True)

    async def steps(console: ConsoleDriver) -> None:
        await console.until(lambda: "replay 1/3 12:00:00" in console.text, "first")
        await console.press("right_square_bracket")
        await console.until(lambda: "replay 2/3 12:00:05" in console.text, "second")

    drive_session(Session(player, player.pair, options=Options()), steps)


@pytest.mark.parametrize("text", ["+60", "12:00:30", "2026-11-20 12:00:00"])
def test_a_seek_outside_a_recording_is_refused_with_its_bounds(recording: Path, text: str) -> None:
    player = Player(recording, paused=True)

    async def steps(console: ConsoleDriver) -> None:
        await console.until(lambda: "replay 1/3" in console.text, "first")
        await console.press("comma")
        await console.type(text)
        await console.press("enter")
        await console.until(lambda: "outside the recording" in console.notices, "refused")
        assert "from 12:00:00 to 12:00:10 UTC" in console.notices
        assert player.times[player.number] == NOON

    drive_session(Session(player, player.pair, options=Options()), steps)


def test_a_warning_shows_its_short_cause_first_and_its_whole_text_on_enter() -> None:
    cause = "src:9092 does not answer: timed out after 5 s; check bootstrap.servers of the source"

    async def flow(console: ConsoleDriver) -> None:
        console.feed.made.errors[PartName.SOURCE] = cause
        await console.press("2")
        await console.show()
        assert "✗ source: src:9092 does not answer: timed out after 5 s; values" in console.text
        assert "bootstrap.servers" not in console.text
        await console.press("tab")
        assert console.app.focused is console.widget("#banner")
        await console.press("enter")
        assert isinstance(console.app.screen, TextDialog)
        assert "bootstrap.servers of the source" in console.text
        await console.press("y")
        assert cause in console.app.clipboard
        await console.press("escape")
        await console.pilot.click("#banner")
        assert isinstance(console.app.screen, TextDialog)

    drive(flow)


def test_a_cluster_problem_shows_its_whole_text_on_enter() -> None:
    async def flow(console: ConsoleDriver) -> None:
        console.feed.made.errors[PartName.SOURCE] = "it is down " * 20
        await console.show()
        await console.press("home", "enter")
        assert isinstance(console.app.screen, TextDialog)
        assert console.text.count("it is down") >= 15

    drive(flow)


def test_a_long_cause_is_cut() -> None:
    assert short_cause("short") == "short"
    assert short_cause("one. two") == "one"
    assert len(short_cause("x" * 300)) == 48
