"""Rates, trends and plot series, computed from the views of the last minutes."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from k2ktui.engine.moves.groups import GroupRow
from k2ktui.engine.moves.lags import NO_LAG, GroupLag
from k2ktui.engine.moves.ratings import GroupSummary
from k2ktui.engine.trend import Direction, TrendLines, Trends, Values
from k2ktui.watch.model import PartitionRow, Point, Totals

# Every moment of the last minutes is kept; of the hour before, one in each step.
RECENT_S, KEPT_S, STEP_S = 300.0, 3600.0, 15.0
_RATE_WINDOW_S = 30.0
_LAG_WINDOW_S = 60.0

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
class GroupSample:
    """The lag of a group at one moment."""

    at: float
    lag_records: int | None


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


GroupKey = tuple[str, str, int, str, int | None]
K = TypeVar("K", bound=Hashable)
# A partition with this part of its group's lag decides when the group has caught up.
_GROUP_WINDOW_S, _GROUP_LEAST_S, _PART = 120.0, 30.0, 0.1
_NO_TREND: tuple[Direction, float | None] = (Direction.UNKNOWN, None)


class _LagTrends(Generic[K]):
    """The trends of lags by key; those of some polls, as groups commit every few seconds."""

    def __init__(self) -> None:
        self.index: dict[K, int] = {}
        self._trends = Trends(0, _GROUP_WINDOW_S, least_s=_GROUP_LEAST_S)

    def add(self, at: float, lags: Mapping[K, int | None]) -> Values:
        """Add the lags of one moment, ``at`` increasing."""
        keys = list(lags)
        if list(self.index) != keys:
            places = np.array([self.index.get(key, -1) for key in keys], dtype=np.int64)
            self._trends.rearrange(places)
            self.index = {key: number for number, key in enumerate(keys)}
        values = _array(list(lags.values()))
        self._trends.add(at, values)
        return values

    def trends(self) -> dict[K, tuple[Direction, float | None]]:
        """Return the direction of each lag, and the seconds until it is 0."""
        lines = self._trends.lines()
        return dict(
            zip(self.index, zip(lines.directions, _list(lines.to_zero), strict=True), strict=True)
        )


@dataclass(frozen=True, slots=True)
class _GroupColumn:
    """The lag of all groups at one moment; NaN is unknown."""

    index: dict[str, int]
    at: float
    lag: Values


class GroupHistory:
    """Keeps the lags of groups of the last hour; single-threaded, except for :meth:`series`."""

    def __init__(self) -> None:
        self._rows: _LagTrends[GroupKey] = _LagTrends()
        self._groups: _LagTrends[str] = _LagTrends()
        self._columns: ThinnedSeries[_GroupColumn] = ThinnedSeries()
        self._shown: dict[GroupKey, tuple[GroupRow, GroupRow]] = {}
        self._sums: tuple[GroupSummary, ...] = ()

    def add(
        self, at: float, lags: Mapping[GroupKey, int | None], sums: Mapping[str, int | None]
    ) -> None:
        """Add the lags of one moment by position and by group, ``at`` increasing."""
        self._rows.add(at, lags)
        values = self._groups.add(at, sums)
        self._columns.add(_GroupColumn(self._groups.index, at, values))

    def with_lags(
        self, rows: Sequence[GroupRow], lags: Sequence[GroupLag], *, trends: bool
    ) -> tuple[GroupRow, ...]:
        """Return rows with their lags, and with the trends of those that were added."""
        known = self._rows.trends() if trends else {}
        shown = {}
        for row, lag in zip(rows, lags, strict=True):
            key = group_key(row)
            values = (lag.records, lag.seconds, *known.get(key, _NO_TREND))
            before = self._shown.get(key)
            # An unchanged row stays the same object, so a screen can skip it by identity.
            if before and before[0] is row and _lag_of(before[1]) == values:
                shown[key] = before
                continue
            records, seconds, direction, eta_s = values
            shown[key] = (
                row,
                replace(row, lag_records=records, lag_s=seconds, direction=direction, eta_s=eta_s),
            )
        self._shown = shown
        return tuple(row for _, row in shown.values())

    def sums_with_lags(
        self,
        groups: Sequence[GroupSummary],
        sums: Mapping[str, GroupLag],
        rows: Sequence[GroupRow],
        *,
        trends: bool,
    ) -> tuple[GroupSummary, ...]:
        """Return groups with their lags, and with the trends of those that were added.

        Args:
            groups: the groups.
            sums: their lags.
            rows: their positions, with lags.
            trends: whether the trends count.
        """
        trends_of = self._groups.trends() if trends else {}
        slowest: dict[str, float] = {}
        for row in rows:
            if row.eta_s and (row.lag_records or 0) >= _PART * (sums[row.group].records or 0):
                slowest[row.group] = max(row.eta_s, slowest.get(row.group, 0.0))
        shown = tuple(
            _with_lag(
                group,
                sums.get(group.group, NO_LAG),
                trends_of.get(group.group, _NO_TREND),
                slowest.get(group.group, 0.0),
            )
            for group in groups
        )
        if shown != self._sums:
            self._sums = shown
        return self._sums

    def series(self, group: str) -> list[GroupSample]:
        """Return the samples kept of one group, the oldest first; thread-safe."""
        samples = []
        for column in tuple(self._columns):
            number = column.index.get(group)
            if number is not None:
                (lag,) = _list(column.lag[number : number + 1])
                samples.append(GroupSample(column.at, None if lag is None else int(lag)))
        return samples


def group_key(row: GroupRow) -> GroupKey:
    """Return what identifies a position of a group."""
    return row.group, row.topic, row.partition, row.target_topic, row.target_partition


def _lag_of(row: GroupRow) -> tuple[object, ...]:
    return row.lag_records, row.lag_s, row.direction, row.eta_s


def _with_lag(
    group: GroupSummary,
    lag: GroupLag,
    trend: tuple[Direction, float | None],
    slowest_s: float,
) -> GroupSummary:
    """Return a group with its lag; it has caught up when its slowest large part has."""
    direction, eta_s = trend
    eta_s = None if eta_s is None else max(eta_s, slowest_s)
    moved_eta_s = None if group.moved else eta_s
    if moved_eta_s is not None and group.moved_rereads:
        more = group.moved_rereads / lag.records if lag.records else None
        moved_eta_s = None if more is None else moved_eta_s * (1 + more)
    return replace(
        group,
        lag=lag.records,
        lag_s=lag.seconds,
        untimed=lag.untimed,
        direction=direction,
        eta_s=eta_s,
        moved_eta_s=moved_eta_s,
    )
