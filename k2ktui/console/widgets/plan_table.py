"""A plan as a table: current offset, proposed offset, reason, and outcome."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from k2ktui.engine.applying import WriteOutcome, WriteResult
from k2ktui.engine.plan import Plan, PlanRow
from k2ktui.engine.translate import Basis
from k2ktui.present import formatting
from k2ktui.present.columns import Column
from k2ktui.present.formatting import Cell, Glyphs, Line, Tone
from k2ktui.present.plans import delta, plan_columns, plan_verdict, summarize_plan
from k2ktui.sync.record_comparison import ComparisonOutcome
from k2ktui.sync.verification import ContentCheck
from k2ktui.text import counted, safe_message, safe_text
from k2ktui.watch.severity import Severity, SeverityLabel


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
        return plan_verdict(self.row).severity >= Severity.WARN or not _certain(self.row)

    @property
    def failed(self) -> bool:
        """Whether anything went wrong with it."""
        news = self.news()
        return news is not None and news.severity >= Severity.WARN

    def news(self) -> SeverityLabel | None:
        """Return its outcome since the plan was made, the most recent step first."""
        if self.back is not None:
            if self.back.result is WriteOutcome.APPLIED:
                return SeverityLabel(Severity.INFO, "undone")
            return SeverityLabel(Severity.BAD, f"not undone: {self.back.result}")
        if self.moved:
            return SeverityLabel(Severity.WARN, "moved")
        if self.proof is not None:
            return _PROOFS[self.proof.outcome]
        if self.unchecked:
            return _PROOFS[ComparisonOutcome.COULD_NOT_CHECK]
        return None if self.written is None else _RESULTS[self.written.result]

    @property
    def explanation(self) -> str:
        """The explanation of that outcome, safe to display."""
        compared = self.proof.why if self.proof is not None else self.unchecked
        back, written = (each.why if each else "" for each in (self.back, self.written))
        return safe_message(back or self.moved or compared or written)

    @property
    def reason(self) -> str:
        """The plan's reason, safe to display; empty if the explanation contains it."""
        text = safe_message(self.row.reason)
        return "" if text in self.explanation else text


_RESULTS = {
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


def _certain(row: PlanRow) -> bool:
    return row.basis in (Basis.EXACT, Basis.END) and not row.skipped


def summarize(plan: Plan) -> Line:
    """Return a plan's totals: rows by action, records re-read and skipped."""
    found = summarize_plan(plan.rows)
    parts = "  ".join(f"{count:,} {action}" for action, count in found.actions.items())
    return (
        Cell(f"{parts or 'nothing to plan'}  "),
        Cell(f"{found.reread:,} re-read", Tone.WARN if found.reread else Tone.MUTED),
        Cell("  "),
        Cell(f"{found.skipped:,} skipped", Tone.BAD if found.skipped else Tone.MUTED),
        Cell(f"  rewind: {plan.rewind}", Tone.MUTED),
    )


def columns(glyphs: Glyphs, *, news: bool) -> tuple[Column[PlanLine], ...]:
    """Return the columns; ``news`` adds the outcome of each row."""
    left_out = ("from", "reason")
    found = [each.of(_row) for each in plan_columns(glyphs) if each.id not in left_out]
    if news:
        found[-1] = replace(found[-1], rank=4)
        found.append(Column("result", "result", lambda line: _news(line, glyphs), width=11))
    found.append(
        Column("reason", "reason", lambda line: Cell(_reason(line)), rank=9, width=12, widest=120)
    )
    return tuple(found)


def _row(line: PlanLine) -> PlanRow:
    return line.row


def _news(line: PlanLine, glyphs: Glyphs) -> Cell:
    news = line.news()
    return Cell("") if news is None else glyphs.mark(news)


def _reason(line: PlanLine) -> str:
    return "; ".join(part for part in (line.explanation, line.reason[:400]) if part)


def detail(line: PlanLine, wrap: Callable[[str], list[str]]) -> list[Line]:
    """Return all details of a row in a few lines."""
    row = line.row
    moves = f"{formatting.number(row.current)} → {formatting.number(row.proposed)}"
    by = f" ({formatting.signed(delta(row))})" if delta(row) is not None else ""
    state = row.state_target or "does not exist yet"
    what = (
        f"{row.source} → {row.topic}-{row.partition}  {moves}{by}  {row.basis}, "
        f"{formatting.number(row.reread)} re-read, {formatting.number(row.skipped)} skipped"
    )
    found: list[Line] = [
        (
            Cell(safe_text(row.group, 200), Tone.HEADING),
            Cell(f"  on the source {row.state_source or '—'}, on the target {state}", Tone.MUTED),
        ),
        *((Cell(text),) for text in wrap(what)),
    ]
    found += [
        (Cell(text, Tone.WARN),) for text in (wrap(line.explanation) if line.explanation else [])
    ]
    return found + [(Cell(text),) for text in (wrap(line.reason) if line.reason else [])]


def confirmation_lines(plan: Plan, notes: Sequence[str], command: str) -> list[str | Line]:
    """Return the confirmation text of a plan; ``command`` is the equivalent CLI command."""
    changes, found = plan.changes, summarize_plan(plan.changes)
    what = ", ".join(f"{count:,} {action}" for action, count in found.actions.items())
    names = sorted({row.group for row in changes})
    reread, skipped = found.reread, found.skipped
    left = len(plan.rows) - len(changes)
    shown = ", ".join(safe_text(name, 40) for name in names[:5])
    more = f" and {len(names) - 5:,} more" if len(names) > 5 else ""
    cost = Cell(
        f"{_at_most(reread)} read again, {_at_most(skipped).lower()} skipped.",
        Tone.BAD if skipped else Tone.WARN if reread else Tone.PLAIN,
    )
    return [
        f"{counted(len(changes), 'committed offset')} ({what}) to write on target cluster "
        f"{safe_text(plan.target_cluster)}, of {counted(len(names), 'group')}: {shown}{more}.",
        (cost,),
        *notes,
        f"Left alone: {counted(left, 'row')} of the plan." if left else "All rows of the plan.",
        "If anything has moved since, nothing is written. U or k2ktui undo undoes it.",
        "",
        command,
    ]


def _at_most(records: int) -> str:
    return f"At most {counted(records, 'record')}" if records else "No record"
