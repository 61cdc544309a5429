"""One small record for each rehearsal, for the trend of RPO and RTO over hundreds of them; pure.

The record of a drill has everything, so only the last 50 are kept. See
``docs/internals/record-formats.md``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass
from typing import Any

from k2ktui.engine.drill.checks import DrillKind
from k2ktui.engine.drill.model import Drill, DrillStatus
from k2ktui.engine.drill.objectives import NO_OBJECTIVES
from k2ktui.engine.wire import COUNT, MILLIS, NUMBER, Wire, or_none, required

KEPT_REHEARSALS = 400


@dataclass(frozen=True, slots=True)
class RehearsalKey:
    """Key of a record: the id of the rehearsal."""

    id: str


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """What a rehearsal measured; None is unknown.

    Attributes:
        id: id of the drill.
        at_ms: when it ended, in epoch milliseconds.
        findings: number of findings: what would have stopped a failover, or misses an objective.
        missed: number of the objectives that it missed.
        rpo_records: records on the source only.
        rpo_ms: age of the oldest of them.
        rto_ms: how long the tool took, without people and applications.
    """

    id: str
    at_ms: int
    findings: int
    missed: int
    rpo_records: int | None
    rpo_ms: int | None
    rto_ms: int

    @property
    def key(self) -> RehearsalKey:
        """Key of the record."""
        return RehearsalKey(self.id)

    def as_json(self) -> dict[str, Any]:
        """Return the object that commands print."""
        return asdict(self)


def sum_up_rehearsal(drill: Drill) -> Rehearsal | None:
    """Return what is kept of a drill for longer; None if it is no rehearsal that has ended.

    None also for some topics: their RPO and RTO are no points of the pipeline's trend.
    """
    if drill.kind is not DrillKind.REHEARSE or drill.status is not DrillStatus.DONE:
        return None
    if drill.ended_ms is None or drill.topics:
        return None
    figures = drill.figures
    missed = (drill.objectives or NO_OBJECTIVES).list_missed(
        rpo_records=figures.rpo_records, rpo_s=figures.rpo_s, rto_s=drill.tool_ms / 1000
    )
    return Rehearsal(
        drill.id,
        drill.ended_ms,
        findings=len(drill.blockers),
        missed=len(missed),
        rpo_records=figures.rpo_records,
        rpo_ms=None if figures.rpo_s is None else round(figures.rpo_s * 1000),
        rto_ms=drill.tool_ms,
    )


def list_rehearsals(kept: Iterable[Rehearsal], drills: Iterable[Drill]) -> tuple[Rehearsal, ...]:
    """Return rehearsals, the oldest first.

    Args:
        kept: their records.
        drills: drills of which some may have no such record: an earlier release ran them.
    """
    summed = (sum_up_rehearsal(drill) for drill in drills)
    by_id = {rehearsal.id: rehearsal for rehearsal in summed if rehearsal is not None}
    by_id |= {rehearsal.id: rehearsal for rehearsal in kept}
    return tuple(sorted(by_id.values(), key=_order))


def find_displaced_rehearsals(kept: Collection[Rehearsal], new: Rehearsal) -> list[RehearsalKey]:
    """Return the keys of the oldest records that a new one displaces."""
    others = sorted((other for other in kept if other.id != new.id), key=_order)
    return [other.key for other in others[: max(0, len(others) - KEPT_REHEARSALS + 1)]]


def _order(rehearsal: Rehearsal) -> tuple[int, str]:
    return rehearsal.at_ms, rehearsal.id


REHEARSAL_WIRE = Wire(
    Rehearsal,
    at_ms=required("at", MILLIS),
    findings=required("findings", NUMBER),
    missed=required("missed", NUMBER),
    rpo_records=required("rpoRecords", or_none(COUNT)),
    rpo_ms=required("rpoMs", or_none(MILLIS)),
    rto_ms=required("rtoMs", MILLIS),
)
