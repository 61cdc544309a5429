"""Records as Arrow rows: what the SQL of a transform sees, and what comes out of it.

Columns with the prefix ``__k2k_`` are for the task that writes. The last row of a micro-batch has
no record: its ``__k2k_facts`` say how far each partition was read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from k2ktui.engine.state import SourcePartition
from k2ktui.log.batch import CorruptBatch
from k2ktui.log.record import Header, KafkaRecord, TimestampType, record_at
from k2ktui.log.records import I64, Records, encode_nullable, encode_varint, read_varint

if TYPE_CHECKING:
    import pyarrow as pa

FACTS = "__k2k_facts"
READER = "__k2k_reader"
TIME = "__k2k_ms"
HEADERS = "__k2k_headers"
KEPT = "__k2k_kept"
FAILED = "__k2k_failed"
ASSIGNED = "__k2k_assigned"

#: Columns of the records as they are read (Spark DDL).
INPUT = (
    f"{FACTS} BINARY, {READER} INT, {TIME} BIGINT, {HEADERS} BINARY, `key` BINARY, `value` BINARY, "
    "headers ARRAY<STRUCT<key: STRING, value: BINARY>>, topic STRING, `partition` INT, "
    "`offset` BIGINT, timestamp TIMESTAMP"
)
#: Columns of the records as they are written.
OUTPUT = (FACTS, READER, TIME, HEADERS, "key", "value", "offset", KEPT, FAILED, ASSIGNED)

_ROWS = 10_000
_PIECE_BYTES = 4 << 20
_LONGEST_MS = 1 << 52


@dataclass(frozen=True, slots=True)
class RecordFields:
    """The parts of records, in offset order; ``headers`` has their encoded headers."""

    offsets: I64
    timestamps: I64
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    headers: Sequence[bytes]

    def __len__(self) -> int:
        return len(self.keys)


def split_records(found: Records) -> RecordFields:
    """Split the tails of records.

    Raises:
        CorruptBatch: a record is damaged.
    """
    keys, values, headers = [], [], []
    for row, tail in enumerate(found.tails):
        try:
            key, at = _nullable(tail, 0)
            value, at = _nullable(tail, at)
        except IndexError:
            at = len(tail)
        if at >= len(tail):
            raise CorruptBatch(f"the record at {found.offsets[row]} is truncated")
        keys.append(key)
        values.append(value)
        headers.append(tail[at:])
    return RecordFields(found.offsets, found.timestamps, keys, values, headers)


def _nullable(tail: bytes, at: int) -> tuple[bytes | None, int]:
    length, at = read_varint(tail, at)
    return (None, at) if length < 0 else (tail[at : at + length], at + length)


def join_record(key: bytes | None, value: bytes | None, headers: bytes) -> bytes:
    """Return the tail of a record."""
    return encode_nullable(key) + encode_nullable(value) + headers


def join_records(found: Sequence[KafkaRecord]) -> Records:
    """Return records as columns."""
    return Records(
        np.array([each.offset for each in found], dtype=np.int64),
        np.array([each.timestamp_ms for each in found], dtype=np.int64),
        [join_record(each.key, each.value, encode_headers(each.headers)) for each in found],
    )


def encode_headers(headers: Sequence[Header]) -> bytes:
    """Return the headers of a record as its last part."""
    encoded = [encode_varint(len(headers))]
    for name, value in headers:
        encoded += [
            encode_nullable(name.encode("utf-8", "surrogateescape")),
            encode_nullable(value),
        ]
    return b"".join(encoded)


def input_batches(
    number: int, source: SourcePartition, found: Records, *, with_headers: bool
) -> Iterator[pa.RecordBatch]:
    """Yield the records of a partition as Arrow rows.

    Args:
        number: the partition's index in the slot's task.
        source: the partition.
        found: its records.
        with_headers: fill the column ``headers``, which an expression uses.

    Raises:
        CorruptBatch: a record is damaged.
    """
    for part in _pieces(found):
        fields = split_records(part)
        visible = [_headers(part, row) for row in range(len(part))] if with_headers else None
        yield _batch(
            {
                READER: [number] * len(part),
                TIME: part.timestamps,
                HEADERS: fields.headers,
                "key": fields.keys,
                "value": fields.values,
                "headers": visible,
                "topic": [source.topic] * len(part),
                "partition": [source.partition] * len(part),
                "offset": part.offsets,
                "timestamp": np.clip(part.timestamps, -_LONGEST_MS, _LONGEST_MS) * 1000,
            },
            len(part),
        )


def _pieces(found: Records) -> Iterator[Records]:
    """Yield the records in pieces of a limited number and size."""
    ends = np.cumsum(np.fromiter(map(len, found.tails), dtype=np.int64, count=len(found)))
    first = 0
    while first < len(found):
        before = int(ends[first - 1]) if first else 0
        end = int(np.searchsorted(ends, before + _PIECE_BYTES, side="right"))
        end = max(first + 1, min(end, first + _ROWS))
        yield found.take(np.arange(first, end))
        first = end


def facts_batch(facts: bytes) -> pa.RecordBatch:
    """Return the last row of a micro-batch."""
    return _batch({FACTS: [facts]}, 1)


def _headers(found: Records, row: int) -> list[dict[str, Any]]:
    headers = record_at(found, row, TimestampType.CREATE).headers
    # A name that is not UTF-8 is shown with replacement characters; the record keeps its own.
    return [
        {"key": name.encode("utf-8", "surrogateescape").decode("utf-8", "replace"), "value": value}
        for name, value in headers
    ]


def _batch(columns: dict[str, Any], count: int) -> pa.RecordBatch:
    import pyarrow as pa

    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    types = {
        FACTS: pa.binary(),
        READER: pa.int32(),
        TIME: pa.int64(),
        HEADERS: pa.binary(),
        "key": pa.binary(),
        "value": pa.binary(),
        "headers": pa.list_(header),
        "topic": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "timestamp": pa.timestamp("us", tz="UTC"),
    }
    arrays = []
    for name, kind in types.items():
        found = columns.get(name)
        arrays.append(pa.nulls(count, kind) if found is None else pa.array(found, kind))
    return pa.RecordBatch.from_arrays(arrays, names=list(types))


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
    values in turn if it sets all of them. A source offset repeats for each record made of it.
    """

    offsets: list[int] = field(default_factory=list)
    timestamps: list[int] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    headers: list[bytes] = field(default_factory=list)
    assigned: list[Sequence[bytes | None]] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)

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
        for column in (
            self.offsets,
            self.timestamps,
            self.keys,
            self.values,
            self.headers,
            self.assigned,
        ):
            del column[size:]


def collect(batches: Iterable[pa.RecordBatch]) -> tuple[dict[int, Transformed], bytes]:
    """Return the transformed records by partition index, and the facts of the micro-batch.

    Raises:
        ValueError: the row with the facts is missing, or the records are not in offset order.
    """
    found: dict[int, Transformed] = {}
    facts = b""
    for batch in batches:
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
        ) in zip(*(column[name] for name in OUTPUT), strict=True):
            if fact is not None:
                facts = fact
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
    if not facts:
        raise ValueError("a micro-batch ended without its last row")
    return found, facts
