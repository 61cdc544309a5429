"""Groups: what its bars say, and the panel about the group under the cursor."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from k2ktui.console.screens import groups_table
from k2ktui.console.visuals.panel import Panel
from k2ktui.console.widgets.grid import Grid
from k2ktui.engine.moves.groups import Finding, GroupView
from k2ktui.engine.records.state import SourcePartition
from k2ktui.present.formatting import UNICODE, Tone
from k2ktui.watch.feed import Feed
from k2ktui.watch.model import PartName
from tests.support.console.driver import ConsoleDriver, drive
from tests.support.console.views import Made, beside_mirrormaker, usual

AT = SourcePartition("payments", 0)


def titles(console: ConsoleDriver) -> list[str]:
    """The titles of the panels that are shown."""
    return [panel.title_text for panel in console.screen.query(Panel) if panel.region]


def row(console: ConsoleDriver, name: str, title: str = "Groups") -> str:
    """The line of a group in the table."""
    (line,) = (line for line in console.panel(title).splitlines() if line.startswith(name))
    return line


def bar(console: ConsoleDriver, name: str, zero: str = "│") -> tuple[str, str]:
    """Both sides of a group's bar, without blanks."""
    left, _, right = row(console, name).partition(zero)
    return left.split()[-1], right.split()[0]


@pytest.mark.parametrize("plain", [False, True])
def test_skips_grow_to_the_left_and_rereads_to_the_right(plain: bool) -> None:
    full, line, zero = "#-|" if plain else "█─│"

    async def flow(console: ConsoleDriver) -> None:
        await console.press("3")
        left, right = bar(console, "billing", zero)
        assert left.endswith(full) and right.strip(line) == ""
        left, right = bar(console, "reports", zero)
        assert left.strip(line) == "" and right.startswith(full)
        assert zero not in row(console, "fulfilment"), "a group that is not moved has no bar"
        assert full not in row(console, "archive"), "nor has one without a mapping"
        if plain:
            assert console.text.isascii()

    drive(flow, ascii=plain)


def test_there_is_no_bar_where_the_number_may_be_wrong() -> None:
    made = usual()
    for name, finding in (("trial", Finding.CHECKING), ("busy", Finding.MOVING)):
        made.group(name, AT, divergence=500)
        made.rows[-1] = replace(made.rows[-1], finding=finding)
    made.group("broken", AT)
    made.source_groups["broken"] = GroupView("", None, {}, "not authorized")
    made.group("half", AT, divergence=3)
    made.group("half", SourcePartition("payments", 1))

    async def flow(console: ConsoleDriver) -> None:
        await console.press("3")
        assert row(console, "trial").split()[6:9] == ["…", "…", "…"]
        assert row(console, "broken").split()[6:9] == ["—", "—", "—"]
        assert bar(console, "half")[0].endswith("█")
        assert set(bar(console, "half")[1]) == {"┄"}, "0 as far as known is not 0"
        await console.press("v")
        assert "+500       …" in row(console, "trial")
        assert "+500       —" in row(console, "busy")

    drive(flow, made)


def test_bars_of_old_values_are_dim() -> None:
    made = usual()

    async def flow(console: ConsoleDriver) -> None:
        await console.press("3")
        made.errors = {PartName.GROUPS: "no route"}
        await console.show()
        grid = console.screen.query_one(Grid)
        strip = grid.render_line(3)  # not the cursor's
        drawn = [segment for segment in strip if "█" in segment.text or "─" in segment.text]
        assert drawn and {segment.style for segment in drawn} == {grid.tone(Tone.MUTED)}
        assert "█" in grid.render_line(1).text

    drive(flow, made)


@pytest.mark.parametrize("size", [(120, 24), (120, 35), (200, 60)])
def test_the_panel_beside_the_table_follows_the_cursor(size: tuple[int, int]) -> None:
    async def flow(console: ConsoleDriver) -> None:
        await console.press("3")
        shown = console.panel("billing")
        words = " ".join(shown.split())
        assert "source commit 39,995 target now 40,109 a move sets 40,002 (-107)" in words
        assert "would skip 107" in " ".join(shown.split())
        await console.press("down", "down")
        await console.until(lambda: "reports" in titles(console), "followed")
        assert "▲ re-reads 40" in console.panel("reports")
        await console.press("v")
        assert "\u203a payments-1" in console.panel("reports"), "the cursor stays on its group"

    drive(flow, size=size)


@pytest.mark.parametrize("size", [(60, 20), (80, 24), (119, 40)])
def test_below_120_columns_enter_opens_the_panel(size: tuple[int, int]) -> None:
    async def flow(console: ConsoleDriver) -> None:
        await console.press("3")
        assert titles(console) == ["Groups"]
        await console.press("enter")
        assert titles(console) == ["Partitions", "billing"]
        shown = console.panel("billing")
        assert "Stable 2" in shown and "source commit 39,995" in shown and "|█" in shown
        await console.press("down")
        await console.until(lambda: "\u203a payments-1" in console.panel("billing"), "followed")

    drive(flow, size=size)


@pytest.mark.parametrize("size", [(120, 24), (120, 35), (200, 60)])
def test_the_table_of_a_group_has_its_whole_height_at_once(size: tuple[int, int]) -> None:
    async def flow(console: ConsoleDriver) -> None:
        await console.press("3", "enter")
        table, side = console.widget("#table"), console.widget("#side")
        assert table.outer_size.height == side.outer_size.height > size[1] - 6

    drive(flow, size=size)


@pytest.mark.parametrize("size", [(60, 20), (80, 24), (120, 35)])
def test_the_position_under_the_cursor_is_seen_whole_among_many(size: tuple[int, int]) -> None:
    made = usual()
    for number in range(40):
        at = made.partition("orders", number, end=5_000 + 100 * number)
        made.group("billing", at, divergence=10)

    async def flow(console: ConsoleDriver) -> None:
        await console.press("3", "enter", *["down"] * 20)
        wanted: Any = console.screen.query_one(Grid).current
        name = f"\u203a orders-{wanted.partition} "
        await console.until(lambda: name in console.panel("billing"), "followed")
        lines = console.panel("billing").splitlines()
        (at,) = (n for n, line in enumerate(lines) if name in line)
        assert any("^" in line or ">" in line for line in lines[at + 1 : at + 5]), "with its marks"
        assert len(console.panel("Partitions").splitlines()) > 5

    drive(flow, made, size=size)


def test_a_group_of_many_partitions_says_how_many_are_left() -> None:
    made = usual()
    for number in range(40):
        made.group("billing", made.partition("orders", number, end=5_000), divergence=0)

    async def flow(console: ConsoleDriver) -> None:
        await console.press("3")
        assert "more: Enter opens the group" in console.panel("billing")

    drive(flow, made, size=(120, 35))


@pytest.mark.parametrize("size", [(60, 20), (80, 24), (120, 35), (200, 60)])
def test_a_comparison_keeps_its_columns_and_the_order(size: tuple[int, int]) -> None:
    made = beside_mirrormaker()
    made.compares = False

    async def flow(console: ConsoleDriver) -> None:
        await console.press("3", "s")
        made.compares = True
        await console.show()
        headings = console.panel("Groups").splitlines()[0]
        assert "by MM2" in headings and "lag▲" in headings.replace(" ", "")
        await console.press("v", "v")
        assert "by MM2" in console.panel("Groups").splitlines()[0]

    drive(flow, made, size=size)


@pytest.mark.parametrize("size", [(60, 20), (200, 60)])
def test_without_groups_it_says_what_the_screen_is_for(size: tuple[int, int]) -> None:
    made = Made()
    made.partition("orders", 0, end=10)

    async def flow(console: ConsoleDriver) -> None:
        await console.press("3")
        assert "Groups appear here once they commit on replicated topics." in console.text
        made.group("billing", SourcePartition("orders", 0))
        await console.show()
        assert "○ not moved" in row(console, "billing")
        await console.press("slash", *"nothing", "enter")
        assert "nothing of 1" in console.text

    drive(flow, made, size=size)


def test_a_switch_of_the_tables_keeps_the_filter() -> None:
    async def flow(console: ConsoleDriver) -> None:
        await console.press("3", "slash", *"billing", "enter", "v")
        assert "/billing" in console.text and "2 of 5" in console.text
        assert "archive" not in console.panel("Groups")

    drive(flow)


def test_a_group_that_vanishes_is_said_to_be_gone() -> None:
    made = usual()

    async def flow(console: ConsoleDriver) -> None:
        await console.press("3", "enter")
        made.rows = [row for row in made.rows if row.group != "billing"]
        del made.source_groups["billing"], made.target_groups["billing"]
        await console.show()
        assert "billing no longer exists" in console.text
        await console.until(partial(shows_gone, console), "said in the panel")

    drive(flow, made)


def shows_gone(console: ConsoleDriver) -> bool:
    return "The group no longer exists." in console.panel("billing")


@pytest.mark.parametrize("compared", [False, True])
def test_a_column_without_a_rank_is_refused(
    compared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be missing on the screen, and in no message."""
    columns = groups_table.group_columns(UNICODE, lambda: 10, 8, Feed(), compared=compared)
    assert {"group", "bar", "basis"} <= {column.id for column in columns}
    ranks = {column.id: column.rank for column in columns if column.id != "basis"}
    monkeypatch.setattr(groups_table, "_RANKS", ranks)
    with pytest.raises(ValueError, match="basis"):
        groups_table.group_columns(UNICODE, lambda: 10, 8, Feed(), compared=compared)
