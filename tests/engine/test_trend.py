"""Trends against lines whose slope is known."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2ktui.engine.trend import Direction, Trend


@given(st.floats(-1e4, 1e4), st.floats(-1e6, 1e6), st.integers(2, 50))
def test_the_slope_of_a_line(slope: float, start: float, samples: int) -> None:
    trend = Trend(window_s=1000)
    for t in range(samples):
        trend.add(t, start + slope * t)
    assert trend.slope == pytest.approx(slope, abs=1e-3)


def test_unknown_until_seen_twice() -> None:
    trend = Trend()
    assert (trend.slope, trend.direction, trend.seconds_to(0)) == (None, Direction.UNKNOWN, None)
    trend.add(0, 5)
    trend.add(1, None)
    assert trend.direction is Direction.UNKNOWN


def test_old_samples_do_not_count() -> None:
    trend = Trend(window_s=10)
    for t in range(20):
        trend.add(t, 100 - t)
    for t in range(20, 40):
        trend.add(t, 80.0)
    assert trend.direction is Direction.STEADY


def test_when_it_gets_there() -> None:
    trend = Trend()
    for t in range(5):
        trend.add(t, 100 - 10 * t)
    assert trend.direction is Direction.FALLING
    assert trend.seconds_to(0) == pytest.approx(6)
    assert trend.seconds_to(1000) is None
