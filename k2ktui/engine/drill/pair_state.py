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

from k2ktui.engine.drill.checks import DrillKind, DrillPhase
from k2ktui.engine.drill.model import ChangeKind, Drill, DrillStatus
from k2ktui.engine.drill.steps import find_change, find_change_of
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
        fenced_ms: when it was fenced; None if it is not known.
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
    """Return the drill that was the last to open its target; None without one.

    One over some topics has moved only these: the workload of the pipeline is where it was.
    """
    opened = [d for d in drills if d.figures.opened_ms is not None and not d.topics]
    return max(opened, key=_opened_ms, default=None)


@dataclass(frozen=True, slots=True)
class PipelineFence:
    """What keeps a pipeline from starting.

    Attributes:
        id: id of the drill.
        drill: its record; None if it is lost, and only the run record names the drill.
    """

    id: str
    drill: Drill | None = None

    @property
    def at_ms(self) -> int | None:
        """When the fence was begun; None if it is not known."""
        if self.drill is None:
            return None
        record = self.drill.record(DrillPhase.FENCE_REPLICATOR)
        return self.drill.started_ms if record.began_ms is None else record.began_ms

    @property
    def why(self) -> str:
        """What it means, in one sentence without a full stop."""
        if self.drill is None:
            return (
                f"fenced by drill {safe_text(self.id)}, as its run record says; the record of the "
                "drill cannot be read, so the target may be open for producers"
            )
        by, at = safe_text(self.drill.started_by), moment((self.at_ms or 0) / 1000)
        text = f"fenced by drill {safe_text(self.id)} at {at}, begun by {by}"
        return f"{text}: the target {'is' if self._is_open else 'may be'} open for producers"

    def way_back(self, file: str = "FILE", reverse: str = "REVERSE-FILE") -> str:
        """Return the commands that let the pipeline copy again, as a sentence."""
        name = safe_text(self.id)
        release = f"k2ktui drill release {name} -f {file}"
        if self.drill is None:
            return f"Let it copy again only if nothing uses the target: {release}"
        if not self._is_open:
            over = self.drill.is_over
            return f"Run {release if over else f'k2ktui drill abort {name} -f {file}'}"
        if self.drill.kind is DrillKind.FAILBACK:
            return f"Before the next failover, let it copy again: {release}"
        return (
            f"The way back is k2ktui drill failback -f {reverse}; if it may copy to the target "
            f"again, {release}"
        )

    @property
    def _is_open(self) -> bool:
        return self.drill is not None and self.drill.figures.opened_ms is not None


def find_fence(drills: Collection[Drill], named: str = "") -> PipelineFence | None:
    """Return what keeps a pipeline from starting; None if nothing does.

    Args:
        drills: its drills, as far as they can be read.
        named: id of the drill that its run record names; it fences the pipeline even if its own
            record is lost.
    """
    fencing = max(filter(fences_pipeline, drills), key=lambda drill: drill.started_ms, default=None)
    if fencing is not None:
        return PipelineFence(fencing.id, fencing)
    if named and all(drill.id != named for drill in drills):
        return PipelineFence(named)
    return None


def find_displaced(drills: Collection[Drill], most: int) -> list[Drill]:
    """Return the oldest drills to delete; ``most`` stay, besides those that must.

    A drill must stay if it is not over, fences the pipeline, keeps topics moved, or has left access
    rules or quotas in place. So must the last one that opened the target: views read from it where
    the workload is. Drills that have fenced the pipeline are counted separately, since many
    rehearsals must not displace the one that a run record names.
    """
    last = find_opened(drills)
    left = [drill for drill in drills if drill is not last and not _is_in_force(drill)]
    left.sort(key=lambda drill: drill.id, reverse=True)
    fenced = [drill for drill in left if _has_fenced(drill)]
    others = [drill for drill in left if not _has_fenced(drill)]
    return [*fenced[most:], *others[most:]]


def _is_in_force(drill: Drill) -> bool:
    kept = (ChangeKind.ACLS, ChangeKind.QUOTAS, ChangeKind.MOVED_TOPICS)
    blocks = any(find_change(drill, kind) for kind in kept)
    return not drill.is_over or fences_pipeline(drill) or blocks


def _has_fenced(drill: Drill) -> bool:
    return find_change_of(drill, None, ChangeKind.EPOCHS, any_status=True) is not None


def find_pair_state(
    own: Collection[Drill], opposite: Collection[Drill] = (), named: str = ""
) -> PairState:
    """Return the state of the pair.

    Args:
        own: drills of this pipeline, on its target.
        opposite: drills of pipelines from its target to its source, on its source.
        named: id of the drill that the pipeline's run record names.
    """
    state, fence = _find_place(own, opposite), find_fence(own, named)
    if fence is not None:
        state = replace(state, fenced_by=fence.id, fenced_ms=fence.at_ms)
        if fence.drill is None:  # nor is it known where it has moved the workload
            state = replace(state, phase=PairPhase.UNKNOWN)
    acting = [
        drill
        for drill in (*own, *opposite)
        if not drill.is_over and drill.kind is not DrillKind.REHEARSE and not drill.topics
    ]
    if not acting:
        return state
    drill = max(acting, key=lambda drill: drill.started_ms)
    if drill.figures.opened_ms is not None:
        return state  # it has opened its destination; only watching is left
    back = drill.kind is DrillKind.FAILBACK
    return replace(
        state,
        phase=PairPhase.FAILING_BACK if back else PairPhase.FAILING_OVER,
        drill=drill.id,
        kind=str(drill.kind),
        at_ms=drill.started_ms,
    )


def _find_place(own: Collection[Drill], opposite: Collection[Drill]) -> PairState:
    """Return the state without regard to drills that have opened nothing yet."""
    away, back = find_opened(own), find_opened(opposite)
    if back is not None and (away is None or _opened_ms(back) > _opened_ms(away)):
        return _opened_by(PairPhase.REPLICATING, back)
    # The failback notes its end here as well: its own drill is on the source, which this pipeline
    # may not be allowed to read.
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
    return {(bounds.topic, bounds.partition): bounds.end for bounds in back.opened_ends}


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
        case PairPhase.UNKNOWN if state.fenced_by:
            text = "unknown: the record of the drill cannot be read"
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
