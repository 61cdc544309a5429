"""The figures of a plan: the tiles of its totals and results, and all that is known of a row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from k2ktui.console.screens.plan_table import RESULTS, PlanLine
from k2ktui.console.visuals.facts import fact, fact_lines
from k2ktui.console.visuals.shapes import Log, Span, ends, journey, log_bounds, log_lines, markers
from k2ktui.console.visuals.sums import Part, Sum, at_most
from k2ktui.engine.mapping.translate import Basis
from k2ktui.engine.moves.apply import WriteOutcome
from k2ktui.engine.moves.plan import Action, Plan, PlanRow
from k2ktui.engine.records.state import SourcePartition
from k2ktui.engine.severity import Severity
from k2ktui.present import formatting
from k2ktui.present.formatting import Cell, Glyphs, Line, Tone, tone_of
from k2ktui.present.plans import delta, plan_verdict, summarize_plan
from k2ktui.sync.verify.verification import VerificationTotals
from k2ktui.text import safe_text
from k2ktui.watch.model import RangeRow


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of the logs behind a row.

    Attributes:
        sources: of each source partition: its log, and the mapping range of its committed offset.
        target: start and end of the target partition's log when the plan was made.
    """

    sources: Mapping[SourcePartition, tuple[Log, RangeRow | None]]
    target: Span | None = None


def describe_row(line: PlanLine, known: Known, width: int, glyphs: Glyphs) -> list[Line]:
    """Return all details of a row, for the panel beside the table."""
    row = line.row
    verdict, news = plan_verdict(row), line.news()
    marks: list[Cell] = [glyphs.mark(verdict)]
    if news is not None:
        marks += [Cell("  now: ", Tone.MUTED), glyphs.mark(news)]
    by = delta(row)
    change = f"{formatting.number(row.current)} → {formatting.number(row.proposed)}"
    records = f"{formatting.number(row.reread)} re-read, {formatting.number(row.skipped)} skipped"
    costs = Tone.BAD if row.skipped else Tone.WARN if row.reread else Tone.PLAIN
    facts: list[Line] = [
        fact("Since then", line.explanation, Tone.WARN),
        fact("Offset", f"{change}  {formatting.signed(by)}" if by is not None else change),
        fact("At most", records, costs),
        fact("Why", line.reason),
        fact("Basis", f"{row.basis}: {_BASES[row.basis]}"),
        fact("Source", f"group {row.state_source or 'unknown'}"),
        fact("Target", f"group {row.state_target or 'not there yet'}"),
    ]
    lines: list[Line] = [
        tuple(marks),
        *fact_lines(facts, width),
        (),
        *_target_lines(row, known, width, glyphs),
    ]
    for source, offset in row.sources:
        lines += ((), *_source_lines(source, offset, known, width, glyphs))
    return lines


def _target_lines(row: PlanRow, known: Known, width: int, glyphs: Glyphs) -> list[Line]:
    """Return where the committed offset goes on the target; that of a row left alone stays."""
    title = _log_title("target", row.topic, row.partition)
    if known.target is None:
        return [title, (Cell("not known", Tone.MUTED),)]
    after = row.proposed if row.changes else row.current
    tone = tone_of(plan_verdict(row).severity)
    drawn = journey(known.target, row.current, after, width, glyphs, tone)
    return [title, drawn, ends(known.target, width)]


def _source_lines(
    source: SourcePartition, offset: int, known: Known, width: int, glyphs: Glyphs
) -> list[Line]:
    """Return where a group's offset lies on the source, and the mapping range that it is in."""
    lines: list[Line] = [_log_title("source", source.topic, source.partition)]
    log, mapped = known.sources.get(source, (Log(None, None), None))
    text = f"{offset:,}"
    bounds = log_bounds(log)
    if bounds is None:
        lines += fact_lines([fact("Committed", f"{text}; its log is not known")], width)
    else:
        below = markers(bounds, offset, None, width - 2, (text, "", ""))
        lines += log_lines(log, bounds, (Cell(f" {below}", Tone.WARN),), width, glyphs)
    if mapped is None:
        return [*lines, fact("Mapped", "no range in memory")]
    first, target, count = mapped
    where = "" if first <= offset < first + count else ", before it"
    return [
        *lines,
        fact("Mapped", f"{first:,} … {first + count - 1:,}{where}"),
        fact("to", f"{target:,} … {target + count - 1:,}"),
    ]


def _log_title(side: str, topic: str, partition: int) -> Line:
    name = safe_text(f"{topic}-{partition}", 300)
    return (Cell(f"Retained on the {side}: ", Tone.MUTED), Cell(name))


_BASES = {
    Basis.EXACT: "by a mapping",
    Basis.END: "caught up with the copy",
    Basis.AHEAD: "beyond the copy",
    Basis.BOUNDED: "some records are re-read, none is skipped",
    Basis.UNMAPPED: "no mapping is known",
    Basis.CHOSEN: "by an operator, instead of the translation",
}


def total_sums(plan: Plan) -> list[Sum]:
    """Return a plan's totals: rows by action, records re-read and skipped."""
    if not plan.rows:
        return []
    effect, rows = summarize_plan(plan.rows), len(plan.rows)
    count = {action: effect.actions.get(action, 0) for action in Action}
    moved = count[Action.ADVANCE] + count[Action.REWIND] + count[Action.UPDATE]
    left = count[Action.KEEP] + count[Action.BLOCKED] + count[Action.LEAVE_OUT]
    left_out: Part = (count[Action.LEAVE_OUT], Action.LEAVE_OUT.word, Tone.PLAIN)
    blocked = [plan_verdict(row).severity for row in plan.rows if row.action is Action.BLOCKED]
    worst = max(blocked, default=None)
    blocked_tone = Tone.MUTED if worst is None else tone_of(worst)
    return [
        Sum("Create", [(count[Action.CREATE], "create", Tone.PLAIN)], count[Action.CREATE] / rows),
        Sum(
            "Advance",
            [
                (count[Action.ADVANCE], "advance", Tone.PLAIN),
                (count[Action.REWIND], "rewind", Tone.WARN),
                (count[Action.UPDATE], "update", Tone.PLAIN),
            ],
            moved / rows,
            severity=Severity.WARN if count[Action.REWIND] else None,
        ),
        Sum(
            "Left alone",
            [
                (count[Action.KEEP], "keep", Tone.PLAIN),
                (count[Action.BLOCKED], Action.BLOCKED.word, blocked_tone),
                *([left_out] if left_out[0] else []),
            ],
            left / rows,
            severity=worst,
        ),
        at_most("Re-read", effect.reread, Severity.WARN),
        at_most("Skipped", effect.skipped, Severity.BAD),
    ]


def written_sums(plan: Plan, counts: Mapping[str, int]) -> list[Sum]:
    """Return the outcomes of applying a plan, so far."""

    def of(*outcomes: WriteOutcome) -> list[tuple[int, str, Tone]]:
        return [
            (counts.get(str(outcome), 0), str(outcome), tone_of(RESULTS[outcome].severity))
            for outcome in outcomes
        ]

    left_out = of(WriteOutcome.MOVED, WriteOutcome.REFUSED, WriteOutcome.NOT_WRITTEN)
    changed, unknown = of(WriteOutcome.CHANGED), of(WriteOutcome.UNKNOWN)
    applied = counts.get(str(WriteOutcome.APPLIED), 0)
    changes, left = len(plan.applied), len(plan.rows) - len(plan.applied)
    return [
        Sum("Applied", of(WriteOutcome.APPLIED), applied / max(1, changes)),
        _problem("Unwritten", left_out, Severity.WARN),
        _problem("Changed", changed, Severity.BAD),
        _problem("Unknown", unknown, Severity.UNKNOWN),
        Sum("Left alone", [(left, "rows", Tone.PLAIN)], note="by plan"),
    ]


def undone_sums(counts: Mapping[str, int]) -> list[Sum]:
    """Return the outcomes of an undo."""
    undone = counts.get(str(WriteOutcome.APPLIED), 0)
    others = [
        (count, word, Tone.BAD) for word, count in counts.items() if word != WriteOutcome.APPLIED
    ]
    return [
        Sum("Undone", [(undone, "undone", Tone.OK)], undone / max(1, sum(counts.values()))),
        _problem("Not undone", others, Severity.BAD),
    ]


def verified_sums(
    positions: VerificationTotals, records: VerificationTotals, unchecked: int
) -> list[Sum]:
    """Return the outcomes of a comparison by content.

    Args:
        positions: of the groups' next records.
        records: of the sampled ones.
        unchecked: positions that could not be compared, or were not.
    """
    asked = positions.same + positions.rereads + positions.different + unchecked
    sampled = [(records.same, "same", Tone.PLAIN), (records.different, "different", Tone.BAD)]
    return [
        Sum("Same", [(positions.same, "same", Tone.OK)], positions.same / max(1, asked)),
        _problem("Re-read", [(positions.rereads, "re-read", Tone.WARN)], Severity.WARN),
        _problem("Different", [(positions.different, "different", Tone.BAD)], Severity.BAD),
        _problem("Unchecked", [(unchecked, "unchecked", Tone.UNKNOWN)], Severity.UNKNOWN),
        Sum(
            "Sampled", sampled, note="records", severity=Severity.BAD if records.different else None
        ),
    ]


def _problem(title: str, parts: Sequence[Part], severity: Severity) -> Sum:
    """Return a total whose tile has the color of a problem if it is not 0."""
    some = [part for part in parts if part[0]]
    if not some:
        return Sum(title, [(0, "rows", Tone.MUTED)])
    return Sum(title, some, severity=severity)
