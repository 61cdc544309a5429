"""The shapes and frames of the console: what they say without color, and a picture of all of them.

``K2KTUI_PICTURES=write`` redraws the picture.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from textual.containers import Horizontal
from textual.widget import Widget

from k2ktui.console.screens.base import ConsoleScreen
from k2ktui.console.visuals.cell_map import cell_map, legend
from k2ktui.console.visuals.chart import Chart
from k2ktui.console.visuals.panel import Panel, Tile
from k2ktui.console.visuals.shapes import (
    Log,
    bar,
    divergence,
    flow,
    journey,
    jump,
    log_bar,
    log_share,
    log_strip,
    marker,
    markers,
    picture_cell,
    sparkline,
    strip,
)
from k2ktui.console.visuals.sums import Sum
from k2ktui.console.visuals.timeline import Phase, timeline
from k2ktui.engine.severity import Severity
from k2ktui.present.formatting import ASCII, UNICODE, Cell, Glyphs, Line, Tone
from tests.support.console.driver import ConsoleDriver, drive
from tests.support.console.pictures import THEMES, compare_screen
from tests.support.console.views import NOON, usual

KINDS = [UNICODE, ASCII]


def text(line: Line) -> str:
    return "".join(cell.text for cell in line)


@given(st.floats(0, 1), st.integers(1, 60), st.sampled_from(KINDS))
def test_a_bar_is_full_only_at_one_and_empty_only_at_zero(
    share: float, width: int, glyphs: Glyphs
) -> None:
    filled, rest = bar(share, width, glyphs)
    assert cell_len(filled.text) + cell_len(rest.text) == width
    full = "#" if glyphs.ascii else "█"
    if not glyphs.ascii or width > 1:  # one ASCII cell can say only whether there is anything
        assert (filled.text == full * width) == (share == 1)
    assert (filled.text == "") == (share == 0)


@pytest.mark.parametrize("glyphs", KINDS)
def test_an_unknown_share_is_not_an_empty_bar(glyphs: Glyphs) -> None:
    assert text(bar(None, 8, glyphs)) != text(bar(0, 8, glyphs))
    assert text(log_bar(None, 10, 8, glyphs, Tone.INFO)) == "—"


@given(st.integers(0, 10**12), st.integers(0, 10**12))
def test_a_logarithmic_share_keeps_the_order(one: int, other: int) -> None:
    first, second = log_share(one, 10**12), log_share(other, 10**12)
    assert first is not None and second is not None
    assert (first <= second) == (one <= other) or math.isclose(first, second)
    assert 0 <= first <= 1


@pytest.mark.parametrize("glyphs", KINDS)
def test_divergence_grows_to_both_sides_of_zero(glyphs: Glyphs) -> None:
    sign, zero = ("#", "|") if glyphs.ascii else ("█", "│")
    line = text(divergence(3, 1_000, 1_000, 21, glyphs))
    skipped, _, reread = line.partition(zero)
    assert len(line) == 21 and len(skipped) == len(reread) == 10
    assert skipped.endswith(sign * 2) and reread == sign * 10
    assert sign not in text(divergence(0, 0, 1_000, 21, glyphs))
    assert "—" in text(divergence(None, None, 1_000, 21, glyphs))
    dotted = text(divergence(3, None, 1_000, 21, glyphs)).partition(zero)[2]
    assert dotted == (":" if glyphs.ascii else "┄") * 10, "not known is not zero"


@given(st.integers(-(10**9), 10**9), st.integers(3, 40), st.booleans(), st.sampled_from(KINDS))
def test_a_jump_goes_to_the_side_of_its_sign(
    by: int, width: int, stays: bool, glyphs: Glyphs
) -> None:
    drawn = text(jump(by, 10**9, width, glyphs, stays=stays))
    back, _, forward = drawn.partition("|" if glyphs.ascii else "│")
    assert len(back) == len(forward) == (width - 1) // 2
    assert bool(back.strip()) == (by < 0) and bool(forward.strip()) == (by > 0)
    if by:  # whether it is made or not differs without color
        assert drawn != text(jump(by, 10**9, width, glyphs, stays=not stays))


def test_an_unknown_jump_is_not_drawn_and_a_long_one_is_longer() -> None:
    assert jump(None, 1_000, 9, UNICODE) == ()
    assert text(jump(1, 1_000, 9, UNICODE)) == "    │▶   "
    assert text(jump(-1_000, 1_000, 9, UNICODE)) == "◀━━━│    "
    assert text(jump(-1_000, 1_000, 9, UNICODE, stays=True)) == "◁╌╌╌│    "
    assert text(jump(900, 1_000, 9, ASCII)) == "    |===>"


@pytest.mark.parametrize("glyphs", KINDS)
def test_the_way_of_an_offset_is_drawn_on_its_log(glyphs: Glyphs) -> None:
    def drawn(before: int | None, after: int | None) -> str:
        return text(journey((0, 100), before, after, 12, glyphs)).translate(
            str.maketrans("○━◀▶│─", "o=<>|-")
        )

    assert drawn(20, 60) == "|--o===>---|"
    assert drawn(60, 20) == "|--<===o---|"
    assert drawn(50, 50) == "|-----o----|"
    assert drawn(None, 100) == "|--------->|"
    assert drawn(None, None) == "|----------|"
    assert drawn(-5, 30) == "|o==>------|"
    assert text(journey((5, 5), 5, 5, 12, glyphs)) == "—"


def test_a_sum_says_all_its_parts_or_draws_its_share() -> None:
    total = Sum("Keep", [(1_234, "keep", Tone.PLAIN), (0, "skip", Tone.BAD)], 0.5)
    assert [text(line) for line in total.lines(14, UNICODE)] == ["1,234 keep", "███████───────"]
    assert [text(line) for line in total.lines(8, UNICODE)] == ["1,234", "keep"]
    mixed = Sum("Keep", [(1_234, "keep", Tone.PLAIN), (56, "skip", Tone.BAD)], 0.5)
    assert [text(line) for line in mixed.lines(12, UNICODE)] == ["1,234 keep", "56 skip"]
    assert text(mixed.lines(20, UNICODE)[0]) == "1,234 keep  56 skip"
    assert text(Sum("Lost", [(0, "lost", Tone.BAD)], note="none").lines(9, UNICODE)[1]) == "none"


def test_a_sparkline_hides_no_peak() -> None:
    values: list[float | None] = [0.0] * 99
    values[50] = 9.0
    assert text(sparkline(values, 10, UNICODE)).count("█") == 1
    assert text(sparkline([1.0, None, 1.0], 10, UNICODE)) == "█ █"


@pytest.mark.parametrize("glyphs", KINDS)
def test_a_strip_is_full_only_where_all_is_covered(glyphs: Glyphs) -> None:
    shades = glyphs.shades
    assert strip(0, 100, [(0, 50)], 4, glyphs) == shades[-1] * 2 + shades[0] * 2
    assert strip(0, 100, [(0, 99)], 1, glyphs) == shades[-2]
    assert strip(0, 100, [(0, 1)], 1, glyphs) == shades[1]
    assert marker(0, 100, 50, 10) == " " * 5 + "^"
    assert marker(0, 100, 101, 10) == ""


@pytest.mark.parametrize(
    ("source", "target", "marked"),
    [
        (50, 51, "                    ^ both"),
        (30, 70, "     source ^               ^ target"),
        (0, 5, "^ ^ target"),
        (0, 40, "^ source        ^ target"),
        (99, 100, "                                  both ^"),
        (10, 99, "    ^ source                    target ^"),
        (-5, 101, "< source                        target >"),
        (40, None, "                ^ source"),
        (None, None, ""),
    ],
)
def test_marks_have_words_where_there_is_room(
    source: int | None, target: int | None, marked: str
) -> None:
    words = ("source", "target", "both")
    text = markers((0, 100), source, target, 40, words)
    assert text == marked
    assert len(text) <= 40


@given(st.integers(-9, 110), st.integers(-9, 110), st.integers(1, 60))
def test_marks_never_leave_the_strip(source: int, target: int, width: int) -> None:
    text = markers((0, 100), source, target, width, ("source", "target", "both"))
    assert len(text) <= width and any(sign in text for sign in "<^>")


@pytest.mark.parametrize("glyphs", KINDS)
def test_a_log_shows_what_is_mapped_lost_and_waiting(glyphs: Glyphs) -> None:
    full, partly, light, cross, dot = "#+.X-" if glyphs.ascii else "█▓░✗·"
    log = Log(100, 200, spans=((100, 130), (150, 175)), lost=((80, 99),), position=175)
    drawn = text(log_strip(log, 12, glyphs))
    assert drawn == cross * 2 + full * 3 + light * 2 + full * 2 + partly + dot * 2
    assert text(log_strip(Log(None, 5), 12, glyphs)) == "—"
    assert text(log_strip(Log(0, 10), 5, glyphs)) == dot * 5  # nothing is copied yet
    assert text(log_strip(Log(0, 10, position=10), 5, glyphs)) == light * 5
    tones = {cell.tone for cell in log_strip(log, 12, glyphs)}
    assert tones == {Tone.BAD, Tone.OK, Tone.WARN, Tone.MUTED}


@pytest.mark.parametrize("glyphs", KINDS)
def test_a_drawing_of_an_old_value_looks_old(glyphs: Glyphs) -> None:
    old = glyphs.aged(picture_cell(log_bar(5, 10, 8, glyphs, Tone.WARN)))
    assert {part.tone for part in old.parts} == {Tone.MUTED}


@pytest.mark.parametrize("glyphs", KINDS)
def test_a_map_puts_the_worst_first_and_counts_what_it_leaves_out(glyphs: Glyphs) -> None:
    topics = {f"topic-{n:03}": [Severity.OK] * 4 for n in range(100)}
    topics["zebra"] = [Severity.OK, Severity.BAD]
    lines = [text(line) for line in cell_map(topics, 60, 2, glyphs)]
    assert lines[0].startswith("zebra ") and glyphs.status[Severity.BAD] in lines[0]
    shown = sum("topic-" in part for line in lines for part in line.split("   "))
    assert lines[1].endswith(f"and {100 - shown} more")
    assert all(cell_len(line) <= 60 for line in lines)


def test_a_map_counts_the_cells_of_a_large_topic() -> None:
    (line,) = cell_map({"big": [Severity.OK] * 999 + [Severity.BAD]}, 60, 1, UNICODE)
    assert text(line).strip() == "big ✗1 ■999"


def test_a_map_tells_severities_apart_without_color_and_shows_hostile_names_safely() -> None:
    (line,) = cell_map({"a\x1b[31m[/b]": list(Severity)}, 60, 1, UNICODE)
    assert "\x1b" not in text(line)
    cells = text(line).rsplit(" ", 1)[1]
    assert len(set(cells)) == len(Severity)


@pytest.mark.parametrize("glyphs", KINDS)
def test_a_legend_marks_stale_counts(glyphs: Glyphs) -> None:
    counts = [(Severity.OK, "caught-up", 6)]
    old = "~6" if glyphs.ascii else "≈6"
    assert old in text(legend(counts, glyphs, stale=True))
    assert old not in text(legend(counts, glyphs))


@pytest.mark.parametrize("glyphs", KINDS)
def test_phases_of_a_timeline_follow_each_other(glyphs: Glyphs) -> None:
    phases = [Phase(NOON, NOON + 10), Phase(NOON + 10, NOON + 10.1), Phase(NOON + 20), Phase(None)]
    lines = [text(line) for line in timeline(phases, NOON + 40, 40, glyphs)]
    assert [len(line) - len(line.lstrip()) for line in lines] == [0, 10, 20, 0]
    assert [len(line.strip()) for line in lines] == [10, 1, 20, 0]


def test_cells_flow_onto_lines() -> None:
    cells = [Cell("one"), Cell("two"), Cell("three")]
    assert [text(line) for line in flow(cells, 9, 2)] == ["one  two", "three"]
    assert [text(line) for line in flow(cells, 9, 1)] == ["one  two  three"]


def test_a_cell_of_a_table_keeps_its_parts() -> None:
    cell = picture_cell(divergence(1, 1, 1, 5, UNICODE))
    assert cell.text == "".join(part.text for part in cell.parts)


def test_a_name_in_a_frame_is_no_markup() -> None:
    async def steps(console: ConsoleDriver) -> None:
        console.app.push_screen(_Framed())
        await console.settle()
        assert "a[/b] \\x1b" in console.text and "[red]5" in console.text

    drive(steps)


class _Framed(ConsoleScreen):
    def body(self) -> Iterable[Widget]:
        yield Tile("a[/b] \x1b")
        yield Panel("x", note="[red]5")


class Gallery(ConsoleScreen):
    """Every frame and every shape."""

    def body(self) -> Iterator[Widget]:
        with Horizontal(id="tiles"):
            yield Tile("Tile: lag", id="first")
            yield Tile("Tile: coverage", id="second")
        yield Tile("Divergence, on one scale", id="third")
        yield Tile("CellMap and legend", id="fourth")
        yield Tile("Timeline", id="fifth")
        yield Chart("Chart", id="sixth")

    def on_mount(self) -> None:
        """Fill the frames."""
        for name in ("first", "second", "third", "fourth", "fifth"):
            self.query_one(f"#{name}", Tile).styles.height = "auto"
        self.query_one("#tiles").styles.height = "auto"
        self.query_one(Chart).styles.height = 8

    def show_view(self, view: object) -> None:
        """Draw all of them."""
        glyphs = ASCII if self.app.ascii else UNICODE  # type: ignore[attr-defined]
        wave = [50 + 50 * math.sin(n / 4) if n % 30 else None for n in range(90)]
        self._show(
            "first", [(Cell("179", Tone.HEADING), Cell(" records")), sparkline(wave, 30, glyphs)]
        )
        covered = [bar(share, 30, glyphs) for share in (0.999, 0.4, None)]
        self._show("second", covered, Severity.WARN)
        rows = [(40, 269), (0, 3), (10_909, 0), (None, None)]
        self._show("third", [divergence(*row, 10_909, 41, glyphs) for row in rows], Severity.BAD)
        topics = {"clicks": [Severity.OK] * 5, "orders": list(Severity), "big": [Severity.OK] * 50}
        counts = [(Severity.BAD, "stopped", 1), (Severity.INFO, "behind", 1)]
        self._show("fourth", [*cell_map(topics, 70, 1, glyphs), legend(counts, glyphs)])
        phases = [Phase(0, 16), Phase(16, 24), Phase(24, tone=Tone.INFO), Phase(None)]
        self._show("fifth", timeline(phases, 35, 40, glyphs))
        points = [(NOON - 300 + 3 * n, value) for n, value in enumerate(wave)]
        self.query_one(Chart).show(points, 5)

    def _show(self, name: str, lines: Sequence[Line], severity: Severity | None = None) -> None:
        self.query_one(f"#{name}", Tile).show(lines, severity)


@pytest.mark.slow
def test_all_of_them_look_as_they_did() -> None:
    async def opens(console: ConsoleDriver) -> None:
        console.app.push_screen(Gallery())
        await console.settle()

    sizes = (80, 24), (120, 40)
    compare_screen(opens, usual(), "visuals", sizes=sizes, themes=THEMES, themes_at=sizes[1])


def test_a_strip_of_many_spans_is_as_if_each_cell_looked_at_all() -> None:
    spans = [(at, at + 1 + at % 7) for at in range(3, 2_000, 9)]
    log = Log(0, 2_000, spans, (), 1_900)
    mapped = {offset for low, high in spans for offset in range(low, high)}
    text = "".join(cell.text for cell in log_strip(log, 100, UNICODE))
    for number, sign in enumerate(text):
        cell = set(range(20 * number, 20 * number + 20))
        waits = 20 * number >= 1_900
        assert sign == ("·" if waits else "▓" if cell & mapped else "░"), number
