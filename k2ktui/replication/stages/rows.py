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
from k2ktui.log.records import I64, Records, encode_nullable, encode_varint, read_varints
from k2ktui.replication.stages.json_columns import JsonParser

if TYPE_CHECKING:
    import pyarrow as pa

FACTS = "__k2k_facts"
READER = "__k2k_reader"
TIME = "__k2k_ms"
HEADERS = "__k2k_headers"
KEPT = "__k2k_kept"
FAILED = "__k2k_failed"
ASSIGNED = "__k2k_assigned"
PARSED = "__k2k_parsed"

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
    """The parts of records as columns, in offset order; ``headers`` are encoded."""

    offsets: I64
    timestamps: I64
    keys: pa.BinaryArray
    values: pa.BinaryArray
    headers: pa.BinaryArray

    def __len__(self) -> int:
        return len(self.offsets)


@dataclass(frozen=True, slots=True)
class _Parts:
    """Where the parts of records are in ``body``; a negative length is null."""

    body: bytes
    keys: tuple[I64, I64]
    values: tuple[I64, I64]
    headers: tuple[I64, I64]


def check_records(found: Records) -> None:
    """Raise CorruptBatch if a record is damaged."""
    _find_parts(found)


def split_records(found: Records) -> RecordFields:
    """Split the tails of records.

    Raises:
        CorruptBatch: a record is damaged.
    """
    parts = _find_parts(found)
    columns = (_slices(parts.body, *part) for part in (parts.keys, parts.values, parts.headers))
    return RecordFields(found.offsets, found.timestamps, *columns)


def _find_parts(found: Records) -> _Parts:
    body = b"".join(found.tails)
    data = np.frombuffer(body, dtype=np.uint8)
    ends = np.cumsum(np.fromiter(map(len, found.tails), dtype=np.int64, count=len(found)))
    starts = np.concatenate((np.zeros(1, dtype=np.int64), ends))[:-1]
    try:
        key_lengths, keys_at = read_varints(data, starts)
        value_lengths, values_at = read_varints(data, keys_at + np.clip(key_lengths, 0, len(data)))
    except IndexError:
        raise CorruptBatch(
            f"one of the {len(found)} records from {found.offsets[0]} on is truncated"
        ) from None
    headers_at = values_at + np.clip(value_lengths, 0, len(data))
    damaged = np.flatnonzero(headers_at >= ends)
    if len(damaged):
        raise CorruptBatch(f"the record at {found.offsets[damaged[0]]} is truncated")
    return _Parts(
        body, (keys_at, key_lengths), (values_at, value_lengths), (headers_at, ends - headers_at)
    )


def _slices(body: bytes, starts: I64, lengths: I64) -> pa.BinaryArray:
    """Return parts of bytes as a column; null where the length is negative."""
    import pyarrow as pa

    # Every other value is a part; those between are what separates them.
    bounds = np.empty(2 * len(starts) + 1, dtype=np.int32)
    bounds[0:-1:2] = starts
    bounds[1::2] = starts + np.maximum(lengths, 0)
    bounds[-1] = len(body)
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(body)]
    spread = pa.Array.from_buffers(pa.binary(), 2 * len(starts), buffers)
    return spread.take(pa.array(np.arange(0, 2 * len(starts), 2), mask=lengths < 0))


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
    number: int,
    source: SourcePartition,
    found: Records,
    *,
    with_headers: bool,
    parser: JsonParser | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the records of a partition as Arrow rows.

    Args:
        number: the partition's index in the slot's task.
        source: the partition.
        found: its records.
        with_headers: fill the column ``headers``, which an expression uses.
        parser: parses the values; the rows then have the column ``PARSED``.

    Raises:
        CorruptBatch: a record is damaged.
    """
    import pyarrow as pa

    for part in _pieces(found):
        fields = split_records(part)
        visible = [_headers(part, row) for row in range(len(part))] if with_headers else None
        yield _batch(
            {
                READER: np.full(len(part), number),
                TIME: part.timestamps,
                HEADERS: fields.headers,
                "key": fields.keys,
                "value": fields.values,
                "headers": visible,
                "topic": pa.repeat(source.topic, len(part)),
                "partition": np.full(len(part), source.partition),
                "offset": part.offsets,
                "timestamp": np.clip(part.timestamps, -_LONGEST_MS, _LONGEST_MS) * 1000,
                PARSED: None if parser is None else parser.parse(fields.values),
            },
            len(part),
            parser,
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


def facts_batch(facts: bytes, parser: JsonParser | None = None) -> pa.RecordBatch:
    """Return the last row of a micro-batch, with the columns of ``input_batches``."""
    return _batch({FACTS: [facts]}, 1, parser)


def _headers(found: Records, row: int) -> list[dict[str, Any]]:
    headers = record_at(found, row, TimestampType.CREATE).headers
    # A name that is not UTF-8 is shown with replacement characters; the record keeps its own.
    return [
        {"key": name.encode("utf-8", "surrogateescape").decode("utf-8", "replace"), "value": value}
        for name, value in headers
    ]


def _batch(columns: dict[str, Any], count: int, parser: JsonParser | None) -> pa.RecordBatch:
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
    if parser is not None:
        types[PARSED] = pa.struct(parser.schema)
    arrays = []
    for name, kind in types.items():
        found = columns.get(name)
        if not isinstance(found, pa.Array):
            found = pa.nulls(count, kind) if found is None else pa.array(found, kind)
        arrays.append(found)
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
