"""A plan as a table: current offset, proposed offset, reason, and outcome."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from k2ktui.console.visuals.shapes import jump, picture_cell, power_of_ten
from k2ktui.console.visuals.sums import cost_cell
from k2ktui.engine.mapping.translate import Basis
from k2ktui.engine.moves.apply import WriteOutcome, WriteResult
from k2ktui.engine.moves.plan import Action, Plan, PlanRow
from k2ktui.engine.severity import Severity, SeverityLabel
from k2ktui.present.columns import Column, insert, rank
from k2ktui.present.formatting import Cell, Glyphs, Line, Tone, number, tone_of
from k2ktui.present.plans import delta, plan_columns, plan_verdict, summarize_plan
from k2ktui.sync.verify.record_comparison import ComparisonOutcome
from k2ktui.sync.verify.verification import ContentCheck
from k2ktui.text import counted, safe_message, safe_text

# The columns, and which of them a narrow terminal leaves out first; the panel has all.
_RANKS = {
    "group": 0,
    "partition": 0,
    "now": 0,
    "proposed": 0,
    "delta": 5,
    "basis": 6,
    "reread": 3,
    "skipped": 2,
    "action": 0,
}


@dataclass(frozen=True, slots=True)
class PlanLine:
    """A row of a plan and its outcome so far.

    Attributes:
        number: its place in the plan, uncertain rows first.
        written: the result of writing it.
        moved: why it is no longer valid.
        proof: the result of the content comparison.
        unchecked: why its content was not compared.
        back: the result of undoing it.
    """

    number: int
    row: PlanRow
    written: WriteResult | None = None
    moved: str = ""
    proof: ContentCheck | None = None
    unchecked: str = ""
    back: WriteResult | None = None

    @property
    def key(self) -> tuple[str, str, int]:
        """The group, target topic and partition."""
        return self.row.group, self.row.topic, self.row.partition

    @property
    def uncertain(self) -> bool:
        """Whether the operator should look at it before the plan is applied."""
        is_certain = self.row.basis in (Basis.EXACT, Basis.END) and not self.row.skipped
        return plan_verdict(self.row).severity >= Severity.WARN or not is_certain

    @property
    def failed(self) -> bool:
        """Whether anything went wrong with it."""
        return self.trouble > 0

    @property
    def trouble(self) -> int:
        """How bad it is what went wrong with it; 0 if nothing did."""
        news = self.news()
        return news.severity if news is not None and news.severity >= Severity.WARN else 0

    def news(self) -> SeverityLabel | None:
        """Return its outcome since the plan was made, the most recent step first."""
        if self.back is not None:
            if self.back.outcome is WriteOutcome.APPLIED:
                return SeverityLabel(Severity.INFO, "undone")
            return SeverityLabel(Severity.BAD, f"not undone: {self.back.outcome}")
        if self.moved:
            return SeverityLabel(Severity.WARN, "moved")
        if self.proof is not None:
            return _PROOFS[self.proof.outcome]
        if self.unchecked:
            return _PROOFS[ComparisonOutcome.COULD_NOT_CHECK]
        return None if self.written is None else RESULTS[self.written.outcome]

    @property
    def explanation(self) -> str:
        """The explanation of that outcome, safe to display."""
        compared = self.proof.why if self.proof is not None else self.unchecked
        back, written = (result.reason if result else "" for result in (self.back, self.written))
        return safe_message(back or self.moved or compared or written)

    @property
    def reason(self) -> str:
        """The plan's reason, safe to display; empty if the explanation contains it."""
        text = safe_message(self.row.reason)
        return "" if text in self.explanation else text


RESULTS = {
    WriteOutcome.APPLIED: SeverityLabel(Severity.OK, "applied"),
    WriteOutcome.MOVED: SeverityLabel(Severity.WARN, "moved"),
    WriteOutcome.REFUSED: SeverityLabel(Severity.BAD, "refused"),
    WriteOutcome.NOT_WRITTEN: SeverityLabel(Severity.WARN, "not written"),
    WriteOutcome.CHANGED: SeverityLabel(Severity.BAD, "changed"),
    WriteOutcome.UNKNOWN: SeverityLabel(Severity.UNKNOWN, "unknown"),
}
_PROOFS = {
    ComparisonOutcome.SAME: SeverityLabel(Severity.OK, "same"),
    ComparisonOutcome.REREADS: SeverityLabel(Severity.WARN, "re-reads"),
    ComparisonOutcome.DIFFERENT: SeverityLabel(Severity.BAD, "different"),
    ComparisonOutcome.COULD_NOT_CHECK: SeverityLabel(Severity.UNKNOWN, "unchecked"),
}


def columns(
    glyphs: Glyphs, *, news: bool, largest: float, width: int
) -> tuple[Column[PlanLine], ...]:
    """Return the columns.

    Args:
        glyphs: the character set.
        news: whether to add the outcome of each row.
        largest: the largest jump of any row, for the scale of the drawing.
        width: cells of the drawing.
    """

    def drawn(row: PlanRow) -> Cell:
        tone = tone_of(plan_verdict(row).severity)
        return picture_cell(jump(delta(row), largest, width, glyphs, tone, stays=not row.changes))

    picture: Column[PlanRow] = Column(
        "jump", "jump", drawn, width=width, widest=width, rank=1, picture=True
    )
    of_plan = insert(rank(plan_columns(glyphs), _RANKS), {"now": picture})
    chosen = [column.of(_row) for column in of_plan]
    if news:
        chosen[-1] = replace(chosen[-1], rank=4)
        chosen.append(Column("result", "result", lambda line: _news(line, glyphs), width=11))
    chosen.append(
        Column("reason", "reason", lambda line: Cell(_reason(line)), rank=9, width=12, widest=120)
    )
    return tuple(chosen)


def scale_of(plan: Plan) -> int:
    """Return the end of the jumps' scale."""
    return power_of_ten(abs(delta(row) or 0) for row in plan.rows)


def _row(line: PlanLine) -> PlanRow:
    return line.row


def _news(line: PlanLine, glyphs: Glyphs) -> Cell:
    news = line.news()
    return Cell("") if news is None else glyphs.mark(news)


def _reason(line: PlanLine) -> str:
    return "; ".join(part for part in (line.explanation, line.reason[:400]) if part)


def reasons(line: PlanLine, wrap: Callable[[str], list[str]]) -> list[Line]:
    """Return what went wrong with a row and why it is planned so."""
    lines: list[Line] = []
    for text, tone in ((line.explanation, Tone.WARN), (line.reason, Tone.PLAIN)):
        lines += [(Cell(part, tone),) for part in (wrap(text) if text else [])]
    return lines


def effect_lines(plan: Plan) -> tuple[Line, ...]:
    """Return what applying a plan does, in two short sentences: what is written, what it costs."""
    changes, effect = plan.changes, summarize_plan(plan.changes)
    if not plan.rows:
        return ()
    if not changes and plan.applied:
        kept = counted(len(plan.applied), "row")
        return ((Cell(f"Apply writes no offset, and remembers {kept} as chosen."),),)
    if not changes:
        return ((Cell("Nothing to apply: every row is kept or blocked; Enter says why."),),)
    what = ", ".join(f"{count:,} {action.word}" for action, count in effect.actions.items())
    groups = counted(len({row.group for row in changes}), "group")
    return (
        (
            Cell(
                f"Apply commits {counted(len(changes), 'offset')} ({what}) of {groups} on the "
                "target."
            ),
        ),
        (cost_cell(effect.reread, effect.skipped, ("read again", "skipped")),),
    )


def choice_title(row: PlanRow) -> list[Line]:
    """Return the heading of the dialog that sets a row: which it is, and its offset now."""
    where = safe_text(f"{row.group}  {row.topic}-{row.partition}", 200)
    now = f"committed on the target: {number(row.current)}"
    return [(Cell(f"Set {where}", Tone.HEADING),), (Cell(now, Tone.MUTED),)]


def choice_lines(row: PlanRow) -> list[Line]:
    """Return what a row that is set does, and what that costs."""
    verdict = plan_verdict(row)
    if row.action is Action.LEAVE_OUT:
        what = "It is left out: its committed offset stays."
    else:
        what = f"{row.action.word}: {number(row.current)} → {number(row.proposed)}"
    blocked = row.action is Action.BLOCKED
    lines: list[Line] = [(Cell(what, tone_of(verdict.severity) if blocked else Tone.PLAIN),)]
    if blocked:
        lines.append((Cell(safe_message(row.reason, 200), Tone.WARN),))
    if row.reread is None or row.skipped is None:
        return [*lines, (Cell("What that re-reads and skips is not known.", Tone.WARN),)]
    return [*lines, (cost_cell(row.reread, row.skipped, ("read again", "skipped")),)]


def confirmation_lines(plan: Plan, notes: Sequence[str]) -> list[str | Line]:
    """Return what the dialog says that asks to apply a plan."""
    changes = plan.changes
    names = sorted({row.group for row in changes})
    left = len(plan.rows) - len(changes)
    shown = ", ".join(safe_text(name, 40) for name in names[:5])
    more = f" and {len(names) - 5:,} more" if len(names) > 5 else ""
    return [
        *effect_lines(plan),
        f"Target cluster: {safe_text(plan.target_cluster, 60)}. Groups: {shown}{more}.",
        *((Cell(safe_message(note), Tone.WARN),) for note in notes),
        f"Left alone: {counted(left, 'row')} of the plan." if left else "All rows of the plan.",
        "If anything has moved since, nothing is written. U or k2ktui undo undoes it.",
    ]
