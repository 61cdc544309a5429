"""Rates, trends and plot series, computed from the views of the last minutes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from k2ktui.watch.model import Direction, PartitionRow, Point, Totals

# Every moment of the last minutes is kept; of the hour before, one in each step.
RECENT_S, KEPT_S, STEP_S = 300.0, 3600.0, 15.0
_RATE_WINDOW_S = 30.0
_LAG_WINDOW_S = 60.0

Values = NDArray[np.float64]
Rows = tuple[PartitionRow, ...]
Key = tuple[str, int]
Trend = tuple[float | None, Direction, float | None]
_NONE: Trend = (None, Direction.UNKNOWN, None)


@dataclass(frozen=True, slots=True)
class Sample:
    """One partition at one moment; ``rate`` is source offsets copied per second."""

    at: float
    lag_records: int | None
    rate: float | None


@dataclass(frozen=True, slots=True)
class _Column:
    """All partitions at one moment; NaN is unknown."""

    index: dict[Key, int]
    at: float
    lag: Values
    rate: NDArray[np.float32]


class _Moment(Protocol):
    @property
    def at(self) -> float: ...


M = TypeVar("M", bound=_Moment)


class ThinnedSeries(Generic[M]):
    """The last hour of a series: complete for some minutes, thinned out before that."""

    def __init__(self) -> None:
        self._recent: deque[M] = deque()
        self._older: deque[M] = deque()

    def add(self, moment: M) -> None:
        """Add a moment; its time is later than that of all others."""
        self._recent.append(moment)
        while self._recent[0].at < moment.at - RECENT_S:
            oldest = self._recent.popleft()
            if not self._older or oldest.at >= self._older[-1].at + STEP_S:
                self._older.append(oldest)
        while self._older and self._older[0].at < moment.at - KEPT_S:
            self._older.popleft()

    def __iter__(self) -> Iterator[M]:
        return iter((*self._older, *self._recent))


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
    """

    def __init__(self, count: int, window_s: float = 60.0, steady: float = 0.02) -> None:
        self._count, self._window_s, self._steady = count, window_s, steady
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


class History:
    """Keeps views of the last hour; single-threaded, except for :meth:`series`."""

    def __init__(self) -> None:
        self._index: dict[Key, int] = {}
        self._lag = Trends(0, _LAG_WINDOW_S)
        self._position = Trends(0, _RATE_WINDOW_S)
        self._lines: tuple[TrendLines, TrendLines] = (self._lag.lines(), self._position.lines())
        self._columns: ThinnedSeries[_Column] = ThinnedSeries()
        self._shown: dict[Key, tuple[PartitionRow, PartitionRow]] = {}
        # Rows that have trends, these, and the lines that they are from.
        self._last: tuple[Sequence[PartitionRow], Rows, TrendLines, TrendLines] | None = None
        self._values: tuple[Sequence[PartitionRow], Values, Values] | None = None
        self._total_lag = Trends(1, _LAG_WINDOW_S)
        self._points: ThinnedSeries[Point] = ThinnedSeries()

    @property
    def points(self) -> tuple[Point, ...]:
        """Totals so far, the oldest first."""
        return tuple(self._points)

    def add(self, at: float, rows: Sequence[PartitionRow]) -> Rows:
        """Add rows of one moment, ``at`` increasing; return them with rates and trends."""
        if self._values is None or self._values[0] is not rows:
            self._arrange([row.key for row in rows])
            lag = _array([row.status.lag_records for row in rows])
            self._values = (rows, lag, _array([row.status.position for row in rows]))
        _, lag, position = self._values
        self._lag.add(at, lag)
        self._position.add(at, position)
        self._lines = (self._lag.lines(), self._position.lines())
        rate = np.maximum(0.0, self._lines[1].slope).astype(np.float32)
        self._columns.add(_Column(self._index, at, lag, rate))
        return self.with_trends(rows)

    def with_trends(self, rows: Sequence[PartitionRow]) -> Rows:
        """Return rows of a moment that was already added, with rates and trends."""
        (lag, position), last = self._lines, self._last
        if last and last[0] is rows and last[2].equals(lag) and last[3].equals(position):
            return last[1]
        slopes, left = _list(np.maximum(0.0, position.slope)), _list(lag.to_zero)
        trends = {key: (slopes[n], lag.directions[n], left[n]) for key, n in self._index.items()}
        self._last = rows, self._with(rows, trends), lag, position
        return self._last[1]

    def without_trends(self, rows: Sequence[PartitionRow]) -> Rows:
        """Return rows without rates and trends, because their inputs were not read this time."""
        self._last = None
        return self._with(rows, {})

    def _with(self, rows: Sequence[PartitionRow], trends: Mapping[Key, Trend]) -> Rows:
        shown: dict[Key, tuple[PartitionRow, PartitionRow]] = {}
        for row in rows:
            trend = trends.get(row.key, _NONE)
            before = self._shown.get(row.key)
            # An unchanged row stays the same object, so a screen can skip it by identity.
            if before and before[0] is row and _trend(before[1]) == trend:
                shown[row.key] = before
            else:
                rate, direction, eta_s = trend
                shown[row.key] = row, replace(row, rate=rate, direction=direction, eta_s=eta_s)
        self._shown = shown
        return tuple(row for _, row in shown.values())

    def add_totals(self, at: float, totals: Totals) -> Totals:
        """Add totals, and return them with their trend."""
        self._total_lag.add(at, _array([totals.lag_records]))
        point = Point(at, totals.lag_records, totals.lag_seconds, totals.rate, totals.coverage)
        self._points.add(point)
        return self.totals_with_trend(totals)

    def totals_with_trend(self, totals: Totals) -> Totals:
        """Return totals of a moment that was already added, with their trend."""
        lines = self._total_lag.lines()
        return replace(totals, direction=lines.directions[0], eta_s=_list(lines.to_zero)[0])

    def series(self, topic: str, partition: int) -> list[Sample]:
        """Return the samples kept of one partition, the oldest first; thread-safe."""
        samples = []
        for column in tuple(self._columns):
            number = column.index.get((topic, partition))
            if number is not None:
                lag, rate = _list(column.lag[number : number + 1]), column.rate[number]
                left = None if lag[0] is None else int(lag[0])
                samples.append(Sample(column.at, left, None if np.isnan(rate) else float(rate)))
        return samples

    def _arrange(self, keys: list[Key]) -> None:
        if list(self._index) == keys:
            return
        places = np.array([self._index.get(key, -1) for key in keys], dtype=np.int64)
        self._lag.rearrange(places)
        self._position.rearrange(places)
        self._index = {key: number for number, key in enumerate(keys)}


def _trend(row: PartitionRow) -> Trend:
    return row.rate, row.direction, row.eta_s


def _array(values: Sequence[float | None]) -> Values:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def _list(values: Values) -> list[float | None]:
    return [None if np.isnan(value) else value for value in values.tolist()]
