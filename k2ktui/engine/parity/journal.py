"""Parity in the journal, and its own record on the state topic: encoding and reading; pure.

A journal entry of parity has a part for each kind of values, and a row for each value. The row's
topic is the item's name; its metadata are JSON arrays of the item's key and the value before and
after, so that every release can list them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from k2ktui.engine.moves.apply import WriteOutcome
from k2ktui.engine.moves.journal import BEGUN, PARITY, PARITY_SYNC, EntryRow, JournalRow
from k2ktui.engine.parity.model import ParityItem, ParityResult, ParityWrite
from k2ktui.engine.parity.rules import ParityKind
from k2ktui.engine.strict_json import MalformedRecord, items, parse, text

APPLY, UNDO, SYNCED = f"{PARITY}apply", f"{PARITY}undo", PARITY_SYNC
# What a drill creates when it opens the target.
OPENED = f"{PARITY}open-target"


def journal_rows(results: Iterable[ParityResult]) -> list[EntryRow]:
    """Return the rows of a journal entry, each with the kind of its value."""
    rows = []
    for result in results:
        write = result.write
        outcome = f"{result.result}: {result.why}" if result.why else str(result.result)
        row = JournalRow(
            write.item.name,
            0,
            None,
            _dump(write.item.key, write.before),
            None,
            _dump(write.item.key, write.after),
            outcome,
        )
        rows.append((str(write.item.kind), row))
    return rows


def read_results(rows: Iterable[EntryRow]) -> list[ParityResult]:
    """Return the rows of a journal entry as they were written.

    Raises:
        MalformedRecord: it is not an entry of parity, or is damaged.
    """
    return [_result(kind, row) for kind, row in rows]


def _result(kind: str, row: JournalRow) -> ParityResult:
    if kind not in list(ParityKind):
        raise MalformedRecord("an unknown kind of values")
    key, before = _read(row.before_metadata)
    after_key, after = _read(row.after_metadata)
    if key != after_key:
        raise MalformedRecord("a row of two keys")
    write = ParityWrite(ParityItem(ParityKind(kind), row.topic, key), before, after)
    name, _, why = row.result.partition(": ")
    if name not in list(WriteOutcome):
        return ParityResult(write, WriteOutcome.NOT_WRITTEN, row.result)
    return ParityResult(write, WriteOutcome(name), why)


def begun(writes: Iterable[ParityWrite]) -> list[ParityResult]:
    """Return the results of writes that are about to be made."""
    return [ParityResult(write, WriteOutcome.UNKNOWN, BEGUN) for write in writes]


def _dump(key: str, value: str | None) -> str:
    return json.dumps([key, value], separators=(",", ":"), ensure_ascii=False)


def _read(raw: str) -> tuple[str, str | None]:
    pair = items(parse(raw, "the value"))
    if len(pair) != 2:
        raise MalformedRecord("not a key and its value")
    key, value = pair
    return text(key), None if value is None else text(value)
