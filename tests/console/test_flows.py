"""What an operator does on the reading screens, by keys."""

from __future__ import annotations

import asyncio
import csv
import json
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from k2ktui.console.app import ConsoleApp
from k2ktui.console.screens.base import ConsoleScreen
from k2ktui.console.screens.groups import GroupScreen, GroupsScreen
from k2ktui.console.screens.partition import PartitionScreen
from k2ktui.console.session import Session
from k2ktui.engine.records.state import SourcePartition
from k2ktui.watch.codec import loads
from k2ktui.watch.model import PipelinePair
from tests.support.clusters.kafka import TIMEOUT
from tests.support.console.driver import ConsoleDriver, drive
from tests.support.console.views import StubFeed, usual


def test_overview_says_how_the_pair_stands() -> None:
    async def flow(console: ConsoleDriver) -> None:
        assert "1,200 records  3.0 s behind" in console.panel("Lag")
        assert "□ 1 behind   ■ 6 caught-up" in console.panel("Partitions")
        divergence = console.panel("Group divergence")
        assert "now: 107 skipped, 40 re-read" in divergence
        assert "after move: 0 skipped, 0 re-read" in divergence
        assert "✗ 1 cannot move" in console.panel("Failover now")
        assert "99.7 % offsets" in console.panel("Coverage")
        assert "● running  ops@bastion1  lap 12, 4 slots" in console.line("Job  ")
        assert "lQmMYe12RG21HTTP1Fo2zw" in console.line("Source")
        assert "READ-WRITE" in console.text

    drive(flow)


def test_enter_on_a_problem_goes_to_its_cause() -> None:
    async def flow(console: ConsoleDriver) -> None:
        await console.press("enter")
        assert isinstance(console.app.screen, GroupScreen)
        assert "+107" in console.line("payments-0")
        await console.press("q", "q")
        assert console.app.is_running is False

    drive(flow)


def test_the_number_of_the_present_screen_closes_its_details() -> None:
    async def flow(console: ConsoleDriver) -> None:
        await console.press("3", "enter", "2", "3")
        assert isinstance(console.app.screen, GroupScreen), "it is as it was left"
        await console.press("3")
        screen: object = console.app.screen
        assert isinstance(screen, GroupsScreen)

    drive(flow)


def test_replication_is_filtered_sorted_and_opened() -> None:
    async def flow(console: ConsoleDriver) -> None:
        await console.press("2", "slash", *"pay")
        assert "2 of 7" in console.line(" /pay")
        assert "clicks" not in console.text
        await console.press("enter")
        assert "2 of 7" in console.line(" /pay"), "the pattern stays in sight"
        await console.press("escape")
        assert "clicks-0" in console.text
        await console.press("slash", "exclamation_mark", *"clicks", "enter")
        assert "3 of 7" in console.text
        await console.press("escape", "z")
        assert "No row of 7 is a problem; z shows all." in console.text
        await console.press("z")
        first = console.text.splitlines()[4]
        assert "clicks-0" in first  # being behind is no problem, and moves no row
        await console.press("s")
        assert "lag ▲" in console.text and "clicks-2" in console.text.splitlines()[4]
        await console.press("s", "S")
        assert "partition ▼" in console.text
        assert "payments-1" in console.text.splitlines()[4]
        await console.press("g", "enter")  # the cursor stayed on its row
        assert isinstance(console.app.screen, PartitionScreen)
        assert "payments-1  ● caught-up" in console.text
        await console.press("escape")
        assert "partition ▼" in console.text

    drive(flow)


def test_a_partition_lists_no_mapping_beyond_its_position() -> None:
    """The mappings of a view may have been read after its positions."""
    made = usual()
    at = SourcePartition("payments", 1)
    ranges = ((10_000, 10_007, 29_990), (39_990, 39_997, 25), (40_015, 40_022, 5))
    made.mapped[at] = replace(made.mapped[at], ranges=ranges)

    async def flow(console: ConsoleDriver) -> None:
        await console.press("2", "slash", *"payments-1", "enter", "enter")
        screen = console.app.screen
        assert isinstance(screen, PartitionScreen)
        assert "the last 2 of 2 in memory" in console.text
        assert "10 records" in console.line("39,990 →")
        assert screen.table() == (
            ["source", "target", "count"],
            [["10000", "10007", "29990"], ["39990", "39997", "10"]],
        )
        made.copy(15)
        await console.show()
        assert "25 records" in console.line("39,990 →") and "40,015 →" not in console.text

    drive(flow, made, size=(100, 40))


def test_a_gap_between_mapping_ranges_is_shown() -> None:
    made = usual()
    at = SourcePartition("payments", 1)
    made.mapped[at] = replace(made.mapped[at], ranges=((90, 97, 10), (100, 107, 8), (115, 115, 5)))

    async def flow(console: ConsoleDriver) -> None:
        await console.press("2", "slash", *"payments-1", "enter", "enter")
        assert console.line("115 →").rstrip().endswith("5 records  gap of 7 before")
        for source in ("90 →", "100 →"):
            assert "gap" not in console.line(source)

    drive(flow, made)


def test_groups_by_group_and_by_partition() -> None:
    async def flow(console: ConsoleDriver) -> None:
        await console.press("3")
        (billing,) = (line for line in console.panel("Groups").splitlines() if "billing" in line)
        assert "✗ skips" in billing and "107  " in billing
        assert "Stable 2" in console.panel("billing") and "2 exact" in console.panel("billing")
        await console.press("v")
        assert "+107" in console.line("payments-0    ✗ skips")
        await console.press("slash", *"unmapped", "enter")
        (unmapped,) = console.panel("Groups").splitlines()[1:2]
        assert "archive" in unmapped and "✗ unmapped" in unmapped
        assert "billing" not in console.panel("Groups")
        await console.press("escape", "v")
        assert "billing" in console.panel("Groups")

    drive(flow, size=(120, 40))


def test_cells_change_with_the_figures_and_the_cursor_stays() -> None:
    async def flow(console: ConsoleDriver) -> None:
        made = console.feed.made
        await console.press("2", "slash", *"payments", "enter", "down")
        made.now += 5
        made.copy(500)
        await console.show()
        assert "40,500" in console.line("payments-1")
        assert "100" in console.line("payments-1")  # records/s
        await console.press("enter")
        assert "payments-1" in console.line("caught-up")

    drive(flow)


def test_help_explains_the_screen_and_its_keys() -> None:
    async def flow(console: ConsoleDriver) -> None:
        await console.press("2", "question_mark")
        assert "Each row is a partition of the source" in console.text
        lines = console.text.splitlines()
        headings = [line for line in lines if "Keys of" in line]
        assert "Keys of this screen" in headings[0]
        await console.press("end")
        assert "screen.journal" in console.text
        assert "stale" in console.text
        await console.press("question_mark")
        assert "Each row is" not in console.text

    drive(flow, size=(120, 45))


def test_the_footer_has_the_keys_of_the_screen_first_and_grays_what_is_unavailable() -> None:
    async def flow(console: ConsoleDriver) -> None:
        await console.press("3")
        foot = console.text.splitlines()[-1]
        assert foot.index("T Translate") < foot.index("v By partition") < foot.index("/ Filter")
        assert foot.index("/ Filter") < foot.index(": Command")
        keys = console.app.screen.active_bindings
        assert keys["enter"].enabled and not keys["T"].enabled  # there is no pipeline file here
        await console.press("slash", *"nosuchgroup", "enter")
        assert not console.app.screen.active_bindings["enter"].enabled
        await console.press("T")
        assert "Translate: there is no group" in console.notices

    drive(flow, size=(120, 24))


def test_the_footer_says_back_where_q_goes_back() -> None:
    async def flow(console: ConsoleDriver) -> None:
        assert "q Quit" in console.text
        await console.press("2", "enter")
        assert "q Back" in console.text

    drive(flow)


def test_palette_lists_screens_and_keys_and_runs_them() -> None:
    async def flow(console: ConsoleDriver) -> None:
        await console.press("ctrl+p", *"grou", "enter")
        assert "4 groups" in console.text

    drive(flow)


def test_pause_refresh_and_interval() -> None:
    async def flow(console: ConsoleDriver) -> None:
        feed = console.feed
        await console.press("p")
        assert feed.paused
        assert "paused" in console.text
        await console.press("p", "r")
        assert (feed.paused, feed.refreshed) == (False, 1)
        await console.press("plus")
        assert feed.interval == 6
        await console.press(*["minus"] * 9)
        assert feed.interval == 2

    drive(flow)


def test_export_writes_the_view_and_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    async def flow(console: ConsoleDriver) -> None:
        await console.press("2", "slash", *"payments", "enter", "e")
        assert str(tmp_path)[:20] in console.text and not list(tmp_path.iterdir())
        await console.press("escape", "e")
        assert "Nothing was written" in console.notices and not list(tmp_path.iterdir())
        await console.press("enter")
        assert "written:" in console.notices
        await console.press("e", "enter")  # never over what is there

    drive(flow)
    views, tables = sorted(tmp_path.glob("*.json")), sorted(tmp_path.glob("*.csv"))
    assert len(views) == len(tables) == 2
    assert len(loads(views[0].read_text()).partitions) == 7
    rows = list(csv.reader(tables[0].open()))
    assert [row[0] for row in rows] == ["partition", "payments-0", "payments-1"]
    assert json.loads(views[0].read_text())["pair"]["pipeline"] == "orders"


def test_export_that_cannot_be_written_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "gone"
    place.mkdir()
    monkeypatch.chdir(place)
    place.rmdir()

    async def flow(console: ConsoleDriver) -> None:
        await console.press("e", "enter")
        assert "nothing was exported" in console.notices

    drive(flow)


def test_copy_takes_the_row_and_says_that_it_cannot_know() -> None:
    async def flow(console: ConsoleDriver) -> None:
        await console.press("2", "j", "j", "y")
        assert console.app.clipboard.startswith("clicks-2\t○ behind\t1,200")
        assert "copied clicks-2" in console.notices
        assert "sent to the terminal's clipboard" in console.notices

    drive(flow)


def test_screenshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    async def flow(console: ConsoleDriver) -> None:
        await console.press("ctrl+s")
        assert "written:" in console.notices

    drive(flow)
    [path] = tmp_path.glob("*.svg")
    assert "billing" in path.read_text()


@pytest.mark.parametrize("key", ["ctrl+c", "ctrl+q", "q"])
def test_it_can_be_left(key: str) -> None:
    async def flow(console: ConsoleDriver) -> None:
        if key != "q":
            await console.press("2", "slash")  # also while typing
        await console.press(key)
        assert not console.app.is_running
        assert console.app.return_code == 0

    drive(flow)


def test_production_is_read_only_until_its_name_is_typed() -> None:
    async def flow(console: ConsoleDriver) -> None:
        assert "READ-ONLY" in console.text
        await console.press("u")
        assert "type orders to unlock" in console.text
        assert console.app.focused is console.widget("#confirm-name")
        assert console.widget("#confirm-do").disabled
        # Enter and space, hit by habit, confirm nothing without the name.
        await console.press("enter", "enter", "space")
        assert "READ-ONLY" in console.text
        await console.press("escape")
        await console.press("u", *"order")
        assert console.widget("#confirm-do").disabled
        await console.press("s")
        assert not console.widget("#confirm-do").disabled
        assert "READ-ONLY" in console.text
        await console.enter()
        assert "READ-WRITE" in console.text
        await console.press("u")
        assert "READ-ONLY" in console.text

    drive(flow, usual(PipelinePair("orders", "production")))


def test_an_answer_that_arrives_all_at_once_is_taken_in_order() -> None:
    async def flow(console: ConsoleDriver) -> None:
        await console.press("u")
        await console.press_at_once(*"orders", "tab", "space")
        assert "READ-WRITE" in console.text

    drive(flow, usual(PipelinePair("orders", "production")))


@pytest.mark.parametrize("how", ["flag", "file"])
def test_read_only_cannot_be_unlocked_where_it_was_asked_for(how: str) -> None:
    async def flow(console: ConsoleDriver) -> None:
        assert "READ-ONLY" in console.text
        await console.press("u")
        assert "READ-ONLY" in console.text

    made = usual(PipelinePair("orders", "", how == "file"))
    drive(flow, made, read_only=how == "flag")


def test_a_timer_that_fires_when_the_screens_are_gone_does_no_harm() -> None:
    feed = StubFeed(usual())
    ConsoleApp(Session(feed, feed.made.pair)).update_frame()


def test_leaving_does_not_wait_for_a_background_job() -> None:
    begun, answered = threading.Event(), threading.Event()

    def job() -> bool:
        begun.set()
        return answered.wait(TIMEOUT)

    async def flow(console: ConsoleDriver) -> None:
        screen = console.app.screen
        assert isinstance(screen, ConsoleScreen)
        screen.background("silent", job, lambda _: None)
        assert await asyncio.to_thread(begun.wait, TIMEOUT)

    release = threading.Timer(TIMEOUT, answered.set)
    release.start()
    try:
        drive(flow)
        assert not answered.is_set()
    finally:
        release.cancel()
        answered.set()
