"""The state of the pair: which cluster the workload uses, by the drills of both directions; pure.

What is good in one state is a problem in another. After a failover the lag of the old pipeline, and
what its groups have committed on the source, are the past: nothing of it is a loss. Times are epoch
milliseconds.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

from k2ktui.engine.drill import ChangeKind, Drill, DrillStatus
from k2ktui.engine.drill_checks import DrillKind
from k2ktui.engine.drill_steps import find_change
from k2ktui.text import counted, duration, moment, safe_text

Ends = Mapping[tuple[str, int], int]


class PairPhase(StrEnum):
    """Where the workload is, or goes; ``unknown`` until the drills were read."""

    UNKNOWN = "unknown"
    REPLICATING = "replicating"
    FAILING_OVER = "failing over"
    FAILED_OVER = "failed over"
    FAILING_BACK = "failing back"


@dataclass(frozen=True, slots=True)
class PairState:
    """The state of the pair, as one of its two pipelines sees it.

    Attributes:
        phase: where the workload is, or goes.
        drill: id of the drill that says so; empty if there was none.
        kind: its kind.
        at_ms: when it opened the cluster that it led to; if it has not, when it was begun.
        moved: whether the workload uses the target: lag, RPO and divergence of this pipeline are
            then the past.
        fenced_by: id of the drill that keeps this pipeline from starting; empty if none does.
        fenced_ms: when that drill was begun; None if it is not known.
        rpo_records, rpo_at_least: what was missing on the target when it was opened, if ``moved``.
        silent_s: for how long nothing was read from the source then.
        unread: why the drills, or those of the opposite pipeline, could not be read.
    """

    phase: PairPhase = PairPhase.UNKNOWN
    drill: str = ""
    kind: str = ""
    at_ms: int | None = None
    moved: bool = False
    fenced_by: str = ""
    fenced_ms: int | None = None
    rpo_records: int | None = None
    rpo_at_least: int | None = None
    silent_s: float | None = None
    unread: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return the object that commands print."""
        return asdict(self)


NOT_READ = PairState()


def fences_pipeline(drill: Drill) -> bool:
    """Return whether a drill keeps its pipeline from starting."""
    in_force = drill.status in (DrillStatus.OPEN, DrillStatus.DONE)
    return in_force and find_change(drill, ChangeKind.EPOCHS) is not None


def find_opened(drills: Collection[Drill]) -> Drill | None:
    """Return the drill that was the last to open its target; None without one."""
    opened = [drill for drill in drills if drill.figures.opened_ms is not None]
    return max(opened, key=_opened_ms, default=None)


def find_pair_state(own: Collection[Drill], opposite: Collection[Drill] = ()) -> PairState:
    """Return the state of the pair.

    Args:
        own: drills of this pipeline, on its target.
        opposite: drills of pipelines from its target to its source, on its source.
    """
    fencing = max(filter(fences_pipeline, own), key=lambda drill: drill.started_ms, default=None)
    state = replace(_find_place(own, opposite), **_fence(fencing))
    acting = [
        drill
        for drill in (*own, *opposite)
        if not drill.is_over and drill.kind is not DrillKind.REHEARSE
    ]
    if not acting:
        return state
    drill = max(acting, key=lambda each: each.started_ms)
    if drill.figures.opened_ms is not None:
        return state  # where it leads to is open: the rest of it is watching
    back = drill.kind is DrillKind.FAILBACK
    return replace(
        state,
        phase=PairPhase.FAILING_BACK if back else PairPhase.FAILING_OVER,
        drill=drill.id,
        kind=str(drill.kind),
        at_ms=drill.started_ms,
    )


def _fence(drill: Drill | None) -> dict[str, Any]:
    return {} if drill is None else {"fenced_by": drill.id, "fenced_ms": drill.started_ms}


def _find_place(own: Collection[Drill], opposite: Collection[Drill]) -> PairState:
    """Return the state without regard to drills that have opened nothing yet."""
    away, back = find_opened(own), find_opened(opposite)
    if back is not None and (away is None or _opened_ms(back) > _opened_ms(away)):
        return _opened_by(PairPhase.REPLICATING, back)
    # Its target may not let this pipeline read the failback, which says so here too.
    if away is None or away.returned:
        return PairState(PairPhase.REPLICATING)
    figures = away.figures
    return replace(
        _opened_by(PairPhase.FAILED_OVER, away),
        moved=True,
        rpo_records=figures.rpo_records,
        rpo_at_least=figures.rpo_at_least,
        silent_s=figures.silent_s,
    )


def _opened_by(phase: PairPhase, drill: Drill) -> PairState:
    return PairState(phase, drill.id, str(drill.kind), drill.figures.opened_ms)


def _opened_ms(drill: Drill) -> int:
    return drill.figures.opened_ms or 0


def find_arrival(own: Collection[Drill], opposite: Collection[Drill]) -> Ends:
    """Return the ends of the source's partitions when a drill moved the workload to the source.

    Records below them came from the target, or were there before: they are no loss if the source
    is lost. Empty if no drill has moved the workload here.
    """
    away, back = find_opened(own), find_opened(opposite)
    if back is None or (away is not None and _opened_ms(away) > _opened_ms(back)):
        return {}
    return {(each.topic, each.partition): each.end for each in back.opened_ends}


def describe_pair(state: PairState, source: str, target: str) -> str:
    """Return the state of the pair in one line, safe to print.

    Args:
        state: the state.
        source: name of the source cluster.
        target: name of the target cluster.
    """
    drill = safe_text(state.drill)
    at = "" if state.at_ms is None else moment(state.at_ms / 1000)
    match state.phase:
        case PairPhase.UNKNOWN:
            text = "the state of the pair is unknown"
        case PairPhase.FAILED_OVER:
            text = f"failed over to {safe_text(target)} by drill {drill} at {at}"
        case PairPhase.REPLICATING if drill:
            text = f"replicating; drill {drill} moved the groups to {safe_text(source)} at {at}"
        case PairPhase.REPLICATING:
            text = "replicating"
        case _:
            text = f"{state.phase}: drill {drill}, begun {at}"
    if state.fenced_by:
        by = "" if state.fenced_by == state.drill else f" by drill {safe_text(state.fenced_by)}"
        text += f"; this pipeline is fenced{by}"
    return f"{text} ({state.unread})" if state.unread else text


def describe_pair_shortly(state: PairState, source: str, target: str) -> str:
    """As ``describe_pair``, for one line of a terminal of 80 columns."""
    drill = safe_text(state.drill)
    if not drill:
        return describe_pair(state, source, target)
    at = "" if state.at_ms is None else f", {moment(state.at_ms / 1000)[-12:-7]} UTC"
    match state.phase:
        case PairPhase.FAILED_OVER:
            text = f"failed over to {safe_text(target, 20)}, drill {drill}{at}"
        case PairPhase.REPLICATING:
            text = f"moved to {safe_text(source, 20)}, drill {drill}{at}"
        case _:
            text = f"{state.phase}, drill {drill}, begun{at[1:]}"
    return f"{text}; fenced" if state.fenced_by else text


def describe_final_loss(state: PairState) -> str:
    """Return what was missing on the target when it was opened."""
    least = state.rpo_at_least if state.rpo_records is None else state.rpo_records
    if least is None:
        return "what was missing when it was opened is unknown"
    text = f"{counted(least, 'record')} missing when it was opened"
    if state.rpo_records is None:
        text = f"at least {text}"
    silent = state.silent_s
    return f"{text}; the source had been silent for {duration(silent)}" if silent else text
