"""The phase about the tail: what the old source has and the new primary never got."""

from __future__ import annotations

from dataclasses import replace

from k2ktui.drill.changes import read_change
from k2ktui.drill.logs import name_partitions
from k2ktui.drill.release import release_forward, start_forward
from k2ktui.drill.session import PhaseResult, Session, failed
from k2ktui.drill.tail import read_bounds, read_tail
from k2ktui.drill.tail_export import TailExport, export_directory
from k2ktui.engine.drill import changes as drill_changes
from k2ktui.engine.drill.checks import DrillPhase
from k2ktui.engine.drill.model import Change, ChangeKind, ChangeStatus
from k2ktui.engine.drill.steps import describe_undo, drill_command, find_change_of
from k2ktui.engine.drill.tail import (
    TailChoice,
    TailPartition,
    count_records,
    describe_tail,
    list_tail,
)
from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.errors import Refused
from k2ktui.sync.moves.position_writer import PipelineRunning, PositionWriter
from k2ktui.sync.moves.positions import PositionPlan, PositionPlanner
from k2ktui.text import counted, safe_text

_PHASE = DrillPhase.TAIL
_NONE = "every record of the old source is on the new primary"


def run_tail(session: Session) -> PhaseResult:
    """List the tail, and do with it what the operator chose and confirmed."""
    tail = _find_tail(session)
    if not session.drill.tail and tail:
        session.change_drill(lambda drill: replace(drill, tail=tuple(tail)))
    begun = find_change_of(session.drill, _PHASE, ChangeKind.TAIL)
    if not tail and begun is None:
        return PhaseResult(_NONE)
    choice = session.drill.options.tail
    if begun is not None:
        choice = read_change(session.drill, begun, drill_changes.read_tail_choice)
    listed = tail or list(session.drill.tail)
    if choice is TailChoice.STOP:
        ways = "replay (copy them now), export (to files) or discard"
        return failed(
            f"{describe_tail(tail)} on the old source only",
            *list_tail(tail),
            f"Choose {ways}: {drill_command(session.drill, 'resume')} --tail CHOICE",
        )
    if begun is None:
        session.confirm(_PHASE, _describe_effect(session, choice, listed))
        session.change_drill(lambda drill: replace(drill, tail=tuple(listed)))
        begun = _begin(session, choice, listed)
    if choice is TailChoice.REPLAY:
        live = _replay(session, listed)
    else:
        where = _export(session, listed) if choice is TailChoice.EXPORT else ""
        live = _leave_out(session, choice, where)
    if begun.status is not ChangeStatus.MADE:
        session.settle(begun, ChangeStatus.MADE)
    # Records that were copied are in the report; those that are left out are findings.
    findings = () if choice is TailChoice.REPLAY else tuple(list_tail(session.drill.tail))
    return PhaseResult(live, findings)


def _find_tail(session: Session) -> list[TailPartition]:
    """Read the tail up to the log ends, once no transaction is open before them."""
    bounds = read_bounds(session.forward)
    highs = {log_bounds.at: log_bounds.high for log_bounds in bounds}

    def look() -> tuple[bool, str]:
        nonlocal bounds
        open_ = [log_bounds.at for log_bounds in bounds if log_bounds.stable < highs[log_bounds.at]]
        if open_:
            bounds = read_bounds(session.forward)
        return not open_, f"open transactions on the old source: {name_partitions(open_)}"

    session.wait(
        _PHASE,
        look,
        hint="Wait for the time-outs of these transactions on the old source, or abort them.",
    )
    return read_tail(
        session.forward,
        bounds,
        lambda text: session.show(_PHASE, text),
        keys=session.drill.options.show_keys,
    )


def _describe_effect(session: Session, choice: TailChoice, tail: list[TailPartition]) -> str:
    what, name = describe_tail(tail), session.forward.name
    if choice is TailChoice.REPLAY:
        return (
            f"{what}: let {name} start again, and wait until it has copied them to the new "
            "primary, after the records that were written there since"
        )
    stay = (
        "leave them on the old source: no group that works on the new primary reads them, and "
        f"{name} does not copy them"
    )
    if choice is TailChoice.EXPORT:
        return f"{what}: write them to {safe_text(export_directory(session))}, and {stay}"
    return f"{what}: {stay}"


def _begin(session: Session, choice: TailChoice, tail: list[TailPartition]) -> Change:
    records = counted(count_records(tail), "record")
    whats = {
        TailChoice.REPLAY: f"copy {records} of the old source to the new primary",
        TailChoice.EXPORT: f"export {records} of the old source to files, and leave them out",
        TailChoice.DISCARD: f"leave out {records} of the old source",
    }
    change = Change(
        _PHASE,
        ChangeKind.TAIL,
        whats[choice],
        drill_changes.dump_offsets(
            {SourcePartition(part.topic, part.partition): part.first for part in tail}
        ),
        drill_changes.dump_tail_choice(choice),
        describe_undo(session.drill, ChangeKind.TAIL),
    )
    session.intend(change)
    return change


def _replay(session: Session, tail: list[TailPartition]) -> str:
    """Let the forward pipeline copy the tail, and wait until it has."""
    release_forward(session, _PHASE)
    status = start_forward(session, _PHASE)
    ends = {SourcePartition(part.topic, part.partition): part.end for part in tail}

    def look() -> tuple[bool, str]:
        positions = session.forward.read_positions()
        left = sorted(at for at, end in ends.items() if _offset(positions.get(at)) < end)
        return not left, f"not copied yet: {name_partitions(left)}; {status}"

    file = session.forward.file
    session.wait(
        _PHASE, look, hint=f"Start it, and see what it waits for: k2ktui status -f {file}."
    )
    return f"{describe_tail(session.drill.tail)} copied to the new primary; {status}"


def _offset(position: Position | None) -> int:
    return -1 if position is None else position.offset


def _export(session: Session, tail: list[TailPartition]) -> str:
    """Write the tail to files; all of them again if an earlier process did not complete them."""
    if find_change_of(session.drill, _PHASE, ChangeKind.POSITIONS) is not None:
        return ""  # positions are moved only after all files are complete
    ends = {(part.topic, part.partition): part.end for part in tail}
    bounds = [
        replace(
            log_bounds,
            stable=min(log_bounds.stable, ends[log_bounds.at.topic, log_bounds.at.partition]),
        )
        for log_bounds in read_bounds(session.forward)
        if (log_bounds.at.topic, log_bounds.at.partition) in ends
    ]
    with TailExport(export_directory(session)) as export:
        exported = read_tail(
            session.forward, bounds, lambda text: session.show(_PHASE, text), take=export.add
        )
        export.complete(exported)
        session.change_drill(lambda drill: replace(drill, tail=_keep_keys(drill.tail, exported)))
        return f" exported to {safe_text(export.directory)}"


def _keep_keys(
    known: tuple[TailPartition, ...], exported: list[TailPartition]
) -> tuple[TailPartition, ...]:
    """Return what was exported, with the keys that were shown before."""
    keys = {(part.topic, part.partition): part.keys for part in known}
    return tuple(replace(e, keys=keys.get((e.topic, e.partition), ())) for e in exported)


def _leave_out(session: Session, choice: TailChoice, where: str) -> str:
    """Move the forward pipeline's positions past the tail, so that it never copies it."""
    tail = session.drill.tail
    wanted = {SourcePartition(part.topic, part.partition): part.end for part in tail}
    planner = PositionPlanner(session.forward.config)
    try:
        positions = session.forward.read_positions()
        wanted = {at: end for at, end in wanted.items() if _offset(positions.get(at)) < end}
        change = find_change_of(session.drill, _PHASE, ChangeKind.POSITIONS)
        if change is None:
            change = Change(
                _PHASE,
                ChangeKind.POSITIONS,
                f"move the positions of {session.forward.name} past these records",
                drill_changes.dump_offsets(
                    {at: _before(positions.get(at)) for at in sorted(wanted)}
                ),
                drill_changes.dump_offsets({at: wanted[at] for at in sorted(wanted)}),
                describe_undo(session.drill, ChangeKind.POSITIONS),
            )
            session.intend(change)
        if wanted:
            _write_positions(session, planner, planner.plan_set(wanted))
        if change.status is not ChangeStatus.MADE:
            session.settle(change, ChangeStatus.MADE)
    finally:
        planner.close()
    did = where or (" exported" if choice is TailChoice.EXPORT else "")
    return f"{describe_tail(tail)}{did}; left out: they stay on the old source"


def _before(position: Position | None) -> int | None:
    return None if position is None else position.offset


def _write_positions(session: Session, planner: PositionPlanner, plan: PositionPlan) -> None:
    try:
        PositionWriter(session.forward.config, planner).apply(plan, session.may)
    except PipelineRunning as error:
        raise Refused(
            f"{error.message}: it copies what is to be left out",
            unchanged="No position was changed. The drill stays where it is.",
            hint=f"Stop it, then: {drill_command(session.drill, 'resume')}",
        ) from error


def restore_tail(session: Session, change: Change) -> list[str]:
    """Return what cannot be restored: records that were copied stay on the new primary."""
    choice = read_change(session.drill, change, drill_changes.read_tail_choice)
    if choice is not TailChoice.REPLAY:
        return []
    begun = read_change(session.drill, change, drill_changes.read_tail_starts)
    positions = session.forward.read_positions()
    copied = sorted(at for at, first in begun.items() if _offset(positions.get(at)) > first)
    if not copied:
        return []
    return [f"what was copied from {name_partitions(copied)} stays on the new primary"]


def restore_positions(session: Session, change: Change) -> list[str]:
    """Move the positions back that the drill moved; return those that something else has moved."""
    moves = read_change(session.drill, change, drill_changes.read_moved_positions)
    before, after = moves.before, moves.after
    positions = session.forward.read_positions()
    moved = [at for at in after if _before(positions.get(at)) not in (after[at], before[at])]
    back = {at: offset for at, offset in before.items() if at not in moved and offset is not None}
    back = {at: offset for at, offset in back.items() if positions[at].offset != offset}
    begun = [at for at, offset in before.items() if offset is None and at in positions]
    planner = PositionPlanner(session.forward.config)
    try:
        logs = planner.bounds(back)
        deleted = [at for at, offset in back.items() if at in logs and offset < logs[at].start]
        back = {at: offset for at, offset in back.items() if at not in deleted}
        if back:
            _write_positions(session, planner, planner.plan_set(back))
        if begun:
            _write_positions(session, planner, planner.plan_clear(lambda at: at in begun))
    finally:
        planner.close()
    return [
        *(f"{safe_text(at)}: its position was moved since; it was left there" for at in moved),
        *(
            f"{safe_text(at)}: its position stays at {after[at]}: the old source has deleted what "
            "was before"
            for at in deleted
        ),
    ]
