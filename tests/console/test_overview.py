"""Overview: what each size has room for, and how the header draws a pair that does not copy."""

from __future__ import annotations

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
from tests.support.console import ConsoleDriver, drive, drive_session
from tests.support.views import usual


@pytest.mark.parametrize("width", [60, 80, 100, 120, 160, 200])
def test_no_size_asks_for_more_lines_than_there_are(width: int) -> None:
    for height, pair, charts in product(range(16, 70), (5, 10), (False, True)):
        boxed = width >= 120 and height >= 32
        layout = lay_out(width, height - 3, pair, boxed=boxed, charts=charts)
        edge = 2 if boxed else 1
        lines = (layout.tile + edge) * (4 // layout.columns) + layout.chart
        middle = [each + edge for each in (layout.map, layout.pair) if each]
        lines += max(middle, default=0) if boxed and width >= 160 else sum(middle)
        assert lines + edge + 2 <= height - 3 or charts


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
