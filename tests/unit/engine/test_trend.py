"""Trends against lines whose slope is known."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2ktui.engine.trend import Direction, Trends


def seen(values: Iterable[float | None], window_s: float = 1000) -> Trends:
    trends = Trends(1, window_s)
    for at, value in enumerate(values):
        trends.add(at, np.array([math.nan if value is None else value]))
    return trends


@given(st.floats(-1e4, 1e4), st.floats(-1e6, 1e6), st.integers(2, 50))
def test_the_slope_of_a_line(slope: float, start: float, samples: int) -> None:
    lines = seen(start + slope * t for t in range(samples)).lines()
    assert lines.slope[0] == pytest.approx(slope, abs=1e-3)


@given(st.lists(st.one_of(st.none(), st.floats(0, 1e9)), max_size=12))
def test_any_samples_give_an_answer(values: list[float | None]) -> None:
    lines = seen(values).lines()
    known = [value for value in values if value is not None]
    assert math.isnan(lines.slope[0]) == (len(known) < 2)
    assert (lines.directions[0] is Direction.UNKNOWN) == (len(known) < 2)


def test_unknown_until_seen_twice() -> None:
    lines = seen([5, None]).lines()
    assert lines.directions == [Direction.UNKNOWN]
    assert math.isnan(lines.to_zero[0])


def test_old_samples_do_not_count() -> None:
    trends = seen([*(100 - t for t in range(20)), *[80.0] * 20], window_s=10)
    assert trends.lines().directions == [Direction.STEADY]


def test_what_goes_up_and_down_heads_nowhere() -> None:
    assert seen([100, 20, 90, 10, 95, 15, 80]).lines().directions == [Direction.STEADY]


def test_when_it_gets_there() -> None:
    lines = seen(100 - 10 * t for t in range(5)).lines()
    assert lines.directions == [Direction.FALLING]
    assert lines.to_zero[0] == pytest.approx(6)
    assert math.isnan(seen(range(5)).lines().to_zero[0])
    assert seen([0, 0]).lines().to_zero[0] == 0


def test_values_keep_their_samples_when_others_come_and_go() -> None:
    trends = Trends(2)
    trends.add(0, np.array([10.0, 100.0]))
    trends.rearrange(np.array([1, -1]))
    trends.add(1, np.array([90.0, 5.0]))
    lines = trends.lines()
    assert lines.slope[0] == pytest.approx(-10)
    assert math.isnan(lines.slope[1])


def test_the_rate_of_what_does_not_move_is_exactly_zero() -> None:
    trends = Trends(2)
    for number in range(7):
        trends.add(1_795_262_400.0 + 5.1 * number, np.array([1_000_003.0, np.nan]))
    assert trends.lines().slope[0] == 0.0
    assert trends.lines().directions == [Direction.STEADY, Direction.UNKNOWN]
