"""Columns of a table of differences between the clusters, and of what was done about them."""

from __future__ import annotations

from k2ktui.engine.moves.apply import WriteOutcome
from k2ktui.engine.parity.model import Difference, ParityAction, ParityResult, ParityWrite
from k2ktui.engine.severity import Severity, SeverityLabel
from k2ktui.present.columns import Column, name_column, sentence_column, text_column
from k2ktui.present.formatting import Cell, Glyphs, Tone
from k2ktui.text import safe_message, safe_text

_LONGEST = 400
NO_VALUE = "none"


def value_text(value: str | None) -> str:
    """Return a value as people read it, safe to print."""
    return NO_VALUE if value is None else safe_text(value, _LONGEST)


def judge_difference(row: Difference) -> SeverityLabel:
    """Rate a difference by what a plan does with it."""
    if row.action is ParityAction.REPORT:
        return SeverityLabel(Severity.WARN, "report")
    return SeverityLabel(Severity.OK, str(row.action))


def difference_columns(glyphs: Glyphs) -> tuple[Column[Difference], ...]:
    """Return the columns of a table of differences: first what is done, which no width cuts."""
    return (
        Column(
            "action",
            "action",
            lambda row: glyphs.mark(judge_difference(row)),
            lambda row: str(row.action),
            width=9,
        ),
        name_column("kind", lambda row: str(row.item.kind), width=5, rank=5),
        name_column("name", lambda row: row.item.name, width=10, widest=48),
        # Cut before the values: a cut number is read as another one.
        name_column("key", lambda row: row.item.key, width=16, widest=40, rank=1),
        Column("source", "source", lambda row: Cell(value_text(row.source)), right=True, width=6),
        Column("target", "target", lambda row: Cell(value_text(row.target)), right=True, width=6),
        Column(
            "wanted",
            "wanted",
            lambda row: Cell(value_text(row.wanted)),
            right=True,
            width=6,
            rank=3,
        ),
        sentence_column("why", lambda row: row.why, longest=_LONGEST, width=4, rank=9, widest=120),
        Column("origin", "from", lambda row: Cell(safe_text(row.origin, _LONGEST)), rank=10),
    )


def write_columns() -> tuple[Column[ParityWrite], ...]:
    """Return the columns of a table of writes that an undo will make."""
    return (
        text_column("kind", lambda write: str(write.item.kind), left=True),
        text_column("name", lambda write: safe_text(write.item.name), left=True),
        text_column("key", lambda write: safe_text(write.item.key), left=True),
        text_column("now", lambda write: value_text(write.before)),
        text_column("restored", lambda write: value_text(write.after)),
    )


def result_columns() -> tuple[Column[ParityResult], ...]:
    """Return the columns of a table of results."""
    return (
        text_column("kind", lambda row: str(row.write.item.kind), left=True),
        text_column("name", lambda row: safe_text(row.write.item.name), left=True),
        text_column("key", lambda row: safe_text(row.write.item.key), left=True),
        text_column("before", lambda row: value_text(row.write.before)),
        text_column("after", lambda row: value_text(row.write.after)),
        Column("result", "result", _result, width=10, widest=80),
    )


def _result(row: ParityResult) -> Cell:
    if row.result is WriteOutcome.APPLIED:
        return Cell(str(row.result))
    return Cell(f"{row.result}: {safe_message(row.why)}", Tone.BAD)
