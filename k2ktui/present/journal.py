"""Columns of the tables of journal entries and of the rows of one entry."""

from __future__ import annotations

import time
from collections.abc import Collection

from k2ktui.engine.moves.journal import EntryRow, JournalHeader, JournalRow
from k2ktui.engine.parity.journal import read_results
from k2ktui.engine.parity.model import ParityWrite
from k2ktui.engine.parity.rules import ParityKind
from k2ktui.engine.severity import Severity, SeverityLabel
from k2ktui.engine.strict_json import MalformedRecord
from k2ktui.present import formatting
from k2ktui.present.columns import Column, group_column
from k2ktui.present.formatting import Cell, Glyphs, Tone
from k2ktui.present.parity import value_text
from k2ktui.text import safe_text

BEGUN = "begun"
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
            width=13,  # "offsets clear"
            widest=40,
            rank=1,
        ),
        Column("state", "state", lambda e: glyphs.mark(state(e)), width=12),
        Column("rows", "rows", lambda e: Cell(_counts(e)), width=10, widest=40, rank=2),
        Column("id", "id", lambda e: Cell(safe_text(e.id)), lambda e: e.id, width=20, rank=3),
        Column("plan", "plan", lambda e: Cell(safe_text(e.plan)), rank=4),
    )


def entry_row_columns() -> tuple[Column[EntryRow], ...]:
    """Return the columns of a table of one entry's rows."""
    return (
        group_column(lambda line: line[0]),
        Column(
            "partition",
            "partition",
            lambda line: Cell(row_place(line)),
            _place_order,
            width=12,
            widest=48,
        ),
        Column("before", "before", lambda line: Cell(row_values(line)[0]), right=True),
        Column("after", "after", lambda line: Cell(row_values(line)[1]), right=True),
        Column(
            "result",
            "result",
            lambda line: Cell(
                safe_text(_row_result(line[1]), 400),
                Tone.BAD if is_bad(line[1]) else Tone.PLAIN,
            ),
            lambda line: line[1].result,
            width=10,
            widest=80,
        ),
    )


def _row_result(row: JournalRow) -> str:
    """Return the result of a row, and what an operator chose for it."""
    if row.choice is None:
        return row.result
    return f"{row.result}; chosen: {row.choice.value}, by {row.choice.by}"


def _parity_write(line: EntryRow) -> ParityWrite | None:
    """Return the write of a row of parity; None for a row about offsets."""
    if line[0] not in list(ParityKind):
        return None
    try:
        return read_results([line])[0].write
    except MalformedRecord:
        return None  # a consumer group may have such a name


def row_place(line: EntryRow) -> str:
    """Return the partition of a row about offsets, or what has the value of a row of parity."""
    write = _parity_write(line)
    return str(write.item) if write else safe_text(f"{line[1].topic}-{line[1].partition}", 400)


def _place_order(line: EntryRow) -> tuple[str, int, str]:
    return line[1].topic, line[1].partition, line[1].before_metadata


def row_values(line: EntryRow) -> tuple[str, str]:
    """Return the offsets, or the values, before and after."""
    write = _parity_write(line)
    if write is not None:
        return value_text(write.before), value_text(write.after)
    return formatting.number(line[1].before), formatting.number(line[1].after)


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
