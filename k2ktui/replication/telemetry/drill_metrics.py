"""Metrics of a pipeline's last rehearsal (docs/drills.md), which a running pipeline exports."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from k2ktui.replication.events import Rehearsed
from k2ktui.replication.telemetry.metric import Metric, Points


class RehearsalSource(Protocol):
    """Figures that know the last rehearsal, and the state of the pair."""

    def pair_state(self) -> Points:
        """Return 1 with the state of the pair as label."""

    def rehearsal(self, read: Callable[[Rehearsed, float], float | None]) -> Points:
        """Return one point of the last rehearsal, read with the current time in epoch seconds."""


def _metric(
    name: str, unit: str, text: str, read: Callable[[Rehearsed, float], float | None]
) -> Metric:
    def points(figures: RehearsalSource) -> Points:
        return figures.rehearsal(read)

    return Metric("assignment", f"drill.{name}", unit, text, points)


def _read_pair(figures: RehearsalSource) -> Points:
    return figures.pair_state()


DRILL_CATALOG: tuple[Metric, ...] = (
    Metric(
        "assignment",
        "pair.state",
        "1",
        "Where the workload is, or goes, by the drills on the target; always 1",
        _read_pair,
    ),
    _metric(
        "rehearsal.age",
        "s",
        "Time since the last rehearsal of a failover; absent if there was none",
        lambda last, now: max(0.0, now - last.at),
    ),
    _metric(
        "findings",
        "{finding}",
        "What would have stopped a failover at the last rehearsal",
        lambda last, now: last.findings,
    ),
    _metric(
        "rpo.records",
        "{record}",
        "Records not copied at the last rehearsal",
        lambda last, now: last.rpo_records,
    ),
    _metric(
        "rpo.time",
        "s",
        "Age of the oldest record not copied at the last rehearsal",
        lambda last, now: last.rpo_s,
    ),
    _metric(
        "rto.time",
        "s",
        "Time that the tool needed at the last rehearsal",
        lambda last, now: last.rto_s,
    ),
)
