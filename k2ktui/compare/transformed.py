"""What a transform makes of source records, as the walk compares it with the copies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from k2ktui.compare.batches import FetchedRows, RecordComparer
from k2ktui.engine.compare.log_items import I64, BatchRows, Flags, LogBatch
from k2ktui.engine.compare.outcomes import Outcome
from k2ktui.engine.compare.walk import PairVerdict

Record = tuple[BatchRows, int]


class TransformedRows:
    """Source records, each with the records that are made of it.

    Args:
        offsets: source offsets, in order.
        made: what is made of them, with their source offsets: one repeats if several are made.
        keys: the source's keys; None if copies have other keys, or nobody asks.
        failures: the step that failed, by source offset.
        stops: whether a failure stops the pipeline, so that it has no reason to leave one out.
    """

    def __init__(
        self,
        offsets: I64,
        made: FetchedRows,
        keys: Sequence[bytes | None] | None,
        failures: Mapping[int, str],
        *,
        stops: bool,
    ) -> None:
        self._offsets = offsets
        self.made = made
        self._keys = keys
        self._failures = failures
        self._stops = stops
        self._first = np.searchsorted(made.offsets, offsets, side="left")
        self._count = np.searchsorted(made.offsets, offsets, side="right") - self._first

    @property
    def offsets(self) -> I64:
        """The source offsets."""
        return self._offsets

    def key(self, row: int) -> bytes | None:
        """Return the key of a record: the source's, if it is known."""
        if self._keys is not None:
            return self._keys[row]
        return self.made.key(self.first(row)) if self._count[row] else None

    def is_tombstone(self, row: int) -> bool:
        """Whether the value of what is made of a record is null."""
        return bool(self._count[row]) and self.made.is_tombstone(self.first(row))

    def time_ms(self, row: int) -> int:
        """Return the timestamp of what is made of a record; -1 if nothing is."""
        return self.made.time_ms(self.first(row)) if self._count[row] else -1

    def kept(self) -> Flags | None:
        """Whether one record is made of each; None if several are made of one, or some failed."""
        is_plain = len(self.made.offsets) == np.count_nonzero(self._count) and not self._failures
        return self._count > 0 if is_plain else None

    def is_left_out(self, row: int) -> bool | None:
        """Whether the transform makes no record of one; None if the pipeline would stop at it."""
        if self._stops and self.failed_step(row):
            return None
        return not self._count[row]

    def failed_step(self, row: int) -> str:
        """Return the step that a record fails; "" if it fails none."""
        return self._failures.get(int(self._offsets[row]), "")

    def first(self, row: int) -> int:
        """Return the row of ``made`` with the first record that is made of one."""
        return int(self._first[row])

    def count(self, row: int) -> int:
        """Return how many records are made of one."""
        return int(self._count[row])

    def are_single(self, row: int, count: int) -> bool:
        """Whether the next ``count`` records made, from that of a row on, are of as many."""
        offsets = self.made.offsets[self.first(row) : self.first(row) + count]
        return self.count(row) > 0 and len(offsets) == count and bool((np.diff(offsets) > 0).all())


class TransformedBatch:
    """Source records of a few batches, with what is made of them.

    Args:
        last: the last source offset of the batches.
        rows: the records.
        digest: sum of the digests of the batches.
    """

    def __init__(self, first: int, last: int, rows: TransformedRows, digest: int) -> None:
        self.first, self.last, self.count = first, last, len(rows.offsets)
        self._rows, self._digest = rows, digest

    def same_bytes(self, _other: LogBatch) -> bool:
        """Return False: its bytes are those before the transform."""
        return False

    def digest(self) -> int:
        """Return the sum of the digests of the source's batches."""
        return self._digest

    def rows(self) -> TransformedRows:
        """Return its records."""
        return self._rows


class TransformedComparer:
    """Compares what a transform makes of source records with their copies.

    Args:
        records: compares records.
    """

    trusts_bytes = True

    def __init__(self, records: RecordComparer) -> None:
        self._records = records

    def compare(self, source: Record, target: Record) -> PairVerdict:
        """Compare what is made of a source record with its copy."""
        return self.compare_several(source, [target], in_order=True)

    def compare_several(
        self, source: Record, targets: Sequence[Record], *, in_order: bool
    ) -> PairVerdict:
        """Compare what is made of a source record with all that is on the target."""
        rows, row = source
        assert isinstance(rows, TransformedRows)
        if rows.is_left_out(row) is not False:
            return _judge_left_out(rows, row)
        first, count = rows.first(row), rows.count(row)
        if len(targets) != count:
            there = f"{len(targets)} of them are there"
            return PairVerdict(Outcome.DIFFERS, f"the transform makes {count} records, {there}")
        made = [(rows.made, first + number) for number in range(count)]
        if not in_order:
            return self._compare_sets(made, targets)
        for number, (one, copy) in enumerate(zip(made, targets, strict=True)):
            verdict = self._records.compare(one, copy)
            if verdict.outcome is not Outcome.EQUAL:
                return replace(verdict, number=number)
        return _EQUAL

    def _compare_sets(self, made: Sequence[Record], targets: Sequence[Record]) -> PairVerdict:
        """Compare records that are on several partitions: in which order is not known."""
        left = Counter(map(self.digest, made))
        for number, copy in enumerate(targets):
            digest = self.digest(copy)
            if not left[digest]:
                return PairVerdict(Outcome.DIFFERS, "the transform makes no such record", number)
            left[digest] -= 1
        return _EQUAL

    def are_equal(self, source: Record, target: Record, count: int) -> bool:
        """Whether the records made from there on have the bytes and timestamps of their copies."""
        rows, row = source
        assert isinstance(rows, TransformedRows)
        if not rows.are_single(row, count):
            return False
        return self._records.are_equal((rows.made, rows.first(row)), target, count)

    def digest(self, record: Record) -> str:
        """Return the SHA-256 of a record's content; of a source record, of the first one made."""
        rows, row = record
        if not isinstance(rows, TransformedRows):
            return self._records.digest(record)
        return self._records.digest((rows.made, rows.first(row))) if rows.count(row) else ""


def _judge_left_out(rows: TransformedRows, row: int) -> PairVerdict:
    """Return what a copy is that the pipeline would not make now."""
    step = rows.failed_step(row)
    if rows.is_left_out(row) is None:
        return PairVerdict(Outcome.NOT_COMPARED, f"it fails {step} now")
    why = f"it fails {step} now" if step else "the transform leaves it out now"
    return PairVerdict(Outcome.DIFFERS, f"{why}, and has a copy")


_EQUAL = PairVerdict(Outcome.EQUAL)
