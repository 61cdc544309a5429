"""A site drill in short: its members in order, their phases as signs, and what is to be done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from k2ktui.console.visuals.shapes import picture_cell
from k2ktui.drill.checks.catalog import checks_that_stop
from k2ktui.drill.progress import describe_loss, describe_state, list_phases, rto_ms, stopped_for
from k2ktui.engine.drill.checks import DrillKind
from k2ktui.engine.drill.model import Drill, DrillStatus, PhaseStatus
from k2ktui.engine.drill.site import (
    BARRIER,
    MemberState,
    MemberStatus,
    SiteDrill,
    can_all_go_back,
    find_unverified,
)
from k2ktui.engine.drill.steps import next_phase, waits_for_tail_choice
from k2ktui.engine.severity import Severity, SeverityLabel
from k2ktui.present.columns import Column
from k2ktui.present.drills import describe_findings, judge_phase
from k2ktui.present.formatting import (
    NOT_AVAILABLE,
    NOT_YET,
    Cell,
    Glyphs,
    Line,
    Tone,
    tone_of,
)
from k2ktui.present.site_drills import judge_member, member_columns
from k2ktui.site import report
from k2ktui.site.report import site_rpo, site_rto_ms
from k2ktui.text import counted, duration, list_names, safe_message

_NAMED = 3


def place_of(member: MemberState) -> int:
    """Return the number of the phase that a member is in, from 0; those of one that is over."""
    drill = member.drill
    if drill is None:
        return 0
    phase = next_phase(drill)
    numbers = (n for n, record in enumerate(drill.phases) if record.phase is phase)
    return next(numbers, len(drill.phases))


def member_order(member: MemberState) -> tuple[int, int, str]:
    """Sort key that puts the worst first, then those that are behind."""
    return -judge_member(member).severity, place_of(member), member.pipeline


def phase_strip(member: MemberState, glyphs: Glyphs) -> Line:
    """Return the phases of a member as a sign each, with a line where members wait for all."""
    drill = member.drill
    if drill is None:
        return ()
    cells: list[Cell] = []
    for row in list_phases(drill, acting=member.acting):
        if row.record.phase is BARRIER and drill.kind is not DrillKind.REHEARSE:
            cells.append(Cell("|" if glyphs.ascii else "│", Tone.MUTED))
        judged = judge_phase(row)
        if row.record.status is PhaseStatus.WAITING:
            cells.append(Cell("." if glyphs.ascii else "·", Tone.MUTED))
        elif row.record.status is PhaseStatus.SKIPPED:
            cells.append(Cell("-", Tone.MUTED))
        else:
            cells.append(Cell(glyphs.status[judged.severity], tone_of(judged.severity)))
    return tuple(cells)


def describe_member(member: MemberState) -> str:
    """Return why a member is held, what it does, or what has become of it."""
    drill = member.drill
    if drill is not None and not (member.left_out or drill.is_over) and _failed(drill):
        return describe_state(drill)  # with its phase, where the error is only the reason
    return report.describe_member(member)


def _failed(drill: Drill) -> bool:
    phase = next_phase(drill)
    return phase is not None and drill.record(phase).status is PhaseStatus.FAILED


def advise(member: MemberState) -> str:
    """Return what to do about a member; "" if there is nothing to do."""
    if member.left_out or member.status is not MemberStatus.HELD:
        return ""
    if member.drill is None:
        return "Bring its clusters back and press R, or leave it out with L."
    if waits_for_tail_choice(member.drill):
        return "Choose what happens to the records that were never copied: T."
    ids = ", ".join(check.id for check in checks_that_stop(member.drill))
    accept = f", accept {ids} with A" if ids else ""
    return f"Correct it and press R{accept}, or leave it out with L."


def list_member_findings(member: MemberState) -> Iterable[str]:
    """Yield the findings that have stopped a member, each with its fix."""
    drill = member.drill
    phase = next_phase(drill) if drill is not None else None
    if drill is not None and phase is not None:
        yield from describe_findings(drill, drill.record(phase))


def count_members(site: SiteDrill) -> list[tuple[SeverityLabel, int]]:
    """Return how many members there are by status, the worst first."""
    counts = Counter(judge_member(member) for member in site.members)
    return sorted(counts.items(), key=lambda item: (-item[0].severity, item[0].word))


def describe_site(site: SiteDrill) -> str:
    """Return how many members there are, and what they do, in one line."""
    return f"{counted(len(site.members), 'pipeline')}: {describe_members(site)}"


def describe_members(site: SiteDrill) -> str:
    """Return what the members do, in one line."""
    return ", ".join(f"{count:,} {label.word}" for label, count in count_members(site))


def describe_hold(site: SiteDrill) -> str:
    """Return which members keep the others from opening their targets; "" if none is held."""
    if site.kind is DrillKind.REHEARSE or site.is_over:
        return ""
    held = [state for state in find_unverified(site) if state.status is MemberStatus.HELD]
    if not held:
        return ""
    names = list_names([state.pipeline for state in held], _NAMED)
    verb = "keeps" if len(held) == 1 else "keep"
    return f"{names} {verb} all others from {BARRIER}."


def describe_way_back(site: SiteDrill) -> tuple[str, str, Tone]:
    """Return whether an abort restores everything, and how or why not, "" if that says all."""
    if site.status is DrillStatus.ABORTING:
        return "X completes the abort.", "", Tone.WARN
    if can_all_go_back(site):
        return "You can still go back", "X aborts all.", Tone.OK
    opened = sum(drill.figures.opened_ms is not None for drill in site.drills)
    return "You cannot go back", f"{counted(opened, 'target')} open.", Tone.BAD


def rpo_of_site(site: SiteDrill) -> str:
    """Return the records that are on the source only, as text."""
    records, is_least = site_rpo(site)
    if records is None:
        return NOT_AVAILABLE if site.is_over else NOT_YET
    return f"{'at least ' if is_least else ''}{records:,}"


def rto_of_site(site: SiteDrill, now_ms: int) -> tuple[str, str]:
    """Return the RTO of a site and what it is: until its last member was read."""
    drills = [member.drill for member in site.moving if member.drill is not None]
    if site.kind is DrillKind.REHEARSE:
        tool = sum(drill.tool_ms for drill in drills)
        return duration(tool / 1000, tenths=True), "of the tool, added up"
    if (reached := site_rto_ms(site)) is not None:
        return duration(reached / 1000), "until all were read"
    stopped = [ms for drill in drills if (ms := stopped_for(drill, now_ms)[0]) is not None]
    if stopped:
        return duration(max(stopped) / 1000), "producers stopped"
    if site.is_over or not site.started_ms:
        return NOT_AVAILABLE, "not measured"
    return duration(max(0, now_ms - site.started_ms) / 1000), "since start"


def _rto_of(drill: Drill | None) -> str:
    if drill is None:
        return ""
    if drill.kind is DrillKind.REHEARSE:
        return duration(drill.tool_ms / 1000, tenths=True)
    reached = rto_ms(drill)
    return "" if reached is None else duration(reached / 1000)


def _rpo_of(drill: Drill | None) -> str:
    if drill is None:
        return ""
    figures = drill.figures
    if figures.rpo_records is not None:
        return f"{figures.rpo_records:,}"
    return "" if figures.rpo_at_least is None else f">={figures.rpo_at_least:,}"


def member_grid_columns(glyphs: Glyphs, phases: int) -> tuple[Column[MemberState], ...]:
    """Return the columns of a site drill's members, with a sign for each of their phases."""

    def now(member: MemberState) -> Cell:
        severity = judge_member(member).severity
        tone = tone_of(severity) if severity >= Severity.WARN else Tone.PLAIN
        return Cell(safe_message(" ".join(describe_member(member).split())), tone)

    def rpo(member: MemberState) -> Cell:
        return Cell(glyphs.text(_rpo_of(member.drill)))

    by_id = {column.id: column for column in member_columns(glyphs)}
    wide = phases + 1
    return (
        replace(by_id["pipeline"], sort=lambda member: member.pipeline),
        replace(by_id["status"], sort=lambda member: -judge_member(member).severity),
        Column(
            "phases",
            "phases",
            lambda member: picture_cell(phase_strip(member, glyphs)),
            place_of,
            width=wide,
            widest=wide,
            rank=1,
            picture=True,
        ),
        Column("rpo", "RPO", rpo, None, True, 5, 3),
        Column("rto", "RTO", lambda member: Cell(_rto_of(member.drill)), None, True, 6, 4),
        replace(by_id["phase"], heading="why it is held, or what it does", cell=now),
    )


def member_lines(member: MemberState) -> Iterable[str]:
    """Yield what is known of a member as paragraphs, for a person who has to act on it."""
    drill, loss = member.drill, ""
    yield f"{judge_member(member).word}: {describe_member(member)}"
    yield from list_member_findings(member)
    if text := advise(member):
        yield text
    if drill is not None and (loss := describe_loss(drill)):
        yield f"RPO {loss}"
