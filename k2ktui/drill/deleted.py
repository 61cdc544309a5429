"""Records that retention has deleted on the old source before the forward pipeline read them.

If the reverse pipeline had written them, nothing is lost: the forward pipeline would have left them
out. The batches that carried the producer ids are deleted, so the proof comes from the reverse
pipeline's position records: they name the target offsets that it alone wrote (``Landed`` in
``engine/records/state.py``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass

from k2ktui.drill.changes.failback import write_positions
from k2ktui.drill.session import Session
from k2ktui.drill.tail import TailBounds, read_bounds
from k2ktui.engine.drill.changes import dump_offsets
from k2ktui.engine.drill.checks import DrillPhase
from k2ktui.engine.drill.model import ChangeKind, ChangeStatus
from k2ktui.engine.drill.steps import find_change_of
from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.sync.mapping.source import NothingCopied
from k2ktui.sync.positions.position_planner import PositionPlanner
from k2ktui.text import counted

Spans = Iterable[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Deleted:
    """Partitions whose records at the forward pipeline's position are deleted.

    Attributes:
        returned: those where the reverse pipeline had written all of them.
        unknown: those where that is not proven.
    """

    returned: tuple[TailBounds, ...] = ()
    unknown: tuple[TailBounds, ...] = ()


def find_deleted(session: Session) -> Deleted:
    """Return the partitions that the forward pipeline would find to be lost.

    Raises:
        ConnectionFailed, TimedOut: a cluster does not answer, or a partition has no leader.
        NothingCopied: the forward pipeline has copied nothing yet.
    """
    bounds = read_bounds(session.forward)
    deleted = [
        log_bounds
        for log_bounds in bounds
        if log_bounds.position and log_bounds.position.offset < log_bounds.start
    ]
    if not deleted:
        return Deleted()
    spans = _written_alone(_reverse_positions(session).values())
    proven = [
        log_bounds
        for log_bounds in deleted
        if is_returned(log_bounds, spans.get(log_bounds.at, ()))
    ]
    return Deleted(
        tuple(proven), tuple(log_bounds for log_bounds in deleted if log_bounds not in proven)
    )


def _reverse_positions(session: Session) -> Mapping[SourcePartition, Position]:
    try:
        return session.flow.read_copier(session.source, session.target).positions
    except NothingCopied:
        return {}


def _written_alone(positions: Collection[Position]) -> dict[SourcePartition, list[tuple[int, int]]]:
    """Return the spans that a pipeline wrote alone, by target partition."""
    spans: dict[SourcePartition, list[tuple[int, int]]] = {}
    for landed in (span for position in positions for span in position.landed):
        at = SourcePartition(landed.topic, landed.partition)
        spans.setdefault(at, []).append((landed.first, landed.end))
    return spans


def is_returned(bounds: TailBounds, spans: Spans) -> bool:
    """Return whether spans cover every offset from the position to the log start.

    Each span ends after a record. If only one offset follows, it is the marker of its transaction.
    """
    if bounds.position is None:
        return False
    reached, ended = bounds.position.offset, False
    for first, end in sorted(spans):
        if first <= reached < end:
            reached, ended = end, True
    if reached >= bounds.start:
        return True
    return ended and reached + 1 == bounds.start == bounds.high


def settle_passed(session: Session, phase: DrillPhase) -> None:
    """Record moves that an earlier process has made before it ended."""
    change = find_change_of(session.drill, phase, ChangeKind.POSITIONS)
    if change is not None and change.status is ChangeStatus.INTENDED:
        session.settle(change, ChangeStatus.MADE)


def pass_returned(
    session: Session, phase: DrillPhase, deleted: Collection[TailBounds], *, asks: bool = True
) -> str:
    """Move the forward pipeline's positions past what the reverse pipeline wrote.

    Args:
        session: the failback.
        phase: the phase that does it.
        deleted: partitions of which this is proven.
        asks: whether the operator confirms it.

    Returns:
        What was done, for the operator.

    Raises:
        Refused: the operator did not confirm it, or the forward pipeline runs.
        K2kError: as for ``PositionWriter.apply``.
    """
    name = session.forward.name
    ends = {log_bounds.at: log_bounds.start for log_bounds in deleted}
    count = sum(
        log_bounds.start - log_bounds.position.offset
        for log_bounds in deleted
        if log_bounds.position
    )
    where = counted(len(ends), "partition")
    effect = (
        f"move {name}'s positions on {where} past {counted(count, 'offset')} that retention has "
        "deleted; the reverse pipeline had written all of them, so no record is left out"
    )
    if asks:
        session.confirm(phase, effect)
    with closing(PositionPlanner(session.forward.config)) as planner:
        plan = planner.plan_pass(ends)
        before = {m.source: m.now for m in plan.changes}
        change = session.intend_new(
            phase,
            ChangeKind.POSITIONS,
            f"move the positions of {name} past deleted records that came from the other cluster",
            dump_offsets(before),
            dump_offsets({at: ends[at] for at in before}),
        )
        write_positions(session, planner, plan, harm="")
        session.settle(change, ChangeStatus.MADE)
    return f"positions moved past {counted(count, 'offset')} on {where} that came from there"
