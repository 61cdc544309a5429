"""Columns of the tables of journal entries and of the rows of one entry."""

from __future__ import annotations

import time
from collections.abc import Collection

from k2ktui.engine.journal import JournalHeader, JournalRow
from k2ktui.present import formatting
from k2ktui.present.columns import Column, group_column, partition_column
from k2ktui.present.formatting import Cell, Glyphs, Tone
from k2ktui.text import safe_text
from k2ktui.watch.severity import Severity, SeverityLabel

BEGUN = "begun"
# A group, and what was written for it.
EntryRow = tuple[str, JournalRow]
_NOT_WRITTEN = ("refused", "changed", "unknown", "moved", "not written")


def entry_columns(glyphs: Glyphs, undone: Collection[str]) -> tuple[Column[JournalHeader], ...]:
    """Return the columns of a table of entries.

    Args:
        glyphs: the signs of states.
        undone: ids of the entries that another entry has undone; read at each drawing.
    """

    def state(entry: JournalHeader) -> SeverityLabel:
        return judge_entry(entry, is_undone=entry.id in undone)

    return (
        Column(
            "when",
            "when (UTC)",
            lambda e: Cell(entry_time(e.at_ms)),
            lambda e: e.at_ms,
            width=19,
        ),
        Column("who", "user", lambda e: Cell(safe_text(e.who, 100)), lambda e: e.who, width=12),
        Column(
            "operation",
            "operation",
            lambda e: Cell(operation_text(e)),
            lambda e: e.operation,
            width=8,
            widest=40,
            rank=1,
        ),
        Column("state", "state", lambda e: glyphs.mark(state(e)), width=12),
        Column("rows", "rows", lambda e: Cell(_counts(e)), width=10, widest=40, rank=2),
        Column("id", "id", lambda e: Cell(safe_text(e.id)), lambda e: e.id, width=20, rank=3),
        Column("plan", "plan", lambda e: Cell(safe_text(e.plan)), width=12, rank=4),
    )


def entry_row_columns() -> tuple[Column[EntryRow], ...]:
    """Return the columns of a table of one entry's rows."""
    return (
        group_column(lambda line: line[0]),
        partition_column(lambda line: (line[1].topic, line[1].partition)),
        Column(
            "before", "before", lambda line: Cell(formatting.number(line[1].before)), right=True
        ),
        Column("after", "after", lambda line: Cell(formatting.number(line[1].after)), right=True),
        Column(
            "result",
            "result",
            lambda line: Cell(
                safe_text(line[1].result, 400), Tone.BAD if is_bad(line[1]) else Tone.PLAIN
            ),
            lambda line: line[1].result,
            width=10,
            widest=80,
        ),
    )


def judge_entry(entry: JournalHeader, *, is_undone: bool) -> SeverityLabel:
    """Rate an entry by the outcome of its rows."""
    if is_undone:
        return SeverityLabel(Severity.INFO, "undone")
    words = set(entry.counts)
    if BEGUN in words:
        return SeverityLabel(Severity.BAD, "not ended")
    if words & {"refused", "changed", "unknown"}:
        return SeverityLabel(Severity.WARN, "partly")
    return SeverityLabel(Severity.OK, "done")


def is_bad(row: JournalRow) -> bool:
    """Whether the row's offset is not, or perhaps not, what the entry was to write."""
    return row.result.startswith(_NOT_WRITTEN)


def operation_text(entry: JournalHeader) -> str:
    """Return what was done, with the entry that it undid."""
    undoes = f" of {safe_text(entry.undoes)}" if entry.undoes else ""
    return f"{safe_text(entry.operation)}{undoes}"


def entry_time(at_ms: int) -> str:
    """Return a time of the journal as date and time (UTC)."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(at_ms // 1000))


def _counts(entry: JournalHeader) -> str:
    return ", ".join(f"{count:,} {safe_text(word)}" for word, count in entry.counts.items())
