"""Where a value is heading: lag, coverage and divergence over the last minutes."""

from __future__ import annotations

from collections import deque
from enum import StrEnum


class Direction(StrEnum):
    """Where a value is heading; unknown until it was seen twice."""

    RISING = "rising"
    FALLING = "falling"
    STEADY = "steady"
    UNKNOWN = "unknown"


class Trend:
    """Samples of one value within a window, and the line of least squares through them.

    Args:
        window_s: how far to look back.
        steady: share of the value's own mean below which a change over the window is none.
    """

    def __init__(self, window_s: float = 60.0, steady: float = 0.02) -> None:
        self._window_s = window_s
        self._steady = steady
        self._samples: deque[tuple[float, float]] = deque()

    def add(self, at: float, value: float | None) -> None:
        """Add a sample taken at ``at`` (seconds, increasing); None is no sample."""
        while self._samples and self._samples[0][0] < at - self._window_s:
            self._samples.popleft()
        if value is not None:
            self._samples.append((at, value))

    @property
    def slope(self) -> float | None:
        """Change a second, None when it is not known."""
        if len(self._samples) < 2 or self._samples[0][0] == self._samples[-1][0]:
            return None
        n = len(self._samples)
        mean_t = sum(t for t, _ in self._samples) / n
        mean_v = sum(v for _, v in self._samples) / n
        over = sum((t - mean_t) * (v - mean_v) for t, v in self._samples)
        under = sum((t - mean_t) ** 2 for t, _ in self._samples)
        return over / under

    @property
    def direction(self) -> Direction:
        """Where the value is heading."""
        slope = self.slope
        if slope is None:
            return Direction.UNKNOWN
        span = self._samples[-1][0] - self._samples[0][0]
        mean = sum(abs(v) for _, v in self._samples) / len(self._samples)
        if abs(slope * span) <= self._steady * mean:
            return Direction.STEADY
        return Direction.RISING if slope > 0 else Direction.FALLING

    def seconds_to(self, value: float) -> float | None:
        """Return when the value is reached at this pace; None if it is not heading there."""
        slope = self.slope
        if slope is None or not self._samples:
            return None
        missing = value - self._samples[-1][1]
        if missing == 0:
            return 0.0
        if slope == 0 or (missing > 0) != (slope > 0):
            return None
        return missing / slope
