"""Drills: columns of their list and of their phases, and their texts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from k2ktui.drill.progress import CHOOSE, STOPPED, PhaseRow, describe_state
from k2ktui.drill.report import has_findings, list_harm
from k2ktui.engine.drill.checks import DrillKind, DrillPhase
from k2ktui.engine.drill.hook_steps import keeps_effects, steps_back
from k2ktui.engine.drill.hooks import HookRecord, describe_run
from k2ktui.engine.drill.model import (
    Drill,
    DrillStatus,
    Fence,
    PhaseRecord,
    PhaseStatus,
)
from k2ktui.engine.drill.steps import (
    needs_confirmation,
    next_phase,
    waits_for_tail_choice,
)
from k2ktui.engine.severity import Severity, SeverityLabel
from k2ktui.errors import fix_text
from k2ktui.present.columns import Column, begun_column, name_column, sentence_column
from k2ktui.present.formatting import (
    Cell,
    Glyphs,
    Tone,
    duration,
)
from k2ktui.text import counted, list_names, safe_text

_PHASES = {
    PhaseStatus.WAITING: Severity.INFO,
    PhaseStatus.RUNNING: Severity.INFO,
    PhaseStatus.DONE: Severity.OK,
    PhaseStatus.FAILED: Severity.BAD,
    PhaseStatus.SKIPPED: Severity.WARN,
}


def judge_drill(drill: Drill) -> SeverityLabel:
    """Rate a drill by its status and its findings."""
    word = str(drill.status)
    if drill.status is DrillStatus.ABORTING:
        return SeverityLabel(Severity.BAD, word)
    if drill.status is DrillStatus.OPEN:
        if waits_for_tail_choice(drill):
            return SeverityLabel(Severity.WARN, word)
        failed = any(record.status is PhaseStatus.FAILED for record in drill.phases)
        return SeverityLabel(Severity.BAD if failed else Severity.INFO, word)
    if drill.status is DrillStatus.ABORTED:
        return SeverityLabel(Severity.WARN if keeps_effects(drill) else Severity.OK, word)
    rehearses = drill.kind is DrillKind.REHEARSE
    bad = has_findings(drill) if rehearses else bool(list_harm(drill))
    return SeverityLabel(Severity.WARN if bad else Severity.OK, word)


def drill_columns(glyphs: Glyphs) -> tuple[Column[Drill], ...]:
    """Return the columns of a list of drills."""
    return (
        name_column("id", lambda d: d.id, longest=40, width=20, rank=2),
        Column("kind", "kind", lambda d: Cell(str(d.kind)), lambda d: d.kind, width=8),
        Column("status", "status", lambda d: glyphs.mark(judge_drill(d)), width=10),
        begun_column(lambda d: d.started_ms),
        name_column("by", lambda d: d.started_by, longest=100, width=8, rank=1),
        sentence_column(
            "result", describe_state, heading="result, or what it waits for", tone=_tone
        ),
    )


def _tone(drill: Drill) -> Tone:
    return Tone.PLAIN if judge_drill(drill).severity <= Severity.INFO else Tone.WARN


def judge_phase(row: PhaseRow) -> SeverityLabel:
    """Rate a phase by its status and its findings."""
    status = row.record.status
    if status is PhaseStatus.DONE and row.record.findings:
        return SeverityLabel(Severity.WARN, "findings")
    if row.asks:
        return SeverityLabel(Severity.WARN, CHOOSE)
    if row.is_interrupted:
        return SeverityLabel(Severity.WARN, STOPPED)
    return SeverityLabel(_PHASES[status], row.status)


def phase_columns(glyphs: Glyphs) -> tuple[Column[PhaseRow], ...]:
    """Return the columns of a drill's phases, without how long they take."""

    def state(row: PhaseRow) -> Cell:
        if row.record.status is not PhaseStatus.WAITING:
            return glyphs.mark(judge_phase(row))
        if row.confirmed:
            return Cell(glyphs.text("\u203a confirm"), Tone.INFO)
        return Cell(f"{'.' if glyphs.ascii else '·'} {judge_phase(row).word}", Tone.MUTED)

    def name(row: PhaseRow) -> Cell:
        waits = row.record.status is PhaseStatus.WAITING
        tone = Tone.HEADING if row.is_next else Tone.MUTED if waits else Tone.PLAIN
        return Cell(f"{row.number:>2} {row.record.phase}", tone)

    return (
        Column("phase", "phase", name, lambda row: row.number, width=20),
        Column("status", "status", state, width=10),
        sentence_column(
            "live", lambda row: row.record.live, heading="result, or what it waits for"
        ),
    )


_BY_PEOPLE: Mapping[DrillPhase, str] = {
    DrillPhase.STOP_CONSUMERS: "Stop the consumers on the source.",
    DrillPhase.WATCH_CLIENTS: "Start producers and consumers on the target.",
}


_ASKS_LATER = "Nothing to do yet: it asks you to confirm."
_CONTINUES = "Nothing to do: it continues by itself."
NO_TASKS = (_ASKS_LATER, _CONTINUES)
"""What :func:`describe_task` returns if the operator has nothing to do."""


_OF_TOPICS: Mapping[DrillPhase, str] = {
    DrillPhase.FENCE_PRODUCERS: "Stop the producers of {} on the source.",
    DrillPhase.STOP_CONSUMERS: "Stop the consumers of {} on the source.",
    DrillPhase.WATCH_CLIENTS: "Start producers and consumers of {} on the target.",
}
_NAMED = 3


def describe_task(drill: Drill) -> str:
    """Return what the operator has to do while a drill runs, in one sentence."""
    phase, fence = next_phase(drill), drill.options.fence
    if (
        drill.topics
        and phase is not None
        and phase in _OF_TOPICS
        and (phase is not DrillPhase.FENCE_PRODUCERS or fence.is_by_people)
    ):
        return _OF_TOPICS[phase].format(list_names(drill.topics, _NAMED))
    if phase is DrillPhase.FENCE_PRODUCERS and fence.is_by_people:
        return "Stop the producers on the source."
    if phase is not None and phase in _BY_PEOPLE:
        follows = fence is Fence.CUT_OFF  # clients leave and come by themselves
        return _CONTINUES if follows else _BY_PEOPLE[phase]
    asks = phase is not None and needs_confirmation(phase, fence)
    return _ASKS_LATER if asks else _CONTINUES


def describe_wait(drill: Drill, *, acting: bool) -> tuple[str, str] | None:
    """Return the step of an open drill that waits for a person, and a sentence about it.

    None if it waits for nobody. A phase that fails a second time is another step.

    Args:
        drill: the drill.
        acting: whether a process acts on it.
    """
    phase, state = next_phase(drill), f"drill {safe_text(drill.id)}: {describe_state(drill)}"
    if phase is None:
        return (str(drill.status), state) if not (acting or drill.is_over) else None
    record = drill.record(phase)
    if record.status is PhaseStatus.FAILED:
        return f"{phase} failed {record.ended_ms}", state
    if not acting:
        return f"{phase} stopped", f"{state}; no operator acts on it"
    if record.status is PhaseStatus.WAITING:
        return (phase, state) if needs_confirmation(phase, drill.options.fence) else None
    task = describe_task(drill)
    return (
        None if task in NO_TASKS else (f"{phase} by hand", f"drill {safe_text(drill.id)}: {task}")
    )


def describe_end(drill: Drill) -> str:
    """Return that a drill has ended, and how, in one line."""
    return f"drill {safe_text(drill.id)} is {drill.status}: {describe_state(drill)}"


_AMOUNT = r"\d[\d,]*(?: [dhms]\b(?: \d+ [hms]\b)?)?"
_FAR = re.compile(rf"({_AMOUNT}) of ({_AMOUNT})")
_PART = re.compile(r"(\d[\d,]*)(?: ([dhms])\b)?")
_SECONDS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1, "": 1}


def read_share(live: str) -> float | None:
    """Return how far a phase is by what it shows, as "12 s of 30 s"; None if it does not say."""
    match = _FAR.search(live)
    if match is None:
        return None
    far, whole = (
        sum(int(n.replace(",", "")) * _SECONDS[unit] for n, unit in _PART.findall(text))
        for text in match.groups()
    )
    return far / whole if 0 < whole >= far else None


def describe_findings(drill: Drill, record: PhaseRecord) -> Iterator[str]:
    """Yield the findings of a phase, each with what its check advises."""
    hints = {check.id: fix_text(check.hint) for check in drill.checks}
    for finding, check in record.list_findings():
        hint = hints.get(check, "")
        yield f"{finding}\n{hint}" if hint else finding


def hook_lines(hook: HookRecord) -> list[str]:
    """Return what a drill has recorded of a hook, with what it has printed."""
    output = [*hook.output.splitlines(), *hook.undo_output.splitlines()]
    return [*describe_run(hook), *(f"  | {line}" for line in output)]


def describe_abort(drill: Drill) -> str:
    """Return that the operator can still go back, and what that restores."""
    left = len(steps_back(drill))
    effect = f"X aborts, and restores {counted(left, 'change')}" if left else "X aborts"
    return f"You can still go back: {effect}."


def tool_time(drill: Drill) -> str:
    """Return the time that the tool took, without waiting for people and applications."""
    return duration(drill.tool_ms / 1000, tenths=True)
