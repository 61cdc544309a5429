"""Replication: what its bars and strips say, and the panel that follows the cursor."""

from __future__ import annotations

import threading
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from k2ktui.console.visuals.panel import Panel
from k2ktui.console.widgets.drill_dialog import DrillDialog
from k2ktui.console.widgets.grid import Grid
from k2ktui.engine.producers import Producer, Writers, Written
from k2ktui.engine.records.state import SourcePartition
from k2ktui.present.formatting import Tone
from k2ktui.watch.model import PartName
from tests.support.console.driver import ConsoleDriver, drive, drive_session, made_session
from tests.support.console.views import Made, compared, usual


def titles(console: ConsoleDriver) -> list[str]:
    """The titles of the panels that are shown."""
    return [panel.title_text for panel in console.screen.query(Panel) if panel.region]


def shows(console: ConsoleDriver, title: str) -> bool:
    return title in titles(console)


@pytest.mark.parametrize("size", [(120, 24), (120, 35), (200, 60)])
def test_the_panel_beside_the_table_follows_the_cursor(size: tuple[int, int]) -> None:
    async def flow(console: ConsoleDriver) -> None:
        await console.press("2")
        assert "caught-up" in console.panel("clicks-0")
        await console.press("down", "down")
        await console.until(partial(shows, console, "clicks-2"), "followed")
        await console.settle()
        detail = console.panel("clicks-2")
        assert "○ behind" in detail and "1,200" in detail
        await console.press("slash", *"payments-1", "enter")
        await console.until(partial(shows, console, "payments-1"), "followed")

    drive(flow, size=size)


def test_below_120_columns_there_is_no_panel_and_enter_opens_it() -> None:
    async def flow(console: ConsoleDriver) -> None:
        await console.press("2")
        assert titles(console) == ["Partitions"]
        await console.press("down", "down", "enter")
        assert "clicks-2  ○ behind" in console.text

    drive(flow, size=(119, 40))


class Watch:
    """Who writes to a partition, at each poll."""

    def __init__(self) -> None:
        self.writers, self.asked, self.closed = Writers(), list[Any](), threading.Event()

    def poll(self, partitions: Any) -> Any:
        self.asked += partitions
        last = len(self.asked)
        named = Producer(7, 0, True, "orders-app")
        self.writers.add([Written(("clicks", 0), named, 3, last)], float(last))
        self.writers.add([Written(("clicks", 0), Producer(-1), 1, last)], float(last))
        return self.writers.list()

    def close(self) -> None:
        self.closed.set()


def test_the_producers_of_an_opened_partition_are_named() -> None:
    watch, session = Watch(), made_session(usual())
    session.feed.watch_writers = lambda _: watch  # type: ignore[assignment,method-assign,return-value]

    async def flow(console: ConsoleDriver) -> None:
        await console.press("2", "enter")

        def is_named() -> bool:
            session.feed.refresh()
            return "orders-app" in console.text and "a producer without id" in console.text

        await console.until(is_named, "both producers are named")
        assert "Producers   transactional id orders-app (producer id 7 epoch 0): " in console.text
        assert set(watch.asked) == {("clicks", 0)}
        await console.press("escape")

    drive_session(session, flow)
    assert watch.closed.wait(30)


def test_a_recording_names_no_producers() -> None:
    async def flow(console: ConsoleDriver) -> None:
        await console.press("2", "enter")
        assert "clicks-0" in console.text and "Producers" not in console.text

    drive(flow)


def test_a_drill_begins_over_the_topics_of_the_marked_rows() -> None:
    async def steps(console: ConsoleDriver) -> None:
        await console.press("2")
        await console.press("slash", *"clicks-0", "enter", "space", "escape")
        await console.press("slash", *"payments", "enter", "a", "escape")
        await console.press("N")
        await console.until(lambda: isinstance(console.screen, DrillDialog), "the dialog")
        await console.sees("New drill over 2 topics: clicks, payments")
        await console.press("down", "enter")
        await console.sees(
            "move-topics", "--topics 'clicks|payments'", "of 2 topics: clicks, payments"
        )
        assert "fence-replicator" not in console.text
        await console.press("escape")

    drive_session(made_session(usual()), steps, (120, 40))


def test_a_bar_grows_by_powers_of_ten() -> None:
    made = Made()
    for number, lag in enumerate((0, 9, 99, 999)):
        made.partition("orders", number, end=5_000, lag=lag)

    async def flow(console: ConsoleDriver) -> None:
        await console.press("2")
        bars = [console.line(f"orders-{n}").count("█") for n in range(4)]
        assert bars[0] == 0 and bars[1:] == sorted(set(bars[1:])), bars

    drive(flow, made)


def test_a_strip_shows_what_was_never_mapped() -> None:
    made = usual()
    at = SourcePartition("payments", 0)
    made.mapped[at] = replace(made.mapped[at], holes=((20_000, 30_000),))

    async def flow(console: ConsoleDriver) -> None:
        await console.press("2")
        assert "░" in console.line("payments-0")
        screen = console.screen
        headings, rows = screen.query_one(Grid).table()
        assert "retained log" not in headings and "lag" in headings
        assert all("█" not in cell for row in rows for cell in row), "no pictures in an export"
        assert "█" not in screen.text_to_copy()  # type: ignore[attr-defined]

    drive(flow, made, size=(200, 40))


def test_drawings_of_old_values_are_dim() -> None:
    made = usual()

    async def flow(console: ConsoleDriver) -> None:
        await console.press("2")
        made.errors = {PartName.SOURCE: "no route"}
        await console.show()
        grid = console.screen.query_one(Grid)
        (line,) = [n for n, row in enumerate(grid.rows) if row.key == ("clicks", 2)]
        strip = grid.render_line(line + 1)
        (drawn,) = {segment.style for segment in strip if "█" in segment.text}
        assert drawn == grid.tone(Tone.MUTED)

    drive(flow, made, size=(120, 35))


def test_what_the_last_comparison_found_is_in_the_row_with_its_age() -> None:
    made = usual()
    made.comparison = compared(
        made, {SourcePartition("clicks", 1): (7, 2), SourcePartition("payments", 0): (0, 3)}
    )
    made.partition("new", 0, end=5)

    async def steps(console: ConsoleDriver) -> None:
        await console.press("2")
        assert "✗ 7 different, 1 h" in console.line("clicks-1")
        assert "○ 3 unproven, 1 h" in console.line("payments-0")
        assert "● equal, 1 h" in console.line("invoices-0")
        assert "equal" not in console.line("new-0"), "it was not compared"
        grid = console.screen.query_one(Grid)
        grid.sort_by("compared")
        assert [row.key for row in grid.rows][:2] == [("clicks", 1), ("payments", 0)]
        # It grows old while nothing else changes, and is marked if it cannot be read any more.
        made.now += 3600
        await console.show()
        assert "7 different, 2 h" in console.line("clicks-1")
        made.errors = {PartName.STATE: "no route"}
        await console.show()
        assert "≈7 different" in console.line("clicks-1")

    drive(steps, made, size=(200, 40))


def test_a_comparison_of_another_cluster_is_in_no_row() -> None:
    made = usual()
    made.comparison = replace(compared(made, {}), target_cluster="another one")

    async def steps(console: ConsoleDriver) -> None:
        await console.press("2")
        assert "equal" not in console.text

    drive(steps, made, size=(200, 40))


def test_a_partition_shows_its_last_comparison() -> None:
    made = usual()
    made.comparison = compared(made, {SourcePartition("clicks", 0): (7, 0)})

    async def steps(console: ConsoleDriver) -> None:
        await console.press("2", "enter")
        assert "✗ 7 different, 1 h ago" in console.line("Compared")

    drive(steps, made, size=(80, 24))
