"""Columns of a table of a plan, and its summary."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from k2ktui.engine.mapping.translate import Basis
from k2ktui.engine.moves.plan import Action, PlanRow
from k2ktui.engine.severity import Severity, SeverityLabel
from k2ktui.present import formatting
from k2ktui.present.columns import (
    Column,
    effect_column,
    group_column,
    partition_column,
    sentence_column,
)
from k2ktui.present.formatting import Cell, Glyphs, Tone
from k2ktui.text import counted, safe_text

_LEFT = (Action.BLOCKED, Action.LEAVE_OUT)


@dataclass(frozen=True, slots=True)
class PlanSummary:
    """Rows of a plan.

    Attributes:
        actions: number of rows per action; actions of no row are missing.
        reread, skipped: records, of the rows that change an offset.
    """

    actions: Mapping[Action, int]
    reread: int
    skipped: int

    def text(self) -> str:
        """Return it as one line."""
        parts = [
            f"{count:,} {'' if action in _LEFT else 'to '}{action.word}"
            for action, count in self.actions.items()
        ]
        text = ", ".join(parts) or "no group has committed offsets of a replicated topic"
        effect = f"{counted(self.reread, 'record')} re-read and {self.skipped:,} skipped"
        return f"{text}; {effect} by what changes"


def summarize_plan(rows: Collection[PlanRow]) -> PlanSummary:
    """Return the sums of a plan's rows."""
    counts = {action: sum(row.action is action for row in rows) for action in Action}
    changes = [row for row in rows if row.changes and row.action is not Action.UPDATE]
    return PlanSummary(
        {action: count for action, count in counts.items() if count},
        sum(row.reread or 0 for row in changes),
        sum(row.skipped or 0 for row in changes),
    )


def plan_verdict(row: PlanRow) -> SeverityLabel:
    """Judge what a plan does with a row."""
    if row.action is Action.BLOCKED:
        bad = row.basis is Basis.UNMAPPED
        return SeverityLabel(Severity.BAD if bad else Severity.WARN, row.action.word)
    if row.action in (Action.KEEP, Action.LEAVE_OUT):
        return SeverityLabel(Severity.INFO, row.action.word)
    risky = row.action is Action.REWIND or bool(row.skipped)
    return SeverityLabel(Severity.WARN if risky else Severity.OK, str(row.action))


def delta(row: PlanRow) -> int | None:
    """Return the change of the committed offset; None if an offset is unknown."""
    if row.current is None or row.proposed is None:
        return None
    return row.proposed - row.current


def plan_columns(glyphs: Glyphs) -> tuple[Column[PlanRow], ...]:
    """Return the columns of a table of a plan's rows."""
    return (
        group_column(lambda row: row.group, width=10),
        partition_column(lambda row: (row.topic, row.partition), width=10),
        Column("from", "from", lambda row: Cell(safe_text(row.source, 400)), rank=10, widest=48),
        effect_column("now", "now", lambda row: row.current, Tone.PLAIN),
        effect_column("proposed", "proposed", lambda row: row.proposed, Tone.PLAIN),
        Column(
            "delta",
            "delta",
            lambda row: Cell(formatting.signed(delta(row))),
            delta,
            right=True,
            rank=8,
        ),
        Column("basis", "basis", _basis, rank=5, width=8),
        effect_column("reread", "re-read", lambda row: row.reread, Tone.WARN, rank=3),
        effect_column("skipped", "skipped", lambda row: row.skipped, Tone.BAD, rank=2),
        Column(
            "action",
            "action",
            lambda row: glyphs.mark(plan_verdict(row)),
            lambda row: str(row.action),
            width=9,
        ),
        sentence_column(
            "reason", lambda row: row.reason, longest=400, width=12, rank=9, widest=120
        ),
    )


def _basis(row: PlanRow) -> Cell:
    if row.basis is Basis.UNMAPPED:
        return Cell(str(row.basis), Tone.BAD)
    doubtful = row.basis in (Basis.BOUNDED, Basis.CHOSEN)
    return Cell(str(row.basis), Tone.WARN if doubtful else Tone.PLAIN)
