"""Overview: what each size has room for, and how the header draws a pair that does not copy."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from textual.widgets import Static

from k2ktui.console.screens.overview import lay_out
from k2ktui.console.session import Options, Session
from k2ktui.console.widgets.text_dialog import TextDialog
from k2ktui.watch.model import PartName, PipelinePair
from k2ktui.watch.player import Player
from k2ktui.watch.recording import Recorder
from k2ktui.watch.severity import find_problems
from tests.support.console.driver import ConsoleDriver, drive, drive_session
from tests.support.console.views import NOON, Made, usual


@pytest.mark.parametrize("width", [60, 80, 100, 120, 160, 200])
def test_no_size_asks_for_more_lines_than_there_are(width: int) -> None:
    for height, pair, charts in product(range(16, 70), (5, 10), (False, True)):
        boxed = width >= 120 and height >= 32
        layout = lay_out(width, height - 3, pair, boxed=boxed, charts=charts)
        edge = 2 if boxed else 1
        lines = (layout.tile + edge) * (4 // layout.columns) + layout.chart
        middle = [height + edge for height in (layout.map, layout.pair) if height]
        lines += max(middle, default=0) if boxed and width >= 160 else sum(middle)
        assert lines + edge + 2 <= height - 3 or charts


@pytest.mark.parametrize("size", [(120, 35), (200, 60)])
def test_charts_are_in_sight_where_there_is_room(size: tuple[int, int]) -> None:
    async def flow(console: ConsoleDriver) -> None:
        assert "Lag, records" in console.text and "RPO" in console.text
        assert "Failover" in console.text and "no mapping for 1 of 1 partition" in console.text

    drive(flow, size=size)


def test_a_low_terminal_shows_charts_when_asked_and_hides_them_after_the_last_window() -> None:
    async def flow(console: ConsoleDriver) -> None:
        assert "Lag, records" not in console.text and "─Pair" in console.text
        for minutes in (5, 15, 60):
            await console.press("w")
            assert f"Lag, records  {minutes} min, UTC" in console.text
            assert "─Pair" not in console.text
        await console.press("w")
        assert "Lag, records" not in console.text and "─Pair" in console.text
        assert console.app.chart_minutes == 5

    drive(flow)


@pytest.mark.parametrize("size", [(60, 16), (80, 24), (120, 35)])
def test_everything_about_the_pair_is_a_key_away(size: tuple[int, int]) -> None:
    async def flow(console: ConsoleDriver) -> None:
        await console.press("i")
        screen = console.screen
        assert isinstance(screen, TextDialog)
        shown = str(screen.query_one("#text-body", Static).content)
        for label in ("Failover", "RPO", "Positions", "Job", "Source", "Target"):
            assert label in shown
        assert "\\x" not in shown, "space that fills a line up is not escaped"
        assert "safe to move" in shown and "lQmMYe12RG21HTTP1Fo2zw" in shown

    drive(flow, size=size)


@pytest.mark.parametrize("plain", [False, True])
def test_the_arrow_is_broken_while_nothing_is_copied(plain: bool) -> None:
    made = usual(PipelinePair("orders", source="east", target="west"))
    made.running = False

    async def flow(console: ConsoleDriver) -> None:
        drawn = (
            "east + ....  - stopped ....> + west" if plain else "east ● ╌╌╌╌ ○ stopped ╌╌╌╌▷ ● west"
        )
        assert drawn.replace("  ", " ") in console.text.splitlines()[0]

    drive(flow, made, size=(120, 35), ascii=plain)


def test_a_cluster_that_is_down_says_so_in_the_header() -> None:
    made = usual(PipelinePair("orders", source="east", target="west"))

    async def flow(console: ConsoleDriver) -> None:
        made.errors = {PartName.TARGET: "no route", PartName.STATE: "no route"}
        await console.show()
        assert "east ● ╌╌╌╌ ? not known ╌╌╌╌▷ ✗ down west" in console.text.splitlines()[0]

    drive(flow, made, size=(120, 35))


def test_a_recording_does_not_say_that_nothing_was_rehearsed(tmp_path: Path) -> None:
    path, made = tmp_path / "session.k2k", usual()
    recorder = Recorder(path)
    recorder.add(made.view())
    recorder.close()
    player = Player(path, paused=True)

    async def steps(console: ConsoleDriver) -> None:
        await console.until(lambda: "replay 1/1" in console.text, "shown")
        await console.settle()
        assert "RTO —" in console.panel("Failover now")

    drive_session(Session(player, player.pair, options=Options()), steps, (120, 35))

    async def live(console: ConsoleDriver) -> None:
        assert "RTO not rehearsed yet" in console.panel("Failover now")

    drive(live, size=(120, 35))


def deleted() -> Made:
    """A group reads what the target has; of another one, both clusters have deleted records."""
    made = usual()
    made.rows = [
        replace(row, skipped=9_104) if row.group == "fulfilment" else row for row in made.rows
    ]
    made.rows = [row for row in made.rows if row.group in ("fulfilment", "reports")]
    made.source_groups = {row.group: made.source_groups[row.group] for row in made.rows}
    made.source_groups["worker"] = replace(made.source_groups["reports"], state="Stable", members=3)
    made.rows += [replace(row, group="worker") for row in made.rows if row.group == "reports"]
    made.starts = dict.fromkeys(made.starts, 89_990)
    return made


@pytest.mark.parametrize("size", [(60, 20), (80, 24), (120, 35), (200, 60)])
def test_a_failover_now_names_its_groups_and_none_that_skips_is_safe(size: tuple[int, int]) -> None:
    async def flow(console: ConsoleDriver) -> None:
        tile = console.panel("Failover now")
        assert "▲ 1 stop" in tile and "▲ 1 lost" in tile and "● 1 safe" in tile
        if size[0] >= 80:
            pair = " ".join(console.panel("Pair").split())
            assert "▲ 1 lost 9,104 already: fulfilment ▲ 1 stop first: worker ● 1 safe" in pair
        await console.press("i")
        shown = " ".join(str(console.screen.query_one("#text-body", Static).content).split())
        assert "already: fulfilment ▲ 1 to stop first: worker ● 1 safe to move" in shown

    drive(flow, deleted(), size=size)


@pytest.mark.parametrize("size", [(60, 20), (80, 24), (120, 35), (200, 60)])
def test_divergence_is_told_apart_from_what_a_move_skips(size: tuple[int, int]) -> None:
    async def flow(console: ConsoleDriver) -> None:
        shown = [" ".join(line.split()) for line in console.panel("Group divergence").splitlines()]
        if size[0] < 120:
            assert shown[0].startswith("now: ") and "80 re-read" in shown[0]
            assert shown[1].startswith("after move: 9,104 skipped")
        else:
            assert shown[1:] == ["skip re-read", "now 0 80", "after move 9,104 0"]

    drive(flow, deleted(), size=size)


@pytest.mark.parametrize("size", [(60, 16), (60, 20), (80, 24), (120, 35), (200, 60)])
def test_the_problem_under_the_cursor_has_its_whole_message(size: tuple[int, int]) -> None:
    async def flow(console: ConsoleDriver) -> None:
        for problem in find_problems(console.app.view, NOON):  # type: ignore[arg-type]
            shown = " ".join(console.panel("Problems").split())
            assert problem.message in shown
            await console.press("down")
            await console.settle()

    drive(flow, deleted(), size=size)
