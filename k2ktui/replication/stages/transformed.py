"""What comes out of the SQL of a transform, by source partition: records and failures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from k2ktui.replication.stages.rows import (
    ASSIGNED,
    FACTS,
    FAILED,
    HEADERS,
    KEPT,
    OUTPUT,
    PARTITION,
    READER,
    TIME,
    TOPIC,
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

    ``assigned`` has the values of the headers that the transform sets, if it sets any; names and
    values in turn if it sets all of them. ``topics`` and ``partitions`` have what its expressions
    choose, a topic by its index. A source offset repeats for each record made of it.
    """

    offsets: list[int] = field(default_factory=list)
    timestamps: list[int] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    headers: list[bytes] = field(default_factory=list)
    assigned: list[Sequence[bytes | None]] = field(default_factory=list)
    topics: list[int | None] = field(default_factory=list)
    partitions: list[int | None] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)

    def extend(self, batch: pa.RecordBatch) -> None:
        """Add rows with the columns of ``OUTPUT``, none of which failed.

        Raises:
            ValueError: they are not in offset order.
        """
        import pyarrow.compute as pc

        kept = batch.filter(batch.column(OUTPUT.index(KEPT)))
        if self.failures:  # of what was made of the last record, the rest may come now
            offsets = kept.column(OUTPUT.index("offset"))
            kept = kept.filter(pc.not_equal(offsets, self.failures[-1].offset))
        column = {name: kept.column(at) for at, name in enumerate(OUTPUT)}
        offsets = column["offset"].to_numpy()
        if (np.diff(offsets, prepend=self.offsets[-1:]) < 0).any():
            raise ValueError("the transform changed the order of records")
        self.offsets += offsets.tolist()
        self.timestamps += column[TIME].to_numpy().tolist()
        self.keys += column["key"].to_pylist()
        self.values += column["value"].to_pylist()
        self.headers += column[HEADERS].to_pylist()
        self.assigned += [each or () for each in column[ASSIGNED].to_pylist()]
        self.topics += column[TOPIC].to_pylist()
        self.partitions += column[PARTITION].to_pylist()

    def cut(self, offset: int) -> None:
        """Drop the records from an offset on."""
        self._cut(int(np.searchsorted(np.array(self.offsets, dtype=np.int64), offset)))

    def fail(self, failure: Failure) -> None:
        """Add a failure; what was made of the record before it failed is dropped."""
        if self.has_failed(failure.offset):
            return
        self.failures.append(failure)
        size = len(self.offsets)
        while size and self.offsets[size - 1] == failure.offset:
            size -= 1
        self._cut(size)

    def has_failed(self, offset: int) -> bool:
        """Return whether the record at this offset, the last one so far, has failed."""
        return bool(self.failures) and self.failures[-1].offset == offset

    def _cut(self, size: int) -> None:
        for column in self._columns:
            del column[size:]

    @property
    def _columns(self) -> tuple[list[Any], ...]:
        return (
            *(self.offsets, self.timestamps, self.keys, self.values, self.headers),
            *(self.assigned, self.topics, self.partitions),
        )


def collect(batches: Iterable[pa.RecordBatch]) -> tuple[dict[int, Transformed], bytes]:
    """Return the transformed records by partition index, and the facts of the micro-batch.

    Raises:
        ValueError: the row with the facts is missing, or the records are not in offset order.
    """
    import pyarrow.compute as pc

    found: dict[int, Transformed] = {}
    facts = b""
    for batch in batches:
        fact, numbers, failed = (
            batch.column(OUTPUT.index(name)) for name in (FACTS, READER, FAILED)
        )
        if fact.null_count < len(fact):
            facts = fact.drop_null()[-1].as_py()
        if failed.null_count < len(failed):
            _collect_rows(found, batch)
            continue
        for number in numbers.drop_null().unique().to_pylist():
            part = batch.filter(pc.equal(numbers, number))
            found.setdefault(number, Transformed()).extend(part)
    if not facts:
        raise ValueError("a micro-batch ended without its last row")
    return found, facts


def _collect_rows(found: dict[int, Transformed], batch: pa.RecordBatch) -> None:
    """Add rows of which some failed."""
    column = {name: batch.column(at).to_pylist() for at, name in enumerate(OUTPUT)}
    for (
        fact,
        number,
        stamp,
        header,
        key,
        value,
        offset,
        kept,
        failed,
        assigned,
        topic,
        partition,
    ) in zip(*(column[name] for name in OUTPUT), strict=True):
        if fact is not None:
            continue
        rows = found.setdefault(number, Transformed())
        if failed is not None:
            rows.fail(Failure(offset, failed, stamp, key, value, header))
        elif kept and not rows.has_failed(offset):
            if rows.offsets and rows.offsets[-1] > offset:
                raise ValueError("the transform changed the order of records")
            rows.offsets.append(offset)
            rows.timestamps.append(stamp)
            rows.keys.append(key)
            rows.values.append(value)
            rows.headers.append(header)
            rows.assigned.append(assigned or ())
            rows.topics.append(topic)
            rows.partitions.append(partition)
