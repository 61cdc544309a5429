"""The figures of a drill: the lines of its tiles, its phases in time, and one drill in short."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.cells import cell_len

from k2ktui.console.visuals.columns import columns
from k2ktui.console.visuals.shapes import bar
from k2ktui.console.visuals.timeline import Phase, timeline
from k2ktui.console.widgets.styled_text import fit
from k2ktui.drill.checks.catalog import blocking
from k2ktui.drill.progress import PhaseRow, elapsed_ms, rto_ms, stopped_for
from k2ktui.engine.access import is_production
from k2ktui.engine.drill.checks import CheckResult, DrillCheckOutcome, DrillKind, DrillPhase
from k2ktui.engine.drill.hook_steps import steps_back
from k2ktui.engine.drill.model import Drill, DrillStatus, PhaseStatus, find_last_rehearsal
from k2ktui.engine.drill.objectives import Objectives
from k2ktui.engine.drill.rehearsals import Rehearsal
from k2ktui.engine.drill.steps import can_go_back
from k2ktui.engine.drill.topics import TOPICS_STEP
from k2ktui.engine.severity import Severity, SeverityLabel
from k2ktui.present import formatting
from k2ktui.present.drills import judge_drill, judge_phase, tool_time
from k2ktui.present.formatting import Cell, Glyphs, Line, Tone, tone_of
from k2ktui.text import counted, duration

Room = tuple[int, int]
_OVER = (PhaseStatus.DONE, PhaseStatus.SKIPPED)
_NAME, _TOOK = 20, 8
# What an abort takes back. Not the other phases that are confirmed: records that tail copied stay,
# runs that fence-replicator has fenced on other hosts are started by hand, positions that
# source-back moved were past deleted records, and an open target stays open.
_TAKEN_BACK = frozenset(
    {
        DrillPhase.SOURCE_LOST,
        DrillPhase.FENCE_PRODUCERS,
        DrillPhase.APPLY,
        DrillPhase.MOVE_TOPICS,
    }
)
# The cells of a tile that has room for the age of the oldest record.
_OLDEST = 22


def is_taken_back(step: str) -> bool:
    """Return whether an abort takes a step back: a phase, or the begin; what hooks do, it may not.

    Only as long as the drill can go back at all.
    """
    return step in _TAKEN_BACK or step == TOPICS_STEP


def name_to_type(kind: DrillKind, name: str, *environments: str) -> str | None:
    """Return what is typed to run a drill; None for a rehearsal, which moves no group of yours."""
    asks = kind is not DrillKind.REHEARSE or any(map(is_production, environments))
    return name if asks else None


@dataclass(frozen=True, slots=True)
class TimedPhase:
    """A phase in the table of a drill: how long it has lasted, and its bar on the timeline.

    The bar is a part of the row, so that only the rows whose bars grow are drawn again.
    """

    row: PhaseRow
    lasted_ms: int | None
    bar: Line


def time_phases(
    rows: Sequence[PhaseRow], beat_ms: int, now_ms: int, width: int, glyphs: Glyphs
) -> list[TimedPhase]:
    """Return the phases with their bars, from the first one's beginning to the last one's end.

    A phase on which nobody acts ends with the drill's last sign of life, ``beat_ms``.
    """
    ends = [_end_ms(row, beat_ms) for row in rows]
    began = [row.record.began_ms for row in rows]
    bars = timeline(
        [
            Phase(
                None if at is None else at / 1000,
                None if end is None else end / 1000,
                tone_of(judge_phase(row).severity),
            )
            for row, at, end in zip(rows, began, ends, strict=True)
        ],
        now_ms / 1000,
        width,
        glyphs,
    )
    lasted = [
        None if at is None else max(0, (now_ms if end is None else end) - at)
        for at, end in zip(began, ends, strict=True)
    ]
    return [
        TimedPhase(row, None if took is None else _whole(row, took), drawn)
        for row, took, drawn in zip(rows, lasted, bars, strict=True)
    ]


def _end_ms(row: PhaseRow, beat_ms: int) -> int | None:
    """Return when a phase ended; None while it runs."""
    record = row.record
    if record.began_ms is None or record.ended_ms is not None:
        return record.ended_ms
    return max(record.began_ms, beat_ms) if row.is_interrupted else None


def _whole(row: PhaseRow, took_ms: int) -> int:
    """Return a time in whole seconds while it grows: it is drawn again once a second at most."""
    return took_ms if row.record.ended_ms is not None else took_ms // 1000 * 1000


def took_cell(phase: TimedPhase) -> Cell:
    """Return how long a phase took, or has lasted so far."""
    if phase.lasted_ms is None:
        return Cell("")
    runs = phase.row.record.status is PhaseStatus.RUNNING
    text = duration(phase.lasted_ms / 1000, tenths=not runs)
    return Cell(text, Tone.HEADING if runs else Tone.MUTED)


def scale_text(rows: Sequence[PhaseRow], beat_ms: int) -> str:
    """Return from when to when the timeline of a drill is, as its heading."""
    began = [row.record.began_ms for row in rows if row.record.began_ms is not None]
    if not began:
        return "time"
    ends = [_end_ms(row, beat_ms) for row in rows if row.record.began_ms is not None]
    known = [end for end in ends if end is not None]
    end = formatting.utc_time(max(known) / 1000) if len(known) == len(ends) else "now"
    return f"{formatting.utc_time(min(began) / 1000)} to {end} UTC"


def phase_lines(
    rows: Sequence[PhaseRow], beat_ms: int, now_ms: int, width: int, glyphs: Glyphs
) -> list[Line]:
    """Return a line for each phase: its status, its name, its bar, and how long it took."""
    room = max(4, width - _NAME - _TOOK - 2)
    lines: list[Line] = []
    for phase in time_phases(rows, beat_ms, now_ms, room, glyphs):
        row = phase.row
        waits = row.record.status is PhaseStatus.WAITING
        sign = " " if waits else glyphs.status[judge_phase(row).severity]
        tone = Tone.MUTED if waits else tone_of(judge_phase(row).severity)
        took = took_cell(phase)
        drawn = sum(cell_len(cell.text) for cell in phase.bar)
        lines.append(
            (
                Cell(f"{sign} ", tone),
                Cell(fit(str(row.record.phase), _NAME - 2), Tone.MUTED if waits else Tone.PLAIN),
                *phase.bar,
                Cell(" " * (room - drawn + 2)),
                Cell(f"{took.text:>{_TOOK}}", took.tone),
            )
        )
    return lines


def trend_lines(
    rehearsals: Sequence[Rehearsal], objectives: Objectives, size: Room, glyphs: Glyphs
) -> list[Line]:
    """Return RPO and RTO of the rehearsals as columns; nothing for fewer than two.

    The RPO is in records, or the age of the oldest if only that has an objective.

    Args:
        rehearsals: the oldest first.
        objectives: drawn as lines.
        size: cells, and lines of each of both charts.
        glyphs: the character set.
    """
    if len(rehearsals) < 2:
        return []
    by_age = objectives.rpo_s is not None and objectives.rpo_records is None
    rpo = [_rpo_of(rehearsal, by_age=by_age) for rehearsal in rehearsals]
    rto = [rehearsal.rto_ms / 1000 for rehearsal in rehearsals]

    def seconds(value: float) -> str:
        return duration(value, tenths=value < 10)

    def records(value: float) -> str:
        return f"{round(value):,}"

    charts = (
        ("RPO, age of the oldest record", rpo, objectives.rpo_s, seconds)
        if by_age
        else ("RPO, records", rpo, objectives.rpo_records, records),
        ("RTO of the tool", rto, objectives.rto_s, seconds),
    )
    lines: list[Line] = []
    for title, values, goal, text in charts:
        heading = f"{title}: {counted(len(rehearsals), 'rehearsal')}"
        limit = f", at most {text(goal)}" if goal is not None else ""
        lines += [(Cell(f"{heading}{limit}", Tone.MUTED),)]
        lines += [*columns(values, goal, size, glyphs, text), ()]
    return lines[:-1]


def _rpo_of(rehearsal: Rehearsal, *, by_age: bool) -> float | None:
    if not by_age:
        return rehearsal.rpo_records
    return None if rehearsal.rpo_ms is None else rehearsal.rpo_ms / 1000


def rehearsal_before(drill: Drill, drills: Iterable[Drill]) -> Drill | None:
    """Return the last rehearsal that had ended when a drill was begun."""
    earlier = (rehearsal for rehearsal in drills if (rehearsal.ended_ms or 0) <= drill.started_ms)
    return find_last_rehearsal(rehearsal for rehearsal in earlier if rehearsal.id != drill.id)


def rto_tile(
    drill: Drill, rehearsal: Drill | None, now_ms: int, glyphs: Glyphs, room: Room
) -> list[Line]:
    """Return the RTO so far, and the time of the tool against that of the last rehearsal."""
    width, height = room
    figure, what = _rto(drill, now_ms)
    if len(figure) + 1 + len(what) > width:
        what = what.replace(" since start", "").replace("producers ", "")
    first: Line = (Cell(figure, Tone.HEADING), Cell(f" {what}"))
    tool, before = drill.tool_ms, rehearsal.tool_ms if rehearsal is not None else None
    share = None if not before else min(1.0, tool / before)
    known = formatting.NOT_AVAILABLE if before is None else duration(before / 1000, tenths=True)
    if height > 2:
        elapsed = duration(elapsed_ms(drill, now_ms) / 1000)
        second = (
            (Cell(elapsed), Cell(" in all" if drill.is_over else " since start"))
            if drill.kind is DrillKind.REHEARSE
            else (Cell(tool_time(drill)), Cell(" of the tool"))
        )
        return [
            first,
            second,
            (Cell("last rehearsal ", Tone.MUTED), Cell(known)),
            bar(share, width, glyphs, Tone.INFO),
        ]
    label = Cell(f"tool {tool_time(drill)} of {known} ", Tone.MUTED)
    return [first, (label, *_rest(share, label, width, glyphs, Tone.INFO))]


def _rest(share: float | None, label: Cell, width: int, glyphs: Glyphs, tone: Tone) -> Line:
    """Return a bar that fills the rest of a line; none if that is less than four cells."""
    room = width - cell_len(label.text)
    return bar(share, room, glyphs, tone) if room >= 4 else ()


def _rto(drill: Drill, now_ms: int) -> tuple[str, str]:
    """Return the figure of the RTO, and what it is."""
    if drill.kind is DrillKind.REHEARSE:
        return tool_time(drill), "of the tool"
    reached = rto_ms(drill)
    if reached is not None:
        return duration(reached / 1000), "to the first record"
    producers, consumers = (
        None if ms is None else duration(ms / 1000) for ms in stopped_for(drill, now_ms)
    )
    if producers is not None:
        also = f", consumers {consumers}" if consumers is not None else ""
        return producers, f"producers stopped{also}"
    if consumers is not None:
        return consumers, "consumers stopped"
    if drill.is_over:
        return formatting.NOT_AVAILABLE, "not measured"
    elapsed = duration(elapsed_ms(drill, now_ms) / 1000)
    if drill.kind is DrillKind.DISASTER:
        return elapsed, "since start"
    return formatting.NOT_AVAILABLE, f" {elapsed} since start"


def rpo_tile(
    drill: Drill, rehearsal: Drill | None, glyphs: Glyphs, room: Room
) -> tuple[list[Line], Severity | None]:
    """Return the RPO against its bound and the last rehearsal, and how bad it is."""
    width, height = room
    figures = drill.figures
    records = figures.rpo_records if figures.rpo_records is not None else figures.rpo_at_least
    text, more = rpo_text(drill), ""
    if records is not None:
        more = " record" if records == 1 and text == "1" else " records"
        if records and figures.rpo_s is not None and width >= _OLDEST:
            more += f", oldest {duration(figures.rpo_s)}"
    if figures.silent_s:
        more += f", silent {duration(figures.silent_s)}"
    first: Line = (Cell(text, Tone.HEADING), Cell(more))
    # The bound of the phase lag; other kinds of drills have none.
    bound = drill.options.lag_records if drill.kind.is_switchover else None
    share = None if not bound or records is None else min(1.0, records / bound)
    over = bound is not None and records is not None and records > bound
    severity = Severity.WARN if over else None
    tone = Tone.WARN if over else Tone.OK
    limit = formatting.NOT_AVAILABLE if bound is None else f"{bound:,}"
    before = formatting.NOT_AVAILABLE if rehearsal is None else rpo_text(rehearsal)
    if height > 2:
        second = (Cell("bound ", Tone.MUTED), Cell(limit))
        third = (Cell("last rehearsal ", Tone.MUTED), Cell(before))
        return [first, second, third, bar(share, width, glyphs, tone)], severity
    label = Cell(f"bound {limit} ", Tone.MUTED)
    if bound is None:
        return [first, (label, Cell(f"rehearsed {before}", Tone.MUTED))], severity
    return [first, (label, *_rest(share, label, width, glyphs, tone))], severity


def rpo_text(drill: Drill) -> str:
    """Return the number of records that are on the source only."""
    figures = drill.figures
    if figures.rpo_records is not None:
        return f"{figures.rpo_records:,}"
    if figures.rpo_at_least is not None:
        return f"at least {figures.rpo_at_least:,}"
    return formatting.NOT_AVAILABLE if drill.is_over else formatting.NOT_YET


def way_tile(drill: Drill, glyphs: Glyphs, room: Room) -> tuple[list[Line], Severity]:
    """Return the kind of a drill, how many phases are over, and whether there is a way back."""
    width, height = room
    judged = judge_drill(drill)
    over = sum(record.status in _OVER for record in drill.phases)
    share = over / len(drill.phases) if drill.phases else None
    first: Line = (glyphs.mark(judged), Cell(f" {drill.kind}", Tone.HEADING))
    tone = Tone.OK if drill.status is DrillStatus.DONE else Tone.INFO
    label = Cell(f"{over} of {len(drill.phases)} phases ")
    second = (label, *_rest(share, label, width, glyphs, tone))
    return [first, second, *(_way(drill, glyphs) if height > 2 else [])], judged.severity


def _way(drill: Drill, glyphs: Glyphs) -> list[Line]:
    """Return on two lines whether an abort restores everything."""
    if drill.is_over:
        moment = formatting.moment(drill.started_ms / 1000)
        return [(Cell("begun ", Tone.MUTED), Cell(moment.removesuffix(" UTC")[5:-3]), Cell(" UTC"))]
    if drill.status is DrillStatus.ABORTING:
        return [(Cell("X completes the abort", Tone.WARN),)]
    if not can_go_back(drill):
        return [
            (Cell(f"{glyphs.status[Severity.BAD]} You cannot go back:", Tone.BAD),),
            (Cell("  the target is open"),),
        ]
    left = len(steps_back(drill))
    effect = f"X undoes {counted(left, 'change')}" if left else "X aborts"
    return [
        (Cell(f"{glyphs.status[Severity.OK]} You can still go back:", Tone.OK),),
        (Cell(f"  {effect}"),),
    ]


def check_tile(drill: Drill, glyphs: Glyphs, room: Room) -> tuple[list[Line], Severity | None]:
    """Return how many checks stop the drill, need a look, and have passed."""
    width, height = room
    if not drill.checks:
        return [(Cell("none has run yet", Tone.MUTED),)], None
    stop, look, passed = count_checks(drill)
    signs = (Severity.BAD, Severity.WARN, Severity.OK)
    words = ("failed, blocking", "to look at", "passed")
    cells = [
        Cell(f"{glyphs.status[sign]} {count:,} {word}", tone_of(sign) if count else Tone.MUTED)
        for sign, count, word in zip(signs, (stop, look, passed), words, strict=True)
    ]
    worst = Severity.BAD if stop else Severity.WARN if look else None
    share = passed / len(drill.checks)
    if height > 2:
        return [*((cell,) for cell in cells), bar(share, width, glyphs)], worst
    first = cells[0] if stop else cells[1]
    return [(first,), (cells[2],)], worst


def judge_check(check: CheckResult, drill: Drill) -> SeverityLabel:
    """Rate the result of a check: a failure that stops the drill is worse than another one.

    A rehearsal is not stopped; there, a failure that would stop a planned switchover is the worse.
    """
    if check.outcome is DrillCheckOutcome.PASS:
        return SeverityLabel(Severity.OK, "pass")
    if check.outcome is DrillCheckOutcome.UNKNOWN:
        return SeverityLabel(Severity.UNKNOWN, "not checked")
    if check.id in drill.options.accepted:
        return SeverityLabel(Severity.WARN, "accepted")
    kind = DrillKind.PLANNED if drill.kind is DrillKind.REHEARSE else drill.kind
    stops = blocking([check], kind)
    return SeverityLabel(Severity.BAD if stops else Severity.WARN, "fail")


def count_checks(drill: Drill) -> tuple[int, int, int]:
    """Return the number of checks that stop a drill, that need a look, and that have passed."""
    counts = Counter(judge_check(check, drill).severity for check in drill.checks)
    passed, stop = counts[Severity.OK], counts[Severity.BAD]
    return stop, counts.total() - stop - passed, passed
