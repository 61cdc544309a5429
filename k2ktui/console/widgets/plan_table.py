"""A plan as a table: current offset, proposed offset, reason, and outcome."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from k2ktui.console import formatting
from k2ktui.console.formatting import Cell, Glyphs, Line, Tone
from k2ktui.console.widgets.columns import Column
from k2ktui.engine.applying import WriteOutcome, WriteResult
from k2ktui.engine.plan import Action, Plan, PlanRow
from k2ktui.engine.translate import Basis
from k2ktui.sync.record_comparison import ComparisonOutcome
from k2ktui.sync.verification import ContentCheck
from k2ktui.text import counted, safe_text
from k2ktui.watch.severity import Severity, SeverityLabel


@dataclass(frozen=True, slots=True)
class PlanLine:
    """A row of a plan and its outcome so far.

    Attributes:
        number: its place in the plan, uncertain rows first.
        written: the result of writing it.
        moved: why it is no longer valid.
        proof: the result of the content comparison.
        back: the result of undoing it.
    """

    number: int
    row: PlanRow
    written: WriteResult | None = None
    moved: str = ""
    proof: ContentCheck | None = None
    back: WriteResult | None = None

    @property
    def key(self) -> tuple[str, str, int]:
        """The group, target topic and partition."""
        return self.row.group, self.row.topic, self.row.partition

    @property
    def uncertain(self) -> bool:
        """Whether the operator should look at it before the plan is applied."""
        return verdict_of(self.row).severity >= Severity.WARN or not _certain(self.row)

    @property
    def failed(self) -> bool:
        """Whether anything went wrong with it."""
        news = self.news()
        return news is not None and news.severity >= Severity.WARN

    def news(self) -> SeverityLabel | None:
        """Return its outcome since the plan was made, the most recent step first."""
        if self.back is not None:
            if self.back.result is WriteOutcome.APPLIED:
                return SeverityLabel(Severity.INFO, "taken back")
            return SeverityLabel(Severity.BAD, f"not back: {self.back.result}")
        if self.moved:
            return SeverityLabel(Severity.WARN, "moved")
        if self.proof is not None:
            return _PROOFS[self.proof.outcome]
        return None if self.written is None else _RESULTS[self.written.result]

    @property
    def said(self) -> str:
        """The explanation of that outcome, safe to display."""
        for written in (self.back, self.written):
            if written is not None and written.why:
                return safe_text(written.why)
        if self.moved:
            return safe_text(self.moved)
        return safe_text(self.proof.why) if self.proof is not None else ""


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


def verdict_of(row: PlanRow) -> SeverityLabel:
    """Judge what a plan does with a row."""
    if row.action is Action.SKIP:
        bad = row.basis is Basis.UNMAPPED
        return SeverityLabel(Severity.BAD if bad else Severity.WARN, "skip")
    if row.action is Action.KEEP:
        return SeverityLabel(Severity.INFO, "keep")
    risky = row.action is Action.REWIND or bool(row.skipped)
    return SeverityLabel(Severity.WARN if risky else Severity.OK, str(row.action))


def _certain(row: PlanRow) -> bool:
    return row.basis in (Basis.EXACT, Basis.END) and not row.skipped


def delta(row: PlanRow) -> int | None:
    """Return the change of the committed offset; None if an offset is unknown."""
    if row.current is None or row.proposed is None:
        return None
    return row.proposed - row.current


def sums(plan: Plan) -> Line:
    """Return a plan's totals: rows by action, records re-read and skipped."""
    counts = {action: sum(row.action is action for row in plan.rows) for action in Action}
    parts = "  ".join(f"{count:,} {action}" for action, count in counts.items() if count)
    reread = sum(row.reread or 0 for row in plan.changes)
    skipped = sum(row.skipped or 0 for row in plan.changes)
    return (
        Cell(f"{parts or 'nothing to plan'}  "),
        Cell(f"{reread:,} re-read", Tone.WARN if reread else Tone.MUTED),
        Cell("  "),
        Cell(f"{skipped:,} skipped", Tone.BAD if skipped else Tone.MUTED),
        Cell(f"  rewind: {plan.rewind}", Tone.MUTED),
    )


def columns(glyphs: Glyphs, *, news: bool) -> tuple[Column[PlanLine], ...]:
    """Return the columns; ``news`` adds the outcome of each row."""
    found: list[Column[PlanLine]] = [
        Column(
            "group",
            "group",
            lambda line: Cell(safe_text(line.row.group, 400)),
            lambda line: line.row.group,
            width=11,
            widest=48,
        ),
        Column(
            "partition",
            "partition",
            lambda line: Cell(safe_text(f"{line.row.topic}-{line.row.partition}", 400)),
            lambda line: (line.row.topic, line.row.partition),
            width=11,
            widest=48,
        ),
        _number("now", "now", lambda row: row.current, 0),
        _number("proposed", "proposed", lambda row: row.proposed, 0),
        Column(
            "delta",
            "delta",
            lambda line: Cell(formatting.signed(delta(line.row))),
            lambda line: delta(line.row),
            right=True,
            rank=8,
        ),
        Column("basis", "basis", lambda line: _basis(line.row), rank=5, width=8),
        _number("reread", "re-read", lambda row: row.reread, 7, Tone.WARN),
        _number("skipped", "skipped", lambda row: row.skipped, 6, Tone.BAD),
        Column(
            "action",
            "action",
            lambda line: glyphs.mark(verdict_of(line.row)),
            lambda line: str(line.row.action),
            width=9,
            rank=4 if news else 0,
        ),
    ]
    if news:
        found.append(Column("result", "result", lambda line: _news(line, glyphs), width=11))
    found.append(
        Column("reason", "reason", lambda line: Cell(_reason(line)), rank=9, width=12, widest=120)
    )
    return tuple(found)


def _number(
    name: str,
    heading: str,
    value: Callable[[PlanRow], int | None],
    rank: int,
    tone: Tone = Tone.PLAIN,
) -> Column[PlanLine]:
    return Column(
        name,
        heading,
        lambda line: Cell(
            formatting.number(value(line.row)), tone if value(line.row) else Tone.PLAIN
        ),
        lambda line: value(line.row),
        right=True,
        rank=rank,
    )


def _basis(row: PlanRow) -> Cell:
    if row.basis is Basis.UNMAPPED:
        return Cell(str(row.basis), Tone.BAD)
    return Cell(str(row.basis), Tone.WARN if row.basis is Basis.BOUNDED else Tone.PLAIN)


def _news(line: PlanLine, glyphs: Glyphs) -> Cell:
    news = line.news()
    return Cell("") if news is None else glyphs.mark(news)


def _reason(line: PlanLine) -> str:
    return "; ".join(part for part in (line.said, safe_text(line.row.reason, 400)) if part)


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
    found += [(Cell(text, Tone.WARN),) for text in (wrap(line.said) if line.said else [])]
    return found + [(Cell(text),) for text in (wrap(row.reason) if row.reason else [])]


def asked(plan: Plan, notes: Sequence[str], command: str) -> list[str | Line]:
    """Return the confirmation text of a plan; ``command`` is the equivalent CLI command."""
    changes = plan.changes
    counts = {action: sum(row.action is action for row in changes) for action in Action}
    what = ", ".join(f"{count:,} {action}" for action, count in counts.items() if count)
    names = sorted({row.group for row in changes})
    reread, skipped = (
        sum(values)
        for values in (
            [row.reread or 0 for row in changes],
            [row.skipped or 0 for row in changes],
        )
    )
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
        "If anything has moved since, nothing is written. U or k2ktui undo takes it back.",
        "",
        command,
    ]


def _at_most(records: int) -> str:
    return f"At most {counted(records, 'record')}" if records else "No record"
