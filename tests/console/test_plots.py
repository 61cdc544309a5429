"""Charts: clock times, whole numbers, and a window of 5, 15 or 60 minutes."""

from __future__ import annotations

import time

import pytest

from k2ktui.console.visuals.chart import (
    EVERY_S,
    STILL_S,
    Points,
    chart_lines,
    clock_ticks,
    scale_end,
    stays,
)
from k2ktui.present.formatting import ASCII, UNICODE, Glyphs
from k2ktui.watch.history import KEPT_S, History
from k2ktui.watch.model import Totals
from tests.support.console.driver import ConsoleDriver, drive
from tests.support.console.views import NOON, usual


@pytest.mark.parametrize("largest", [0, 1, 1.4, 3, 9, 10, 11, 99, 1_200, 999_999_999])
def test_the_scale_ends_at_a_round_even_number(largest: float) -> None:
    end = scale_end(largest)
    assert largest <= end <= max(2, 2.5 * largest)
    assert end % 2 == 0 and str(end).strip("0") in ("1", "2", "4", "6", "8")


@pytest.mark.parametrize("minutes", [5, 15, 60])
@pytest.mark.parametrize("most", [2, 4, 8])
def test_times_are_round_minutes(minutes: int, most: int) -> None:
    last = NOON + 17.5
    ticks = clock_ticks(last - 60 * minutes, last, most)
    assert 1 <= len(ticks) <= most
    assert all(at % 60 == 0 and last - 60 * minutes <= at <= last for at in ticks)


def still(*seconds: float, value: float | None = 3.0) -> tuple[tuple[float, float | None], ...]:
    """Points of these seconds, all with the same value."""
    return tuple((NOON + at, value) for at in seconds)


def test_a_chart_stays_while_nothing_changes_and_moves_after_a_while() -> None:
    drawn = still(0, 5)
    assert stays(drawn, still(0, 5))
    assert stays(drawn, still(0, 5, 10, 15))
    assert not stays(drawn, still(0, 5, 5 + STILL_S))


def test_a_chart_is_drawn_at_most_every_five_seconds() -> None:
    drawn = still(0, 2)
    assert stays(drawn, (*drawn, *still(4, value=9.0)))
    assert stays(drawn, (*drawn, *still(4, value=9.0), *still(6, value=8.0)))
    assert not stays(drawn, (*drawn, *still(4, value=9.0), *still(2 + EVERY_S, value=3.0)))


@pytest.mark.parametrize(
    "points",
    [
        pytest.param((*still(0, 5), *still(10, value=4.0)), id="more"),
        pytest.param((*still(0, 5), *still(10, value=4.0), *still(15)), id="a peak between"),
        pytest.param((*still(0, 5), *still(10, value=None)), id="unknown"),
        pytest.param(still(0), id="an earlier frame of a replay"),
        pytest.param((*still(0), *still(5, value=4.0)), id="other values of the same time"),
        pytest.param((), id="nothing"),
    ],
)
def test_a_chart_is_drawn_again_when_anything_changes(points: Points) -> None:
    assert not stays(still(0, 5), points)


def test_a_chart_that_waits_for_values_is_drawn_again() -> None:
    assert not stays((), still(0))
    assert not stays(still(0), still(0, 2))
    assert not stays((*still(0, value=None), *still(5)), still(0, 5, 10))


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
def test_a_chart_has_clock_times_and_whole_numbers(glyphs: Glyphs) -> None:
    points = [(NOON - 5 * n, float(n % 3)) for n in range(60, -1, -1)]
    text = "\n".join(
        "".join(cell.text for cell in line) for line in chart_lines(points, 50, 12, glyphs)
    )
    assert "11:56" in text and "12:00" in text
    assert "." not in text
    assert not glyphs.ascii or text.isascii()


def test_a_font_without_braille_gets_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [(NOON - 5 * n, float(n % 3)) for n in range(60, -1, -1)]
    for term, sign, other in (("linux", "█", "⣿"), ("xterm", "⣿", "█")):
        monkeypatch.setenv("TERM", term)
        text = "".join(cell.text for line in chart_lines(points, 50, 12, UNICODE) for cell in line)
        assert sign in text and other not in text


def test_w_changes_the_window_of_all_charts() -> None:
    made = usual()
    for _ in range(12):
        made.view()
        made.now += 60

    async def flow(console: ConsoleDriver) -> None:
        assert "5 min, UTC" in console.text
        await console.press("w")
        assert "15 min, UTC" in console.text
        await console.press("2", "enter")
        assert "15 min, UTC" in console.text
        await console.press("w")
        assert "60 min, UTC" in console.text
        clock = time.strftime("%H:", time.gmtime(made.now))
        assert clock in console.panel("Lag, records")
        await console.press("w")
        assert "5 min, UTC" in console.text

    drive(flow, made, size=(120, 44))


def test_an_hour_is_kept_in_few_points() -> None:
    history = History()
    for number in range(2 * 1800):
        history.add_totals(NOON + 2 * number, Totals(lag_records=number))
    times = [point.at for point in history.points]
    assert times == sorted(times)
    assert len(times) < 400
    assert KEPT_S - 30 <= times[-1] - times[0] <= KEPT_S
    assert times[-100:] == [NOON + 2 * n for n in range(3500, 3600)]
