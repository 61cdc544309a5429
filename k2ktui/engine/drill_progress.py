"""How far a drill is, for all who watch it; pure. Times are epoch milliseconds."""

from __future__ import annotations

from dataclasses import dataclass

from k2ktui.engine.drill import Drill, DrillStatus, Fence, PhaseRecord, PhaseStatus
from k2ktui.engine.drill_report import summarize
from k2ktui.engine.drill_steps import needs_confirmation, next_phase
from k2ktui.text import counted, duration

# Status of a phase that was begun and on which no process acts now.
STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class PhaseRow:
    """A phase of a drill in a checklist.

    Attributes:
        number: its place, from 1.
        record: the phase.
        is_next: whether it is the first that is not over.
        confirmed: whether the operator must confirm it.
        is_interrupted: whether it was begun, and no process acts on the drill now.
    """

    number: int
    record: PhaseRecord
    is_next: bool = False
    confirmed: bool = False
    is_interrupted: bool = False


def list_phases(drill: Drill, *, acting: bool = True) -> list[PhaseRow]:
    """Return the phases of a drill in order; ``acting`` says whether a process acts on it."""
    following = next_phase(drill)
    fence = drill.options.fence
    return [
        PhaseRow(
            number,
            each,
            each.phase is following,
            _must_confirm(each, fence),
            not acting and each.status is PhaseStatus.RUNNING,
        )
        for number, each in enumerate(drill.phases, start=1)
    ]


def _must_confirm(record: PhaseRecord, fence: Fence) -> bool:
    over = record.status in (PhaseStatus.DONE, PhaseStatus.SKIPPED)
    return not over and needs_confirmation(record.phase, fence)


def describe_state(drill: Drill) -> str:
    """Return the result of a drill, or what an open one waits for, in one line."""
    if drill.status is DrillStatus.ABORTING:
        return "the abort is not complete"
    phase = next_phase(drill)
    if phase is None:
        return summarize(drill)[0]
    record = drill.record(phase)
    if record.status is PhaseStatus.FAILED:
        return f"{phase} failed: {record.live}"
    if record.status is PhaseStatus.RUNNING:
        return f"{phase}: {record.live or 'begun'}"
    if needs_confirmation(phase, drill.options.fence):
        return f"{phase} waits to be confirmed"
    return f"{phase} is next"


def describe_loss(drill: Drill) -> str:
    """Return the RPO so far: records on the source only; "" if it was not measured yet."""
    figures = drill.figures
    if figures.rpo_records is not None:
        text = counted(figures.rpo_records, "record")
        if figures.rpo_records and figures.rpo_s is not None:
            text += f", oldest {duration(figures.rpo_s)}"
        return text
    if figures.rpo_at_least is not None:
        silent = f", source silent {duration(figures.silent_s)}" if figures.silent_s else ""
        return f"at least {counted(figures.rpo_at_least, 'record')}{silent}"
    return ""


def elapsed_ms(drill: Drill, now_ms: int) -> int:
    """Return the time since a drill began, up to its end."""
    return max(0, (drill.ended_ms if drill.ended_ms is not None else now_ms) - drill.started_ms)


def rto_ms(drill: Drill, now_ms: int) -> int | None:
    """Return the time to the first record read on the target; so far, if none was read yet.

    None if the drill is over without one: a rehearsal opens nothing.
    """
    first = drill.figures.first_record_ms
    if first is not None:
        return max(0, first - drill.started_ms)
    return None if drill.is_over else elapsed_ms(drill, now_ms)
