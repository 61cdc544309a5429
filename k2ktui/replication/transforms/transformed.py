"""What comes out of the SQL of a transform, by source partition: records and failures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from k2ktui.engine.transforms.model import Transform
from k2ktui.log.record_headers import set_headers
from k2ktui.log.records import I64, Records, encode_nullable
from k2ktui.log.varints import encode_varint
from k2ktui.replication.transforms.rows import (
    ASSIGNED,
    FACTS,
    FAILED,
    HEADERS,
    KEPT,
    OUTPUT,
    READER,
    TIME,
    join_columns,
)

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Failure:
    """A record that failed a step.

    Attributes:
        offset: its source offset.
        step: the step's index in the transform's plan.
        timestamp: epoch milliseconds.
        key: its original key, only for dead letters.
        value: its original value, only for dead letters.
        headers: its original headers, encoded.
    """

    offset: int
    step: int
    timestamp: int = -1
    key: bytes | None = None
    value: bytes | None = None
    headers: bytes = b""


@dataclass(slots=True)
class Transformed:
    """What came out of the SQL for one partition, in offset order.

    Attributes:
        kept: the records that are written, with the columns of ``OUTPUT``.
        failures: those that failed.
    """

    kept: list[pa.RecordBatch] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)

    @property
    def assigned(self) -> list[Sequence[bytes | None]]:
        """The values of the headers that the transform sets, if it sets any.

        If it sets all of them, names and values in turn.
        """
        return [assigned or () for assigned in self.column(ASSIGNED)]

    def column(self, name: str) -> list[Any]:
        """Return a column of ``OUTPUT`` as Python objects; a source offset for each record made."""
        at = OUTPUT.index(name)
        return [value for batch in self.kept for value in batch.column(at).to_pylist()]

    def numbers(self, name: str) -> I64:
        """Return a column of ``OUTPUT`` with numbers, none of which is null."""
        at = OUTPUT.index(name)
        arrays = [batch.column(at).to_numpy(zero_copy_only=False) for batch in self.kept]
        return np.concatenate(arrays or [np.empty(0)]).astype(np.int64)

    def with_columns(self, columns: Mapping[str, Sequence[Any]]) -> Transformed:
        """Return it with other values in columns of ``OUTPUT``."""
        import pyarrow as pa

        changed, first = [], 0
        for batch in self.kept:
            end = first + len(batch)
            for name, values in columns.items():
                array = pa.array(values[first:end], batch.schema.field(name).type)
                batch = batch.set_column(OUTPUT.index(name), name, array)
            changed.append(batch)
            first = end
        return Transformed(changed, self.failures)

    def written(self, transform: Transform) -> Records:
        """Return the records as they are written; header rules come after it.

        Raises:
            CorruptBatch: the headers of a record cannot be read.
        """
        import pyarrow as pa

        tails: list[bytes] = []
        for batch in self.kept:
            key, value, headers = (
                batch.column(OUTPUT.index(name)) for name in ("key", "value", HEADERS)
            )
            if transform.changes("headers"):
                changed = _changed_headers(transform, Transformed([batch]))
                headers = pa.array(changed, pa.binary())
            tails += join_columns(key, value, headers)
        return Records(self.numbers("offset"), self.numbers(TIME), tails)

    def extend(self, rows: pa.RecordBatch) -> None:
        """Add rows with the columns of ``OUTPUT``.

        Raises:
            ValueError: they are not in offset order.
        """
        import pyarrow.compute as pc

        failed = rows.column(_FAILED)
        if failed.null_count < len(failed):
            self._fail(rows.filter(failed.is_valid()))
            bad = rows.column(_OFFSET).filter(failed.is_valid())
            rows = rows.filter(pc.invert(pc.is_in(rows.column(_OFFSET), bad)))
        kept = rows.filter(rows.column(_KEPT))
        if self.failures:  # of what was made of the last record, the rest may come now
            kept = kept.filter(pc.not_equal(kept.column(_OFFSET), self.failures[-1].offset))
        if not len(kept):
            return
        offsets = kept.column(_OFFSET).to_numpy()
        if (np.diff(offsets) < 0).any() or offsets[0] < self._last:
            raise ValueError("the transform changed the order of records")
        self.kept.append(kept)

    def cut(self, offset: int) -> None:
        """Drop the records from an offset on."""
        import pyarrow.compute as pc

        parts = [batch.filter(pc.less(batch.column(_OFFSET), offset)) for batch in self.kept]
        self.kept = [batch for batch in parts if len(batch)]

    @property
    def _last(self) -> int:
        """The offset of the last record that is written; -1 if there is none."""
        return int(self.kept[-1].column(_OFFSET)[-1].as_py()) if self.kept else -1

    def _fail(self, rows: pa.RecordBatch) -> None:
        """Add failures, the first one of each record."""
        for offset, step, timestamp, key, value, headers in zip(
            *(
                rows.column(OUTPUT.index(name)).to_pylist()
                for name in ("offset", FAILED, TIME, "key", "value", HEADERS)
            ),
            strict=True,
        ):
            if self.failures and self.failures[-1].offset == offset:
                continue
            self.failures.append(Failure(offset, step, timestamp, key, value, headers))
            if self._last == offset:  # what was made of the record before it failed
                self.cut(offset)


_OFFSET, _KEPT, _FAILED = (OUTPUT.index(name) for name in ("offset", KEPT, FAILED))


def _changed_headers(transform: Transform, transformed: Transformed) -> list[bytes]:
    """Return the encoded headers: some set by name, or all of them others."""
    if transform.sets_all_headers:
        return [_encode_headers(pairs) for pairs in transformed.assigned]
    names = transform.assigned_headers
    return [
        set_headers(encoded, list(zip(names, values, strict=True)))
        for encoded, values in zip(transformed.column(HEADERS), transformed.assigned, strict=True)
    ]


def _encode_headers(pairs: Sequence[bytes | None]) -> bytes:
    """Return headers whose names and values are given in turn."""
    return encode_varint(len(pairs) // 2) + b"".join(map(encode_nullable, pairs))


def collect(batches: Iterable[pa.RecordBatch]) -> tuple[dict[int, Transformed], bytes]:
    """Return the transformed records by partition index, and the facts of the micro-batch.

    Raises:
        ValueError: the row with the facts is missing, or the records are not in offset order.
    """
    import pyarrow.compute as pc

    transformed: dict[int, Transformed] = {}
    facts = b""
    for batch in batches:
        fact, numbers = (batch.column(OUTPUT.index(name)) for name in (FACTS, READER))
        if fact.null_count < len(fact):
            facts = fact.drop_null()[-1].as_py()
        for number in numbers.drop_null().unique().to_pylist():
            part = batch.filter(pc.equal(numbers, number))
            transformed.setdefault(number, Transformed()).extend(part)
    if not facts:
        raise ValueError("a micro-batch ended without its last row")
    return transformed, facts
