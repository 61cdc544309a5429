"""Whether values rise or fall, and when they will be 0, from samples of the last minutes."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]


class Direction(StrEnum):
    """Direction of a value; unknown until there are two samples."""

    RISING = "rising"
    FALLING = "falling"
    STEADY = "steady"
    UNKNOWN = "unknown"


_DIRECTIONS = (Direction.UNKNOWN, Direction.STEADY, Direction.RISING, Direction.FALLING)


@dataclass(frozen=True, slots=True)
class TrendLines:
    """The least-squares line through the samples of each value; NaN is unknown.

    Attributes:
        slope: change per second.
        directions: direction of each value.
        to_zero: seconds until the value is 0 at this rate; NaN if it is not falling.
    """

    slope: Values
    directions: Sequence[Direction]
    to_zero: Values

    def equals(self, other: TrendLines) -> bool:
        """Whether all lines are the same; unknown values are equal."""
        return (
            np.array_equal(self.slope, other.slope, equal_nan=True)
            and np.array_equal(self.to_zero, other.to_zero, equal_nan=True)
            and self.directions == other.directions
        )


class Trends:
    """Samples of several values within a time window.

    Args:
        count: number of values.
        window_s: length of the window in seconds.
        steady: a change over the window below this share of the value's mean counts as steady; so
            does one below twice the standard deviation from the line (an oscillation).
        least_s: a value is unknown until its samples cover this time.
    """

    def __init__(
        self, count: int, window_s: float = 60.0, steady: float = 0.02, least_s: float = 0.0
    ) -> None:
        self._count, self._window_s, self._steady = count, window_s, steady
        self._least_s = least_s
        self._samples: deque[tuple[float, Values]] = deque()

    def add(self, at: float, values: Values) -> None:
        """Add one sample per value, taken at ``at`` (seconds, increasing); NaN means none."""
        while self._samples and self._samples[0][0] < at - self._window_s:
            self._samples.popleft()
        self._samples.append((at, values))

    def rearrange(self, places: NDArray[np.int64]) -> None:
        """Reorder the values: each takes the samples at its index in ``places``; -1 is new."""
        self._count = len(places)
        values = ((at, np.append(sample, np.nan)[places]) for at, sample in self._samples)
        self._samples = deque(values)

    def lines(self) -> TrendLines:
        """Return the lines through the samples."""
        if len(self._samples) < 2:
            unknown = np.full(self._count, np.nan)
            return TrendLines(unknown, [Direction.UNKNOWN] * self._count, unknown)
        last = self._samples[-1][0]
        times = np.array([at - last for at, _ in self._samples])[:, None]
        values = np.array([sample for _, sample in self._samples])
        known = ~np.isnan(values)
        with np.errstate(invalid="ignore", divide="ignore"):
            number = known.sum(axis=0)
            values = np.where(known, values, 0.0)
            mean = values.sum(axis=0) / number
            away = np.where(known, times - (times * known).sum(axis=0) / number, 0.0)
            # From the mean: the slope of a value that does not change is then exactly 0.
            from_mean = np.where(known, values - mean, 0.0)
            slope = (away * from_mean).sum(axis=0) / (away**2).sum(axis=0)
            known_s = np.where(known, times, -np.inf).max(axis=0) - np.where(
                known, times, np.inf
            ).min(axis=0)
            slope = np.where(known_s >= self._least_s, slope, np.nan)
            off = np.where(known, from_mean - slope * away, 0.0)
            noise = np.sqrt((off**2).sum(axis=0) / number)
            least = np.maximum(self._steady * np.abs(values).sum(axis=0) / number, 2 * noise)
            change = slope * -times[0, 0]
            heading = np.where(change > 0, 2, 3)
            heading = np.where(np.abs(change) <= least, 1, heading)
            heading = np.where(np.isfinite(slope), heading, 0)
            to_zero = np.where(heading == 3, -values[-1] / slope, np.nan)
            to_zero = np.where(known[-1] & (values[-1] == 0), 0.0, to_zero)
        slope = np.where(np.isfinite(slope), slope, np.nan)
        return TrendLines(slope, [_DIRECTIONS[n] for n in heading.tolist()], to_zero)
