"""What views of the last minutes say together: rates, trends, series for plots."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from k2ktui.engine.trend import Trend
from k2ktui.watch.model import PartitionRow, Point, Totals

KEPT = 240
_RATE_WINDOW_S = 30.0
_LAG_WINDOW_S = 60.0

Key = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Sample:
    """One partition at one moment; ``rate`` is source offsets copied a second."""

    at: float
    lag_records: int | None
    rate: float | None


@dataclass(slots=True)
class _Partition:
    lag: Trend = field(default_factory=lambda: Trend(_LAG_WINDOW_S))
    position: Trend = field(default_factory=lambda: Trend(_RATE_WINDOW_S))


@dataclass(frozen=True, slots=True)
class _Column:
    """All partitions at one moment; NaN is unknown."""

    at: float
    index: dict[Key, int]
    lag: NDArray[np.float64]
    rate: NDArray[np.float64]


class History:
    """Remembers the last :data:`KEPT` views; used by one thread, but for :meth:`series`."""

    def __init__(self) -> None:
        self._partitions: dict[Key, _Partition] = {}
        self._columns: deque[_Column] = deque(maxlen=KEPT)
        self._index: dict[Key, int] = {}
        self._total_lag = Trend(_LAG_WINDOW_S)
        self._points: deque[Point] = deque(maxlen=KEPT)

    @property
    def points(self) -> tuple[Point, ...]:
        """Totals so far, the oldest first."""
        return tuple(self._points)

    def add(self, at: float, rows: Iterable[PartitionRow]) -> tuple[PartitionRow, ...]:
        """Take in rows of one moment, ``at`` increasing; return them with rates and trends."""
        found = tuple(self._with_trend(at, row) for row in rows)
        keys = [row.key for row in found]
        if list(self._index) != keys:
            self._index = {key: number for number, key in enumerate(keys)}
            self._partitions = {k: v for k, v in self._partitions.items() if k in self._index}
        lag = np.array([_float(row.status.lag_records) for row in found])
        rate = np.array([_float(row.rate) for row in found])
        self._columns.append(_Column(at, self._index, lag, rate))
        return found

    def again(self, rows: Iterable[PartitionRow]) -> tuple[PartitionRow, ...]:
        """Return rows of a moment that was taken in already, with rates and trends."""
        return tuple(self._trended(row) for row in rows)

    def add_totals(self, at: float, totals: Totals) -> Totals:
        """Take in totals, and return them with their trend."""
        self._total_lag.add(at, totals.lag_records)
        point = Point(at, totals.lag_records, totals.lag_seconds, totals.rate, totals.coverage)
        self._points.append(point)
        return self.totals_again(totals)

    def totals_again(self, totals: Totals) -> Totals:
        """Return totals of a moment that was taken in already, with their trend."""
        direction = self._total_lag.direction
        return replace(totals, direction=direction, eta_s=self._total_lag.seconds_to(0.0))

    def series(self, topic: str, partition: int) -> list[Sample]:
        """Return what is remembered of one partition, the oldest first; any thread may ask."""
        found = []
        for column in tuple(self._columns):
            number = column.index.get((topic, partition))
            if number is not None:
                lag, rate = column.lag[number], column.rate[number]
                found.append(
                    Sample(
                        column.at,
                        None if np.isnan(lag) else int(lag),
                        None if np.isnan(rate) else float(rate),
                    )
                )
        return found

    def _with_trend(self, at: float, row: PartitionRow) -> PartitionRow:
        kept = self._partitions.setdefault(row.key, _Partition())
        kept.lag.add(at, row.status.lag_records)
        kept.position.add(at, row.status.position)
        return self._trended(row)

    def _trended(self, row: PartitionRow) -> PartitionRow:
        kept = self._partitions.get(row.key)
        if kept is None:
            return row
        slope = kept.position.slope
        return replace(
            row,
            rate=None if slope is None else max(0.0, slope),
            direction=kept.lag.direction,
            eta_s=kept.lag.seconds_to(0.0),
        )


def _float(value: float | None) -> float:
    return float("nan") if value is None else float(value)
