"""Drills: columns of their list and of their phases, and their texts."""

from __future__ import annotations

from collections.abc import Iterator

from k2ktui.engine.drill import (
    Change,
    ChangeStatus,
    Drill,
    DrillStatus,
    Fence,
    PhaseRecord,
    PhaseStatus,
)
from k2ktui.engine.drill_checks import DrillKind
from k2ktui.engine.drill_progress import (
    CHOOSE,
    STOPPED,
    PhaseRow,
    describe_loss,
    describe_state,
    elapsed_ms,
    list_phases,
    rto_ms,
    stopped_for,
)
from k2ktui.engine.drill_report import has_findings, list_harm, summarize, tool_ms
from k2ktui.engine.drill_steps import (
    changes_to_restore,
    describe_phase,
    describe_undo,
    describe_way_back,
    waits_for_tail_choice,
)
from k2ktui.engine.drill_tail import list_tail
from k2ktui.errors import fix_text
from k2ktui.present.columns import Column
from k2ktui.present.formatting import (
    NOT_AVAILABLE,
    NOT_YET,
    Cell,
    Glyphs,
    Line,
    Tone,
    duration,
    moment,
)
from k2ktui.text import counted, safe_message, safe_text
from k2ktui.watch.severity import Severity, SeverityLabel

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
        failed = any(each.status is PhaseStatus.FAILED for each in drill.phases)
        return SeverityLabel(Severity.BAD if failed else Severity.INFO, word)
    if drill.status is DrillStatus.ABORTED:
        kept = any(change.status is ChangeStatus.KEPT for change in drill.changes)
        return SeverityLabel(Severity.WARN if kept else Severity.OK, word)
    rehearses = drill.kind is DrillKind.REHEARSE
    bad = has_findings(drill) if rehearses else bool(list_harm(drill))
    return SeverityLabel(Severity.WARN if bad else Severity.OK, word)


def drill_columns(glyphs: Glyphs) -> tuple[Column[Drill], ...]:
    """Return the columns of a list of drills."""
    return (
        Column(
            "id",
            "id",
            lambda d: Cell(safe_text(d.id, 40)),
            lambda d: d.id,
            width=20,
            rank=2,
        ),
        Column("kind", "kind", lambda d: Cell(str(d.kind)), lambda d: d.kind, width=8),
        Column("status", "status", lambda d: glyphs.mark(judge_drill(d)), width=10),
        Column(
            "begun",
            "begun (UTC)",
            lambda d: Cell(moment(d.started_ms / 1000).removesuffix(" UTC")[5:-3]),
            lambda d: d.started_ms,
            width=11,
        ),
        Column(
            "by",
            "by",
            lambda d: Cell(safe_text(d.started_by, 100)),
            lambda d: d.started_by,
            width=8,
            rank=1,
        ),
        Column(
            "result",
            "result, or what it waits for",
            lambda d: Cell(safe_message(describe_state(d)), _tone(d)),
            width=20,
            widest=500,
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
    return SeverityLabel(_PHASES[status], str(status))


def phase_columns(glyphs: Glyphs) -> tuple[Column[PhaseRow], ...]:
    """Return the columns of a checklist of phases."""

    def state(row: PhaseRow) -> Cell:
        if row.record.status is PhaseStatus.WAITING:
            return Cell("  confirm" if row.confirmed else "  waiting", Tone.MUTED)
        return glyphs.mark(judge_phase(row))

    def name(row: PhaseRow) -> Cell:
        tone = Tone.HEADING if row.is_next else Tone.PLAIN
        return Cell(f"{row.number:>2} {row.record.phase}", tone)

    return (
        Column("phase", "phase", name, lambda row: row.number, width=20),
        Column("status", "status", state, width=10),
        Column("took", "took", _took, lambda row: row.record.took_ms, right=True, width=7, rank=1),
        Column(
            "live",
            "result, or what it waits for",
            lambda row: Cell(safe_message(row.record.live)),
            width=20,
            widest=500,
        ),
    )


def _took(row: PhaseRow) -> Cell:
    if row.record.took_ms is None:
        runs = row.record.status is PhaseStatus.RUNNING and not row.is_interrupted
        return Cell(NOT_YET if runs else "")
    return Cell(duration(row.record.took_ms / 1000, tenths=True), Tone.MUTED)


def describe_phase_row(row: PhaseRow, fence: Fence) -> list[str]:
    """Return the findings of a phase; without any, its result, or what it does."""
    if row.record.findings:
        return list(row.record.findings)
    return [row.record.live or describe_phase(row.record.phase, fence)]


def describe_findings(drill: Drill, record: PhaseRecord) -> Iterator[str]:
    """Yield the findings of a phase, each with what its check advises."""
    hints = {each.id: fix_text(each.hint) for each in drill.checks}
    for finding, check in record.list_findings():
        hint = hints.get(check, "")
        yield f"{finding}\n{hint}" if hint else finding


def headline(drill: Drill, now_ms: int, glyphs: Glyphs) -> Line:
    """Return the status of a drill, RTO and RPO so far, and the time since its start."""
    loss = describe_loss(drill) or (NOT_AVAILABLE if drill.is_over else NOT_YET)
    return (
        glyphs.mark(judge_drill(drill)),
        Cell(f" {drill.kind}", Tone.HEADING),
        *_times(drill, now_ms),
        Cell("  RPO ", Tone.MUTED),
        Cell(loss, Tone.HEADING),
    )


def _times(drill: Drill, now_ms: int) -> Line:
    elapsed = duration(elapsed_ms(drill, now_ms) / 1000)
    rto, stopped = rto_ms(drill, now_ms), stopped_for(drill, now_ms)
    since = Cell(f"  {'took' if drill.is_over else 'since start'} {elapsed}")
    if drill.kind is DrillKind.REHEARSE and not drill.is_over:
        return (since,)
    if any(each is not None for each in stopped):
        names = ("producers", "consumers")
        parts = (
            Cell(f"  {name} stopped {duration(ms / 1000)}", Tone.HEADING)
            for name, ms in zip(names, stopped, strict=True)
            if ms is not None
        )
        return (since, *parts)
    if rto is None and not drill.is_over:
        return (since,)
    if rto is None:
        return (since, Cell(f", {tool_time(drill)} of the tool", Tone.MUTED))
    return (since, Cell("  RTO ", Tone.MUTED), Cell(duration(rto / 1000), Tone.HEADING))


def report_lines(drill: Drill) -> Iterator[str]:
    """Yield the report of a drill as paragraphs of plain text."""
    begun = f"Begun {moment(drill.started_ms / 1000)} by {safe_text(drill.started_by)}"
    yield "\n".join(
        [*map(safe_message, summarize(drill)), begun, safe_message(describe_way_back(drill))]
    )
    if drill.blockers:
        yield _section("Findings", drill.blockers)
    yield _section("Phases", [_phase_text(row) for row in list_phases(drill)])
    if drill.changes:
        yield _section(
            "Changes",
            [_change_text(drill, each) for each in drill.changes],
        )
    if drill.tail:
        yield _section("Tail: records of the old source not copied", list_tail(drill.tail))
    if drill.checks:
        yield _section(
            "Checks",
            [
                f"{each.id} {each.outcome} {each.title}: {each.evidence}"
                + (f" Fix: {each.hint}" if each.hint else "")
                for each in sorted(drill.checks, key=lambda each: (not each.failed, each.id))
            ],
        )
    if drill.groups:
        yield _section(
            "Groups",
            [
                f"{safe_text(each.group)}: {counted(each.partitions, 'partition')}, "
                f"{each.unmapped:,} unmapped, re-read {_count(each.reread)}, "
                f"skipped {_count(each.skipped)}, {each.different:,} of {each.compared:,} "
                "compared records differ" + (f"; {each.note}" if each.note else "")
                for each in drill.groups
            ],
        )
    yield _section(
        "Journal",
        [f"{moment(e.at_ms / 1000)} {safe_text(e.who)} {e.phase}: {e.text}" for e in drill.events],
    )


def _change_text(drill: Drill, change: Change) -> str:
    text = f"{change.what}: {change.status}"
    if change.status is ChangeStatus.UNDONE:
        return text
    return f"{text}; to undo it: {describe_undo(drill, change.kind)}"


def _phase_text(row: PhaseRow) -> str:
    took = row.record.took_ms
    time = "" if took is None else f" ({duration(took / 1000, tenths=True)})"
    return f"{row.number} {row.record.phase}: {row.record.status}{time} {row.record.live}".rstrip()


def _count(value: int | None) -> str:
    return NOT_AVAILABLE if value is None else f"{value:,}"


def _section(title: str, lines: Iterator[str] | list[str] | tuple[str, ...]) -> str:
    return "\n".join([title, *(f"  {safe_message(line)}" for line in lines)])


def describe_abort(drill: Drill) -> str:
    """Return that the operator can still go back, and what that restores."""
    left = len(changes_to_restore(drill))
    effect = f"X aborts, and restores {counted(left, 'change')}" if left else "X aborts"
    return f"You can still go back: {effect}."


def tool_time(drill: Drill) -> str:
    """Return the time that the tool took, without waiting for people and applications."""
    return duration(tool_ms(drill) / 1000, tenths=True)
