"""The phase about the tail: what the old source has and the new primary never got."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

from k2ktui.drill.changes.failback import is_before, offset_of, write_positions
from k2ktui.drill.changes.handler import read_change
from k2ktui.drill.logs import name_partitions
from k2ktui.drill.release import release_forward, start_forward
from k2ktui.drill.session import PhaseResult, Session, failed
from k2ktui.drill.tail import read_bounds, read_tail
from k2ktui.drill.tail_export import TailExport, export_directory
from k2ktui.engine.drill.changes import dump_offsets, dump_tail_choice, read_tail_choice
from k2ktui.engine.drill.checks import DrillPhase
from k2ktui.engine.drill.model import Change, ChangeKind, ChangeStatus
from k2ktui.engine.drill.steps import drill_command, find_change_of
from k2ktui.engine.drill.tail import (
    TailChoice,
    TailPartition,
    count_records,
    describe_tail,
    list_tail,
)
from k2ktui.engine.records.state import SourcePartition
from k2ktui.sync.positions.position_planner import PositionPlanner
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
        choice = read_change(session.drill, begun, read_tail_choice)
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
    firsts = {SourcePartition(part.topic, part.partition): part.first for part in tail}
    return session.intend_new(
        _PHASE, ChangeKind.TAIL, whats[choice], dump_offsets(firsts), dump_tail_choice(choice)
    )


def _replay(session: Session, tail: list[TailPartition]) -> str:
    """Let the forward pipeline copy the tail, and wait until it has."""
    release_forward(session, _PHASE)
    status = start_forward(session, _PHASE)
    ends = {SourcePartition(part.topic, part.partition): part.end for part in tail}

    def look() -> tuple[bool, str]:
        positions = session.forward.read_positions()
        left = sorted(at for at, end in ends.items() if is_before(positions.get(at), end))
        return not left, f"not copied yet: {name_partitions(left)}; {status}"

    file = session.forward.file
    session.wait(
        _PHASE, look, hint=f"Start it, and see what it waits for: k2ktui status -f {file}."
    )
    return f"{describe_tail(session.drill.tail)} copied to the new primary; {status}"


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
    with closing(PositionPlanner(session.forward.config)) as planner:
        positions = session.forward.read_positions()
        wanted = {at: end for at, end in wanted.items() if is_before(positions.get(at), end)}
        change = find_change_of(session.drill, _PHASE, ChangeKind.POSITIONS)
        if change is None:
            change = session.intend_new(
                _PHASE,
                ChangeKind.POSITIONS,
                f"move the positions of {session.forward.name} past these records",
                dump_offsets({at: offset_of(positions.get(at)) for at in sorted(wanted)}),
                dump_offsets({at: wanted[at] for at in sorted(wanted)}),
            )
        if wanted:
            write_positions(session, planner, planner.plan_set(wanted))
        if change.status is not ChangeStatus.MADE:
            session.settle(change, ChangeStatus.MADE)
    did = where or (" exported" if choice is TailChoice.EXPORT else "")
    return f"{describe_tail(tail)}{did}; left out: they stay on the old source"
