"""Figures of one source partition, and what metrics read from them.

Each reader gets the figures, the time, and whether the figures of the last lap are still current.
"""

from __future__ import annotations

from dataclasses import dataclass

from k2ktui.engine.records.gaps import lost_gaps
from k2ktui.engine.records.state import Position
from k2ktui.engine.status import count_lag
from k2ktui.replication.copying.slot_task import FaultKind, SourceLogBounds
from k2ktui.replication.telemetry.metric import Labels


@dataclass(slots=True)
class PartitionFigures:
    """Figures of one source partition; times are epoch seconds, None is unknown."""

    labels: Labels
    position: int | None = None
    lost: int = 0
    log_bounds: SourceLogBounds | None = None
    discovered_end: int | None = None
    held_back: int | None = None
    at: float | None = None
    fault: FaultKind | None = None
    is_held: bool = False
    discovered_start: int | None = None

    def move(self, position: Position) -> None:
        """Take a newer position."""
        self.position = position.offset
        self.lost = sum(gap.end - gap.first for gap in lost_gaps(position.gaps))


def start_offset(row: PartitionFigures, now: float, current: bool) -> float | None:
    """Return the log start offset of the last lap; None if it is unknown or old.

    That of a held partition, which has no laps, comes from topic discovery.
    """
    if row.is_held:
        return row.discovered_start
    return (
        row.log_bounds.start if current and row.log_bounds and row.log_bounds.start >= 0 else None
    )


def end_offset(row: PartitionFigures, now: float, current: bool) -> int | None:
    """Return the end that matches the position.

    The end from the slot's last lap is of the same moment as the position; with a later end,
    records copied since would count as lag. A stopped partition has no current lap: its end comes
    from topic discovery.
    """
    if row.log_bounds is not None and (current or row.discovered_end is None):
        return row.log_bounds.end
    return row.discovered_end


def lag(row: PartitionFigures, now: float, current: bool) -> int | None:
    """Return the source offsets between position and end; None if unknown, or if it is held."""
    return None if row.is_held else count_lag(row.position, end_offset(row, now, current))


def held_lag(row: PartitionFigures, now: float, current: bool) -> int | None:
    """Return the source offsets between position and end of a partition that is held."""
    return count_lag(row.position, end_offset(row, now, current)) if row.is_held else None


def lag_time(row: PartitionFigures, now: float, current: bool) -> float | None:
    """Return the seconds since the record at the position was written; None if unknown."""
    offsets = lag(row, now, current)
    if offsets is None or offsets == 0:
        return offsets
    if row.log_bounds is None or row.log_bounds.next_ms < 0 or row.at is None:
        return None
    return max(0.0, (row.at if current else now) - row.log_bounds.next_ms / 1000)


def age(row: PartitionFigures, now: float, current: bool) -> float | None:
    """Return the seconds since a lap confirmed the position; None if none did, or if it is held."""
    return None if row.at is None or row.is_held else max(0.0, now - row.at)
