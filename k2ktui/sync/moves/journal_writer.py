"""Write entries of the journal: all changes that a process makes are written here."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from time import time

from k2ktui.engine.moves.journal import (
    BEGUN,
    EntryRow,
    JournalHeader,
    JournalRow,
    JournalRows,
    StateKey,
    StateRecord,
    new_id,
)
from k2ktui.engine.moves.positions import PositionMove, position_image
from k2ktui.engine.records.state import Position
from k2ktui.errors import K2kError
from k2ktui.sync.moves.plans import whoami


class JournalWriter:
    """Writes entries of a pipeline's journal.

    Args:
        put: writes records to the state topic (``StateStore.put``).
        pipeline: name of the pipeline.
    """

    def __init__(self, put: Callable[..., object], pipeline: str) -> None:
        self._put, self._pipeline = put, pipeline

    def record(
        self,
        operation: str,
        rows: Iterable[EntryRow],
        *,
        plan: str = "",
        counts: Mapping[str, int] | None = None,
        beside: Sequence[StateRecord] = (),
        gone: Sequence[StateKey] = (),
    ) -> str:
        """Write an entry of changes that are made, or are made by the same write; return its id.

        Args:
            operation: journal name of the change.
            rows: the changes.
            plan: what was applied.
            counts: number of rows per result; default: by the results of the rows.
            beside: records that are written before it.
            gone: keys of records that are removed.

        Raises:
            K2kError: not everything was acknowledged.
        """
        rows = list(rows)
        if counts is None:
            counts = Counter(row.result for _, row in rows)
        header = self._header(operation, counts, plan)
        self._put([*beside, *_parts(header.id, rows), header], gone)
        return header.id

    def note_made(
        self,
        operation: str,
        rows: Iterable[EntryRow],
        *,
        plan: str = "",
        unwritten: str = "the change was not recorded in the journal",
    ) -> tuple[str, str]:
        """Write an entry of changes that are made, whatever becomes of it.

        Returns:
            The entry's id and "", or "" and a note, which begins with ``unwritten``.
        """
        try:
            return self.record(operation, rows, plan=plan), ""
        except K2kError as error:
            return "", f"{unwritten}: {error.message}"

    def begin(
        self,
        operation: str,
        rows: Sequence[EntryRow],
        *,
        plan: str = "",
        undoes: str = "",
        beside: Sequence[StateRecord] = (),
    ) -> JournalHeader:
        """Write the entry of changes before they are made.

        Raises:
            K2kError: not everything was acknowledged; the changes must not be made.
        """
        header = self._header(operation, {BEGUN: len(rows)}, plan, undoes)
        self._put([*beside, header, *_parts(header.id, rows)])
        return header

    def end(
        self,
        header: JournalHeader,
        rows: Iterable[EntryRow],
        counts: Mapping[str, int],
        beside: Sequence[StateRecord] = (),
    ) -> None:
        """Write the results of an entry that was begun.

        Raises:
            K2kError: not everything was acknowledged.
        """
        self._put([replace(header, counts=counts), *_parts(header.id, rows), *beside])

    def _header(
        self, operation: str, counts: Mapping[str, int], plan: str = "", undoes: str = ""
    ) -> JournalHeader:
        now = int(time() * 1000)
        entry = new_id(now, secrets.token_hex(4))
        return JournalHeader(entry, now, whoami(), operation, plan, self._pipeline, counts, undoes)


def _parts(entry: str, rows: Iterable[EntryRow]) -> list[JournalRows]:
    by_group: dict[str, list[JournalRow]] = {}
    for group, row in rows:
        by_group.setdefault(group, []).append(row)
    return [JournalRows(entry, group, tuple(of_group)) for group, of_group in by_group.items()]


def position_row(move: PositionMove, written: Position | None = None) -> JournalRow:
    """Return a move that was made as a row of the journal; ``written`` is the new record."""
    return JournalRow(
        move.source.topic,
        move.source.partition,
        move.now,
        position_image(move.before),
        move.then,
        position_image(written),
        str(move.effect),
    )
