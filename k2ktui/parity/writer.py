"""Writes values on the target: journal with the before-image, write, read back, journal.

The journal entry is written before anything else, so that an apply that is interrupted can still be
undone. So is the record of what parity creates: without it, nothing would ever remove that.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.moves.apply import WriteOutcome
from k2ktui.engine.moves.journal import StateRecord
from k2ktui.engine.parity.journal import begun, journal_rows
from k2ktui.engine.parity.model import (
    ParityItem,
    ParityResult,
    ParityWrite,
    check_written,
    remember,
)
from k2ktui.engine.records.parity_record import ParityRecord
from k2ktui.errors import K2kError, PartlyApplied
from k2ktui.kafka.clients import Cluster
from k2ktui.parity.parts import PARTS
from k2ktui.parity.reader import memory_records, read_memory
from k2ktui.sync.moves.journal_writer import JournalWriter
from k2ktui.sync.store import StateStore

log = logging.getLogger(__name__)

_SETTLE_S, _LOOK_AGAIN_S = 5.0, 0.1


@dataclass(frozen=True, slots=True)
class ParityApplied:
    """The result of an apply or an undo; ``id`` is its journal entry."""

    id: str
    rows: tuple[ParityResult, ...]

    @property
    def counts(self) -> dict[str, int]:
        """Number of rows per result."""
        return dict(Counter(str(row.result) for row in self.rows))

    @property
    def complete(self) -> bool:
        """Whether every row was applied."""
        return all(row.result is WriteOutcome.APPLIED for row in self.rows)


class ParityWriter:
    """Writes values on the target of one pipeline; the caller has checked the preconditions.

    Args:
        config: the pipeline.
        target: its target cluster.
        store: its state store.
        on_result: callback for each row as soon as its result is known.
    """

    def __init__(
        self,
        config: PipelineConfig,
        target: Cluster,
        store: StateStore,
        on_result: Callable[[ParityResult], None] = lambda _: None,
    ) -> None:
        self._config, self._target, self._store = config, target, store
        self._on_result = on_result

    def read(self, items: Sequence[ParityItem]) -> dict[ParityItem, str | None]:
        """Return the values that are set on the target itself.

        Raises:
            Refused: they may not be read.
            ConnectionFailed, TimedOut: the target does not answer.
        """
        values: dict[ParityItem, str | None] = {}
        for part in PARTS:
            of_part = [item for item in items if item.kind is part.kind]
            if of_part:
                values |= part.read(self._target, of_part)
        return values

    def write(
        self, writes: Sequence[ParityWrite], operation: str, *, plan: str = "", undoes: str = ""
    ) -> ParityApplied:
        """Journal, write and read back.

        Raises:
            K2kError: the journal cannot be written; nothing was changed.
            PartlyApplied: the target stopped answering during the write.
        """
        undo = bool(undoes)
        before = read_memory(self._store.read().parity)
        names = {(write.item.kind, write.item.name) for write in writes}
        # A removal is noted after it: it may be refused, and what is left must stay known.
        creating = [] if undo else [write for write in writes if write.after is not None]
        known = memory_records(remember(before, creating, undo=False), names) if creating else []
        journal = JournalWriter(self._put, self._config.name)
        header = journal.begin(
            operation, journal_rows(begun(writes)), plan=plan, undoes=undoes, beside=known
        )
        entry = header.id
        log.info("%s: journal entry %s begun with %d values", operation, entry, len(writes))
        try:
            done = ParityApplied(entry, tuple(self._write(writes)))
            applied = [row.write for row in done.rows if row.result is WriteOutcome.APPLIED]
            known = memory_records(remember(before, applied, undo=undo), names)
            journal.end(header, journal_rows(done.rows), done.counts, known)
        except K2kError as error:
            raise PartlyApplied(
                f"{error.message}: journal entry {entry} was started and its outcome is unknown",
                hint=f"Compare with k2ktui parity plan; revert with k2ktui parity undo {entry}.",
            ) from error
        log.info("%s: journal entry %s ended: %s", operation, entry, done.counts)
        return done

    def _put(self, records: Sequence[StateRecord]) -> None:
        empty = [r for r in records if isinstance(r, ParityRecord) and r.is_empty]
        kept = [record for record in records if record not in empty]
        self._store.put(kept, [record.key for record in empty])

    def _write(self, writes: Sequence[ParityWrite]) -> list[ParityResult]:
        results: list[ParityResult] = []
        for part in PARTS:
            of_part = [write for write in writes if write.item.kind is part.kind]
            if not of_part:
                continue
            refused = part.write(self._target, of_part, only_ask=False)
            values = self._read_back(of_part, refused)
            for result in check_written(of_part, refused, values):
                if result.result is not WriteOutcome.APPLIED:
                    log.info("%s: %s: %s", result.write.item, result.result, result.why)
                self._on_result(result)
                results.append(result)
        return results

    def _read_back(
        self, writes: Sequence[ParityWrite], refused: Mapping[ParityItem, str]
    ) -> dict[ParityItem, str | None]:
        """Read the values after writes; a broker may learn of them a moment later."""
        until = time.monotonic() + _SETTLE_S
        while True:
            values = self.read([write.item for write in writes])
            late = [w for w in writes if w.item not in refused and values[w.item] != w.after]
            if not late or time.monotonic() > until:
                return values
            time.sleep(_LOOK_AGAIN_S)
