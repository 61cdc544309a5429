"""How far a drill is, for all who watch it; pure. Times are epoch milliseconds."""

from __future__ import annotations

from dataclasses import dataclass

from k2ktui.drill.report import producers_stopped_ms, stopped_ms, summarize
from k2ktui.engine.drill.checks import DrillPhase
from k2ktui.engine.drill.model import Drill, DrillStatus, PhaseRecord, PhaseStatus
from k2ktui.engine.drill.steps import (
    describe_status,
    needs_confirmation,
    next_phase,
    waits_for_tail_choice,
)
from k2ktui.text import counted, duration

# Status of a phase that waits for a choice of the operator.
CHOOSE = "choose"
# Status of a phase that was begun and on which no process acts now.
STOPPED = "stopped"
_OVER = (PhaseStatus.DONE, PhaseStatus.SKIPPED)


@dataclass(frozen=True, slots=True)
class PhaseRow:
    """A phase of a drill in a checklist.

    Attributes:
        number: its place, from 1.
        record: the phase.
        status: its status in words.
        is_next: whether it is the first that is not over.
        confirmed: whether the operator must confirm it.
        is_interrupted: whether it was begun, and no process acts on the drill now.
        asks: whether it waits for a choice of the operator, which is no failure.
    """

    number: int
    record: PhaseRecord
    status: str
    is_next: bool = False
    confirmed: bool = False
    is_interrupted: bool = False
    asks: bool = False


def list_phases(drill: Drill, *, acting: bool = True) -> list[PhaseRow]:
    """Return the phases of a drill in order; ``acting`` says whether a process acts on it."""
    following = next_phase(drill)
    fence, asks = drill.options.fence, waits_for_tail_choice(drill)
    return [
        PhaseRow(
            number,
            record,
            describe_status(drill, record),
            record.phase is following,
            not (drill.is_over or record.status in _OVER)
            and needs_confirmation(record.phase, fence),
            not acting and record.status is PhaseStatus.RUNNING,
            record.phase is following and asks,
        )
        for number, record in enumerate(drill.phases, start=1)
    ]


def describe_state(drill: Drill) -> str:
    """Return the result of a drill, or what an open one waits for, in one line."""
    if drill.status is DrillStatus.ABORTING:
        return "the abort is not complete"
    phase = next_phase(drill)
    if phase is None:
        return summarize(drill)[0]
    record = drill.record(phase)
    if waits_for_tail_choice(drill):
        return f"{phase} waits for your choice: {record.live}"
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


def rto_ms(drill: Drill) -> int | None:
    """Return the time from the stop of the applications to the first record read on the target.

    None without such a record; :func:`stopped_for` says how long they have been stopped so far.
    """
    first = drill.figures.first_record_ms
    return None if first is None else max(0, first - stopped_ms(drill))


def stopped_for(drill: Drill, now_ms: int) -> tuple[int | None, int | None]:
    """Return how long producers and consumers have been stopped so far; None while they run.

    Also None if the drill cannot know: a rehearsal stops nothing, a disaster has no source.
    """
    if drill.is_over or drill.figures.first_record_ms is not None:
        return None, None
    consumers = drill.record(DrillPhase.STOP_CONSUMERS)
    quiet = consumers.ended_ms if consumers.status is PhaseStatus.DONE else None
    producers = producers_stopped_ms(drill)
    return (
        None if producers is None else max(0, now_ms - producers),
        None if quiet is None else max(0, now_ms - quiet),
    )
